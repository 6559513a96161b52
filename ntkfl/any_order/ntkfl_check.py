"""Checks an any-order certificate in exact integers, with Python's standard library alone.

It is run as `python ntkfl_check.py FOLDER`, where `ntkfl certify --any-order --export FOLDER` has written the folder.
Only the network and the data in the folder are taken as given; everything else is checked. The last line of the output
is `certified` (exit status 0), or `refused` and the first thing that is wrong (exit status 1).

What is proved. The network has the outputs f_o(x) = sum_r b_or relu(w_r.x) / sqrt(q). Only the hidden weights W = (w_r)
are trained, on half the sum of squares over a batch of distinct samples. Some pairs (neuron r, sample i) are "held",
which means that w*_r.x_i is 0. The pattern s_ri is 1 if w_r.x_i >= 0 and the pair is not held, otherwise 0. The matrix
C has a row (b_or s_ri x_i)_r for each sample i and output o, and a row x_i (x) e_r for each held pair. So row u of C
has the form (c_ur x_i)_r, where i is its sample. W* is the point nearest to W with C W* = t. The vector t has the entry
y_io sqrt(q) for the row of a sample and output, and 0 for the row of a held pair.

Theorem (docs/proofs/any_order.md in ntkfl's repository). Let |W - W*| <= D. For every pair that is not held, let
w*_r.x_i have the sign that s_ri says, and let |w*_r.x_i| > D |projection of x_i (x) e_r on the rows of C|. Train on
with steps below the limits that this script prints, in any order of batches and clients, with means of clients' models.
Then W stays within D of W*. J J' has no eigenvalue below the printed number. Here J has the gradients at all samples,
except samples that, with their labels, are positive multiples of earlier samples. Residuals tend to 0 under three
conditions: every sample is in a batch again and again; steps are above one fixed positive number and below another that
is less than the limits; and each client that trains has at least some fixed weight in its mean.

How it is proved. The folder has a matrix Y and a vector a; the proof is valid whatever they are. Let K = C C' and k = C
(x_i (x) e_r). (1) The eigenvalues of Y K Y' are at least g > 0, since each diagonal entry exceeds the sum of the
absolute values of the rest of its row by at least g. So K^-1 <= Y'Y / g. (2) With e = t - C W - K a, the distance of W*
from P = W + C'a is at most |Y e| / sqrt(g). D is the sum of sqrt(a'K a) and twice this distance. (3) With this D, P
takes the place of W* in the theorem's bound. The square of a projection is at most |Y k|^2 / g, and at most |x_i|^2.
(4) |J|^2 <= max_i (M v)_i / v_i for any v > 0 and any M that is at least |J J'| entry by entry. (5) J J' >= S, where
S^-1 is the block of K^-1 that belongs to the samples. So J J' >= g / |Z|, where Z is the same block of Y'Y and |Z| is
bounded as in (4).

Units. x, b, W and Y are scaled by powers of two, and y and a by the powers that follow from these, so that all numbers
are integers.
"""

import hashlib
import json
import struct
import sys
from fractions import Fraction
from functools import partial
from math import gcd, inf, isfinite, isqrt, nextafter
from operator import add, mul
from pathlib import Path

SCHEMA = "ntkfl-any-order/3"
FIELDS = {"features": int, "outputs": int, "root_of": int, "owner": list, "held": list, "sha256": dict}


class Refused(Exception):
    """Raised with the reason why the folder proves nothing."""


def need(condition, why):
    if not condition:
        raise Refused(why)


def raw(file):
    """The bytes of a file; devices and pipes are refused, since they may have no end."""
    need(file.is_file() and file.stat().st_size < 10**8, f"{file.name} is no file below 100 MB")
    return file.read_bytes()


