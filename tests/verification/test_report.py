"""Tests of reports: outcomes are the same in every format, counts add up, and JSON is strict.

No name that a user gives breaks Markdown.
"""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st
from rich.console import Console
from typed import command

from bounds import Form, Kind, Options, Outcome, catalogue, get
from verification import verify
from verification.facts import (
    Confirmation,
    Counts,
    Data,
    Elsewhere,
    Fact,
    Needed,
    Standing,
    Unmet,
    Vacuous,
    Where,
    Witness,
)
from verification.plain_text import claim_lines, plain
from verification.sentences import What
from verification.verdict import COUNTS, MOVED, Side, Verdict, Worst
from verification.verdict_list import (
    as_json,
    as_markdown,
    escaped,
    markdown_table,
    news_lines,
    table,
    totals,
    untested_lines,
    worst_first,
)
from verification.verdict_page import amount, as_text

REQUIRED_KEYS = (
    "id form kind outcome vacuous trials rejected lhs rhs tightness mutants_killed mutants_total replay".split()
)
FOUND = [outcome for outcome in Outcome if outcome is not Outcome.OPEN]
NUMBERS = st.floats(allow_nan=False)
NAMES = st.text(max_size=12)
SIZES = st.dictionaries(NAMES, NUMBERS, max_size=2)


def text(said: str) -> Fact:
    return Fact(What.TEXT, {"text": said})


FACTS = st.one_of(
    st.builds(text, NAMES),
    st.builds(lambda how: Fact(What.DOUBTED, {"how": Fact(What.OPEN_AT, {"computed": how})}), NAMES),
    st.builds(
        lambda *left: Fact(What.OTHER_NETWORKS, dict(zip(("agree", "value", "error"), left, strict=True))),
        st.booleans(),
        NUMBERS,
        NUMBERS,
    ),
    st.builds(lambda sizes: Fact(What.BEYOND_PREMISE, {"count": 2, "sizes": sizes}), SIZES),
)


def verdict(**changed) -> Verdict:
    counted = {"holds": 20, "touches": 0, "unresolved": 0, "violated": 0}
    counted |= {name: changed.pop(name) for name in COUNTS & changed.keys()}
    fields = {
        "id": "toy/1",
        "form": Form.STATED,
        "kind": Kind.UPPER,
        "outcome": Outcome.HOLDS,
        "recorded": Outcome.HOLDS,
        "counts": Counts(**counted),
        "worst": Worst(Side(0.25, 1e-12, "ball"), Side(0.5, 0.0, "exact"), {"cases": "toys", "case_seed": 3, "n": 4}),
        "tightness": {"sharpest": 0.5, "median": 0.125},
        "vacuous": None,
        "witness": None,
        "confirmation": None,
        "mutants": {"halved": Outcome.VIOLATED, "doubled": Outcome.HOLDS},
        "necessity": {"unit-rows": Needed.NO_CASE},
        "notes": (text("a caveat"),),
        "replay": "ntkfl verify toy/1",
    }
    return Verdict(**(fields | changed))


@st.composite
def verdicts(draw) -> Verdict:
    holds, touches, unresolved, violated = (draw(st.integers(0, 50)) for _ in range(4))
    outcome = draw(st.sampled_from(FOUND))
    side = st.builds(Side, NUMBERS, st.floats(0, allow_nan=False), NAMES)
    return verdict(
        id="toy/" + draw(NAMES),
        form=draw(st.sampled_from(list(Form))),
        kind=draw(st.sampled_from(list(Kind))),
        outcome=outcome,
        recorded=draw(st.sampled_from(list(Outcome))),
        holds=holds,
        touches=touches,
        unresolved=unresolved,
        violated=violated,
        rejected=draw(st.dictionaries(NAMES, st.integers(1, 99), max_size=2)),
        worst=draw(st.none() | st.builds(Worst, side, side, st.dictionaries(NAMES, st.integers() | NAMES, max_size=3))),
        would_exclude=draw(st.none() | st.floats(0, 1)) if outcome is Outcome.HOLDS else None,
        tightness=draw(st.none() | st.fixed_dictionaries({"sharpest": NUMBERS, "median": NUMBERS})),
        notes=tuple(draw(st.lists(FACTS, max_size=2))),
        confirmation=draw(st.none() | st.builds(Confirmation, st.sampled_from(Standing), FACTS)),
        search=draw(st.none() | FACTS),
        complete=draw(st.booleans()),
        vacuous=draw(st.none() | st.builds(Vacuous, SIZES, SIZES, st.none() | NUMBERS)),
        witness=draw(
            st.none()
            | st.builds(Witness, NUMBERS, st.sampled_from(FOUND), st.just(()) | st.tuples(NAMES), st.none() | FACTS)
        ),
        necessity=draw(st.dictionaries(NAMES, st.sampled_from(Needed), max_size=2)),
        data=draw(st.sampled_from(Data)),
        elsewhere=draw(st.none() | st.builds(Elsewhere, st.sampled_from(Where), st.none() | NUMBERS)),
        unmet=draw(st.dictionaries(NAMES, st.builds(Unmet, NAMES, NAMES, st.booleans()), max_size=2)),
    )


