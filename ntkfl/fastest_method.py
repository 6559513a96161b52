"""Which federated method is the fastest on given data, by exact numbers of rounds with tuned steps, and a lower bound
of a condition number (see `Fastest.condition`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl import lapack
from ntkfl.exact_dynamics import base_regime
from ntkfl.fewest_rounds import LOOKED, METHODS, NO_MODES, Search, above_rounding
from ntkfl.gram.tiles import HeldGram
from ntkfl.limit.infinite_width import Kernel, KernelRegime
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.limit.matrix_free import MatrixFreeRegime, shared_by_methods
from ntkfl.limit.rounds_between import left_after, rounds_between
from ntkfl.messages import refusing, require_number, require_size
from ntkfl.problem import Problem, Setup, finite_array

LOCAL_STEPS = (1, 2, 5, 10, 20)
MOST_ROUNDS = 100_000  # the largest number of rounds that is counted for one method
# the largest number of rounds, and of rows of the map, for which powers of a round's map are used
FARTHEST, DENSE = 2**39, 1000
# the largest number of rounds that are run for a count if the Gram matrix is in tiles (stored in pieces)
MOST_RUN = 1000
# a count stops at FARTHER times the fewest rounds found so far, but not before LEAST_ROUNDS
LEAST_ROUNDS, FARTHER = 64, 2
SAMPLED = 1000  # approximate number of samples in a search that runs every setting round by round
# With a whole matrix the search uses all samples if there are at most WHOLE, otherwise SOME samples.
WHOLE, SOME = 150, 60
# number of vectors of the model's size that go to and from a client in a round; 2 for the other methods
VECTORS = {"scaffold": 4}
# the names that fields have in files, where they differ from the fields' own
IN_FILES = {"residual_left": "left", "residual_error": "left_error"}


@refusing({"left": "it is residual_left", "left_error": "it is residual_error"})
@dataclass(frozen=True)
class Tuned:
    """A method with its best steps at one number of local steps. The best steps need the fewest rounds to eps or, with
    a budget of rounds, leave the smallest residual.

    Args:
        label: the method's name in tables.
        method: the method's name, as `kernel_regime` takes it.
        options: options of the method, as `kernel_regime` takes them.
        local_steps: K.
        eta_local: the clients' step.
        rate: the spectral radius, the factor by which a round lowers the residual in the long run. If H is singular,
            only the part of the residual that can fall counts. The rate is None if that part is not known: for
            scaffold, feddyn and cyclic if H is singular, and for all methods if the Gram matrix is in tiles.
        rounds: number of rounds until the residual is eps times its value at outputs 0; None if more than 100,000 (with
            tiles 1000) are needed.
        estimate: if `rounds` is None, the number of rounds found by powers of a round's map, which may miss a short dip
            of the residual below eps. The estimate is None if `rounds` is known, if the residual does not fall to eps
            within 5e11 rounds (2^39), or if the Gram matrix is in tiles.
        vectors: number of vectors of the model's size that a client receives and sends in `rounds` rounds; None if
            `rounds` is None.
        residual_left: the residual after the budget of rounds, divided by the residual at the start; None without a
            budget.
        residual_error: the largest effect of tiles and rounding on `residual_left`; None with a whole Gram matrix, or
            if no bound is proved for these steps.
    """

    label: str
    method: str
    options: dict[str, Any]
    local_steps: int
    eta_local: float
    rate: float | None
    rounds: int | None
    vectors: int | None
    residual_left: float | None = None
    residual_error: float | None = None
    estimate: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields, under the names that they have in files."""
        return {IN_FILES.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Fastest:
    """The tuned steps of all methods at all numbers of local steps.

    Args:
        eps: rounds are counted until the residual is eps times the first residual.
        tuned: the tuned steps for each method and number of local steps, unless no step is stable. With tiles and
            without a budget, settings whose rounds are not counted are in the order of their extrapolated rounds.
        condition: a lower bound of the condition number of H P, from `least_condition`. The matrix P is the clients'
            response: their mean displacement in a round changes the outputs by a multiple of H P r, where r is the
            residual. The bound holds for every symmetric positive P in which each client responds to its own samples
            only.
        floor: the number of rounds to eps that momentum with the best steps needs if the condition number is
            `condition` and the labels are the worst. None if H is singular. The given labels may need fewer rounds, so
            `floor` is no bound for them.
        budget: the number of rounds for which the steps are tuned; None: they are tuned for the fewest rounds to eps.
        tiles: the precision in which tiles of the Gram matrix are stored; None: the matrix is whole. With tiles
            `condition` and `floor` are not computed: `condition` is infinite, and `floor` is None.
    """

    eps: float
    tuned: tuple[Tuned, ...]
    condition: float
    floor: int | None
    budget: int | None = None
    tiles: str | None = None

    @property
    def best(self) -> tuple[Tuned, ...]:
        """The best setting of each method, the fastest first.

        With a budget, the setting with the smallest residual is first.
        """
        first: dict[str, Tuned] = {}
        for tuned in sorted(self.tuned, key=_order):
            first.setdefault(tuned.label, tuned)
        return tuple(first.values())

    def to_dict(self) -> dict[str, Any]:
        """All results, as JSON takes them; infinite numbers are None."""
        finite = self.condition if np.isfinite(self.condition) else None
        tuned, best = ([tuned.to_dict() for tuned in rows] for rows in (self.tuned, self.best))
        return asdict(self) | {"condition": finite, "tuned": tuned, "best": best}


def fastest(
    problem: Problem,
    gram: ArrayLike | Kernel | None = None,
    local_steps: Sequence[int] = LOCAL_STEPS,
    eta_local: float | None = None,
    eps: float = 1e-6,
    budget: int | None = None,
    progress: Callable[[str], None] = lambda label: None,
    methods: Sequence[str] = tuple(METHODS),
    refine: bool = True,
    matrix_free: bool | str = False,
    answered: Callable[[Tuned], None] = lambda tuned: None,
) -> Fastest:
    """Tune the steps of every linear method at every number of local steps, and count its rounds exactly.

    All methods train on full batches of all clients, on sums of squares, at infinite width and from outputs 0. Steps
    are chosen for the fewest rounds to eps on the given labels. The search is Nelder and Mead's, from the best three of
    some fifty settings. For fedavg, fedprox and fedavgm the server's rate and momentum in these settings are given by
    closed forms, each of which is optimal for a part of the spectrum of H P (P as in `Fastest`).

    With the steps that are found, fedavg is never slower than fedavg at server rate 1, and fedprox and fedavgm are
    never slower than fedavg. No further optimum is promised. On random problems of up to 24 samples dense grids found
    steps with fewer rounds. The saving was at most 15% and one round for averaging and cyclic training, and at most a
    quarter for scaffold. The residual of feddyn and of momentum may dip below eps for a moment and rise again. For
    these two the grids sometimes found steps with less than half the rounds. If H is singular and part of the residual
    stays, the target is eps times the part that can fall.

    With more than 150 samples, a search that needs more than one decomposition uses 60 samples, which are drawn so that
    each client has the same share of its samples. Then, for each number of local steps, some six settings near the best
    settings are tried on all samples. The map of a round of scaffold, feddyn and cyclic is no function of one symmetric
    matrix. In the trials of these methods, rounds are computed and compared in the Krylov space that is spanned by the
    states of 160 rounds. The rounds at the best steps are counted exactly, on all samples.

    With `matrix_free` nothing is decomposed. Steps are searched for in Krylov spaces of the labels. The clients' step
    is one of six shares of 1 / max_c |H_cc|, and fedprox's mu is one of three values. There is one space for each
    clients' step, each number of local steps and, for fedprox, each mu; a space takes some 40 products with H. Then the
    best setting of each method is run round by round. This run gives the numbers in the method's row of the table. For
    scaffold, feddyn and cyclic there is no such space, so every setting of these methods is run, on at most 1000 of the
    samples, and then some ten settings near the best setting are run on all samples. While steps are compared, rounds
    to eps are extrapolated from 256 rounds, and steps are refused if the residual rises within the next 256 rounds. The
    table has no extrapolated number, because the residual may stop falling later if H is singular, or nearly so.

    Args:
        problem: data.
        gram: H, (n, n), or its kernel; default the kernel of infinite width.
        local_steps: the K to try; default (1, 2, 5, 10, 20).
        eta_local: the clients' step. Default: it is searched for from 0.03 / max_c |H_cc| to 1.9 / max_c |H_cc|; at 2 /
            max_c |H_cc| a client alone diverges. At K = 1, for a method with a server rate, it is 1 / max_c |H_cc|,
            since only the product of the two steps matters.
        eps: the share of the residual that may be left; default 1e-06.
        budget: a number of rounds. If it is given, steps are tuned for the smallest residual after these rounds,
            instead of the fewest rounds to eps; default no budget.
        progress: a function that is called with the label of each method when its search begins; default: none.
        methods: labels of the methods to compare, as in the table; default: all.
        refine: whether to search from the best three settings; if not, the best of some fifty settings is taken.
        matrix_free: as in `kernel_regime`.
        answered: a function that is called with each method's best setting as soon as it is known; default: none.

    Raises:
        ValueError: eps outside (0, 1), a budget or a K below 1; an unknown method; an eta_local at which a client alone
            diverges, with tiles; as `kernel_regime`.

    Source: docs/proofs/linear_methods.md#tuned-server-steps,
    docs/proofs/linear_methods.md#bound-for-client-local-methods. The bound is for clients that train at the same time;
    it does not hold for cyclic training.
    """
    require_number("eps", eps, "lie between 0 and 1")
    if not local_steps or min(local_steps) < 1:
        raise ValueError(f"local_steps are {list(local_steps)}; there must be some, each at least 1")
    require_size("the budget of rounds", budget, optional=True)
    unknown = next((label for label in methods if label not in METHODS), None)
    if unknown is not None:
        raise ValueError(f"there is no method {unknown!r}; they are {', '.join(map(repr, METHODS))}")
    base = base_regime(problem, Setup(), gram, matrix_free)
    largest, tiles = float(base.blocks.clients.values.max()), base.gram if isinstance(base.gram, HeldGram) else None
    if tiles is not None and eta_local is not None and eta_local * largest >= 2:
        raise ValueError(f"eta_local is {eta_local:g}; with tiles it must be below 2 / max_c |H_cc|, {2 / largest:.6g}")
    few = _few(base, gram)
    condition = np.inf if tiles is not None else least_condition(problem, base.gram)
    # all regimes of the search share decompositions
    for regime in {base, few}:
        if isinstance(regime.gram, HeldGram):
            vars(regime).update({"_spaces": {}} | shared_by_methods(regime.gram, regime._clients))
        else:
            vars(regime).update({"_eigen": regime._eigen, "_responses": []})

    def aim(regime: LinearRegime, least: float) -> float:
        if budget is not None:
            return left_after(regime, budget)
        most = LOOKED if tiles is not None and regime.method in NO_MODES else MOST_ROUNDS
        return rounds_between(regime, eps, int(np.clip(FARTHER * least, LEAST_ROUNDS, most)))

    best: dict[tuple[str, int], _Ranked] = {}
    for label, tunable in METHODS.items():
        run = tiles is not None and tunable.method in NO_MODES
        if label not in methods:
            continue
        progress(label)
        last: list[_Ranked] = []
        for steps in local_steps:
            special = best.get((tunable.special or "", steps))
            kept = []
            if special is not None:
                options = special.tuned.options | tunable.at
                as_special = replace(special.tuned, label=label, method=tunable.method, options=options)
                kept = [replace(special, tuned=as_special)]
            product = steps == 1 and "server_rate" in tunable.names  # only the product server_rate * eta_local matters
            eta = 1 / largest if eta_local is None and product else eta_local
            search = Search(tunable, base, steps, 1 / largest, aim, eta, refine, budget)
            # these searches need many decompositions
            costly = eta is None or "mu" in tunable.names or tunable.method in NO_MODES
            if few is not base and (run or (tiles is None and costly)):
                unit = 1 / float(few.blocks.clients.values.max())
                own = None if eta is None else eta * largest * unit
                on_few = replace(search, base=few, unit=unit, eta_local=own)
                on_few.run([])
                search.follow(on_few)
            # the search uses all samples if there was no search on fewer samples, or if that search found no step that
            # is stable on all samples
            if search.best is None and not (run and few is not base):
                search.run([(setting.tuned.eta_local, setting.tuned.options) for setting in kept + last])
            if search.best is not None:
                tuned = _counted(label, search.regime(*search.best), search.best[1], eps, budget)
                last = [min([tuned, *kept], key=_Ranked.order)]
                best[label, steps] = last[0]
        if rows := [ranked for (of, _), ranked in best.items() if of == label]:
            answered(min(rows, key=_Ranked.order).tuned)
    floor, ranked = _worst_rounds(condition, eps), sorted(best.values(), key=_Ranked.order)
    settings = tuple(row.tuned for row in (ranked if tiles is not None else best.values()))
    return Fastest(eps, settings, condition, floor, budget, None if tiles is None else str(tiles.dtype))


def least_condition(problem: Problem, gram: Float[np.ndarray, "n n"]) -> float:
    """A lower bound of kappa(H P) over the symmetric positive P that are block-diagonal over the clients.

    The bound is (M - nu) / ((M - 1) nu), where nu is the smallest eigenvalue of H_D^-1 H, and M is the number of
    clients, rounded up to an even number. H_D holds the clients' own blocks of H and is 0 elsewhere. With two clients
    some P attains the bound. The bound is infinite if H is singular up to rounding.

    Args:
        problem: data.
        gram: H, (n, n).

    Source: docs/proofs/linear_methods.md#bound-for-client-local-methods.
    """
    gram = finite_array("gram", gram)
    if len(above_rounding(np.linalg.eigvalsh(gram))) < problem.n:
        return float("inf")
    blocks = np.where(problem.owner[:, None] == problem.owner, gram, 0)
    both = (np.array(matrix, float, order="F") for matrix in (gram, blocks))
    least = float(lapack.generalised_eigenvalues(*both)[0])
    even = problem.n_clients + problem.n_clients % 2
    return (even - least) / ((even - 1) * least)


def _few(base: KernelRegime, gram: ArrayLike | Kernel | None) -> KernelRegime:
    """The regime of the samples used in the search.

    All samples are used if they are few, or if a sample has several rows.
    """
    problem, tiled = base.problem, isinstance(base.gram, HeldGram)
    if problem.n <= (SAMPLED if tiled else WHOLE) or problem.outputs > 1:
        return base
    if tiled:
        return base_regime(_some(problem, _rows(problem, SAMPLED)), Setup(), gram, True)
    rows = _rows(problem, SOME)
    return base_regime(_some(problem, rows), Setup(), base.gram[np.ix_(rows, rows)], False)


def _rows(problem: Problem, count: int) -> np.ndarray:
    """The rows of about `count` drawn samples: the same share of each client's samples, and at least one of each
    client.
    """
    rng, share = np.random.default_rng(0), count / problem.n
    chosen = [rng.permutation(owned)[: max(1, round(share * len(owned)))] for owned in problem.members]
    return np.sort(np.concatenate(chosen))


def _some(problem: Problem, rows: np.ndarray) -> Problem:
    return Problem(problem.x[rows], problem.y[rows], problem.owner[rows], name=problem.name)


def _rate(regime: LinearRegime) -> float | None:
    """The spectral radius for the part of the residual that is not in the null space of H.

    The result is None if the spectrum does not show which part belongs to the null space.
    """
    stay = regime.unreachable.shape[1]
    if (eigenvalues := regime.response_eigenvalues) is None or regime.round.roots is None:
        return None if stay else regime.rate
    by_size = eigenvalues[np.argsort(np.abs(eigenvalues))]  # H P has the eigenvalue 0 as often as H has it
    return float(np.abs(regime.round.roots(above_rounding(np.sort(by_size[stay:])))).max())


def _order(tuned: Tuned) -> tuple[float, float]:
    rounds = next((float(count) for count in (tuned.rounds, tuned.estimate) if count is not None), float("inf"))
    return (rounds if tuned.residual_left is None else tuned.residual_left, rounds)


def _worst_rounds(condition: float, eps: float) -> int | None:
    """The smallest t with q^t <= eps, for the factor q = (sqrt kappa - 1)/(sqrt kappa + 1) of momentum."""
    if not np.isfinite(condition):
        return None
    rate = (np.sqrt(condition) - 1) / (np.sqrt(condition) + 1)
    return 1 if rate <= eps else int(np.ceil(np.log(eps) / np.log(rate)))


@dataclass(frozen=True)
class _Ranked:
    """A setting, and the number of rounds by which it is compared if its rounds are not counted."""

    tuned: Tuned
    about: float  # with tiles: extrapolated rounds; no result states them, as the residual may never fall so far

    def order(self) -> tuple[float, float, float]:
        return *_order(self.tuned), self.about


def _counted(label: str, regime: LinearRegime, options: dict[str, Any], eps: float, budget: int | None) -> _Ranked:
    rounds, left, error, estimate = None, None, None, None
    tiled = isinstance(regime, MatrixFreeRegime)
    looked = min(MOST_RUN, budget or LOOKED) if regime.method in NO_MODES else MOST_RUN
    most = MOST_RUN if tiled else MOST_ROUNDS
    about = rounds_between(regime, eps, looked) if tiled else 0.0
    if about < 0.9 * most:
        with suppress(ValueError):  # the residual never falls so far, or needs too many rounds
            rounds = regime.rounds_to(eps, at_most=most)
    if rounds is None and not tiled:  # powers of the round's map may miss a short dip of the residual
        stays = float(np.linalg.norm(regime.unreachable.T @ regime._labels))
        reached = stays <= eps * float(np.linalg.norm(regime._labels))
        about = rounds_between(regime, eps, FARTHEST, small=DENSE) if reached else np.inf
    if rounds is None and not tiled and about < FARTHEST:
        estimate = max(about, float(most))
    if budget is not None:
        left, error = _left(regime, budget)
    setup, per_round = regime.setup, VECTORS.get(regime.method, 2)
    vectors = None if rounds is None else rounds * per_round
    rate = None if tiled else _rate(regime)
    steps = setup.local_steps, setup.eta_local
    return _Ranked(Tuned(label, regime.method, options, *steps, rate, rounds, vectors, left, error, estimate), about)


def _left(regime: LinearRegime, budget: int) -> tuple[float, float | None]:
    """The residual after the budget divided by the residual at the start, and a bound of the error of this share.

    The bound is None if none is proved.
    """
    start = float(np.linalg.norm(regime._labels))
    if not start:
        return 0.0, None
    if isinstance(regime, MatrixFreeRegime):
        with suppress(ValueError):  # an error means that no bound is proved
            run = regime._bounded(np.array([budget]))[0]
            return float(np.linalg.norm(run.residual)) / start, run.norm_error / start
    return float(np.linalg.norm(regime.residual(budget))) / start, None
