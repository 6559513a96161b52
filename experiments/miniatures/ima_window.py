"""From which round on, and over how many models, should IMA average to have the best accuracy in the end?"""

from experiments.miniatures.federated import ACCURACY
from experiments.miniatures.ima import COMMON, IMA, MINIATURE as ALONE, PAPER_KEYS, ROUND_TO_ROUND, measure
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting
from experiments.miniatures.step_size import control

BASE = "5 models, from half of the rounds"


def _settings(common: Keys) -> tuple[Setting, ...]:
    def keys(start: float, window: int) -> Keys:
        return {**common, **IMA, "ima_start": start, "ima_window": window}

    rates = {start: f"the rates from {start:g}, no averaging" for start in (0.5, 0.375, 0.75)}
    return (
        Setting(BASE, keys(0.5, 5), control=rates[0.5]),
        Setting("5 models, from 0.375", keys(0.375, 5), BASE, claim={ACCURACY: "lower"}, control=rates[0.375]),
        Setting("5 models, from 0.75", keys(0.75, 5), BASE, claim={ACCURACY: "higher"}, control=rates[0.75]),
        Setting("3 models, from half", keys(0.5, 3), BASE, claim={ROUND_TO_ROUND: "higher"}, control=rates[0.5]),
        Setting(
            "9 models, from half",
            keys(0.5, 9),
            BASE,
            claim={ACCURACY: "lower", ROUND_TO_ROUND: "lower"},
            control=rates[0.5],
        ),
        *(Setting(name, control(keys(start, 5)) or {}, BASE) for start, name in rates.items()),
    )


MINIATURE = Miniature(
    name="ima-window",
    question="From which round on, and over how many models, should IMA average?",
    source="IMA, Figure 7(a) and (b) (CIFAR-10, Dirichlet 0.1; pictures only, smoothed)",
    scale=dict(ALONE.scale) | {"rounds, averaging from": ("400; 150 to 300", "300; 112 to 225")},
    settings=_settings(COMMON),
    quantities=ALONE.quantities,
    measure=measure,
    seeds=ALONE.seeds,
    caveat=(
        "The rate decays faster from the start of averaging on: with an earlier start the rate is also smaller for "
        "longer. So the control of each start has the same rates without averaging, and the gains beyond the control "
        "are compared. The claims are those of section 7.3.1 on FedAvg and FedFA."
    ),
    quick=ALONE.quick,
).also(PAPER, _settings(PAPER_KEYS), seeds=3)
