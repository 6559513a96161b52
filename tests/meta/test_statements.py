"""Tests of every statement of the catalogue in every form: the outcome is as recorded, and mutants are caught.

A mutant is a wrong version of a statement's formula. In each verdict the numbers of cases with each outcome add up to
the number of its cases. Verdicts on a few cases have the outcomes of verdicts on all cases, apart from listed
exceptions. FINDINGS.md has the outcomes on all cases in its table of all verdicts.
"""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from bounds import Form, Kind, Options, Outcome, catalogue, find
from bounds.evidence import Evidence, evidence
from bounds.federated_run import FederatedFamily
from verification import engine
from verification.compare import judge
from verification.engine import verify_all
from verification.facts import Needed
from verification.intervals import lower_limit
from verification.judging.check import REACH
from verification.judging.looks import SHARES, drawn, seeds_of
from verification.verdict import NOT_REFUTED, Verdict

# `make test` gives each file to one worker (--dist loadfile), so that the verdicts below are computed once.

# A verdict needs at least five cases in all. One family gives five cases, two families give three cases each, and three
# or more families give two cases each.
A_RUN, BY_FAMILIES = Options(trials=5), {1: Options(trials=5), 2: Options(trials=3), 3: Options(trials=2)}
NO_RUN, UNTIL_DECIDED = Options(trials=25), Options(until_decided=True)
MANY_FAMILIES = Options(trials=12)
# Statement B.3 may fail one time in ten, so more cases are needed to catch its mutants.
MANY_RUNS = Options(trials=20, width=512)
CHOSEN = {f"fl-ntk/{name}": NO_RUN for name in ("A.1", "A.2", "Eq11", "B.11", "C.6", "X.2", "X.3")}
CHOSEN["fl-ntk/B.3"] = MANY_RUNS
CHOSEN |= {f"fedgucci/{name}": NO_RUN for name in ("F17", "R5")}
CHOSEN |= {f"fedgucci/{name}": MANY_FAMILIES for name in ("F15", "F16")}
CHOSEN |= {f"fedgucci/{name}": MANY_FAMILIES for name in ("R1", "R1g", "R3")}
CHOSEN |= {f"fl-ntk/{name}": A_RUN for name in ("B.8-hoeffding", "C.4", "C.8", "C.10", "C.11", "Weyl", "X.3b")}
CHOSEN |= {f"fedgucci/{name}": A_RUN for name in ("F8", "X4-drift")}
FORMS = [(identifier, form) for identifier, statement in catalogue().items() for form in statement.forms]


# statements whose verdicts take .5 s or more
DEAR = {f"deep/{name}" for name in ("any-method", "any-order", "any-order-losses", "federated-rounds")}
DEAR |= {f"deep/{name}" for name in ("kernel", "linearised")}
DEAR |= {f"fedgucci/{name}" for name in ("F9", "F10", "F18", "R2", "R4", "X5", "sure")}
DEAR |= {f"fl-ntk/{name}" for name in ("Alg1-update", "any-method", "any-order", "averaging-maps", "convex-loss")}
DEAR |= {f"fl-ntk/{name}" for name in ("B.3-certificate", "convex-loss-recursion", "C.9", "local-steps")}
DEAR |= {f"fl-ntk/{name}" for name in ("state-maps", "X.13b")}
DEAR |= {f"fl-ntk/C.7{part}" for part in ("-error", "-J", "-movement", "-norm")}


@cache
def has_a_ladder(identifier):
    """Says whether a case consists of many networks of several widths, so that a family has only one case."""
    statement = catalogue()[identifier]
    return any(draw.trials == 1 for form in statement.forms for draw in statement.families_of(form, A_RUN))


@cache
def run_of(identifier):
    """Returns the options of a quick statement, which say how many cases it gets from each family.

    The statement gets the fewest cases that a verdict needs, or more where mutants would not be caught otherwise.
    """
    statement = catalogue()[identifier]
    if identifier in CHOSEN:
        return CHOSEN[identifier]
    fewest = min(len(statement.families_of(form, A_RUN)) for form in statement.forms)
    return BY_FAMILIES[min(fewest, max(BY_FAMILIES))]