def read(folder, checksums, name, columns):
    """The rows of an array as integers, and an exponent E; the integers are the stored numbers times 2^E."""
    stored = raw(folder / f"{name}.f64")
    need(hashlib.sha256(stored).hexdigest() == checksums[name], f"{name}.f64 was changed")
    need(columns > 0 and len(stored) % (8 * columns) == 0, f"{name}.f64 does not have the size of rows of {columns}")
    flat = struct.unpack(f"<{len(stored) // 8}d", stored)
    need(all(map(isfinite, flat)), f"{name}.f64 has a number that is not finite")
    ratios = [value.as_integer_ratio() for value in flat]
    e = max((den.bit_length() - 1 for _, den in ratios), default=0)
    return [[num * (1 << e) // den for num, den in ratios[at : at + columns]] for at in range(0, len(flat), columns)], e


def dot(u, v):
    return sum(map(mul, u, v))


def transposed(rows):
    return list(map(list, zip(*rows, strict=True)))


def product(a, b):
    """The rows of the matrix a b, one after the other.

    Each row of b is packed into one long integer, since Python multiplies long integers fast.
    """
    if not a:
        return
    bits = [max((value.bit_length() for row in part for value in row), default=0) for part in (a, b)]
    size, columns = (sum(bits) + len(b).bit_length() + 2) // 8 + 1, len(b[0])
    half = 1 << (8 * size - 1)
    halves = int.from_bytes(half.to_bytes(size, "little") * columns, "little")
    raws = (b"".join((v + half).to_bytes(size, "little") for v in row) for row in b)
    packed = [int.from_bytes(raw, "little") - halves for raw in raws]
    for row in a:
        raw = (dot(row, packed) + halves).to_bytes(size * columns, "little")
        yield [int.from_bytes(raw[at : at + size], "little") - half for at in range(0, size * columns, size)]


def below(value):
    """A float that is 0 or more and below a positive fraction."""
    return nextafter(float(min(value, Fraction(2) ** 1000)), 0.0)


def largest(matrix):
    """An upper bound of the eigenvalues of a matrix of integers >= 0, by (4) of the module's docstring."""
    v = [1] * len(matrix)
    for _ in range(30):
        v = [dot(row, v) for row in matrix]
        v = [(value << 40) // max(v) + 1 for value in v]
    return max(Fraction(dot(row, v), weight) for row, weight in zip(matrix, v, strict=True))


def check(folder):
    """The results that are proved: a bound of D, step limits and final classes. Raises Refused if nothing is proved."""
    content = json.loads(raw(folder / "certificate.json").decode())
    need(type(content) is dict and content.get("schema") == SCHEMA, f"the schema is not {SCHEMA}")
    need(not (no := FIELDS.items() - {k: type(v) for k, v in content.items()}.items()), f"the JSON needs {dict(no)}")
    d, outputs, root_of, owner = (content[name] for name in ("features", "outputs", "root_of", "owner"))
    array_of = partial(read, folder, content["sha256"])
    (w, w_bits), (x, x_bits), (y, y_bits) = array_of("hidden", d), array_of("x", d), array_of("y", outputs)
    (b, b_bits), neurons, clients = array_of("readout", len(w)), range(len(w)), range(len(set(owner)))
    tests = [[v // (gcd(*row) or 1) for v in row] for row in array_of("x_test", d)[0]]  # factors > 0 change no class
    need(len(y) == len(x) == len(owner) > 0 and len(b) == outputs, "x, y, owner or readout has a wrong length")
    need(set(owner) == set(clients) and root_of in (1, len(w)), "owner has a gap, or root_of is not 1 or the width")

    first, same = dict[tuple, int](), []  # a positive multiple of a sample, labels included, adds no requirement
    for i, row in enumerate(x):
        unit = next(filter(None, map(abs, row)), 0)
        need(unit, f"sample {i} is 0")
        same.append(first.setdefault(tuple(Fraction(value, unit) for value in row + y[i]), i))
    samples = [(i, o) for i in first.values() for o in range(outputs)]
    held = dict.fromkeys((r, i) for r, i in content["held"])  # in the order of the file
    fits = all(r in neurons and 0 <= i < len(x) and same[i] == i for r, i in held)
    need(fits and len(held) == len(content["held"]), "a held pair is wrong")
    at = [i for i, _ in samples] + [i for _, i in held]  # the sample of each row of C
    (a, a_bits), (y_factor, _) = array_of("solution", len(at)), array_of("inverse_root", len(at))
    need(len(a) == 1 and len(y_factor) == len(at), "solution or inverse_root has a wrong length")
    bits = x_bits + b_bits
    w_units = max(w_bits, y_bits - bits, a_bits + bits) + 100  # 100 bits to spare for roots
    shifts = (w, w_units - w_bits), (y, w_units + bits - y_bits), (a, w_units - bits - a_bits)
    w, y, (a,) = ([[value << shift for value in row] for row in rows] for rows, shift in shifts)

    z, gram = list(product(x, transposed(w))), list(product(x, transposed(x)))
    on = [[int(value >= 0 and (r, i) not in held) for r, value in enumerate(row)] for i, row in enumerate(z)]
    c = [[s * v for s, v in zip(on[i], b[o], strict=True)] for i, o in samples]
    c += [[(q == r) << b_bits for q in neurons] for r, _ in held]
    inner = list(product(c, transposed(c)))
    big = [[gram[i][j] * value for j, value in zip(at, row, strict=True)] for i, row in zip(at, inner, strict=True)]

    square = product(y_factor, transposed(product(y_factor, big)))  # (1): Y (Y K)'
    least = [2 * row[i] - sum(map(abs, row)) for i, row in enumerate(square)]
    need((g := min(least)) > 0, f"(1) fails: row {least.index(g)} of Y K Y' does not outweigh its other entries")
    inverse = product(transposed(y_factor)[: len(samples)], [row[: len(samples)] for row in y_factor])  # (5)
    rate = {"eigenvalue": below(Fraction(g, root_of << 2 * bits) / largest([list(map(abs, row)) for row in inverse]))}

    # the error of each entry is at most 1 unit
    goal = [(1 if y[i][o] > 0 else -1) * isqrt(y[i][o] ** 2 * root_of) for i, o in samples]
    moved = [dot(row, a) for row in big]
    rest = [t - dot(row, z[i]) - v for t, row, i, v in zip(goal + [0] * len(held), c, at, moved, strict=True)]
    image = [abs(dot(row, rest)) + sum(map(abs, row)) for row in y_factor]
    reach = isqrt(dot(a, moved)) + 1 + 2 * (isqrt(dot(image, image) // g) + 1)  # (2)

    for i in sorted(set(at)):  # (3): if |w_r.x_i| > 2 D |x_i|, the pair passes with the sign of w_r.x_i
        near = [r for r in neurons if z[i][r] ** 2 <= 4 * reach**2 * gram[i][i] and (r, i) not in held]
        columns = [[gram[i][j] * row[r] for j, row in zip(at, c, strict=True)] for r in near]
        for r, k, image in zip(near, columns, product(columns, transposed(y_factor)), strict=True):
            # if `far`, `value` has the sign of w_r.x_i, since |a'k| is at most D |projection|
            value = z[i][r] + dot(a, k)
            far = reach**2 * min(dot(image, image), g * gram[i][i]) < value**2 * g
            need(far, f"(3) fails: neuron {r} may cross the kink of sample {i}")

    # (4): a gradient is its row of C plus its sample's held rows, each times at most |b_or|: J = L C.
    own = [[(u == v) << b_bits for v in range(len(samples))] for u in range(len(samples))]
    loose = [row + [(j == i) * abs(b[o][r]) for r, j in held] for row, (i, o) in zip(own, samples, strict=True)]
    most = list(product(loose, transposed(product(loose, [list(map(abs, row)) for row in inner]))))
    limits, final = [], []
    for batch in [[i for i, of in enumerate(owner) if of == client] for client in clients] + [range(len(x))]:
        rows = [(i, samples.index((same[i], o))) for i in batch for o in range(outputs)]
        top = largest([[abs(gram[i][j]) * most[u][v] for j, v in rows] for i, u in rows])
        limits.append(below((2 * root_of << 2 * bits + 2 * b_bits) / top))

    # Every later output on a test input x differs from the output of P by at most D |x| times the norm of the readout
    # of the neurons that can be active on x.
    moves = product([[u * v for u, v in zip(a, row, strict=True)] for row in transposed(c)], [x[i] for i in at])
    point = transposed([list(map(add, u, v)) for u, v in zip(w, moves, strict=True)])
    classes = dict(enumerate(b)) if outputs > 1 else {1: b[0], -1: [0] * len(w)}
    for row, values in zip(tests, product(tests, point), strict=True):
        norm = reach**2 * dot(row, row)
        active = [r for r, value in enumerate(values) if value > 0 or value**2 <= norm]
        mid = {k: sum(v[r] * max(values[r], 0) for r in active) for k, v in classes.items()}
        off = {k: isqrt(norm * sum(v[r] ** 2 for r in active)) + 1 for k, v in classes.items()}
        best = max(classes, key=lambda k: mid[k])
        final.append(best if all(mid[best] - off[best] > mid[k] + off[k] for k in classes if k != best) else "open")
    distance = nextafter(float(Fraction(reach, 1 << w_units)), inf)
    return {"distance": distance, **rate, "step_limits": limits[:-1], "pooled_step_limit": limits[-1], "final": final}


def main(arguments):
    try:
        need(len(arguments) == 1, "one folder is needed: python ntkfl_check.py FOLDER")
        proved, claim = check(Path(arguments[0])), json.loads(raw(Path(arguments[0]) / "certificate.json"))["claim"]
        need(claim == proved, f"the claim is not what is shown, {proved}")
    except Exception as error:  # whatever the folder contains, the script answers without a traceback
        print("refused:", error if isinstance(error, Refused) else f"no folder of {SCHEMA}: {error!r:.200}")
        return 1
    print(f"D, the distance to W*, is at most {proved['distance']}: no later model is farther than 2 D from this one")
    print("steps below", *proved["step_limits"], f"by client, {proved['pooled_step_limit']} on batches of all")
    print(f"least eigenvalue {proved['eigenvalue']}; final classes of the test inputs: {proved['final']}\ncertified")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
