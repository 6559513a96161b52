"""Tests of the stable-step certificate against exact recomputation.

Certificates of networks that are rescaled by powers of two must scale accordingly.
"""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fitted_networks import nearly_fitted, outputs
from flint import arb
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

from bounds.federated_run import federated_runs
from bounds.fl_ntk.certificates.certificate import a_priori_certificate, checked, start
from bounds.fl_ntk.certificates.certificate_record import above, below
from bounds.fl_ntk.certificates.checkpoint_draw import from_checkpoint
from bounds.fl_ntk.certificates.stable_step_certificate import expected, norm, norm_root, stable_step_certificate
from bounds.fl_ntk.certified_runs import weighted_norm
from ntkfl import data
from ntkfl.algorithm1.reference import EXTENDED, plain_run
from ntkfl.balls import ball_matrix, precision
from ntkfl.estimate import Estimate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights
from verification.certification import searched

fitted = partial(nearly_fitted, n=4)


def promises(problem, setup, weights, certificate, rounds):
    """Runs the case in extended precision, and compares it with the certificate's promises.

    Returns the largest ratio of the residual to its promise after t rounds, which is |S^-1 r(t)| / (q^t z0). Here S is
    the certificate's `root`, q its `rate` and z0 its `norm`. Also returns the ratio of the largest movement to `need`.
    A bound on the rounding errors of the comparison is added to each promise. So no promise is 0, and the ratios are
    finite even if the residual or the rate is 0.
    """
    run = plain_run(problem, replace(setup, rounds=rounds), weights, EXTENDED)
    residual = (problem.y - run.outputs.value).T
    sizes = np.linalg.norm(np.linalg.solve(certificate.root, residual), axis=0)
    # This is the resolution of float64: outputs are known to 1e-18, but are rounded once when they are read.
    rounding = 1e-14 * np.linalg.norm(np.linalg.inv(certificate.root), 2) * (1 + np.abs(problem.y).max())
    promised = certificate.norm * certificate.rate ** np.arange(rounds + 1)
    moved = max(run.movement.value.max(), run.local_movement.value.max())
    return float((sizes / (promised + rounding)).max()), float(moved / (certificate.need + 1e-14))


def assert_kept(problem, setup, weights, certificate, rounds=60):
    shrunk, moved = promises(problem, setup, weights, certificate, rounds)
    assert shrunk <= 1 + 1e-9
    assert moved <= 1 and certificate.need <= certificate.radius


STEPS = {"eta_local": st.sampled_from([0.05, 0.3, 0.9]), "eta_global": st.sampled_from([0.5, 1.0, 2.0])}


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    clients=st.integers(1, 4),
    local_steps=st.integers(1, 5),
    unit=st.booleans(),
    power=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    **STEPS,
)
def test_a_certified_network_keeps_the_promise(seed, clients, local_steps, eta_local, eta_global, unit, power):
    """A certified network keeps the theorem's promises while clients, steps and norms of rows vary.

    Four distances between labels and outputs are tried in falling order. The first distance at which the network is
    certified is used.
    """
    setup = Setup(width=200, eta_local=eta_local, eta_global=eta_global, local_steps=local_steps)
    for distance in (0.1, 0.02, 3e-3, 3e-4):
        problem, weights = fitted(seed, setup, distance, clients=clients, unit=unit)
        certificate = stable_step_certificate(problem, setup, weights, powers=(power,))
        if certificate.certified:
            assert_kept(problem, setup, weights, certificate)
            break


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(federated_runs(n=(1, 3), width=(1, 256)))
def test_no_weights_deceive_it(case):
    """No drawn weights get a certificate whose promises are broken.

    The draws include equal neurons, neurons exactly on a kink, nearly parallel rows, and residuals down to 1e-8.
    """
    assume(np.abs(case.weights.hidden).max() < 1e6)
    certificate = stable_step_certificate(case.problem, case.setup, case.weights)
    if certificate.certified:
        assert_kept(case.problem, case.setup, case.weights, certificate, rounds=12)


SHAPES = [(1, 1), (1, 4), (3, 1), (3, 4), (4, 2)]


