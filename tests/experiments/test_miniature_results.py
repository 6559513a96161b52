"""Tests of results of miniatures, which are small repetitions of the papers' experiments.

The tests concern curves at a plateau, sentences about orderings, and controls of the step size.
"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from test_miniatures import toy

from bounds.fedgucci.cases.linear_case import beta as BETA
from bounds.fedgucci.rescaled_steps import LOCAL, SERVER
from bounds.symbols import eta_global, eta_local
from experiments.miniatures import catalogue
from experiments.miniatures.cells import Cell, run
from experiments.miniatures.comparison import BEYOND, NOT_SEEN, OPPOSITE, SEEN, STEP_SIZE, compared, last_third
from experiments.miniatures.federated import of_rounds, one_image, settings
from experiments.miniatures.miniature import Quantity, Setting
from experiments.miniatures.results.curves import drawn
from experiments.miniatures.results.learnt import sentences
from experiments.miniatures.results.results_page import as_csv, results_page
from experiments.miniatures.step_size import CONTROL_OF, NONE_BECAUSE, TRAINING_IMAGES, control, local_steps, way
from ntkfl.training import FederatedData, Federation, LocalWork, Model
from ntkfl.training.methods import build, catalogue as methods
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.runs.training_run import prepared
from ntkfl.training.schedules import Exponential

CURVE = Quantity("score", "%, mean of the last 3 rounds", last=3, flat=1.0, chance=10.0)
ROUNDS = 30


@pytest.mark.parametrize("rise, spread, state", [(0.3, 0.1, "flat"), (3.0, 0.1, "moves"), (0.3, 3.0, "unclear")])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_line_rises_by_what_it_was_given(rise, spread, state, sign):
    """The estimated rise in the last third of the rounds is the rise that the curves were given.

    The curves of the two seeds rise by rise - spread and rise + spread. Earlier rounds do not matter.
    """
    slopes = [sign * (rise + off) / (ROUNDS // 3 - 1) for off in (-spread, spread)]
    before = np.random.default_rng(0).standard_normal((2, ROUNDS - ROUNDS // 3)) * 50
    curves = [[*old, *(70 + slope * np.arange(ROUNDS // 3))] for old, slope in zip(before, slopes, strict=True)]
    trend = last_third(curves, 1.0, BEYOND)
    assert (trend.change, trend.error) == (pytest.approx(sign * rise), pytest.approx(spread)) and trend.state == state


@given(st.lists(st.lists(st.floats(0, 100), min_size=9, max_size=9), min_size=2, max_size=4), st.floats(-50, 50))
def test_a_level_changes_nothing_and_a_mirror_the_sign(curves, level):
    trend = last_third(curves, 1.0, BEYOND)
    moved = last_third([[level - value for value in curve] for curve in curves], 1.0, BEYOND)
    assert moved.change == pytest.approx(-trend.change, abs=1e-9) and moved.error == pytest.approx(
        trend.error, abs=1e-9
    )


def test_one_seed_shows_no_plateau_and_five_rounds_are_too_few():
    assert last_third([[1.0] * 9], 1.0, BEYOND).state == "unclear"
    with pytest.raises(ValueError, match="the curve has 5 rounds; a plateau needs 6 or more"):
        last_third([[1.0] * 5], 1.0, BEYOND)


def curves(**effects):
    """Returns a miniature whose curves are 60 plus the effect and rise by `rise` over the last third, with
    some noise.
    """
    settings = [Setting("base", {"effect": 0.0, "rise": effects.pop("base_rise", 0.0)})]
    claim = effects.pop("claim", "higher")
    for name, (effect, rise, beside) in effects.items():
        of_it = {"score": claim} if name == "more" else {}
        settings.append(Setting(name, {"effect": effect, "rise": rise}, "base", claim=of_it, control=beside))

    def measure(keys, seed):
        ramp = np.clip((np.arange(ROUNDS) - 20) / 9, 0, 1)
        noise = 0.05 * np.random.default_rng([seed, int(1000 * abs(keys["effect"]))]).standard_normal()
        return {"score": list(60 + keys["effect"] + noise + keys["rise"] * (ramp - 1))}

    return toy(measure, *settings, quantities=(CURVE,))


def ordering(miniature):
    return next(row for row in compared(miniature, run(miniature, range(4))) if row.setting == "more")


@pytest.mark.parametrize(
    "effect, of_control, verdict",
    [(2.0, 1.0, SEEN), (2.0, 2.0, STEP_SIZE), (2.0, 3.0, STEP_SIZE), (-2.0, -3.0, OPPOSITE), (0.0, -1.0, NOT_SEEN)],
)
def test_an_ordering_is_seen_only_beyond_its_control(effect, of_control, verdict):
    comparison = ordering(curves(more=(effect, 0.0, "same"), same=(of_control + 0.001, 0.0, None)))
    assert comparison.verdict == verdict and comparison.ordering == f"higher: {verdict}"
    assert comparison.beyond == pytest.approx(effect - of_control, abs=0.2) and comparison.beyond_error < 0.1
    alone = ordering(curves(more=(effect, 0.0, None)))
    assert alone.verdict == {2.0: SEEN, -2.0: OPPOSITE, 0.0: NOT_SEEN}[effect] and math.isnan(alone.beyond)


def test_where_the_baseline_has_a_control_the_gains_over_the_controls_are_compared():
    """If the baseline has a control of the step size too, the gains over the controls are compared.

    'more' is 2 above its baseline. Its control is 2 or 1 above the baseline's control.
    """
    for of_controls, verdict in ((2.0, STEP_SIZE), (1.0, SEEN)):
        effects = {"base": 1.0, "more": 3.0, "base alone": 0.5, "more alone": 0.5 + of_controls}
        controls = {"base": "base alone", "more": "more alone"}
        settings = tuple(
            Setting(
                name,
                {"effect": effect},
                None if name == "base" else "base",
                claim={"score": "higher"} if name == "more" else {},
                control=controls.get(name),
            )
            for name, effect in effects.items()
        )

        def measure(keys, seed):
            noise = 0.05 * np.random.default_rng([seed, int(1000 * keys["effect"])]).standard_normal()
            return {"score": 60 + 5 * seed + keys["effect"] + noise}  # A seed changes all settings alike.

        comparison = ordering(toy(measure, *settings, quantities=(Quantity("score", "%"),)))
        assert comparison.difference == pytest.approx(2, abs=0.2)
        assert comparison.beyond == pytest.approx(2 - of_controls, abs=0.2) and comparison.beyond_error < 0.1
        assert comparison.verdict == verdict


@pytest.mark.parametrize("where", ["base", "more", "same"])
def test_an_ordering_of_curves_that_move_is_one_before_the_plateau(where):
    rises = {"base": 0.0, "more": 0.0, "same": 0.0, where: 5.0}
    more, same = (2.0, rises["more"], "same"), (0.001, rises["same"], None)
    comparison = ordering(curves(more=more, same=same, base_rise=rises["base"]))
    assert comparison.ordering == f"higher: {SEEN}, before the plateau"


def test_at_chance_nothing_is_claimed():
    here = curves(more=(-50.0, 0.0, None), claim="lower")
    assert ordering(here).ordering == "no claim: at chance here"
    assert ordering(curves(more=(-40.0, 0.0, None), claim="lower")).ordering == f"lower: {SEEN}"


def test_less_than_one_test_image_is_no_difference():
    """A difference smaller than one test image does not count.

    Seeds that agree to the last digit have no spread, so that any difference would count as a finding.
    """
    settings = Setting("base", {"effect": 0.0}), Setting("more", {"effect": 0.2}, "base", claim={"score": "higher"})
    for image, finding in ((0.28, "within noise"), (0.2, "higher"), (0.1, "higher")):
        quantity = Quantity("score", "%", resolution=lambda keys, image=image: image)
        one = toy(lambda keys, seed: {"score": 70 + 0.1 * seed + keys["effect"]}, *settings, quantities=(quantity,))
        assert ordering(one).finding == finding and 0 <= ordering(one).difference_error < 1e-12
        assert "| +0.20 ± 0.00 |" in results_page([(one, run(one, range(4)))], ""), "an error of rounding has no digits"


def test_the_page_and_the_picture_show_control_and_plateau(tmp_path):
    miniature = curves(more=(2.0, 5.0, "same"), same=(1.001, 0.0, None))
    cells = run(miniature, range(4), tmp_path)
    assert run(miniature, range(4), tmp_path) == cells and all(len(cell.curves["score"]) == ROUNDS for cell in cells)
    assert cells[1].numbers["score"] == pytest.approx(np.mean(cells[1].curves["score"][-3:]))
    text = results_page([(miniature, cells)], "")
    (row,) = (line for line in text.splitlines() if line.startswith("| more"))
    assert row.endswith(f"moves | higher | higher: {SEEN}, before the plateau |") and row.count("±") == 4
    assert "| 1 | 0 | 0 | 0 | 0 |" in text and "docs/curves/toy.svg" in text
    assert ",moves" not in as_csv([(miniature, cells)]) and "last third" in as_csv([(miniature, cells)])
    (panel,) = (axes for axes in drawn(miniature, cells).axes if axes.lines)
    assert [line.get_label() for line in panel.lines] == ["base", "more", "same"]
    assert [line.get_linestyle() for line in panel.lines] == ["-", "-", "--"]
    np.testing.assert_allclose(panel.lines[1].get_ydata(), np.mean([c.curves["score"] for c in cells[1::3]], axis=0))
    assert panel.get_ylabel() and panel.get_xlabel()


def planted(name, values, rise=0.0):
    """Returns the miniature with invented results: given values for some settings, 70 for all others, and tiny
    noise.
    """
    miniature, cells = catalogue()[name], []
    for setting in miniature.settings:
        for seed in range(4):
            noise = 0.02 * np.random.default_rng([seed, len(setting.name)]).standard_normal()
            level = values.get(setting.name, 70.0) + noise
            curve = level + rise * np.clip(np.arange(-20, 10) / 9, 0, 1) - rise
            measured = {
                q.name: level if q.flat is None else float(np.mean(curve[-q.last :])) for q in miniature.quantities
            }
            curves = {q.name: curve.tolist() for q in miniature.quantities if q.flat is not None}
            cells.append(Cell(miniature.label, setting.name, seed, setting.keys, measured, curves=curves))
    return miniature, cells


def of(about, results):
    return next((sentence for sentence in sentences(results) if re.search(about, sentence)), "")


@pytest.mark.parametrize(
    ("control", "says"),
    [(72.0, "In 0 of these it is also above its control"), (71.0, "In 3 of these it is also above its control")],
)
def test_what_remains_of_fedgucci_is_counted_against_its_controls(control, says):
    values = {f"FedGuCci, {passes} passes": 72.0 for passes in (1, 3, 10)}
    values |= {f"control of FedGuCci, {passes} passes": control for passes in (1, 3, 10)}
    results = [planted("local-epochs", values)]
    assert says in of("^FedGuCci is above", results)
    assert ("the other 3 may be the effect of a larger step alone" in of("^FedGuCci is above", results)) == (
        control == 72.0
    )
    assert f"{72 - control:+.1f}" in of("above the gain of its control", results)
    word = "3 are seen but are no more" if control == 72.0 else "3 are seen here beyond the effect"
    assert word in of("^Of 3 orderings", results)


def test_equal_runs_of_two_names_count_once():
    """Runs that are equal under two names count once.

    FedNova is FedAvg if clients take equally many steps, so one of the nine comparisons is left out.
    """
    names = [setting.name for setting in catalogue()["ima-methods"].settings]
    miniature, cells = planted("ima-methods", {name: 60.0 + 0.37 * k**1.5 for k, name in enumerate(names)})
    fedavg = [cell for cell in cells if cell.setting.startswith("FedAvg")]
    of_fedavg = {(cell.setting.replace("FedAvg", "FedNova"), cell.seed): cell.numbers for cell in fedavg}
    equal = [replace(cell, numbers=of_fedavg.get((cell.setting, cell.seed), cell.numbers)) for cell in cells]
    assert "of 9 comparisons" in of("^IMA is", [(miniature, cells)])
    assert "of 8 comparisons" in of("^IMA is", [(miniature, equal)])


def test_orderings_without_a_control_are_not_called_beyond_the_step_size():
    results = [planted("plane", {})]
    judged = [row for row in compared(*results[0]) if row.claim]
    assert judged and not any(row.beyond_finding for row in judged)
    assert "0 are seen here beyond the effect of the step size" in of("^Of ", results)


def test_a_radius_of_zero_is_not_sharpness_aware():
    count = len([s for s in catalogue()["ablation"].settings if s.keys["method"] == "fedgucci+"])
    assert f"of {count - 1} settings" in of("sharpness-aware", [planted("ablation", {})])


def test_orderings_before_a_plateau_are_named():
    values = {f"FedGuCci, {passes} passes": 72.0 for passes in (1, 3, 10)}
    assert "local-epochs (3)" in of("curves still move", [planted("local-epochs", values, rise=5.0)])
    assert not of("curves still move", [planted("local-epochs", values)])


def test_every_miniature_that_a_sentence_names_has_those_settings():
    """The results are invented for all small miniatures.

    The page begins with the list of all sentences about the results, and each sentence is in this list once.
    """
    results = [planted(name, {}) for name in catalogue()]
    said = sentences(results)
    for about in (
        "^FedDyn",
        "^SCAFFOLD",
        "^IMA is",
        "^Models that were trained",
        "the released FedGuCci, with two steps",
        "sharpness-aware",
    ):
        assert sum(bool(re.search(about, sentence)) for sentence in said) == 1, about
    text = results_page(results, "")
    assert text.index("1. " + said[0]) < text.index("| miniature |") and len(said) <= 10
    assert all(sentence.endswith(".") and "nan" not in sentence for sentence in said)


def test_results_without_orderings_say_nothing():
    assert not sentences([]) and not sentences([(toy(lambda keys, seed: {"score": 1.0}), [])])


SIZES = 6, 6, 6, 6  # The sizes are equal, so that the weighted mean is the unweighted one.
KEYS = {"data": "digits", "clients": 4, "rate": 0.1, "momentum": 0.0, "local_steps": 5, "batch_size": "full"}


def line_data(scale, sizes=SIZES):
    """Returns linear regressions of clients that differ; a small scale makes curvatures small relative to gradients."""
    rng = np.random.default_rng(2)
    x = scale * rng.standard_normal((sum(sizes), 3))
    y = rng.standard_normal(len(x)) + np.repeat(rng.standard_normal(len(sizes)), sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return FederatedData(torch.tensor(x), torch.tensor(y), owner, len(sizes))


def moves(keys, scale=1.0, rounds=3, **changes):
    """Returns how far the global weights of f(x) = w . x have moved after each round, (rounds, 3)."""
    model = Model(
        "line", lambda seed: {"w": torch.zeros(3, dtype=torch.float64)}, lambda p, x: x, lambda p, z: z @ p["w"]
    )
    federation = Federation(
        model,
        line_data(scale),
        build(keys["method"], HalfSquares(), **keys.get("options", {})),
        Exponential(keys["rate"]),
        SGD(keys["momentum"]),
        LocalWork(batch_size=None, steps=keys["local_steps"]),
        seed=1,
        **changes,
    )
    state, models = federation.start(), []
    for _ in range(rounds):
        state = federation.round(state).state
        models.append(state.model["w"].numpy())
    return np.array(models)


def apart(one, other):
    return np.abs(one - other).max() / np.abs(other).max()


@pytest.mark.parametrize("alpha", ["gauss2", "half"])
@pytest.mark.parametrize(("beta", "momentum"), [(0.1, 0.0), (1.0, 0.9), (6.0, 0.5)])
def test_fedgucci_is_its_control_exactly_where_outputs_are_linear(alpha, beta, momentum):
    keys = KEYS | {"method": "fedgucci", "options": {"beta": beta, "alpha": alpha}, "momentum": momentum, "rate": 0.02}
    own, theirs = moves(keys, participation=0.5), moves(control(keys), participation=0.5)
    assert apart(own, theirs) < 1e-12
    assert apart(own, moves(keys | {"method": "fedavg", "options": {}}, participation=0.5)) > 0.1 * min(beta, 1)


def test_the_factors_are_those_of_x4():
    keys = KEYS | {"method": "fedgucci", "options": {"beta": 0.7}}
    at = {BETA: 0.7, eta_local: 0.1, eta_global: 1}
    theirs = control(keys)
    assert theirs["rate"] == pytest.approx(float(LOCAL.subs(at)), abs=1e-15)
    assert theirs["options"] == {"server_rate": pytest.approx(float(SERVER.subs(at)), abs=1e-15)}


@pytest.mark.parametrize(
    "method, options",
    [
        ("fedgucci", {"beta": 0.5, "alpha": "half", "step": "sequential"}),
        ("fedgucci", {"beta": 0.5, "anchors": 2, "alpha": "gauss2"}),
        ("fedprox", {"mu": 2.0}),
        ("fednova", {}),
        ("scaffold", {}),
    ],
)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_to_the_first_order_in_the_curvature_a_method_is_its_control(method, options, momentum):
    """To the first order in the curvature a method equals its control.

    At a tenth of the scale the curvature is a hundredth, and so is the first round's difference from the control.
    """
    keys = KEYS | {"method": method, "options": options, "momentum": momentum}
    small, tiny = (apart(moves(keys, s, 1), moves(control(keys), s, 1)) for s in (0.1, 0.01))
    assert tiny < 0.02 * small + 1e-12 and small < 0.1
    if method in ("fedgucci", "fedprox"):
        assert apart(moves(keys, 0.01, 1), moves(keys | {"method": "fedavg", "options": {}}, 0.01, 1)) > 0.1


def test_feddyn_is_a_servers_momentum_to_the_first_order_in_alpha():
    for alpha in (0.1, 0.01):
        keys = KEYS | {"method": "feddyn", "options": {"alpha": alpha}, "rounds": 8}
        theirs = control(keys)
        assert theirs["options"]["momentum"] == pytest.approx(1 - alpha * 0.1 * way(5, 0.0, 0.1 * alpha))
        own = moves(keys, 0.05, 8)
        assert apart(own, moves(theirs, 0.05, 8)) < 0.6 * alpha  # The difference is about alpha/2.
        assert apart(own, moves(keys | {"method": "fedavg", "options": {}}, 0.05, 8)) > 2


def test_fedavgm_ends_at_the_control_s_pace():
    """In the end a round of FedAvgM moves as far as a round of FedAvg at the server's rate / (1 - momentum).

    This holds once the momentum's velocity has built up.
    """
    keys = KEYS | {"method": "fedavgm", "options": {"momentum": 0.8}}
    own, theirs = (np.diff(moves(options, 0.01, 60), axis=0)[-1] for options in (keys, control(keys)))
    np.testing.assert_allclose(own, theirs, rtol=0.02)


def test_with_adam_the_gradients_size_has_no_part():
    keys = KEYS | {"method": "fedgucci", "options": {"beta": 1.0}, "optimizer": "adam"}
    theirs = control(keys | {"momentum": 0.0})
    assert theirs["rate"] * theirs["options"]["server_rate"] == pytest.approx(0.1)
    assert control(keys | {"method": "fedprox", "options": {}}) is None


def test_imas_control_has_its_rates_and_no_averaging():
    keys = KEYS | {"method": "fedprox", "ima": True, "rounds": 20}
    assert control(keys) == keys | {"ima_window": 1} and control(control(keys)) is None
    assert control(keys | {"ima_exploration": "none"}) == KEYS | {"method": "fedprox", "rounds": 20}
    assert control(keys | {"ima_released": True}) == control(keys)
    late = keys | {"ima_exploration": "cyclic", "ima_released": True}
    assert control(late) == late | {"ima_window": 1}


def test_a_way_is_a_loop_of_constant_gradients():
    for momentum, pull in ((0.0, 0.0), (0.9, 0.0), (0.5, 0.2)):
        walked = velocity = 0.0
        for _ in range(7):
            velocity = momentum * velocity + 1 - pull * walked
            walked += velocity
        assert way(7, momentum, pull) == pytest.approx(walked, rel=1e-12)


@pytest.mark.parametrize("share", [1, 0.8])
def test_local_steps_are_the_engines(share):
    keys = {"data": "digits", "model": "mlp:8", "clients": 10, "partition": "iid", "epochs": 3, "batch_size": 60}
    keys |= {"train_share": share}
    job = prepared(**keys, rounds=1)
    assert abs(len(job.federation.data.x) - share * TRAINING_IMAGES["digits"]) < 10
    assert one_image(keys) == 100 / len(job.federation.data.x_test)
    metrics = job.train().metrics
    assert local_steps(keys) == metrics["local_steps"][-1] / metrics["cohort"][-1]


def test_every_method_has_a_control_or_a_reason():
    """Every method has a control of its step size, or a reason why it has none.

    A method that is FedAvg at some rate, or that never trains clients side by side, needs no control.
    """
    of_classes = {"data": "digits", "clients": 4, "epochs": 1, "batch_size": 10, "rate": 0.1}
    without = {name for name in methods() if control(of_classes | {"method": name}) is None}
    assert without == set(NONE_BECAUSE) | {"fedavg", "fl-ntk"}
    assert set(CONTROL_OF) == set(methods()) - without


@pytest.mark.parametrize("scale", ["small", "middle", "paper"])
def test_every_fedgucci_of_every_miniature_has_its_control(scale):
    count = 0
    for miniature in catalogue().values():
        if scale not in (miniature.at, *miniature.larger):
            continue
        there = {setting.name: setting for setting in miniature.on(scale).settings}
        for setting in there.values():
            if str(setting.keys.get("method")).startswith("fedgucci"):
                assert setting.control is not None, setting.name
                base, other = there[setting.against].keys, there[setting.control].keys
                assert other == control(setting.keys) and other["method"] == base["method"] == "fedavg"
                assert {**other, "rate": base["rate"], "options": {}} == {**base, "options": {}}
                count += 1
    assert count > 1


def test_with_other_rounds_a_control_is_that_of_its_setting():
    """With another number of rounds, a control is computed anew from its setting.

    FedDyn's control depends on the number of rounds. With its own number of rounds a miniature is unchanged.
    """
    for miniature in catalogue().values():
        own = {setting.keys.get("rounds") for setting in miniature.settings}
        if own != {None} and len(own) == 1:
            assert of_rounds(miniature, *own).settings == miniature.settings
    changed = {setting.name: setting for setting in of_rounds(catalogue()["ordering"], 250).settings}
    assert all(setting.keys["rounds"] == 250 for setting in changed.values())
    assert changed["control of FedDyn"].keys == control(changed["FedDyn"].keys)
    assert of_rounds(catalogue()["ordering"], 250).scale["rounds"] == ("400", "250")


def test_a_control_stands_once_beside_those_that_share_it():
    common = KEYS | {"method": "fedavg"}
    connected = {"method": "fedgucci", "options": {"beta": 1.0}}
    named = {"FedAvg": {}, "one": connected, "two": connected | {"options": {"beta": 1.0, "anchors": 2}}}
    listed = settings(common, named, "FedAvg", named="{}, here")
    assert [setting.name for setting in listed] == ["FedAvg, here", "one, here", "control of one, here", "two, here"]
    assert [setting.control for setting in listed] == [None, "control of one, here", None, "control of one, here"]
    assert listed[2].keys == control(listed[1].keys) and listed[2].against == "FedAvg, here"
    plain = settings(common, {"FedAvg": {}, "FedNova": {"method": "fednova"}}, "FedAvg")
    assert [setting.control for setting in plain] == [None, None], "its control is the baseline"


def test_a_wrong_factor_would_be_noticed():
    """The exact test above would notice a wrong factor in the control.

    With beta/2 in place of beta/3 in the local rate it would fail, even if the product of the rates is the same.
    """
    keys = KEYS | {"method": "fedgucci", "options": {"beta": 1.0, "alpha": "gauss2"}, "rate": 0.02}
    wrong = control(keys) | {"rate": 0.02 * 1.5, "options": {}}
    assert apart(moves(keys), moves(wrong)) > 1e-3
