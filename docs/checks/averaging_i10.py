"""Check of averaging/I10 (IMA, section 5.3.3 and appendix C), with the standard library alone.

Printed: if the clients' models are identically distributed, the mean covariance equals the mean variance, which is the
variance of one model. So averaging the models leaves the variance as it is: Var(mean) = V.

Counterexample: the model is f_w(x) = w x, and there are K = 4 clients. Each client has one sample (x, y) = (1, +1 or
-1), drawn independently from the same law. Each client makes one gradient step of size 1/2 on (f_w(1) - y)^2 / 2 from a
common start, +1 or -1, so that w_k = (start + y_k)/2. The law of the data and the training are the same for all
clients, so the models are identically distributed. (The printed equality is right if all clients have exactly the same
outputs, so that their correlation is 1.) All 2 * 2^4 outcomes are enumerated in rational numbers.

Holds: Var(mean) = V - (1 - 1/K) W. Here W = E Var(f | start) is the part of V that the start does not explain.
"""

import sys
from fractions import Fraction as F
from itertools import product

K, STEP, SIGNS = 4, F(1, 2), (F(-1), F(1))


def client(start, label):
    """The output at x = 1 of a client after its gradient step."""
    return start - STEP * (start - label)


def variance(values):
    """The variance of equally likely values."""
    return sum(v * v for v in values) / len(values) - (sum(values) / len(values)) ** 2


def measured():
    """The variance of the mean of K clients, over all starts and all labels."""
    return variance([sum(client(s, y) for y in ys) / K for s in SIGNS for ys in product(SIGNS, repeat=K)])


def printed(single, within):
    """The printed value V, the variance of one model."""
    return single


def holds(single, within):
    """The value that holds: V - (1 - 1/K) W."""
    return single - (1 - F(1, K)) * within


def main():
    single = variance([client(s, y) for s in SIGNS for y in SIGNS])
    within = sum(variance([client(s, y) for y in SIGNS]) for s in SIGNS) / len(SIGNS)
    pairs = [(client(s, y), client(s, z)) for s in SIGNS for y in SIGNS for z in SIGNS]  # every model has the mean 0
    covariance = sum(a * b for a, b in pairs) / len(pairs)
    left, stated, right = measured(), printed(single, within), holds(single, within)
    print(f"variance of one client {single}, covariance of two clients {covariance} (printed: equal)")
    print(f"variance of the mean of {K}: {left}; printed {stated}: {'agrees' if left == stated else 'VIOLATED'}")
    print(f"what holds: {right}: {'agrees' if left == right else 'DISAGREES'}")
    return 0 if left == right != stated and covariance == single - within != single else 1


if __name__ == "__main__":
    sys.exit(main())