@pytest.mark.parametrize(("clients", "local_steps"), SHAPES)
def test_every_shape_of_clients_certifies_at_large_steps(clients, local_steps):
    """For each number of clients and of local steps, a network is certified at eta_l = .9.

    At this step the a-priori theorem certifies no network. This shows that the tests above are not vacuous.
    """
    setup = Setup(width=400, eta_local=0.9, local_steps=local_steps)
    problem, weights = fitted(7, setup, 1e-4, clients=clients, unit=False)
    certificate = stable_step_certificate(problem, setup, weights)
    assert certificate.certified
    assert_kept(problem, setup, weights, certificate)


def numbers(problem, setup, weights, certificate, *, centred=True):
    """Returns the certificate's numbers, such as q and need, computed in float64 from their definitions.

    Active neurons are counted by a comparison for every neuron.
    """
    x, m, n = problem.x, setup.width, problem.n
    distances = weights.hidden @ x.T / np.linalg.norm(x, axis=1)

    def pairs(active):
        return active.T.astype(float) @ active

    lost, kept = pairs(distances >= -certificate.radius), pairs(distances >= certificate.radius)
    gram = x @ x.T
    h, b = gram * (lost + kept) / (2 * m), np.abs(gram) * (lost - kept) / (2 * m)
    clients = problem.members
    blocks = h * (problem.owner[:, None] == problem.owner)
    two = lambda matrix: np.linalg.norm(matrix, 2)  # noqa: E731
    e, e_c = two(b), max(two(b[np.ix_(c, c)]) for c in clients)
    values, vectors = np.linalg.eigh(h)
    s = vectors * values ** (certificate.power / 2)
    a, share = np.eye(n) - setup.eta_local * blocks, setup.eta_global * setup.eta_local / problem.n_clients
    powers = [np.linalg.matrix_power(a, k) for k in range(setup.local_steps)]
    delta, rho = [0.0], []
    for power in powers:
        rho.append(two(power @ s) + delta[-1])
        delta.append(two(a) * delta[-1] + setup.eta_local * e_c * rho[-1])
    inverse = np.linalg.inv(s)
    frozen = two(inverse @ (np.eye(n) - share * h @ sum(powers)) @ s)
    q = frozen + share * (e * two(inverse) * sum(rho) + two(inverse @ h) * sum(delta[:-1]))
    z0 = np.linalg.norm(inverse @ (problem.y - outputs(x, *weights)))
    own = max(two(x[c]) for c in clients)
    reach = two(x) * setup.eta_global / (problem.n_clients * (1 - q)) + own
    need = setup.eta_local / np.sqrt(m) * z0 * sum(rho) * reach
    return {"perturbation": e, "local_perturbation": e_c, "frozen_rate": frozen, "rate": q, "norm": z0, "need": need}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_every_number_agrees_with_its_definition(power):
    setup = Setup(width=150, eta_local=0.4, eta_global=1.5, local_steps=3)
    problem, weights = fitted(2, setup, 0.05, n=5, clients=3, unit=False)
    certificate = stable_step_certificate(problem, setup, weights, radii=[0.01], powers=(power,))
    assert certificate.perturbation > certificate.local_perturbation > 0
    for name, value in numbers(problem, setup, weights, certificate).items():
        assert getattr(certificate, name) == pytest.approx(value, rel=1e-5), name
        assert getattr(certificate, name) >= value * (1 - 1e-11), name


def test_in_the_inverse_norm_the_frozen_rate_is_the_spectral_radius():
    """In the norm |L^-1 r|, where H = L L^T, the round map's norm is the map's spectral radius.

    The spectral radius is max |1 - (eta_g/N) nu|, where the nu are the eigenvalues of L^T P L. The norm equals this
    radius because by X.2, L^T P L is symmetric. In the Euclidean norm the map's norm is larger.
    """
    setup = Setup(width=3000, eta_local=0.8, local_steps=6)
    problem, weights = fitted(1, setup, 1e-9, n=6, clients=3)
    certificate = stable_step_certificate(problem, setup, weights, radii=[1e-9], powers=(1.0,))
    assert certificate.perturbation == 0  # No pattern changes within the radius, so H = H(0).
    h = (
        problem.x
        @ problem.x.T
        * ((weights.hidden @ problem.x.T >= 0).T.astype(float) @ (weights.hidden @ problem.x.T >= 0))
        / 3000
    )
    blocks = h * (problem.owner[:, None] == problem.owner)
    p = 0.8 * sum(np.linalg.matrix_power(np.eye(6) - 0.8 * blocks, k) for k in range(6))
    radius = np.abs(np.linalg.eigvals(np.eye(6) - h @ p / 3)).max()
    assert certificate.frozen_rate == pytest.approx(radius, rel=1e-10) and certificate.rate == certificate.frozen_rate


