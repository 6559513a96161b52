"""A statement on the rate of full rounds of federated averaging on all layers of a smooth network.

The rounds start from a certified checkpoint. Comments beside the formulas have the proof's symbols.
"""

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Hypothesis, Kind, Source, Statement
from bounds.deep.cases.federated_rounds import SMALL_ROUNDS, FederatedRounds, rounds_case
from bounds.mutants import Mutant, replaced
from ntkfl.estimate import Estimate
from ntkfl.smooth_networks.rounds import GROWN
from ntkfl.smooth_networks.window import Rounds

sigma, size, low, high = sp.symbols("sigma_0 varphi_0 lambda_0 Lambda_0", positive=True)
client, most, least, grown, own = sp.symbols("G p_+ p_- zeta zeta_c", positive=True)
turn, radius, eta, steps, server = sp.symbols("L_J rho eta K gamma", positive=True)

often, root = eta * (steps - 1), client + turn * radius
turned, changed = turn * radius / sigma, 2 * often * root * turn * radius
lowest, highest = (1 - turned) ** 2 * sp.exp(-changed) * low, (1 + turned) ** 2 * sp.exp(changed) * high
cross = grown**2 * turn * sp.sqrt(often) * (2 + sp.sqrt(often) * root)  # Omega
moves = server * (sp.sqrt(highest) + cross * size)  # M
second = server * sp.sqrt(highest) * cross + sp.sqrt(most * eta * steps) * turn * moves**2 / 2  # Y
other = (sp.exp(often * root * turn * moves * size) - 1) / size  # X
linear = sp.Max(1 - server * lowest, server * highest - 1)  # nu
room = 1 - server * highest / 2 - (other + (1 + other * size) * second) * size / (server * lowest)  # g
RATE, SLOWER = (1 + other * size) * (linear + second * size), 1 - server * lowest * room
REACH = (1 + cross * size / sp.sqrt(lowest)) * size / (sp.sqrt(lowest) * room) + own * size / sp.sqrt(least)


def _constants(case: FederatedRounds) -> dict:
    of_rounds, rho, often_met = case.known, case.radius, case.setup.local_steps > 1
    widest = max(of.root for of in of_rounds.clients)
    longest = Estimate.exact(case.setup.eta_local).sqrt() * (Estimate.exact(case.turn) * rho + widest)
    return {
        sigma: of_rounds.least_root,
        size: of_rounds.size,
        low: of_rounds.lowest,
        high: of_rounds.highest,
        client: widest,
        most: max(case.shares),
        least: min(case.shares),
        grown: GROWN,
        own: GROWN if often_met else longest,
        turn: case.turn,
        radius: rho,
        eta: case.setup.eta_local,
        steps: case.setup.local_steps,
        server: case.setup.eta_global,
    }


def _measure(case: FederatedRounds) -> tuple[Estimate, ...]:
    """The ratio of residual sizes after and before each round, twice, and the largest distance from the checkpoint.

    There are two copies of the ratio because the claim bounds it in two ways.
    """
    run = case.run
    if not (np.isfinite(run.size).all() and run.size.all()):
        raise ArithmeticError("a residual is 0, or the run overflowed")
    ratio, off = run.size[1:] / run.size[:-1], run.size_off
    error = (off / run.size[1:] + off / run.size[:-1]) * ratio * (1 + 1e-3)
    ratios = Estimate(ratio, error, "rounding, generous")
    return ratios, ratios, Estimate(run.moved, run.moved_off, "rounding, generous")


STATEMENTS = (
    Statement(
        id="deep/federated-rounds",
        title="From a certified checkpoint full rounds of federated averaging fit the data, at a proved rate",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/smooth_networks.md#rounds-of-federated-averaging"),
        note="all layers are trained; clients and the server may have any weights and steps for which the "
        "inequalities hold. phi = (r' D r)^(1/2), D with the blocks p_c eta sum_(k<K) (I - eta K_cc)^k. The right "
        "sides have the proof's h = eta (K-1), lambda, Lambda, Omega, M, Y, X, nu and g written out.",
        hypotheses=(
            Hypothesis(
                "certified",
                "L_J rho < sigma_0, eta G_c^2 <= 1 (below 2 if K = 1), max(w_c, 2 zeta^2 h G_c L_J) phi / sqrt(p_c) <= "
                "zeta - 1, gamma Lambda < 2, g > 0 and the last right side is below rho, with proven errors",
                lambda case: 0.0 if isinstance(case.judged, Rounds) else -1.0,
            ),
            Hypothesis("steps", "clients make steps eta", lambda case: -abs(case.longer - 1)),
            Hypothesis("server", "the server's step is gamma", lambda case: -abs(case.farther - 1)),
            Hypothesis("takes part", "every client takes part in every round", lambda case: -float(case.absent)),
        ),
        new=Claim((RATE, SLOWER, REACH)),
        constants=_constants,
        measure=_measure,
        symbols={
            sigma: "smallest singular value of J, the Jacobian of all outputs at the checkpoint",
            size: "phi at the checkpoint",
            low: "smallest eigenvalue of J J' D at the checkpoint",
            high: "largest eigenvalue of J J' D at the checkpoint",
            client: "the largest norm of a client's rows of J at the checkpoint",
            most: "largest weight of a client in the mean",
            least: "smallest weight of a client in the mean",
            grown: "chosen factor by which a client may move more in a round than its kernel says",
            own: "zeta; sqrt(eta) (G + L_J rho) if K = 1",
            turn: "at least |J(t) - J(t')| / |t - t'| in the ball",
            radius: "radius of the ball about the checkpoint in which L_J is a bound",
            eta: "local step on half the sum of squares",
            steps: "local steps",
            server: "the server's step, on the weighted sum of the clients' movements",
        },
        left_formula=("varphi_{t+1} / varphi_t", "varphi_{t+1} / varphi_t", "max_{t,c,k} |theta_{t,c,k} - theta_0|"),
        says_left="left 1 and 2: phi after each of 12 rounds over phi before; left 3: the largest distance of a "
        "model of the server or of a client from the checkpoint; in float64, residuals along the slowest direction",
        families=(SMALL_ROUNDS,),
        mutants=(
            replaced(low, 2 * low, "twice the smallest eigenvalue"),
            Mutant(
                "rounds 1.05 times as fast", lambda part: 1 - sp.Rational(21, 20) * (1 - part) if part == RATE else part
            ),
            Mutant("the slower rate twice as fast", lambda part: 1 - 2 * (1 - part) if part == SLOWER else part),
            Mutant("models that stay within a fourth", lambda part: part / 4 if part == REACH else part),
        ),
        necessity={
            # The residual has 300 times the certifiable length, so that the ball around the checkpoint contains no fit.
            # On the way to a fit the gradients change their direction.
            "certified": lambda: rounds_case(3, 300.0, "fc:3:erf", 20, 3, 0.5, ball=1e-9),
            # The network is certified, but local steps are six times as long as the certificate's local steps.
            "steps": lambda: rounds_case(2, 0.01, "fc:3:erf", 40, 2, 0.8, longer=6.0),
            # The network is certified, but the server's step is ten times the certificate's server step.
            "server": lambda: rounds_case(2, 0.01, "fc:3:erf", 40, 2, 0.8, farther=10.0),
            # The network is certified, but one of its clients never takes part.
            "takes part": lambda: rounds_case(2, 0.01, "fc:3:erf", 40, 2, 0.8, absent=True),
        },
    ),
)
