"""Check of fedgucci/F17 (FedGuCci, Eqs (51)-(52)), with numpy; the violation itself is computed in rational numbers.

Printed, for a gamma-smooth loss L: sup L on the segment from w_i to w_anc,i is at most sup L on the segment from w_i to
w_anc, plus gamma |w_anc - w_anc,i|^2, where w_anc,i minimises the client's loss. This check takes the client's loss for
L on both sides of the inequality. The old segment leads from w_i to w_anc, and the new segment from w_i to w_anc,i.

Counterexample in the plane: L(x, y) = g(y + c(x)), c(x) = A sin^2(pi x/X) - sin^2(pi x/(2 X)), A = 6, X = 200, and g
Huber's function, s^2/2 for |s| <= 7, 7|s| - 49/2 beyond; w_i = (0, 0), w_anc = (X, 0), w_anc,i = (X, 1).
The counterexample meets the hypotheses:
  w_anc,i is a minimiser, since L >= 0 and L(X, 1) = 0, as c(X) = -1. No minimiser is nearer to w_anc. Indeed,
  minimisers have y = -c(x). With c >= -1, c'(X) = 0 and |c''| <= k <= 1, the squared distance z^2 + c(X + z)^2 is at
  least z^2 + (1 - k z^2/2)^2 >= 1 for |z| < 1, and at least z^2 >= 1 for larger |z|.
  L is gamma-smooth on the whole plane. The Hessian is g''(c', 1)(c', 1)^T + g' diag(c'', 0). Its norm is at most
  1 + c'^2 + 7 |c''|, where |c'| <= (A + 1/2) pi/X and |c''| <= (2 A + 1/2) pi^2/X^2. (The code uses 22/7 > pi in place
  of pi.)
On the old segment y = 0. With u = cos(pi x/X), c = A (1 - u^2) - (1 - u)/2 has the range [-1, A - 1/2 + 1/(16 A)]. On
the new segment y = x/X. At x = X/2, c + y = A, hence sup L is at least A^2/2.

The bound that holds on the new segment is (sqrt(eps) + sqrt(gamma/2) Gamma)^2, since |grad L| <= sqrt(2 gamma L) for
gamma-smooth L >= 0; eps is sup L on the old segment, and Gamma = |w_anc - w_anc,i|.
If L is the global loss and not the client's, even L = w^2/2 violates the printed bound, since w_i = 0, w_anc = 1 and
w_anc,i = 2 give 2 > 1/2 + 1. In this case the repaired bound, which does not need a minimiser, is attained.
"""

import sys
from fractions import Fraction as F

import numpy as np

A, X, BEND, PI = 6, 200, 7, F(22, 7)
CURVE = (2 * A + F(1, 2)) * PI**2 / X**2  # |c''| is at most this number, which is at most 1
GAMMA_L = 1 + ((A + F(1, 2)) * PI / X) ** 2 + BEND * CURVE  # L is smooth with this constant
SHIFT = 1  # |w_anc - w_anc,i|


def c(x):
    """The function c; the floor of the valley of L is y = -c(x)."""
    return A * np.sin(np.pi * x / X) ** 2 - np.sin(np.pi * x / (2 * X)) ** 2


def gradient(x, y):
    """The gradient of L."""
    slope = np.clip(y + c(x), -BEND, BEND)
    return slope * (np.pi / X) * (A * np.sin(2 * np.pi * x / X) - np.sin(np.pi * x / X) / 2), slope


def printed(eps, gamma, shift):
    """The printed bound (52)."""
    return eps + gamma * shift**2


def holds(eps, gamma, shift):
    """The bound that holds, with the gradient term."""
    return (float(eps) ** 0.5 + (float(gamma) / 2) ** 0.5 * shift) ** 2


def main():
    # sup L on the old segment: the maximum of c is below BEND, and it is above 1, the absolute value of the minimum
    old = F(1, 2) * (A - F(1, 2) + F(1, 16 * A)) ** 2
    new = F(A**2, 2)  # a lower bound of sup L on the new segment, since A is below BEND
    s = np.linspace(0, 1, 100_001)
    largest = [np.abs(y + c(X * s)).max() for y in (0, s)]
    # covers rounding and the growth of |y + c| between the points of the grid
    slack = ((A + 0.5) * np.pi + 1) * 5e-6 + 1e-12
    below = max(largest) + slack < BEND
    same = abs(largest[0] ** 2 / 2 - old) < 1e-6 and largest[1] ** 2 / 2 >= new - F(1, 10**9)
    # pairs of points that are close to each other, near the valley
    here, move = np.random.default_rng(0).uniform(-1, 1, (2, 2, 100_000))
    at = [here * [[2 * X], [2 * A]], here * [[2 * X], [2 * A]] + 0.01 * move]
    steepest = np.linalg.norm(np.subtract(*(gradient(*p) for p in at)), axis=0) / np.linalg.norm(at[0] - at[1], axis=0)
    # gamma is at least 1 = d^2 L/dy^2, and with gamma = 1 the bound that holds is smallest
    stated, right = printed(old, GAMMA_L, SHIFT), holds(old, 1, SHIFT)
    met = CURVE <= 1 and below and same and steepest.max() <= GAMMA_L
    print(f"old segment {float(old):.6f}, gamma at most {float(GAMMA_L):.6f} (sampled {steepest.max():.6f}), Gamma 1")
    print(f"new segment at least {new}; printed at most {float(stated):.6f}: {'VIOLATED' if new > stated else 'met'}")
    highest = (largest[1] + slack) ** 2 / 2
    print(f"what holds: at most {float(right):.6f}; new segment at most {highest:.6f}; hypotheses met: {met}")
    line = printed(F(1, 2), 1, 1), holds(F(1, 2), 1, 1)
    print(f"L = w^2/2 on the line: new segment 2, printed at most {float(line[0])}, what holds {float(line[1]):.6f}")
    attained = line[0] < 2 and abs(line[1] - 2) < 1e-12
    return 0 if met and new > stated and highest <= right and attained else 1


if __name__ == "__main__":
    sys.exit(main())
