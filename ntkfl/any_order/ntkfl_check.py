"""Checks an any-order certificate in exact integers, with Python's standard library alone.

    python ntkfl_check.py FOLDER

FOLDER was written by `ntkfl certify --any-order --export FOLDER`. The last line is `certified` (exit status 0), or says
`refused` and the first thing that is wrong (exit status 1). Only the network and the data in FOLDER are believed.

What is proved. f_o(x) = sum_r b_or relu(w_r.x) / sqrt(q). Only the hidden weights W = (w_r) are trained, on half the
sum of squares over a batch. A set of pairs (neuron r, sample i) is held. s_ri is 1 where w_r.x_i >= 0 and the pair is
not held, else 0. C has a row (b_or s_ri x_i)_r for each sample and output, and a row x_i (x) e_r for each held pair.
K = C C', k_ri = C (x_i (x) e_r). W* is the point nearest W with C W* = t: t is y_io sqrt(q) in a sample's row and 0 in
a held pair's. Theorem (its proof: docs/proofs/any_order.md in ntkfl's repository): let |W - W*| <= D, and let every
other pair have w*_r.x_i on the side that s_ri says, with |w*_r.x_i| > D |projection of x_i (x) e_r on the rows of C|.
Then every further training whose steps stay below the limits printed here, in any order of batches and clients, with
means of the clients' models, stays within D of W*. Its residuals tend to 0 if every sample is visited again and again,
with steps above one fixed number and below another that is less than the limits, and every client that trains has a
weight above a fixed number in its mean. The samples of a batch are distinct.

How it is proved. The folder brings a matrix Y and a vector a, which may be anything. (1) The eigenvalues of Y K Y' are
at least g > 0, by its diagonal against the rest of each row: so K^-1 <= Y'Y / g. (2) With e = t - C W - K a, W* lies
within |Y e| / sqrt(g) of W + C'a, and D <= sqrt(a'K a) + |Y e| / sqrt(g). (3) The square of the projection is at most
k'Y'Y k / g and at most |x_i|^2. (4) |J|^2 <= max_i (M v)_i / v_i for any v > 0, with M >= |J J'| entry by entry.
All numbers are integers: a number is stored as itself times 2^E, a product of two numbers times 2^2E, and so on.
"""

import hashlib
import json
import sys
from array import array
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from math import isfinite, isqrt, nextafter, prod
from operator import mul
from pathlib import Path

SCHEMA = "ntkfl-any-order/1"
SIZES = ("width", "features", "samples", "outputs", "held", "test", "clients", "root_of")


class Refused(Exception):
    """Why the folder proves nothing."""


def need(condition, why):
    if not condition:
        raise Refused(why)


def raw(file):
    """The bytes of a file; not of a device or a pipe, which may have no end."""
    need(file.is_file(), f"{file.name} is not there, or is no file")
    need(file.stat().st_size < 10**8 or file.suffix == ".f64", f"{file.name} is larger than 100 MB")
    return file.read_bytes()


def read(folder):
    """certificate.json, its sizes, the arrays as rows of integers (times 2^E), and E."""
    content = json.loads(raw(folder / "certificate.json"))
    need(content["schema"] == SCHEMA, f"the schema is not {SCHEMA}")
    sizes = [content["sizes"][name] for name in SIZES]
    need(all(type(size) is int and 0 <= size < 2**31 for size in sizes), f"the sizes are {str(sizes)[:200]}")
    m, d, n, outputs, held, test, _, root_of = sizes
    need(min(m, d, n, outputs) > 0 and root_of in (1, m), "a size is 0, or root_of is neither 1 nor the width")
    rows = len(set(content["same"])) * outputs + held
    shapes = {"hidden": (m, d), "readout": (outputs, m), "x": (n, d), "y": (n, outputs), "x_test": (test, d)}
    shapes |= {"solution": (1, rows), "inverse_root": (rows, rows)}
    arrays = {}
    for name, shape in shapes.items():
        file = folder / f"{name}.f64"
        need(file.stat().st_size == 8 * prod(shape), f"{name}.f64 does not have the size of {shape} numbers")
        stored = raw(file)
        need(hashlib.sha256(stored).hexdigest() == content["sha256"][name], f"{name}.f64 was changed")
        flat = array("d", stored)
        if sys.byteorder == "big":
            flat.byteswap()
        need(all(map(isfinite, flat)), f"{name}.f64 has a number that is not finite")
        arrays[name] = [
            [v.as_integer_ratio() for v in flat[at : at + shape[1]]] for at in range(0, len(flat), shape[1])
        ]
    e = max(den.bit_length() for rows in arrays.values() for row in rows for _, den in row)
    e = max(e, 100)  # so that sqrt(q) is known well
    for name, rows in arrays.items():
        arrays[name] = [[num << (e + 1 - den.bit_length()) for num, den in row] for row in rows]
    return content, sizes, arrays, e