def violating(change, certificate):
    """Returns a certificate whose promises are changed so that they claim more."""
    return replace(certificate, **change(certificate))


MUTANTS = {
    "the perturbation left out of q": lambda f: {"rate": f.frozen_rate**2},
    "no division by 1 - q": lambda f: {"need": f.need * (1 - f.rate)},
    "no factor of the width": lambda f: {"need": f.need / 20},
    "the residual in place of z0": lambda f: {"norm": f.norm * np.linalg.norm(f.root, 2) / 4},
}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_theorem_made_wrong_is_caught(name):
    """A certificate from a wrong theorem is caught.

    For at least one of four networks, the true theorem's promise is so near to the truth that the wrong theorem's
    promise is violated.
    """
    caught = []
    for seed in range(4):
        setup = Setup(width=400, eta_local=0.3, local_steps=2)
        problem, weights = fitted(seed, setup, 3e-4)
        certificate = stable_step_certificate(problem, setup, weights)
        assert certificate.certified
        assert_kept(problem, setup, weights, certificate)
        caught.append(max(promises(problem, setup, weights, violating(MUTANTS[name], certificate), 40)) > 1 + 1e-9)
    assert any(caught)


@pytest.mark.parametrize("condition", ["stability", "contraction", "movement"])
def test_no_condition_can_be_dropped(condition):
    """If one condition does not hold, a conclusion may fail: the movement exceeds R, or the residual grows in some
    round.
    """
    if condition == "movement":
        setup = Setup(width=400, eta_local=0.3, local_steps=2)
        problem, weights = fitted(0, setup, 0.5)
        certificate = stable_step_certificate(problem, setup, weights, radii=[1e-3])
        assert certificate.rate < 1 and not certificate.certified
        assert promises(problem, setup, weights, certificate, 40)[1] * certificate.need > certificate.radius
        return
    if condition == "stability":
        setup = Setup(width=400, eta_local=0.3, eta_global=400.0, local_steps=2)
        problem, weights = fitted(0, setup, 3.0, n=3, clients=1)
        certificate = stable_step_certificate(problem, setup, weights)
    # The step is near the limit of the frozen kernel, and the labels are so far from the outputs that patterns change.
    else:
        setup = Setup(width=16, local_steps=1)
        problem, weights = fitted(7, setup, 30.0, n=3, clients=1)
        active = (weights.hidden @ problem.x.T >= 0).astype(float)
        largest = np.linalg.eigvalsh(problem.x @ problem.x.T * (active.T @ active) / 16)[-1]
        setup = replace(setup, eta_local=float(1.8 / largest))
        certificate = stable_step_certificate(problem, setup, weights, radii=[1.0])
        assert certificate.frozen_rate < 1
    assert {c.name: c.holds for c in certificate.conditions}[condition] is False
    assert certificate.need is None and certificate.shortfall == np.inf
    run = plain_run(problem, replace(setup, rounds=12), weights, EXTENDED)
    sizes = np.linalg.norm(np.linalg.solve(certificate.root, (problem.y - run.outputs.value).T), axis=0)
    assert (sizes[1:] > sizes[:-1]).any()


def test_a_neuron_that_may_flip_is_counted():
    """Twenty neurons are exactly on the kink of one sample, so any move may flip their pattern."""
    setup = Setup(width=300, eta_local=0.05)
    problem, weights = fitted(5, setup, 1e-5, n=3)
    x = np.array(problem.x)
    x[0] = np.eye(6)[0]
    tied = weights.hidden.copy()
    tied[:20, 0] = 0.0
    problem = Problem(x, outputs(x, tied, weights.signs) + 1e-5, problem.owner)
    free = stable_step_certificate(problem, setup, weights, [1e-3])
    held = stable_step_certificate(problem, setup, Weights(tied, weights.signs), [1e-3])
    assert free.doubtful == 0 and held.doubtful == 20
    assert held.perturbation >= 10 / 300 > free.perturbation


