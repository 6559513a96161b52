"""A miniature: the compared settings, the measured quantities, and the paper's claims about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ntkfl.messages import did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Keys = Mapping[str, Any]  # names with plain values, as in JSON
Measure = Callable[[Keys, int], Mapping[str, float | Sequence[float]]]
Sign = Literal["higher", "lower"]
EMPTY: Mapping[str, Any] = MappingProxyType({})
SMALL, MIDDLE, PAPER = SCALES = ("small", "middle", "paper")


@dataclass(frozen=True)
class Quantity:
    """A number that a miniature measures.

    Args:
        name: the name in the table.
        unit: the unit in the table.
        printed: the fields that select the rows of this quantity in paper_numbers.csv; None: the paper prints no
            numbers.
        last: if `Miniature.measure` gives a curve, with a value for each round, the number is the mean of its last
            `last` values.
        flat: a curve that changes by less than this over its last third is at its plateau; None: it is not decided
            whether curves are at a plateau.
        chance: the value of a model that has learnt nothing; orderings of such values mean nothing; None: there is no
            such value.
        resolution: a function that takes the keys of a setting and returns the smallest difference that counts, such as
            one test image.
    """

    name: str
    unit: str
    printed: Keys | None = None
    last: int = 1
    flat: float | None = None
    chance: float | None = None
    resolution: Callable[[Keys], float] = lambda keys: 0.0


@dataclass(frozen=True)
class Setting:
    """One of the compared settings.

    Args:
        name: the name in the table.
        keys: the keys that `Miniature.measure` takes.
        against: the baseline of this setting; None: the setting is itself a baseline.
        control: the name of a setting that shares only the step size with this one; None: there is no such setting, or
            it is `against`. If the baseline has a control too, the two differences from the controls are compared.
        printed: further fields that select the rows of this setting in paper_numbers.csv; None: the paper has no such
            row.
        claim: what the paper claims about the comparison in each quantity, if it prints no numbers.
    """

    name: str
    keys: Keys
    against: str | None = None
    printed: Keys | None = None
    claim: Mapping[str, Sign] = field(default_factory=dict)
    control: str | None = None


@dataclass(frozen=True)
class Miniature:
    """Settings that are compared; for a given seed, all have the same data, initial models, cohorts and batches.

    Args:
        name: the name on the command line.
        question: the question that the miniature answers.
        source: the paper, and the label of the table or figure.
        scale: the numbers that are smaller than in the paper: for each name, (the paper's number, the number here).
        measure: a function that takes the keys of a setting and a seed. It returns the quantities, each of which is a
            number or a curve.
        seeds: default number of seeds.
        caveat: a text on the limits of the numbers.
        quick: keys that replace those of a setting for a quick trial.
        draw: a function that takes keys, which replace those of a setting, and returns a picture for the first seed.
        picture: the path of this picture in the repository.
        at: the scale of this miniature, one of SCALES.
        larger: the miniatures of the same question on larger scales, by the name of the scale.
        no_paper: the reason why the miniature does not exist on the paper's own scale.
        keeps_rounds: whether `measure` takes a key `keep`, which names a folder in which every round is stored.
    """

    name: str
    question: str
    source: str
    scale: Mapping[str, tuple[str, str]]
    settings: tuple[Setting, ...]
    quantities: tuple[Quantity, ...]
    measure: Measure
    seeds: int = 3
    caveat: str = ""
    quick: Keys = field(default_factory=dict)
    draw: Callable[[Keys], Figure] | None = None
    picture: str = ""
    at: str = SMALL
    larger: Mapping[str, Miniature] = field(default_factory=dict)
    no_paper: str = ""
    keeps_rounds: bool = False

    def __post_init__(self) -> None:
        names = [setting.name for setting in self.settings]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name} has two settings of one name; its settings are {', '.join(names)}")
        for setting in self.settings:
            for other in (setting.against, setting.control):
                if other is not None and other not in names:
                    raise ValueError(f"{setting.name!r} is compared with {other!r}, which is not in {self.name}")
            unknown = set(setting.claim) - {quantity.name for quantity in self.quantities}
            if unknown:
                raise ValueError(f"{setting.name!r} has a claim about {min(unknown)!r}, which is not measured")

    @property
    def label(self) -> str:
        """The miniature's name, followed by its scale unless this is the small scale.

        Files and sections have this name.
        """
        return self.name if self.at == SMALL else f"{self.name}-{self.at}"

    def on(self, scale: str) -> Miniature:
        """The miniature of the same question on this scale.

        Args:
            scale: its name.

        Raises:
            ValueError: the scale is unknown (the message has the nearest one), or the miniature does not exist on this
                scale (the message has the reason).
        """
        if scale not in SCALES:
            raise ValueError(f"there is no scale {scale!r}.{did_you_mean(scale, SCALES)} They are {', '.join(SCALES)}")
        by_scale = {self.at: self, **self.larger}
        if scale not in by_scale:
            why = f": {self.no_paper}" if scale == PAPER and self.no_paper else ""
            raise ValueError(f"{self.name} does not exist on the scale {scale!r}{why}; it is on {', '.join(by_scale)}")
        return by_scale[scale]

    def also(
        self, at: str, settings: tuple[Setting, ...], here: Mapping[str, str] = EMPTY, adds: str = "", **changes: Any
    ) -> Miniature:
        """The miniature with a version on a larger scale added, in which every round of a run is stored.

        Args:
            at: the scale's name.
            settings: the settings on that scale, in place of the present ones.
            here: values on the new scale that differ from the paper's, by the name of the number in `scale`; default
                none.
            adds: a text to add to the caveat; default none.
            changes: other fields of the new version.
        """
        scale = {what: (paper, here.get(what, paper)) for what, (paper, _) in self.scale.items()}
        if adds:
            changes["caveat"] = f"{self.caveat} {adds}"
        of_runs: dict[str, Any] = {"larger": {}, "keeps_rounds": True}
        there = replace(self, at=at, settings=settings, scale=scale, **of_runs | changes)
        return replace(self, larger={**self.larger, at: there})
