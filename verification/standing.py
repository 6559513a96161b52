"""How well a violation stands."""

from enum import StrEnum


class Standing(StrEnum):
    """How well a violation stands, best first."""

    CONFIRMED = "confirmed"  # redone more precisely or on other networks, or both sides enclosed in the first place
    SEEN = "seen"  # nothing could redo it
    FALLEN = "not confirmed"  # redone, it did not come out again, or it would cost too much to redo