def test_a_checkpoint_of_digits_certifies_where_the_start_does_not():
    problem, setup = data.digits(n=8, clients=3), Setup(1000, eta_local=0.1)
    first, later = (from_checkpoint(problem, setup, rounds) for rounds in (0, 300))
    for theorem in (a_priori_certificate, stable_step_certificate):
        assert not theorem(problem, setup, first.weights).certified
        assert theorem(problem, setup, later.weights).certified
    assert_kept(problem, setup, later.weights, stable_step_certificate(problem, setup, later.weights), rounds=10)
    assert expected(problem, setup, later.weights).promising and not expected(problem, setup, first.weights).promising


def test_a_residual_of_rounding_size_is_summed_in_balls():
    """If labels are the rounded outputs, the residual is their rounding error. This error is known to 1e-30."""
    setup = Setup(width=300)
    problem, weights = fitted(3, setup, 0.0)
    with precision():
        residual = start(problem, setup, checked(problem, setup, weights)).residual
        assert all(arb(0) < r.rad() < 1e-30 for r in residual)
        assert 0 < max(abs(float(r)) for r in residual) < 1e-14


def test_norms_are_upper_bounds_and_sharp():
    matrix = np.random.default_rng(0).standard_normal((7, 7))
    with precision():
        assert 0 <= float(norm(ball_matrix(matrix))) - np.linalg.norm(matrix, 2) * (1 - 1e-14) < 1e-12
    h = matrix @ matrix.T
    root = norm_root(h, 1.0)
    assert root @ root.T == pytest.approx(h)
    assert norm_root(h, 0.0) @ norm_root(h, 0.0).T == pytest.approx(np.eye(7), abs=1e-12)
    vectors = np.random.default_rng(1).standard_normal((7, 3))
    norms = weighted_norm(root, Estimate(vectors, np.full(vectors.shape, 1e-9), "given"))
    exact = np.sqrt(np.einsum("it,ij,jt->t", vectors, np.linalg.inv(h), vectors))
    assert (np.abs(norms.value - exact) <= norms.error).all() and (norms.error < 1e-6 * exact.max() * 10).all()


def test_the_record_survives_json_and_says_what_would_help():
    setup = Setup(width=400, eta_local=0.3)
    cases = [
        (fitted(7, setup, 3e-4), setup, "CERTIFIED: "),
        (fitted(7, setup, 5.0), setup, r"NOT CERTIFIED: the residual asks for"),
        (fitted(7, setup, 1.0), replace(setup, eta_global=400.0), "NOT CERTIFIED: the steps are too large"),
    ]
    for (problem, weights), chosen, verdict in cases:
        certificate = stable_step_certificate(problem, chosen, weights)
        record = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
        assert (
            record["certified"] is certificate.certified
            and record["radius"] == certificate.radius
            and "root" not in record
        )
        assert [c["name"] for c in record["conditions"]] == ["stability", "contraction", "movement"]
        assert str(certificate).startswith(verdict), str(certificate)


def test_powers_outside_the_unit_interval_are_refused():
    problem, weights = fitted(0, Setup(width=16), 1.0)
    for powers in ((2.0,), (), (-0.5, 1.0)):
        with pytest.raises(ValueError, match=r"the powers are .*; give at least one, each in \[0, 1\]"):
            stable_step_certificate(problem, Setup(width=16), weights, powers=powers)


@settings(deadline=None, max_examples=200)
@given(st.floats(min_value=1e-300, max_value=1e300), st.integers(1, 12))
def test_printed_numbers_are_rounded_outward(value, digits):
    up, down = float(above(value, digits)), float(below(value, digits))
    assert down <= value <= up
    assert up - down <= 1.001 * 10.0 ** (1 - digits) * value


SETUP = Setup(width=400, eta_local=0.4, local_steps=3)
CERTIFICATES = [(stable_step_certificate, 0.4), (a_priori_certificate, 0.01)]


