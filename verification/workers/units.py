"""Units of work for processes. Statements that share cases are in one unit, so that every case is built once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bounds import Form, Options, Statement
from bounds.case import AnyFamily
from verification.engine import chosen_forms
from verification.judging.families import families as judged_on

# Processor seconds for the default cases of each statement. The cases are drawn until they decide the statement's
# outcomes, and the start of a process is not counted. By these numbers work is handed out, the longest first; no
# verdict depends on them. Time that several statements share is counted for one of them. To measure a number anew, run
# `ntkfl verify ID --until-decided --processes 1` under `time`.
USUAL = 0.2  # cost of a statement that LONG lacks
LONG: dict[str, float] = {
    "deep/centralised": 12,  # includes the ladders of deep networks, which four other statements share
    "fl-ntk/B.12": 8,  # includes the runs at small steps on which most of appendices B and C is checked
    "fl-ntk/Eq18": 7,  # includes the ladder of widths, which twenty other statements share
    "fl-ntk/method-limits": 7,
    "deep/kinks": 6.5,
    "deep/any-method": 5.5,
    "fl-ntk/W-gram": 5,
    "fl-ntk/B.3": 5,
    "fl-ntk/Alg1-update": 5,  # four of these seconds compile every implementation
    "alignment/conjecture": 5,
    "fedgucci/X3": 4,
    "fl-ntk/C.7-error": 4,
    "fl-ntk/X.13b": 3.5,
    "fl-ntk/any-order": 3.5,
    "fedgucci/F9": 3,
    "deep/linearised": 2,
    "fl-ntk/convex-loss": 2,
    "fl-ntk/Eq3-4": 2,
    "fl-ntk/client-divergence": 1.5,
    "deep/centralised-steps": 1.5,
    "deep/federated-rounds": 1.5,
    "fedgucci/X5": 1.2,
    "fl-ntk/averaging-maps": 1,  # includes two other statements that are checked on the same cases
    "fl-ntk/block-conditioning": 1,
    "fl-ntk/L6.1": 1,
    "fl-ntk/C.11": 1,
    "fl-ntk/B.3-certificate": 1,
    "fl-ntk/B.3-unbounded-labels": 1,
    "deep/any-order": 1,
    "deep/any-order-losses": 1,
    "deep/kernel": 1,
    "fl-ntk/any-method": 0.7,
    "fl-ntk/T4.1": 0.5,
    "fl-ntk/X.5": 0.5,
    "fl-ntk/drawn-memory": 0.5,
    "fl-ntk/passes-with-memory": 0.5,
    "fl-ntk/rate-sides": 0.3,
    "fl-ntk/server-momentum": 0.4,
}

# Libraries, and code to compile, that take a process some two seconds to load, and the long statements that need them.
# Work is handed out by these names too; no verdict depends on them.
LOADS: dict[str, set[str]] = {
    "compiled passes of the simulator": {
        *("fl-ntk/B.12", "fl-ntk/Eq18", "fl-ntk/B.3", "fl-ntk/Alg1-update"),
        *("fl-ntk/B.3-certificate", "fl-ntk/B.3-unbounded-labels", "fl-ntk/L6.1"),
    },
    "torch": {
        *("deep/centralised", "deep/kinks", "deep/any-method", "deep/linearised", "deep/centralised-steps"),
        *("deep/federated-rounds", "deep/any-order", "deep/any-order-losses"),
        *("fl-ntk/method-limits", "fl-ntk/averaging-maps"),
        *("fl-ntk/client-divergence", "fl-ntk/block-conditioning", "alignment/conjecture"),
    },
}


def seconds(identifier: str) -> float:
    """The expected processor seconds of the statement with this id."""
    return LONG.get(identifier, USUAL)


@dataclass(frozen=True)
class Unit:
    """Statements in the given order.

    `cases` is the number of their cases, `seconds` their expected time, and `loads` has the libraries that they load.
    """

    statements: tuple[str, ...]
    cases: int
    seconds: float
    loads: frozenset[str] = frozenset()


def units(statements: Iterable[Statement], options: Options, forms: Iterable[Form] | None = None) -> list[Unit]:
    """The statements in the smallest groups that share no family of cases. The longest group comes first."""
    families: dict[str, set[AnyFamily]] = {}
    for statement, form in chosen_forms(statements, forms):
        drawn = families.setdefault(statement.id, set())
        try:
            drawn.update(judged_on(statement, form, options)[0])
        except Exception:
            continue  # the statement's own verdict reports the error
    groups: list[tuple[set[str], set[AnyFamily]]] = []
    for identifier, shared in families.items():
        touching = [group for group in groups if group[1] & shared]
        groups = [group for group in groups if group not in touching]
        groups.append(({identifier}.union(*(g[0] for g in touching)), shared.union(*(g[1] for g in touching))))
    listed = [
        Unit(
            tuple(i for i in families if i in names),
            sum(d.trials for d in shared),
            sum(map(seconds, names)),
            frozenset(load for load, needing in LOADS.items() if names & needing),
        )
        for names, shared in groups
    ]
    return sorted(listed, key=lambda unit: unit.seconds, reverse=True)


def kept_apart(work: Sequence[Unit], processes: int) -> list[Unit]:
    """The units, in which `loads` keeps only some libraries.

    A library is kept if the units that need it take, together, at most one process's share of the time.
    """
    share = sum(unit.seconds for unit in work) / processes
    loads = frozenset[str]().union(*(unit.loads for unit in work))
    apart = {load for load in loads if sum(unit.seconds for unit in work if load in unit.loads) <= share}
    return [replace(unit, loads=unit.loads & apart) for unit in work]


def next_for(loaded: frozenset[str], elsewhere: frozenset[str], waiting: Sequence[Unit]) -> int:
    """The place of the next unit for a process.

    If the process has loaded libraries, the next unit is the first unit that needs no other library. If there is no
    such unit, or if the process has loaded none, the next unit is the first unit that needs no library of `elsewhere`,
    which has the libraries that other processes have loaded. If there is no such unit either, the next unit is the
    first of all.
    """
    known = [place for place, unit in enumerate(waiting) if loaded and unit.loads <= loaded]
    free = [place for place, unit in enumerate(waiting) if not unit.loads & elsewhere]
    return [*known, *free, 0][0]