def is_slow(identifier):
    """Says whether the verdicts of a statement take seconds."""
    return identifier in DEAR or has_a_ladder(identifier)


SHARED = 5  # The number of runs of a family that are kept. Each run takes some 20 MB.


@cache
def run_of_family(family, seed):
    """Returns a run of Algorithm 1. The run is made once, so that all measurements on it are kept."""
    return family.case(seed)


def drawn_once(family, seed, ladders):
    """Draws a case as `drawn` does, except that all verdicts share the first runs of Algorithm 1.

    Most statements are checked on these runs.
    """
    if isinstance(family, FederatedFamily) and seed < SHARED:
        return run_of_family(replace(family, trials=SHARED), seed)
    return drawn(family, seed, ladders)


WHOLE = False


@pytest.fixture(scope="module", autouse=True)
def whole_papers(request):
    """Records whether slow tests of this file run.

    The slow tests need the verdicts on all statements of each paper. If they run, the quick tests use these verdicts
    too.
    """
    global WHOLE
    own = (item for item in request.session.items if item.path == request.path)
    WHOLE = any(item.get_closest_marker("slow") for item in own)


@pytest.fixture(autouse=True)
def runs_drawn_once(monkeypatch):
    monkeypatch.setattr(engine, "drawn", drawn_once)


@cache
def verdicts_of(paper):
    """Returns the verdicts on all statements of a paper.

    As in `ntkfl verify`, cases are drawn until they decide the verdict.
    """
    return verify_all(find(paper), UNTIL_DECIDED)


@cache
def _quick():
    verdicts = []
    chosen = [s for i, s in catalogue().items() if not is_slow(i)]
    for options in {run_of(s.id): None for s in chosen}:
        verdicts += verify_all([s for s in chosen if run_of(s.id) == options], options)
    return {(v.id, v.form): v for v in verdicts}


def of_papers(identifier):
    """Says whether a statement's verdict comes from a run over all statements of its paper.

    The verdict on a slow statement always comes from such a run. The verdict on a quick statement comes from such a run
    only if slow tests run.
    """
    return WHOLE or is_slow(identifier)


def verdict_of(identifier, form):
    """Returns the verdict on a statement in one form.

    The verdict is computed together with the verdicts on all quick statements, or on all statements of its paper.
    """
    if of_papers(identifier):
        return next(v for v in verdicts_of(identifier.partition("/")[0]) if (v.id, v.form) == (identifier, form))
    return _quick()[identifier, form]


def counts_of(identifier, form):
    """Returns the possible numbers of drawn cases.

    If cases are drawn until they decide the verdict, there is one possible number for each share in SHARES, because the
    verdict may be decided after each of these shares. Otherwise there is only one number.
    """
    statement = catalogue()[identifier]
    if not of_papers(identifier):
        return {sum(family.trials for family in statement.families_of(form, run_of(identifier)))}
    families = statement.families_of(form, UNTIL_DECIDED)
    return {sum(seeds_of(families, share).values()) for share in SHARES}


def outcome_is_the_recorded_one(identifier, form):
    verdict = verdict_of(identifier, form)
    assert verdict.as_recorded, (verdict.outcome, verdict.notes)


def books_balance(identifier, form):
    verdict, statement = verdict_of(identifier, form), catalogue()[identifier]
    counts = verdict.counts
    assert verdict.trials == counts.holds + counts.touches + counts.unresolved + counts.violated
    assert verdict.trials + sum(verdict.counts.rejected.values()) in counts_of(identifier, form)
    assert set(verdict.counts.rejected) <= {h.name for h in statement.required(form)}
    assert verdict.trials > 0
    assert verdict.id == identifier
    assert verdict.form is form
    assert verdict.kind is statement.kind
    assert verdict.provenance["seeds"] == {"first_seed": 0}


