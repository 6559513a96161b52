"""Which client owns which sample, by one of three rules: iid, Dirichlet for each class, or shards of labels.

The result depends only on the kind of partition, the labels and the seed.
"""

import numpy as np
from jaxtyping import Int

from ntkfl import interruption
from ntkfl.messages import did_you_mean, require_size
from ntkfl.problem import finite_array

KINDS = ("iid", "dirichlet:ALPHA", "shards:S", "given")
CLASS_LIMIT = 100  # the largest number of classes; with more distinct labels the labels count as a target of regression
ALPHA_LIMIT = 1e100  # a Dirichlet draw is computed from gamma draws, which overflow if alpha is larger

Owner = Int[np.ndarray, " n"]


def assign_owners(kind: str, y: np.ndarray, clients: int, seed: int = 0) -> Owner:
    """The owner of each sample, shape (n,), integers 0..clients-1; every client has at least one sample.

    There are three rules:

    - "iid": a uniformly random split, in which the numbers of samples differ by at most one.
    - "dirichlet:ALPHA": for each class, probabilities of the clients are drawn from the symmetric Dirichlet(ALPHA)
      distribution. Then each sample of the class draws a client with these probabilities. While some client has no
      sample, a sample is moved: the empty client with the lowest number takes the first sample of the client that has
      the most samples. If several clients have the most samples, the sample is taken from the client among them that
      has the lowest number.
    - "shards:S": the samples are put in random order within each class and lined up by class. They are then cut into S
      * clients shards, whose sizes differ by at most one. Every client is dealt S shards at random.

    Args:
        kind: "iid", "dirichlet:ALPHA" or "shards:S". "given", the kind of data that already assign each sample to a
            client, is refused here.
        y: labels, shape (n,), or one-hot (n, C). Only Dirichlet and shards use them, and need classes: at most 100
            distinct values, which must not all be different if there are more than two samples.
        clients: number N of clients, at most n.
        seed: seed of numpy's PCG64, in a stream that no other draw of this package uses; default 0.

    Raises:
        ValueError: the message says what is wrong, the value found and what would be right.

    Source: Dirichlet: Hsu, Qi, Brown 2019 (arXiv:1909.06335), but for each class; shards: McMahan et al. 2017
    (arXiv:1602.05629), section 3.

    Example:
        >>> import numpy as np
        >>> from ntkfl.partition import assign_owners
        >>> np.bincount(assign_owners("iid", np.ones(4), clients=2))
        array([2, 2])
    """
    y = finite_array("y", y)
    name, parameter = _parsed(kind)
    require_size("clients", clients)
    if clients > len(y):
        raise ValueError(f"{clients} clients cannot share {len(y)} samples: every client needs at least one")
    rng = generator(seed, stream=0)
    if name == "iid":
        return _dealt(rng.permutation(len(y)), clients, 1, rng)
    classes = _classes(y, kind)
    if name == "dirichlet":
        return _dirichlet(classes, clients, parameter, rng)
    if clients * parameter > len(y):
        raise ValueError(
            f"partition {kind!r} cuts {clients} x {parameter:g} shards from {len(y)} samples; "
            f"S must be at most {len(y) // clients}"
        )
    shuffled = rng.permutation(len(y))
    return _dealt(shuffled[np.argsort(classes[shuffled], kind="stable")], clients, int(parameter), rng)


def generator(seed: int, stream: int) -> np.random.Generator:
    """numpy's generator PCG64 with this seed; different streams of one seed are independent.

    Args:
        seed: a whole number, at least 0.
        stream: number of the stream.

    Raises:
        ValueError: a seed that is not a non-negative integer.
    """
    require_size("seed", seed, least=0)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=(stream,))))


def _parsed(kind: str) -> tuple[str, float]:
    name, colon, text = kind.partition(":")
    if name not in {known.partition(":")[0] for known in KINDS}:
        raise ValueError(f"there is no partition {kind!r}.{did_you_mean(name, KINDS)} It is one of {', '.join(KINDS)}")
    if name == "given":
        raise ValueError("partition 'given' is for a file with an array or column named owner; these data have none")
    if name == "iid":
        if colon:
            raise ValueError(f"partition {kind!r}: 'iid' takes no parameter")
        return name, 1
    try:
        value = float(text)
    except ValueError:
        example = "dirichlet:0.5" if name == "dirichlet" else "shards:2"
        raise ValueError(f"partition {kind!r}: {text!r} is not a number; write {example!r}, say") from None
    if name == "dirichlet" and not 0 < value <= ALPHA_LIMIT:
        raise ValueError(f"partition {kind!r}: alpha is {value:g}; it must be positive and at most {ALPHA_LIMIT:g}")
    if name == "shards" and not (value >= 1 and value.is_integer()):
        raise ValueError(f"partition {kind!r}: S is {value:g}; it must be a positive integer")
    return name, value


def _dealt(order: np.ndarray, clients: int, count: int, rng: np.random.Generator) -> Owner:
    """Cut `order` into clients * count nearly equal shards and deal every client `count` of them at random."""
    owner = np.empty(len(order), int)
    hands = rng.permutation(np.repeat(np.arange(clients), count))
    for client, shard in zip(hands, np.array_split(order, len(hands)), strict=True):
        owner[shard] = client
    return owner


def _dirichlet(classes: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> Owner:
    owner = np.empty(len(classes), int)
    for c in range(classes.max() + 1):
        members = np.flatnonzero(classes == c)
        owner[members] = rng.choice(clients, size=len(members), p=rng.dirichlet(np.full(clients, alpha)))
    sizes = np.bincount(owner, minlength=clients)
    for _ in range(np.count_nonzero(sizes == 0)):  # each turn fills one client and empties none
        interruption.check()
        empty, largest = sizes.argmin(), sizes.argmax()
        owner[np.flatnonzero(owner == largest)[0]] = empty
        sizes = np.bincount(owner, minlength=clients)
    return owner


def _classes(y: np.ndarray, kind: str) -> np.ndarray:
    """The class of each sample, as an integer 0..C-1."""
    if y.ndim == 2 and y.shape[1] > 1:
        hot = (y == 1).sum(axis=1) == 1
        hot &= (y != 0).sum(axis=1) == 1
        if not hot.all():
            row = int(np.flatnonzero(~hot)[0])
            raise ValueError(f"partition {kind!r} needs classes; row {row} of y is {y[row].tolist()}, not one-hot")
        return y.argmax(axis=1)
    values, classes = np.unique(y, return_inverse=True)
    if len(values) > CLASS_LIMIT or len(values) == len(y) > 2:
        raise ValueError(
            f"partition {kind!r} needs classes; y has {len(values)} distinct values on {len(y)} samples (at most "
            f"{CLASS_LIMIT}, and not all different). Use 'iid', or give an owner array"
        )
    return classes.ravel()
