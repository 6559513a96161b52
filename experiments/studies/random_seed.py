"""The seed of one cell's random numbers: no two cells of a study share any."""

import numpy as np


def own_seed(*parts: int | float | str, bits: int = 63) -> int:
    """A seed of `bits` bits (63, or numpy's 32) from these values of the point, the seed first."""
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
