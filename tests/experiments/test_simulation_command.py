"""Tests of `ntkfl simulate` and `ntkfl gram`: they give what `ntkfl.simulate`, `kernel_regime` and
`ntkfl.gram` give.
"""

import numpy as np
import pytest
from typed import command

from ntkfl import Problem, Setup, gram, kernel_regime, simulate
from ntkfl.initialisation import draw
from ntkfl.trajectory_file import as_npz, read_npz

RNG = np.random.default_rng(3)
X, Y, OWNER = RNG.standard_normal((6, 4)), RNG.standard_normal(6), np.array([0, 0, 1, 1, 1, 1])
STEPS = ("--eta-local", "0.05", "--rounds", "12", "--width", "64", "--seed", "5")
SETUP = Setup(width=64, eta_local=0.05, rounds=12, seed=5)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x=X, y=Y, owner=OWNER)
    return Problem(X, Y, OWNER)


def ntkfl(*words, status=0):
    done = command(*words)
    assert done.exit_code == status, done.output
    return done.output


@pytest.mark.parametrize("network", ["finite", "linearised", "infinite"])
def test_a_run_is_kept_as_python_has_it(data, tmp_path, network):
    said = ntkfl("simulate", "--data", "mine.npz", *STEPS, "--network", network, "--out", "run.npz")
    kept = read_npz(tmp_path / "run.npz")
    run = simulate(data, SETUP, linearised=network == "linearised")
    if network == "infinite":
        start = draw(SETUP.width, data.d, SETUP.seed, SETUP.sigma).outputs(data.x)
        run = kernel_regime(data, SETUP).trajectory(initial_outputs=start)
    for name in ("outputs", "local_outputs", "total_movement", "y"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(run, name))
    assert (kept.movement is None) == (network == "infinite") and kept.provenance["versions"]
    assert f"{run.residual_norm[0]:.6g}" in said and f"{run.residual_norm[-1]:.6g}" in said


def test_a_file_keeps_everything_and_another_is_refused(data, tmp_path):
    run = simulate(data, SETUP, keep=(0, 3))
    (tmp_path / "run.npz").write_bytes(as_npz(run))
    kept = read_npz(tmp_path / "run.npz")
    assert kept.provenance == run.provenance and kept.n_clients == 2 and set(kept.weights) == {0, 3}
    for name in ("movement", "local_movement", "step", "flips"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(run, name))
    np.testing.assert_array_equal(kept.weights[3], run.weights[3])
    with pytest.raises(ValueError, match=r"mine.npz is no trajectory as `ntkfl simulate --out` writes it"):
        read_npz(tmp_path / "mine.npz")


def test_steps_that_are_too_large_are_said_and_nothing_is_written(data, tmp_path):
    for eta_local in ("1e99", "1e9"):  # At 1e99 outputs overflow; at 1e9 only the squares of the movements do.
        options = ("--eta-local", eta_local, "--out", "run.npz")
        said = ntkfl("simulate", "--data", "mine.npz", *STEPS[2:], *options, status=2)
        assert "the run overflowed at round" in said and not (tmp_path / "run.npz").exists()


@pytest.mark.parametrize("width", [None, 64])
def test_a_gram_matrix_is_kept_as_python_has_it(data, tmp_path, width):
    words = ("--width", "64", "--seed", "5") if width else ()
    said = ntkfl("gram", "--data", "mine.npz", *words, "--out", "h.npy")
    wanted = gram.finite(X, draw(64, 4, 5).hidden) if width else gram.infinite(X)
    kept = np.load(tmp_path / "h.npy", allow_pickle=False)
    np.testing.assert_allclose(kept, wanted, rtol=0, atol=1e-12)
    values = np.linalg.eigvalsh(wanted)
    for name, value in (("lambda_min", values[0]), ("lambda_max", values[-1])):
        (line,) = [line for line in said.splitlines() if name in line]
        number, error = map(float, line.split(name)[1].split(" ± "))
        assert abs(number - value) <= error + 1e-8 * abs(value)  # The command prints nine digits.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gram", "--out", "h.npz"), "out is h.npz; it must end in .npy"),
        (("gram", "--rounds", "3"), "rounds is given, and a Gram matrix does not depend on it; leave it out"),
        (("simulate", "--out", "run.npy"), "out is run.npy; it must end in .npz"),
        (("simulate", "--data", "mine.npz", "--out", "mine.npz"), "mine.npz is what is read"),
        (("simulate", "--rounds", "0"), "rounds is 0; it must be a positive integer"),
    ],
)
def test_what_cannot_be_is_refused(data, words, message):
    assert message in ntkfl(*words, status=2)
