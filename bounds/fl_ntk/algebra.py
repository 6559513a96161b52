"""Algebraic identities used in the proofs of FL-NTK and of the results beyond it."""

import sympy as sp

from bounds.algebra import Nonnegative, Step, Vanishes
from bounds.symbols import K, R, eta_local, kappa, lam, m, n, r0, rho

q, s, a, b, g, u = sp.symbols("q s a b g u", positive=True)
w = sp.Symbol("w", real=True)
x, z, theta = sp.symbols("x z theta", positive=True)
e = sp.Symbol("e", positive=True)
STEPS_COUNTED = range(1, 8)


def _local_polynomial(steps: int) -> sp.Expr:
    """f_K(q) = eta_l sum_{k<K} (1 - eta_l q)^k."""
    return eta_local * sum(((1 - eta_local * q) ** k for k in range(steps)), sp.Integer(0))


def _symmetric(size: int, name: str) -> sp.Matrix:
    return sp.Matrix(size, size, lambda i, j: sp.Symbol(f"{name}{min(i, j)}{max(i, j)}", real=True))


def _lower(size: int, name: str) -> sp.Matrix:
    return sp.Matrix(size, size, lambda i, j: sp.Symbol(f"{name}{i}{j}", real=True) if j <= i else 0)


_L, _P = _lower(3, "l"), _symmetric(3, "p")
_H2, _P2, _STEP = _symmetric(2, "h"), _symmetric(2, "p"), sp.Symbol("c", positive=True)  # c = eta_g / N
_M = sp.eye(2) - _STEP * _H2 * _P2
_M2 = _M * _M  # a product and not a power, since sympy would simplify a power, which takes long
_VECTORS = {count: [sp.Matrix(2, 1, sp.symbols(f"v{c}_0 v{c}_1")) for c in range(count)] for count in range(2, 6)}


def _spread(vectors: list[sp.Matrix]) -> sp.Expr:
    """N sum_c |v_c|^2 - |sum_c v_c|^2 - sum_{c<c'} |v_c - v_c'|^2, which is 0 for any vectors v_c."""
    total = sum(vectors, sp.zeros(2, 1))
    pairs = [(v, w) for i, v in enumerate(vectors) for w in vectors[:i]]
    apart = sum(((v - w).dot(v - w) for v, w in pairs), sp.Integer(0))
    return len(vectors) * sum(v.dot(v) for v in vectors) - total.dot(total) - apart


_X = n * R / lam
_C1 = 2 * rho * (-lam + 4 * n * R * (1 + a) + 2 * eta_local * kappa * lam * K * n)
_C2 = 16 * rho * (1 + a) * n * R
_C4 = 4 * (rho * n * (1 + a)) ** 2
_SMALLEST = (1 - sp.cos(theta) * (1 - theta / sp.pi)) / 2