def not_refuted(**changed) -> Verdict:
    return verdict(holds=60, would_exclude=0.0596, **changed)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("vacuous", "left/right 2", "an object with at_least, at_most, factor"),
        ("necessity", {"unit-rows": "shown"}, "one of 'needed', "),
        ("outcome", "shown", "one of 'holds', "),
        ("outcome", "open", "an outcome of a check, which is never open"),
        ("standing", "shown", "one of 'confirmed', "),
        ("holds", "20", "a whole number of at least 0"),
        ("holds", -1, "a whole number of at least 0"),
        ("violated", True, "a whole number of at least 0"),
        ("rejected", [], "an object"),
        ("rejected", {"unit-rows": 1.5}, "a whole number of at least 0"),
        ("margins", {"unit-rows": "0.5"}, 'a number, or "inf", "-inf", "nan"'),
        ("lhs", 0.25, "an object with value, error, method"),
        ("lhs", None, "an object with value, error, method"),
        ("rhs", {"value": None, "error": 0.0, "method": "exact"}, 'a number, or "inf"'),
        ("tightness", 2, "an object"),
        ("worst_case", [3], "an object"),
        ("mutants", {"halved": "dead"}, "one of 'holds', "),
        ("notes", "a caveat", "a list"),
        ("notes", [7], "a fact with its values, or a text"),
        ("notes", [{"what": "rumour", "values": {}}], "one of 'text', "),
        ("notes", [{"what": "unresolved", "values": {"trials": 4}}], "the values of 'unresolved'"),
        ("notes", [{"what": "not refuted", "values": {"trials": 4, "allowed": "a", "limit": 0.5}}], "the values of"),
        ("search", 7, "a fact with its values, or a text"),
        ("replay", None, "a text"),
        ("provenance", "numpy", "an object"),
        ("provenance", {"versions": "numpy"}, "an object"),
        ("provenance", {"statement": {"file": 3}}, "a text"),
        ("error", 3, "a text"),
        ("complete", "yes", "true or false"),
        ("own_data", 1, "true or false"),
        ("would_exclude", "6%", "a number"),
        ("unmet", {"small": {"found": 3}}, "a text"),
        ("witness", {"ratio": 2.0, "outcome": "violated", "unmet": "small", "fallen": None}, "a list"),
        ("elsewhere", {"where": "moon", "ratio": None}, "one of 'stored case', "),
        ("seen", {"cases": 3}, "the columns of a picture's cases"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place_and_what_it_may_be(name, value, right):
    with pytest.raises(ValueError) as refusal:
        Verdict.from_json(verdict().to_json() | {name: value})
    said, inner = str(refusal.value), value
    while isinstance(inner, dict | list) and len(inner) == 1:
        inner = inner[0] if isinstance(inner, list) else next(iter(inner.values()))
    assert f"; here it is {right}" in said and said.endswith(": verify again")
    assert name in said.partition(" is ")[0] or name in ("standing", "lhs", "rhs", "worst_case")
    assert repr(inner)[:20] in said or name == "notes" or inner is None or isinstance(inner, dict)


def test_a_file_of_the_version_with_sentences_is_read_and_written_with_the_same_values():
    content = json.loads((Path(__file__).parent / "verdicts_with_sentences.json").read_text(encoding="utf-8"))
    for old in content["verdicts"]:
        read = Verdict.from_json(old)
        page, new = as_text(read, width=10_000), read.to_json()
        said = [*old["notes"], old["confirmation"] or ""]
        assert all(page.count(sentence) == 1 for sentence in said if sentence)
        assert [note["text"] for note in new["notes"]] == old["notes"] and Verdict.from_json(new) == read
        assert (new["confirmation"] or {}).get("text") == old["confirmation"]
        assert {name for name in old if old[name] != new[name]} <= {"notes", "confirmation", "evidence"}


def changed_at_each_place(content, wrong):
    """Yields the content with each of its values replaced in turn, and the place of the replacement."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in parts:
        for other, place in [*((value, ()) for value in wrong), *changed_at_each_place(part, wrong)]:
            whole = (
                content | {key: other} if isinstance(content, dict) else [*content[:key], other, *content[key + 1 :]]
            )
            yield whole, (key, *place)


def test_a_file_with_any_value_of_another_type_is_refused_or_reported():
    """A file with any value of another type is refused or reported.

    Every file that is read can be printed, and an edited file raises nothing but a ValueError.
    """
    content = json.loads((Path(__file__).parent / "verdicts_with_sentences.json").read_text(encoding="utf-8"))
    new = [Verdict.from_json(old).to_json() for old in content["verdicts"]]
    read, refused = 0, 0
    for entry in [*content["verdicts"][:1], *new]:
        for edited, place in changed_at_each_place(entry, (None, True, -1, 10**400, "x", [], {}, [0], {"a": 0})):
            try:
                verdict = Verdict.from_json(edited)
            except ValueError:
                refused += 1
                continue
            if place[0] != "evidence" and verdict != Verdict.from_json(entry):
                read += 1
                as_text(verdict), totals([verdict]), markdown_table([verdict]), news_lines([verdict]), verdict.to_json()
    assert read > 100 and refused > 1000


@pytest.mark.parametrize("name", ["id", "holds", "notes", "lhs"])
def test_a_field_that_is_missing_is_named(name):
    content = verdict().to_json()
    del content[name]
    with pytest.raises(ValueError, match=r"here it is|has no"):
        Verdict.from_json(content)


def test_each_fact_has_a_sentence_and_each_old_name_says_the_new():
    assert all(callable(what.sentence) for what in What)
    for name, new in MOVED.items():
        with pytest.raises(TypeError, match=f"Verdict has no {name}: .*{re.escape(new[-8:])}"):
            verdict(**{name: 0}) if name not in COUNTS else Verdict(**{name: 0})
        if name != "own_data":  # Verdict still has an attribute `own_data`.
            with pytest.raises(AttributeError, match=f"Verdict has no {name}: "):
                getattr(verdict(), name)


@settings(deadline=None, max_examples=50)
@given(verdicts())
def test_strict_json_gives_the_verdict_back(verdict):
    written = json.dumps(as_json([verdict], {"seeds": {}}), allow_nan=False)
    read = json.loads(written)
    assert list(read) == ["provenance", "verdicts"]
    assert set(REQUIRED_KEYS) <= read["verdicts"][0].keys()
    content = read["verdicts"][0]
    assert Verdict.from_json(content) == verdict
    assert content["trials"] == sum(content[name] for name in ("holds", "touches", "unresolved", "violated"))
    killed = [name for name, fate in content["mutants"].items() if fate == "violated"]
    assert (content["mutants_killed"], content["mutants_total"]) == (len(killed), len(content["mutants"]))


def test_infinite_numbers_are_strings_in_json():
    written = verdict(
        worst=Worst(Side(float("inf"), 0.0, "exact"), Side(1.0, 0.0, "exact")),
        tightness={"sharpest": float("inf"), "median": 1.0},
    ).to_json()
    assert written["lhs"]["value"] == "inf" and written["tightness"] == {"sharpest": "inf", "median": 1.0}


@settings(deadline=None, max_examples=30)
@given(verdicts())
def test_the_counts_of_a_page_add_up(verdict):
    page = as_text(verdict, width=10_000)
    drawn, rejected, trials = map(int, re.search(r"(\d+) drawn = (\d+) rejected \+ (\d+) trials", page).groups())
    assert drawn == rejected + trials == sum(verdict.counts.rejected.values()) + verdict.trials
    parts = re.search(r"(\d+) trials = (\d+) holds \+ (\d+) touches \+ (\d+) unresolved \+ (\d+) violated", page)
    trials, *counts = map(int, parts.groups())
    assert trials == sum(counts) == verdict.trials


@settings(deadline=None, max_examples=30)
@given(st.lists(verdicts(), max_size=5), st.booleans())
def test_worst_first_and_totals_account_for_every_verdict(several, own_data):
    several = [replace(verdict, data=Data.OWN if own_data else Data.BUILT_IN) for verdict in several]
    order = worst_first(several)
    ranks = [
        (not v.contradicts_record, "violated unresolved untested touches holds".split().index(v.outcome)) for v in order
    ]
    assert ranks == sorted(ranks) and len(order) == len(several)
    line = totals(several)
    counts = [
        int(c) for c in re.findall(r"(\d+) (?:hold|not refuted|touch|untested|unresolved|violated)", line.split(";")[0])
    ]
    assert sum(counts) == len(several) and "\n" not in line
    differ = int(re.search(r"; (\d+) ", line)[1])
    assert differ == sum(v.contradicts_record for v in several)


def test_totals_in_words():
    verdicts = [
        verdict(),
        verdict(outcome=Outcome.TOUCHES),
        verdict(outcome=Outcome.VIOLATED, recorded=Outcome.VIOLATED),
    ]
    assert totals(verdicts) == "3 verdicts: 1 hold, 1 touch, 1 violated as recorded; 0 differ from what is recorded"
    assert totals([verdict(outcome=Outcome.VIOLATED)]).endswith(
        "1 violated against the record; 1 differs from what is recorded"
    )
    opened = verdict(outcome=Outcome.VIOLATED, recorded=Outcome.OPEN)
    assert totals([verdict(), opened]) == (
        "2 verdicts: 1 hold, 1 violated, recorded open; 0 differ from what is recorded"
    )
    assert totals([verdict(), not_refuted()]) == ("2 verdicts: 1 hold, 1 not refuted; 0 differ from what is recorded")
    assert totals([]) == "0 verdicts: none finished; 0 differ from what is recorded"


@pytest.mark.parametrize("outcome", FOUND)
@pytest.mark.parametrize("recorded", [Outcome.HOLDS, Outcome.VIOLATED])
def test_on_own_data_only_the_violation_of_what_holds_contradicts(outcome, recorded):
    theirs = verdict(outcome=outcome, recorded=recorded)
    expected = outcome is Outcome.VIOLATED and recorded is Outcome.HOLDS
    mine = replace(theirs, data=Data.OWN)
    assert mine.contradicts_record is expected
    assert theirs.contradicts_record is not theirs.as_recorded
    assert ("DIFFERS" in as_text(mine)) is expected


@pytest.mark.parametrize("outcome", FOUND)
@pytest.mark.parametrize("own_data", [False, True])
def test_a_form_recorded_open_is_neither_as_recorded_nor_against_the_record_once_it_is_violated(outcome, own_data):
    settled = verdict(outcome=outcome, recorded=Outcome.OPEN, data=Data.OWN if own_data else Data.UNUSED)
    assert settled.refutes_open is (outcome is Outcome.VIOLATED) is not settled.as_recorded
    assert not settled.contradicts_record
    assert ("nobody has settled it" in as_text(settled, width=200)) is settled.refutes_open
    failed = replace(settled, error="KeyError: 1")
    assert not failed.refutes_open and failed.contradicts_record


@pytest.mark.parametrize("outcome", FOUND)
def test_only_what_was_tested_to_the_end_and_holds_is_tested_and_holds(outcome):
    theirs = verdict(outcome=outcome)
    assert theirs.tested_and_holds is (outcome in (Outcome.HOLDS, Outcome.TOUCHES))
    for unlike in ({"complete": False}, {"error": "KeyError: 1"}):
        assert not replace(theirs, **unlike).tested_and_holds
    assert not not_refuted(outcome=outcome).tested_and_holds


def test_what_needs_pytorch_where_it_is_missing_is_not_run_and_neither_differs_nor_passes(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    result = command("verify", "deep/any-order", "--trials", "1", "--processes", "1")
    assert result.exit_code == 2
    words = "deep/any-order (new) NOT RUN: it needs PyTorch, which is not installed (pip install 'ntkfl[train]')"
    assert words in " ".join(result.stdout.split())  # The terminal breaks lines.
    assert "1 verdict: 1 not run; 0 differ from what is recorded\nnot run (1): it needs PyTorch" in result.stdout
    (missing,) = verify(get("deep/any-order"), Options(trials=1))
    assert missing.not_run and Verdict.from_json(missing.to_json()) == missing
    for own in (missing, replace(missing, data=Data.OWN)):
        assert not (own.contradicts_record or own.as_recorded or own.tested_and_holds or own.weakly_tested)
    several = [verdict(), missing, missing, verdict(error="KeyError: 1", outcome=Outcome.UNRESOLVED)]
    assert totals(several) == (
        "4 verdicts: 1 hold, 2 not run, 1 unresolved; 1 differs from what is recorded; 1 ended by an error"
    )
    assert untested_lines(several) == [
        "not run (2): it needs PyTorch, which is not installed (pip install 'ntkfl[train]')"
    ]
    assert "FAILED" not in " ".join(markdown_table([missing]))


def test_what_the_trials_cannot_test_is_said_to_be_not_refuted_and_holds_in_json():
    unrefuted = not_refuted()
    first = as_text(unrefuted, width=300).splitlines()[0]
    assert first == (
        "toy/1 (stated)  NOT REFUTED: no violation in 60 trials; they would have excluded a failure probability of "
        "6.0% or more, the claim allows less"
    )
    written = json.loads(json.dumps(unrefuted.to_json()))
    assert (written["outcome"], written["would_exclude"]) == ("holds", 0.0596)
    assert Verdict.from_json(written) == unrefuted and unrefuted.word == "not refuted"
    old = {name: value for name, value in written.items() if name != "would_exclude"}
    assert Verdict.from_json(old).would_exclude is None
    (row,) = rows(as_markdown([unrefuted]))[2:]
    assert row.startswith("| not refuted |") and "would exclude 6.0%" in row
    assert "not refuted" not in as_markdown([verdict()])


def test_a_verdict_prints_as_its_page():
    assert str(verdict()) == as_text(verdict())


def test_the_first_line_is_the_answer():
    broken = verdict(
        outcome=Outcome.VIOLATED,
        worst=Worst(Side(0.412, 3e-14, "ball"), Side(0.371, 2e-14, "ball")),
        violated=2,
        holds=18,
    )
    first = as_text(broken).splitlines()[0]
    assert first.startswith("toy/1 (stated)  VIOLATED: left 0.412 > right 0.371; 2 of 20 trials violate it")
    assert "DIFFERS" in as_text(broken) and "DIFFERS" not in as_text(replace(broken, recorded=Outcome.VIOLATED))
    untested = verdict(
        outcome=Outcome.UNTESTED,
        notes=(Fact(What.TOO_FEW, {"admitted": 3, "required": 20, "hypothesis": None, "rejected": 0}),),
    )
    assert "UNTESTED: 3 admitted cases of 20 required" in as_text(untested)


def test_sides_that_differ_late_are_shown_to_differ():
    close = verdict(
        outcome=Outcome.VIOLATED,
        worst=Worst(Side(1.0000000002, 1e-13, "ball"), Side(1.0, 0.0, "exact")),
        tightness={"sharpest": 1 - 4.1e-11, "median": 0.5},
    )
    page = as_text(close, width=200)
    assert "left 1.0000000002 > right 1" in page.splitlines()[0]
    assert "sharpest 1-4.1e-11" in page


def test_a_page_names_mutants_that_survive_and_every_caveat():
    page = as_text(verdict(vacuous=Vacuous({"m": 1e17}, {"eta_l": 1e-9}), notes=(text("first"), text("second"))))
    assert "1 of 2 killed: halved" in page and "survived: doubled (holds)" in page
    assert "no case to run the 2 on" in as_text(verdict(holds=0, outcome=Outcome.UNTESTED))
    assert "asks for m >= 1e+17, eta_l <= 1e-09" in page and "[1] first" in page and "[2] second" in page
    assert page.rstrip().endswith("ntkfl verify toy/1")


@settings(deadline=None, max_examples=30)
@given(verdicts())
def test_no_report_says_that_a_statement_is_proved(verdict):
    verdict = replace(verdict, form=Form.REPAIRED)
    console = Console(width=120, file=None, color_system=None)
    with console.capture() as captured:
        console.print(table([verdict]))
    reports = [as_text(verdict), as_markdown([verdict]), totals([verdict]), captured.get()]
    assert not any("proved" in report.lower() for report in reports) or "proved" in repr(verdict).lower()


@settings(deadline=None, max_examples=30)
@given(verdicts())
def test_names_cannot_break_a_markdown_table_or_code_block(verdict):
    report = as_markdown([verdict])
    cells = [re.findall(r"(?<!\\)(?:\\\\)*\|", row) for row in rows(report)[:3]]
    assert {len(bars) for bars in cells} == {9}
    fence = re.search(r"^(`{3,})text$", report, re.M)[1]
    assert [line for line in report.splitlines() if line.startswith(fence)] == [fence + "text", fence]


def test_markdown_escapes_what_it_would_read():
    assert escaped("a|b `c` <d> *e*\nf") == r"a\|b \`c\` \<d\> \*e\* f"
    hostile = verdict(worst=Worst(Side(0.5, 0.0, "a"), Side(1.0, 0.0, "b"), {"problem": "```\n| evil |"}))
    assert "````text" in as_markdown([hostile])


def test_what_is_new_comes_first_and_known_failures_are_said_to_be_as_recorded():
    known = verdict(outcome=Outcome.VIOLATED, recorded=Outcome.VIOLATED)
    fine = verdict()
    assert news_lines([fine, known]) == ["nothing differs from what is recorded; 1 known failure is as recorded"]
    assert news_lines([fine, fine]) == ["nothing differs from what is recorded"]
    new = verdict(outcome=Outcome.VIOLATED)
    first, replay = news_lines([fine, known, new])
    assert "DIFFERS" in first and replay.strip() == new.replay
    remarks = [row.rpartition(" | ")[2] for row in markdown_table([known, new, fine])[2:]]
    assert ["as recorded" in remark for remark in remarks] == [True, False, False]
    assert news_lines([verdict(data=Data.OWN)]) == []


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_its_terminal_and_has_no_colour_codes_when_piped(width):
    longest = max(catalogue(), key=len)
    verdicts = [
        verdict(id=longest, form=Form.REPAIRED, outcome=Outcome.UNRESOLVED, vacuous=Vacuous(factor=2.0)),
        verdict(),
    ]
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table(verdicts))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width and "\x1b" not in captured.get()
    (place,) = (n for n, line in enumerate(lines) if longest in line and "unresolved" in line and "1/2" in line)
    assert lines[place + 1].split() and catalogue()[longest].title.startswith(" ".join(lines[place + 1].split()[:4]))


def test_every_form_of_every_statement_has_a_claim():
    for identifier, statement in catalogue().items():
        for form, formula in statement.forms.items():
            lines = claim_lines(statement, form)
            assert len(lines) >= len(formula.parts), (identifier, form)
            assert not any("*" in line or "lambda" in line or "eta" in line.replace("beta", "") for line in lines)


def test_a_formula_that_nobody_reads_is_left_out():
    statement = catalogue()["deep/kernel"]
    parts = statement.forms[Form.NEW].parts
    lines = claim_lines(statement, Form.NEW)
    longest = max(range(len(parts)), key=lambda part: len(plain(parts[part])))
    assert f"= a formula of {len(plain(parts[longest]))} characters" in lines[longest]
    assert max(map(len, lines)) < 700 and lines[-3].endswith(plain(parts[-3]))


def test_plain_formulas():
    n, lam, eta = sp.Symbol("n"), sp.Symbol("lambda"), sp.Symbol("eta_l")
    assert plain(8 * sp.sqrt(n) / lam) == "8·sqrt(n)/λ"
    assert plain((1 - eta * n) ** 2) == "(1 - η_l·n)^2"
    h = sp.MatrixSymbol("H", n, n)
    assert plain(sp.Identity(n) - eta * h**-1 * h.T) == "I - η_l·H^(-1)·Hᵀ"


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [(-0.588, 0.75, "-0.59 ± 0.75"), (0.25, 1e-12, "0.25 ± 1.0e-12"), (2.0, 0.0, "2"), (1e7, 3e5, "1e+07 ± 3.0e+05")],
)
def test_an_error_that_a_reader_can_read_is_written_out(value, error, said):
    assert amount(value, error) == said
