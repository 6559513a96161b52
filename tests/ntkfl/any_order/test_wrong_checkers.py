"""Tests of certificates by checkers that are made wrong on purpose, in the notation of docs/proofs/any_order.md.

Each wrong checker certifies something that ball arithmetic refutes, so every part of the checker is needed.
"""

from dataclasses import replace

import numpy as np
import pytest
from exact_certificate import exact, fitted
from flint import arb

from ntkfl import Estimate, certify_any_order, lapack
from ntkfl.any_order import constraint_rows, held_pairs
from ntkfl.any_order.adversary import Batch, Network, train_further
from ntkfl.any_order.constraint_rows import ConstraintRows
from ntkfl.balls import precision


def is_false(problem, weights, certificate):
    """Says whether ball arithmetic refutes a number of the certificate."""
    again = exact(problem, weights, certificate.held)
    with precision(300):
        if not (
            arb(float(certificate.distance.lo)) <= again.distance
            and again.distance <= arb(float(certificate.distance.hi))
        ):
            return True
        norms = np.linalg.norm(problem.x, axis=1) * 0.999
        return any(m < 0 or m < arb(certificate.margin * norms[i]) for (_, i), m in again.margins.items())


def honest_nearest(self, scale=1.0, nearest=ConstraintRows.nearest):
    return nearest(self, scale)


def with_nearest(change):
    return lambda monkeypatch: monkeypatch.setattr(
        ConstraintRows, "nearest", lambda self, scale=1.0: change(honest_nearest(self, scale))
    )


def half(estimate):
    return Estimate(estimate.value / 2, estimate.error, estimate.method)


def no_projection(monkeypatch):
    """Takes kappa as 0, as if W stayed at W*."""
    monkeypatch.setattr(
        ConstraintRows,
        "projections",
        lambda self, k, e, honest=ConstraintRows.projections: zero_but_distance(honest, self, k, e),
    )


def zero_but_distance(honest, rows, columns, error):
    lower, upper = honest(rows, columns, error)
    return (
        (lower, upper)
        if columns.shape[1] == 1 and np.array_equal(columns[:, 0], rows.target()[0])
        else (0 * lower, 0 * upper)
    )


def wrong_target(change):
    def apply(monkeypatch, honest=ConstraintRows.target):
        monkeypatch.setattr(ConstraintRows, "target", lambda self, scale=1.0: change(self, *honest(self, scale)))

    return apply


def flipped_on_a(rows, value, error):
    value = value.copy()
    value[rows.n_samples :] *= -1
    return value, error


def active_on_a(monkeypatch):
    """Keeps the patterns s_ri on A, so that the row of sample i contains neurons that are held at the sample's kink."""
    monkeypatch.setattr(ConstraintRows, "patterns", lambda self, neurons: self.neuron_pass.patterns(neurons))


def near_pairs_of_a_smaller_reach(monkeypatch, honest=held_pairs.near_pairs):
    """Checks pairs within D / 100 of their kinks instead of 8 D."""
    monkeypatch.setattr(held_pairs, "near_pairs", lambda rows, reach, most: honest(rows, reach / 800, most))


MUTANTS = {
    "no projection": no_projection,
    "half of D": with_nearest(lambda nearest: replace(nearest, distance=half(nearest.distance))),
    "the sign of the held pairs' targets": wrong_target(flipped_on_a),
    "the patterns on A kept": active_on_a,
    "far pairs taken for safe": near_pairs_of_a_smaller_reach,
    "half of the residual": wrong_target(lambda rows, value, error: (value * 0.5, error)),
}


def planted(seed):
    """Returns a problem and a network near the limit of what can be certified, with neurons close to kinks.

    Most such networks are certified with held pairs.
    """
    return fitted(seed, n=4, d=5, width=64, distance=2e-2)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_checker_certifies_something_false(name, monkeypatch):
    MUTANTS[name](monkeypatch)
    wrong = [
        seed
        for seed in range(25)
        if (certificate := certify_any_order(*planted(seed))).certified and is_false(*planted(seed), certificate)
    ]
    assert wrong
    monkeypatch.undo()
    for seed in wrong[:3]:
        certificate = certify_any_order(*planted(seed))
        assert not certificate.certified or not is_false(*planted(seed), certificate)


