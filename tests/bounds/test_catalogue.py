"""The catalogue: every promised statement is there, under its name, of its kind and with its settled outcome."""

import sys
from types import SimpleNamespace

import pytest

import bounds.fl_ntk
import bounds.papers
from bounds import BEYOND, Case, Form, Nature, Outcome, Provenance, catalogue, get
from bounds.papers import PAPERS, own, slug
from bounds.vocabulary import UNCHARGED

# id, form, kind, outcome found, nature of the difference: rows of the project's list of statements, which is the
# authority on names and outcomes and is not part of the repository
# F3-equality has a repaired form here: the equality that does hold. Its mutants must be caught.
# The list calls every form of our own "repaired"; here the form is "new" if it repairs nothing that is printed.
# In the list I7 and I8-nonzero have the nature "substance". By the papers' texts I7 is a misprint, I8-nonzero a
# reading, and F2-lipschitz an assumption that is met. What a scan can lose, or a report alone says, has a nature of
# its own.
# In the list X.10 is an equality with an open outcome. X.10 claims what is left at each order of the width: a rate.
PROMISED = """
fl-ntk/A.1,stated,probability,violated,scan
fl-ntk/A.1,repaired,probability,holds,
fl-ntk/A.2,stated,two-sided,holds,
fl-ntk/A.2,new,two-sided,holds,
fl-ntk/Eq11,stated,probability,holds,
fl-ntk/Eq11,new,probability,holds,
fl-ntk/Eq1,stated,equality,holds,
fl-ntk/Eq3-4,stated,equality,holds,
fl-ntk/mean-slope,new,equality,holds,
fl-ntk/lazy-patterns,stated,rate,holds,
fl-ntk/L6.1,stated,order,holds,
fl-ntk/L6.1,new,order,holds,
fl-ntk/B.3,stated,upper,holds,out of reach
fl-ntk/B.3,proved,upper,holds,out of reach
fl-ntk/B.3-certificate,new,upper,holds,
fl-ntk/B.4,stated,upper,holds,proof gap
fl-ntk/B.4,proved,upper,holds,
fl-ntk/B.4,repaired,upper,holds,
fl-ntk/B.5,stated,probability,holds,
fl-ntk/B.5,new,probability,holds,
fl-ntk/B.6,stated,probability,holds,
fl-ntk/B.6,new,probability,holds,
fl-ntk/B.7,stated,upper,holds,
fl-ntk/B.10,stated,upper,holds,
fl-ntk/B.10,new,upper,holds,
fl-ntk/Eq16,stated,upper,holds,
fl-ntk/Eq16,new,upper,holds,
fl-ntk/B.11,stated,probability,holds,proof gap
fl-ntk/B.11,proved,probability,holds,
fl-ntk/B.11,repaired,probability,holds,
fl-ntk/B.12,stated,upper,violated,scan
fl-ntk/B.12,proved,upper,holds,
fl-ntk/B.12,repaired,upper,holds,
fl-ntk/C.6,stated,probability,holds,
fl-ntk/C.6,new,probability,holds,
fl-ntk/X.1,new,equality,holds,
fl-ntk/X.2,new,equality,holds,
fl-ntk/X.3,new,upper,holds,
fl-ntk/X.8,new,equality,holds,
fl-ntk/C.8,stated,upper,holds,
fl-ntk/X.4,new,equality,holds,
fl-ntk/X.3b,new,upper,holds,
fl-ntk/X.3c,new,equality,holds,
fl-ntk/X.7,new,existence,holds,
fl-ntk/X.5,new,existence,holds,
fl-ntk/K1-is-GD,stated,equality,holds,
fl-ntk/Alg1-update,stated,equality,violated,reading
fl-ntk/Alg1-update,repaired,equality,holds,
fl-ntk/Eq2,stated,equality,violated,scan
fl-ntk/Eq2,repaired,equality,holds,
fl-ntk/B.9-13,stated,upper,holds,
fl-ntk/B.9-14,stated,upper,violated,scan
fl-ntk/B.9-14,repaired,upper,holds,
fl-ntk/B.9-15,stated,upper,holds,
fl-ntk/B.9-15,new,upper,holds,
fl-ntk/Eq5,stated,upper,holds,
fl-ntk/B.8,stated,probability,holds,proof gap
fl-ntk/B.8,repaired,probability,holds,
fl-ntk/B.8-hoeffding,new,probability,holds,
fl-ntk/Eq19,stated,probability,holds,
fl-ntk/lazy-error,stated,upper,holds,
fl-ntk/lazy-weights,stated,rate,holds,
fl-ntk/lazy-remainder,stated,rate,holds,
fl-ntk/T4.1,stated,order,violated,missing hypothesis
fl-ntk/T4.1,repaired,order,holds,
fl-ntk/T4.3,stated,order,violated,missing hypothesis
fl-ntk/L6.2,stated,upper,holds,
fl-ntk/L6.2,new,upper,holds,
fl-ntk/B.3-unbounded-labels,stated,upper,violated,missing hypothesis
fl-ntk/B.3-unbounded-labels,repaired,upper,holds,
fl-ntk/Eq8,stated,upper,holds,
fl-ntk/Eq8,new,upper,holds,
fl-ntk/Eq9,stated,upper,holds,
fl-ntk/C.4,stated,probability,holds,
fl-ntk/C.5,stated,probability,holds,
fl-ntk/C.7-movement,stated,upper,violated,scan
fl-ntk/C.7-movement,repaired,upper,holds,
fl-ntk/C.7-J,stated,upper,holds,
fl-ntk/C.7-J,proved,upper,violated,scan
fl-ntk/C.7-J,repaired,upper,holds,
fl-ntk/Eq17,stated,equality,violated,scan
fl-ntk/Eq17,repaired,equality,holds,
fl-ntk/Eq18,stated,rate,violated,substance
fl-ntk/Eq18,repaired,rate,holds,
fl-ntk/C.7-error,stated,upper,violated,misprint
fl-ntk/C.7-error,repaired,upper,holds,
fl-ntk/C.7-norm,stated,upper,holds,proof gap
fl-ntk/C.7-norm,repaired,upper,holds,
fl-ntk/C.9,stated,upper,holds,proof gap
fl-ntk/C.9,repaired,upper,holds,
fl-ntk/C.10,stated,upper,violated,substance
fl-ntk/C.10,repaired,upper,holds,
fl-ntk/C.11,stated,probability,violated,missing hypothesis
fl-ntk/C.11,repaired,probability,holds,
fl-ntk/X.6,new,rate,holds,
fl-ntk/X.9,new,rate,holds,
fl-ntk/X.10,new,rate,holds,
fl-ntk/X.11,new,upper,holds,
fl-ntk/X.12,new,upper,holds,
fl-ntk/X.13,new,rate,holds,
fl-ntk/X.14,new,equality,holds,
fl-ntk/counts,stated,equality,holds,
fl-ntk/H-inf,stated,equality,holds,
fedgucci/F1,stated,definition,holds,
fedgucci/F1b,stated,definition,holds,
fedgucci/F2-lipschitz,stated,definition,holds,
fedgucci/F2-lipschitz,new,definition,holds,
fedgucci/F2-smooth,stated,definition,violated,missing hypothesis
fedgucci/F2-smooth,repaired,definition,holds,
fedgucci/F3,stated,upper,holds,
fedgucci/F3,new,upper,holds,
fedgucci/F3-equality,stated,equality,violated,misprint
fedgucci/F3-equality,repaired,equality,holds,
fedgucci/F4,stated,probability,holds,
fedgucci/F4,new,probability,holds,
fedgucci/F5,stated,probability,holds,
fedgucci/F6,stated,upper,holds,
fedgucci/F6,new,upper,holds,
fedgucci/F7,stated,probability,holds,
fedgucci/F7,new,probability,holds,
fedgucci/F8,stated,probability,holds,
fedgucci/F8,new,probability,holds,
fedgucci/F12,stated,equality,holds,
fedgucci/F14,stated,definition,holds,
fedgucci/F19,stated,definition,holds,
fedgucci/X1,new,equality,holds,
fedgucci/X2,new,equality,holds,
averaging/I1,stated,equality,violated,misprint
averaging/I1,repaired,equality,holds,
averaging/I2,stated,equality,holds,
averaging/I3,stated,rate,holds,
averaging/I3-L1,new,rate,holds,
averaging/I3-L2,new,rate,holds,
averaging/I3-sup,new,rate,holds,
averaging/I4,stated,equality,holds,
averaging/I4,new,equality,holds,
averaging/I5,stated,equality,violated,misprint
averaging/I5,repaired,equality,holds,
averaging/I6,stated,definition,violated,reading
averaging/I6,repaired,definition,holds,
averaging/I7,stated,order,violated,misprint
averaging/I7,repaired,order,holds,
averaging/I8,stated,upper,holds,
averaging/I8,new,upper,holds,
averaging/I8-nonzero,stated,lower,violated,reading
averaging/I9,stated,equality,holds,
averaging/I9,new,equality,holds,
averaging/I10,stated,equality,violated,substance
averaging/I10,repaired,equality,holds,
averaging/I11,stated,definition,violated,misprint
averaging/I11,repaired,definition,holds,
fedgucci/F9,stated,probability,holds,proof gap
fedgucci/F9,repaired,probability,holds,
fedgucci/F9-all-x,stated,upper,violated,reading
fedgucci/F10,stated,probability,violated,scan
fedgucci/F10,repaired,probability,holds,
fedgucci/F15,stated,probability,holds,
fedgucci/F16,stated,probability,holds,
fedgucci/F16,new,probability,holds,
fedgucci/F17,stated,upper,violated,substance
fedgucci/F17,repaired,upper,holds,
fedgucci/F18,stated,probability,holds,proof gap
fedgucci/F18,repaired,probability,holds,
fedgucci/R1,new,probability,holds,
fedgucci/R1g,new,probability,holds,
fedgucci/sure,new,upper,holds,
fedgucci/R2,new,upper,holds,
fedgucci/R3,new,probability,holds,
fedgucci/R4,new,probability,holds,
fedgucci/R5,new,upper,holds,
fedgucci/X5,new,rate,holds,
fedgucci/X3,new,rate,holds,
fedgucci/X4,new,equality,holds,
"""
# Forms of the project's own: single exponents and coefficients of groups in the list, and true forms of statements
# whose reading in the list is false
OWN = """
fedgucci/X4-anchors,new,equality,holds,
fedgucci/X4-drift,new,two-sided,holds,
fedgucci/X4-overshoot,new,equality,holds,
fedgucci/F9-all-x,repaired,upper,holds,
fl-ntk/W-gram,new,rate,holds,
fl-ntk/W-eigenvalue,new,rate,holds,
fl-ntk/W-initial-output,new,rate,holds,
fl-ntk/W-movement,new,rate,holds,
fl-ntk/W-local-step,new,rate,holds,
fl-ntk/W-total-movement,new,rate,holds,
fl-ntk/W-flips,new,rate,holds,
fl-ntk/W-jacobian,new,rate,holds,
fl-ntk/W-gram-drift,new,rate,holds,
fl-ntk/W-local-gram-drift,new,rate,holds,
fl-ntk/W-asymmetry,new,rate,holds,
fl-ntk/W-linearised,new,rate,holds,
fl-ntk/W-outputs,new,rate,holds,
fl-ntk/W-frobenius-movement,new,rate,holds,
fl-ntk/W-prediction,new,rate,holds,
fl-ntk/W-coefficient-gram,new,two-sided,holds,
fl-ntk/W-coefficient-initial-output,new,two-sided,holds,
fl-ntk/W-coefficient-total-movement,new,two-sided,holds,
fl-ntk/W-coefficient-movement,new,lower,holds,
fl-ntk/state-maps,new,equality,holds,
fl-ntk/tuned-steps,new,equality,holds,
fl-ntk/tuned-steps-grid,new,lower,holds,
fl-ntk/block-conditioning,stated,lower,holds,
fl-ntk/block-conditioning,new,lower,holds,
fl-ntk/block-conditioning-jacobi,new,upper,holds,
fl-ntk/second-moments,new,equality,holds,
fl-ntk/mean-square,new,equality,holds,
fl-ntk/mean-square-sides,new,upper,holds,
fl-ntk/drawn-memory,new,equality,holds,
fl-ntk/passes-with-memory,new,equality,holds,
fl-ntk/rate-sides,new,upper,holds,
fl-ntk/outer-nesterov,new,equality,holds,
fl-ntk/server-momentum,new,equality,holds,
fl-ntk/shuffled-pass,new,equality,holds,
fl-ntk/outer-rate,new,equality,holds,
fl-ntk/outer-rate-convex,new,upper,holds,
fl-ntk/convex-loss,new,upper,holds,
fl-ntk/convex-loss-recursion,new,equality,holds,
fl-ntk/centralised,stated,equality,violated,reported
fl-ntk/centralised,repaired,equality,holds,
fl-ntk/centralised-order,new,rate,holds,
fl-ntk/client-divergence,stated,rate,holds,
fl-ntk/client-divergence,new,rate,holds,
deep/kernel,new,equality,holds,
"""
ROWS = [tuple(line.split(",")) for line in (PROMISED.strip() + OWN.rstrip()).splitlines()]


def test_the_forms_that_are_there_are_those_that_are_promised_as_promised():
    """Every form of the listed statements has the kind, outcome and nature that the list promises."""
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
    own = {line.split(",")[0] for line in OWN.strip().splitlines()}
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
    """The catalogue of a paper whose folder holds these modules: (name, ids)."""
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
    assert catalogue()  # every module of a statement is imported
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("bounds.")]
    classes = {item for module in modules for item in vars(module).values() if isinstance(item, type)}
    cases = {kind for kind in classes if kind.__module__.startswith("bounds.") and hasattr(kind, "describe")}
    assert len(cases) > 50 and not {kind for kind in cases if not issubclass(kind, Case)}
