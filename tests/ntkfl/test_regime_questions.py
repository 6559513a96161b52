"""Tests of the functions that all kernel regimes share: every regime has each of them.

Each of these functions or properties, such as `rate`, is a question to a regime. The regime gives the answer, or its
message says why the regime has no answer and which regime has an answer.
"""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from linear_methods import quietly, ragged

from ntkfl import Setup, kernel_regime, random_rounds, sampled_rounds
from ntkfl.exact_dynamics import KernelRegime, MovingWindow
from ntkfl.limit.infinite_width import Regime
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.limit_curves import limit_curves

PROBLEM = replace(ragged((3, 1, 2)), y=np.array([1.0, -1, 1, 1, -1, -1]))
SETUP = Setup(eta_local=0.2, eta_global=1.4, local_steps=3)
QUESTIONS = {name for name in dir(KernelRegime) if not name.startswith("_")} - {"no_answer"}


@pytest.mark.parametrize(
    "made",
    [
        lambda: kernel_regime(PROBLEM, replace(SETUP, eta_global=1.0), method="fedprox", options={"mu": 0.5}),
        lambda: kernel_regime(PROBLEM, SETUP, ima=MovingWindow(2)),
        lambda: kernel_regime(PROBLEM, SETUP, matrix_free=True),
        lambda: kernel_regime(PROBLEM, SETUP, loss="logistic"),
        lambda: random_rounds(PROBLEM, SETUP, method="fl-ntk", participation=0.7),
    ],
)
@quietly
def test_a_question_without_an_answer_says_why_and_what_to_ask(made):
    regime = made()
    with pytest.raises(AttributeError, match=f"^{type(regime).__name__} has no state_map: it is called round_map$"):
        _ = regime.state_map
    for question in QUESTIONS:
        if question in regime.no_answer:
            assert not hasattr(regime, question)
            with pytest.raises(AttributeError, match=rf"^{type(regime).__name__} has no {question}: .{{20}}"):
                getattr(regime, question)
        else:
            getattr(regime, question)
    assert set(regime.no_answer) <= QUESTIONS


@quietly
def test_a_loss_says_why_it_has_no_rate_and_what_would_have_one():
    regime = kernel_regime(PROBLEM, SETUP, loss="squares")
    with pytest.raises(
        AttributeError, match=r"^ConvexRegime has no rate: with the argument loss a round is no linear map.*`bound`"
    ):
        _ = regime.rate  # type: ignore[attr-defined]
    squares = kernel_regime(PROBLEM, SETUP)  # `squares` is the regime that the message recommends.
    assert np.abs(squares.outputs([3, 9]) - regime.outputs([3, 9])).max() <= 1e-13
    assert regime.movement([0, 3, 9]) == pytest.approx(squares.movement([0, 3, 9]), rel=1e-12)


def test_an_error_within_an_answer_is_not_taken_for_a_missing_one(monkeypatch):
    monkeypatch.setattr(LinearRegime, "rate", property(lambda regime: regime.problem.rows))
    with pytest.raises(AttributeError, match="'Problem' object has no attribute 'rows'"):
        _ = kernel_regime(PROBLEM, SETUP, method="fl-ntk", momentum=0.5).rate
    assert Regime.no_answer == {}


@quietly
@pytest.mark.parametrize("method", ["fl-ntk", "fedavg"])
def test_response_eigenvalues_are_1_less_those_of_the_round_map(method):
    regime = kernel_regime(PROBLEM, SETUP, method=method)
    expected = np.sort(1 - np.linalg.eigvals(regime.round_map).real)
    assert regime.response_eigenvalues == pytest.approx(expected, rel=1e-10)


@quietly
def test_the_method_that_is_taken_where_none_is_named_is_one():
    """If no method is named, the method is FL-NTK's Algorithm 1.

    The unweighted mean of Algorithm 1 differs from FedAvg's mean if clients differ in size. Both methods take
    eta_global as the server's step.
    """
    drawn = random_rounds(PROBLEM, SETUP)
    functions = (kernel_regime, random_rounds, sampled_rounds, limit_curves)
    assert {inspect.signature(function).parameters["method"].default for function in functions} == {"fl-ntk"}
    ours = kernel_regime(PROBLEM, SETUP)
    assert drawn.method == "fl-ntk" and not drawn.deviation(9).any()
    named = kernel_regime(PROBLEM, replace(SETUP, eta_global=1.0), None, "fl-ntk", {"server_rate": 1.4})
    for other in (drawn, named):
        assert np.abs(ours.outputs([0, 1, 9]) - other.outputs([0, 1, 9])).max() <= 1e-14
    with_momentum = [
        kernel_regime(PROBLEM, setup, None, "fl-ntk", options, momentum=0.5)
        for setup, options in ((SETUP, {}), (replace(SETUP, eta_global=1.0), {"server_rate": 1.4}))
    ]
    assert np.array_equal(*(regime.outputs(9) for regime in with_momentum))
    assert with_momentum[0].at_server_rate(1.4).rate == with_momentum[1].rate


@quietly
def test_eta_global_is_the_server_rate_of_any_method():
    for made, given in ((kernel_regime, {}), (random_rounds, {"participation": 0.7})):
        for method, options in (("fl-ntk", {}), ("fedavgm", {"momentum": 0.3}), ("scaffold", {"option": "I"})):
            by_name = made(
                PROBLEM, replace(SETUP, eta_global=1.0), None, method, options | {"server_rate": 1.4}, **given
            )
            by_step = made(PROBLEM, SETUP, None, method, options, **given)
            assert by_step.outputs(9) == pytest.approx(by_name.outputs(9), abs=1e-14)
            if given:
                assert np.array_equal(by_step.deviation(9), by_name.deviation(9))


@quietly
@pytest.mark.parametrize(
    "made",
    [
        lambda: kernel_regime(PROBLEM, SETUP),
        lambda: kernel_regime(PROBLEM, SETUP, None, "scaffold"),
        lambda: kernel_regime(PROBLEM, SETUP, ima=MovingWindow(2)),
        lambda: kernel_regime(PROBLEM, SETUP, matrix_free=True),
        lambda: kernel_regime(PROBLEM, SETUP, None, "fedavgm", matrix_free=True),
        lambda: kernel_regime(PROBLEM, SETUP, loss="logistic"),
        lambda: random_rounds(PROBLEM, SETUP, participation=0.7),
        lambda: random_rounds(PROBLEM, SETUP, eta_local=[0.2, 0.1], participation=0.7),
    ],
)
def test_outputs_and_predictions_are_those_of_the_two_questions(made, monkeypatch):
    regime, points, rng = made(), PROBLEM.x[:2] + 0.1, np.random.default_rng(0)
    start, there = rng.uniform(-1, 1, PROBLEM.n), rng.uniform(-1, 1, 2)
    for rounds in ([0, 3, 7], 4):
        outputs, predicted = regime.outputs_and_predictions(points, rounds, start, there)
        assert np.array_equal(outputs, regime.outputs(rounds, start))
        assert np.array_equal(predicted, regime.predict(points, rounds, start, there))
    if isinstance(regime, LinearRegime):
        asked, rounds_of = [], type(regime)._rounds
        monkeypatch.setattr(type(regime), "_rounds", lambda own, first: asked.append(first) or rounds_of(own, first))
        regime.outputs_and_predictions(points, [7])
        assert len(asked) == 1
