"""Statements on SCAFFOLD and FedDyn with drawn clients that use their samples one by one, in a random order."""

from itertools import combinations

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Change, Claim, Family, Kind, Source, Statement
from bounds.fl_ntk.cases.drawn_memory import OPTIONS, SIZES, DrawnMemory, drawn_memory
from bounds.fl_ntk.terms.local_methods import mu
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, D, H, map_constants
from bounds.fl_ntk.terms.state_map import first, halves, product, second
from bounds.mutants import MILLIONTH_MORE, replaced, sign_flipped
from bounds.symbols import N, eta_global, n
from ntkfl import Estimate


def _drawn(seed: int) -> DrawnMemory:
    """One to three of three clients. In one of the two rounds they pass over the samples once, and in the other twice.

    FedDyn's alpha is .1 to 2.
    """
    rng = np.random.default_rng([seed, 11])
    reach, server, pull = float(rng.uniform(0.05, 0.8)), float(rng.uniform(0.1, 2)), float(rng.uniform(0.1, 2))
    passes = 1 + seed // 3 % 2
    return drawn_memory(seed, 1 + seed % 3, passes, reach, server, pull, 0.0, 3 - passes, shuffled=True)


def _any() -> SearchStrategy[DrawnMemory]:
    """Rounds like those of `_drawn`, with step sizes up to the limit of a single sample."""
    few = st.integers(1, 2)
    steps = st.floats(0.01, 0.9), st.floats(0.05, 4), st.floats(0.05, 4), st.just(0.0)
    return st.builds(drawn_memory, st.integers(0, 2**16), st.integers(1, 3), few, *steps, few, shuffled=st.just(True))


PASSES = (Family("sphere, n=6, N=3, clients that remember pass over samples", _drawn, _any, trials=6, most=6),)

s = sp.Symbol("s", positive=True)
# For each client, OWN is the diagonal matrix with 1 at the client's samples and 0 elsewhere. WALKED is the total length
# of the client's steps without the pull of FedDyn's alpha, and PULLED is the total length with this pull.
OWN = tuple(sp.MatrixSymbol(f"I_{c + 1}", n, n) for c in range(len(SIZES)))
WALKED, PULLED = (tuple(sp.Symbol(f"{name}_{c + 1}", positive=True) for c in range(len(SIZES))) for name in "kt")
# For each method, Z is E z z' before the round, F and G are the clients' mean responses to r and to the slope, and V is
# the noise that their random orders cause.
Z = {name: sp.MatrixSymbol(f"Z_{k + 1}", 2 * n, 2 * n) for k, name in enumerate(OPTIONS)}
F, G, V = ({name: sp.MatrixSymbol(f"{of}_{k + 1}", n, n) for k, name in enumerate(OPTIONS)} for of in "FGV")
# the probability that a client is drawn, and that a pair of clients is drawn
ONE, PAIR = s / N, s * (s - 1) / (N * (N - 1))
R, M = first.T, second.T  # these matrices take the residual and the memories out of z


def _clients(method: str) -> tuple[list[sp.MatrixExpr], sp.MatrixExpr, sp.MatrixExpr]:
    """The matrices B_c of each client, J and A.

    In a round z becomes A z, plus, for each drawn client, B_c z and J times the noise of the client's displacement.
    """
    slope = D if method == "feddyn" else sp.MatAdd(H / N, -D)
    fits = sp.MatAdd(product(F[method], R), product(G[method], slope, M))
    server, always = eta_global / s, sp.Identity(2 * n)
    if method == "feddyn":
        server, always = 1 / s + 1 / N, sp.MatAdd(always, product(1 / (mu * N), first, H, M))
    clients, jump = [], [product(-server, first, H)]
    for own, walked, pulled in zip(OWN, WALKED, PULLED, strict=True):
        fit, kept = product(own, fits), product(own, M)
        if method == "feddyn":
            moved = sp.MatAdd(fit, product(pulled, kept))
            change = product(-mu, moved)
            jump.append(product(-mu, second, own))
        else:
            moved = sp.MatAdd(fit, product(-walked, kept), product(walked / N, M))
            fresh = product(1 / walked, fit) if method == "scaffold" else product(own, R)
            change = sp.MatAdd(fresh, product(-1, kept))
            jump += [product(1 / walked, second, own)] if method == "scaffold" else []
        clients.append(sp.MatAdd(product(-server, first, H, moved), product(second, change)))
    return clients, sp.MatAdd(*jump), always


