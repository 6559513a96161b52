"""A round of a federated method that is linear in the weights, written in coefficients of the samples.

The weights move within the span of the samples' features phi_i: w = w(0) + sum_i c_i phi_i. So a displacement, a
gradient or a control variate is a vector of n coefficients. A client's gradient at a model has the coefficient -r_i for
each of the client's own samples i, where r_i is the model's residual at sample i, and the coefficient 0 for every other
sample. If the model moves by some coefficients, its outputs change by H times these coefficients.

H_D = blockdiag_c H_cc holds the clients' own blocks of H, and 0 elsewhere. A function u(H_D) is given by its values
u(q) at the blocks' eigenvalues q.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ntkfl.gram.tiles import UNIT
from ntkfl.limit.cohorts import CohortWeights
from ntkfl.limit.feedback import Feedback, LocalErrors, Wobble, relative
from ntkfl.limit.outer_spectrum import OuterSpectrum
from ntkfl.limit.round_modes import ClientModes, geometric_sum
from ntkfl.work import A_ROUND, CALL, require_work

Vectors = Float[np.ndarray, "n k"]
Memory = tuple[Vectors, ...]
Step = Callable[[Vectors, Memory], tuple[Vectors, Memory]]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The parts of a linear round: H, the clients' blocks of H, and the local steps.

    Args:
        gram: H, (n, n).
        clients: the decomposed blocks H_cc.
        eta_local: the size of a local step, which follows the gradient of the sum of the client's losses.
        steps: K, the number of full-batch local steps.
        cohort: the number of clients that each round draws, without replacement; None: all clients.
        client_steps: the number K_c of each client's steps, (N,), if these numbers differ; `steps` is then the largest.
        factors: the factors of eta_local in the first, second, ... local step. The last factor holds for all later
            steps too. An empty tuple means that all factors are 1.
        given: the clients of the round, if they are not drawn; `cohort` is then their number.
    """

    gram: Float[np.ndarray, "n n"]
    clients: ClientModes
    eta_local: float
    steps: int
    cohort: int | None = None
    client_steps: tuple[int, ...] = ()
    factors: tuple[float, ...] = ()
    given: tuple[int, ...] = ()

    def weights(self, weighting: str) -> CohortWeights:
        """Moments of the clients' weights p_c in the server's mean.

        If all clients take part, p_c is n_c / n for "size" and 1 / N for "uniform".

        Args:
            weighting: "size" or "uniform".
        """
        sizes = np.array([len(owned) for owned in self.clients.members])
        if self.given:
            return CohortWeights.given(sizes, self.given, weighting)
        return CohortWeights.of(sizes, self.cohort or len(sizes), weighting)

    def shares(self, weighting: str) -> Float[np.ndarray, " n"]:
        """For each sample, the mean weight of its client in the server's mean.

        Args:
            weighting: "size" or "uniform".
        """
        return self.weights(weighting).mean[self.owner]

    def response(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """The values f(q) of the response f: after its steps a client is displaced by f(H_cc) r_c.

        Args:
            pull: mu of FedProx, whose term draws a client's model back to its start. mu is added to every eigenvalue q;
                default 0: no such term.
        """
        return self._response(self.clients.values + pull)

    def lengths(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """For each sample, the distance by which the steps of the sample's client move the client under a constant unit
        gradient.

        This distance is the value of the response f (see `response`) at q = 0.

        Args:
            pull: mu of FedProx, added to every eigenvalue q; default 0: none.
        """
        return self._response(np.full(len(self.gram), pull))

    def drift_response(self, pull: float = 0.0) -> Float[np.ndarray, " n"]:
        """The values g(q) of the response g to a drift of the residuals.

        If the residuals fall by a vector e for each unit of step, in addition to the client's own steps, then the
        client's displacement is smaller by g(H_cc) e.

        Args:
            pull: mu of FedProx, added to every eigenvalue q; default 0: none.
        """
        walked, response = np.zeros(len(self.gram)), np.zeros(len(self.gram))
        for size in self.local_steps():
            response = (1 - size * (self.clients.values + pull)) * response + size * walked
            walked = (1 - size * pull) * walked + size
        return response

    def moved(self, residual: Vectors, slope: Vectors, pull: float = 0.0) -> Vectors:
        """The clients' displacements, if the residuals fall by `slope` for each unit of step.

        This fall is in addition to the effect of the clients' own steps.

        Args:
            residual: r, n rows.
            slope: e, n rows.
            pull: mu of FedProx; default 0: none.
        """
        return self.apply(self.response(pull), residual) - self.apply(self.drift_response(pull), slope)

    @property
    def own_gram(self) -> Float[np.ndarray, "n n"]:
        """H_D, the matrix of the clients' own blocks of H, which is 0 elsewhere."""
        return np.where(self.owner[:, None] == self.owner, self.gram, 0.0)

    def local_steps(self) -> Iterator[Float[np.ndarray, " n"]]:
        """Yields the size of each local step, for each sample's client; the size is 0 once the client has finished.

        Raises:
            ValueError: so many steps that they would take too long, one after the other.
        """
        counts, one = self._counts, CALL + 10.0 * len(self.gram)
        require_work("a round's local steps", lambda local_steps: local_steps * one, A_ROUND, local_steps=self.steps)
        for k in range(self.steps):
            factor = self.factors[min(k, len(self.factors) - 1)] if self.factors else 1.0
            yield np.where(k < counts, factor * self.eta_local, 0.0)

    @cached_property
    def owner(self) -> np.ndarray:
        """The client of each sample, (n,)."""
        owners = np.empty(len(self.gram), int)
        for client, owned in enumerate(self.clients.members):
            owners[owned] = client
        return owners

    @cached_property
    def _counts(self) -> np.ndarray:
        """For each sample, the number of local steps of its client."""
        counts = np.full(len(self.gram), self.steps)
        for owned, steps in zip(self.clients.members, self.client_steps, strict=False):
            counts[owned] = steps
        return counts

    def _response(self, q: np.ndarray) -> np.ndarray:
        if not self.factors:
            return geometric_sum(q, self.eta_local, self._counts)
        response = np.zeros(len(self.gram))
        for size in self.local_steps():
            response = (1 - size * q) * response + size
        return response

    def apply(self, values: Float[np.ndarray, " n"], vectors: Vectors) -> Vectors:
        """Returns u(H_D) times vectors.

        Args:
            values: u(q), shape (n,).
            vectors: one or more columns of n rows.
        """
        return self.clients.apply(values, vectors)


@dataclass(frozen=True, eq=False)
class LinearRound:
    """One round as a linear map of the residual and of what server and clients remember (the memory).

    Args:
        step: maps (r, memory) to (move, memory), linearly. The move is the coefficients by which the model moves, so
            that r' = r - H move.
        memory: number of vectors in the memory; all are 0 before the first round.
        length: length of each of these vectors, n unless given.
        response: the values u(q), if every eigenvalue nu of H u(H_D) gives the round map the eigenvalues `roots(nu)`.
            The spectrum then costs a symmetric eigenproblem of size n.
        roots: maps nu, (n,), to these eigenvalues, (n, 1 + memory).
        limit: the rounds are stable if every eigenvalue of H u(H_D) is between 0 and this number.
        server_rate: a factor that `response` already contains; None if the method has no server rate.
        pull: mu, the strength with which clients are drawn back to their start. A local step contracts if eta_l (q +
            pull) < 2. The pull is NaN if it is not known.
        server: maps (mean, memory) to (move, memory), where mean is the mean displacement of the clients. The results
            are linear combinations of mean and memory with constant coefficients. Clients must take plain steps with
            the given pull, and send only their displacements. `random_rounds` needs this map.
        outer: for a round without `response`, the symmetric matrix function whose zeros are the outermost eigenvalues.
        feedback: how an error propagates in a round with a memory; None if no bound is proved.
        in_turn: the response of each client, if clients train one after the other.
        again: maps (r, memory, image) to the same results as `step`. The image is H times the move of the round before.
            A round that knows the image saves a product.
    """

    step: Step
    memory: int = 0
    length: int | None = None
    response: Float[np.ndarray, " n"] | None = None
    roots: Callable[[np.ndarray], np.ndarray] | None = None
    limit: float = 2.0
    server_rate: float | None = None
    pull: float = 0.0
    server: Step | None = None
    outer: OuterSpectrum | None = None
    feedback: Feedback | None = None
    in_turn: Float[np.ndarray, " n"] | None = None
    again: Callable[[Vectors, Memory, Vectors], tuple[Vectors, Memory]] | None = None

    def onward(self, residual: Vectors, memory: Memory, image: Vectors) -> tuple[Vectors, Memory]:
        """The move of a round, computed by `again` if the method has it, and otherwise by `step`.

        Args:
            residual: the residual r.
            memory: the memory of the method.
            image: H times the move of the round before; 0 in the first round.

        Returns:
            The move, and the memory after it.
        """
        return self.step(residual, memory) if self.again is None else self.again(residual, memory, image)

    @property
    def mean_response(self) -> Float[np.ndarray, " n"]:
        """u(q) at server rate 1, which gives the clients' mean displacement; only a round with a `response` has it."""
        assert self.response is not None
        return self.response if self.server_rate is None else self.response / self.server_rate

    @cached_property
    def numbers(self) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, " p"]]:
        """The pair (N, j) of a matrix and a vector that describe the server's step.

        Let z consist of the residual and of H times each vector of the memory. A round maps z to N z + j H d, where d
        is the mean displacement. N and j act on the parts of z.
        """
        assert self.server is not None
        # unit vectors of the mean displacement, of the residual and of each vector of the memory
        unit = np.eye(2 + self.memory)
        move, memory = self.server(unit[:1], tuple(unit[2 + k : 3 + k] for k in range(self.memory)))
        rows = np.concatenate([unit[1:2] - move, *memory])
        return rows[:, 1:], rows[:, 0]


