"""The kernel regime of data sets whose Gram matrix H is too large to decompose.

Results come from products with H and with the clients' own blocks of H. H is stored in tiles (square pieces), which may
be in memory, in a file, on a cluster or on a device. Instead, H may be given by features of the samples.

H_D holds the clients' own blocks of H and is 0 elsewhere. u(H_D) is the clients' response, a function of H_D that maps
the residual to the clients' mean displacement, times the server rate if the method has one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float
from numpy.linalg import norm
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, lobpcg

from ntkfl import interruption
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram import infinite
from ntkfl.gram.remote_tiles import DaskTiles, DeviceTiles, device_bytes, has_room, room_on
from ntkfl.gram.threads import blas_threads
from ntkfl.gram.tiles import (
    UNIT,
    FeatureGram,
    Features,
    HeldGram,
    Kernel,
    Tiles,
    features_bytes,
    kernel_error,
    tiles_bytes,
    tiles_room,
)
from ntkfl.limit.carried_errors import (
    SAFE,
    BlockErrors,
    BoundedRound,
    Carried,
    Changing,
    Least,
    Margins,
    Series,
    SeriesState,
    bounded_powers,
    carried,
    nodes_of,
    run_together,
    summed,
)
from ntkfl.limit.infinite_width import STREAMED, StepLimits, checked_rounds
from ntkfl.limit.kept_run import KeptRun
from ntkfl.limit.lanczos import KRYLOV, TOGETHER, WHOLE, Lanczos, LargestEigenvalues, RitzRounds, WholeSpectrum
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.limit.linear_round import Blocks, LinearRound
from ntkfl.limit.lyapunov import Moving, Steps
from ntkfl.limit.round_modes import EXACT_INTEGERS, ClientModes
from ntkfl.memory import left_for, require
from ntkfl.messages import require_size
from ntkfl.problem import LARGE, SMALL, Problem, finite_array

if TYPE_CHECKING:
    import torch
    from distributed import Client

VECTORS, ITERATIONS = 4, 60  # numbers of vectors and of iterations in the search for the smallest eigenvalue
# numbers of products with H: for a quadrature, and for a Krylov space in which steps are searched
PRODUCTS, SEARCHED = 60, 40
# computing all eigenvectors of an (n, n) matrix takes no longer than MANY n products of the matrix with a vector
MANY = 8
QUADRATURE = 1e-12  # rounding of the nodes and weights of a quadrature
# eigenvalues are not computed for responses from this size on, because squares of products would overflow
LONGEST = 1e60
RITZ = "eigenvectors with their residuals"
RESOLVED = 1e-3  # a rate counts as known if its error is at most this share of its distance from 1
OWN = 64  # kernel values among new points are computed for blocks of this many points
DENSE = 8.5  # number of (n, n) matrices of float64 that a regime with a whole Gram matrix needs
# number of (m, m) matrices that a client of m samples needs until its block is decomposed, in addition to its basis
DECOMPOSED = 4
# number of vectors of n numbers that a run holds for each label column, and for each reported round
STATE, REPORTED = 8, 5


def require_tiles(how: bool | str, memmap: Path | None, cluster: Client | None, device: str | None) -> None:
    """Refuse a place for tiles (file, cluster or device) if the matrix is stored whole; refuse two places at once.

    Raises:
        ValueError: a place although the matrix is stored whole, or two places.
    """
    places = {f"memmap is {memmap}": memmap, "a cluster": cluster, f"device is {device!r}": device}
    named = [place for place, given in places.items() if given is not None]
    if named and how in (False, "auto"):
        raise ValueError(f"{named[0]} with matrix_free = {how!r}; it is for True, 'float64' or 'float32'")
    if len(named) > 1:
        raise ValueError(f"{named[0]} and {named[1]}, and tiles are in one place; leave out one of them")


def tiles_of(
    problem: Problem,
    kernel: Kernel,
    how: bool | str,
    memmap: Path | None = None,
    cluster: Client | None = None,
    device: torch.device | None = None,
    rounds: int = 0,
    methods: int = 1,
) -> HeldGram | None:
    """The tiles for `kernel_regime(..., matrix_free=how, memmap=memmap, ...)`; None if the matrix is stored whole.

    The memory must hold the tiles, the clients' blocks, and a run of `methods` methods with `rounds` reported rounds.

    Raises:
        ValueError: another `how`; too little memory; as `Tiles.of`. ClusterStopped: as `DaskTiles.on`.
    """
    if how not in (False, True, "auto", "float64", "float32"):
        raise ValueError(f"matrix_free is {how!r}; it is False, True, 'auto', 'float64' or 'float32'")
    n, tested = problem.n, 0 if problem.x_test is None else len(problem.x_test)
    if how is False or (how == "auto" and (whole := 8 * DENSE * n * n) <= left_for(whole)):
        return None
    if problem.outputs > 1:
        raise ValueError(
            "matrix_free takes labels of several columns, but no problem.per_output(); give the problem itself"
        )
    sizes = np.sort(np.bincount(problem.owner)).astype(float)
    bases, decomposed = float(sizes @ sizes), DECOMPOSED * float(np.square(sizes[-blas_threads() :]).sum())
    held_elsewhere = any(place is not None for place in (memmap, cluster, device))

    def runs(n: int, label_columns: int, reported_rounds: int = 0, room: float = 0.0) -> float:
        """The bytes of a run, without the bytes of the tiles. Building the tiles takes `room` bytes, which later work
        may use again.
        """
        vectors = methods * (STATE + REPORTED * reported_rounds)
        share = n / problem.n
        # one piece is held while another is computed
        pieces = 2 * min(tested, max(1, STREAMED // n)) * n if rounds else 0
        pairs = 3 * min(n, TOGETHER + sizes[-1] * share) ** 2 + KRYLOV * n  # the memory of `LargestEigenvalues`
        later = max(decomposed * share**2, pieces, pairs)
        return 8 * (bases * share**2 + vectors * label_columns * n) + max(room, 8 * later)

    sized: dict[str, Any] = {"n": n, "label_columns": problem.y.size // n} | (
        {"reported_rounds": rounds} if rounds else {}
    )

    if isinstance(kernel, Features):
        if held_elsewhere or how == "float32":
            other = "matrix_free='float32'" if how == "float32" else "memmap, a cluster or a device"
            raise ValueError(f"a kernel of features needs no tiles, and is kept whole in float64; leave out {other}")
        count = kernel.count
        require("a run with features", lambda n, **of: features_bytes(n, count) + runs(n, **of), **sized)
        return FeatureGram.by(kernel, problem.x)

    def needs(dtype: str, n: int, **of: int) -> float:
        held = 0.0 if held_elsewhere else tiles_bytes(n, dtype) - tiles_room(n, dtype)
        return held + runs(n, **of, room=tiles_room(n, dtype))

    def wide() -> bool:
        """Whether tiles of float64 fit the memory."""
        if cluster is not None:
            return has_room(cluster, n, problem.d, "float64")
        if device is not None and device_bytes(n, "float64") > room_on(device, n, "float64"):
            return False
        return needs("float64", **sized) <= left_for(needs("float64", **sized))

    dtype = str(how) if isinstance(how, str) and how != "auto" else ("float64" if wide() else "float32")
    hint = "matrix_free='float32' takes half the memory" if dtype == "float64" else ""
    if not held_elsewhere and dtype == "float32":
        hint = "memmap=FILE keeps the tiles on the disk"
    require(f"a run with {dtype} tiles", lambda **of: needs(dtype, **of), hint=hint, **sized)
    if cluster is not None:
        return DaskTiles.on(cluster, kernel, problem.x, dtype)
    if device is not None:
        return DeviceTiles.on(device, kernel, problem.x, dtype)
    return Tiles.of(kernel, problem.x, dtype, memmap)


def shared_by_methods(tiles: HeldGram, clients: ClientModes) -> dict[str, object]:
    """The results that all regimes of the same tiles and clients share, because they are computed once."""
    return {"_block_errors": BlockErrors(tiles, clients), "_tops": LargestEigenvalues(tiles, clients)}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MatrixFreeRegime(LinearRegime):
    """A linear method whose rounds take only products with the Gram matrix and with the clients' blocks of it.

    It has the methods of `LinearRegime`. Many rounds of plain averaging take few products (see `carried_errors`). A
    result that needs every eigenvalue of a large matrix is NaN, or an error says why it is missing.

    Args:
        work: the clients' blocks and local steps.

    Source: docs/proofs/linear_methods.md#rounds-without-a-matrix.
    """

    work: Blocks

    @property
    def tiles(self) -> HeldGram:
        """The Gram matrix."""
        return cast(HeldGram, self.gram)

    @property
    def response_eigenvalues(self) -> None:
        """None, since not all eigenvalues of a round are computed; see `outermost`."""

    @cached_property
    def outermost(self) -> tuple[Estimate, Estimate] | None:
        """The smallest and the largest eigenvalue of H u(H_D), shape () each; None if they do not determine the rounds.

        The interval of the smallest eigenvalue begins at 0 if rounding, or a search that was cut short, leaves this
        eigenvalue unknown.
        """
        if self._outermost_largest is None:
            return None
        (smallest, off), noise = self._smallest(cast(np.ndarray, self.round.response)), self._noise
        least = max(0.0, smallest - off - noise)
        least = least if 2 * (off + noise) < smallest else 0.0
        return Estimate.between(least, max(smallest + noise, 0.0), RITZ), self._outermost_largest

    @cached_property
    def _outermost_largest(self) -> Estimate | None:
        """The largest eigenvalue of `outermost`, which needs no search for the smallest eigenvalue."""
        response = self.round.response
        if response is None or response.min() <= 0 or not response.max() < LONGEST:
            return None
        (largest, far), noise = self._tops.near(response), self._noise
        return Estimate.between(largest - noise, min(largest + far + noise, max(self._largest_at_most, largest)), RITZ)

    def _smallest(self, values: Float[np.ndarray, " n"]) -> tuple[float, float]:
        """The computed smallest eigenvalue of W^(1/2) H W^(1/2), and a distance.

        W is the function of H_D that has the numbers `values` at the eigenvalues of H_D. Up to the errors of tiles and
        rounding, it is proved that an eigenvalue is within the distance of the computed one.
        """
        root, n = np.sqrt(values), self.problem.n

        def product(v: np.ndarray) -> np.ndarray:
            return self._clients.apply(root, self.tiles @ self._clients.apply(root, v.reshape(n, -1)))

        if n <= max(WHOLE, 5 * VECTORS):  # LOBPCG needs at least five times as many rows as vectors
            _, vectors = np.linalg.eigh(product(np.eye(n)))
            vector = vectors[:, 0]
        else:
            operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
            start = np.random.default_rng(0).standard_normal((n, VECTORS))
            # no warning that the search was cut short is needed, since the residual shows it
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                known, vectors = lobpcg(operator, start, largest=False, maxiter=ITERATIONS, tol=1e-12)
            vector = vectors[:, int(np.argmin(known))]
        vector = vector / norm(vector)
        image = product(vector)[:, 0]
        value = float(vector @ image)
        return value, float(norm(image - value * vector))

    @property
    def _noise(self) -> float:
        """How far the errors of tiles and of rounding may move an eigenvalue of H u(H_D).

        These errors occur in products with H and in the clients' blocks.
        """
        local, most = self._measured.local, self._measured.most
        return most * (local.product + 3 * local.rounded * local.size) + local.size * local.response

    @property
    def _largest_at_most(self) -> float:
        """A bound of the largest eigenvalue of H u(H_D).

        It is the sum of bounds for the clients' diagonal blocks. Such a sum bounds the largest eigenvalue of a positive
        matrix.
        """
        return self._measured.largest

    @cached_property
    def rate_estimate(self) -> Estimate:
        """An estimate, shape (), of the spectral radius of a round.

        The interval of the estimate ends at 1 or above if the smallest eigenvalue is not resolved.

        Raises:
            ValueError: a method whose clients remember, or another method without a symmetric map.
        """
        if self.outermost is None or self.round.roots is None:
            raise ValueError(
                f"the rate of {self.method} is not found without a matrix; take matrix_free=False and fewer samples"
            )
        smallest, largest = self.outermost
        ends = np.array([smallest.lo, smallest.hi, largest.lo, largest.hi], float)
        roots = self.round.roots(ends)
        sizes = np.abs(roots).max(axis=1)
        least, most = float(sizes[1:3].max()), float(sizes.max())
        # No eigenvalue of H u(H_D) is beyond the smallest and the largest by more than the errors of these two. Such an
        # error moves an eigenvalue of the round map (a root in `roots`) by at most the number that is subtracted here.
        least -= (3 * max(1.0, least) * max(0.0, float(ends[1] - ends[2]))) ** (1 / roots.shape[1])
        return Estimate.between(max(least, 0.0), most, smallest.method)

    @property
    def rate(self) -> float:
        """The spectral radius of a round; NaN if its error is more than a thousandth of its distance from 1."""
        if self.outermost is None or self.round.roots is None:
            return float("nan")
        estimate = self.rate_estimate
        return float(estimate.value) if estimate.error <= RESOLVED * abs(1 - estimate.value) else float("nan")

    @property
    def stable(self) -> bool:
        """Whether every residual goes to 0.

        Raises:
            ValueError: the smallest eigenvalue, or the spectrum of this method, is not known.
        """
        if self.step_warning:
            return False
        if self.outermost is None or self.outermost[0].lo <= 0:
            unknown = (
                "its rounds have no symmetric map whose smallest eigenvalue would decide; take matrix_free=False and "
                "fewer samples"
                if self.outermost is None
                else "the smallest eigenvalue of the round is below the errors of rounding and of the search"
            )
            raise ValueError(f"whether every residual of {self.method} goes to 0 is not resolved: {unknown}")
        return True

    @property
    def undecided(self) -> bool:
        """False, because `stable` raises an error if stability is not known."""
        return False

    @cached_property
    def _spaces(self) -> dict[bytes, RitzRounds]:
        """The Krylov spaces of the labels, one for each response of the clients; regimes of the same data share
        them.
        """
        return {}

    @property
    def has_ritz(self) -> bool:
        """Whether `ritz` exists.

        The server must combine mean displacements, and the clients' response must be positive, so that it has a square
        root.
        """
        averages = self.round.response is not None and self.round.server is not None and self.before is None
        return averages and bool(self.round.mean_response.min() > 0)

    @property
    def ritz(self) -> RitzRounds:
        """The Krylov space of the labels for these local steps, if `has_ritz`.

        The space is the same for every server.
        """
        response = self.round.mean_response
        key = response.astype(np.float32).tobytes()  # `mean_response` is the same for every server rate, up to rounding
        if key not in self._spaces:
            root = np.sqrt(response)
            self._spaces[key] = RitzRounds.of(
                lambda v: self.tiles @ v,
                lambda v, inverse: self._clients.apply(1 / root if inverse else root, v),
                self._labels,
                SEARCHED,
            )
        return self._spaces[key]

    @property
    def modes(self) -> None:
        """None, since only a regime with a whole matrix has modes; see `ritz`."""

    @property
    def likely_stable(self) -> bool:
        """Whether every Ritz value plus its residual is within the limit.

        The answer True is enough for a search, but proves no stability.
        """
        rate = 1.0 if self.round.server_rate is None else self.round.server_rate
        return bool(rate * self.ritz.largest < self.round.limit)

    @property
    def step_limits(self) -> StepLimits:
        """The server rate below which no residual grows, and the largest eta_local as in `LinearRegime`.

        The server rate is NaN if it is unknown.
        """
        local = self._local_limit(self.round.pull) / max(self.step_factors, default=1.0)
        largest = self._outermost_largest
        if largest is None or self.round.server_rate is None:
            return StepLimits(float("nan"), local)
        if not largest.lo > 0:  # in this case no digit of the eigenvalue is known
            return StepLimits(float("nan"), local)
        return StepLimits(float(self.round.server_rate * self.round.limit / largest.value), local)

    @cached_property
    def step_warning(self) -> str | None:
        """A warning that the residual grows; None if the residual does not grow, or if it is unknown whether it grows.

        Whether the residual grows is unknown for SCAFFOLD's option I, for clients in turn, and with momentum. If the
        clients' steps are beyond their own limit, the growth depends on the smallest eigenvalue.
        """
        response, steps = self.round.response, self._setting
        if response is None:
            return self._clients_memory_warning
        if 0 < response.min() and response.max() < LONGEST:
            if self._largest_at_most < self.round.limit or self._outermost_largest.hi < self.round.limit:  # type: ignore[union-attr]
                return None
            if (rate := self.step_limits.eta_global) > 0:
                return f"{steps} is stable for a server rate below {rate:.6g} only"
        grows = "grows out of float64 within a few rounds"
        grows = (
            grows if 0 < response.min() and not response.max() < LONGEST else "may be unstable for every server rate"
        )
        return f"{steps} {grows}; with eta_local < {self.step_limits.eta_local:.6g} the clients' steps contract"

    @property
    def _clients_memory_warning(self) -> str | None:
        """As `step_warning`, for SCAFFOLD and FedDyn, whose residual grows if T(-2) has a positive eigenvalue.

        T is the matrix function of `ntkfl.limit.outer_spectrum`.

        Source: docs/proofs/linear_methods.md#outer-eigenvalues.
        """
        feedback, setup, below = self.round.feedback, self.setup, self.step_limits.eta_local
        if feedback is None:
            return None
        steps, remedy = self._setting, f"with eta_local < {below:.6g} the clients' steps contract"
        spectrum = feedback.spectrum
        if not (spectrum.known and spectrum.zero.max() < 2):
            return f"{steps} may be unstable; {remedy}" if setup.eta_local >= below else None
        weights = feedback.weights
        if self._clients.sum_of_largest(weights * self._clients.values) < 2:
            return None
        local = self._measured.local
        value, _ = self._tops.near(weights)
        wrong = float(weights.max()) * (local.product + 3 * local.rounded * local.size)
        wrong += local.size * feedback.wobble(local).weights
        if not value - wrong > 2:
            return None
        if (rate := feedback.ahead) and setup.eta_local < below:
            most = 2 / (value - wrong) * float(np.max(rate)) / float(self.work.lengths()[0])
            return f"{steps} grows; it is stable for a server rate below {most:.6g} at most, or for smaller steps"
        return f"{steps} grows; {remedy}"

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if self.round.response is None and not np.isfinite(values).all():
            below, setup = self.step_limits.eta_local, self.setup
            would = f"with eta_local < {below:.6g} the clients' steps contract" if below > 0 else "try smaller steps"
            raise OverflowError(
                f"the run overflows float64: {self.method} grows at eta_local = {setup.eta_local:g} with "
                f"{setup.local_steps} local steps; {would}"
            )
        return super()._finite(values)

    def residual_estimate(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> Estimate:
        """r(t), in the shape of `residual`, with a bound of the error that tiles and rounding cause in each entry.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: as `residual`; a method or steps for which no bound is proved.

        Source: docs/proofs/linear_methods.md#errors-of-tiles.
        """
        run, shape = self._bounded(checked_rounds(rounds), initial_outputs), np.shape(rounds)
        value = np.stack([state.residual for state in run])
        error = np.broadcast_to(np.array([state.entry_error for state in run])[:, None, None], value.shape)
        return self._estimate(self._shaped(value, shape), self._shaped(error, shape))

    def movement_estimate(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> Estimate:
        """|U(t) - U(0)|_F, in the shape of `movement`, with a bound of the error that tiles and rounding cause.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: as `residual_estimate`.

        Source: docs/proofs/linear_methods.md#errors-of-the-movement.
        """
        run = self._bounded(checked_rounds(rounds), initial_outputs)
        moved = np.stack([state.moved for state in run], axis=1)  # one product with H for all rounds
        image = (self.tiles @ moved.reshape(len(moved), -1)).reshape(moved.shape)
        squared = np.maximum((moved * image).sum(axis=(0, 2)), 0)
        size, length = norm(moved, axis=(0, 2)), norm(image, axis=(0, 2))
        wrong, terms = self.tiles.error + self.tiles.product_rounding, SAFE * (self._labels.size + 8)
        off = wrong * size**2 + terms * (UNIT * size * length + (1 + wrong) * np.finfo(float).smallest_subnormal)
        value, least = np.sqrt(squared), np.sqrt(np.maximum(squared - off, 0))
        last = np.minimum(np.sqrt(off), np.divide(off, value + least, out=np.sqrt(off), where=value > 0))
        error = SAFE * (last + [state.energy_error for state in run])
        return self._estimate(value.reshape(np.shape(rounds)), error.reshape(np.shape(rounds)))

    def left_estimate(
        self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None, products: int = PRODUCTS
    ) -> Estimate:
        """(r(t)' P r(t))^(1/2) divided by its value at round 0, in the shape of `rounds`, for any number of rounds.

        It is computed by quadrature, and no round is run. Since r(t + 1) = r(t) - H P r(t), no round of plain averaging
        increases this norm.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.
            products: number of products with H; more products give a narrower interval; default 60.

        Raises:
            ValueError: an initial residual of 0; another method than plain averaging, or steps for which no bound is
                proved.

        Source: docs/proofs/linear_methods.md#what-is-left-by-quadrature.
        """
        left = self._left(initial_outputs, products)
        ends = np.array([left(int(t)) for t in checked_rounds(rounds)]).reshape(*np.shape(rounds), 2)
        rigour = Rigour.ENCLOSED if self.kernel is infinite else Rigour.MEASURED
        middle, half = ends.mean(axis=-1), np.ptp(ends, axis=-1) / 2
        return Estimate(middle, half * (1 + 4 * UNIT) + UNIT, "Gauss and Lobatto quadrature", rigour)

    def rounds_between(
        self, eps: float, initial_outputs: ArrayLike | None = None, products: int = PRODUCTS
    ) -> tuple[int, int | None]:
        """A lower and an upper bound of `rounds_to`; no round is run to compute them.

        Args:
            eps: positive.
            initial_outputs: y(0), 0 unless given.
            products: number of products with H; default 60.

        Returns:
            The smallest and the largest possible number of rounds; the second is None if it is not known.

        Raises:
            ValueError: as `left_estimate`; eps that is not positive.

        Source: docs/proofs/linear_methods.md#what-is-left-by-quadrature.
        """
        if not eps > 0:
            raise ValueError(f"eps is {eps!r}; it must be positive")
        left, initial = self._left(initial_outputs, products), self._initial_residual(initial_outputs)
        start = float(norm(self._clients.apply(np.sqrt(cast(np.ndarray, self.round.response)), initial)))
        share = eps * float(norm(initial)) / start * np.sqrt(np.array([self._margins.most, self._margins.least]))

        def first(end: int, target: float) -> int | None:
            """The first round in which the lower (0) or upper (1) end of the interval is at most the target."""
            if left(0)[end] <= target:
                return 0
            low, high = 0, 1
            while left(high)[end] > target:
                interruption.check()
                low, high = high, 2 * high
                if high > EXACT_INTEGERS:
                    return None
            return interruption.first(lambda t: left(t)[end] <= target, low, high)

        soonest = first(0, float(share[0]) * SAFE)
        return (EXACT_INTEGERS if soonest is None else soonest), first(1, float(share[1]) / SAFE)

    def _left(self, initial_outputs: ArrayLike | None, products: int) -> Callable[[int], tuple[float, float]]:
        """Returns the function that gives the interval of `left_estimate` for a round; the last such function is
        remembered.
        """
        asked, known = (self._initial_residual(initial_outputs), products), self._last_left
        if known and known[0][1] == products and np.array_equal(known[0][0], asked[0]):
            return known[1]
        left = self._quadrature(*asked)
        self._last_left[:] = asked, left
        return left

    @cached_property
    def _last_left(self) -> list:
        """The residual and the number of products in the last call of `_left`, and the result of this call."""
        return []

    def _quadrature(self, initial: np.ndarray, products: int) -> Callable[[int], tuple[float, float]]:
        if self.before is not None:
            raise ValueError(
                f"the residual that {self.method} leaves is not found by quadrature if steps change with the round; "
                "use the regime of the last steps, whose initial_outputs are the outputs after round "
                f"{self.before.count}"
            )
        margins = self._margins
        local, response = margins.local, self.round.response
        if response is None or self.round.memory or self.round.in_turn is not None:
            raise ValueError(
                f"the residual that {self.method} leaves is not found by quadrature, which is for plain averaging"
            )
        if not initial.any():
            raise ValueError("the initial residual is 0, so that no share of it can be left")
        self._require_squares(initial)
        require_size("products", products)
        root = np.sqrt(response)
        starts = self._clients.apply(root, initial)
        shares = (starts**2).sum(axis=0) / (starts**2).sum()
        # If the other columns are 1e18 times as large as a column, this column changes no digit, and its squares may
        # vanish.
        starts, shares = starts[:, large := shares > QUADRATURE**3], shares[large]

        def product(v: np.ndarray) -> np.ndarray:
            return self._clients.apply(root, self.tiles @ self._clients.apply(root, v))

        runs: Sequence[Lanczos | WholeSpectrum]
        if starts.shape[1] * min(products, len(starts)) >= MANY * len(starts):
            runs, shares = [WholeSpectrum.of(product, starts)], np.ones(1)
        else:
            runs = [run for run, _ in Lanczos.of(product, starts, products)]
        of_root, turning = local.response / (2 * np.sqrt(margins.least)), 2 * local.rounded * np.sqrt(margins.most)
        # |V|_F is needed because each product of a run has its own rounding
        together = np.sqrt(max(len(run.diagonal) for run in runs))
        noise = margins.most * (local.stored + together * (local.product - local.stored))
        noise += 3 * np.sqrt(margins.most) * local.size * (of_root + together * turning)
        rules, skew = [], max(run.skew for run in runs)
        off = 3 * max(run.residual for run in runs) + 6 * skew * margins.largest + 3 * noise
        for run in runs:
            rules.append(run.rules(-SAFE * off, margins.largest + SAFE * off))
        inexact = 2 * (of_root + turning) / np.sqrt(margins.least)

        def left(rounds: int) -> tuple[float, float]:
            with np.errstate(over="ignore"):
                growth = (1 + np.float64(off)) ** (2.0 * rounds)
                sums = [
                    sum(
                        share * float(weights @ np.minimum(np.abs(1 - nodes) ** (2.0 * rounds), LARGE))
                        for share, (nodes, weights) in zip(shares, rule, strict=True)
                    )
                    for rule in zip(*rules, strict=True)
                ]
                slack = SAFE * (2 * rounds * off * float(growth) + 3 * skew + QUADRATURE)
            lowest = float(np.sqrt(max(sums[0] - slack, 0.0))) - inexact
            return max(lowest, 0.0), min(float(np.sqrt(sums[1] + slack)) + inexact, 1.0)

        return left

    def predict_estimate(self, x: ArrayLike, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> Estimate:
        """f(x, t) for f(x, 0) = 0, in the shape of `predict`, with a bound of its error.

        Args:
            x: inputs, shape (p, d).
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: as `residual_estimate`.

        Source: docs/proofs/linear_methods.md#errors-of-tiles.
        """
        points, shape = finite_array("x", x), np.shape(rounds)
        value, error = self._predicted_within(points, self._bounded(checked_rounds(rounds), initial_outputs))
        return self._estimate(
            self._shaped(value, shape), self._shaped(np.broadcast_to(error[:, :, None], value.shape), shape)
        )

    def _predicted_within(self, x: Float[np.ndarray, "p d"], run: list[BoundedRound]) -> tuple[np.ndarray, np.ndarray]:
        """f(x, t) - f(x, 0) at these rounds, (T, p, C), and a bound of its error for each point, (T, p)."""
        kernel = self.kernel
        assert kernel is not None
        moved = np.stack([state.moved for state in run])
        basis, coefficients, terms = self.tiles.expansion(lambda piece: self._cross_gram(piece, None), moved)
        value = self._predicted(coefficients, (basis(piece) for piece in self._pieces(x)))
        own = [np.diagonal(kernel(x[s : s + OWN], None)) for s in range(0, len(x), OWN)]
        entry = kernel_error(kernel, x)
        root = np.sqrt(np.concatenate(own) + entry**2)
        trace = self.tiles.trace + self.tiles.error
        rounded = entry * norm(self.tiles.of_kernel) + (terms + 4) * UNIT * root * np.sqrt(trace)
        energy = np.array([state.energy_error for state in run])[:, None]
        length = np.array([norm(state.moved) for state in run])[:, None]
        return value, SAFE * (root * energy + rounded * length)

    def _cross_gram(self, x: ArrayLike | None, cross_gram: ArrayLike | None) -> Float[np.ndarray, "p n"]:
        if x is not None and cross_gram is None and self.kernel is not None:
            cross_gram = self.tiles.cross(self.kernel, finite_array("x", x), self.problem.samples)
        return super()._cross_gram(x, cross_gram)

    @cached_property
    def _block_errors(self) -> BlockErrors:
        """The errors of the clients' blocks, which regimes of the same data share."""
        return BlockErrors(self.tiles, self.work.clients)

    @cached_property
    def _measured(self) -> Margins:
        return Margins.of(self.work, self.round, self._block_errors)

    @cached_property
    def _margins(self) -> Margins:
        """The margins of these rounds; a ValueError if no error bound is proved."""
        return self._sharper.proved(self.work, self.round)

    @cached_property
    def _sharper(self) -> Margins:
        """The margins for any steps.

        There is a sharper bound of the largest eigenvalue of H P. The margins have this bound if it may decide whether
        error bounds are proved.
        """
        measured, averages = self._measured, self.round.feedback is None and self.round.in_turn is None
        if averages and measured.largest > 2 and measured.steepest <= 2 and measured.least > 0:
            assert self.round.response is not None
            own = self._largest(self.round.response) + measured.local.size * measured.local.response
            measured = replace(measured, largest=min(measured.largest, SAFE * own))
        return measured

    def _largest(self, values: Float[np.ndarray, " n"]) -> float:
        """An upper bound of the eigenvalues of W^(1/2) H W^(1/2), where W is the function of H_D that has these
        values.
        """
        local = self._measured.local
        rounding = local.product - local.stored + 3 * local.rounded * local.size
        return self._tops.at_most(values) + float(values.max()) * (local.stored + self._tops.together * rounding)

    @cached_property
    def _tops(self) -> LargestEigenvalues:
        """The largest eigenvalues that are known, which regimes of the same data share."""
        return LargestEigenvalues(self.tiles, self._clients)

    def _require_squares(self, initial: Float[np.ndarray, "n C"]) -> None:
        """Refuse an initial residual that is so small or large that squares in an error bound vanish or overflow.

        This concerns squares of the residual and of its coefficients.
        """
        size, own = float(np.abs(initial).max()), self.tiles.largest_own
        if size and not (SMALL <= size <= LARGE and (not own or SMALL**1.5 <= size / own <= LARGE**1.5)):
            raise ValueError(
                f"no error bound is proved for a residual of at most {size:.3g} at the start, with a kernel of at most "
                f"{own:.3g}: the residual must be from {SMALL:.0e} to {LARGE:.0e}, and from {SMALL**1.5:.0e} to "
                f"{LARGE**1.5:.0e} times the kernel, so that no square of a bound vanishes or overflows"
            )

    def _carried(self, rounds: int) -> Carried:
        """The error bounds of a run of `rounds` rounds; a ValueError if no bound is proved."""
        if self.round.feedback is not None:
            return self._remembering(rounds)
        if self.before is None:
            return carried(self.work, self.round, self._margins, rounds, self._largest)

        def of_round(t: int) -> tuple[LinearRound, Margins, Carried]:
            own = cast(MatrixFreeRegime, self._of_round(t))
            margins = own._margins if own is self else own._sharper.proved(own.work, own.round, passing=True)
            return own.round, margins, carried(own.work, own.round, margins, rounds)

        # steps without a proved bound are refused before the first round
        for t in range(min(rounds, self.before.count) + 1):
            interruption.check()
            of_round(t)
        return Changing(of_round)

    def _remembering(self, rounds: int) -> Carried:
        """The error bounds of a method with memory.

        If the steps change, the bounds come from a norm of the errors. If the steps are constant, each bound is the
        smaller of the bound by the resolvent and the bound by a norm, as far as these are proved.
        """

        def steps_of(t: int) -> Steps:
            own = cast(MatrixFreeRegime, self._of_round(t))
            return Steps(own.round, own._margins, own._largest)

        if self.before is not None:
            return Moving.of(steps_of, self._clients, min(rounds, self.before.count))
        parts, refused = [], []
        for error_bound in (
            lambda: carried(self.work, self.round, self._margins, rounds, self._largest),
            lambda: Moving.of(steps_of, self._clients),
        ):
            try:
                parts.append(error_bound())
            except ValueError as error:
                refused.append(error)
        if not parts:
            raise refused[0]
        return Least(tuple(parts))

    def _bounded(self, t: np.ndarray, initial_outputs: ArrayLike | None = None) -> list[BoundedRound]:
        """The residuals and coefficients of these rounds, with their error bounds."""
        initial = self._initial_residual(initial_outputs)
        wrong = 0.0 if initial_outputs is None else UNIT * float(norm(initial))  # rounding of labels minus outputs
        require("a report of these rounds", lambda rounds: 16 * rounds * initial.size, rounds=len(t))
        (states,) = run_together(self.tiles.__matmul__, [KeptRun(self, t, initial, wrong, proved=True).asking()])
        return states

    def _takes_at_once(self, rounds: int, outputs: int) -> bool:
        return False  # a power needs the map as a matrix, which this regime does not have

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.before is not None and not self.round.memory and t.max(initial=0) > self.before.count:
            early, late = t[t <= (count := self.before.count)], t > count
            first = super()._both(initial, np.append(early, count))
            after = replace(self, before=None)
            vars(after).update(self._decomposed)
            rest = after._both(first[0][-1], t[late] - count)
            states = np.empty((2, len(t), *initial.shape))
            for state, of_first, of_rest, start in zip(states, first, rest, (0, first[1][-1]), strict=True):
                state[~late], state[late] = of_first[:-1], of_rest + start
            return states[0], states[1]
        require_time = KeptRun(self, t, initial)._require_time
        largest = self._largest_at_most if self.round.response is not None else np.inf
        if series := self._series(t, largest, lambda: require_time(0, series=True)):
            start = SeriesState.start(series, initial)
            (state,) = run_together(self.tiles.__matmul__, [summed(self.round, series, start)])
            run = bounded_powers(self.round, series, state, float(norm(initial)))
            return np.stack([state.residual for state in run]), np.stack([state.moved for state in run])
        require_time(0, series=False)
        return super()._both(initial, t)

    def _series(self, t: np.ndarray, largest: float, require_time: Callable[[], None]) -> Series | None:
        """The series that gives these rounds; None if single rounds take fewer products, or if the rounds are no powers
        of a map.

        `require_time` refuses a series that takes too long, before its coefficients are computed.
        """
        if not (t.size and self._are_powers(largest)):
            return None
        if 2 * nodes_of(last := int(t.max())) <= last:
            require_time()
        series = Series.of(t, 1 - largest)
        if 2 * series.powers.shape[1] > t.max():
            return None
        size = self._labels.size
        require("a report of these rounds", lambda rounds: 32 * rounds * size, rounds=len(t))
        return series

    def _are_powers(self, largest: float) -> bool:
        """Whether rounds are powers of one map with eigenvalues from 1 - `largest` to 1."""
        response = self.round.response
        if response is None or self.round.memory or self.round.server is None or self.before:
            return False
        return bool(response.min() > 0 and 0 < largest <= 2)

    def _estimate(self, value: np.ndarray, error: np.ndarray) -> Estimate:
        """The estimate with its rigour.

        The rigour is `ENCLOSED` for the built-in kernel. For another kernel, whose positivity is only assumed, the
        rigour is `MEASURED`.
        """
        rigour = Rigour.ENCLOSED if self.kernel is infinite else Rigour.MEASURED
        return Estimate(value, error, "errors of tiles carried along", rigour)

    def require_reachable(self, initial: Float[np.ndarray, "n C"], target: float) -> None:
        """Do nothing, since the null space of H is unknown; a search that finds no round raises the error.

        Args:
            initial: the residual r(0), shape (n, C).
            target: a Frobenius norm.
        """
