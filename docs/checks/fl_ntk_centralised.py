"""Check of fl-ntk/centralised (Jian and Liu 2025, arXiv 2508.12576, as reported), in rational numbers.

Reported: at infinite width, T rounds of FedAvg with K local steps are K T steps of gradient descent on all the data. So
the residual is (I - a H)^(K T) r_0 with a = eta/N.

Counterexample: there are two clients with one sample each, the samples are unit vectors at 60 degrees, K = 2, and the
server step is 1. The kernel of the infinitely wide two-layer ReLU network, x.x' (pi - angle)/(2 pi), is 1/2 on the
diagonal and 1/6 off the diagonal. Both clients have the same weight. The mean loss of a client is its sum, since it has
only one sample. At infinite width the network is linear in its features. The outputs are H alpha, and gradient descent
on |f - y|^2/2 maps alpha to alpha - eta (f - y), where a client changes only the entries of its own samples.

Holds: a round maps the residual by I - (1/N) H D^-1 (I - (I - eta D)^K), where D has the clients' blocks of H. For K =
2 it differs from two steps of gradient descent by a^2 H (N D - H) exactly, which is not 0 for any H > 0 and N > 1,
since the trace of N D is N times the trace of H.
"""

import sys
from fractions import Fraction as F

H = ((F(1, 2), F(1, 6)), (F(1, 6), F(1, 2)))
Y, K, ROUNDS = (F(1), F(-1, 3)), 2, 3
CLIENTS = range(2)


def outputs(alpha):
    """The outputs H alpha."""
    return [sum(H[i][j] * alpha[j] for j in CLIENTS) for i in CLIENTS]


def measured(eta, rounds):
    """The residual f - y after FedAvg from f = 0, computed for each client and each step."""
    alpha = [F(0), F(0)]
    for _ in range(rounds):
        change = [F(0), F(0)]
        for c in CLIENTS:  # sample c is the only sample of client c
            local = list(alpha)
            for _ in range(K):
                local[c] -= eta * (outputs(local)[c] - Y[c])
            change[c] = (local[c] - alpha[c]) / len(CLIENTS)
        alpha = [a + b for a, b in zip(alpha, change, strict=True)]
    return [f - y for f, y in zip(outputs(alpha), Y, strict=True)]


def printed(eta, rounds):
    """The reported residual (I - eta H/N)^(K T) r_0."""
    r = [-y for y in Y]
    for _ in range(K * rounds):
        r = [a - eta * b / 2 for a, b in zip(r, outputs(r), strict=True)]
    return r


def holds(eta, rounds):
    """The residual that holds: (I - (1/N) H D^-1 (I - (I - eta D)^K))^T r_0, with D = I/2."""
    r = [-y for y in Y]
    for _ in range(rounds):
        pulled = [(1 - (1 - eta / 2) ** K) * a / F(1, 2) for a in r]
        r = [a - b / 2 for a, b in zip(r, outputs(pulled), strict=True)]
    return r


def main():
    confirmed = True
    for eta in (F(1), F(1, 4), F(1, 100)):
        left, stated, right = measured(eta, ROUNDS), printed(eta, ROUNDS), holds(eta, ROUNDS)
        print(f"step {eta}, {ROUNDS} rounds: FedAvg {[float(v) for v in left]}, printed {[float(v) for v in stated]}:")
        print(
            f"  {'VIOLATED' if left != stated else 'agrees'}; what holds {'agrees' if left == right else 'DISAGREES'}"
        )
        once = [(a - b) / (eta / 2) ** 2 for a, b in zip(measured(eta, 1), printed(eta, 1), strict=True)]
        second_order = outputs([2 * F(1, 2) * -y + f for y, f in zip(Y, outputs(Y), strict=True)])  # H (N D - H) r_0
        confirmed &= left == right != stated and once == second_order
    print(f"FedAvg is its own linear map, of second order in the step from gradient descent: {confirmed}")
    return 0 if confirmed else 1


if __name__ == "__main__":
    sys.exit(main())
