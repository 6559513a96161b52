"""The public check of a kernel, which searches for the smallest data set that breaks a property."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from types import EllipsisType
from typing import Any

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Flaky

from ntkfl.gram import degenerate_pairs
from ntkfl.messages import require_number, require_size
from verification.kernels import properties
from verification.kernels.kernel_report import Counterexample, KernelReport, PropertyCheck
from verification.kernels.networks import Networks, beside
from verification.kernels.properties import Judgement, Property, Unusable

# the first angle is for kernels whose smallest eigenvalue falls as angle^2, the second for kernels whose smallest
# eigenvalue falls as the angle
SMOOTH_ANGLE, KINK_ANGLE = 1e-5, 1e-11
FEWEST = 8  # smallest number of networks of each width; their spread must give an interval
NEARLY = 1e-6  # rows whose smallest singular value is below this number are called neither dependent nor independent


def relu_strictly_positive(x: np.ndarray, depth: int | None = 2) -> bool | None:
    """Whether the kernel of a ReLU network without biases is positive definite on the rows of x.

    Args:
        x: rows, (n, d).
        depth: layers of weights, as `ntkfl.gram.deep` counts them. With depth 1, a linear network, the kernel is
            positive definite on independent rows. With depth 2 it is positive definite if no two rows are parallel and
            the directions of the antipodal pairs are linearly independent. With depth 3 or more it is positive definite
            if no two rows are parallel. None stands for any depth of 2 or more, and then nothing is claimed that
            depends on the depth.

    Returns:
        True or False, or None if neither is known.

    Raises:
        ValueError: an entry that is not finite, a zero row, or a depth below 1.
    Source: for two layers, FL-NTK, Section 3.2, which excludes parallel points only; for antipodal points, fl-ntk/X.7.
        For deeper networks, the kernel of unit rows is a power series with positive coefficients in the product of the
        rows. With two layers the first power is the only odd power; with three layers there are all odd powers, which
        separate all rows (Schoenberg 1942).
    """
    require_size("depth, the number of layers of weights,", depth, optional=True)
    parallel, antipodal = degenerate_pairs(x)
    if depth == 1:
        smallest = np.linalg.svd(x, compute_uv=False)[-1] if len(x) <= x.shape[1] else 0.0
        return True if smallest > NEARLY else False if smallest <= 8 * len(x) * np.finfo(float).eps else None
    if parallel:
        return False
    return True if not antipodal or (depth or 0) > 2 else None if depth is None else False


def check(
    kernel: Callable[..., Any],
    *,
    depth: int | None = None,
    strictly_positive: Callable[[np.ndarray], bool | None] | EllipsisType | None = ...,
    homogeneous: float | None = 1,
    rotation_invariant: bool = True,
    against: Callable[..., Any] | None = None,
    finite: Callable[[np.ndarray, int, int], Any] | None = None,
    rounding: float = 1e-7,
    smallest_angle: float | None = None,
    widths: Sequence[int] = (64, 128, 256, 512, 1024, 2048, 4096),
    networks: int = 32,
    examples: int = 100,
    seed: int = 0,
) -> KernelReport:
    """Test whether a function has the properties of a kernel, on unit rows.

    The defaults suit ReLU networks without biases.

    Args:
        kernel: kernel(x, z=None) -> (n, n') for rows x (n, d) and z (n', d), z = x when not given.
        depth: layers of weights of the ReLU network, as `ntkfl.gram.deep` counts them; 1 is a linear network. Default:
            any depth of 2 or more, for which less is claimed.
        strictly_positive: a predicate on x (n, d). The predicate is True where the Gram matrix is claimed to be
            positive definite, False where it is claimed to be singular, and None where nothing is claimed. If None is
            given instead of a predicate, nothing is claimed on any x. Default: `relu_strictly_positive` of this depth.
        homogeneous: the power p with k(c x, z) = c^p k(x, z) for every c > 0 and every row x. None means that no such
            power is claimed.
        rotation_invariant: whether k(x Q) = k(x) for rotations Q.
        against: another kernel function, whose entries are claimed to be the same to within `rounding`; default none.
        finite: a function finite(x, width, seed) -> (n, n) that returns the kernel of a network of finite width. The
            function is run on six rows with three features, and the RMS error of its kernels must fall as width^(-1/2).
            The mean of each entry over the seeds is extrapolated to infinite width, and the interval of the result must
            contain the kernel's entry. The level is 99.9% for all entries together, and a difference is believed only
            if other seeds show it once more. The report says how large an error would have been noticed; default none.
        rounding: relative error that is allowed in entries. Entries that must be equal may differ by this share of the
            largest entry. With n rows and unit diagonal, an eigenvalue may be as low as -n times this share. With the
            default, kernels that take arccos of a dot product pass, although they lose half their digits at equal and
            opposite rows.
        smallest_angle: on pairs of rows that are this close, in radians, strict positivity must be visible above float
            rounding. The default is 1e-11, at which a kernel that takes arccos of a dot product fails. A smooth kernel,
            whose eigenvalue falls as angle^2, needs 1e-5, which is the default at depth 1.
        widths: the widths at which `finite` is run, at least 4, ascending; default (64, 128, 256, 512, 1024, 2048,
            4096).
        networks: seeds at each width, at least 8; default 32.
        examples: data sets per property; default 100.
        seed: seed of all draws; the same seed gives the same report; default 0.

    Returns:
        A report with one row for each property: its worst case and, if the property fails, the smallest data set found
            that shows the failure. Eigenvalues are judged where k(x) is symmetric. The row "singular elsewhere" is left
            out if the kernel is not claimed to be singular on any of the drawn data.

    Raises:
        ValueError: an argument outside the ranges above.
    """
    widths = tuple(widths)
    if smallest_angle is None:
        smallest_angle = SMOOTH_ANGLE if depth == 1 else KINK_ANGLE
    if strictly_positive is ...:
        strictly_positive = partial(relu_strictly_positive, depth=depth)
    if finite is not None and depth == 1:
        raise ValueError("finite is given at depth 1: a linear network has no width, and its kernel no limit")
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}; it must be a function kernel(x, z=None)")
    require_number("rounding", rounding, "lie between 0 and 1")
    if not 0 < smallest_angle <= 0.1:
        raise ValueError(f"smallest_angle is {smallest_angle}; it must be above 0 and at most 0.1 rad")
    if len(widths) < 4 or widths[0] < 1 or any(a >= b for a, b in pairwise(widths)):
        raise ValueError(f"widths is {widths}; it must hold at least 4 positive integers, ascending")
    if networks < FEWEST:
        raise ValueError(f"networks is {networks}; an interval needs at least {FEWEST} at each width")
    require_size("depth, the number of layers of weights,", depth, optional=True)
    require_size("examples", examples)
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
    if against is not None:
        tried.append(properties.agrees(kernel, against, rounding, smallest_angle))
    if rotation_invariant:
        tried.append(properties.rotation_invariant(kernel, rounding, smallest_angle))
    if homogeneous is not None:
        tried.append(properties.homogeneous(kernel, homogeneous, rounding, smallest_angle))
    rows = [_search(claimed, examples, seed) for claimed in tried]
    rows = [row for row in rows if row.examples or row.name != "singular elsewhere"]
    if finite is not None:
        # with two layers, the mean of the networks' kernels is the limit at any width
        drawn = Networks(finite, widths, networks, biased=depth != 2)
        rows += [_row(name, needs, 1, judgement) for name, needs, judgement in beside(kernel, drawn, rounding, seed)]
    return KernelReport(getattr(kernel, "__name__", type(kernel).__name__), tuple(rows), seed)


class _Broken(Exception):
    """Raised when a draw fails, so that Hypothesis shrinks the draw."""


def _search(tested: Property, examples: int, seed: int) -> PropertyCheck:
    """Let Hypothesis look for a draw that breaks the property, and shrink that draw."""
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
            return  # this fault is reported in the row for finite output or the row for symmetry
        if judgement is None:
            return
        judged += broken is None
        if not judgement.margin >= 0:
            broken = judgement  # the last failing draw that Hypothesis tries is the smallest
            raise _Broken
        if worst is None or judgement.margin < worst.margin:
            worst = judgement

    # Flaky is raised for a kernel whose answers differ from call to call; its last answer is shown
    with suppress(_Broken, Flaky):
        attempt()
    return _row(tested.name, tested.requirement, judged, broken or worst)


def _row(name: str, requirement: str, examples: int, judgement: Judgement | None) -> PropertyCheck:
    if judgement is None:
        return PropertyCheck(name, requirement, examples, None, None, None)
    broken = not (judgement.margin >= 0 or judgement.unresolved)
    shown = Counterexample(judgement.x, judgement.z, judgement.explanation) if broken else None
    columns = name, requirement, examples, judgement.value, judgement.allowed, shown
    return PropertyCheck(*columns, note=judgement.note, unresolved=judgement.unresolved)