def dot(u, v):
    return sum(map(mul, u, v))


def transposed(rows):
    return list(map(list, zip(*rows, strict=True)))


def product(a, b):
    """The rows of the matrix a b, one by one. A row of b is one long integer, which Python multiplies fast."""
    bits = [max((value.bit_length() for row in part for value in row), default=0) for part in (a, b)]
    size, columns = (sum(bits) + len(b).bit_length() + 2) // 8 + 1, len(b[0])
    half = 1 << (8 * size - 1)
    halves = int.from_bytes(half.to_bytes(size, "little") * columns, "little")
    raws = (b"".join((v + half).to_bytes(size, "little") for v in row) for row in b)
    packed = [int.from_bytes(raw, "little") - halves for raw in raws]
    for row in a:
        raw = (dot(row, packed) + halves).to_bytes(size * columns, "little")
        yield [int.from_bytes(raw[at : at + size], "little") - half for at in range(0, size * columns, size)]


def root_above(value):
    """A fraction above the square root of a fraction, by a part of 2^-199 of it at most; of 0 it is 2^-200."""
    bits = 200 + max(0, value.denominator.bit_length() - value.numerator.bit_length() if value else 0)
    return Fraction(isqrt((value.numerator << 2 * bits) // value.denominator) + 1, 1 << bits)


def below(value):
    """A float below a fraction that is positive, or 0."""
    return nextafter(float(min(value, Fraction(2) ** 1000)), 0.0)


def bound(matrix):
    """An upper bound of the absolute eigenvalues of a matrix of integers >= 0, by (4)."""
    shift = max(0, max(map(max, matrix)).bit_length() - 900)
    floats, v = [[float(value >> shift) for value in row] for row in matrix], [1.0] * len(matrix)
    for _ in range(30):
        v = [dot(row, v) for row in floats]
        v = [value / (max(v) or 1.0) for value in v]
    weights = [int(value * 2**40) + 1 for value in v]
    return max(Fraction(dot(row, weights), weight) for row, weight in zip(matrix, weights, strict=True))


def final(values, errors):
    """The sign, or of several outputs the class, that no later model changes; "open" if none is known."""
    if len(values) == 1:
        return "open" if abs(values[0]) <= errors[0] else 1 if values[0] > 0 else -1
    low, high = ([v + s * e for v, e in zip(values, errors, strict=True)] for s in (-1, 1))
    return next((k for k, v in enumerate(low) if all(v > u for j, u in enumerate(high) if j != k)), "open")


def check(folder):
    """What is proved: a bound of D, step limits, final classes. Raises Refused where nothing is."""
    content, (m, _, n_all, outputs, n_held, _, n_clients, root_of), arrays, e = read(folder)
    w, b, x_all, y_all, y_factor = (arrays[k] for k in ("hidden", "readout", "x", "y", "inverse_root"))
    a, reach, one = arrays["solution"][0], Fraction(float.fromhex(content["claim"]["distance"])), 1 << e
    owner, same = content["owner"], content["same"]
    need(len(owner) == len(same) == n_all and reach > 0, "owner or same has a wrong length, or the distance is not > 0")
    need(all(type(c) is int and 0 <= c < n_clients for c in owner), "a sample's owner is none of the clients")
    need(len(set(owner)) == n_clients, "a client has no sample")
    multiples: list[dict[int, Fraction]] = [{} for _ in range(n_clients + 1)]  # of clients, and of all: sums of squares
    for i, j in enumerate(same):  # a positive multiple of a sample, labels included, asks for nothing new
        need(
            type(j) is int and 0 <= j <= i and same[j] == j and any(x_all[j]), f"sample {i} is 0, or same[{i}] is wrong"
        )
        u, v, k = x_all[i] + y_all[i], x_all[j] + y_all[j], next(k for k, value in enumerate(x_all[j]) if value)
        alike = u[k] * v[k] > 0 and all(p * v[k] == q * u[k] for p, q in zip(u, v, strict=True))
        need(alike, f"sample {i} is no positive multiple of sample {j}")
        for of in (multiples[owner[i]], multiples[-1]):
            of[j] = of.get(j, Fraction(0)) + Fraction(u[k], v[k]) ** 2
    kept = sorted(set(same))
    place, n, x, y = {i: k for k, i in enumerate(kept)}, len(kept), [x_all[i] for i in kept], [y_all[i] for i in kept]
    held = [(r, place[i]) for r, i in content["held"]]
    need(len(set(held)) == len(held) == n_held and all(type(r) is int and 0 <= r < m for r, _ in held), "a held pair")
    of_neuron = {r: [(k, i) for k, (q, i) in enumerate(held) if q == r] for r, _ in held}

    # The patterns, and the pairs within 2 D |x| of a kink. The others are safe: D |projection| <= D |x|.
    gram = list(product(x, transposed(x)))
    length = [root_above(Fraction(gram[i][i], one**2)) for i in range(n)]
    far = [int(2 * reach * size * one**2) + 1 for size in length]
    on, near, fitted, at_kink = [], [], [[0] * outputs for _ in range(n)], [0] * n_held
    for r, z in enumerate(product(w, transposed(x))):
        on.append([int(value >= 0) for value in z])
        for k, i in of_neuron.get(r, ()):
            on[r][i], at_kink[k] = 0, z[i]
        free = {i for _, i in of_neuron.get(r, ())}
        near += [(r, i, z[i]) for i in range(n) if abs(z[i]) <= far[i] and i not in free]
        for i, o in ((i, o) for i in range(n) if on[r][i] for o in range(outputs)):
            fitted[i][o] += b[o][r] * z[i]

    # K, and bounds of |sum_r b_or b_pr s_ri s_rj| whatever the patterns of the held pairs are.
    def column(r, i):
        tail = [0] * n_held
        for k, j in of_neuron.get(r, ()):
            tail[k] = gram[j][i] * one
        return [on[r][j] * b[o][r] * gram[j][i] for j in range(n) for o in range(outputs)] + tail

    rows = n * outputs + n_held
    big, most = ([[0] * size for _ in range(size)] for size in (rows, n * outputs))
    for o, p in ((o, p) for o in range(outputs) for p in range(outputs)):
        weighted = [[s and b[o][r] * b[p][r] for s in row] for r, row in enumerate(on)]
        for i, sums in enumerate(product(transposed(on), weighted)):
            for j, value in enumerate(sums):
                big[i * outputs + o][j * outputs + p] = value * gram[i][j]
                most[i * outputs + o][j * outputs + p] += abs(value)
        for r, pairs in of_neuron.items():
            at = {i for _, i in pairs}
            for i, j in ((i, j) for i in range(n) for j in range(n) if i in at or j in at):
                if (on[r][i] or i in at) and (on[r][j] or j in at):
                    most[i * outputs + o][j * outputs + p] += abs(b[o][r] * b[p][r])
    for k, (r, i) in enumerate(held):
        for u, value in enumerate(column(r, i)):
            big[u][n * outputs + k] = big[n * outputs + k][u] = value * one

    square = list(product(y_factor, transposed(product(y_factor, big))))  # (1): Y (Y K)', times 2^6E
    least = [2 * row[i] - sum(map(abs, row)) for i, row in enumerate(square)]
    need(min(least) > 0, f"(1) fails: row {least.index(min(least))} of Y K Y' does not outweigh its other entries")
    g = Fraction(min(least), one**6)

    root = isqrt(root_of * one**2)  # (2): sqrt(q) is in [root, root + 1] / 2^E
    goal = [y[i][o] * root * one - fitted[i][o] for i in range(n) for o in range(outputs)] + [-z * one for z in at_kink]
    moved = [dot(row, a) for row in big]
    image = [dot(row, [t * one**2 - v for t, v in zip(goal, moved, strict=True)]) for row in y_factor]
    rounding = [dot(map(abs, row), [abs(v) * one**3 for labels in y for v in labels]) for row in y_factor]
    doubt = 0 if root**2 == root_of * one**2 else 1
    square_sum = sum((abs(u) + doubt * v) ** 2 for u, v in zip(image, rounding, strict=True))
    slack = root_above(Fraction(square_sum, one**12) / g)
    distance = root_above(Fraction(dot(a, moved), one**6)) + 2 * slack
    need(distance <= reach, f"(2) fails: D is shown to be below {below(distance):.9g}, not {float(reach):.9g}")

    sharp = []  # (3), first with |x_i| for the projection
    for r, i, z in near:
        k = column(r, i)
        value = Fraction(z * one**2 + dot(a, k), one**4)
        need(value > 0 if z >= 0 else value < 0, f"(3) fails: neuron {r} changes its side of sample {kept[i]} at W*")
        if abs(value) <= reach * length[i]:
            sharp.append((r, i, int(value**2 / reach**2 * g * one**8)))
    for start in range(0, len(sharp), 128):
        group = sharp[start : start + 128]
        images = transposed(product(y_factor, transposed(column(r, i) for r, i, _ in group)))
        for (r, i, limit), image in zip(group, images, strict=True):
            need(dot(image, image) < limit, f"(3) fails: neuron {r} may cross the kink of sample {kept[i]}")

    # (4), for each client's batches and for batches of all samples. The entries of multiples c, c' of two samples are
    # bounded by c c' times that of the samples, M = L B L' in all: its eigenvalues are those of B L'L, and 0. L'L is
    # diagonal: each sample's sum of c^2.
    limits = []
    for of in multiples:
        unit = min(of.values()) / one
        index = [
            (place[j] * outputs + o, place[j], int(square / unit) + 1)
            for j, square in of.items()
            for o in range(outputs)
        ]
        top = bound([[abs(gram[i][j]) * most[u][v] * square for v, j, square in index] for u, i, _ in index])
        limits.append(below(2 * root_of * one**4 / (top * unit)))

    # Outputs elsewhere: those of W + C'a, to within D |x| times the length of the readout that can be active there.
    tests = arrays["x_test"]
    each = [a[j * outputs : (j + 1) * outputs] for j in range(n)]
    moves = []
    for pattern, weights in zip(on, transposed(b), strict=True):
        moves.append([s and dot(weights, part) for s, part in zip(pattern, each, strict=True)])
    for k, (r, i) in enumerate(held):
        moves[r][i] += a[n * outputs + k] * one
    point = [[u * one**2 + v for u, v in zip(*row, strict=True)] for row in zip(w, product(moves, x), strict=True)]
    reaches = [reach * root_above(Fraction(dot(row, row), one**2)) for row in tests]
    sums, squares = ([[0] * outputs for _ in tests] for _ in range(2))
    for r, row in enumerate(product(point, transposed(tests)) if tests else ()):
        for t in (t for t, value in enumerate(row) if value > -int(reaches[t] * one**4) - 1):
            for o in range(outputs):
                sums[t][o] += b[o][r] * max(row[t], 0)
                squares[t][o] += b[o][r] ** 2
    answers = []
    for size, value, square_sum in zip(reaches, sums, squares, strict=True):
        errors = [size * root_above(Fraction(v, one**2)) for v in square_sum]
        answers.append(final([Fraction(v, one**5) for v in value], errors))
    return {"distance": float(reach), "step_limits": limits[:-1], "pooled_step_limit": limits[-1], "final": answers}


def main(arguments):
    try:
        need(len(arguments) == 1, "one folder is needed: python ntkfl_check.py FOLDER")
        proved, claim = check(Path(arguments[0])), read(Path(arguments[0]))[0]["claim"]
        limits = [*proved["step_limits"], proved["pooled_step_limit"]]
        asked = [float.fromhex(value) for value in [*claim["step_limits"], claim["pooled_step_limit"]]]
        need(all(p <= q for p, q in zip(asked, limits, strict=True)), "(4) fails: a claimed step limit is not shown")
        pairs = list(zip(claim["final"], proved["final"], strict=True))
        need(all(p in (q, "open") for p, q in pairs), "the class of a test input is not shown to be final")
    except Refused as error:
        print(f"refused: {error}")
        return 1
    except Exception as error:  # whatever the folder has in it: an answer, not a traceback
        print(f"refused: this is no folder of {SCHEMA}: {type(error).__name__}: {str(error)[:200]!r}")
        return 1
    distance = Context(9, ROUND_CEILING).create_decimal_from_float(proved["distance"])
    *steps, pooled = map(str, map(Context(6, ROUND_FLOOR).create_decimal_from_float, limits))
    print(f"D, the distance to W*, is at most {distance}: no later model is farther than 2 D from this one")
    print("steps below", ", ".join(steps), f"by client, {pooled} on batches of all")
    print(f"final classes of the test inputs: {proved['final']}")
    print("certified")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
