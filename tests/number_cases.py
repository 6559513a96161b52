"""Cases that are numbers, for tests of functions of cases."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A case that is a number."""

    value: float

    def describe(self):
        return {"value": self.value}


@dataclass(frozen=True)
class Numbers:
    """A family of cases, the numbers 1 to `period`, again and again."""

    name: str = "numbers"
    trials: int = 30
    required: int = 20
    period: int = 10**9

    def case(self, seed):
        return Number(1.0 + seed % self.period)
