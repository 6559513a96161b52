"""Checks a certificate of a smooth network in exact integers, with Python's standard library and `ntkfl_check.py`.

It is run as `python ntkfl_check_network.py FOLDER`, where `ntkfl certify --network ... --export FOLDER` has written the
folder. Only the network and the data in the folder are taken as given; everything else is checked. The last line of the
output is `certified` (exit status 0), or `refused` and the first thing that is wrong (exit status 1).

What is proved. The network has layers z_k = c_k W_k h_(k-1) + s_k b_k, h_k = phi_k(z_k), and residual blocks may add
their inputs to their outputs. The vector theta has the W_k and b_k of the trained layers. The loss of an output is half
its squared distance from the label y (squares), from [y - size, y + size] (band), or from [1, inf) for y = 1 and (-inf,
-1] for y = -1 (hinge). The loss huber is half the squared distance from y up to the distance size, and linear beyond.
The folder names some samples as kept; for squares and huber these are all samples. The vector f has the outputs on the
kept samples, J is the derivative of f by theta, and K = J J'. |r| is the distance of f from the nearest outputs at
which the losses of all kept samples are 0. Weights with such outputs are called a fit. In the ball of radius rho about
the stored theta, L_i bounds the norm of the Hessian of f_i, and L_J is a Lipschitz constant of J.

Theorem (docs/proofs/smooth_networks.md in ntkfl's repository). Let the inequalities of the function `window` below
hold. Within the reach that this script prints, let the losses of the other samples be 0 and, with huber, let all losses
be half squares. Train on the sum of the losses of all samples, with step sizes up to the printed step, with any clients
and with means of their models. Let the training consist of windows in which the kept samples' sums of step sizes differ
by a factor of at most v. Then training goes no farther than the printed reach. A window without means, with exactly the
printed step, multiplies the squared distance to the nearest fit by at most the printed factor.

How it is proved. A `Fixed` is a matrix of integers, in units of 2^-P, with a bound of the error of each entry. (1)
Functions are computed as series of positive or of alternating terms, in units of 2^-W. A series ends with the first
term below such a unit, and W - P bits are left for rounding errors. (2) |A|^2 = |A A'|. The symmetric matrix A A' is
squared again and again, and the norm of the last square is at most its Frobenius norm. (3) Let each diagonal entry of Y
K Y' exceed the sum of the absolute values of the rest of its row by g > 0 or more. Then Y K Y' >= g I, and so K >= g /
|Y|^2, for any Y; here Y is computed in floats. (4) The bounds of second derivatives are recursions in numbers >= 0,
which are all rounded up.
"""

import json
import sys
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, isqrt, nextafter
from operator import add
from pathlib import Path
from typing import NamedTuple

if __package__:
    from ntkfl.any_order.ntkfl_check import Refused, below, dot, largest, need, product, raw, read, transposed
else:
    sys.path.append(str(Path(__file__).parent))  # `python -I` does not search this folder
    from ntkfl_check import (  # type: ignore[import-not-found, no-redef]  # beside the script in a folder
        Refused,
        below,
        dot,
        largest,
        need,
        product,
        raw,
        read,
        transposed,
    )

SCHEMA = "ntkfl-network/2"
NUMBER, MISSING = (int, float), type(None)
FIELDS = {"layers": [list], "sha256": [dict], "step": NUMBER, "ball": NUMBER, "visits": NUMBER}
FIELDS |= {"loss": [str], "size": NUMBER, "kept": [list]}
BALL = "ball", "step", "visits"
LAYER_FIELDS = {"name": [str], "columns": [int], "bias": [bool], "trained": [bool], "opens": [int], "closes": [int]}
LAYER_FIELDS |= {"phi": [str], "scale": NUMBER, "bias_scale": NUMBER, "kink": (*NUMBER, MISSING)}
# numbers of bits behind the binary point: P for entries of matrices, W within series, FINE for bounds
P, W, FINE = 120, 330, 160
# bits of the entries of a matrix whose norm is bounded; Python multiplies numbers below 2^30 three times as fast
SHORT = 28
FAR = 100  # the largest |z| of a sine


class Fixed(NamedTuple):
    rows: list
    error: int

    def biggest(self):
        return max((abs(v) for row in self.rows for v in row), default=0)

    def turned(self):
        return Fixed(transposed(self.rows), self.error)


