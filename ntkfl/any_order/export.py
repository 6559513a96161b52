"""Writes an any-order certificate as a folder that `ntkfl_check.py` checks without this package."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from scipy.linalg import solve_triangular

from ntkfl import lapack
from ntkfl.any_order import ntkfl_check
from ntkfl.any_order.certificate import AnyOrderCertificate
from ntkfl.any_order.constraint_rows import ConstraintRows, Nearest
from ntkfl.connectivity.network import TwoLayer
from ntkfl.limit.convex_loss import SQUARES

CHECKER = "ntkfl_check.py"
_BITS = 40  # bits of each entry of Y; with fewer bits the checker's integers are shorter


def export_any_order(certificate: AnyOrderCertificate, folder: Path, x_test: np.ndarray | None = None) -> dict:
    """Write a certificate, its network, its data and a witness to a folder, and let the checker's script, which is
    written to the folder too, check the certificate.

    The witness consists of a vector a and a matrix Y, from which the checker proves its bounds.

    Args:
        certificate: a certified network.
        folder: a new folder, or an empty one. It is created when its content is complete.
        x_test: inputs (k, d) whose final classes are part of the claim; default none.

    Returns: what the checker has proved: `distance`, `step_limits` by client, `pooled_step_limit`, `eigenvalue` (a
        lower bound of the eigenvalues of J J' at every later model, where J has the gradients at all samples, except
        samples that are multiples of earlier samples), and `final` (the classes).

    Raises:
        ValueError: the certificate does not hold, or the checker cannot confirm it; the message then has the checker's
            words.
        OSError: the folder is not empty, or cannot be written.
    """
    content, arrays = _content(certificate, x_test)
    return checked_folder(folder, content, arrays, (ntkfl_check,), ntkfl_check.check)


def checked_folder(
    folder: Path,
    content: dict,
    arrays: Mapping[str, np.ndarray],
    scripts: Sequence[ModuleType],
    proved: Callable[[Path], dict],
) -> dict:
    """Write a folder under a temporary name, and give it its own name after `proved` has checked its content.

    Returns the result of `proved`.

    Raises:
        ValueError: the scripts refuse what is written. FileExistsError: the folder exists and is not empty.
    """
    require_new(folder)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    try:
        for name, values in arrays.items():
            raw = np.ascontiguousarray(values, "<f8").tobytes()
            content["sha256"][name] = hashlib.sha256(raw).hexdigest()
            (part / f"{name}.f64").write_bytes(raw)
        for script in scripts:
            shutil.copyfile(str(script.__file__), part / Path(str(script.__file__)).name)
        _write(part, content)
        content["claim"] = proved(part)
        _write(part, content)
        part.replace(folder)
    except ntkfl_check.Refused as error:
        raise ValueError(f"the exported certificate is not confirmed in exact numbers: {error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return content["claim"]


def require_new(folder: Path) -> None:
    """Raise FileExistsError if there is a file of this name, or a folder that is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there and not empty; the export needs a new folder")


def _write(folder: Path, content: dict) -> None:
    (folder / "certificate.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _content(certificate: AnyOrderCertificate, x_test: np.ndarray | None) -> tuple[dict, dict[str, np.ndarray]]:
    """The content of certificate.json without the checker's results, and the arrays."""
    rows, nearest = certificate.proof
    problem, weights, net = certificate.problem, certificate.weights, rows.neuron_pass.network
    readout = np.atleast_2d(weights.readout if isinstance(weights, TwoLayer) else weights.signs).astype(float)
    if certificate.output_bias.any():
        raise ValueError(
            f"the output has a bias of {certificate.output_bias}, and an exported certificate has no place for it: "
            "subtract it from the labels, set it to 0 and certify again"
        )
    if certificate.loss is not SQUARES:
        raise ValueError(f"the loss is {certificate.loss.name}; an exported certificate is for squares")
    tests = np.zeros((0, problem.d)) if x_test is None else certificate.inputs(x_test)
    solution, inverse_root = _witness(rows, nearest)
    arrays = {
        "hidden": weights.hidden,
        "readout": readout,
        "x": problem.x,
        "y": problem.y.reshape(problem.n, -1),
        "x_test": tests,
        "solution": solution,
        "inverse_root": inverse_root,
    }
    content = {
        "schema": ntkfl_check.SCHEMA,
        "features": problem.d,
        "outputs": net.n_outputs,
        "root_of": 1 if isinstance(weights, TwoLayer) else certificate.width,
        "owner": problem.owner.tolist(),
        "held": certificate.held.tolist(),
        "sha256": {},
    }
    return content, arrays


def _witness(rows: ConstraintRows, nearest: Nearest) -> tuple[np.ndarray, np.ndarray]:
    """The vector a and the matrix Y that the checker needs.

    `ntkfl.any_order` defines the matrix C. In `rows`, every sample is divided by a power of two. The checker's C has
    rows of samples that are not divided.
    """
    net = rows.neuron_pass.network
    exponent = net.exponent[net.sample]
    scale = np.ldexp(1 / np.sqrt(net.width) if net.signs else 2.0**net.gain, -np.repeat(exponent, net.n_outputs))
    scale = np.concatenate([scale, np.ldexp(1.0, -exponent[rows.row])])
    factor = rows.gram[0].T.copy(order="F")
    lapack.cholesky(factor)  # this succeeds, since the certificate has shown that C C' is positive definite
    inverse = solve_triangular(np.tril(factor), np.eye(rows.size), lower=True) * scale
    part, power = np.frexp(inverse)
    return nearest.solution * scale, np.ldexp(np.rint(np.ldexp(part, _BITS)), power - _BITS)
