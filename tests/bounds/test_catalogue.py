"""Tests of the catalogue against the project's list of promised statements.

Every promised statement must be there, under its name, of its kind and with its settled outcome.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import bounds.fl_ntk
import bounds.papers
from bounds import BEYOND, Case, Form, Nature, Outcome, Provenance, catalogue, get
from bounds.papers import PAPERS, own, slug
from bounds.vocabulary import UNCHARGED

# The rows of the project's list of statements: id, form, kind, outcome found, nature of the difference. The list is the
# authority on names and outcomes, and it is not part of the repository. This file differs from the list in the
# following points. F3-equality has a repaired form here, which is the equality that does hold; its mutants must be
# caught. The list calls every form of our own "repaired"; here a form is "new" if it repairs nothing that is printed.
# In the list I7 and I8-nonzero have the nature "substance". By the papers' texts the nature of I7 is a misprint, and
# the nature of I8-nonzero is a reading. Also by the papers' texts, F2-lipschitz is an assumption that is met. Two kinds
# of difference have natures of their own: a difference that may be due to the scan of a paper, and a difference that
# only a report mentions. In the list X.10 is an equality with an open outcome; here it is a rate, because X.10 claims
# what is left at each order of the width. Rows that end in "own" are the project's own. Some are single exponents and
# coefficients, which the list has in groups only. The others are true forms of statements for which the list has a
# false reading.
LINES = Path(__file__).with_name("promised_forms.csv").read_text().splitlines()[1:]
ROWS = [tuple(line.split(",")[:5]) for line in LINES]


def test_the_forms_that_are_there_are_those_that_are_promised_as_promised():
    """Every form of the listed statements exists with the kind, outcome and nature that the list promises."""
    listed = {row[0] for row in ROWS}
    there = {
        (identifier, form.value, statement.kind.value, claim.recorded.value, claim.nature.value if claim.nature else "")
        for identifier, statement in catalogue().items()
        for form, claim in statement.forms.items()
        if identifier in listed
    }
    assert there == set(ROWS) and len(ROWS) == len(set(ROWS))


def test_the_width_statements_are_those_of_the_list():
    there = {identifier for identifier in catalogue() if identifier.startswith("fl-ntk/W-")}
    own = {line.split(",")[0] for line in LINES if line.endswith(",own")}
    assert there == {identifier for identifier in own if identifier.startswith("fl-ntk/W-")}


def test_labels_are_names_of_files():
    assert slug("B.12") == "b_12"
    assert slug("B.3-certificate") == "b_3_certificate"


def test_every_statement_says_what_it_needs_to():
    for identifier, statement in catalogue().items():
        assert statement.id == identifier
        assert statement.title and statement.says_left and statement.source.label, identifier
        assert statement.mutants, f"{identifier}: a statement without a mutant is not tested"
        for claim in statement.forms.values():
            if claim.recorded is Outcome.VIOLATED:
                assert claim.nature is not None, f"{identifier}: what differs must be named"
                assert claim.witness is not None, f"{identifier}: a violated form is shown by a stored case"
        for hypothesis in (h for form in statement.forms for h in statement.required(form)):
            assert hypothesis.says, (identifier, hypothesis.name)


def test_a_form_is_repaired_only_beside_a_printed_one_that_differs_and_new_else():
    for identifier, statement in catalogue().items():
        differs = any(statement.forms[f].nature for f in (Form.STATED, Form.PROVED) if f in statement.forms)
        assert Form.REPAIRED not in statement.forms or differs, identifier
        assert Form.NEW not in statement.forms or not differs, identifier


def test_every_form_says_what_it_is_read_from_and_the_sign_of_a_scan_is_not_trusted_alone():
    for identifier, statement in catalogue().items():
        for form, claim in statement.forms.items():
            read = statement.provenance(form)
            assert (read is Provenance.OURS) == (
                form in (Form.REPAIRED, Form.NEW) or claim.read is read or statement.source.paper == BEYOND
            ), identifier
            if claim.recorded is Outcome.VIOLATED and read is not Provenance.OURS:
                assert claim.reading, f"{identifier}: how sure are its signs?"
            if claim.nature in UNCHARGED:
                assert read.value == claim.nature.value, identifier
            if claim.nature is Nature.SUBSTANCE:
                assert read in (Provenance.TEXT, Provenance.SCAN) and claim.reading, identifier


def test_statements_rest_on_statements():
    known = set(catalogue()) | {row[0] for row in ROWS}
    for statement in catalogue().values():
        assert set(statement.uses) <= known, statement.id
        assert statement.id not in statement.uses


def test_ids_are_looked_up():
    assert get("fl-ntk/B.12") is catalogue()["fl-ntk/B.12"]


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("fl-ntk/B.21", "fl-ntk/B.12"), ("B.12", "fl-ntk/B.12"), ("FL-NTK/b.7", "fl-ntk/B.7")]
)
def test_an_unknown_id_names_the_nearest(wrong, nearest):
    with pytest.raises(KeyError) as caught:
        get(wrong)
    message = caught.value.args[0]
    assert message.startswith(f"no statement {wrong!r}; nearest: ")
    assert nearest in message
    assert message.endswith("(ntkfl list shows all; a file of yours goes by its path, ending in .py)")


def test_an_id_like_no_other_still_gets_an_answer():
    with pytest.raises(KeyError, match="no statement 'qqqqqqqqqqqqqqq'; nearest: fl-ntk/"):
        get("qqqqqqqqqqqqqqq")


def catalogue_of(monkeypatch, *modules):
    """Returns the catalogue of a paper whose folder holds the given modules; a module is given as (name, ids)."""
    infos = [SimpleNamespace(name=name) for name, _ in modules]
    folder = {
        f"papers.{name}": SimpleNamespace(STATEMENTS=[SimpleNamespace(id=i) for i in ids]) for name, ids in modules
    }
    folder["papers"] = SimpleNamespace(__path__=[])
    module = bounds.papers
    monkeypatch.setattr(module, "PAPERS", {"p": "papers"})
    monkeypatch.setattr(module.pkgutil, "iter_modules", lambda path: infos)
    monkeypatch.setattr(module.importlib, "import_module", folder.__getitem__)
    return own.__wrapped__()


def test_statements_are_ordered_as_people_count(monkeypatch):
    ordered = catalogue_of(monkeypatch, ("rest", ["p/X.1", "p/B.10", "p/B.9-b", "p/B.9-a"]), ("some", ["p/B.9"]))
    assert list(ordered) == ["p/B.9", "p/B.9-b", "p/B.9-a", "p/B.10", "p/X.1"]


def test_a_statement_of_another_paper_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"papers.b_1 holds q/B.12; its id would begin with p/"):
        catalogue_of(monkeypatch, ("b_1", ["q/B.12"]))


def test_an_id_given_twice_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"two statements have the id p/B.12"):
        catalogue_of(monkeypatch, ("b_12", ["p/B.12", "p/B.12"]))


def test_a_folder_that_names_its_paper_is_one(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text('PAPER = "mine"\n')
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "__init__.py").write_text("")
    monkeypatch.setattr(bounds, "__path__", [*bounds.__path__, str(tmp_path)])
    assert bounds.papers._papers() == {**PAPERS, "mine": "bounds.mine"}
    sys.modules.pop("bounds.mine"), sys.modules.pop("bounds.cases")


def test_papers_are_those_of_the_folders():
    assert PAPERS["fl-ntk"] == bounds.fl_ntk.__name__


def test_every_class_that_describes_itself_is_a_case():
    assert catalogue()  # This imports the module of every statement.
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("bounds.")]
    classes = {item for module in modules for item in vars(module).values() if isinstance(item, type)}
    cases = {kind for kind in classes if kind.__module__.startswith("bounds.") and hasattr(kind, "describe")}
    assert len(cases) > 50 and not {kind for kind in cases if not issubclass(kind, Case)}
