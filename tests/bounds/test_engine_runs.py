"""Tests of statements on runs of the training engine: the verdict is the same as on the simulator's run of a case."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bounds import Form, Kind, Options, Outcome, get
from bounds.cases.network_pair import NetworkPair
from bounds.federated_run import FederatedFamily, federated_families, federated_run
from bounds.ladders.width_ladder import ladder_families
from ntkfl.algorithm1.reference import EXTENDED
from ntkfl.connectivity.barrier import group_barrier, loss_barrier
from ntkfl.connectivity.ensembles import ensemble_outputs
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from ntkfl.training.methods import fed_gucci
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.wide_training import networks, wide_federation
from verification.compare import judge

FINE = (Outcome.HOLDS, Outcome.TOUCHES)
OBSERVED = (
    "outputs",
    "local_outputs",
    "residual_norm",
    "movement",
    "local_movement",
    "step",
    "total_movement",
    "flips",
)


@pytest.fixture(scope="module")
def pair():
    """Returns the same case on the engine and on the simulator."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((9, 6))
    problem = Problem(x, rng.uniform(-1, 1, 9), np.array([0, 0, 1, 2, 2, 2, 2, 1, 0])).unit()
    setup = Setup(width=512, eta_local=0.1, local_steps=3, rounds=30, eta_global=1.2)
    return federated_run(problem, setup, device="cpu"), federated_run(problem, setup)


def test_what_is_observed_agrees_within_its_errors(pair):
    engine, simulated = pair
    for name in OBSERVED:
        one, other = engine.observed(name), simulated.observed(name)
        assert one.method == "two summation orders"
        assert (np.abs(one.value - other.value) <= one.error + other.error).all(), name
        assert np.abs(one.error).max() < 1e-11, name
    for t, kept in simulated.trajectory.weights.items():
        assert np.abs(engine.trajectory.weights[t] - kept).max() < 1e-12
    assert engine.trajectory.provenance["device"] == "cpu" and "torch" in engine.trajectory.provenance["versions"]
    assert "torch" not in simulated.trajectory.provenance["versions"]


def test_another_arithmetic_needs_no_engine(pair):
    run = replace(pair[0], setup=replace(pair[0].setup, width=8, rounds=2), weights=draw(8, 6, 0))
    run = replace(run, device="no such device").with_arithmetic(EXTENDED)
    assert run.observed("outputs").method.startswith("extended")


@pytest.mark.parametrize("form", [Form.STATED, Form.PROVED])
def test_theorem_b_3_holds_round_by_round(pair, form):
    """In each round |y - y(t+1)|^2 <= (1 - rho lambda/2) |y - y(t)|^2, and the product of these bounds holds too.

    Here rho = eta_g eta_l K / N, and lambda is the smallest eigenvalue of the kernel.
    """
    engine, _ = pair
    statement = get("fl-ntk/B.3")
    assert all(h.met(engine) for h in statement.required(form))
    assert judge(statement, form, engine).outcome in FINE
    if form is statement.mutated_form:
        wrong = [statement.forms[form].mutated(mutant.change) for mutant in statement.mutants]
        assert Outcome.VIOLATED in [judge(statement, form, engine, formula=formula).outcome for formula in wrong]
    squares = engine.observed("residual_norm").value ** 2
    factor = 1 - float(engine.rho.value) * engine.smallest_eigenvalue.lo / 2
    assert (squares[1:] <= factor * squares[:-1]).all() and factor < 1


@pytest.mark.parametrize("name", ["fl-ntk/B.12", "fl-ntk/C.7-movement", "fl-ntk/X.1", "fl-ntk/B.10"])
def test_statements_are_judged_alike_on_both(name, pair):
    """The outcomes on the engine and on the simulator are the same, and the left sides agree."""
    statement = get(name)
    linearised = [replace(run, linearised=True) for run in pair] if name == "fl-ntk/X.1" else pair
    for form in statement.forms:
        engine, simulated = (judge(statement, form, run) for run in linearised)
        assert engine.outcome is simulated.outcome, form
        if statement.kind is Kind.EQUALITY:
            continue  # Rounding decides which entry is the worst, so left sides of equalities are not compared.
        assert abs(engine.left.value - simulated.left.value) <= engine.left.error + simulated.left.error


def test_the_families_carry_the_device():
    for family in federated_families(Options(device="cpu", width=64, rounds=2)):
        assert isinstance(family, FederatedFamily) and family.device == "cpu"
        assert family.case(0).device == "cpu"
    assert all(family.case(0).device is None for family in federated_families(Options(width=64, rounds=2)))


def clients(width, beta, seed=1):
    """Returns the problem and the clients that the engine trained in one round of FedAvg or of FedGuCci(beta)."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((12, 5))
    problem = Problem(x, np.sign(x[:, 0]), np.repeat([0, 1, 2], [3, 5, 4])).unit()
    setup = Setup(width=width, eta_local=0.25, local_steps=8, seed=seed)
    weights = draw(width, 5, seed)
    method = None if beta is None else fed_gucci.method(HalfSquares("sum"), beta=beta, alpha="gauss2")
    federation = wide_federation(problem, setup, weights, method=method)
    return problem, networks(weights, federation.round(federation.start(), keep_ends=True).ends)


@pytest.mark.parametrize("beta", [None, 2.0])
@pytest.mark.parametrize("width", [8, 64])
def test_barriers_of_trained_clients_obey_r2(width, beta):
    """Barriers of trained clients obey the bound of statement R2.

    A pair has either the same initial model or two different initial models. Between different initial models, barriers
    are large enough to test the bound.
    """
    problem, trained = clients(width, beta)
    _, others = clients(width, beta, seed=2)
    statement = get("fedgucci/R2")
    judged = [
        judge(statement, Form.NEW, NetworkPair(first, other, problem.x, problem.y, loss))
        for loss in ("absolute", "logistic")
        for first, other in (
            (trained[0], trained[1]),
            (trained[1], trained[2]),
            (trained[0], others[0]),
            (trained[1], others[2]),
        )
    ]
    assert all(seen.outcome in FINE for seen in judged)
    assert max(float(seen.left.value) for seen in judged) > 1e-3


def test_wide_clients_have_no_barrier_and_average_as_those_of_a_linear_model():
    """In the kernel regime no pair has a barrier, and averaging acts as on a linear model.

    For the squared loss a group's barrier is minus the variance of the clients' outputs (statement X3).
    """
    problem, trained = clients(2**12, None)
    outputs = np.stack([network.outputs(problem.x) for network in trained])
    variance = ((outputs - ensemble_outputs(trained, problem.x)) ** 2).mean()
    assert abs(float(group_barrier(trained, problem.x, problem.y).value) / variance + 1) < 0.02
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert loss_barrier(trained[i], trained[j], problem.x, problem.y).value.hi < 1e-12


@pytest.mark.slow
def test_a_rate_in_the_width_holds_on_the_engines_ladder(monkeypatch):
    monkeypatch.setattr("bounds.ladders.width_ladder.federated_run", partial(federated_run, device="cpu"))
    statement = get("fl-ntk/lazy-weights")
    (family,) = ladder_families(Options(), rounds=30)
    ladder = family.case(3).first_look(1 / 4)
    assert ladder.runs[0][0].device == "cpu"
    assert judge(statement, Form.STATED, ladder).outcome is Outcome.HOLDS
