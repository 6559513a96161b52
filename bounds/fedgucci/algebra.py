"""Algebraic identities and inequalities used by the connectivity results."""

import sympy as sp

from bounds.algebra import Nonnegative, Vanishes

alpha, beta, gamma, loss, distance = sp.symbols("alpha beta gamma L D", positive=True)
v1, v2, s1, s2, g, r, r_a = sp.symbols("v_1 v_2 s_1 s_2 g r r_a", real=True)
p, q, k, u = sp.symbols("p q k u", nonnegative=True)
rest = 1 - alpha
readout = alpha * v1 + rest * v2
overshoot = beta / (6 + 2 * beta)

STEPS = (
    Vanishes(
        "fedgucci/X2",
        "z = -alpha (1 - alpha) (v1 - v2)(s1 - s2) - (alpha v1 + (1 - alpha) v2) J, J = alpha s1 + (1 - alpha) s2 - g",
        (
            readout * g
            - alpha * v1 * s1
            - rest * v2 * s2
            + alpha * rest * (v1 - v2) * (s1 - s2)
            + readout * (alpha * s1 + rest * s2 - g),
        ),
    ),
    Vanishes(
        "fedgucci/R2",
        "where a unit's pre-activations at the ends are p and -q, J is pq/(p+q) at its kink alpha = q/(p+q), and "
        "(p+q)/4 - pq/(p+q) is a square over 4 (p+q)",
        ((q / (p + q)) * p - p * q / (p + q), (p + q) / 4 - p * q / (p + q) - (p - q) ** 2 / (4 * (p + q))),
    ),
    Vanishes(
        "fedgucci/F12",
        "squared loss, outputs linear in alpha: the integral is (r^2 + r r_a + r_a^2)/3",
        (sp.Integral((alpha * r + rest * r_a) ** 2, (alpha, 0, 1)) - (r**2 + r * r_a + r_a**2) / 3,),
    ),
    Vanishes(
        "fedgucci/X4",
        "the gradient of r^2 + beta (r^2 + r r_a + r_a^2)/3 is (1 + beta/3) times that of (r + c r_a)^2, "
        "c = beta/(6+2 beta)",
        (
            sp.diff(r**2 + beta * (r**2 + r * r_a + r_a**2) / 3, r) - (1 + beta / 3) * 2 * (r + overshoot * r_a),
            sp.diff(r**2 + beta * (r**2 + r * r_a + r_a**2) / 3, r).subs(r, -overshoot * r_a),
        ),
    ),
    Vanishes(
        "fedgucci/F17",
        "(sqrt L + sqrt(gamma/2) D)^2 = L + D sqrt(2 gamma L) + gamma D^2/2",
        (
            (sp.sqrt(loss) + sp.sqrt(gamma / 2) * distance) ** 2
            - loss
            - distance * sp.sqrt(2 * gamma * loss)
            - gamma * distance**2 / 2,
        ),
    ),
    Vanishes(
        "fedgucci/F4",
        "sinh(s)/s <= exp(s^2/6), coefficient by coefficient: (2k+1)! / (6^k k!) is 1 at k = 0 and grows by (2k+3)/3",
        (
            sp.gammasimp(
                (sp.gamma(2 * k + 4) / (6 ** (k + 1) * sp.gamma(k + 2)))
                / (sp.gamma(2 * k + 2) / (6**k * sp.gamma(k + 1)))
            )
            - (2 * k + 3) / 3,
        ),
    ),
    Nonnegative("fedgucci/F4", "the factor (2k+3)/3 is at least 1", ((2 * k + 3) / 3 - 1,), (k,)),
    Nonnegative(
        "fedgucci/R1g",
        "1 + sqrt(y/6) <= sqrt(2 y) for y >= 1 (sqrt y = 1 + u): R1g implies the printed bound",
        (sp.sqrt(2) * (1 + u) - 1 - (1 + u) / sp.sqrt(6),),
        (u,),
    ),
)
