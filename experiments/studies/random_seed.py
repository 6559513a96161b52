"""Seeds for the random numbers of cells, such that no two cells of a study share random numbers."""

import numpy as np


def own_seed(*parts: int | float | str, bits: int = 63) -> int:
    """A seed of `bits` bits, computed from these values of the cell's point, of which the first is the study's seed.

    `bits` is 63, or 32 as numpy needs.
    """
    entropy: list[int] = []
    for part in parts:
        if isinstance(part, float):
            entropy.append(int(np.float64(part).view(np.uint64)))
        elif isinstance(part, str):
            entropy += part.encode()
        else:
            entropy.append(part)
    words = np.random.SeedSequence(entropy)
    return int(words.generate_state(1)[0]) if bits == 32 else int(words.generate_state(1, np.uint64)[0] >> 1)
