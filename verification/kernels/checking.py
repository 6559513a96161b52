"""The public check of a kernel, and the search for the smallest data set that breaks a property."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Flaky

from ntkfl.gram import degenerate_pairs
from verification.kernels import concentration, properties
from verification.kernels.properties import Judgement, Property, Unusable
from verification.kernels.report import Counterexample, KernelReport, PropertyCheck


def relu_strictly_positive(x: np.ndarray) -> bool:
    """Whether lambda_min(H_inf) > 0 on the rows of x (n, d): no two parallel, and antipodal pairs independent.

    Raises:
        ValueError: an entry that is not finite, or a zero row.
    Source: FL-NTK, Section 3.2, which excludes parallel points only; see `ntkfl.gram.degenerate_pairs`.
    """
    return not any(degenerate_pairs(x))


def check(
    kernel: Callable[..., Any],
    *,
    strictly_positive: Callable[[np.ndarray], bool | None] | None = relu_strictly_positive,
    homogeneous: float | None = 1,
    rotation_invariant: bool = True,
    finite: Callable[[np.ndarray, int, int], Any] | None = None,
    rounding: float = 1e-7,
    smallest_angle: float = 1e-11,
    widths: Sequence[int] = (64, 128, 256, 512, 1024, 2048, 4096),
    examples: int = 100,
    seed: int = 0,
) -> KernelReport:
    """Test a function for the properties of a kernel, on unit rows; the defaults fit the two-layer ReLU network.

    Args:
        kernel: kernel(x, z=None) -> (n, n') for rows x (n, d) and z (n', d), z = x when not given.
        strictly_positive: predicate on x (n, d): True where the Gram matrix is claimed positive definite, False where
            it is claimed singular, None where nothing is claimed. None instead of a predicate: no claims at all.
        homogeneous: p with k(c x, z) = c^p k(x, z) for every c > 0 and row x, or None.
        rotation_invariant: whether k(x Q) = k(x) for rotations Q.
        finite: the finite-width counterpart finite(x, width, seed) -> (n, n): its RMS error over entries
            and 32 seeds must fall as width^(-1/2) on four rows with three features. A constant off by 5% shows at the
            default widths; one off by 2% drowns in the error there and needs larger ones.
        rounding: relative error allowed to entries: equal ones may differ by this much of the largest entry, and
            eigenvalues of n rows, at unit diagonal, lie below zero by n times this. The default passes kernels that
            take arccos of a dot product; such lose half their digits at equal and opposite rows.
        smallest_angle: strict positivity must be visible above float rounding on pairs of rows this close, radians. The
            default fails arccos of a dot product; a smooth kernel, whose eigenvalue falls as angle^2, needs 1e-5.
        widths: at which `finite` is run, at least 4, ascending.
        examples: data sets per property. seed: of all draws; the same seed gives the same report.

    Returns:
        A report with one row per property, its worst case and, where it fails, the smallest data set found that shows
        it. Eigenvalues are judged where k(x) is symmetric. The row "singular elsewhere" is left out when no data drawn
        are claimed singular.

    Raises:
        ValueError: an argument outside what is said above.
    """
    widths = tuple(widths)
    _check_arguments(kernel, rounding, smallest_angle, widths, examples)
    tried = [
        properties.finite_output(kernel, smallest_angle),
        properties.symmetric(kernel, rounding, smallest_angle),
        properties.transposes(kernel, rounding, smallest_angle),
        properties.consistent(kernel, rounding, smallest_angle),
        properties.positive_semidefinite(kernel, rounding, smallest_angle),
    ]
    if strictly_positive is not None:
        tried.append(properties.strictly_positive(kernel, strictly_positive, rounding, smallest_angle))
        tried.append(properties.singular_elsewhere(kernel, strictly_positive, rounding))
    if rotation_invariant:
        tried.append(properties.rotation_invariant(kernel, rounding, smallest_angle))
    if homogeneous is not None:
        tried.append(properties.homogeneous(kernel, homogeneous, rounding, smallest_angle))
    rows = [_search(each, examples, seed) for each in tried]
    rows = [row for row in rows if row.examples or row.name != "singular elsewhere"]
    if finite is not None:
        judgement = concentration.judge(kernel, finite, widths, seed)
        rows.append(_row(concentration.NAME, concentration.REQUIREMENT, 1, judgement))
    return KernelReport(getattr(kernel, "__name__", type(kernel).__name__), tuple(rows), seed)


def _check_arguments(kernel, rounding: float, smallest_angle: float, widths: tuple[int, ...], examples: int) -> None:
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}; it must be a function kernel(x, z=None)")
    if not 0 < rounding < 1:
        raise ValueError(f"rounding is {rounding}; it must be between 0 and 1")
    if not 0 < smallest_angle <= 0.1:
        raise ValueError(f"smallest_angle is {smallest_angle}; it must be above 0 and at most 0.1 rad")
    if len(widths) < 4 or widths[0] < 1 or any(a >= b for a, b in pairwise(widths)):
        raise ValueError(f"widths is {widths}; it must hold at least 4 positive integers, ascending")
    if examples < 1:
        raise ValueError(f"examples is {examples}; it must be 1 or more")


class _Broken(Exception):
    """Tells Hypothesis that a draw fails, so that it shrinks it."""


def _search(tested: Property, examples: int, seed: int) -> PropertyCheck:
    """Let Hypothesis look for a draw that breaks the property and shrink it."""
    judged = 0
    worst: Judgement | None = None
    broken: Judgement | None = None

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(tested.data)
    def attempt(case: Any) -> None:
        nonlocal judged, worst, broken
        try:
            judgement = tested.judge(case)
        except Unusable:
            return  # the row for finite output, or for symmetry, reports it
        if judgement is None:
            return
        judged += broken is None
        if not judgement.margin >= 0:
            broken = judgement  # Hypothesis calls the smallest one last
            raise _Broken
        if worst is None or judgement.margin < worst.margin:
            worst = judgement

    try:
        attempt()
    except (_Broken, Flaky):  # Flaky: a kernel that answers differently each time; what it answered last is shown
        pass
    return _row(tested.name, tested.requirement, judged, broken or worst)


def _row(name: str, requirement: str, examples: int, judgement: Judgement | None) -> PropertyCheck:
    if judgement is None:
        return PropertyCheck(name, requirement, examples, None, None, None)
    shown = None if judgement.margin >= 0 else Counterexample(judgement.x, judgement.z, judgement.explanation)
    return PropertyCheck(name, requirement, examples, judgement.found, judgement.allowed, shown)
