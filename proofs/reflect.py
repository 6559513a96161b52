"""Writes the network, the data and the witness of an export as definitions for Coq, which Digits.v uses.

    python proofs/reflect.py FOLDER > DigitsData.v

FOLDER was written by `ntkfl certify --any-order --export FOLDER`. This script needs only the standard
library. Coq takes nothing in the witness for granted. But it is not proved that the network and the data are those of
the folder; this depends on the correctness of this script.
"""

import json
import sys
from array import array
from fractions import Fraction
from itertools import pairwise
from math import ceil, isqrt, log2, sqrt
from operator import mul
from pathlib import Path

SCHEMA = "ntkfl-any-order/3"
# bits of the weights that are computed from the solution; with fewer bits their error bound is not small compared with
# the margins
BITS = 60
# rounding Y lowers the gap g, with Y K Y' >= g I, by a share of at most 2^(1 - CUT); with a smaller CUT, pairs with
# small margins would fail
CUT = 8
CHUNK = 400  # largest number of rows in a definition, since Coq needs a deep stack to read longer definitions


def numbers(file: Path) -> list[Fraction]:
    """The float64 numbers of a file as exact fractions."""
    stored = array("d", file.read_bytes())
    if sys.byteorder == "big":
        stored.byteswap()
    return [Fraction(value) for value in stored]


def table(values: list, columns: int) -> list[list]:
    """The rows of a matrix that is given as a flat list."""
    return [values[at : at + columns] for at in range(0, len(values), columns)]


def integers(values: list[Fraction]) -> tuple[list[int], int]:
    """The numbers times 2^bits, and `bits`, the least number of bits that makes all of them integers."""
    bits = max(value.denominator.bit_length() - 1 for value in values)
    return [int(value * 2**bits) for value in values], bits


def dot(u: list, v: list) -> float:
    """The inner product of two vectors; entries of the longer vector beyond the length of the other are ignored."""
    return sum(map(mul, u, v))


def inverse_root(k: list[list[int]]) -> list[list[float]]:
    """The rows of the inverse of K's Cholesky factor, each up to its diagonal entry."""
    factor: list[list[float]] = []
    columns: list[list[float]] = []  # a column of the inverse, from the diagonal on
    for i, row in enumerate(k):
        line: list[float] = []
        for j in range(i):
            line.append((row[j] - dot(line, factor[j])) / factor[j][j])
        line.append(sqrt(row[i] - dot(line, line)))
        factor.append(line)
        for j, column in enumerate(columns):
            column.append(-dot(line[j:], column) / line[i])
        columns.append([1 / line[i]])
    return [[columns[j][i - j] for j in range(i + 1)] for i in range(len(k))]


def literal(value: object, machine: bool = False) -> str:
    """A number, or a nested list of numbers, in Coq's syntax; as 63-bit integers if `machine` is true."""
    if isinstance(value, list):
        return "[:: " + "; ".join(literal(entry, machine) for entry in value) + "]" if value else "[::]"
    if machine:
        return str(value % 2**63)
    return hex(value) if value >= 0 else f"(- {hex(-value)})"


def matrix(name: str, rows: list[list[int]], machine: bool) -> str:
    """The definition of a matrix in parts; as 63-bit integers if `machine` is true and the numbers fit."""
    machine = machine and all(abs(value) < 2**62 for row in rows for value in row)
    parts = [literal(part, machine) for part in table(rows, CHUNK)]
    kind, scope = ("PrimInt63.int", "%uint63") if machine else ("Z", "")
    defined = [f"Definition {name}_{at} : seq (seq {kind}) := {part}{scope}." for at, part in enumerate(parts)]
    whole = " ++ ".join(f"{name}_{at}" for at in range(len(parts)))
    return "\n".join([*defined, f"Definition {name}_ := {f'of_machine ({whole})' if machine else whole}."])


