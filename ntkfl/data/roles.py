"""Finds inputs, labels and owners among the columns or arrays of a user's file, by the usual names."""

import warnings
from collections.abc import Sequence

INPUTS = ("x", "x_train", "features")
LABELS = ("y", "y_train", "label", "labels", "target", "targets", "class")
OWNERS = ("owner", "client", "client_id", "clientid", "cid", "partition_id", "user_id", "writer_id")
INDICES = ("index", "id", "idx", "row", "row_id", "level_0")


def taken(names: tuple[str, ...], columns: Sequence[str], where: str) -> str | None:
    """The file's name that is one of `names`, in upper or lower case; an exact match of the first name wins.

    Raises:
        ValueError: several of the file's names are among `names`.
    """
    if names[0] in columns:
        return names[0]
    alike = [name for name in columns if name.lower() in names]
    if len(alike) > 1:
        listed = " and ".join(map(repr, alike))
        raise ValueError(
            f"{where}: {listed} may each be what is called {names[0]} here; rename the right one {names[0]}"
        )
    return alike[0] if alike else None


def warn_of_features(features: Sequence[str], where: str) -> None:
    """Warn of features whose names are those of labels, owners or row numbers."""
    doubtful = [name for name in features if name.lower() in LABELS + OWNERS + INDICES]
    if doubtful:
        listed = ", ".join(map(repr, doubtful))
        them = "it" if len(doubtful) == 1 else "them"
        warnings.warn(
            f"{where}: {listed} taken as features, as all columns but y and owner; remove {them} if not meant",
            stacklevel=2,
        )


def listed(names: Sequence[str]) -> str:
    """ "1 feature, 'a'", "2 features, 'a' and 'b'", "64 features, 'p0' to 'p63'"."""
    if len(names) == 1:
        return f"1 feature, {names[0]!r}"
    return f"{len(names)} features, {names[0]!r} {'and' if len(names) == 2 else 'to'} {names[-1]!r}"
