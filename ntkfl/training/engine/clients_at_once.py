"""How many clients are trained together where the user does not say: a rule, so that a run can be repeated."""

import math

import torch

from ntkfl.training.tree import Params

STACKED = 2**23  # numbers, 32 MiB in float32, that stay in a processor's last cache
ON_A_DEVICE = 2**28  # 1 GiB in float32
FEWEST = 8  # below these, mapping clients costs more than it saves


def clients_at_once(params: Params, shape: tuple[int, ...], batch: int, device: torch.device) -> int:
    """Clients whose parameters and activations in one step together stay within a fixed count of numbers.

    On a CPU the clients of a model that convolves are trained one by one: vmap turns their convolutions into grouped
    ones. Processor time of a round in ms, one thread, float32, best of three, on a loaded machine:

        clients together                                  1     2     4     5     8    10    16    50
        two-layer, d=32, m=4096, 100 clients of 10      523   749   588                     363   301
        two-layer, d=32, m=4096, 10 clients of 100      142   164         139         126
        mlp:64-64, digits, 50 clients of 29, b=32       108          71          42          29    16
        mlp:64-64, Fashion-MNIST, 50 of 64, b=32        234         170         118          87    51
        mlp:512, Fashion-MNIST, 50 of 64, b=32          453         384                     302   420
        simple-cnn, Fashion-MNIST, 50 of 32, b=32       895  1419        1128              1430
        simple-cnn, Fashion-MNIST, 50 of 32, b=4       2491                                1680

    The count for other devices has not been measured.
    """
    convolves = any(value.ndim == 4 for value in params.values())
    if convolves and device.type == "cpu":
        return 1
    features = math.prod(shape)
    # A weight (out, in) makes `out` numbers of a sample; a convolution at most that many for each pixel of the input.
    pixels = math.prod(shape[1:]) if convolves else 1
    made = sum(value.shape[0] * (pixels if value.ndim == 4 else 1) for value in params.values() if value.ndim)
    numbers = sum(value.numel() for value in params.values()) + batch * (features + made)
    if device.type != "cpu":
        return max(1, ON_A_DEVICE // numbers)
    count = STACKED // numbers
    return count if count >= FEWEST else 1
