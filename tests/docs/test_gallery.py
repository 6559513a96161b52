"""The numbers that the site's pictures are drawn of: of every statement, and what a new measurement gives."""

import pytest
from pictures import DATA, read

from bounds.options import Options
from bounds.papers import own
from verification.judging.check import KEPT
from verification.statement_picture import seen_of


def test_every_statement_has_its_picture_and_no_other_has():
    assert list(read()) == list(own()), "python docs/pictures.py ID measures what is missing"
    assert DATA.stat().st_size < 600_000


def test_every_form_was_seen_on_some_case():
    for identifier, seen in read().items():
        statement = own()[identifier]
        assert set(seen) == set(statement.forms), identifier
        for form, one in seen.items():
            assert one.x or one.exponents, f"{identifier} ({form.value})"
            assert len(one.x) <= KEPT and len(one.x) == len(one.ratio) == len(one.outcome) == len(one.family)


@pytest.mark.slow
@pytest.mark.parametrize("identifier", ["fl-ntk/A.2", "fl-ntk/B.12", "averaging/I3", "fedgucci/F4"])
def test_a_new_measurement_is_the_one_that_is_kept(identifier):
    """In words and counts; numbers to the noise of rounding, which the differences of identities are."""
    found = {form: one for (_, form), one in seen_of([own()[identifier]], Options(), limit=KEPT).items()}
    for form, kept in read()[identifier].items():
        assert (found[form].families, found[form].cases, found[form].failed) == (kept.families, kept.cases, kept.failed)
        assert found[form].outcome == kept.outcome and found[form].family == kept.family
        assert found[form].x == pytest.approx(kept.x, rel=1e-2) and found[form].y == pytest.approx(kept.y, rel=1e-2)
