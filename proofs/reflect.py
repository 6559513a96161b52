"""Writes the network, the data and the witness of an export as definitions for Coq, which Digits.v checks.

    python proofs/reflect.py FOLDER > DigitsData.v

FOLDER was written by `ntkfl certify --any-order --export FOLDER`. Standard library only. Coq believes nothing of the
witness; that the network and the data are those of the folder is what has to be believed of this file.
"""

import json
import sys
from array import array
from fractions import Fraction
from math import isqrt
from pathlib import Path

SCHEMA = "ntkfl-any-order/3"
BITS = 48  # of the solution; fewer leave a slack that is not small against the margins
FACTOR_BITS = 20  # of Y; fewer lose pairs whose margin is small


def numbers(file: Path) -> list[Fraction]:
    """The float64 of a file, exactly."""
    stored = array("d", file.read_bytes())
    if sys.byteorder == "big":
        stored.byteswap()
    return [Fraction(value) for value in stored]


def table(values: list, columns: int) -> list[list]:
    """The rows of a flat list."""
    return [values[at : at + columns] for at in range(0, len(values), columns)]


def dot(u: list[int], v: list[int]) -> int:
    """The product of two vectors."""
    return sum(a * b for a, b in zip(u, v, strict=True))


def without_zeros(row: list[int]) -> list[int]:
    """A row without the zeros at its end, which Coq adds again."""
    return row[: max((at + 1 for at, value in enumerate(row) if value), default=0)]


def literal(value: object) -> str:
    """A number, a truth value or a list of them as Coq reads it."""
    if isinstance(value, list):
        return "[:: " + "; ".join(map(literal, value)) + "]" if value else "[::]"
    if isinstance(value, bool):
        return str(value).lower()
    return hex(value) if value >= 0 else f"(- {hex(-value)})"


def source(folder: Path) -> str:
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
    exact = {name: numbers(folder / f"{name}.f64") for name in ("hidden", "readout", "x", "y")}
    e = max(value.denominator.bit_length() - 1 for values in exact.values() for value in values)
    hidden, readouts, x, y = (
        table([int(value * 2**e) for value in exact[name]], columns)
        for name, columns in (("hidden", d), ("readout", len(exact["readout"]) // outputs), ("x", d), ("y", outputs))
    )
    m = len(hidden)
    held = [[False] * n for _ in range(m)]
    for r, i in content["held"]:
        held[r][i] = True

    # The rows of C. The export lists the held pairs in the same order, neuron by neuron.
    pairs = sorted(map(tuple, content["held"]))
    order = [content["held"].index(list(pair)) for pair in pairs]
    pre = [[dot(row, sample) for sample in x] for row in hidden]
    kinds = [
        (i, [readouts[o][r] if pre[r][i] >= 0 and not held[r][i] else 0 for r in range(m)], y[i][o] * root << 2 * e)
        for i in range(n)
        for o in range(outputs)
    ]
    kinds += [(i, [int(q == r) for q in range(m)], 0) for r, i in pairs]
    gram = [[dot(u, v) for v in x] for u in x]
    k = [[gram[i][j] * dot(c, b) for j, b, _ in kinds] for i, c, _ in kinds]
    wants = [goal - dot(c, [row[i] for row in pre]) for i, c, goal in kinds]

    # The witness, in the scale of these rows: a label's is 2^e times that of the export, over a held pair's.
    first, bits = n * outputs, e + BITS
    places = [*range(first), *(first + at for at in order)]
    shifts = [0] * first + [e] * len(pairs)
    solution = numbers(folder / "solution.f64")
    if len(solution) != len(places):
        raise ValueError(
            f"the solution has {len(solution)} entries, not {len(places)}: some samples are multiples of others"
        )
    rows = table(numbers(folder / "inverse_root.f64"), first + len(pairs))
    guess = [round(solution[p] * 2**BITS) << s for p, s in zip(places, shifts, strict=True)]
    factor = [[round(row[p] * 2**FACTOR_BITS) << s for p, s in zip(places, shifts, strict=True)] for row in rows]
    errors = [(want << bits) - dot(row, guess) for want, row in zip(wants, k, strict=True)]
    images = [dot(row, errors) for row in factor]
    spent = dot(images, images)
    yk = [[dot(row, column) for column in k] for row in factor]
    square = [[dot(row, other) for other in factor] for row in yk]
    gap = max(1, min(2 * row[p] - sum(map(abs, row)) for p, row in enumerate(square)))
    claimed = Fraction(content["claim"]["distance"])
    distance = claimed * 2 ** (e + bits)
    fields = [
        f"features := {d}%nat; hidden := {literal(hidden)}",
        f"readouts := {literal(readouts)}",
        f"samples := {literal(x)}",
        f"labels := {literal(y)}; exponent := {e}%nat; root := {root}",
    ]
    shown = [
        f"held := {literal(held)}",
        f"bits := {bits}%nat; guess := {literal(guess)}",
        f"factor := {literal([without_zeros(row) for row in factor])}",
        f"gap := {gap}; distance := {int(distance)}; slack := {isqrt(spent // gap) + 1}",
    ]
    return "\n".join(
        [
            f"(* {n} samples, {m} neurons, {len(pairs)} held pairs; written by reflect.py: do not edit. *)",
            "From Coq Require Import ZArith.",
            "From mathcomp Require Import all_ssreflect all_algebra.",
            "Require Import Checker.",
            "Local Open Scope Z_scope.",
            "Definition stored := {| " + ";\n".join(fields) + " |}.",
            "Definition proof := {| " + ";\n".join(shown) + " |}.",
            f"Definition claimed := {claimed.numerator}.",
            f"Definition claimed_exponent := {claimed.denominator.bit_length() - 1}%nat.\n",
        ]
    )


if __name__ == "__main__":
    print(source(Path(sys.argv[1])), end="")