def source(folder: Path, machine: bool = False) -> str:
    """The definitions for an export: its network with its data, the witness, and the claimed D.

    Raises:
        ValueError: the export has samples that are multiples of others, or a width whose root is no integer.
    """
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    if content["schema"] != SCHEMA:
        raise ValueError(f"the export is of {content['schema']}; reflect.py reads {SCHEMA}")
    d, outputs, n = content["features"], content["outputs"], len(content["owner"])
    root = isqrt(content["root_of"])
    if root**2 != content["root_of"]:
        raise ValueError(f"the square root of {content['root_of']} is no whole number; Checker.v needs one")
    names = ("hidden", "readout", "x", "y")
    flat, power = zip(*(integers(numbers(folder / f"{name}.f64")) for name in names), strict=True)
    widths = (d, len(flat[1]) // outputs, d, outputs)
    hidden, readouts, x, y = (table(values, columns) for values, columns in zip(flat, widths, strict=True))
    m = len(hidden)
    w_bits, b_bits, x_bits, y_bits = power
    if y_bits > w_bits + b_bits + x_bits:
        raise ValueError(f"the labels have {y_bits} bits after the point, the outputs {w_bits + b_bits + x_bits}")

    # The rows of C: first the rows of the labels, then the rows of the held pairs, both ordered by sample.
    held: list[list[int]] = [[] for _ in range(n)]
    for r, i in sorted(map(tuple, content["held"])):
        held[i].append(r)
    pairs = [(r, i) for i in range(n) for r in held[i]]
    z = [[dot(row, sample) for row in hidden] for sample in x]
    on = [[value >= 0 for value in row] for row in z]
    for r, i in pairs:
        on[i][r] = False
    scale = root << (w_bits + b_bits + x_bits - y_bits)
    labels = [
        (i, [b if s else 0 for b, s in zip(readouts[o], on[i], strict=True)]) for i in range(n) for o in range(outputs)
    ]
    wants = [y[i][o] * scale for i in range(n) for o in range(outputs)]
    wants = [goal - dot(c, z[i]) for goal, (i, c) in zip(wants, labels, strict=True)] + [-z[i][r] for r, i in pairs]
    gram = [[dot(u, v) for v in x] for u in x]
    k = [[gram[i][j] * dot(c, b) for j, b in labels] + [gram[i][j] * c[r] for r, j in pairs] for i, c in labels] + [
        [gram[i][j] * c[r] for j, c in labels] + [gram[i][j] * (q == r) for q, j in pairs] for r, i in pairs
    ]

    # The witness. The export has the held pairs in another order, and its rows of C have floats, while the rows here
    # have integers.
    first, bits = n * outputs, max(0, BITS + x_bits + b_bits - w_bits)
    places = [*range(first), *(first + content["held"].index(list(pair)) for pair in pairs)]
    solution = numbers(folder / "solution.f64")
    if len(solution) != len(places):
        raise ValueError(
            f"the solution has {len(solution)} entries, not {len(places)}: some samples are multiples of others"
        )
    power_of_guess = [bits + w_bits - x_bits - b_bits] * first + [bits + w_bits - x_bits] * len(pairs)
    guess = [round(solution[p] * Fraction(2) ** e) for p, e in zip(places, power_of_guess, strict=True)]
    longest = sqrt(max(row[p] for p, row in enumerate(k)))
    factor_bits = ceil(log2(longest * len(k) ** 1.5)) + CUT  # so that no row of Y K Y' is off by more than 2^-CUT
    factor = [[round(Fraction(value) * 2**factor_bits) for value in row] for row in inverse_root(k)]
    gap = (1 << 2 * factor_bits) - (1 << 2 * factor_bits - CUT + 1)
    moves = [dot(row, guess) for row in k]
    errors = [(want << bits) - move for want, move in zip(wants, moves, strict=True)]
    images = [dot(row, errors) for row in factor]
    claimed = Fraction(content["claim"]["distance"])
    distance, slack = int(claimed * 2 ** (w_bits + bits)), isqrt(dot(images, images) // gap) + 1
    moved = isqrt(dot(guess, moves)) + 1
    far = [isqrt((distance + slack + moved) ** 2 * gram[i][i] >> 2 * bits) + 1 for i in range(n)]
    gaps = [[r - last - 1 for last, r in pairwise([-1, *rows])] for rows in held]
    fields = [
        f"features := {d}%nat; hidden := hidden_",
        f"readouts := {literal(readouts)}",
        f"samples := {literal(x)}",
        f"labels := {literal(y)}",
        f"hidden_bits := {w_bits}%nat; readout_bits := {b_bits}%nat; sample_bits := {x_bits}%nat",
        f"label_bits := {y_bits}%nat; root := {root}",
    ]
    shown = [
        f"held := map (column {m}) [:: " + "; ".join(literal(row) for row in gaps) + "]%nat",
        f"bits := {bits}%nat; guess := {literal(guess)}",
        "factor := factor_",
        f"gap := {gap}; distance := {distance}; slack := {slack}; moved := {moved}",
        f"thresholds := {literal(far)}",
    ]
    return "\n".join(
        [
            f"(* {n} samples, {m} neurons, {len(pairs)} held pairs; written by reflect.py: do not edit. *)",
            f"From Coq Require Import ZArith{' Uint63' if machine else ''}.",
            "From mathcomp Require Import all_ssreflect.",
            f"Require Import Checker{' Fast' if machine else ''}.",
            "Local Open Scope Z_scope.",
            matrix("hidden", hidden, machine),
            matrix("factor", factor, machine),
            "Definition stored := {| " + ";\n".join(fields) + " |}.",
            "Definition proof := {| " + ";\n".join(shown) + " |}.",
            f"Definition claimed := {claimed.numerator}.",
            f"Definition claimed_exponent := {claimed.denominator.bit_length() - 1}%nat.\n",
        ]
    )


if __name__ == "__main__":
    print(source(Path(sys.argv[1]), machine="--machine" in sys.argv[2:]), end="")