def every_mutant_is_violated(identifier, form):
    verdict, statement = verdict_of(identifier, form), catalogue()[identifier]
    if form is not statement.mutated_form or statement.forms[form].recorded is not Outcome.HOLDS:
        assert verdict.mutants_total == 0
        return
    assert verdict.mutants_total == len(statement.mutants) > 0
    assert {name for name, outcome in verdict.mutants.items() if outcome != "violated"} == set()
    assert verdict.mutants_killed == verdict.mutants_total


def a_witness_shows_the_violation_and_is_confirmed(identifier, form):
    verdict, statement = verdict_of(identifier, form), catalogue()[identifier]
    if statement.forms[form].recorded is not Outcome.VIOLATED:
        assert verdict.witness is None
        assert verdict.counts.violated == 0 or statement.forms[form].failure is not None
        return
    assert verdict.witness.shows
    # A violation over many networks is confirmed by a second set of networks.
    slopes = statement.kind in (Kind.RATE, Kind.ORDER)
    how = str(verdict.confirmation.how)
    balls = how == "ball arithmetic encloses both sides" or how.startswith("computed again in balls of")
    assert balls or (slopes and how.startswith("other networks agree"))
    assert "the sides come from" not in how
    assert balls is (Evidence.ENCLOSED in evidence(statement, form)), how
    above = verdict.lhs.value - verdict.lhs.error > verdict.rhs.value + verdict.rhs.error
    below = verdict.lhs.value + verdict.lhs.error < verdict.rhs.value - verdict.rhs.error
    assert above or (below and statement.kind in (Kind.EQUALITY, Kind.DEFINITION, Kind.LOWER, Kind.RATE))


def necessity_cases_show_what_they_are_stored_for(identifier, form):
    verdict, statement = verdict_of(identifier, form), catalogue()[identifier]
    # The verdict on a violated form does not say which hypotheses are necessary.
    fails_anyway = statement.forms[form].recorded is Outcome.VIOLATED
    assert set(verdict.necessity) == (set() if fails_anyway else {h.name for h in statement.required(form)})
    if statement.forms[form].recorded is Outcome.VIOLATED:
        return  # There are no entries to compare.
    for name, needed in verdict.necessity.items():
        assert needed is (Needed.YES if name in statement.necessity else Needed.NO_CASE), name


def it_survives_strict_json(identifier, form):
    verdict = verdict_of(identifier, form)
    content = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert Verdict.from_json(content) == verdict
    assert Verdict.from_json(content).to_json() == content
    promised = "id form kind outcome vacuous trials rejected lhs rhs tightness mutants_killed mutants_total replay"
    assert set(promised.split()) <= set(content)
    assert content["replay"].startswith(f"ntkfl verify {identifier} --form {form.value} --seed 0")


WITHIN_REACH = "fl-ntk/C.7-norm"  # Networks can be as wide as the premise of this statement requires.


def only_what_is_out_of_reach_is_vacuous(identifier, form):
    formula = catalogue()[identifier].forms[form]
    may_be = (bool(formula.premise) and identifier != WITHIN_REACH) or formula.trivial is not None
    assert (verdict_of(identifier, form).vacuous is not None) == may_be


CHECKS = (
    outcome_is_the_recorded_one,
    books_balance,
    every_mutant_is_violated,
    a_witness_shows_the_violation_and_is_confirmed,
    necessity_cases_show_what_they_are_stored_for,
    it_survives_strict_json,
    only_what_is_out_of_reach_is_vacuous,
)


@pytest.mark.parametrize(
    ("identifier", "form"),
    [
        pytest.param(i, form, id=f"{i}-{form.value}", marks=[pytest.mark.slow] if is_slow(i) else [])
        for i, form in FORMS
    ],
)
def test_a_verdict_is_right(identifier, form):
    for check in CHECKS:
        check(identifier, form)


def test_a_vacuous_verdict_says_what_it_would_take():
    assert verdict_of("fl-ntk/B.3", catalogue()["fl-ntk/B.3"].mutated_form).vacuous.at_least["m"] > REACH["m"]