def averaging(
    blocks: Blocks, response: Float[np.ndarray, " n"], server_rate: float | None = None, pull: float = 0.0
) -> LinearRound:
    """The round in which the server's step is `server_rate` times the mean: r' = (I - g H u(H_D)) r.

    Source: fl-ntk/X.1.

    Args:
        blocks: the blocks of the data.
        response: u(q); the mean of the clients' displacements is u(H_D) r.
        server_rate: g; None: 1.
        pull: as in `LinearRound`; default 0.
    """
    rate = 1.0 if server_rate is None else server_rate
    values = rate * response

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        return blocks.apply(values, residual), ()

    def server(mean: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        return rate * mean, ()

    return LinearRound(step, 0, None, values, lambda nu: 1 - nu[:, None], 2.0, server_rate, pull, server)


def heavy_ball(
    blocks: Blocks, response: Float[np.ndarray, " n"], server_rate: float, momentum: float, nesterov: bool
) -> LinearRound:
    """The round in which the server keeps a velocity v <- b v + mean.

    The server's step is g v, or g (mean + b v) with Nesterov's momentum.

    Args:
        blocks: the blocks of the data.
        response: u(q); the mean of the clients' displacements is u(H_D) r.
        server_rate: g.
        momentum: b.
        nesterov: whether the model is the point that Nesterov's step extrapolates to.

    For each eigenvalue nu of g H u(H_D) the round map has two eigenvalues z. With heavy ball z^2 - (1 + b - nu) z + b =
    0, and the rounds are stable for 0 < nu < 2 (1 + b). With Nesterov's momentum and mu = 1 - nu, z^2 - (1 + b) mu z +
    b mu = 0, and the rounds are stable for 0 < nu < (2 + 2 b) / (1 + 2 b).
    """

    def server(mean: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        velocity = momentum * memory[0] + mean
        return server_rate * (mean + momentum * velocity if nesterov else velocity), (velocity,)

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        return server(blocks.apply(response, residual), memory)

    def roots(nu: np.ndarray) -> np.ndarray:
        if nesterov:
            return _quadratic((1 + momentum) * (1 - nu), momentum * (1 - nu))
        return _quadratic(1 + momentum - nu, np.full(len(nu), momentum))

    limit = (2 + 2 * momentum) / (1 + 2 * momentum) if nesterov else 2 * (1 + momentum)
    feedback = _momentum_feedback(server_rate * response, server_rate, momentum, nesterov)
    values = server_rate * response
    return LinearRound(step, 1, None, values, roots, limit, server_rate, server=server, feedback=feedback)


def _momentum_feedback(values: np.ndarray, server_rate: float, momentum: float, nesterov: bool) -> Feedback:
    """The feedback of momentum.

    Let nu be an eigenvalue of g H u(H_D). Then z is an eigenvalue of the round if z^2 - (1 + b) z + b equals -nu z for
    heavy ball, or -nu ((1 + b) z - b) for Nesterov.
    """
    ahead = 1 + momentum if nesterov else 1.0
    ones = np.ones(len(values))
    with np.errstate(divide="ignore"):  # a value of 0 gives an infinite s, which `OuterSpectrum.known` detects
        spectrum = OuterSpectrum(1 / (ahead * values), (1 - momentum) * ones, ones / ahead)
        smallest = values.min()

    def wobble(errors: LocalErrors) -> Wobble:
        of_weights = errors.response * ahead / float(spectrum.evened[0])  # W is g u(H_D) times this quotient
        return Wobble(relative(errors.response, smallest) + 4 * UNIT, 4 * UNIT, 4 * UNIT, of_weights)

    def slips(
        errors: LocalErrors, residual: Vectors, memory: Vectors, move: Vectors, after: Vectors
    ) -> tuple[float, float]:
        old, new = (float(np.linalg.norm(velocity)) for velocity in (memory, after))
        kept = errors.response / server_rate * float(np.linalg.norm(residual)) + 4 * UNIT * (momentum * old + new)
        rounding = 8 * UNIT * (server_rate * (momentum * old + 2 * new) + float(np.linalg.norm(move)))
        return kept, server_rate * ahead * kept + rounding

    kept = server_rate * momentum**2 if nesterov else server_rate * momentum
    return Feedback(spectrum, 1.0, values, wobble, slips, kept=kept, unit=server_rate, beyond=ahead - 1)


def _quadratic(total: np.ndarray, product: np.ndarray) -> np.ndarray:
    """The two roots of z^2 - total z + product, (n, 2).

    The smaller root is computed from the product of the roots, which avoids cancellation.
    """
    root = np.sqrt(np.asarray(total, complex) ** 2 - 4 * product)
    larger = (total + np.where(total < 0, -root, root)) / 2
    return np.stack([larger, np.where(larger == 0, 0, product / np.where(larger == 0, 1, larger))], axis=1)
