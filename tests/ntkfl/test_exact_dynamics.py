"""Tests of the kernel regime against FedAvg on a model's parameters.

The regime's spectrum, its limits in N, K and time, and its refusals are tested too. H is the Gram matrix, q an
eigenvalue of a client's block of H, N the number of clients and K the number of local steps. P is the block diagonal
matrix of the clients' responses, and M = I - (eta_g/N) H P is the map of a round.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ntkfl
from ntkfl import Problem, Setup, kernel_regime
from ntkfl.exact_dynamics import UnstableSteps, warn_if_unstable
from ntkfl.fastest_method import fastest
from ntkfl.gram import infinite
from ntkfl.limit.infinite_width import KernelRegime


def unit_rows(rng, n, d):
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def fedavg(phi, y, owner, setup, theta, loss_scale=1.0):
    """Runs Algorithm 1 for the linear model phi @ theta in plain loops.

    Returns outputs, local outputs and parameters.
    """
    clients = [np.flatnonzero(owner == c) for c in range(owner.max() + 1)]
    outputs, local_outputs, path = [phi @ theta], [], [theta]
    for _ in range(setup.rounds):
        seen, ends = np.empty((setup.local_steps + 1, *y.shape)), []
        for mine in clients:
            w = theta.copy()
            seen[0, mine] = phi[mine] @ w
            for k in range(setup.local_steps):
                w = w - setup.eta_local * loss_scale * phi[mine].T @ (phi[mine] @ w - y[mine])
                seen[k + 1, mine] = phi[mine] @ w
            ends.append(w)
        theta = theta + setup.eta_global * (np.mean(ends, axis=0) - theta)
        local_outputs.append(seen)
        outputs.append(phi @ theta)
        path.append(theta)
    return np.array(outputs), np.array(local_outputs), np.array(path)


def random_case(seed, n=9, p=14, n_outputs=None, n_clients=3):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, p)) / np.sqrt(p)
    columns = () if n_outputs is None else (n_outputs,)
    owner = np.append(np.arange(n_clients), rng.integers(0, n_clients, n - n_clients))
    problem = Problem(rng.normal(size=(n, 3)), rng.normal(size=(n, *columns)), owner)
    return rng, phi, problem, rng.normal(size=(p, *columns))


def close(actual, expected, atol=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("local_steps", [1, 2, 3, 6])
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
@pytest.mark.parametrize("rank", [14, 5])  # With rank 5 < n the Gram matrix is singular.
def test_everything_agrees_with_training_the_parameters(local_steps, n_outputs, rank):
    rng, phi, problem, theta = random_case(local_steps, p=rank, n_outputs=n_outputs)
    setup = Setup(eta_local=0.4, eta_global=1.3, local_steps=local_steps, rounds=30)
    outputs, local_outputs, path = fedavg(phi, problem.y, problem.owner, setup, theta)
    regime, start = kernel_regime(problem, setup, gram=phi @ phi.T), phi @ theta
    run = regime.trajectory(start)
    close(run.outputs, outputs)
    close(run.local_outputs, local_outputs)
    moved = np.sqrt(((path - path[0]) ** 2).reshape(len(path), -1).sum(axis=1))
    close(run.total_movement, moved)
    close(regime.movement([7, 30], start), moved[[7, 30]])
    close(regime.outputs([0, 5, 30], start), outputs[[0, 5, 30]])
    close(regime.outputs(5, start), outputs[5])
    close(regime.local_outputs(4, start), local_outputs[4])
    new = rng.normal(size=(4, phi.shape[1]))
    predictions = regime.predict(None, [0, 3, 30], start, new @ theta, cross_gram=new @ phi.T)
    close(predictions, np.stack([new @ path[t] for t in (0, 3, 30)]))
    close(regime.predict(None, 3, start, new @ theta, cross_gram=new @ phi.T), new @ path[3])


@pytest.mark.parametrize("changed", [{"eta_global": 0.7}, {"eta_local": 0.2}, {"local_steps": 5}, {"rounds": 3}])
def test_other_steps_share_what_is_decomposed_and_change_nothing(changed, monkeypatch):
    _, phi, problem, _ = random_case(3, n_outputs=2)
    setup = Setup(eta_local=0.4, eta_global=1.3, local_steps=2, rounds=10)
    regime = kernel_regime(problem, setup, gram=phi @ phi.T)
    fresh = kernel_regime(problem, replace(setup, **changed), gram=phi @ phi.T).trajectory()
    decomposed, eigh = [], np.linalg.eigh
    assert np.isfinite(regime.rate)
    monkeypatch.setattr(np.linalg, "eigh", lambda h: decomposed.append(len(h)) or eigh(h))
    np.testing.assert_array_equal(regime.at(replace(setup, **changed)).trajectory().outputs, fresh.outputs)
    assert decomposed == ([] if {"eta_global", "rounds"} & set(changed) else [problem.n])


def test_steps_that_overflow_are_said_so_by_a_sweep_too():
    _, phi, problem, _ = random_case(3)
    wild = Setup(eta_local=1e200, local_steps=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        regime = kernel_regime(problem, wild, gram=phi @ phi.T).at(replace(wild, eta_global=0.5))
    assert "overflows float64" in regime.step_warning
    with pytest.raises(OverflowError):
        regime.outputs(1)


@pytest.mark.parametrize("local_steps", [2, 3])
def test_parameters_also_when_the_step_passes_the_local_limit(local_steps):
    """The formulas hold even if eta_local q > 2, where P is indefinite for K = 2 and positive for K = 3."""
    _, phi, problem, theta = random_case(5)
    setup = Setup(eta_local=2.2 / local_norm(phi @ phi.T, problem), local_steps=local_steps, rounds=8)
    outputs, local_outputs, path = fedavg(phi, problem.y, problem.owner, setup, theta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = kernel_regime(problem, setup, gram=phi @ phi.T).trajectory(phi @ theta)
    close(run.outputs, outputs)
    close(run.local_outputs, local_outputs)
    close(run.total_movement, np.linalg.norm(path - path[0], axis=1))


def test_linearised_network():
    """The network has the features a_r x 1{w_r.x >= 0} / sqrt m, and the simulator runs it with frozen patterns."""
    rng = np.random.default_rng(1)
    x, width, setup = unit_rows(rng, 8, 4), 300, Setup(width=300, eta_local=0.5, local_steps=4, rounds=25)
    hidden, signs = rng.normal(size=(width, 4)), rng.choice([-1.0, 1.0], width)
    problem = Problem(x, rng.normal(size=8), np.array([0, 0, 0, 0, 1, 2, 2, 1]))
    phi = ((x @ hidden.T >= 0) * signs)[:, :, None] * x[:, None, :] / np.sqrt(width)
    phi = phi.reshape(8, -1)
    start = np.maximum(x @ hidden.T, 0) @ signs / np.sqrt(width)
    run = kernel_regime(problem, setup, gram=phi @ phi.T).trajectory(start)
    outputs, local_outputs, path = fedavg(phi, problem.y, problem.owner, setup, hidden.ravel())
    close(run.outputs, outputs)
    close(run.local_outputs, local_outputs)
    close(run.total_movement, np.linalg.norm(path - path[0], axis=1))
    simulated = ntkfl.simulate(problem, setup, (hidden, signs), linearised=True)
    close(run.outputs, simulated.outputs)
    close(run.total_movement, simulated.total_movement)
    close(run.loss, simulated.loss)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(3, 12), local_steps=st.integers(1, 9), step=st.floats(0.01, 2.5))
def test_spectrum_is_real_and_that_of_the_round_map(seed, n, local_steps, step):
    """The spectrum is real, and equals the spectrum of the round map.

    `step` is eta_local times the largest q. Above 2 an even K makes P indefinite.
    """
    rng = np.random.default_rng(seed)
    regime = infinite_regime(rng, n, step=step, local_steps=local_steps)
    expected = np.linalg.eigvals(regime.round_map)
    size = np.abs(expected).max() + 1
    assert np.abs(expected.imag).max() < 1e-7 * size  # eigvals splits nearly equal eigenvalues into complex pairs.
    close(regime.spectrum, np.sort(expected.real), atol=1e-7 * size)
    assert regime.rate == pytest.approx(np.abs(expected).max(), rel=1e-7)
    invariants = [np.linalg.matrix_power(regime.round_map, k).trace() for k in range(1, 5)]
    close([(regime.spectrum**k).sum() for k in range(1, 5)], invariants, atol=1e-12)
    p_negative = (np.linalg.eigvals(np.linalg.solve(regime.gram, np.eye(n) - regime.round_map)).real < 0).sum()
    # By Sylvester's law of inertia H P and P have equally many negative eigenvalues.
    assert (regime.spectrum > 1).sum() == p_negative


def local_norm(h, problem):
    return max(np.linalg.norm(h[np.ix_(mine, mine)], 2) for mine in problem.members)


def infinite_regime(rng, n, *, step, n_clients=None, **setup):
    """Returns the regime of the infinite-width kernel on random unit data with eta_local = step / max_c |H_cc|.

    The steps are not checked.
    """
    n_clients = rng.integers(1, n // 2 + 1) if n_clients is None else n_clients
    owner = np.append(np.arange(n_clients), rng.integers(0, n_clients, n - n_clients))
    problem = Problem(unit_rows(rng, n, 4), rng.normal(size=n), owner)
    h = infinite(problem.x)
    return KernelRegime(problem, Setup(eta_local=step / local_norm(h, problem), **setup), h)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 14),
    local_steps=st.integers(1, 40),
    step=st.floats(0.01, 1.999),
    eta_global=st.floats(0.01, 1.0),
)
def test_below_the_local_limit_every_eta_global_up_to_1_is_stable(seed, n, local_steps, step, eta_global):
    regime = infinite_regime(np.random.default_rng(seed), n, step=step, local_steps=local_steps, eta_global=eta_global)
    assert regime.stable
    assert regime.rate < 1
    assert regime.step_warning is None
    assert regime.step_limits.eta_local == pytest.approx(2 * regime.setup.eta_local / step, rel=1e-12)
    limit = 2 if step <= 1 or local_steps % 2 == 0 else 1
    assert regime.step_limits.eta_global >= limit * (1 - 1e-12)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 10), local_steps=st.integers(1, 5))
def test_the_limit_of_eta_global_is_sharp(seed, n, local_steps):
    regime = infinite_regime(np.random.default_rng(seed), n, step=1.5, local_steps=local_steps)
    limit = regime.step_limits.eta_global
    for factor, stable in ((1 - 1e-9, True), (1 + 1e-9, False)):
        moved = replace(regime, setup=replace(regime.setup, eta_global=float(limit * factor)))
        assert moved.stable is stable
        assert (moved.step_warning is None) is stable and not moved.undecided
        assert np.abs(np.linalg.eigvals(moved.round_map)).min() == pytest.approx(np.abs(moved.spectrum).min(), abs=1e-7)


def test_at_the_limit_of_eta_global_it_is_not_decided_whether_residuals_fall():
    regime = infinite_regime(np.random.default_rng(0), 8, step=1.5, local_steps=3)
    at = replace(regime, setup=replace(regime.setup, eta_global=regime.step_limits.eta_global))
    assert at.undecided and not at.stable and at.step_warning is None
    twice = np.vstack([regime.problem.x, regime.problem.x[:1]])
    singular = kernel_regime(Problem(twice, np.ones(9)), Setup(eta_local=0.1))
    assert not singular.undecided and not singular.stable and singular.step_warning is None


def test_beyond_the_local_limit_parity_of_the_local_steps_decides():
    for local_steps in (2, 3, 4, 5):
        regime = infinite_regime(np.random.default_rng(0), 8, step=2.1, local_steps=local_steps, eta_global=1e-3)
        assert regime.stable == (local_steps % 2 == 1)
        assert (regime.step_limits.eta_global == 0) == (local_steps % 2 == 0)
        assert (regime.rate > 1) == (local_steps % 2 == 0)
        if local_steps % 2 == 0:
            assert "unstable for every eta_global" in regime.step_warning


def test_many_local_steps_are_damped_block_jacobi():
    regime = infinite_regime(np.random.default_rng(2), 10, step=0.9, n_clients=3, local_steps=200_000, eta_global=1.7)
    h, inverse = regime.gram, np.zeros((10, 10))
    for mine in regime.problem.members:
        inverse[np.ix_(mine, mine)] = np.linalg.inv(h[np.ix_(mine, mine)])
    close(regime.round_map, np.eye(10) - 1.7 / 3 * h @ inverse, atol=1e-12)
    endless = replace(regime, setup=replace(regime.setup, local_steps=10**15))
    close(endless.round_map, regime.round_map, atol=1e-12)


def test_the_euclidean_norm_may_grow_and_the_inverse_norm_may_not():
    """The Euclidean norm of a residual may grow at a spectral radius below 1, because |M|_2 > 1 occurs.

    n = 6, d = 2, N = 2, K = 20, eta_local = 1 / max q, eta_global = .5. In the norm of H^-1 no residual grows.
    """
    growth = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        problem = Problem(unit_rows(rng, 6, 2), np.zeros(6), np.array([0, 0, 0, 1, 1, 1]))
        h = infinite(problem.x)
        setup = Setup(eta_local=1 / local_norm(h, problem), eta_global=0.5, local_steps=20)
        regime = kernel_regime(problem, setup)
        assert regime.stable
        _, sizes, right = np.linalg.svd(regime.round_map)
        growth.append(sizes[0])
        path = -regime.outputs(np.arange(400), initial_outputs=-right[0])
        norms = np.linalg.norm(path, axis=1)
        assert norms[1] == pytest.approx(sizes[0], rel=1e-10)
        energy = np.einsum("ti,ij,tj->t", path, np.linalg.inv(h), path)
        assert (energy[1:] <= energy[:-1] * regime.rate**2 * (1 + 1e-6)).all()
        for eps in (0.99, 0.7, 0.3):
            hits = np.flatnonzero(norms <= eps)
            assert not len(hits) or regime.rounds_to(eps, -right[0]) == hits[0]
    assert max(growth) > 1.02


def test_rounds_grow_with_the_clients_only_under_the_unweighted_average():
    """The rounds to a residual of 1e-6 are about proportional to N at eta_global = 1.

    At eta_global = N they are nearly constant.
    """
    rng = np.random.default_rng(0)
    x, y = unit_rows(rng, 16, 8), rng.normal(size=16)
    rounds = {}
    for n in (1, 4, 16):
        for eta_global in (1, n):
            setup = Setup(eta_local=0.1, local_steps=2, eta_global=float(eta_global))
            rounds[n, eta_global == 1] = kernel_regime(Problem(x, y, np.arange(16) % n), setup).rounds_to(1e-6)
            rounds.setdefault((n, False), rounds[n, True])  # For one client, eta_global = N = 1.
    one = rounds[1, True]
    assert rounds[4, True] == pytest.approx(4 * one, rel=0.15)
    assert rounds[16, True] == pytest.approx(16 * one, rel=0.25)
    assert rounds[4, False] == pytest.approx(one, rel=0.15)
    assert rounds[16, False] == pytest.approx(one, rel=0.25)


def test_one_client_and_one_step_is_gradient_descent():
    rng = np.random.default_rng(4)
    problem = Problem(unit_rows(rng, 7, 3), rng.normal(size=7))
    regime = kernel_regime(problem, Setup(eta_local=0.3, eta_global=1.2, local_steps=1))
    step = np.eye(7) - 0.36 * infinite(problem.x)
    close(regime.outputs(50), problem.y - np.linalg.matrix_power(step, 50) @ problem.y, atol=1e-12)


def test_the_trained_predictor_forgets_how_it_was_trained():
    """The trained predictor does not depend on how it was trained.

    From outputs 0 the limit at a new point is h^T H^{-1} y for every N, K, eta and partition.
    """
    rng = np.random.default_rng(3)
    x, y, new = unit_rows(rng, 9, 5), rng.normal(size=(9, 2)), unit_rows(rng, 4, 5)
    expected = infinite(new, x) @ np.linalg.solve(infinite(x), y)
    moved = np.sqrt(np.trace(y.T @ np.linalg.solve(infinite(x), y)))
    for n_clients, local_steps, eta_local, eta_global in ((1, 1, 0.3, 1.0), (3, 7, 0.6, 1.9), (9, 2, 0.05, 9.0)):
        problem = Problem(x, y, rng.permutation(np.arange(9) % n_clients))
        regime = kernel_regime(problem, Setup(eta_local=eta_local, eta_global=eta_global, local_steps=local_steps))
        close(regime.predict(new, 10**8), expected)
        close(regime.outputs(10**8), y)
        close(regime.movement(10**8), moved)
        close(regime.predict(x, [0, 1, 20]), regime.outputs([0, 1, 20]))


def test_start():
    rng = np.random.default_rng(6)
    problem, start = Problem(unit_rows(rng, 6, 3), rng.normal(size=6), np.arange(6) % 2), rng.normal(size=6)
    regime = kernel_regime(problem, Setup(rounds=3))
    close(regime.outputs(0, start), start, atol=1e-15)
    close(regime.local_outputs(0, start)[0], start, atol=1e-15)
    assert regime.movement(0, start) == 0
    assert (regime.outputs([0]) == 0).all()
    assert regime.trajectory(start).rounds == 3
    assert (regime.outputs([5, 9], initial_outputs=problem.y) == problem.y).all()  # The residual is 0.
    assert regime.rounds_to(1e-9, problem.y) == 0


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), n_clients=st.integers(1, 4))
def test_names_of_clients_and_the_order_of_samples_do_not_matter(seed, n_clients):
    rng, _, problem, _ = random_case(seed, n_clients=n_clients)
    setup, order, names = Setup(eta_local=0.05, local_steps=3), rng.permutation(9), rng.permutation(n_clients)
    regime, new, t = kernel_regime(problem, setup), rng.normal(size=(2, 3)), [1, 40, 10**5]
    shuffled = kernel_regime(Problem(problem.x[order], problem.y[order], names[problem.owner][order]), setup)
    close(shuffled.outputs(t), regime.outputs(t)[:, order])
    close(shuffled.local_outputs(3), regime.local_outputs(3)[:, order])
    close(shuffled.spectrum, regime.spectrum)
    close(shuffled.movement(t), regime.movement(t))
    close(shuffled.predict(new, t), regime.predict(new, t))


def test_scaling_the_loss_scales_the_local_step():
    _, phi, problem, theta = random_case(8)
    setup = Setup(eta_local=0.1, local_steps=3, rounds=12)
    outputs, _, _ = fedavg(phi, problem.y, problem.owner, setup, theta, loss_scale=2.5)
    scaled = kernel_regime(problem, replace(setup, eta_local=0.25), gram=phi @ phi.T)
    close(scaled.trajectory(phi @ theta).outputs, outputs)


def test_many_rounds_at_once_are_the_rounds_one_by_one():
    _, phi, problem, _ = random_case(9, n_outputs=2)
    regime = kernel_regime(problem, Setup(eta_local=0.1), gram=phi @ phi.T)
    t = [0, 3, 17, 10**6, 2**53]
    close(regime.outputs(t), np.stack([regime.outputs(s) for s in t]), atol=1e-15)
    assert regime.outputs([]).shape == (0, 9, 2)
    m = regime.round_map
    close(regime.outputs(1000), problem.y - np.linalg.matrix_power(m, 1000) @ problem.y)


def test_duplicate_points_with_different_labels_are_never_fitted():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    regime = kernel_regime(Problem(x, np.array([1.0, -1.0, 1.0]), np.array([0, 1, 0])), Setup(eta_local=0.2))
    assert not regime.stable
    assert regime.rate == 1
    assert regime.step_limits.eta_global == 0
    assert regime.step_warning is None
    with pytest.raises(ValueError, match=r"does not fall to .* 1\.41421 of it lies where the round changes nothing"):
        regime.rounds_to(1e-3)
    agreeing = replace(regime, problem=replace(regime.problem, y=np.array([1.0, 1.0, 1.0])))
    t = agreeing.rounds_to(1e-6)
    norms = np.linalg.norm(1 - agreeing.outputs([t - 1, t]), axis=1) / np.sqrt(3)
    assert norms[1] <= 1e-6 < norms[0]
    assert agreeing.movement(10**9) == pytest.approx(2.0, rel=1e-9)  # the square root of y^T H^+ y = 2 + 2


def test_a_singular_gram_matrix_predicts_after_any_number_of_rounds():
    """A singular Gram matrix gives predictions after any number of rounds.

    The residual's part in the null space of H makes the coefficients c_t grow for ever, but moves no output.
    """
    rng = np.random.default_rng(11)
    x, new = unit_rows(rng, 5, 3), unit_rows(rng, 2, 3)
    x, y = np.vstack([x, x[:2]]), rng.normal(size=7)
    regime = kernel_regime(Problem(x, y, np.arange(7) % 3), Setup(eta_local=0.3))
    close(regime.predict(new, 10**14), regime.predict(new, 10**6))
    close(regime.movement(10**14), regime.movement(10**6))
    close(regime.predict(x, 10**14), regime.outputs(10**14))


PROBLEM = Problem(np.eye(3), np.ones(3), np.array([0, 0, 1]))


def test_a_step_beyond_the_limit_warns_once_with_the_limit():
    # Here N = 2 and H = I / 2, so that nu, the largest eigenvalue of H P, is .05.
    setup = Setup(eta_local=0.1, eta_global=50.0, local_steps=1, rounds=2)
    for call in (kernel_regime, ntkfl.simulate):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(PROBLEM, replace(setup, eta_global=90.0))
        assert [w.category for w in seen] == [UnstableSteps]
        assert "eta_global = 90 is beyond the stability limit" in str(seen[0].message)
        assert "stable for eta_global < 80; eta_local < 4 keeps every eta_global <= 1 stable" in str(seen[0].message)
        assert seen[0].filename == __file__
    kernel_regime(PROBLEM, setup)  # At eta_global = 50, below the limit, there is no warning.


@pytest.mark.parametrize(
    ("eta_local", "eta_global"), [(0.1, 1.0), (3.9, 1.0), (4.1, 1.0), (5.0, 0.5), (0.1, 79.0), (0.1, 81.0)]
)
def test_the_warning_alone_is_that_of_the_regime(eta_local, eta_global):
    setup = Setup(eta_local=eta_local, eta_global=eta_global, local_steps=2 if eta_local > 1 else 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = kernel_regime(PROBLEM, setup).step_warning
        assert warn_if_unstable(PROBLEM, setup) == expected
    assert (expected is None) == (eta_local < 4 and eta_global < 80)


def test_an_unstable_run_says_so_and_never_returns_nan():
    with pytest.warns(UserWarning, match=r"eta_local = 5 with 2 local steps is unstable for every eta_global"):
        regime = kernel_regime(PROBLEM, Setup(eta_local=5.0, local_steps=2))
    assert not regime.stable
    for ask in (regime.outputs, regime.local_outputs, regime.movement, lambda t: regime.predict(np.eye(3), t)):
        with pytest.raises(OverflowError, match=r"overflows float64: eta_local = 5 .* eta_local < 4 keeps"):
            ask(10**6)
    with pytest.raises(ValueError, match=r"no number of rounds brings every residual to 0.1 .*eta_local < 4"):
        regime.rounds_to(0.1)
    with pytest.warns(UserWarning, match="10000 local steps overflows float64 within one round"):
        regime = kernel_regime(PROBLEM, Setup(eta_local=5.0, local_steps=10000))
    with pytest.raises(OverflowError, match="within one round; eta_local < 4"):
        regime.outputs(1)


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.eye(2), r"gram has shape \(2, 2\); 3 samples need \(3, 3\)"),
        (np.diag([1, np.nan, 1]), r"gram\[1, 1\] is nan; every entry must be finite"),
        (np.eye(3) + np.eye(3, k=1) * 1e-3, r"gram is not symmetric: .* by up to 0\.001, the largest entry being 1"),
        (np.diag([1, 2, -1e-6]), r"gram has the eigenvalue -1e-06, the largest being 2; .* positive semi-definite"),
    ],
)
def test_gram_matrices_that_are_none(gram, message):
    with pytest.raises(ValueError, match=message):
        kernel_regime(PROBLEM, Setup(), gram=gram)


def test_a_gram_matrix_off_by_rounding_is_taken():
    noise = np.random.default_rng(0).normal(size=(3, 3)) * 1e-15
    regime = kernel_regime(PROBLEM, Setup(eta_local=0.1), gram=np.diag([1.0, 1.0, 0.0]) + noise)
    assert (regime.gram == regime.gram.T).all()
    assert regime.rate == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.outputs([1, -2]), r"rounds contains -2; rounds run from 0 to 2\^53"),
        (lambda r: r.outputs(2**60), r"rounds contains 1152921504606846976"),
        (lambda r: r.movement(1.5), r"rounds has dtype float64 and shape \(\); it must be an integer"),
        (lambda r: r.outputs(1, np.ones(2)), r"initial_outputs has shape \(2,\); it must be \(3,\)"),
        (lambda r: r.outputs(1, np.full(3, np.nan)), r"initial_outputs\[0\] is nan; every entry must be finite"),
        (lambda r: r.predict(np.eye(3), 1, initial_prediction=np.ones(2)), r"initial_prediction has shape \(2,\)"),
        (lambda r: r.predict(None, 1), r"cross_gram is missing"),
        (lambda r: replace(r, kernel=None).predict(np.eye(3), 1), r"cross_gram is missing.*shape \(n', 3\)"),
        (lambda r: r.predict(None, 1, cross_gram=np.ones((3, 2))), r"cross_gram has shape \(3, 2\); it must be"),
        (lambda r: r.rounds_to(0), r"eps is 0; it must be positive"),
        (lambda r: r.rounds_to(float("nan")), r"eps is nan; it must be positive"),
    ],
)
def test_messages(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(kernel_regime(PROBLEM, Setup()))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), outputs=st.integers(1, 4), clients=st.integers(1, 3), coupled=st.booleans())
def test_a_kernel_predicts_several_outputs(seed, outputs, clients, coupled):
    """A kernel predicts several outputs as separate training does.

    If the kernel couples outputs, its predictions are those of a linear model whose weights are trained.
    """
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    problem = Problem(
        x, rng.normal(size=(6, outputs)), np.arange(6) % clients, x_test=new, y_test=np.ones((4, outputs))
    )
    setup = Setup(eta_local=0.02, local_steps=2, rounds=5)
    rows = problem.per_output()
    assert np.array_equal(rows.samples, x) and rows.per_output().outputs == outputs
    if not coupled:
        regime, by_column = kernel_regime(rows, setup), kernel_regime(problem, setup)
        assert np.allclose(regime.outputs(5).reshape(6, outputs), by_column.outputs(5), rtol=0, atol=1e-12)
        assert np.allclose(regime.predict(new, 5).reshape(4, outputs), by_column.predict(new, 5), rtol=0, atol=1e-12)
        own = kernel_regime(rows, setup, ntkfl.gram.infinite)
        assert np.array_equal(own.predict(new, 5), regime.predict(new, 5))
        return
    mix = rng.normal(size=(outputs, outputs, 3)) / 3  # f_c(x) = sum_k (mix_ck . x) w_k has features of shape (n C, C).

    def features(at):
        return np.einsum("ckd,nd->nck", mix, at).reshape(-1, outputs)

    regime = kernel_regime(rows, setup, lambda a, b: features(a) @ features(a if b is None else b).T)
    w, labels, owner = np.zeros(outputs), problem.y.ravel(), np.repeat(problem.owner, outputs)
    for _ in range(5):
        ends = []
        for client in range(clients):
            own, phi = w.copy(), features(x)[owner == client]
            for _ in range(2):
                own -= 0.02 * phi.T @ (phi @ own - labels[owner == client])
            ends.append(own)
        w = np.mean(ends, axis=0)
    assert np.allclose(regime.predict(new, 5), features(new) @ w, rtol=0, atol=1e-12)


def test_a_kernel_of_several_outputs_says_which_problem_it_is_of():
    problem = Problem(np.eye(8), np.ones(8))
    several = Problem(np.eye(8), np.ones((8, 10)))
    with pytest.raises(
        ValueError, match=r"shape \(80, 80\); 8 samples need \(8, 8\), or that of 10 outputs: give y of 10"
    ):
        kernel_regime(problem, Setup(), np.eye(80))
    with pytest.raises(ValueError, match=r"or that of 10 outputs: give problem.per_output\(\)$"):
        kernel_regime(several, Setup(), np.eye(80))
    assert kernel_regime(several.per_output(), Setup(), np.eye(80)).rate < 1
    with pytest.raises(ValueError, match="outputs is 2; x must have each row this many times, one after the other"):
        Problem(np.eye(8), np.ones(8), outputs=2)


def test_a_column_of_labels_is_one_label_a_sample():
    column = Problem(np.eye(4), np.array([[1.0], [-1.0], [1.0], [-1.0]]), x_test=np.eye(4), y_test=np.ones((4, 1)))
    one = column.one_axis()
    assert one.y.shape == one.y_test.shape == (4,) and one.one_axis() is one
    assert np.array_equal(kernel_regime(column, Setup()).outputs(3)[:, 0], kernel_regime(one, Setup()).outputs(3))
    several = Problem(np.eye(4), np.ones((4, 2)))
    assert several.one_axis() is several


WHOLE = np.array([[1.0, 0.2], [-0.3, 0.9]])
BEYOND = {
    "labels": (WHOLE, [1e300, -1e300], r"the largest label is 1e\+300 in size; its square must neither vanish nor"),
    "small labels": (WHOLE, [1e-300, 0.0], r"the largest label is 1e-300 in size"),
    "rows": (WHOLE * [[1e-300], [1.0]], [1.0, -1.0], r"the largest entry of a row of x is 1e-300 in size"),
    "subnormal rows": (WHOLE * 1e-315, [1.0, -1.0], r"the largest entry of a row of x is 1e-315 in size"),
}


@pytest.mark.parametrize("ask", [kernel_regime, ntkfl.random_rounds, lambda problem, _: fastest(problem)])
@pytest.mark.parametrize("x, y, said", BEYOND.values(), ids=BEYOND)
def test_squares_that_float64_lacks_are_refused(ask, x, y, said):
    """Input whose squares float64 cannot represent is refused.

    Because of such squares a stable run was once called unstable, a share of the residual was 0, and numbers of rounds
    were NaN.
    """
    with pytest.raises(ValueError, match=said):
        ask(Problem(x, np.array(y)), Setup())


@pytest.mark.parametrize("size", [1e-99, 1.0, 1e99])
def test_labels_and_rows_of_any_size_that_is_not_refused_give_the_same_run(size):
    problem = Problem(WHOLE, np.array([1.0, -0.5]), np.array([0, 1]))
    setup = Setup(eta_local=0.3, local_steps=2)
    plain = kernel_regime(problem, setup)
    labels = kernel_regime(replace(problem, y=size * problem.y), setup)
    assert labels.rounds_to(1e-3) == plain.rounds_to(1e-3)
    np.testing.assert_allclose(labels.outputs(5) / size, plain.outputs(5), rtol=1e-13)
    rows = kernel_regime(replace(problem, x=size * WHOLE), replace(setup, eta_local=0.3 / size / size))
    np.testing.assert_allclose(rows.rate, plain.rate, rtol=1e-12)
    assert rows.stable
    still = kernel_regime(replace(problem, y=0 * problem.y), setup)
    assert (still.outputs(3) == 0).all()
