"""The tables of `ntkfl verify --meta`, which measures the verifier itself.

The tables show how many mutants were killed, by statement and by kind, why other mutants survived, and how many false
alarms there were. A mutant is a wrong version of a form's formula; it is killed if the check calls it violated.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from bounds import Change, catalogue
from verification.false_alarms import FalseAlarms
from verification.mutation.matrix import Fate, MutantFound
from verification.tables import plain_table

WRONG = (Fate.KILLED, Fate.SURVIVED)


def matrix_table(every: Iterable[MutantFound]) -> Table:
    """A table with one row for each form.

    The columns are killed / total of the form's own mutants and of the standard mutants, the title, and why mutants
    survived.
    """
    columns = ("statement", "form", "own", "standard", "title; survivors")
    table = plain_table(columns, numbers=("own", "standard"), wrapped=("title; survivors",), gap=1)
    for (identifier, form), group in groupby(every, key=lambda mutant: (mutant.id, mutant.form)):
        mutants = list(group)
        own, standard = ([m for m in mutants if m.own is side] for side in (True, False))
        weak = any(m.fate is not Fate.KILLED for m in own)
        title = catalogue()[identifier].title if identifier in catalogue() else ""
        remarks = "; ".join(filter(None, (title, _survivors(mutants))))
        row = identifier, form.value, score(own), score(standard), remarks
        table.add_row(*(Text(cell, "bold red" if weak else "") for cell in row))
    return table


def sorts_table(mutants: Sequence[MutantFound]) -> Table:
    """A table with one row for each kind of mutant.

    The columns are killed and total, and the numbers of mutants that are left out, because they claim no more than the
    form or because they have no value.
    """
    columns = ("kind of mutant", "killed", "of", "claim no more", "no value")
    table = plain_table(columns, numbers=("killed", "of"), gap=1)
    for sort in Change:
        fates = Counter(mutant.fate for mutant in mutants if mutant.sort is sort)
        if fates:
            wrong = sum(fates[fate] for fate in WRONG)
            table.add_row(sort.value, *map(str, (fates[Fate.KILLED], wrong, fates[Fate.WEAKER], fates[Fate.NO_VALUE])))
    return table


def alarms_table(alarms: FalseAlarms) -> Table:
    """A table with one row for each form.

    The columns are the number of fresh runs, and how many were called violated, were left open, or are not counted.
    """
    columns = ("runs", "violated", "unresolved", "uncounted")
    table = plain_table(("statement", "form", *columns, "replay"), numbers=columns, wrapped=("replay",), gap=1)
    for form in alarms.forms:
        cells = form.id, form.form.value, *(str(getattr(form, name)) for name in columns), "; ".join(form.where)
        table.add_row(*(Text(cell, "bold red" if form.violated or form.errors else "") for cell in cells))
    return table


def matrix_totals(mutants: Sequence[MutantFound]) -> str:
    """One line that says how many mutants were killed, separately for the statements' own mutants and for the standard
    mutants.
    """
    own, standard = ([m for m in mutants if m.own is side] for side in (True, False))
    return f"mutants killed: {score(own)} of the statements' own, {score(standard)} of the standard ones"


def alarms_totals(alarms: FalseAlarms) -> str:
    """One line that says how many false alarms there are.

    The line also gives the largest probability of a false alarm that is consistent with the runs.
    """
    violated, runs, unresolved = (alarms.total(name) for name in ("violated", "runs", "unresolved"))
    return (
        f"{violated} false VIOLATED in {runs} runs of true statements (probability at most {alarms.at_most:.2g}, "
        f"97.5% one-sided), {unresolved} unresolved; first seeds {', '.join(map(str, alarms.first_seeds))}"
    )


def exposed(mutants: Iterable[MutantFound], alarms: FalseAlarms) -> list[str]:
    """Evidence against the verifier.

    The evidence consists of statements' own mutants that survived, false alarms, and checks that an exception ended.
    """
    remarks = [
        f"{m.id} ({m.form.value}): its own mutant {m.name!r} {m.fate.value} ({m.why or 'it is not wrong'})"
        for m in mutants
        if m.own and m.fate is not Fate.KILLED
    ]
    for form in alarms.forms:
        if form.violated:
            remarks.append(f"{form.id} ({form.form.value}): {form.violated} of {form.runs} runs called violated")
        if form.errors:
            remarks.append(f"{form.id} ({form.form.value}): an exception ended a check; to see it, run {form.where[0]}")
    return remarks


def meta_json(mutants: Iterable[MutantFound], alarms: FalseAlarms) -> dict[str, Any]:
    """The content of the tables in full, with every mutant and every form."""
    limit = {"violated_probability_at_most": alarms.at_most, "level": 0.975}
    totals = {name: alarms.total(name) for name in ("runs", "violated", "unresolved", "uncounted")}
    return {"mutants": [asdict(mutant) for mutant in mutants], "false_alarms": totals | limit | asdict(alarms)}


def score(mutants: Iterable[MutantFound]) -> str:
    """The text killed/total, where the total counts the mutants that claim more than the form."""
    fates = Counter(mutant.fate for mutant in mutants)
    return f"{fates[Fate.KILLED]}/{sum(fates[fate] for fate in WRONG)}"


def _survivors(mutants: list[MutantFound]) -> str:
    """The kinds of the mutants that survived, grouped by the reason that they have in common."""
    reasons: dict[str, Counter] = {}
    for mutant in mutants:
        if mutant.fate is Fate.SURVIVED:
            reasons.setdefault(mutant.why.split(", tightens")[0], Counter())[mutant.sort.value] += 1
    remarks = (
        f"{reason} ({', '.join(f'{count} {sort}' for sort, count in sorts.items())})"
        for reason, sorts in reasons.items()
    )
    return "; ".join(remarks)
