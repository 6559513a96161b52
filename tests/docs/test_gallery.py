"""Tests of the numbers behind the site's pictures of statements.

Every statement has stored numbers, and a new measurement agrees with them.
"""

import pytest
import statement_pictures
from pictures import DATA, read

from bounds import Options
from bounds.papers import own
from verification.judging.check import KEPT
from verification.statement_picture import seen_of


def test_what_is_kept_is_of_statements_that_are_there_in_their_order():
    kept = list(read())
    assert kept == [identifier for identifier in own() if identifier in kept]
    assert DATA.stat().st_size < 600_000


def test_a_statement_that_is_not_kept_is_measured_when_the_pages_are_built(monkeypatch):
    """A statement without stored numbers is measured when the pages are built.

    A new statement thus needs one file only, and the numbers of its picture may be stored later.
    """
    kept = read()
    monkeypatch.setattr(statement_pictures, "own", lambda: {identifier: own()[identifier] for identifier in kept})
    monkeypatch.setattr(
        statement_pictures, "read", lambda: {i: forms for i, forms in kept.items() if i != "fl-ntk/A.2"}
    )
    seen = statement_pictures.seen.__wrapped__()
    assert list(seen) == list(kept)
    for form, of_form in kept["fl-ntk/A.2"].items():
        assert (seen["fl-ntk/A.2"][form].cases, seen["fl-ntk/A.2"][form].outcome) == (of_form.cases, of_form.outcome)


def test_every_form_was_seen_on_some_case():
    for identifier, seen in read().items():
        statement = own()[identifier]
        assert set(seen) == set(statement.forms), identifier
        for form, points in seen.items():
            assert points.x or points.exponents, f"{identifier} ({form.value})"
            assert len(points.x) <= KEPT and len(points.x) == len(points.ratio) == len(points.outcome) == len(
                points.family
            )


@pytest.mark.slow
@pytest.mark.parametrize("identifier", ["fl-ntk/A.2", "fl-ntk/B.12", "averaging/I3", "fedgucci/F4"])
def test_a_new_measurement_is_the_one_that_is_kept(identifier):
    """Words and counts are equal, and numbers agree up to rounding.

    The differences of the two sides of an identity consist of rounding errors only, so they are not compared.
    """
    measured = {form: points for (_, form), points in seen_of([own()[identifier]], Options(), limit=KEPT).items()}
    for form, kept in read()[identifier].items():
        assert (measured[form].families, measured[form].cases, measured[form].failed) == (
            kept.families,
            kept.cases,
            kept.failed,
        )
        assert measured[form].outcome == kept.outcome and measured[form].family == kept.family
        assert measured[form].x == pytest.approx(kept.x, rel=1e-2) and measured[form].y == pytest.approx(
            kept.y, rel=1e-2
        )
