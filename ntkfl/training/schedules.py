"""Local learning rates as functions of the round."""

from collections.abc import Callable
from dataclasses import dataclass

from ntkfl.messages import require_number, require_size

#: (number of the round, from 0) -> the local learning rate
Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Exponential:
    """rate * decay^number in round `number`. With decay 1 the rate is constant.

    The decay is .99 in the released code of FedGuCci and in the released code of IMA.
    """

    rate: float
    decay: float = 1.0

    def __post_init__(self) -> None:
        require_number("the learning rate", self.rate, "be 0 or more")
        require_number("the decay of the learning rate", self.decay, "lie in (0, 1]")

    def __call__(self, number: int) -> float:
        return self.rate * self.decay**number


@dataclass(frozen=True)
class Cyclic:
    """In each period of `period` rounds, the rate falls along a straight line from `high` to `low`, both included."""

    high: float = 1e-2
    low: float = 5e-5
    period: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ValueError(f"the cycle goes from {self.high:g} to {self.low:g}; it must fall, to 0 or more")
        require_size("the period in rounds", self.period, least=2)

    def __call__(self, number: int) -> float:
        return self.high - (self.high - self.low) * (number % self.period) / (self.period - 1)


@dataclass(frozen=True)
class ReleasedCycle(Cyclic):
    """The cycle of IMA's released code: the rate falls in the first half of a period and rises in the second.

    In round r of a period of p the rate is high - 2 r/p (high - low) in the first half and low + 2 r/p (high - low) in
    the second. So in the second half the rate rises from about `high` to nearly 2 `high` - `low`. The schedule in the
    paper's text is `Cyclic`.
    """

    def __call__(self, number: int) -> float:
        place = number % self.period
        slope = 2 * place / self.period * (self.high - self.low)
        return self.high - slope if 2 * place < self.period else self.low + slope


@dataclass(frozen=True)
class Switched:
    """One schedule before round `start`, then another schedule, whose round 0 is round `start`.

    For two choices in IMA's Table III the second schedule is a constant 5e-5 or `Cyclic()`. Another choice reduces the
    local passes instead of the rate, see `local_plan.FewerEpochs`.
    """

    before: Schedule
    after: Schedule
    start: int

    def __post_init__(self) -> None:
        require_size("the round in which the schedule switches", self.start, least=0)

    def __call__(self, number: int) -> float:
        return self.before(number) if number < self.start else self.after(number - self.start)


class MildExploration(Switched):
    """rate * decay^t in the rounds t < start, then rate * decay^start * late^(t - start), as IMA uses it.

    Source: IMA (arXiv:2305.07845), section 6.3 and Table I.
    """

    def __init__(self, rate: float, start: int, decay: float = 0.99, late: float = 0.97) -> None:
        before = Exponential(rate, decay)
        super().__init__(before, Exponential(before(start), late), start)
