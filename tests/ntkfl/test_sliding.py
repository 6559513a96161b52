"""Tests of neurons that training holds at kinks, and of the forces that hold these neurons there.

Such neurons slide along their kinks. The kernel of a network with such neurons is tested too.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds.fl_ntk.cases import sliding_ladder
from bounds.fl_ntk.cases.sliding_ladder import STARTS, STEP_SIZES, TIME, sliding_case
from ntkfl import Problem, Setup, Weights, data, gram, simulate
from ntkfl.finite_width.boundary_layer import sliding
from ntkfl.initialisation import draw


def network(seed, n=4, d=6, width=30):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return Problem(x, np.zeros(n)), Weights(rng.standard_normal((width, d)), rng.choice([-1.0, 1.0], width)), rng


def test_without_pairs_it_is_the_networks_own_gram_matrix():
    problem, weights, _ = network(0)
    none = sliding(problem, weights, np.zeros((0, 2), int))
    assert none.kernel() == pytest.approx(gram.finite(problem.x, weights.hidden), abs=1e-12)
    assert none.activations(np.ones(4)).shape == none.held(np.ones(4)).shape == (0,)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), both=st.booleans())
def test_the_activation_keeps_a_neuron_at_all_its_kinks(seed, both):
    problem, weights, rng = network(seed)
    pairs = np.array([[3, 0], [7, 2], [3, 1]][: 3 if both else 2])
    held_pairs, residual = sliding(problem, weights, pairs), rng.uniform(0.1, 1, 4) * rng.choice([-1, 1], 4)
    psi = held_pairs.activations(residual)
    for neuron in {3, 7}:
        active = held_pairs.patterns[neuron].astype(float)
        here = pairs[:, 0] == neuron
        active[pairs[here, 1]] = psi[here]
        force = (active * residual) @ problem.x
        assert np.abs(force @ problem.x[pairs[here, 1]].T).max() <= 1e-9 * (1 + np.abs(psi).max()) * 10
        # The features along the kinks give the same force.
        along = weights.signs[neuron] / np.sqrt(30) * force
        assert np.einsum("i,id->d", residual, held_pairs.features()[:, neuron]) == pytest.approx(along, abs=1e-9)
    for (r, i), value, held in zip(pairs, psi, held_pairs.held(residual), strict=True):
        assert held == (0 < value < 1 and weights.signs[r] * residual[i] < 0)


def test_the_kernel_is_that_of_gradients_along_the_kinks():
    """The kernel is that of gradients along the kinks.

    The expected kernel is computed by a loop over neurons, with an orthonormal basis of the hyperplane of each kink.
    """
    problem, weights, _ = network(5)
    pairs = np.array([[0, 1], [4, 3], [4, 0]])
    kernel, patterns = np.zeros((4, 4)), weights.hidden @ problem.x.T >= 0
    for r in range(30):
        at = pairs[pairs[:, 0] == r, 1]
        active = patterns[r].copy()
        active[at] = False
        basis = np.linalg.svd(problem.x[at])[2][len(at) :] if len(at) else np.eye(6)
        inside = (problem.x @ basis.T) * active[:, None]
        kernel += inside @ inside.T / 30
    sliding_kernel = sliding(problem, weights, pairs).kernel()
    assert sliding_kernel == pytest.approx(kernel, abs=1e-12)
    whole = sliding(problem, weights, np.zeros((0, 2), int)).kernel()
    assert np.linalg.eigvalsh(whole - sliding_kernel)[0] >= -1e-12  # Projections only reduce the kernel.


def test_the_residual_approaches_the_limit_of_no_other_kernel():
    """The residual does not approach the limits that two other kernels give.

    The first kernel has the activation patterns of the start. The second leaves out each neuron at the samples at whose
    kinks it is held, but projects nothing.
    """
    case = sliding_case(1)
    projected = case.runs[0][-1].mean()
    flat = case.sliding.patterns * (case.weights.signs / 8)[:, None]
    left_out = (case.x @ case.x.T) * (flat.T @ flat)
    for kernel in (gram.finite(case.x, case.weights.hidden), left_out):
        rates, modes = np.linalg.eigh(kernel)
        other = modes @ (np.exp(-TIME * rates) * (modes.T @ case.residual))
        assert np.linalg.norm(other - case.limit) > 20 * projected


def test_a_run_with_clients_and_local_steps_is_algorithm_1():
    """A run with clients and local steps is Algorithm 1.

    From starts at kinks, the run of `simulate` ends at the same distance from the limit as the rounds that the case
    computes itself.
    """
    case = sliding_case(2, clients=2, local_steps=3)
    y = case.weights.outputs(case.x) + case.residual
    problem = Problem(case.x, y, np.array([0, 1, 0, 1]))
    setup = Setup(64, eta_local=2 / 3 / 32, local_steps=3, rounds=16)
    run = simulate(problem, setup, case.weights, keep=[16])
    left = np.linalg.norm(y - run.outputs[16] - case.limit)
    assert left > 1e-5
    assert case._descend(1 / 32, np.zeros((STARTS, 6)))[0] == pytest.approx(np.full(STARTS, left), abs=1e-9)


def test_one_local_step_on_several_clients_is_gradient_descent():
    alone, together = sliding_case(1, held=2), sliding_case(1, held=2, clients=2)
    for run, other in zip(alone.runs, together.runs, strict=True):
        assert run == pytest.approx(other, abs=1e-9)


@pytest.mark.slow
def test_with_local_steps_most_held_pairs_cross_on_their_client_only():
    """With local steps, most neurons held at a sample's kink cross it only in the local steps of that sample's client.

    Late in training, only the round map with all held pairs projected out predicts the residual.
    """
    n, width, clients, local_steps, eta, rounds, window = 20, 200, 4, 5, 0.03, 4000, 100
    problem = data.digits(n=n, clients=clients)
    drawn = draw(width, problem.d, 0)
    a, w, x = drawn.signs / np.sqrt(width), drawn.hidden, problem.x
    active, sides, before = np.zeros((width, n)), [], None
    for t in range(rounds):
        if t >= rounds - window:
            before = problem.y - a @ np.maximum(w @ x.T, 0) if before is None else before
            sides.append(w @ x.T >= 0)
        total = np.zeros_like(w)
        for own in problem.members:
            local = w
            for _ in range(local_steps):
                z = local @ x[own].T
                on, r = z >= 0, problem.y[own] - a @ np.maximum(z, 0)
                if t >= rounds - window:
                    active[:, own] += on / (window * local_steps)
                local = local + eta * (a[:, None] * on * r) @ x[own]
            total += local
        w = total / clients
    after = problem.y - a @ np.maximum(w @ x.T, 0)

    held = (active > 0.01) & (active < 0.99)
    crossing = (np.diff(np.array(sides), axis=0).sum(axis=0) >= 3) & held
    assert 3 * crossing.sum() < held.sum()

    held_pairs = sliding(problem, Weights(w, drawn.signs), np.argwhere(held))
    assert held_pairs.held(after).all()
    assert np.median(np.abs(held_pairs.activations(after) - active[held])) < 0.05

    def off(kernel):
        local = np.eye(n) - eta * kernel * (problem.owner[:, None] == problem.owner)
        pull = sum(np.linalg.matrix_power(local, k) for k in range(local_steps))
        step = np.eye(n) - eta / clients * kernel @ pull
        return np.linalg.norm(np.linalg.matrix_power(step, window) @ before - after) / np.linalg.norm(after)

    only_crossing = sliding(problem, Weights(w, drawn.signs), np.argwhere(crossing))
    assert 10 * off(held_pairs.kernel()) < min(off(only_crossing.kernel()), off(gram.finite(x, w)))


def test_a_drawn_case_is_what_it_says():
    for seed in range(3):
        case = sliding_case(seed, held=3)
        z = case.weights.hidden @ case.x.T
        neuron, sample = case.pairs.T
        assert np.abs(z[neuron, sample]).max() <= 1e-12 and len(case.pairs) == 3
        assert (case.weights.signs[neuron] * case.residual[sample] < 0).all()
        assert case.activations.shape == (65, 3) and ((case.activations[0] > 0.2) & (case.activations[0] < 0.8)).all()
        assert case.limit == pytest.approx(case._flow[0][-1]) and case.runs[0].shape == (len(STEP_SIZES), STARTS)
    repelled = sliding_case(0, repelled=True)
    assert repelled.pushed_back == -1 and sliding_case(0, near=True).clearance < 0


def test_what_is_no_pair_is_refused():
    problem, weights, _ = network(0)
    for pairs, message in (
        ([[30, 0]], r"pair \[30, 0\] is none of 30 neurons, 4 samples"),
        ([[0, -1]], r"pair \[0, -1\] is none"),
        ([[1, 1], [1, 1]], "a pair .* is given twice"),
    ):
        with pytest.raises(ValueError, match=message):
            sliding(problem, weights, np.array(pairs))
    with pytest.raises(ValueError, match="the residual of sample 2 is 0"):
        sliding(problem, weights, np.array([[1, 2]])).activations(np.array([1.0, 1.0, 0.0, 1.0]))
    twice = Problem(np.vstack([problem.x, problem.x[:1]]), np.append(problem.y, 0.0))
    with pytest.raises(ValueError, match=r"samples \[0, 4\], all held at neuron 3, are linearly dependent"):
        sliding(twice, weights, np.array([[3, 0], [3, 4]])).activations(np.ones(5))


def test_more_neurons_held_than_any_draw_has_are_refused(monkeypatch):
    monkeypatch.setattr(sliding_ladder, "DRAWS", 2)
    with pytest.raises(ValueError, match="none of 2 networks has 65 neurons that a kink holds"):
        sliding_case(0, held=65)
