"""What may be checked apart: statements that share cases belong together, so that every case is built once."""

from collections.abc import Iterable
from dataclasses import dataclass

from bounds.options import Options
from bounds.statement import AnyFamily, Form, Statement
from verification.engine import chosen_forms
from verification.judging.families import families as judged_on
from verification.workers.durations import seconds


@dataclass(frozen=True)
class Unit:
    """Statements, in the order asked for, how many cases are drawn for them, and about how long it takes."""

    statements: tuple[str, ...]
    cases: int
    seconds: float


def units(statements: Iterable[Statement], options: Options, forms: Iterable[Form] | None = None) -> list[Unit]:
    """The statements in the smallest groups that share no family of cases, the longest first."""
    families: dict[str, set[AnyFamily]] = {}
    for statement, form in chosen_forms(statements, forms):
        drawn = families.setdefault(statement.id, set())
        try:
            drawn.update(judged_on(statement, form, options)[0])
        except Exception:
            continue  # its own verdict says so
    groups: list[tuple[set[str], set[AnyFamily]]] = []
    for identifier, shared in families.items():
        touching = [group for group in groups if group[1] & shared]
        groups = [group for group in groups if group not in touching]
        groups.append(({identifier}.union(*(g[0] for g in touching)), shared.union(*(g[1] for g in touching))))
    listed = [
        Unit(tuple(i for i in families if i in names), sum(d.trials for d in shared), sum(map(seconds, names)))
        for names, shared in groups
    ]
    return sorted(listed, key=lambda unit: unit.seconds, reverse=True)
