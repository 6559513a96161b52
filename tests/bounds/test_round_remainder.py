"""Eq (18) is right with one local step; with more, the remainder tends to the formula's limit, however small it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from bounds import Options
from bounds.cases.kernel_case import kernel_cases
from bounds.fl_ntk.lazy_training import AT_PRINTED_STEP, CircleLadder, exact_map, printed_round_map, relative_remainder
from bounds.ladders.width_ladder import ladder_families
from ntkfl import gram, kernel_regime


def _falls(local_steps, round_map):
    """RMS of the remainder at width 4096 over that at width 256."""
    (family,) = ladder_families(Options(), local_steps=local_steps, rounds=4)
    ladder = replace(family, widths=(256, 4096), counts=(8, 8)).case(0)
    a = round_map(ladder)
    narrow, wide = (np.sqrt(np.mean([relative_remainder(run, a) ** 2 for run in row])) for row in ladder.runs)
    return wide / narrow


def test_with_one_local_step_the_printed_remainder_falls_as_its_rate_says():
    assert 1 / 8 < _falls(1, printed_round_map) < 1 / 2  # the rate says 1/4; eight networks scatter


def test_with_three_local_steps_only_the_remainder_over_the_exact_map_falls():
    assert _falls(3, printed_round_map) > 0.8
    assert 1 / 8 < _falls(3, exact_map) < 1 / 2


def test_the_maps_are_one_for_one_local_step():
    (family,) = ladder_families(Options(), local_steps=1)
    ladder = family.case(0)
    np.testing.assert_allclose(printed_round_map(ladder), exact_map(ladder), atol=1e-14)


def _staying(problem, setup):
    """(eta_g/N) H_inf (P - eta_l K I), P written as its sum."""
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
    """The term is rho eta_l (K-1) |H_inf|^2/2, for eta_l q <= 2 on every block (Bernoulli's inequality)."""
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
    eta = 1e-3 * values[0] ** 2 / (values[-1] * n**2 * steps)  # c lambda / (kappa n^2 K)
    share = eta * (steps - 1) * values[-1] ** 2 / 2 / values[0]  # rho eta_l (K-1) mu^2/2 over rho lambda
    assert f"{share:.0e}".replace("e-0", "e-") in AT_PRINTED_STEP
