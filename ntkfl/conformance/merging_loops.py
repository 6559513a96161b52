"""Reference implementations of merging of models and of federated LoRA, written from their formulas in plain numpy.

Clients train one after the other, as in `loops`. Every step of the merging has a line of its own, so that
`ntkfl.conformance.variants` can change one line at a time. The weight of a LoRA model is base + B A, where only B and A
are trained. Answers are compared by this weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ntkfl.conformance.loops import shares, train

if TYPE_CHECKING:
    from ntkfl.conformance.conformance_case import ConformanceCase

States = Iterator[dict[str, np.ndarray]]
Factors = list[tuple[float, np.ndarray, np.ndarray]]  # the share, B and A of every client


def run(case: ConformanceCase) -> States:
    """Yields, after every round, the tensors to compare: the tensors of the model, or LoRA's weight base + B A."""
    for w in LOOPS[case.method](case, **case.options):
        yield case.result(w)


def task_vectors(case: ConformanceCase, w: np.ndarray, t: int) -> np.ndarray:
    """The moves of the cohort of round t, (clients, P)."""
    return np.array([train(case, w, t, i) - w for i in case.cohort(t)])


def task_arithmetic(case: ConformanceCase, scale: float = 0.4) -> Iterator[np.ndarray]:
    """Task arithmetic, Ilharco et al. 2023: the sum of the task vectors, scaled."""
    w = case.start
    for t in range(case.rounds):
        vectors = task_vectors(case, w, t)
        merged = vectors.sum(axis=0)
        w = w + scale * merged
        yield w


def ties(
    case: ConformanceCase, density: float = 0.2, scale: float = 1.0, weighted: bool = False
) -> Iterator[np.ndarray]:
    """TIES, Yadav et al. 2023, Algorithm 1.

    Task vectors are trimmed, a sign is elected for each entry, and the values of this sign are averaged.
    """
    w = case.start
    for t in range(case.rounds):
        p = shares(case, t) if weighted else [1.0 for _ in case.cohort(t)]
        vectors = task_vectors(case, w, t)
        trimmed = np.array([trim(case, vector, density) for vector in vectors])
        elected = np.sign(trimmed.sum(axis=0))
        agree = (np.sign(trimmed) == elected) & (elected != 0)
        counted = np.array([share * own for share, own in zip(p, agree, strict=True)])
        merged = (counted * trimmed).sum(axis=0) / np.where(agree.any(axis=0), counted.sum(axis=0), 1)
        w = w + (scale * merged).astype(w.dtype)
        yield w


def trim(case: ConformanceCase, vector: np.ndarray, density: float) -> np.ndarray:
    """The vector with only a share `density` of its entries, namely the entries of largest absolute value; the others
    are 0.
    """
    kept = int(density * len(vector))
    return np.where(abs(vector) >= np.sort(abs(vector))[-kept], vector, 0)


def factors(case: ConformanceCase, w: np.ndarray, t: int) -> Factors:
    """The factors of the cohort's clients after round t."""
    ends = [case.tensors(train(case, w, t, i)) for i in case.cohort(t)]
    return [(p, end["lora_B"], end["lora_A"]) for p, end in zip(shares(case, t), ends, strict=True)]


def fed_it(case: ConformanceCase) -> Iterator[np.ndarray]:
    """FedIT, Zhang et al. 2023: B and A are averaged separately, and the result has the product of the means."""
    w, base = case.start, case.tensors(case.start)["base.weight"]
    for t in range(case.rounds):
        ends = factors(case, w, t)
        b = sum(p * own for p, own, _ in ends)
        a = sum(p * own for p, _, own in ends)
        w = case.flat({"base.weight": base, "lora_A": a, "lora_B": b})
        yield w


def fed_ex_lora(case: ConformanceCase) -> Iterator[np.ndarray]:
    """FedEx-LoRA, Singhal et al. 2024: FedIT that adds to the base the mean of products less the product of means."""
    w, base = case.start, case.tensors(case.start)["base.weight"]
    for t in range(case.rounds):
        ends = factors(case, w, t)
        mean_b = np.sum([p * b for p, b, _ in ends], axis=0)
        mean_a = np.sum([p * a for p, _, a in ends], axis=0)
        residual = sum(p * b @ a for p, b, a in ends) - mean_b @ mean_a
        base = base + residual
        w = case.flat({"base.weight": base, "lora_A": mean_a, "lora_B": mean_b})
        yield w


def f_lora(case: ConformanceCase) -> Iterator[np.ndarray]:
    """FLoRA, Wang et al. 2024: the product of stacked factors is added to the base.

    In the next round, clients start again from the factors of the start model.
    """
    w, first = case.start, case.tensors(case.start)
    base = first["base.weight"]
    for t in range(case.rounds):
        ends = factors(case, w, t)
        stacked_a = np.concatenate([p * a for p, _, a in ends], axis=0)
        stacked_b = np.concatenate([b for _, b, _ in ends], axis=1)
        base = base + stacked_b @ stacked_a
        w = case.flat(first | {"base.weight": base})
        yield w


def flex_lora(case: ConformanceCase) -> Iterator[np.ndarray]:
    """FlexLoRA, Bai et al. 2024: a truncated SVD of the mean of the products gives the new factors."""
    w, base = case.start, case.tensors(case.start)["base.weight"]
    for t in range(case.rounds):
        ends = factors(case, w, t)
        product = sum(p * b @ a for p, b, a in ends)
        u, s, v = np.linalg.svd(product)
        rank = len(case.tensors(w)["lora_A"])
        again_b, again_a = u[:, :rank] * s[:rank], v[:rank]
        w = case.flat({"base.weight": base, "lora_A": again_a, "lora_B": again_b})
        yield w


LOOPS: dict[str, Callable[..., Iterator[np.ndarray]]] = {
    "fedex-lora": fed_ex_lora,
    "fedit": fed_it,
    "flexlora": flex_lora,
    "flora": f_lora,
    "task-arithmetic": task_arithmetic,
    "ties": ties,
}