SEEDS = {"fl-ntk/A.1": 400, "fl-ntk/A.2": 400, "fl-ntk/Eq11": 200, "fl-ntk/C.6": 60, "fl-ntk/X.3": 60}
SEEDS |= {i: 30 for i, s in catalogue().items() if s.kind is Kind.EQUALITY and i != "fl-ntk/X.2"}
SEEDS |= {"fl-ntk/B.7": 60, "fl-ntk/B.10": 60, "fl-ntk/Eq16": 60}
# Their cases are slow, because they have four networks, or long recursions.
SEEDS |= {"deep/linearised": 20, "fl-ntk/convex-loss-recursion": 20}


@pytest.mark.slow
@pytest.mark.parametrize("identifier", SEEDS)
def test_a_true_statement_is_never_violated(identifier):
    """No case violates a true statement, in thousands of cases in all.

    A form with a failure probability may fail as often as that probability says.
    """
    statement, case_of = catalogue()[identifier], cache(lambda family, seed: family.case(seed))  # Forms share cases.
    options = Options(trials=20, width=256, rounds=5 if identifier == "deep/linearised" else 12)  # A case takes .2 s.
    for form, formula in statement.forms.items():
        if formula.recorded is not Outcome.HOLDS:
            continue
        for family in statement.families_of(form, options):
            seen = []
            for seed in range(10_000, 10_000 + SEEDS[identifier]):
                case = case_of(family, seed)
                if all(h.met(case) for h in statement.required(form)):
                    seen.append((judge(statement, form, case).outcome, seed))
            wrong = [seed for outcome, seed in seen if outcome not in (Outcome.HOLDS, Outcome.TOUCHES)]
            assert len(seen) >= 20
            if formula.failure is None:
                assert not wrong
            else:
                assert lower_limit(len(wrong), len(seen)) <= formula.failure_at(statement.constants(case)), wrong


PAPERS = "alignment", "averaging", "deep", "fedgucci", "fl-ntk", "outer"
FINDINGS = Path(__file__).parents[2] / "FINDINGS.md"
# Forms with another outcome on few cases than on all cases. Each form comes with its outcome on few cases, and with the
# reason why this outcome is right for few cases.
OTHERWISE = {
    ("fedgucci/X4-drift", Form.NEW): (Outcome.HOLDS, "its bound is attained on few cases, none of them among the first")
}


@cache
def of_all_cases():
    """Returns the outcome of every form in words, as FINDINGS.md gives it."""
    rows = re.findall(r"^\| ([a-z ]+) \| (\S+/\S+) \| (\w+) \|", FINDINGS.read_text(encoding="utf-8"), re.MULTILINE)
    return {(identifier, Form(form)): word for word, identifier, form in rows if form in set(Form)}


def agrees(verdict):
    """Says whether a few cases give the verdict of all cases.

    For a probability, "not refuted" may take the place of "holds".
    """
    of_all = of_all_cases().get((verdict.id, verdict.form))
    if of_all is None:  # The statement is newer than the table.
        return verdict.as_recorded
    if (verdict.id, verdict.form) in OTHERWISE:
        of_all = OTHERWISE[verdict.id, verdict.form][0].value
    return verdict.word == of_all or (verdict.word, of_all) == (NOT_REFUTED, Outcome.HOLDS.value)


def test_the_table_has_all_but_new_forms_and_differs_where_it_is_said_to():
    assert {name.split("/")[0] for name in catalogue()} == set(PAPERS)
    forms = {(name, form) for name, statement in catalogue().items() for form in statement.forms}
    assert len(of_all_cases().keys() & forms) > 0.9 * len(forms)
    for key, (few, _) in OTHERWISE.items():
        assert of_all_cases()[key] != few.value


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_few_cases_come_to_the_outcome_of_all(paper):
    verdicts = verdicts_of(paper)
    assert [(v.id, v.form.value, v.word, *map(str, v.notes)) for v in verdicts if not agrees(v)] == []
    assert {
        (v.id, name) for v in verdicts for name, outcome in v.mutants.items() if outcome != Outcome.VIOLATED
    } == set()