def rough_solutions(monkeypatch, honest=lapack.solved):
    """Installs a solver that is right to three digits only; the slack must cover its error."""
    rng = np.random.default_rng(0)

    def rough(factor, b):
        solution = honest(factor, b)
        return solution * (1 + 1e-3 * rng.standard_normal(solution.shape))

    monkeypatch.setattr(constraint_rows.lapack, "solved", rough)


def test_a_rough_solver_costs_margin_and_never_truth(monkeypatch):
    rough_solutions(monkeypatch)
    certified = [seed for seed in range(25) if (certificate := certify_any_order(*planted(seed))).certified]
    assert len(certified) >= 5
    for seed in certified:
        certificate = certify_any_order(*planted(seed))
        assert certificate.distance.error > 1e-9 * certificate.distance.value
        assert not is_false(*planted(seed), certificate)


def test_without_the_slack_a_rough_solver_is_believed(monkeypatch):
    rough_solutions(monkeypatch)
    with_nearest(lambda nearest: replace(nearest, slack=0.0, distance=Estimate(nearest.distance.value, 0.0)))(
        monkeypatch
    )
    wrong = [
        seed
        for seed in range(25)
        if (certificate := certify_any_order(*planted(seed))).certified and is_false(*planted(seed), certificate)
    ]
    assert wrong


@pytest.mark.parametrize("poison", ["slack", "solution", "distance"])
def test_nan_is_never_certified(poison, monkeypatch):
    """A NaN is never certified: every comparison is written so that a NaN fails it, since a NaN once passed."""
    problem, weights = planted(next(s for s in range(25) if certify_any_order(*planted(s)).certified))

    def poisoned(nearest):
        if poison == "distance":
            distance = Estimate(1.0, 0.0)
            object.__setattr__(distance, "value", np.array(np.nan))
            return replace(nearest, distance=distance)
        value = np.full_like(nearest.solution, np.nan) if poison == "solution" else float("nan")
        return replace(nearest, **{poison: value})

    with_nearest(poisoned)(monkeypatch)
    certificate = certify_any_order(problem, weights)
    assert not certificate.certified and certificate.why and certificate.step_limit == 0
    assert (certificate.final(problem.x) == "open").all() and np.isinf(certificate.enclosure(problem.x).error).all()


def test_networks_that_miss_the_condition_leave():
    """Networks that are not certified may move away from W*: |W - W*| grows in some order of steps.

    W* belongs to the initial patterns and an empty set A of held pairs.
    """
    left = 0
    for seed in range(12):
        problem, weights = fitted(seed, n=4, d=5, width=16, distance=1.0)
        if certify_any_order(problem, weights).certified:
            continue
        point = exact(problem, weights, []).long_point()
        run = train_further(problem, weights, point, steps=30, aim="distance", seed=seed)
        left += (np.diff(run.distance) > 1e-6 * run.distance[0]).any()
    assert left >= 6


@pytest.mark.parametrize(("share", "diverges"), [(0.99, False), (1.05, True)])
def test_steps_beyond_the_limit_diverge(share, diverges):
    """At five percent beyond the step limit the distance of a certified network grows.

    The steps are on all samples and have the size share * 2 / |J J'|.
    """
    problem, weights = planted(next(s for s in range(25) if certify_any_order(*planted(s)).certified))
    certificate = certify_any_order(problem, weights)
    network, everything = Network(problem, weights), np.arange(problem.n)
    w, point = network.start, certificate.fitted_weights()
    eta = share * network.longest(w, everything, np.ones(problem.n))
    distances = []
    for _ in range(400):
        distances.append(float(np.sqrt(((w - point) ** 2).sum())))
        w, _ = network.step(w, Batch(everything, np.full(problem.n, eta)))
    assert (max(distances) > 3 * distances[0]) == diverges
    if not diverges:
        assert (np.diff(distances) <= 1e-13).all() and eta >= certificate.pooled_step_limit * 0.98
