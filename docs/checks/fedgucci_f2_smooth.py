"""Check of fedgucci/F2-smooth (FedGuCci, Assumption 3.2, second part), with mpmath.

Printed: the expected loss is gamma-smooth in all the weights, |grad L(w') - grad L(w)| <= gamma |w' - w|, for a
two-layer ReLU network and a loss that is convex and 1-Lipschitz in the output.

Counterexample: one hidden neuron f = v relu(u.x), x uniform on the circle |x| = b, label 0, absolute loss: convex and
1-Lipschitz. With v = 1 > 0 the expected loss is L(u) = v E relu(u.x), and grad_u L = v E 1(u.x > 0) x, which depends on
the direction of u alone. Turn u, keeping |u| = r: the derivative in v, E relu(u.x), stays as it is, so that the
quotient below is that of the whole gradient. No gamma bounds it as r -> 0,
not even on the weights of length 1 or less.

What one gamma would give is written with the curvature v b/pi that is found at r = 1. Holds: v b/(pi r) on |u| >= r.
(On finite data it is simpler still: relu(u) at x = 1 has slope 0 left of u = 0 and 1 right of it, whatever gamma.)
"""

import sys

import mpmath as mp

V, B = mp.mpf(1), mp.mpf(2)
LENGTHS = [mp.mpf(1), mp.mpf(1) / 2, mp.mpf(1) / 64, mp.mpf(10) ** -6, mp.mpf(10) ** -12]
TURN = mp.mpf(1) / 3


def gradient(u):
    """v E 1(u.x > 0) x, by quadrature over the half circle that u sees."""
    middle = mp.atan2(u[1], u[0])
    arc = [middle - mp.pi / 2, middle, middle + mp.pi / 2]
    return [V * B * mp.quad(f, arc) / (2 * mp.pi) for f in (mp.cos, mp.sin)]


def quotient(u, w):
    """|grad L(u) - grad L(w)| / |u - w|."""
    apart = [a - b for a, b in zip(gradient(u), gradient(w), strict=True)]
    return mp.hypot(*apart) / mp.hypot(u[0] - w[0], u[1] - w[1])


def measured(r):
    """The quotient of two weights of length r, a turn apart."""
    return quotient([r, mp.mpf(0)], [r * mp.cos(TURN), r * mp.sin(TURN)])


def printed(r):
    """One gamma, whatever the length."""
    return V * B / mp.pi


def holds(r):
    """The constant on |u| >= r, which weights of length r attain."""
    return V * B / (mp.pi * r)


def main():
    refuted, right = 0, True
    for digits in (30, 50):
        mp.mp.dps = digits
        error = mp.mpf(10) ** (12 - digits)  # differences of weights of length 1e-12 lose twelve digits at most
        for r in LENGTHS:
            left, said, correct = measured(r), printed(r), holds(r)
            refuted += bool(left > said * (1 + error))
            right &= bool(abs(left / correct - 1) < error)
            print(f"{digits} digits, |u| = {mp.nstr(r, 3)}: quotient {mp.nstr(left, 12)}, printed at most "
                  f"{mp.nstr(said, 12)}: {'VIOLATED' if left > said * (1 + error) else 'met'}; "
                  f"what holds {mp.nstr(correct, 12)}")  # fmt: skip
        for i in range(6):  # the repaired constant bounds all pairs with |u|, |w| >= r, not only those that attain it
            u, w = ([s * mp.cos(a), s * mp.sin(a)] for s, a in ((1 + i / mp.mpf(7), i), (1 + i % 5, i * i / mp.mpf(9))))
            right &= bool(u == w or quotient(u, w) <= holds(mp.mpf(1)) * (1 + error))
    print(f"no single gamma: {refuted} of {2 * len(LENGTHS)}; the repaired constant {'holds' if right else 'FAILS'}")
    return 0 if refuted == 2 * (len(LENGTHS) - 1) and right else 1


if __name__ == "__main__":
    sys.exit(main())
