"""How many cases a family of cases runs and how many a verdict needs, by the rules that most families follow."""

from __future__ import annotations

from typing import Any

from bounds.family import needed


class CountedDraw:
    """A family that runs `trials` seeds; a verdict needs 20 admitted cases, or 5 where no more than 20 are run."""

    trials: int

    @property
    def required(self) -> int:
        """Cases a verdict needs."""
        return needed(self.trials)


class DerivedDraw:
    """A family made from the cases of another one, `base`, as many of them."""

    base: Any

    @property
    def trials(self) -> int:
        """Seeds."""
        return self.base.trials

    @property
    def required(self) -> int:
        """Cases a verdict needs."""
        return self.base.required
