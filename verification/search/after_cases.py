"""The short search for a counterexample to a user's own statement, after all its cases held."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from bounds import Outcome, Statement, catalogue
from bounds.case import case_of
from bounds.listing import extension_of, failure, word_for
from ntkfl import interruption
from verification.facts import Elsewhere, Fact, Standing, Where
from verification.search.hunt import EXAMPLES, Attack, attack
from verification.search.plain_case import in_words
from verification.sentences import What
from verification.verdict import Verdict, Worst

SHORT = 10.0  # seconds that a search takes after the cases
SHRINKING = 2.0  # further seconds for each of the two ways of shrinking a counterexample


def attack_held(
    verdicts: Iterable[Verdict],
    *,
    examples: int = EXAMPLES,
    seconds: float = SHORT,
    seed: int = 0,
    progress: Callable[[str], None] = lambda sentence: None,
) -> list[Verdict]:
    """The verdicts, after a short search for a counterexample to each form that held in all its cases.

    Only forms of statements that a user brought are searched. A form with a confirmed counterexample is violated
    (*broken by search*). A counterexample for which no second computation was possible is reported, but decides
    nothing. If a verdict is about the user's own data, a counterexample elsewhere does not change its outcome, and the
    verdict says where the form fails. No file is written. If interrupted (Ctrl-C), the function returns all verdicts; a
    verdict whose search is missing says that it is not complete.

    Args:
        verdicts: verdicts as `verify` returns them.
        examples: number of cases of each form's search, as in `attack`; default 400.
        seconds: processor time of each form's search; default 10.
        seed: seed of each form's search, default 0.
        progress: a function that is called with each search that begins or fails; default: none.
    """
    done, stopped, known = [], False, catalogue()
    for verdict in verdicts:
        statement = known.get(verdict.id)
        held = verdict.outcome in (Outcome.HOLDS, Outcome.TOUCHES) and verdict.complete and verdict.error is None
        if statement is None or extension_of(statement) is None or not held:
            done.append(verdict)
            continue
        name = f"{verdict.id} ({verdict.form.value})"
        if not stopped:
            progress(f"{name} held in its cases; a search for a counterexample begins, of about {seconds:g} s at most")
            try:
                hunt = attack(
                    statement, verdict.form, examples=examples, seconds=seconds, seed=seed, shrinking=SHRINKING
                )
            except KeyboardInterrupt:
                interruption.taken()
                stopped = True
            # the error is in the statement's own code; the result of the form's cases is kept
            except Exception as error:
                failed = Fact(What.SEARCH_FAILED, {"failure": failure(error, statement)})
                progress(f"{name}: {failed}")
                verdict = replace(verdict, search=failed)
            else:
                stopped = hunt.interrupted
                changed = "" if (examples, seed) == (EXAMPLES, 0) else f" --examples {examples} --seed {seed}"
                verdict = _after(verdict, statement, hunt, {"examples": examples, "seconds": seconds}, changed)
        if stopped and not verdict.broken_by_search:
            ended = Fact(What.SEARCH_INTERRUPTED)
            verdict = replace(verdict, complete=False, search=ended, notes=(*verdict.notes, ended))
        done.append(verdict)
    return done


def _after(verdict: Verdict, statement: Statement, done: Attack, budget: dict[str, float], changed: str) -> Verdict:
    """The verdict with the result of the search.

    `changed` has the options with which `ntkfl attack` searches the same cases.
    """
    counterexample = done.counterexample
    if counterexample is None:
        nothing = Fact(What.NO_COUNTEREXAMPLE, budget | {"uncounted": list(done.unconfirmed)})
        return replace(verdict, search=done.untested or nothing)
    command = f"ntkfl attack {word_for(statement)} --form {verdict.form.value}{changed}"
    shown = {"case": in_words(counterexample.case), "command": command}
    comparison, confirmation = counterexample.comparison, counterexample.confirmation
    if confirmation.standing is not Standing.CONFIRMED:
        left, right = ([float(side.value), float(side.error)] for side in (comparison.left, comparison.right))
        unconfirmed = Fact(What.UNCONFIRMED, shown | {"left": left, "right": right})
        return replace(verdict, confirmation=confirmation, search=unconfirmed)
    verdict = replace(verdict, confirmation=confirmation, search=Fact(What.COUNTEREXAMPLE, shown))
    if verdict.own_data:
        return replace(verdict, elsewhere=verdict.elsewhere or Elsewhere(Where.SEARCH, comparison.tightness))
    case = {"cases": "found by a search"} | case_of(counterexample.case).describe()
    return replace(
        verdict,
        outcome=Outcome.VIOLATED,
        worst=Worst.of(comparison, case),
        tightness=(verdict.tightness or {}) | {"search": comparison.tightness},
        counts=replace(verdict.counts, would_exclude=None),
    )