def network():
    """Returns a network with labels so near to its outputs that both theorems certify the network."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(rng.standard_normal((SETUP.width, 6)), rng.choice([-1.0, 1.0], SETUP.width))
    y = np.maximum(x @ weights.hidden.T, 0) @ weights.signs / 20 + 1e-4 * np.array([1.0, -1.0, 1.0, 1.0]) / 2
    return Problem(x, y, np.array([0, 0, 1, 1])), weights


def rescaled(rows, sigma, eta_local):
    problem, weights = network()
    x, y = np.ldexp(problem.x, rows), np.ldexp(problem.y, rows + sigma)
    setup = replace(SETUP, eta_local=float(np.ldexp(eta_local, -2 * rows)))
    return Problem(x, y, problem.owner), setup, Weights(np.ldexp(weights.hidden, sigma), weights.signs)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(CERTIFICATES), st.integers(-325, 325), st.integers(-425, 325))
@example(CERTIFICATES[0], 0, -60)  # sigma is about 1e-18
@example(CERTIFICATES[0], 300, 0)  # rows have norms of about 2e90
@example(CERTIFICATES[0], -325, -425)
def test_a_certificate_scales_with_the_rows_and_with_the_weights(certificate, rows, sigma):
    theorem, eta_local = certificate
    plain, scaled = theorem(*rescaled(0, 0, eta_local)), theorem(*rescaled(rows, sigma, eta_local))
    assert plain.certified and scaled.certified
    assert scaled.rate == pytest.approx(plain.rate, rel=1e-12)
    for name, power in (("radius", sigma), ("need", sigma), ("r0", rows + sigma), ("lam", 2 * rows), ("mu", 2 * rows)):
        assert np.ldexp(getattr(scaled, name), -power) == pytest.approx(getattr(plain, name), rel=1e-11), name


@settings(deadline=None, max_examples=8)
@given(st.integers(-325, 325), st.integers(-425, 325))
@example(0, -60)
def test_the_quick_look_scales_too(rows, sigma):
    plain, scaled = expected(*rescaled(0, 0, 0.4)), expected(*rescaled(rows, sigma, 0.4))
    assert plain.promising and scaled.promising
    assert np.ldexp(scaled.need, -sigma) == pytest.approx(plain.need, rel=1e-11)


@pytest.mark.parametrize(
    ("rows", "sigma", "message"),
    [
        (340, 0, r"the row norms of x range from 2\.24e\+102 to .* rescale the data"),
        (-340, 0, r"the row norms of x range from 4\.46e-103 to .* rescale the data"),
        (0, -440, r"the largest hidden weight is .*e-132, below 1e-130: .* multiply the weights and the labels"),
        (0, 340, r"1e\+100"),
    ],
)
@pytest.mark.parametrize("theorem", [theorem for theorem, _ in CERTIFICATES])
def test_sizes_beyond_the_usable_range_are_refused_with_the_size(theorem, rows, sigma, message):
    with pytest.raises(ValueError, match=message):
        theorem(*rescaled(rows, sigma, 0.4))


@pytest.mark.parametrize("exponent", [-1000, -600, 0, 600, 1000])
def test_norms_of_matrices_whose_squares_vanish_or_overflow(exponent):
    # Its singular values are sqrt 45 and sqrt 5, times 2^exponent.
    matrix = np.ldexp(np.array([[3.0, 0.0], [4.0, 5.0]]), exponent)
    with precision():
        bound = np.ldexp(float(norm(ball_matrix(matrix))), -exponent)
    assert np.sqrt(45) * (1 - 1e-15) <= bound <= np.sqrt(45) * (1 + 1e-12)


@pytest.mark.parametrize("rows", [-20, 20])
def test_the_largest_certified_step_goes_with_the_squares_of_the_rows(rows):
    plain, scaled = (searched(problem, setup, steps=True) for problem, setup, _ in (steps_of(0), steps_of(rows)))
    assert plain.certified.certificate.certified and scaled.certified.certificate.certified
    assert np.ldexp(scaled.setup.eta_local, 2 * rows) == pytest.approx(plain.setup.eta_local)


def steps_of(rows):
    """Returns a network at initialisation whose labels are its own outputs, so that it is certified at any
    stable step.
    """
    x = np.ldexp(np.array([[0.6, 0.8], [0.8, -0.6]]), rows)
    setup = Setup(width=64, eta_local=float(np.ldexp(0.3, -2 * rows)), local_steps=1)
    weights = draw(setup.width, 2, setup.seed, setup.sigma)
    y = np.maximum(x @ weights.hidden.T, 0) @ weights.signs / 8
    return Problem(x, y, np.array([0, 1])), setup, weights
