"""Check of fl-ntk/C.10 (FL-NTK, Claim C.10, with the step sizes of Lemma C.7), with mpmath; numpy runs small networks.

Printed: |B_3| <= (n sigma/lambda + n^(7/2)/(lambda^3 sigma sqrt m)) poly(log(m/delta)) except with probability delta,
for every T. Here B_3 = -rho sum_t (1/K) sum_k J(k,t)(y^(k)(t) - y(t) + e(t)) and e(t) = y(t) - y + (I - rho H)^t y.
(The scan of the paper has e(k) in place of e(t). The claim would fail with e(k) too: with e(1) the limit below has
eta^2/2 - eta^3/4 in place of eta^2/2. And with k = 1..K in place of the steps 0..K-1 of Algorithm 1 the limit is
larger still.)

Counterexample: there is one client with one sample x = 1, y = 1, and K = 2, T = 1, eta_g = 1. Then H = P(w >= 0) = 1/2
= lambda, kappa and n are 1, and eta = 1/4 = lambda/(n^2 K kappa) is the step that the lemma requires, with constant 1.
With sigma = m^(-1/5), m sigma^2 grows as the lemma requires, and the printed bound tends to 0. Let f = y(0),
p = #{u_r >= 0} and q = #{0 <= u_r < R} with R = eta |1 - f|/sqrt m. In the one local step before J(1), each neuron with
u_r >= 0 moves by R. At most q of these neurons become inactive, and no neuron becomes active. Let y' be the output
after this step. Then
  B_3 = -eta (J(0) f + J(1) y'),  y' - f = (1 - f) eta (p - theta)/m with theta in [0, q],  p - q <= m |J(1)|^2 <= p,
which encloses |B_3|. For nearly every network f and q are small and p/m is near 1/2. Indeed,
P(|f| > s) <= sigma^2/(2 s^2) by Chebyshev, and P(|p/m - 1/2| > tau) <= 2 exp(-2 m tau^2) by Hoeffding. If |f| <= 1,
P(q > q') <= (2 eta/sqrt m)/(sigma sqrt(2 pi)) m/q' by Markov.

Holds: the bound plus |H^(-1/2)((I - rho H)^T - M^T) y|, where M is the exact map of a round. In this example the added
norm is sqrt 2 eta^2/4.
"""

import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 500  # number of digits; so many are needed since sigma is 1e-200 in the last row of the output
ETA, LAM = mp.mpf(1) / 4, mp.mpf(1) / 2


def enclosed(m, f, few, many, q):
    """Two numbers that enclose |B_3| if |y(0)| <= f < 1, few <= p <= many, and at most q neurons are near 0."""
    y_low = -f + (1 - f) * ETA * (few - q) / m
    y_high = f + (1 + f) * ETA * many / m
    low = ETA * (mp.sqrt((few - q) / m) * y_low - mp.sqrt(many / m) * f)
    return low, ETA * mp.sqrt(many / m) * (f + y_high)


def measured(m, sigma):
    """A lower and an upper bound of |B_3|, and a bound of the probability that a network is outside them."""
    s, tau, share = sigma * 10**4, m ** (-mp.mpf(2) / 5), mp.mpf(10) ** 8
    near = 2 * ETA / (sigma * mp.sqrt(2 * mp.pi * m))
    low, high = enclosed(m, s, m * (mp.mpf(1) / 2 - tau), m * (mp.mpf(1) / 2 + tau), m * near * share)
    return low, high, sigma**2 / (2 * s**2) + 1 / share + 2 * mp.exp(-2 * m * tau**2)


def printed(m, sigma, degree):
    """The printed bound with delta = 1/1000 and the polynomial log^degree."""
    return (sigma / LAM + 1 / (LAM**3 * sigma * mp.sqrt(m))) * mp.log(1000 * m) ** degree


def holds(m, sigma, degree):
    """The bound with the exact term added, M = (1 - eta/2)^2 and rho = 2 eta."""
    exact = mp.sqrt(2) * abs((1 - ETA) - (1 - ETA / 2) ** 2)
    return exact + (sigma / LAM + 1 / (LAM**3 * sigma * mp.sqrt(m))) * mp.log(1000 * m) ** degree


def networks_lie_within(m=100_000, sigma=0.02, networks=20):
    """Whether |B_3| of networks that are trained lies in the enclosure with their own y(0), p and q."""
    rng, eta, within = np.random.default_rng(0), float(ETA), True
    for _ in range(networks):
        u, a = sigma * rng.standard_normal(m), rng.choice([-1.0, 1.0], m)
        jacobian = [a * (u >= 0) / m**0.5]
        f = jacobian[0] @ u
        w = u + eta * jacobian[0] * (1 - f)
        jacobian.append(a * (w >= 0) / m**0.5)
        left = eta * np.linalg.norm(jacobian[0] * f + jacobian[1] * (jacobian[1] @ w))
        p, q = np.sum(u >= 0), np.sum((u >= 0) & (u < eta * abs(1 - f) / m**0.5))
        low, high = enclosed(mp.mpf(m), abs(mp.mpf(f)), int(p), int(p), int(q))
        within &= bool(low - 1e-12 <= left <= high + 1e-12)
    return within


def main():
    confirmed = within = networks_lie_within()
    print(f"the enclosure has 20 networks of width 1e5, run: {within}")
    for exponent, degree in ((100, 3), (200, 6), (1000, 20)):
        m = mp.mpf(10) ** exponent
        sigma = m ** (-mp.mpf(1) / 5)
        (low, high, outside), stated, right = measured(m, sigma), printed(m, sigma, degree), holds(m, sigma, degree)
        print(f"m = 1e{exponent}: |B_3| in [{mp.nstr(low, 12)}, {mp.nstr(high, 12)}] but for probability "
              f"{mp.nstr(outside, 2)}; printed with log^{degree} {mp.nstr(stated, 3)}: "
              f"{'VIOLATED' if low > stated else 'met'}; what holds {mp.nstr(right, 12)}")  # fmt: skip
        near = right - 2 * stated <= low and high <= right  # |B_3| and the added term differ by at most `stated`
        confirmed &= bool(low > stated and near and outside < mp.mpf(10) ** -7)
    return 0 if confirmed else 1


if __name__ == "__main__":
    sys.exit(main())
