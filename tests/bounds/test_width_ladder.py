"""Tests of ladders of widths.

A ladder consists of many independent networks of growing widths, all of which start from the same residual.

The statistics of a ladder equal their definitions, and the tests check how the remainder of Eq (18) depends on the
width. H_inf is the Gram matrix at infinite width, lambda its smallest and mu its largest eigenvalue, kappa = mu /
lambda and rho = eta_g eta_l K / N.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from bounds import Options, get
from bounds.cases.kernel_case import kernel_cases
from bounds.cases.snapshot import Snapshot
from bounds.fl_ntk.lazy_training import AT_PRINTED_STEP, CircleLadder, exact_map, printed_round_map, relative_remainder
from bounds.ladders.slopes import NoSlope
from bounds.ladders.width_ladder import InitialLadder, WidthLadder, initial_ladder_families, ladder_families
from bounds.ladders.width_rate import HALF, SYSTEMATIC, Quantity
from ntkfl import gram, kernel_regime
from ntkfl.initialisation import draw

(SHARED,) = ladder_families(Options(rounds=6))


def small(seed=0, widths=(64, 128), counts=(3, 2)) -> WidthLadder:
    return replace(SHARED, widths=widths, counts=counts).case(seed)


def test_no_two_networks_share_neurons_and_a_fresh_ladder_has_others():
    ladder = small(widths=(64, 64, 64), counts=(3, 3, 3))
    neurons = [
        tuple(run.weights.hidden[0]) for networks in (ladder, ladder.fresh()) for row in networks.runs for run in row
    ]
    assert len(set(neurons)) == 18


def test_a_second_opinion_is_no_longer_than_a_short_ladder():
    long, short = (ladder_families(Options(), **steps)[0].case(0) for steps in ({}, {"eta_local": 0.05}))
    assert (long.fresh().widths, long.fresh().counts) == (short.widths, short.counts)
    assert (short.fresh().widths, short.fresh().counts) == (short.widths, short.counts)
    assert long.fresh().setup == long.setup
    np.testing.assert_array_equal(long.fresh().problem.y, long.problem.y)


def test_every_run_starts_from_the_same_residual():
    ladder = small()
    for run in (run for row in ladder.runs for run in row):
        assert np.allclose(run.problem.y - run.trajectory.outputs[0], ladder.problem.y, atol=1e-13)
    assert [len(row) for row in ladder.runs] == [3, 2]
    assert ladder.n_runs == 5


def test_only_the_shared_ladder_goes_to_the_largest_widths():
    assert max(ladder_families(Options())[0].widths) == 2**16
    assert max(ladder_families(Options(), eta_local=0.05)[0].widths) == 2**13
    assert max(ladder_families(Options(data="sphere"))[0].widths) == 2**13
    assert ladder_families(Options())[0] == ladder_families(Options())[0]  # Equal families share their cases.


def test_statistics_against_their_definitions_in_weight_space():
    ladder = small(counts=(1, 1))
    run, statistics = ladder.runs[0][0], ladder.statistics[0][0]
    x, first, last = run.problem.x, run.weights.hidden, run.trajectory.weights[run.setup.rounds]
    moved = np.linalg.norm(last - first, axis=1)
    assert statistics.movement == pytest.approx(moved.max(), rel=1e-10)
    assert statistics.total_movement == pytest.approx(np.linalg.norm(last - first), rel=1e-10)
    assert statistics.flips == ((x @ last.T >= 0) != (x @ first.T >= 0)).mean()
    assert np.allclose(statistics.gram_drift, gram.finite(x, last) - gram.finite(x, first), atol=1e-15)
    local, _ = Snapshot(run).local
    columns = [local[-2, c] for c in run.problem.owner]
    jacobian = [
        np.outer((w @ point >= 0).astype(float) - (first @ point >= 0), point) / np.sqrt(len(first))
        for w, point in zip(columns, x, strict=True)
    ]
    assert statistics.jacobian == pytest.approx(np.sqrt(sum((block**2).sum() for block in jacobian)), rel=1e-12)
    here = Snapshot(run).hidden
    pairs = list(zip(columns, x, strict=True))
    full = np.array([[a @ b * ((here @ a >= 0) & (w @ b >= 0)).mean() for w, b in pairs] for a in x])
    assert np.allclose(statistics.asymmetry, full - full.T, atol=1e-14)
    assert np.allclose(statistics.local_gram_drift, full - gram.finite(x, first), atol=1e-14)
    assert statistics.linearised.shape == run.trajectory.outputs.shape
    assert np.abs(statistics.linearised[0]).max() < 1e-12


def test_the_leading_order_of_the_movement_is_met_where_no_pattern_changes():
    """The measured movements agree with the leading order where no pattern changes.

    The labels are so near to the first outputs that no neuron flips. In the leading-order formula, a neuron's movement
    depends only on its activation pattern. So the neuron that moves most has the pattern with the largest value of the
    formula.
    """
    ladder = small(widths=(2**13,), counts=(2,))
    ladder = replace(ladder, problem=replace(ladder.problem, y=1e-6 * ladder.problem.y))
    for statistics in ladder.statistics[0]:
        assert statistics.movement == pytest.approx(statistics.movement_limit, rel=0.1)
        assert statistics.total_movement == pytest.approx(statistics.total_movement_limit, rel=0.05)


def test_a_statistic_is_computed_without_those_that_cost_more():
    ladder = small()
    assert [row.shape for row in ladder.samples("flips")] == [(3,), (2,)]
    assert [row.shape for row in ladder.samples("gram_drift")] == [(3, 6, 6), (2, 6, 6)]
    parts = {name for row in ladder.statistics for network in row for name in vars(network)}
    assert parts == {"run", "gram_drift"}


class Drawn(WidthLadder):
    """A ladder whose statistics are given."""

    def samples(self, name):
        return self.given


@settings(deadline=None, max_examples=30)
@given(arrays(float, (5, 2, 3), elements=st.floats(-10, 10)))
def test_mean_and_spread_add_up_to_the_mean_square(samples):
    ladder = Drawn(None, None, (8,), (5,), 0)
    object.__setattr__(ladder, "given", [samples + 30.0])
    means, (spread,) = ladder.split("anything")
    assert means[0] ** 2 + (spread**2).mean() == pytest.approx(((samples + 30.0) ** 2).sum(axis=(1, 2)).mean())


def test_a_mean_that_is_lost_in_the_noise_is_refused():
    ladder = Drawn(None, None, (8,), (2,), 0)
    object.__setattr__(ladder, "given", [np.array([[1.0], [-1.0]])])
    with pytest.raises(NoSlope, match="noise at width 8: 2 or more networks do not tell its mean from 0"):
        ladder.split("noise")


def test_networks_at_initialisation_are_those_of_draw():
    ladder = InitialLadder(SHARED.case(0).problem, 2.0, (256, 3000), (2, 1), 5)
    x = ladder.problem.x
    for row, width in enumerate(ladder.widths):
        for seed, start in zip(ladder.seeds(row), ladder.starts[row], strict=True):
            weights = draw(width, x.shape[1], seed, 2.0)
            assert np.allclose(start.deviation, gram.finite(x, weights.hidden) - gram.infinite(x), atol=1e-14)
            outputs = np.maximum(x @ weights.hidden.T, 0) @ weights.signs / np.sqrt(width)
            assert np.allclose(start.outputs, outputs, atol=1e-11)


@settings(deadline=None, max_examples=3)
@given(initial_ladder_families(Options())[0].strategy())
def test_drawn_ladders_can_be_evaluated(ladder):
    assert [len(row) for row in ladder.starts] == list(ladder.counts)
    assert all(np.isfinite(start.deviation).all() for row in ladder.starts for start in row)


@settings(deadline=None, max_examples=20)
@given(coefficient=st.floats(1e-3, 1e3))
def test_a_power_is_measured_with_its_coefficient(coefficient):
    ladder = small(widths=(64, 128, 256, 512), counts=(2, 2, 2, 2))

    def values(ladder):
        return coefficient * ladder.sizes ** float(HALF)

    exponent = Quantity("power", HALF, values).exponent_on(ladder)
    assert float(exponent.lo) <= -0.5 <= float(exponent.hi)
    assert SYSTEMATIC <= exponent.error < SYSTEMATIC + 1e-9
    exact = Quantity("power", HALF, values, exact=True)
    assert exact.exponent_on(ladder).error < 1e-9
    assert exact.coefficient_on(ladder) == pytest.approx(coefficient)


def test_flips_that_are_not_seen_have_no_coefficient():
    """The share of neurons that flip has no coefficient if networks hardly move.

    Either the share is 0, or the interval of its coefficient contains 0.
    """
    measure = get("fl-ntk/X.9").measure
    rungs = {"widths": (16, 32, 64, 128), "counts": (2,) * 4}
    still = replace(ladder_families(Options(rounds=2, eta_local=1e-9))[0], **rungs).case(0)
    with pytest.raises(NoSlope, match="size 16 has 0"):
        measure(still)
    seen = {"flips": [np.array([width**-0.5, 3 * width**-0.5]) for width in rungs["widths"]]}
    ladder = replace(SHARED, **rungs).case(0)
    seen["gram_drift"] = [np.multiply.outer(sample, np.ones((2, 2))) for sample in seen["flips"]]
    means = np.array([sample.mean() for sample in seen["flips"]])
    ladder = SimpleNamespace(sizes=ladder.sizes, samples=seen.__getitem__, split=lambda name: (means, []))
    with pytest.raises(NoSlope, match=r"the coefficient of the share of flips, .*, is not told from 0"):
        measure(ladder)


def test_a_look_has_the_first_networks_of_each_width_and_the_next_one_does_not_run_them_again():
    whole = small(counts=(12, 6))
    first, second = whole.first_look(1 / 4), whole.first_look(1 / 2)
    assert (first.counts, second.counts) == ((4, 4), (6, 4))
    for look in (first, second):
        for row in range(2):
            assert look.seeds(row) == whole.seeds(row)[: look.counts[row]]
            assert look.fresh().seeds(row) == whole.fresh().seeds(row)[: look.fresh().counts[row]]
    looks = [ladder.statistics for ladder in (first, second, whole)]
    for ladder, seen in zip((first, second, whole), looks, strict=True):
        assert [len(row) for row in seen] == list(ladder.counts)
    for row in range(2):
        assert looks[2][row][: second.counts[row]] == looks[1][row]
        assert looks[1][row][: first.counts[row]] == looks[0][row]
    # After a look at a larger share of the networks, a look at a smaller share has the same results as before.
    assert whole.first_look(1 / 2).in_rungs("statistics", None) == looks[1]
    alone = small(counts=(12, 6)).samples("movement")
    for ours, theirs in zip(whole.samples("movement"), alone, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("steps", "why"), [(1, "of the networks; it must in at least 50%"), (3, None)])
def test_what_is_left_is_measured_only_where_most_networks_change_a_pattern(steps, why):
    ladder = small(widths=(64, 128, 256, 512), counts=(6,) * 4)
    # A ladder's labels are the initial residual. If they are nearly 0 and there is one local step, the neurons move so
    # little that hardly any neuron crosses a kink.
    size = 1e-5 if steps == 1 else 1.0
    problem = replace(ladder.problem, y=size * ladder.problem.y)
    quiet = replace(ladder, problem=problem, setup=replace(ladder.setup, local_steps=steps, rounds=2))
    if why is None:
        assert np.isfinite(get("fl-ntk/X.10").measure(quiet)[-1].value).all()
    else:
        with pytest.raises(NoSlope, match=why):
            get("fl-ntk/X.10").measure(quiet)


def _falls(local_steps, round_map):
    """Returns the RMS remainder at width 4096 divided by the RMS remainder at width 256."""
    (family,) = ladder_families(Options(), local_steps=local_steps, rounds=4)
    ladder = replace(family, widths=(256, 4096), counts=(8, 8)).case(0)
    a = round_map(ladder)
    narrow, wide = (np.sqrt(np.mean([relative_remainder(run, a) ** 2 for run in row])) for row in ladder.runs)
    return wide / narrow


def test_with_one_local_step_the_printed_remainder_falls_as_its_rate_says():
    assert 1 / 8 < _falls(1, printed_round_map) < 1 / 2  # The rate predicts 1/4, and eight networks scatter around it.


def test_with_three_local_steps_only_the_remainder_over_the_exact_map_falls():
    assert _falls(3, printed_round_map) > 0.8
    assert 1 / 8 < _falls(3, exact_map) < 1 / 2


def test_the_maps_are_one_for_one_local_step():
    (family,) = ladder_families(Options(), local_steps=1)
    ladder = family.case(0)
    np.testing.assert_allclose(printed_round_map(ladder), exact_map(ladder), atol=1e-14)


def _staying(problem, setup):
    """Returns (eta_g/N) H_inf (P - eta_l K I), where P is written as the sum that defines it.

    This matrix times the residual is the part of Eq (18)'s remainder that does not fall with the width.
    """
    h = gram.infinite(problem.x)
    blocks = h * (problem.owner[:, None] == problem.owner)
    one = np.eye(problem.n)
    response = sum(np.linalg.matrix_power(one - setup.eta_local * blocks, k) - one for k in range(setup.local_steps))
    return setup.eta_global / problem.n_clients * setup.eta_local * h @ response


def test_what_stays_is_the_exact_limit_at_every_width():
    ladder = CircleLadder()
    for run, remainder in zip(ladder.runs, ladder.remainders.value, strict=True):
        r = run.problem.y - run.observed("outputs").value[0]
        assert remainder == pytest.approx(np.linalg.norm(_staying(run.problem, run.setup) @ r), rel=1e-10)
        assert run.observed("flips").value.max() == 0
        np.testing.assert_allclose(run.initial_gram.value, gram.infinite(run.problem.x), atol=1e-15)
    assert abs(float(ladder.rate.value)) < 1e-10


@settings(deadline=None, max_examples=60)
@given(kernel_cases())
def test_what_stays_is_at_most_the_added_term(case):
    """The part of Eq (18)'s remainder that stays at every width is at most rho eta_l (K-1) |H_inf|^2/2 times |r|.

    This needs eta_l q <= 2 for every eigenvalue q of every block (Bernoulli's inequality).
    """
    setup, top = case.setup, np.linalg.eigvalsh(gram.infinite(case.problem.x))[-1]
    scale = min(1.0, 2 / (setup.eta_local * case.block_eigenvalues.max()))
    setup = replace(setup, eta_local=setup.eta_local * scale)
    rho = setup.eta_global * setup.eta_local * setup.local_steps / case.problem.n_clients
    most = rho * setup.eta_local * (setup.local_steps - 1) * top**2 / 2
    assert np.linalg.norm(_staying(case.problem, setup), 2) <= most * (1 + 1e-9) + 1e-14


def test_the_note_says_how_small_it_is_at_the_printed_step():
    (family,) = ladder_families(Options())
    ladder = family.case(0)
    values = np.linalg.eigvalsh(kernel_regime(ladder.problem, ladder.setup).gram)
    n, steps = ladder.problem.n, ladder.setup.local_steps
    eta = 1e-3 * values[0] ** 2 / (values[-1] * n**2 * steps)  # The printed step is c lambda / (kappa n^2 K).
    # The share is rho eta_l (K-1) mu^2/2 divided by rho lambda.
    share = eta * (steps - 1) * values[-1] ** 2 / 2 / values[0]
    assert f"{share:.0e}".replace("e-0", "e-") in AT_PRINTED_STEP
