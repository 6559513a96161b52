"""Several runs share each product with a matrix, so that its entries are read once for all runs."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from ntkfl import interruption

Result = TypeVar("Result")
Vectors = Float[np.ndarray, "n k"]
Asking = Generator[Vectors, Vectors, Result]  # yields V, is sent H V, and returns its result


def run_together(product: Callable[[Vectors], Vectors], runs: Sequence[Asking[Result]]) -> list[Result]:
    """The result of each run; simultaneous requests of the runs become columns of one product."""
    results: dict[int, Result] = {}
    answers: dict[int, Vectors | None] = dict.fromkeys(range(len(runs)))
    while answers:
        interruption.check()
        requests = {}
        for number, answer in answers.items():
            try:
                requests[number] = runs[number].send(answer)  # type: ignore[arg-type]  # None begins a run
            except StopIteration as stop:
                results[number] = stop.value
        answers = {}
        if requests:
            ends = np.cumsum([vectors.shape[1] for vectors in requests.values()])[:-1]
            images = np.hsplit(product(np.hstack(list(requests.values()))), ends)
            answers = dict(zip(requests, images, strict=True))
    return [results[number] for number in range(len(runs))]
