"""Tests of the rounds of a smooth network: the stated rounding error covers the true error.

The statements' formulas for the rate and the reach must agree with the certificate's numbers.
"""

import mpmath
import numpy as np
import pytest
import torch

from bounds.deep.cases.federated_rounds import ROUNDS, rounds_case
from bounds.deep.federated_rounds import RATE, REACH, SLOWER, _constants
from ntkfl import networks


def in_forty_digits(case, rounds):
    """Returns the sizes phi at the start and after each round, and the largest distance of a client from the start.

    phi^2 is the sum over clients of share times r^T P r. Here r is the client's residual, P is eta times the sum of
    (1 - eta K)^k over the local steps k = 0, 1, ..., and K is the client's kernel. The distance is the largest over all
    local steps of all rounds. The network has the activation erf, and its backpropagation is written out in mpmath with
    forty digits.
    """
    scales = networks.wide(case.spec).inner_scales(case.width)
    names = list(case.params)
    weights = [mpmath.matrix(np.atleast_2d(case.params[name].numpy()).tolist()) for name in names]
    scale = [mpmath.sqrt(mpmath.mpf(1) / round(1 / scales[name] ** 2)) for name in names]
    x, y = mpmath.matrix(case.problem.x.tolist()), mpmath.matrix(case.problem.y.tolist())
    eta, clients = mpmath.mpf(case.setup.eta_local), [np.flatnonzero(case.problem.owner == c) for c in range(2)]

    def output_and_gradient(at, i):
        h, inputs, z = x[i, :].T, [], []
        for k, weight in enumerate(at):
            inputs.append(h)
            z.append(scale[k] * (weight * h))
            h = z[-1].apply(mpmath.erf) if k < len(at) - 1 else z[-1]
        back, parts = mpmath.matrix([[1]]), [None] * len(at)
        for k in reversed(range(len(at))):
            parts[k] = scale[k] * (back * inputs[k].T)
            back = scale[k] * (at[k].T * back)
            if k:
                slope = z[k - 1].apply(lambda v: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-v * v))
                back = mpmath.matrix([back[r] * slope[r] for r in range(len(back))])
        return h[0], parts

    def size(at):
        total = mpmath.mpf(0)
        for mine, share in zip(clients, case.shares, strict=True):
            both = [output_and_gradient(at, i) for i in mine]
            rows = [[v for part in parts for v in part] for _, parts in both]
            kernel = mpmath.matrix([[mpmath.fdot(a, b) for b in rows] for a in rows])
            r = mpmath.matrix([y[int(i)] - f for i, (f, _) in zip(mine, both, strict=True)])
            left = r
            for _ in range(case.setup.local_steps):
                total += mpmath.mpf(share) * eta * (r.T * left)[0]
                left = left - eta * (kernel * left)
        return mpmath.sqrt(total)

    server, sizes, farthest = weights, [size(weights)], mpmath.mpf(0)
    for _ in range(rounds):
        moved = [0 * part for part in server]
        for mine, share in zip(clients, case.shares, strict=True):
            at = server
            for _ in range(case.setup.local_steps):
                step = [0 * part for part in at]
                for i in mine:
                    f, parts = output_and_gradient(at, i)
                    step = [s + (y[int(i)] - f) * p for s, p in zip(step, parts, strict=True)]
                at = [a + eta * s for a, s in zip(at, step, strict=True)]
                way = sum(v**2 for a, w in zip(at, weights, strict=True) for v in a - w)
                farthest = max(farthest, mpmath.sqrt(way))
            moved = [m + mpmath.mpf(share) * (a - b) for m, a, b in zip(moved, at, server, strict=True)]
        server = [s + mpmath.mpf(case.setup.eta_global) * m for s, m in zip(server, moved, strict=True)]
        sizes.append(size(server))
    return sizes, farthest


def test_float64_loses_less_than_is_said():
    case = rounds_case(1, 0.3, "fc:3:erf", 8, 2, 0.8, (0.4, 0.7), 1.2)
    with mpmath.workdps(40):
        sizes, farthest = in_forty_digits(case, 3)
    run = case.run
    off = [abs(float(size - mpmath.mpf(float(of)))) for size, of in zip(sizes, run.size, strict=False)]
    assert max(off) <= run.size_off and min(off) > 0
    assert 0 < float(farthest) <= run.moved + run.moved_off


@pytest.mark.parametrize("steps", [1, 3])
def test_the_formulas_are_those_that_certify(steps):
    case = rounds_case(2, 0.5, "fc:3:erf", 20, steps, 0.6, server=1.2)
    known = {symbol: float(getattr(value, "hi", value)) for symbol, value in _constants(case).items()}
    rate, slower, reach = (float(part.subs(known)) for part in (RATE, SLOWER, REACH))
    proved = case.certificate.rounds
    assert min(rate, slower) == pytest.approx(proved.rate, rel=1e-12)
    assert reach == pytest.approx(proved.reach, rel=1e-12 if steps > 1 else 0.5) and reach >= proved.reach * (1 - 1e-12)


def test_a_client_that_is_away_moves_nothing():
    case = rounds_case(2, 0.01, "fc:3:erf", 20, 2, 0.8, absent=True)
    alone = rounds_case(2, 0.01, "fc:3:erf", 20, 2, 0.8)
    assert len(case.run.size) == ROUNDS + 1 and case.run.size[0] == alone.run.size[0]
    assert case.run.size[-1] > alone.run.size[-1]
    assert torch.equal(case.start, alone.start)
