"""All files of a report, which are pages, style, script and figures, and the function that writes them.

A verdict is the result of checking one form of a statement, that is, one version of its claim.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bounds import BEYOND, Form, Outcome, catalogue
from experiments.formulas.prose import prose
from experiments.report import folder
from experiments.report.comparison import Comparison
from experiments.report.conformance_pages import ConformancePage, conformance_page
from experiments.report.outcomes import Shown, shown
from experiments.report.statement_pages import FORM_TITLES, OF_FORMULAS, OF_VERDICTS, statement_pages
from experiments.report.study_pages import StudyPage, study_page
from experiments.report.verdict_file import VerdictFile
from ntkfl.conformance.conformance_page import COLUMNS, FAIR
from ntkfl.messages import number_of
from ntkfl.version import VERSION
from verification.facts import Data
from verification.findings.findings_page import MEANING, SETTLED, by_paper, counts_as_printed, of_papers, sentence
from verification.verdict import NOT_REFUTED, NOT_RUN, Verdict
from verification.verdict_list import totals

WORDS: dict[str, str] = {
    Outcome.HOLDS: "hold",
    NOT_REFUTED: NOT_REFUTED,
    Outcome.TOUCHES: "touch",
    Outcome.VIOLATED: "violated",
    Outcome.UNRESOLVED: "unresolved",
    Outcome.UNTESTED: "untested",
    NOT_RUN: NOT_RUN,
}
STATIC = ("style.css", "tables.js")


def built(
    run: VerdictFile | None,
    studies: Sequence[StudyPage] = (),
    changes: Comparison | None = None,
    implementations: Sequence[ConformancePage] = (),
) -> dict[str, bytes]:
    """Every file of the report, by its path in the folder.

    For the same verdicts, studies and implementations, the bytes are the same.

    Args:
        run: the verdicts; None: the report has no verdicts.
        studies: the studies, with a page for each; default none.
        changes: the changes since an earlier run; default None: the report has no page of changes.
        implementations: the results of conformance runs, with a page for each; default none.

    Raises:
        ValueError: two studies or two adapters have the same name.
    """
    named = [("folders have the study", study.name, study.path) for study in studies]
    named += [("files have the adapter", adapter.name, adapter.path) for adapter in implementations]
    paths = [path for _, _, path in named]
    for what, name, path in named:
        if paths.count(path) > 1:
            raise ValueError(f"two {what} {name}; a report shows one of each")
    papers = by_paper(run.verdicts) if run else []
    findings = [finding for paper in papers for finding in paper.differing]
    pages = statement_pages(run, findings) if run else []
    by_id = {page.statement.id: page for page in pages}
    menu = [("index.html", "Overview")]
    menu += [("index.html#studies", "Studies")] if studies else []
    menu += [("index.html#conformance", "Conformance")] if implementations else []
    menu += [("findings.html", "Findings")] if papers else []
    menu += [("changes.html", "What changed")] if changes is not None else []
    menu += [("provenance.html", "Provenance")] if run else []
    environment = Environment(
        loader=PackageLoader("experiments.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(prose=prose, sentence=sentence)
    environment.globals.update(
        {function.__name__: function for function in (*OF_FORMULAS, *OF_VERDICTS, headline, counts, outcomes, totals)},
        menu=menu,
        pages={identifier: page.path for identifier, page in by_id.items()},
        titles={identifier: statement.title for identifier, statement in catalogue().items()},
        version=VERSION,
        beyond=BEYOND,
        forms=list(Form),
        form_titles=FORM_TITLES,
        nature_meaning=MEANING,
        papers=papers,
        studies=studies,
        implementations=implementations,
        method_columns=COLUMNS,
        fair=FAIR,
        statement_page=by_id.__getitem__,
    )
    templates = resources("experiments.report") / "templates"
    files = {name: (templates / name).read_bytes() for name in STATIC}

    def add(path: str, template: str, **content: Any) -> None:
        page = environment.get_template(f"{template}.html.jinja")
        files[path] = page.render(path=path, root="../" * path.count("/"), **content).encode()

    add("index.html", "index", run=run, statements=pages, findings=findings)
    if papers:
        add("findings.html", "findings")
    if changes is not None:
        add("changes.html", "changes", changes=changes)
    if run:
        add("provenance.html", "provenance", tables=_tables(run.provenance))
    for page in pages:
        add(page.path, "statement", page=page)
        if page.image is not None:
            files[page.image] = page.picture
    for study in studies:
        add(study.path, "study", study=study)
        files.update(study.files)
    for implementation in implementations:
        add(implementation.path, "conformance", implementation=implementation)
    return files


def _tables(provenance: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The tables for a nested dictionary: one with its plain values, then one for each nested part."""
    nested = {name: part for name, part in provenance.items() if isinstance(part, Mapping)}
    rest = [(name, _shown(value)) for name, value in provenance.items() if name not in nested]
    tables = [("The run", rest)] if rest else []
    for name, part in nested.items():
        tables.append((name.capitalize(), [(str(key), _shown(value)) for key, value in part.items()]))
    return tables


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value)


