"""Factorisations and eigenvalues by LAPACK that let other threads run; scipy's routines would block them.

scipy keeps the interpreter's lock until LAPACK returns. So the thread of `ntkfl.interruption` could not hear signals
for minutes. The routines here are the routines that scipy calls, with scipy's arguments, so that the results have the
same bits. numpy lets other threads run too; this module has the routines that numpy lacks or cannot run in place.
"""

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float
from numpy.linalg import LinAlgError
from scipy.linalg import cython_lapack


def cholesky(matrix: Float[np.ndarray, "n n"]) -> bool:
    """Write the lower Cholesky factor over the lower triangle, in place; returns False if the matrix is not positive
    definite.

    Raises:
        ValueError: not a writeable float64 matrix in Fortran's order.
    """
    _require_own(matrix)
    return _call("dpotrf", b"L", len(matrix), matrix, len(matrix)) == 0


def solved(factor: Float[np.ndarray, "n n"], columns: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Returns the solution x of M x = columns, from the factor of M that `cholesky` has written.

    Raises:
        ValueError: a `factor` that is no square, writeable float64 matrix in Fortran's order; `columns` that are not
            (n, k).
    """
    _require_own(factor)
    n = len(factor)
    if columns.ndim != 2 or len(columns) != n:
        raise ValueError(f"the columns have shape {columns.shape}; the factor of {n} rows needs ({n}, k)")
    solution = np.array(columns, dtype=np.float64, order="F")
    _call("dpotrs", b"L", n, solution.shape[1], factor, n, solution, n)
    return solution


def smallest_eigenvalue(matrix: Float[np.ndarray, "n n"]) -> float:
    """The smallest eigenvalue of a symmetric matrix, without an error bound; the matrix is overwritten.

    Raises:
        ValueError: as `cholesky`. LinAlgError: LAPACK fails.
    """
    return _smallest(matrix, b"N")[0]


def lowest_vector(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " n"]:
    """An eigenvector of the smallest eigenvalue, without an error bound; the matrix is overwritten.

    Raises:
        ValueError: as `cholesky`. LinAlgError: LAPACK fails.
    """
    return _smallest(matrix, b"V")[1]


def generalised_eigenvalues(
    matrix: Float[np.ndarray, "n n"], metric: Float[np.ndarray, "n n"]
) -> Float[np.ndarray, " n"]:
    """The numbers l for which matrix - l metric is singular, ascending, without error bounds.

    Both matrices are overwritten.

    Raises:
        ValueError: as `cholesky`. LinAlgError: the metric is not positive definite, or LAPACK fails.
    """
    _require_own(matrix)
    _require_own(metric)
    n = len(matrix)
    values, work, whole = np.empty(n), np.empty(2 * n + 1), np.empty(1, np.intc)
    info = _call("dsygvd", 1, b"N", b"L", n, matrix, n, metric, n, values, work, len(work), whole, 1)
    if info:
        raise LinAlgError(f"dsygvd of {n} rows ended with info = {info}; the second matrix must be positive definite")
    return values


def _smallest(matrix: np.ndarray, vectors: bytes) -> tuple[float, np.ndarray]:
    _require_own(matrix)
    n, count = len(matrix), np.empty(1, np.intc)
    values, vector, support = np.empty(n), np.empty(n), np.empty(2, np.intc)

    def run(work: np.ndarray, size: int, whole: np.ndarray, whole_size: int) -> int:
        limits = (0.0, 0.0, 1, 1, 0.0)  # vl and vu, not used; il and iu: the first eigenvalue; abstol
        out = (count, values, vector, n, support)
        return _call("dsyevr", vectors, b"I", b"L", n, matrix, n, *limits, *out, work, size, whole, whole_size)

    work, whole = np.empty(1), np.empty(1, np.intc)
    info = run(work, -1, whole, -1)  # asks LAPACK for the sizes of the work arrays
    if not info:
        work, whole = np.empty(int(work[0])), np.empty(int(whole[0]), np.intc)
        info = run(work, len(work), whole, len(whole))
    if info or count[0] != 1:
        raise LinAlgError(f"dsyevr of {n} rows ended with info = {info}; the entries must be finite")
    return float(values[0]), vector


def _require_own(matrix: np.ndarray) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"the matrix has shape {matrix.shape}; it must be (n, n) with n at least 1")
    if matrix.dtype != np.float64 or not (matrix.flags.f_contiguous and matrix.flags.writeable):
        order = "Fortran's" if matrix.flags.f_contiguous else "another"
        kind = "" if matrix.flags.writeable else ", read-only"
        raise ValueError(
            f"the matrix is {matrix.dtype} in {order} order{kind}; it must be float64 in Fortran's order, and writeable"
        )


def _call(name: str, *arguments: bytes | int | float | np.ndarray) -> int:
    """Call a routine with all its arguments except the last, which is `info`; returns `info`."""
    info = ctypes.c_int()
    _routine(name)(*(_passed(argument) for argument in arguments), ctypes.byref(info))
    return info.value


def _passed(argument: bytes | int | float | np.ndarray) -> object:
    """The argument in the form that Fortran takes, which is its address."""
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data_as(ctypes.c_void_p)
    return ctypes.byref(ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_double(argument))


@cache
def _routine(name: str) -> Callable[..., None]:
    """A routine that scipy exports to Cython and numba, as a C function.

    ctypes calls such a function without the interpreter's lock.

    Raises:
        ImportError: the routine's last argument, info, is not an integer of 32 bits. A scipy that is built with other
            integers has such routines.
    """
    capsule, python = cython_lapack.__pyx_capi__[name], ctypes.pythonapi
    signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", python))(capsule)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))
    if not signature.endswith(b", int *)"):
        raise ImportError(
            f"scipy's {name} is {signature.decode()}; it must end with int *, so that integers have 32 bits"
        )
    return ctypes.CFUNCTYPE(None)(pointer(capsule, signature))
