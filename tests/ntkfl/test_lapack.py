"""Tests of LAPACK called without the interpreter's lock: the numbers are scipy's to the bit.

Other threads run meanwhile.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from ntkfl import interruption, lapack

ROOT = Path(__file__).parents[2]
SIZES = (1, 2, 7, 130)


def symmetric(n):
    matrix = np.random.default_rng(n).standard_normal((n, n))
    return matrix + matrix.T


def positive(n):
    return symmetric(n) @ symmetric(n) + np.eye(n)


@pytest.mark.parametrize("n", SIZES)
def test_the_bits_are_those_of_scipy(n):
    h, metric = symmetric(n), positive(n)
    factor = metric.copy(order="F")
    assert lapack.cholesky(factor)
    assert np.array_equal(np.tril(factor), scipy.linalg.cholesky(metric, lower=True))
    for columns in (h, h[:, :0]):
        assert np.array_equal(
            lapack.solved(factor, columns), scipy.linalg.cho_solve(scipy.linalg.cho_factor(metric, lower=True), columns)
        )
    values, vectors = scipy.linalg.eigh(h, subset_by_index=[0, 0])
    assert np.array_equal(lapack.lowest_vector(h.copy(order="F")), vectors[:, 0])
    alone = scipy.linalg.eigh(h, subset_by_index=[0, 0], eigvals_only=True)
    assert lapack.smallest_eigenvalue(h.copy(order="F")) == alone[0] == pytest.approx(values[0], rel=1e-12)
    of_both = lapack.generalised_eigenvalues(h.copy(order="F"), metric.copy(order="F"))
    assert np.array_equal(of_both, scipy.linalg.eigh(h, metric, eigvals_only=True))


def test_what_is_not_positive_definite_has_no_factor_and_is_no_metric():
    indefinite = np.asfortranarray(np.diag([2.0, -1.0, 3.0]))
    assert not lapack.cholesky(indefinite.copy(order="F"))
    with pytest.raises(np.linalg.LinAlgError, match=r"dsygvd of 3 rows .* must be positive definite"):
        lapack.generalised_eigenvalues(np.asfortranarray(np.eye(3)), indefinite)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (np.zeros((2, 3), order="F"), r"shape \(2, 3\); it must be \(n, n\)"),
        (np.zeros((0, 0)), r"shape \(0, 0\)"),
        (np.eye(2, dtype=np.float32, order="F"), "the matrix is float32 in Fortran's order"),
        (np.arange(4.0).reshape(2, 2), "float64 in another order"),
        (np.broadcast_to(1.0, (1, 1)), "Fortran's order, read-only"),
    ],
)
def test_a_matrix_that_lapack_would_misread_is_refused(matrix, said):
    for routine in (lapack.cholesky, lapack.smallest_eigenvalue, lapack.lowest_vector):
        with pytest.raises(ValueError, match=said):
            routine(matrix)
    with pytest.raises(ValueError, match=said):
        lapack.generalised_eigenvalues(np.eye(1), matrix)
    with pytest.raises(ValueError, match=said):
        lapack.solved(matrix, np.ones((len(matrix), 1)))


def test_columns_of_another_length_than_the_factor_are_refused():
    for columns in (np.ones(2), np.ones((3, 1))):
        with pytest.raises(ValueError, match=rf"shape \({len(columns)},.* the factor of 2 rows needs \(2, k\)"):
            lapack.solved(np.eye(2, order="F"), columns)


def test_a_routine_that_does_not_end_with_its_info_is_refused():
    with pytest.raises(ImportError, match=r"scipy's dlamch is .* \(char \*\); it must end with int \*"):
        lapack._routine("dlamch")


# LAPACK runs for some ten seconds. The first signal must be answered in this time, and the second must end the process.
# Nothing is `released`, so that a signal that arrives before LAPACK raises nothing.
LONG = """
import importlib.util, sys
def alone(name):
    spec = importlib.util.spec_from_file_location(name, f"ntkfl/{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
interruption = alone("interruption")
interruption.install()
import numpy as np
lapack = alone("lapack")
matrix = np.full((5000, 5000), 0.5, order="F")
print("ready", flush=True)
lapack.smallest_eigenvalue(matrix)
print("whole", flush=True)
"""


@pytest.mark.parametrize("sent", interruption.SIGNALS)
def test_within_it_the_first_signal_is_answered_and_the_second_ends_the_process(sent):
    process = subprocess.Popen(
        [sys.executable, "-c", LONG],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        assert "again ends at once" in process.stderr.readline()
        process.send_signal(sent)
        out, err = process.communicate()
    assert (out, err, process.returncode) == ("", "ended at once, by a second signal\n", 128 + sent)
