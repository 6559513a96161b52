"""Scalar inequalities used in the proofs of FL-NTK, each over the whole box of its parameters."""

import sympy as sp

from bounds.algebra import Nonnegative, OnBox

x, a, s, w, c, u, v = sp.symbols("x a s w c u v", nonnegative=True)
thousandth = sp.Rational(1, 1000)
ROOT = sp.Rational(125643, 100000)  # a number just below the positive root of exp(x) = 1 + 2x
GROWTH = {2: sp.Integer(4), 3: sp.Rational(2373, 1000), 4: sp.Rational(1952, 1000), 5: sp.Rational(1761, 1000)}

STEPS = (
    OnBox(
        "fl-ntk/A.2",
        "(2/3) z <= erf(z/sqrt 2) <= sqrt(2/pi) z for 0 <= z <= 1",
        (sp.erf(x / sp.sqrt(2)) - 2 * x / 3, sp.sqrt(2 / sp.pi) * x - sp.erf(x / sp.sqrt(2))),
        {x: (0, 1)},
    ),
    OnBox("fl-ntk/B.10", "exp(x) <= 1 + 2x for 0 <= x <= 1.25643", (1 + 2 * x - sp.exp(x),), {x: (0, ROOT)}),
    OnBox(
        "fl-ntk/B.10",
        "the inequality is reversed beyond: exp(x) >= 1 + 2x for 1.25644 <= x <= 3",
        (sp.exp(x) - 1 - 2 * x,),
        {x: (ROOT + sp.Rational(1, 100000), 3)},
    ),
    OnBox("fl-ntk/T4.1", "1 - x <= exp(-x) for 0 <= x <= 1: contraction to rounds", (sp.exp(-x) - 1 + x,), {x: (0, 1)}),
    *(
        OnBox(
            "fl-ntk/B.10",
            f"(1 + x/{steps})^{steps} <= 1 + 2x for 0 <= x <= {float(limit):g}",
            (1 + 2 * x - (1 + x / steps) ** steps,),
            {x: (0, limit)},
        )
        for steps, limit in GROWTH.items()
    ),
    OnBox(
        "fl-ntk/B.3",
        "the bracket 2 - 40 x (1+a) - 4 u - 4 v (1+a)^2 is at least 1.9519 at x = nR/lambda <= 1/1000, "
        "a = 2 eta_l n K <= 1/500, u = eta_l kappa K n <= 1/1000, v = eta_g eta_l n^2 K/(N lambda) <= 1/1000",
        (2 - 40 * x * (1 + a) - 4 * u - 4 * v * (1 + a) ** 2 - sp.Rational(19519, 10000),),
        {x: (0, thousandth), a: (0, 2 * thousandth), u: (0, thousandth), v: (0, thousandth)},
    ),
    OnBox(
        "fl-ntk/L6.2",
        "C4 in units of rho lambda |r|^2, 4 c (1+a)^2/(N mu), is at most 1/40 at c = 1/400, a <= 1/200, mu >= .45, "
        "N >= 1 (u = 1/mu)",
        (sp.Rational(1, 40) - 4 * sp.Rational(1, 400) * (1 + a) ** 2 * u,),
        {a: (0, sp.Rational(1, 200)), u: (0, sp.Rational(20, 9))},
    ),
    OnBox(
        "fl-ntk/L6.2",
        "C1, C2 + C3 at nR/lambda <= 1/1000, a <= 1/500, eta_l kappa K n <= 1/1000: C1 <= -1.98, C2, C3 <= 1/40",
        (-sp.Rational(198, 100) + 2 - 8 * x * (1 + a) - 4 * u, sp.Rational(1, 40) - 16 * x * (1 + a)),
        {x: (0, thousandth), a: (0, 2 * thousandth), u: (0, thousandth)},
    ),
    OnBox(
        "fl-ntk/B.3-certificate",
        "the certificate in closed form: at eta_l K mu^2 = c lambda <= lambda/5, rho mu^2 = w lambda <= 4 lambda/25, "
        "E = x lambda <= lambda/4 and s = lambda/mu <= 1, beta = 2 (1 - x - c (1 + x s)/2) - w (1 + x s)^2 >= 1 "
        "and the local steps are stable",
        (2 * (1 - x - c * (1 + x * s) / 2) - w * (1 + x * s) ** 2 - 1, 2 * (1 - x) - c * (1 + x * s) ** 2),
        {x: (0, sp.Rational(1, 4)), c: (0, sp.Rational(1, 5)), w: (0, sp.Rational(4, 25)), s: (0, 1)},
    ),
    OnBox(
        "fl-ntk/B.3-certificate",
        "the certificate in closed form asks for m >= 310 (g |X| r_0)^2 / lambda^4: 8 (2 + eta_l K lambda) <= "
        "8 (2 + 1/5) <= sqrt 310",
        (sp.sqrt(310) - 8 * (2 + c * s**2),),
        {c: (0, sp.Rational(1, 5)), s: (0, 1)},
    ),
    OnBox(
        "fl-ntk/B.11",
        "Bernstein for a binomial of mean x <= sqrt(2/pi) R at t = (2 - sqrt(2/pi)) R: exponent at least .6 m R",
        ((2 - sp.sqrt(2 / sp.pi)) ** 2 / 2 - sp.Rational(6, 10) * (x + (2 - sp.sqrt(2 / sp.pi)) / 3),),
        {x: (0, sp.Rational(79789, 100000))},
    ),
    Nonnegative(
        "fl-ntk/B.8",
        "E_2: M^2 L >= 6 with M^2 = 2 ln(6 m n/delta) = 2 (ln 6 + u) and L = ln(8 n/delta) = ln 8 + v",
        (2 * (sp.log(6) + u) * (sp.log(8) + v) - 6,),
        (u, v),
    ),
    Nonnegative("fl-ntk/B.5", "3R/14 >= R/10 and 9R/4 >= R", (3 * x / 14 - x / 10, 9 * x / 4 - x), (x,)),
)
