"""Tests of the study of growing widths.

One cell (one measurement of the study) is compared with a plain loop. From invented cells with known powers these
powers are recovered, and claims of other powers are violated.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions.width_scaling import (
    EXACT,
    MATRICES,
    NUMBERS,
    PRINTED,
    SETUP,
    STUDY,
    measure,
    problem,
)
from experiments.studies.running.measuring import as_arrays
from experiments.studies.running.stored_ladder import DEVIATION, OUTPUTS, StoredLadder
from ntkfl import gram
from ntkfl.initialisation import draw

N = problem().n
TRUE = {"jacobian": -0.25, "total_movement": 0.0, "total_movement_limit": 0.0, PRINTED: 0.0}
SEED, WIDTH = 3, 64


def test_a_cell_is_what_a_plain_loop_finds():
    measured = as_arrays(STUDY, measure({"width": WIDTH, "seed": SEED}))
    entropy = np.random.SeedSequence((SEED, WIDTH)).generate_state(1, np.uint64)[0] >> 1
    weights = draw(WIDTH, problem().d, int(entropy))
    x, signs = problem().x, weights.signs / np.sqrt(WIDTH)
    start = np.maximum(x @ weights.hidden.T, 0) @ signs
    y, u, steps, outputs = start + problem().y, weights.hidden.copy(), [], [start]
    for _ in range(SETUP.rounds):
        moves = []
        for own in problem().members:
            local = u.copy()
            for _ in range(SETUP.local_steps):
                z = x[own] @ local.T
                off = y[own] - np.maximum(z, 0) @ signs
                local += SETUP.eta_local * ((z >= 0) * off[:, None] * signs).T @ x[own]
            moves.append(local - u)
        steps.append(np.linalg.norm(np.mean(moves, axis=0), axis=1).max())
        u = u + np.mean(moves, axis=0)
        outputs.append(np.maximum(x @ u.T, 0) @ signs)
    moved = u - weights.hidden
    assert measured["movement"] == pytest.approx(np.linalg.norm(moved, axis=1).max(), rel=1e-9)
    assert measured["total_movement"] == pytest.approx(np.linalg.norm(moved), rel=1e-9)
    assert measured["step"] == pytest.approx(max(steps), rel=1e-9)
    assert measured["flips"] == ((x @ u.T >= 0) != (x @ weights.hidden.T >= 0)).mean()
    drift = gram.finite(x, u) - gram.finite(x, weights.hidden)
    assert measured["gram_drift"] == pytest.approx(drift.ravel(), abs=1e-12)
    assert measured[OUTPUTS] == pytest.approx(start, rel=1e-12)
    off = np.array(outputs) - y
    limit = gram.infinite(x)
    rho = SETUP.eta_local * SETUP.local_steps / problem().n_clients
    left = off[1:] - off[:-1] @ (np.eye(N) - rho * limit)
    assert measured[PRINTED] == pytest.approx(np.linalg.norm(left) / np.linalg.norm(off[:-1]), rel=1e-8)


def cell(point, powers=TRUE):
    """Returns an invented cell whose statistics have the powers of theory, with a noise of a tenth."""
    m, rng = float(point["width"]), np.random.default_rng((point["width"], point["seed"]))

    def number(name: str) -> float:
        return m ** powers.get(name, -0.5) * rng.lognormal(sigma=0.1)

    def matrix(size: int, mean: float = -0.5) -> np.ndarray:
        return 3 * m**mean + m**-0.75 * rng.standard_normal(size)

    measured = {name: number(name) for name in (*NUMBERS, PRINTED, EXACT)}
    measured |= {name: matrix(N * N) for name in MATRICES} | {"linearised": matrix(N * (SETUP.rounds + 1))}
    noise = rng.standard_normal((N, N))
    return measured | {DEVIATION: ((noise + noise.T) * m**-0.5 * 0.02).ravel(), OUTPUTS: rng.standard_normal(N)}


def test_planted_powers_hold_and_a_wrong_one_is_violated():
    answers = {answer.claim: answer for answer in STUDY.answers(planted(STUDY, cell))}
    printed = next(claim for claim in answers if "I - rho H_inf " in claim)
    known = answers.pop(printed)  # The cells have the true power m^0, so the printed claim is violated.
    assert known.outcome is known.recorded is Outcome.VIOLATED and not known.surprises
    assert {answer.outcome for answer in answers.values()} <= {Outcome.HOLDS, Outcome.UNRESOLVED}
    assert sum(answer.outcome is Outcome.HOLDS for answer in answers.values()) >= 20
    wrong = planted(STUDY, lambda point: cell(point, TRUE | {"flips": -1.0}))
    (flips,) = (answer for answer in STUDY.answers(wrong) if answer.claim.startswith("share of patterns"))
    assert flips.outcome is Outcome.VIOLATED and flips.measured is not None
    assert flips.measured.value == pytest.approx(-1, abs=0.05)


def test_missing_cells_are_left_out_and_unsorted_widths_sorted():
    widths = (512, 64, 128, 256, 1024, 2048)
    cells = planted(STUDY, lambda p: None if p["width"] == 512 and p["seed"] else cell(p), width=widths)
    ladder = StoredLadder.of(cells, problem(), SETUP)
    # The width 512 is left out, because one network is too few.
    assert ladder.widths == (64, 128, 256, 1024, 2048) and ladder.counts == (8,) * 5
    (movement,) = (answer for answer in STUDY.answers(cells) if answer.claim.startswith("max_r |u_r(T)"))
    assert movement.outcome is Outcome.HOLDS
    first, second = STUDY.charts(cells)
    assert first.panels and second.panels


def test_a_network_of_which_a_number_is_missing_does_not_count():
    hole = {OUTPUTS: np.array([np.nan, *np.ones(N - 1)])}
    cells = planted(STUDY, lambda p: cell(p) | (hole if (p["width"], p["seed"]) == (64, 0) else {}))
    ladder = StoredLadder.of(cells, problem(), SETUP)
    assert ladder.widths[0] == 64 and ladder.counts == (7, *(8,) * (len(ladder.widths) - 1))
    assert len(ladder.samples(OUTPUTS)[0]) == len(ladder.samples("flips")[0]) == 7


def test_fluctuations_and_means_add_up_to_the_mean_square():
    ladder = StoredLadder.of(planted(STUDY, cell), problem(), SETUP)
    means, spreads = ladder.split("gram_drift")
    for mean, spread, again, rows in zip(
        means, spreads, ladder.fluctuations("gram_drift"), ladder.samples("gram_drift"), strict=True
    ):
        assert again == pytest.approx(spread)
        assert mean**2 + (spread**2).mean() == pytest.approx((rows**2).sum(axis=1).mean())


def test_three_widths_are_untested():
    answers = STUDY.answers(planted(STUDY, cell, width=(64, 128, 256)))
    assert {answer.outcome for answer in answers} == {Outcome.UNTESTED}
    assert "runs of 3 widths" in answers[0].note


def test_an_infinite_cell_does_not_drop_out():
    """If one network diverges, the exponent to which it belongs is unresolved, though the other cells would suffice."""
    cells = planted(STUDY, lambda p: cell(p) | ({"movement": np.inf} if p["seed"] == 0 and p["width"] == 64 else {}))
    (moved,) = (a for a in STUDY.answers(cells) if a.claim.startswith("max_r |u_r(T) - u_r(0)|"))
    assert moved.outcome is Outcome.UNRESOLVED and "size 64 has inf" in moved.note
