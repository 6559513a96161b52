"""Controls: the step size that a method amounts to, against the engine's own runs where outputs are linear."""

import numpy as np
import pytest
import torch

from bounds.fedgucci.cases.linear_case import beta as BETA
from bounds.fedgucci.rescaled_steps import LOCAL, SERVER
from bounds.symbols import eta_global, eta_local
from experiments.miniatures import catalogue
from experiments.miniatures.federated import of_rounds, one_image, settings
from experiments.miniatures.step_size import CONTROL_OF, NONE_BECAUSE, TRAINING_IMAGES, control, local_steps, way
from ntkfl.training import FederatedData, Federation, LocalWork, Model
from ntkfl.training.methods import build, catalogue as methods
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.runs.training_run import prepared
from ntkfl.training.schedules import Exponential

SIZES = 6, 6, 6, 6  # equal sizes, so that the weighted mean is the unweighted one
KEYS = {"data": "digits", "clients": 4, "rate": 0.1, "momentum": 0.0, "local_steps": 5, "batch_size": "full"}


def line_data(scale, sizes=SIZES):
    """Linear regressions of clients that differ; a small scale makes curvatures small beside the gradients."""
    rng = np.random.default_rng(2)
    x = scale * rng.standard_normal((sum(sizes), 3))
    y = rng.standard_normal(len(x)) + np.repeat(rng.standard_normal(len(sizes)), sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return FederatedData(torch.tensor(x), torch.tensor(y), owner, len(sizes))


def moves(keys, scale=1.0, rounds=3, **changes):
    """How far the global weights of f(x) = w . x have moved after each round, (rounds, 3)."""
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
    """At a tenth of the scale, the curvature and the first round's difference from its control are a hundredth."""
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
        assert apart(own, moves(theirs, 0.05, 8)) < 0.6 * alpha  # the difference is about alpha/2
        assert apart(own, moves(keys | {"method": "fedavg", "options": {}}, 0.05, 8)) > 2


def test_fedavgm_ends_at_the_control_s_pace():
    """Once the velocity has built up, a round moves as far as one of FedAvg at the server's rate / (1 - momentum)."""
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
    """A method that is FedAvg at some rate, or never trains clients side by side, needs neither control."""
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
    """With its own number of rounds a miniature is unchanged; FedDyn's control depends on the number."""
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
    """With beta/2 for beta/3 in the local rate and the same product of rates, the exact test above would fail."""
    keys = KEYS | {"method": "fedgucci", "options": {"beta": 1.0, "alpha": "gauss2"}, "rate": 0.02}
    wrong = control(keys) | {"rate": 0.02 * 1.5, "options": {}}
    assert apart(moves(keys), moves(wrong)) > 1e-3