def __getattr__(name: str) -> tuple[Step, ...]:
    """STEPS, which are built at their first use, since building them takes as long as importing all statements."""
    if name != "STEPS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return (
        Vanishes(
            "fl-ntk/X.1",
            "the local polynomial has the closed form (1 - (1 - eta_l q)^K) / q, K = 1..7",
            tuple(_local_polynomial(k) - (1 - (1 - eta_local * q) ** k) / q for k in STEPS_COUNTED),
        ),
        Vanishes(
            "fl-ntk/X.3b",
            "f_2' = -eta_l^2 and f_3' = eta_l^2 (2 eta_l q - 3)",
            (
                sp.diff(_local_polynomial(2), q) + eta_local**2,
                sp.diff(_local_polynomial(3), q) - eta_local**2 * (2 * eta_local * q - 3),
            ),
        ),
        Nonnegative(
            "fl-ntk/X.3b",
            "f_K falls in q while eta_l q <= 1: with 1 - eta_l q = u >= 0, -f_K'/eta_l^2 is a sum of k "
            "u^(k-1), K = 1..7",
            tuple(
                (-sp.diff(_local_polynomial(k), q) / eta_local**2).subs(q, (1 - u) / eta_local) for k in STEPS_COUNTED
            ),
            (u,),
        ),
        Nonnegative(
            "fl-ntk/X.3",
            "an even number of local steps beyond eta_l q = 2 makes f_K negative: -q f_K at eta_l q = 2 "
            "+ u, K = 2, 4, 6",
            tuple((1 + u) ** k - 1 for k in (2, 4, 6)),
            (u,),
        ),
        Vanishes(
            "fl-ntk/X.2",
            "L L^T P and L^T P L have the same characteristic polynomial, 3 x 3",
            (((_L * _L.T * _P).charpoly().as_expr() - (_L.T * _P * _L).charpoly().as_expr()).expand(),),
        ),
        Vanishes(
            "fl-ntk/X.8",
            "(eta_g/N) H P sum_{s<4} M^s = I - M^4, 2 x 2",
            (_STEP * _H2 * _P2 * (sp.eye(2) + _M + _M2 + _M2 * _M) - sp.eye(2) + _M2 * _M2,),
        ),
        Vanishes(
            "fl-ntk/X.3",
            "H <= N blockdiag(H_cc): N sum |v_c|^2 - |sum v_c|^2 = sum_{c<c'} |v_c - v_c'|^2, N = 2..5",
            tuple(_spread(vectors) for vectors in _VECTORS.values()),
        ),
        Vanishes(
            "fl-ntk/C.8",
            "rho sum_{t<T} (1 - rho h)^t = (1 - (1 - rho h)^T) / h, T = 1..7",
            tuple(
                sum(rho * (1 - rho * q) ** t for t in range(k)) - (1 - (1 - rho * q) ** k) / q for k in STEPS_COUNTED
            ),
        ),
        Vanishes(
            "fl-ntk/Eq2",
            "d/ds of (pi - arccos s) / (2 pi) is the orthant density 1 / (2 pi sqrt(1 - s^2))",
            (sp.diff((sp.pi - sp.acos(s)) / (2 * sp.pi), s) - 1 / (2 * sp.pi * sp.sqrt(1 - s**2)),),
        ),
        Vanishes(
            "fl-ntk/A.2",
            "d/dz [erf(z/sqrt 2)/z] = (sqrt(2/pi) z exp(-z^2/2) - erf(z/sqrt 2)) / z^2",
            (
                sp.diff(sp.erf(z / sp.sqrt(2)) / z, z)
                - (sp.sqrt(2 / sp.pi) * z * sp.exp(-(z**2) / 2) - sp.erf(z / sp.sqrt(2))) / z**2,
            ),
        ),
        Vanishes(
            "fl-ntk/Eq8",
            "C1 + C2 + C3 + C4 of B.4 to B.7, in units of rho lambda |r|^2, is the bracket of (8) with 4 "
            "(1 + a)^2 in C4",
            (
                (_C1 + 2 * _C2 + _C4) / (rho * lam)
                - (-2 + 40 * _X * (1 + a) + 4 * eta_local * kappa * K * n + 4 * rho * n**2 * (1 + a) ** 2 / lam),
            ),
        ),
        Vanishes(
            "fl-ntk/B.3",
            "at the printed constants (n R = lambda/1000, steps lambda/(1000 kappa n^2 K), all worst "
            "cases 1) the bracket "
            "is 121993999/62500000 = 1.9519",
            (
                2
                - 40 * sp.Rational(1, 1000) * (1 + sp.Rational(2, 1000))
                - 4 * sp.Rational(1, 1000)
                - 4 * sp.Rational(1, 1000) * (1 + sp.Rational(2, 1000)) ** 2
                - sp.Rational(121993999, 62500000),
            ),
        ),
        Vanishes(
            "fl-ntk/B.5",
            "Bernstein at variance 2R, bound 1, t = R: (R^2/2) / (2R + R/3) = 3R/14",
            (R**2 / 2 / (2 * R + R / 3) - 3 * R / 14,),
        ),
        Vanishes(
            "fl-ntk/B.5",
            "Bernstein at variance R, t = 3R: (9 R^2/2) / (R + R) = 9R/4",
            (9 * R**2 / 2 / (R + 3 * R / 3) - 9 * R / 4,),
        ),
        Vanishes(
            "fl-ntk/B.8",
            "E_2's exponent at t = M L with variance 1: t^2/2 - L (1 + M t/3) = L (M^2 L - 6) / 6",
            ((a * b) ** 2 / 2 - b * (1 + a * (a * b) / 3) - b * (a**2 * b - 6) / 6,),
        ),
        Vanishes(
            "fl-ntk/B.12",
            "1 - sqrt(1 - x) >= x/2 and sqrt(1 - x/2) <= 1 - x/4: the squares differ by x^2/4 and by x^2/16",
            ((1 - x / 2) ** 2 - (1 - x) - x**2 / 4, (1 - x / 4) ** 2 - (1 - x / 2) - x**2 / 16),
        ),
        Vanishes(
            "fl-ntk/B.12",
            "two points at angle theta: lambda(H_inf) = theta/(2 pi) + theta^2/4 + O(theta^3)",
            (sp.series(_SMALLEST, theta, 0, 3).removeO() - theta / (2 * sp.pi) - theta**2 / 4,),
        ),
        Vanishes(
            "fl-ntk/B.12",
            "a wedge neuron moves r_0 / (sqrt 2 lambda sqrt m): 1 / (16 sqrt lambda) of the printed bound at n = 2",
            (
                r0 / (sp.sqrt(2) * lam * sp.sqrt(m)) / (8 * sp.sqrt(2) * r0 / sp.sqrt(m * lam))
                - 1 / (16 * sp.sqrt(lam)),
            ),
        ),
        Vanishes(
            "fl-ntk/B.3-certificate",
            "rho / (1 - sqrt q) = (1 + sqrt q) / (beta lambda) for q = 1 - beta lambda rho",
            ((rho / (1 - u) - (1 + u) / g).subs(g, (1 - u**2) / rho),),
        ),
        Vanishes(
            "fl-ntk/B.10",
            "x = -1/2 - w solves exp(x) = 1 + 2x for w exp(w) = -exp(-1/2)/2, that is w = W_{-1}: "
            "exp(-w) = -2 w exp(1/2)",
            (
                sp.exp(-sp.Rational(1, 2)) * (w / (-sp.exp(-sp.Rational(1, 2)) / 2))
                - (1 + 2 * (-sp.Rational(1, 2) - w)),
            ),
        ),
        Nonnegative(
            "fl-ntk/X.12",
            "|prod (A + D_i) - A^k| <= k e (a + e)^(k-1) for |A| <= a and |D_i| <= e, k = 1..7",
            tuple(k * e * (a + e) ** (k - 1) - (a + e) ** k + a**k for k in STEPS_COUNTED),
            (a, e),
        ),
        Nonnegative(
            "fl-ntk/B.11",
            "n (n+1) exp(-.6 x) <= n^2 exp(-x/10) where the latter is below 1 and n >= 2: then exp(x/2) > n^10, and "
            "n^11 >= n + 1 (n = 2 + u)",
            ((2 + u) ** 11 - (2 + u) - 1,),
            (u,),
        ),
        Vanishes(
            "fl-ntk/B.8-hoeffding",
            "cosh x <= exp(x^2/2), coefficient by coefficient: (2k)! / (2^k k!) is 1 at k = 0 and grows "
            "by the factor 2k + 1",
            (
                sp.gammasimp(
                    (sp.gamma(2 * u + 3) / (2 ** (u + 1) * sp.gamma(u + 2)))
                    / (sp.gamma(2 * u + 1) / (2**u * sp.gamma(u + 1)))
                )
                - (2 * u + 1),
            ),
        ),
    )