def _around(whole: sp.MatrixExpr, inner: sp.MatrixExpr) -> sp.MatrixExpr:
    """whole * inner * whole'. It is not multiplied out, since sympy takes seconds for that."""
    return product(whole, inner, sp.Transpose(whole))


def _moments() -> tuple[sp.MatrixExpr, ...]:
    """For each method E z z' after a round, and its block E r r'."""
    moments = []
    for method in OPTIONS:
        clients, jump, always = _clients(method)
        whole, z = sp.MatAdd(*clients), Z[method]
        mean = sp.MatAdd(always, product(ONE, whole))
        of_draws = [product(ONE - PAIR, _around(client, z)) for client in clients]
        noise = product(ONE, _around(jump, V[method]))
        after = sp.MatAdd(_around(mean, z), product(PAIR - ONE**2, _around(whole, z)), *of_draws, noise)
        moments += [after, product(R, after, first)]
    return tuple(moments)


def _of_passes(
    own: np.ndarray, eta: float, pull: float, passes: int, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The maps from r and from e to the mean displacement, and the displacement's covariance over the orders.

    The covariance is averaged over (r, e), whose second moments E (r, e) (r, e)' are `known`. Let y = (a, r, e), where
    a is the displacement. The mean and second moments of y after a set of samples follow from the mean and second
    moments after the set without its last sample, which may be any sample of the set.
    """
    size, unit, length = len(own), np.eye(3 * len(own)), 0.0
    mean = unit[:, size:]
    square = mean @ known @ mean.T
    for _ in range(passes):
        earlier = {frozenset[int](): (mean, square)}
        for count in range(1, size + 1):
            for now in map(frozenset, combinations(range(size), count)):
                after = []
                for last in now:
                    step = unit.copy()
                    step[:size] *= 1 - eta * pull
                    gradient = np.concatenate([-own[last], unit[last, :size], -length * unit[last, :size]])
                    step[last] += eta * size * gradient
                    of_mean, of_square = earlier[now - {last}]
                    after.append((step @ of_mean, step @ of_square @ step.T))
                means, squares = zip(*after, strict=True)
                earlier[now] = np.mean(means, axis=0), np.mean(squares, axis=0)
            length = (1 - eta * pull) * length + eta
        mean, square = earlier[frozenset(range(size))]
    moved = mean[:size]
    return moved[:, :size], moved[:, size:], square[:size, :size] - moved @ known @ moved.T


def _constants(case: DrawnMemory) -> dict:
    owner, eta, passes, unit = case.problem.owner, case.setup.eta_local, case.setup.local_steps, np.eye(case.problem.n)
    values = map_constants(case, case.gram) | halves(case.problem.n) | {s: case.cohort, mu: Estimate.exact(case.pull)}
    values |= {e: np.diag((owner == c).astype(float)) for c, e in enumerate(OWN)}
    of_own = case.gram * (owner[:, None] == owner)
    for c, owned in enumerate(case.problem.members):
        counts = passes * len(owned)
        kept = 1 - eta * case.pull
        values[WALKED[c]] = case.rounded(np.array(eta * counts))
        values[PULLED[c]] = case.rounded(np.array(eta * sum(kept**k for k in range(counts))))
    for method in OPTIONS:
        moments, pull = _of_state(case, method, 1), case.pull if method == "feddyn" else 0.0
        slope = of_own if method == "feddyn" else case.gram / len(SIZES) - of_own
        parts = np.zeros((3, *of_own.shape))
        for owned in case.problem.members:
            of_client_state = np.block([[unit[owned], 0 * unit[owned]], [0 * unit[owned], slope[owned]]])
            at = np.ix_(owned, owned)
            of_client = of_client_state @ np.asarray(moments.value) @ of_client_state.T
            for part, block in zip(parts, _of_passes(case.gram[at], eta, pull, passes, of_client), strict=True):
                part[at] = block
        values |= {Z[method]: moments} | {
            of[method]: case.rounded(part) for of, part in zip((F, G, V), parts, strict=True)
        }
    return values


def _of_state(case: DrawnMemory, method: str, rounds: int) -> Estimate:
    """E z z' over every choice of these rounds, (2n, 2n). There is no noise that FedDyn's server would sum up."""
    size = 2 * case.problem.n
    return case.moments(method, rounds)[:size, :size]


def _measure(case: DrawnMemory) -> tuple[Estimate, ...]:
    measured = []
    for method in OPTIONS:
        mean = (regime := case.library(method)).residual(2)
        measured += [_of_state(case, method, 2), case.rounded(regime.covariance(2) + np.outer(mean, mean))]
    return tuple(measured)


STATEMENTS = (
    Statement(
        id="fl-ntk/passes-with-memory",
        title="SCAFFOLD and FedDyn in shuffled passes: second moments of residual and memories, exactly",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#clients-that-remember"),
        note="each round draws s of N clients without replacement and has a number of passes of its own; equal "
        "weights. A client takes its samples one by one, in a random order for each pass, with n_c times the step. A "
        "round takes z = (r, m) to A z + sum B_c z over the drawn clients, and a client's displacement at its own "
        "samples has the mean F r + G e, and given z the covariance whose average is V. Here e is the amount by which "
        "a unit of step along the client's correction lowers the client's residual",
        new=Claim(_moments),
        constants=_constants,
        measure=_measure,
        symbols={H: "Gram matrix H_inf", D: MAP_SYMBOLS[D], s: "clients in a round", mu: "FedDyn's alpha"}
        | {
            symbol[name]: f"{what} of {of}"
            for symbol, what in (
                (Z, "E z z' after a round, over every choice of clients and orders,"),
                (F, "the mean displacement after the passes by the residual,"),
                (G, "the mean displacement after the passes by the slope,"),
                (V, "the covariance of the clients' displacements given z, averaged,"),
            )
            for name, of in zip(OPTIONS, ("SCAFFOLD, option II", "SCAFFOLD, option I", "FedDyn"), strict=True)
        }
        | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)}
        | {walked: f"eta_l times the steps of client {c + 1}" for c, walked in enumerate(WALKED)}
        | {pulled: f"the same of client {c + 1} with FedDyn's pull" for c, pulled in enumerate(PULLED)}
        | {first: "puts r into z", second: "puts m into z"},
        left_formula=("E z(2) z(2)^T", "E r(2) r(2)^T") * 3,
        says_left="for SCAFFOLD with options II and I and for FedDyn: E z z' after two rounds over every choice of "
        "clients and orders, with every local step computed in the weights; and E r r' by the library's random rounds",
        families=PASSES,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
            *(sign_flipped(G[name], f"the response to the memories, {name}") for name in ("scaffold", "feddyn")),
            *(
                replaced(V[name], V[name] / 2, f"half the noise of the orders, {name}", Change.FACTOR)
                for name in OPTIONS
            ),
            replaced(WALKED[0], WALKED[-1], "all clients as long as the last one", Change.INDEX),
            replaced(PULLED[0], WALKED[0], "FedDyn's length without its pull", Change.FACTOR),
        ),
        uses=("fl-ntk/drawn-memory", "fl-ntk/shuffled-pass"),
    ),
)
