"""Examples for tests of reports: invented verdicts on every form of every statement, and a study. No case is run."""

from functools import cache

from bounds import Outcome, catalogue
from experiments.report.outcomes import shown
from experiments.report.site import built
from experiments.report.study_pages import AnswerRow, Figure, StudyPage
from experiments.report.verdict_file import VerdictFile
from verification.facts import Counts, Fact, Needed
from verification.sentences import What
from verification.verdict import Side, Verdict, Worst

HOSTILE = "<script>alert(1)</script>\"'&"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 60"><rect width="90" height="60" fill="teal"/></svg>'


def a_verdict(identifier, form, **changed) -> Verdict:
    """Returns a verdict with invented numbers and the recorded outcome."""
    statement = catalogue()[identifier]
    outcome = statement.forms[form].recorded
    violated = outcome is Outcome.VIOLATED
    fields = {
        "id": identifier,
        "form": form,
        "kind": statement.kind,
        "outcome": outcome,
        "recorded": outcome,
        "counts": Counts(
            holds=20 - 3 * violated,
            touches=0,
            unresolved=0,
            violated=3 * violated,
            rejected={h.name: 2 for h in statement.required(form)[:1]},
            margins={h.name: 0.5 for h in statement.required(form)},
        ),
        "worst": Worst(
            Side(0.25 + violated, 1e-12, "ball"),
            Side(0.5, 0.0, "exact"),
            {"cases": "toys", "case_seed": 3, "n": 4},
        ),
        "tightness": {"sharpest": 0.5 + 2 * violated, "median": 0.125},
        "vacuous": None,
        "witness": None,
        "confirmation": None,
        "mutants": {"halved": Outcome.VIOLATED, "doubled": Outcome.HOLDS},
        "necessity": {h.name: Needed.NO_CASE for h in statement.required(form)[1:]},
        "notes": (Fact(What.TEXT, {"text": "a caveat"}),),
        "replay": f"ntkfl verify {identifier} --form {form.value}",
        "provenance": {"versions": {"numpy": "2"}, "dtype": "float64"},
    }
    return Verdict(**(fields | changed))


def all_verdicts(**changed) -> tuple[Verdict, ...]:
    """Returns one verdict on every form."""
    return tuple(a_verdict(i, form, **changed) for i, s in catalogue().items() for form in s.forms)


def a_study(text: str = "it holds") -> StudyPage:
    """Returns a study with one answer and one figure."""
    figure = Figure(
        "chart", text, text, "studies/toy/chart.svg", "studies/toy/chart.csv", 90, 60, ("x", "y"), [("1", text)]
    )
    answer = AnswerRow(text, "fl-ntk/B.12", "-0.5", "-0.49 ± 0.02", text, shown(Outcome.HOLDS))
    return StudyPage(
        "toy",
        "studies/toy.html",
        f"Is it so? {text}",
        text,
        "1 answer: 1 holds.",
        4,
        1,
        [answer],
        [figure],
        [("width", text)],
        "ntkfl study run toy --out DIR",
        {"studies/toy/chart.svg": SVG, "studies/toy/chart.csv": b"x,y\n1,2\n"},
    )


@cache
def whole_run() -> VerdictFile:
    """Returns all verdicts, as one run of every statement gives them."""
    return VerdictFile(all_verdicts(), {"options": {"data": None, "seed": 0}, "complete": True})


@cache
def whole_site() -> dict[str, bytes]:
    """Returns the report of the whole run and of a study."""
    return built(whole_run(), [a_study()])