def write_report(
    out: Path,
    verdicts: VerdictFile | None = None,
    studies: Iterable[Path] = (),
    changes: Comparison | None = None,
    conformance: Iterable[Path] = (),
) -> Path:
    """Write the report, and return the path of its first page.

    Args:
        out: the folder of the report, which is new, empty, or an older report.
        verdicts: as `verdict_file.read` reads them; default none.
        studies: folders of studies; default none.
        changes: the changes from an older run to this one, by `comparison.compared`; default none.
        conformance: files that `ntkfl conform run --json` wrote; default none.

    Raises:
        ValueError, OSError: the folder has other files or cannot be written; a study has no results; or a file is not
            from a conformance run.
    """
    folder.check(out)
    implementations = [conformance_page(path) for path in conformance]
    folder.write(built(verdicts, [study_page(path) for path in studies], changes, implementations), out)
    return out / "index.html"


def counts(verdicts: Sequence[Verdict]) -> list[tuple[str, list[str]]]:
    """For each paper and kind of form, how many forms have each outcome, as text; empty if there is no such form."""
    rows = []
    for paper, own in of_papers(verdicts):
        by_form = [Counter(v.word for v in own if v.form is form) for form in Form]
        rows.append((paper, [", ".join(f"{n[w]} {word}" for w, word in WORDS.items() if n[w]) for n in by_form]))
    return rows


def outcomes(verdicts: Sequence[Verdict]) -> list[Shown]:
    """The outcomes that occur, with the worst first."""
    shown_outcomes = {shown(v.outcome, untried=v.would_exclude is not None, not_run=v.not_run) for v in verdicts}
    return sorted(shown_outcomes, key=lambda outcome: outcome.rank)


def headline(verdicts: Sequence[Verdict]) -> str:
    """The result of a run in one line.

    If there are verdicts on the user's data, the line counts these. Otherwise it counts printed claims and forms of the
    user's own statements.
    """
    on_data = [v for v in verdicts if v.own_data]
    if on_data:
        outcomes_there = Counter(v.outcome for v in on_data)
        untried = sum(v.would_exclude is not None for v in on_data)
        tried = [v for v in on_data if v.would_exclude is None]
        others = [
            (untried, NOT_REFUTED),
            (outcomes_there[Outcome.VIOLATED], "violated"),
            (outcomes_there[Outcome.UNTESTED], "could not be tested"),
            (outcomes_there[Outcome.UNRESOLVED], "unresolved"),
        ]
        holding = _of(tried, "form", count=len(on_data))
        summary = ", ".join([f"On your data, {holding}", *(f"{n} {what}" for n, what in others if n)])
        elsewhere = sum(verdict.fails_elsewhere for verdict in on_data)
        summary += f"; {elsewhere} {'fails' if elsewhere == 1 else 'fail'} elsewhere" if elsewhere else ""
        unused = sum(verdict.data is Data.UNUSED for verdict in verdicts)
        return summary + (f"; {number_of(unused, 'other form')} not about data" if unused else "")
    own = [v for v in verdicts if "statement" in v.provenance]
    printed = [v for v in verdicts if "statement" not in v.provenance and counts_as_printed(v)]
    parts = [_of(printed, "printed claim", (" as it stands", " as they stand"))] if printed or not own else []
    parts += [_of(own, "form of your own")] if own else []
    summary = "; ".join(parts)
    return summary[0].upper() + summary[1:]


def _of(verdicts: Sequence[Verdict], what: str, how: tuple[str, str] = ("", ""), count: int | None = None) -> str:
    """A text such as "of 3 forms, 2 hold".

    `how` has two texts: the words after "holds", and the words after "hold".
    """
    right, count = sum(v.outcome in SETTLED for v in verdicts), len(verdicts) if count is None else count
    noun = what if count == 1 else what.replace("form", "forms").replace("claim", "claims")
    return f"of {count} {noun}, {right} {f'holds{how[0]}' if right == 1 else f'hold{how[1]}'}"