def fixed(rows, bits, factor=1):
    """The integers in `rows` times `factor` times 2^-bits, as a `Fixed`; `factor` is the exact value of a float."""
    num, den = factor.as_integer_ratio()
    shift = P - bits - (den.bit_length() - 1)
    return Fixed([[v * num << shift if shift >= 0 else v * num >> -shift for v in row] for row in rows], int(shift < 0))


def matmul(a, b):
    big, other = a.biggest(), b.biggest()
    error = len(b.rows) * (a.error * other + big * b.error + a.error * b.error)
    return Fixed([[v >> P for v in row] for row in product(a.rows, b.rows)], (error >> P) + 2)


def entrywise(a, b):
    error = a.error * b.biggest() + a.biggest() * b.error + a.error * b.error
    rows = [[u * v >> P for u, v in zip(p, q, strict=True)] for p, q in zip(a.rows, b.rows, strict=True)]
    return Fixed(rows, (error >> P) + 2)


def plus(a, b):
    return Fixed([list(map(add, p, q)) for p, q in zip(a.rows, b.rows, strict=True)], a.error + b.error)


def up(value):
    """A fraction of few bits that is at least the value."""
    return Fraction(-((-value.numerator << FINE) // value.denominator), 1 << FINE)


def root(value):
    """A fraction above the square root of a fraction."""
    return Fraction(isqrt(-((-value.numerator << 2 * FINE) // value.denominator)) + 1, 1 << FINE)


def root_below(value):
    return Fraction(isqrt((value.numerator << 2 * FINE) // value.denominator), 1 << FINE)


def norm(values):
    return root(sum((v * v for v in values), Fraction(0)))


def units(value, times=1):
    return Fraction(value, 1 << P * times)


# Series, for z in units of 2^-W.


@lru_cache
def pi():
    def arctan(q):
        total, power, k = 0, (1 << W) // q, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (q * q), k + 2
        return total

    return 16 * arctan(5) - 4 * arctan(239)


def falling(x):
    """e^-x for x >= 0."""
    if x >> W > 250:
        return 0
    halvings = max(0, x.bit_length() - W + 5)
    r, total, term, k = x >> halvings, 0, 1 << W, 0
    while term:
        total += term if k % 2 == 0 else -term
        k += 1
        term = (term * r >> W) // k
    for _ in range(halvings):
        total = total * total >> W
    return total


def erf(z):
    """erf z = (2 / pi^(1/2)) e^(-z^2) sum_k 2^k z^(2k+1) / (1 3 ... (2k+1)).

    For z of 9.5 or more, erf z is 1 to within 2^-130.
    """
    if abs(z) >= 19 << W - 1:
        return 1 << W if z > 0 else -(1 << W)
    square, term, total, k = z * z >> W, abs(z), 0, 0
    while term:
        total += term
        k += 1
        term = (term * 2 * square >> W) // (2 * k + 1)
    value = 2 * (total * falling(square) >> W) * (1 << W) // isqrt(pi() << W)
    return value if z > 0 else -value


def sine(z, k):
    """sin z for k = 1, cos z for k = 0."""
    need(abs(z) <= FAR << W, f"the sine of a number beyond {FAR} is asked for")
    square, term, total, side = z * z >> W, abs(z) if k else 1 << W, 0, 1
    while term:
        total += side * term
        k, side = k + 2, -side
        term = (term * square >> W) // (k * (k - 1))
    return -total if z < 0 and k % 2 else total


def log_of_one_and(u):
    """log(1 + u) for 0 <= u <= 1, 2 artanh(u / (2 + u))."""
    ratio = (u << W) // ((2 << W) + u)
    square, power, total, k = ratio * ratio >> W, ratio, 0, 1
    while power:
        total += power // k
        power, k = power * square >> W, k + 2
    return 2 * total


def of_erf(z):
    return erf(z), 2 * falling(z * z >> W) * (1 << W) // isqrt(pi() << W)


def of_gelu(z):
    below_z = ((1 << W) + erf((z << W) // isqrt(2 << 2 * W))) // 2
    return z * below_z >> W, below_z + (z * (falling(z * z >> W + 1) * (1 << W) // isqrt(2 * pi() << W)) >> W)


def of_sigmoid(z):
    u, one = falling(abs(z)), 1 << W
    return (one if z > 0 else u) * one // (one + u), u * one // (one + u) * one // (one + u)


def of_tanh(z):
    s, slope = of_sigmoid(2 * z)
    return 2 * s - (1 << W), 4 * slope


def of_silu(z):
    s, slope = of_sigmoid(z)
    return z * s >> W, s + (z * slope >> W)


def of_softplus(z):
    return max(z, 0) + log_of_one_and(falling(abs(z))), of_sigmoid(z)[0]


def of_sin(z):
    return sine(z, 1), sine(z, 0)


# phi and phi', and bounds of |phi'| and |phi''| for all arguments; docs/proofs/smooth_networks.md has this table.
PHI = {
    "identity": (lambda z: (z, 1 << W), "1", "0"),
    "relu": (lambda z: (max(z, 0), (z > 0) << W), "1", "0"),
    "erf": (of_erf, "1.12838", "0.96789"),
    "gelu": (of_gelu, "1.12891", "0.79789"),
    "tanh": (of_tanh, "1", "0.76981"),
    "softplus": (of_softplus, "1", "0.25"),
    "sin": (of_sin, "1", "1"),
    "sigmoid": (of_sigmoid, "0.25", "0.09623"),
    "silu": (of_silu, "1.09985", "0.5"),
}


class Layer(NamedTuple):
    name: str
    weight: Fixed  # scale W
    bias: Fixed  # bias_scale b, one row
    gain: Fraction  # scale
    shift: Fraction  # bias_scale; 0 without a bias
    norm: Fraction  # upper bound of the norm of scale W
    phi: str
    kink: Fraction | None  # where phi is not smooth
    trained: bool
    # number of residual blocks that begin with this layer, and number of blocks that end with it
    opens: int
    closes: int

    @property
    def slope(self):
        return Fraction(PHI[self.phi][1])

    @property
    def bend(self):
        return Fraction(PHI[self.phi][2])

    @property
    def jumps(self):
        return self.phi == "softplus" and self.kink is not None

    def applied(self, z):
        """phi(z) and phi'(z), with the derivative on the side of the kink where z is, and for each row the least
        distance of a z from the kink.
        """
        need(z.biggest() < 1 << P + 40, f"layer {self.name} gets numbers beyond 2^40")
        function, pairs = PHI[self.phi][0], []
        bar = None if self.kink is None else self.kink * (1 << P)
        for row in z.rows:
            both = [(v << W - P, 1 << W) if self.jumps and v > bar else function(v << W - P) for v in row]
            pairs.append([[v >> W - P for v in values] for values in zip(*both, strict=True)])
        clear = [inf if bar is None else max(0, min(abs(v - bar) for v in row) - z.error) for row in z.rows]
        values, slopes = map(list, zip(*pairs, strict=True))
        errors = [2 + -(-z.error * of.numerator // of.denominator) for of in (self.slope, self.bend)]
        return (
            Fixed(values, errors[0]),
            Fixed(slopes, errors[1]),
            [v if v == inf else Fraction(v) / (1 << P) for v in clear],
        )


def shortened(rows):
    """The rows in units of 2^cut, and cut; an entry is less than one unit too small."""
    cut = max(0, max(abs(v) for row in rows for v in row).bit_length() - SHORT)
    return [[v >> cut for v in row] for row in rows], cut


def top(rows, squarings=7):
    """An upper bound of the norm of a symmetric matrix of integers, by (2)."""
    short, cut = shortened(rows)
    if squarings == 0:
        size = isqrt(sum(dot(row, row) for row in short)) + 1
    else:
        size = isqrt(top(list(product(short, short)), squarings - 1)) + 1
    return size + len(rows) << cut


def spectral(a):
    """An upper bound of |A|."""
    small = a if len(a.rows) <= len(a.rows[0]) else a.turned()
    short, cut = shortened(small.rows)
    size = root(units(top(list(product(short, transposed(short)))) << 2 * cut, 2))
    return size + units((a.error + (1 << cut)) * max(len(a.rows), len(a.rows[0])))


class Pass(NamedTuple):
    outputs: Fixed  # (n, C)
    gram: list  # for each layer the products of (scale h, bias_scale) of samples, (n, n)
    before: list  # derivatives of the outputs by z_k, (n C, m)
    after: list  # derivatives of the outputs by h_k, for each layer but the last
    clear: list  # for each layer and sample the least distance of a z from its kink


def passes(net, x):
    h, aside, gram, slopes, clear = x, [], [], [], []
    for layer in net:
        aside += [h] * layer.opens
        gain, shift = ((of.numerator << P) // of.denominator for of in (layer.gain, layer.shift))
        rows = [[v * gain >> P for v in row] + [shift] for row in h.rows]
        error = (h.error * gain + h.biggest() + h.error >> P) + 2
        long = Fixed(rows, error)
        gram.append(matmul(long, long.turned()))
        z = plus(matmul(h, layer.weight.turned()), Fixed(layer.bias.rows * len(h.rows), layer.bias.error))
        h, slope, far = layer.applied(z)
        slopes.append(slope)
        clear.append(far)
        for _ in range(layer.closes):
            h = plus(h, aside.pop())
    n, outputs = len(h.rows), len(h.rows[0])
    b = Fixed([[(o == p) << P for p in range(outputs)] for _ in range(n) for o in range(outputs)], 0)
    before: list[Fixed] = []
    after: list[Fixed] = []
    for k in reversed(range(len(net))):
        aside += [b] * net[k].closes
        after.insert(0, b)
        b = entrywise(b, Fixed([row for row in slopes[k].rows for _ in range(outputs)], slopes[k].error))
        before.insert(0, b)
        if k:
            b = matmul(b, net[k].weight)
            for _ in range(net[k].opens):
                b = plus(b, aside.pop())
    return Pass(h, gram, before, after[:-1], clear)


def kernel(net, done):
    """The kernel J J', (n C, n C)."""
    n, total = len(done.outputs.rows), None
    outputs = len(done.outputs.rows[0])
    for layer, gram, before in zip(net, done.gram, done.before, strict=True):
        if layer.trained:
            wide = [[v for v in row for _ in range(outputs)] for row in gram.rows for _ in range(outputs)]
            part = entrywise(matmul(before, before.turned()), Fixed(wide, gram.error))
            total = part if total is None else plus(total, part)
    need(total is not None and n, "nothing is trained, or there are no samples")
    return total


def least_eigenvalue(k):
    """A fraction below the least eigenvalue, by (3); Y is the inverse of the Cholesky factor, computed in floats."""
    size = len(k.rows)
    lower = [[0.0] * size for _ in range(size)]
    for i, row in enumerate(k.rows):
        for j in range(i + 1):
            rest = row[j] / (1 << P) - sum(u * v for u, v in zip(lower[i][:j], lower[j][:j], strict=True))
            need(i != j or rest > 0, "the smallest eigenvalue of J J' is not known to be positive")
            lower[i][j] = rest**0.5 if i == j else rest / lower[j][j]
    inverse = [[0.0] * size for _ in range(size)]
    for j in range(size):
        for i in range(j, size):
            rest = (i == j) - sum(lower[i][q] * inverse[q][j] for q in range(j, i))
            inverse[i][j] = rest / lower[i][i]
    need(all(isfinite(v) for row in inverse for v in row), "the kernel is too ill-conditioned")
    y = [[int(Fraction(v) * (1 << 60)) for v in row] for row in inverse]
    sums = [sum(map(abs, row)) for row in y]
    square = product(y, transposed(product(y, k.rows)))
    gap = min(2 * row[i] - sum(map(abs, row)) - k.error * sums[i] * sum(sums) for i, row in enumerate(square))
    need(gap > 0, "(3) fails: a row of Y K Y' does not outweigh its other entries")
    return Fraction(gap, top(list(product(transposed(y), y)))) / (1 << P)


class Sizes(NamedTuple):
    """Bounds at theta for each layer, for one output of a sample or for all outputs of all samples."""

    each: list  # |(scale h, bias_scale)| of a sample
    together: list  # the norm of the matrix of these vectors, of the one sample or of all
    before: list  # the norm of the matrix of derivatives of a sample's outputs by z_k
    after: list  # the largest norm of a column of the derivatives of a sample's outputs by h_k
    clear: list  # the least distance of a z from its kink


def of_each(net, done):
    outputs = len(done.outputs.rows[0])
    groups = []
    for at in range(len(done.before[0].rows)):
        i = at // outputs
        lengths = [root(units(gram.rows[i][i] + gram.error)) for gram in done.gram]
        before = [norm([units(abs(v) + b.error) for v in b.rows[at]]) for b in done.before]
        after = [units(max(map(abs, b.rows[at])) + b.error) for b in done.after]
        groups.append(Sizes(lengths, lengths, before, after, [far[i] for far in done.clear]))
    return groups


def of_all(done, groups):
    outputs, before, after = len(done.outputs.rows[0]), [], []
    blocks = range(0, len(groups), outputs)
    for b in done.before:
        inner = [product(b.rows[at : at + outputs], transposed(b.rows[at : at + outputs])) for at in blocks]
        size = max(sum(map(abs, row)) for rows in inner for row in rows)
        off = outputs * len(b.rows[0]) * (2 * b.biggest() + b.error) * b.error
        before.append(root(units(size + off, 2)))
    for b in done.after:
        columns = [column for at in blocks for column in transposed(b.rows[at : at + outputs])]
        after.append(max(norm([units(abs(v) + b.error) for v in column]) for column in columns))
    longest = [max(of) for of in zip(*(group.each for group in groups), strict=True)]
    together = [root(units(top(gram.rows) + len(gram.rows) * gram.error)) for gram in done.gram]
    return Sizes(longest, together, before, after, [min(of) for of in zip(*(g.clear for g in groups), strict=True)])


def speeds(net, start, radius):
    """Bounds of three things, by the recursions of (4): the derivatives of z_k with respect to each layer's parameters,
    the derivatives of the layers' inputs with respect to these parameters, and |(scale h, bias_scale)|.
    """
    h, aside, lengths, before = [Fraction(0)] * len(net), [], [], []
    inputs = [h]
    for k, layer in enumerate(net):
        aside += [h] * layer.opens
        lengths.append(up(start[k] + layer.gain * norm(h) * radius))
        row = [up((layer.norm + layer.gain * radius * layer.trained) * v) for v in h]
        row[k] = lengths[-1] * layer.trained
        before.append(row)
        h = [up(layer.slope * v) for v in row]
        for _ in range(layer.closes):
            h = list(map(add, h, aside.pop()))
        inputs.append(h)
    return before, inputs, lengths


def in_ball(net, at, radius):
    """Bounds, in the ball, of the norms in `Sizes.before` and `Sizes.after`."""
    moved = [radius * norm(row) for row in speeds(net, at.each, radius)[0]]
    turned, carried, aside = net[-1].bend * moved[-1], Fraction(0), []
    before, after = [at.before[-1] + turned], list[Fraction]()
    for k in range(len(net) - 1, 0, -1):
        layer, lower = net[k], net[k - 1]
        aside += [carried] * layer.closes
        carried = up(layer.gain * radius * before[0] * layer.trained + layer.norm * turned)
        for _ in range(layer.opens):
            carried += aside.pop()
        after.insert(0, at.after[k - 1] + carried)
        turned = up(lower.bend * moved[k - 1] * at.after[k - 1] + lower.slope * carried)
        before.insert(0, at.before[k - 1] + turned)
    return before, after


def curvature(net, at, radius):
    """L_i of one output, or L_J of all outputs, by (4)."""
    tall, wide = speeds(net, at.each, radius), speeds(net, at.together, radius)
    before, after = in_ball(net, at, radius)
    size = range(len(net))
    form = [[up(net[-1].bend * tall[0][-1][i] * wide[0][-1][j]) for j in size] for i in size]
    for k in range(1, len(net)):
        layer, lower = net[k], net[k - 1]
        for j in size:
            form[k][j] += up(2 * layer.gain * before[k] * wide[1][k][j]) * layer.trained
        for i in size:
            for j in size:
                form[i][j] += up(after[k - 1] * lower.bend * tall[0][k - 1][i] * wide[0][k - 1][j])
    whole = [[int((form[i][j] + form[j][i]) * (1 << FINE)) + 1 for j in size] for i in size]
    return up(largest(whole) / (2 << FINE))


def crossing(net, at, radius):
    """The layers in which a neuron may reach its kink in the ball."""
    rows = speeds(net, at.each, radius)[0]
    return [k for k in range(len(net)) if net[k].kink is not None and not at.clear[k] > radius * norm(rows[k])]


def ends(loss, size, label):
    """The two outputs, in units of 2^-P, between which the loss for this label is 0 or, for huber, half a square."""
    if loss == "hinge":
        return (1 << P, inf) if label > 0 else (-inf, -1 << P)
    size = int(size * (1 << P))
    return label - size, label + size


def some(matrix, rows):
    return Fixed([matrix.rows[i] for i in rows], matrix.error)


class Start(NamedTuple):
    net: list
    intervals: bool  # whether the losses are 0 on intervals of outputs
    groups: list
    all: Sizes
    residual: Fraction
    least: Fraction  # lower bound of the singular values of J
    largest: Fraction  # upper bound of the eigenvalues of J J'
    entries: Fraction  # upper bound of the eigenvalues of the matrix of absolute values of J J'
    gradients: Fraction  # upper bound of |J| (Frobenius)


def started(net, x, y, content):
    loss, size, kept = (content[key] for key in ("loss", "size", "kept"))
    done, labels, pulls = passes(net, some(x, kept)), some(y, kept), []
    k, groups = kernel(net, done), of_each(net, done)
    for outputs, of in zip(done.outputs.rows, labels.rows, strict=True):
        for f, label in zip(outputs, of, strict=True):
            low, high = ends(loss, 0 if loss == "huber" else Fraction(size), label)
            pulls.append(units(max(0, low - f, f - high) + done.outputs.error + labels.error))
    return Start(
        net,
        loss in ("hinge", "band"),
        groups,
        of_all(done, groups),
        norm(pulls),
        root_below(least_eigenvalue(k)),
        units(top(k.rows) + len(k.rows) * k.error),
        up(largest([[abs(v) + k.error for v in row] for row in k.rows]) / (1 << P)),
        root(units(sum(row[i] + k.error for i, row in enumerate(k.rows)))),
    )


def window(start, rho, eta, v):
    """The distance to a fit, the reach and the factor of a window, as fractions; raises Refused if the inequalities
    fail.
    """
    net, one = start.net, Fraction(1)
    for group in (*start.groups, start.all):
        for k in crossing(net, group, rho):
            raise Refused(f"a neuron of layer {net[k].name} may reach its kink")
    bend = norm([curvature(net, group, rho) for group in start.groups])
    turn = min(bend, curvature(net, start.all, rho))
    s = start.least - turn * rho
    need(s > 0, "gradients may turn too far in the ball")
    eps = 2 - eta * (root(start.largest) + turn * rho) ** 2
    need(eps > 0, "the step is too long")
    kappa = 1 + root(v) * eta * (start.entries + 2 * rho * start.gradients * bend + (rho * bend) ** 2)
    d = up(start.residual / s)
    bent = up(v * bend**2 / (2 * eps))
    under = one - 4 * eta * bent * d**2
    need(under > 0, "models may be too far from a fit for such second derivatives")
    away = up(2 / (1 + root_below(under)))
    gain, loss = -up(-(eps / 2 * (s / kappa) ** 2)), up(bent * away**2 * d**2)
    need(gain > loss, "a window may raise the distance to the fits")
    farthest = up(d * root(away))
    if start.intervals:
        turning, added = one - turn * d / s, up(2 * root(2 * v * gain / eps) * bend * d / (gain - loss))
        under = (1 - added) ** 2 - 4 * eta * bent * d**2
        need(turning > 0 and added < 1 and under > 0, "windows may lead models too far from a fit")
        spread = up(d * root(2 / (1 - added + root_below(under))))
        need(d + max(d + spread, spread / root_below(turning) + farthest) < rho, "models may leave the ball")
        return d, d + spread, 1 - eta * (gain - loss)
    turning = 1 - 2 * turn * farthest / s
    need(turning > 0, "gradients may turn too much on the way to a fit")
    drift = up(root(v * away * 2 / eps) * bend * d**2 * root(gain) / (gain - loss) / turning)
    need(d + drift + 2 * farthest < rho, "models may leave the ball")
    return d, d + drift + farthest, 1 - eta * (gain - loss)


def later(net, x, reach):
    """The outputs, and for each output a bound of its distance from the exact output of any later model."""
    done = passes(net, x)
    n, outputs = len(x.rows), len(done.outputs.rows[0])
    squares = [Fraction(0)] * (n * outputs)
    for layer, gram, before in zip(net, done.gram, done.before, strict=True):
        for at, row in enumerate(before.rows):
            i = at // outputs
            size = sum(units(abs(v) + before.error) ** 2 for v in row) * units(gram.rows[i][i] + gram.error)
            squares[at] += size * layer.trained
    moved = []
    for at, group in enumerate(of_each(net, done)):
        hit = crossing(net, group, reach)
        speed = root(squares[at]) + curvature(net, group, reach) * reach / 2
        if hit:
            speed = norm(speeds(net, group.each, reach)[1][-1])
        moved.append(inf if any(net[k].jumps for k in hit) else up(speed * reach) + units(done.outputs.error))
    return done.outputs.rows, moved


def require_stay(net, x, y, content, reach):
    """Refuse if the loss of a sample that is not kept may become positive, or if a huber loss may reach its linear
    part.
    """
    loss, size, kept = (content[key] for key in ("loss", "size", "kept"))
    which = range(len(x.rows)) if loss == "huber" else sorted(set(range(len(x.rows))) - set(kept))
    if not which:
        return
    rows, moved = later(net, some(x, which), reach)
    for i, row, far in zip(which, rows, zip(*[iter(moved)] * len(rows[0]), strict=True), strict=True):
        for f, label, most in zip(row, y.rows[i], far, strict=True):
            low, high = ends(loss, Fraction(size), label)
            where = "huber is half a square" if loss == "huber" else "its loss is 0"
            need(units(min(f - low, high - f) - y.error) >= most, f"sample {i} may leave where {where}")


def final_classes(net, x, reach):
    rows, moved = later(net, x, reach)
    outputs, final = len(rows[0]), []
    for i, row in enumerate(rows):
        values, off = [units(v) for v in row], moved[i * outputs : (i + 1) * outputs]
        if outputs == 1:
            values, off = [values[0], -values[0]], off * 2
        best = max(range(len(values)), key=values.__getitem__)
        others = [0] if outputs == 1 else [values[k] + off[k] for k in range(outputs) if k != best]
        name = (1, -1)[best] if outputs == 1 else best
        final.append(name if all(values[best] - off[best] > other for other in others) else "open")
    return final


def above(value):
    return nextafter(float(value), inf)


def number(value):
    """The fraction that a float or an integer is."""
    need(type(value) in (int, float) and isfinite(value), f"{value!r:.50} is no finite number")
    return Fraction(value)


def require_fields(where, content, kinds):
    """Refuse content that is no object, lacks a field, or has a field of another type."""
    need(type(content) is dict, f"{where} is no object")
    for name, kind in kinds.items():
        wanted = " or ".join(allowed.__name__ for allowed in kind)
        need(name in content and type(content[name]) in kind, f"{where}: {name} is no {wanted}")


def loaded(folder):
    """The content of the JSON file, the network, the inputs, the labels and the test inputs."""
    content = json.loads(raw(folder / "certificate.json").decode())
    need(type(content) is dict and content.get("schema") == SCHEMA, f"the schema is not {SCHEMA}")
    require_fields("certificate.json", content, FIELDS)
    checksums, net = content["sha256"], []
    need(0 < len(content["layers"]) <= 100, "there must be 1 to 100 layers")
    for k, of in enumerate(content["layers"]):
        require_fields(f"layer {k} of certificate.json", of, LAYER_FIELDS)
        columns, biased, trained, opens, closes = (of[key] for key in ("columns", "bias", "trained", "opens", "closes"))
        need(of["phi"] in PHI, f"the phi of layer {k} is unknown")
        need(all(0 <= v < 100 for v in (opens, closes)), f"layer {k} opens {opens} or closes {closes} blocks")
        gain, shift = (number(of[key]) for key in ("scale", "bias_scale"))
        need(gain > 0 and shift >= 0, f"layer {k} has a negative scale")
        rows, bits = read(folder, checksums, f"weight{k}", columns)
        need(rows, f"weight{k} is empty")
        offset, offset_bits = read(folder, checksums, f"bias{k}", len(rows)) if biased else ([[0] * len(rows)], 0)
        need(len(offset) == 1, f"bias{k} has a wrong length")
        kink = None if of["kink"] is None else number(of["kink"])
        need(of["phi"] != "relu" or kink == 0, f"layer {k} has its kink at another place")
        need(kink is None or of["phi"] in ("relu", "softplus"), f"layer {k} has a kink, but its phi has none")
        weight, bias = fixed(rows, bits, gain), fixed(offset, offset_bits, shift)
        size = spectral(weight) if k else Fraction(0)
        named = f"{of['name']!a:.50}", weight, bias, gain, shift if biased else Fraction(0), size
        net.append(Layer(*named, of["phi"], kink, trained, opens, closes))
    sizes, aside = [len(net[0].weight.rows[0])], []
    for layer in net:
        need(len(layer.weight.rows[0]) == sizes[-1], f"layer {layer.name} takes another number of neurons")
        aside += [sizes[-1]] * layer.opens
        sizes.append(len(layer.weight.rows))
        for _ in range(layer.closes):
            need(aside and aside.pop() == sizes[-1], f"no block may end with layer {layer.name}")
    need(not aside, "a block has no end")
    arrays = [fixed(*read(folder, checksums, name, sizes[end])) for name, end in (("x", 0), ("y", -1), ("x_test", 0))]
    need(len(arrays[0].rows) == len(arrays[1].rows) > 0, "x and y have different lengths")
    require_loss(content, arrays[1])
    return content, net, *arrays


def require_loss(content, y):
    """Refuse an unknown loss, a wrong size, wrong labels, and a wrong list of kept samples."""
    loss, size, kept, n = content["loss"], number(content["size"]), content["kept"], len(y.rows)
    need(loss in ("squares", "hinge", "huber", "band"), "the loss is not squares, hinge, huber or band")
    need(size > 0 if loss in ("huber", "band") else size == 0, f"{loss} has a wrong size")
    signs = y.error == 0 and all(abs(v) == 1 << P for row in y.rows for v in row)
    need(loss != "hinge" or signs, "a label of the hinge is not -1 or 1")
    fine = all(type(i) is int and 0 <= i < n for i in kept) and kept == sorted(set(kept))
    need(fine and kept, "the kept samples are not numbers of samples, each once, in their order")
    need(loss in ("hinge", "band") or len(kept) == n, f"{loss} keeps all samples")


def check(folder):
    """The conclusions that are proved. Raises Refused if nothing is proved."""
    content, net, x, y, tests = loaded(folder)
    need(min(number(content[key]) for key in BALL) > 0, "the step, the ball or the visits are not positive")
    need(content["visits"] >= 1, "visits are below 1")
    return proved(started(net, x, y, content), x, y, tests, content)


def proved(start, x, y, tests, content):
    distance, reach, factor = window(start, *(Fraction(content[key]) for key in BALL))
    require_stay(start.net, x, y, content, reach)
    return {
        **{key: content[key] for key in ("loss", "size", "kept", "step", "visits")},
        "samples": len(x.rows),
        "distance": above(distance),
        "reach": above(reach),
        "window_factor": min(1.0, above(factor)),
        "eigenvalue": below(start.least**2),
        "final": final_classes(start.net, tests, reach) if tests.rows else [],
    }


def main(arguments):
    try:
        need(len(arguments) == 1, "one folder is needed: python ntkfl_check_network.py FOLDER")
        folder = Path(arguments[0])
        shown, claim = check(folder), json.loads(raw(folder / "certificate.json"))["claim"]
        need(claim == shown, f"the claim is not what is shown, {shown}")
    except Exception as error:  # whatever the folder contains, the script answers without a traceback
        print("refused:", error if isinstance(error, Refused) else f"no folder of {SCHEMA}: {error!r:.200}")
        return 1
    loss = " ".join([shown["loss"], *([f"{shown['size']}"] if shown["size"] else [])])
    print(f"on {shown['samples']} samples, resting on {len(shown['kept'])} of them; the loss is {loss}")
    print(f"a fit is within {shown['distance']}, and no later model is farther than {shown['reach']} from this one")
    print(f"steps up to {shown['step']}, visits up to {shown['visits']}-fold; a window at that step without means")
    print(f"multiplies the squared distance to the fits by at most {shown['window_factor']}")
    print(f"final classes of the test inputs: {shown['final']}")
    print("certified")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
