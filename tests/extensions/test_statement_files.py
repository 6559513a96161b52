"""Tests of a file with statements: nothing else is needed to list, show, verify, attack and report them."""

import json

import pytest

import bounds
from bounds import Form, Outcome
from bounds.listing import brought_by
from verification.engine import verify
from verification.processes import verify_in_processes


def test_they_are_listed_and_shown(ntkfl):
    listed = ntkfl("list my_theorem.py")
    assert "mine/T1" in listed and "stated violated" in listed and "2 statements in 2 forms" in listed
    shown = ntkfl("show my_theorem.py::mine/T1")
    assert "A sum is at most sqrt(n) times the norm" in shown and "mine/T2" not in shown
    assert "ntkfl verify my_theorem.py::mine/T1" in shown
    assert "mine/T2" in ntkfl("show my_theorem.py")


def test_they_are_verified_their_mutants_killed_and_the_verdicts_replayed(ntkfl, folder):
    ntkfl("verify my_theorem.py --json found.json")
    verdicts = json.loads((folder / "found.json").read_text())["verdicts"]
    assert [(v["id"], v["outcome"]) for v in verdicts] == [("mine/T1", "holds"), ("mine/T2", "violated")]
    true = verdicts[0]
    assert true["mutants"] == {"times 1/2": "violated", "without q": "violated"}
    assert true["provenance"]["statement"] == dict(brought_by(bounds.load("my_theorem.py")[0]))
    for verdict in verdicts:
        assert verdict["replay"].startswith(f"ntkfl verify my_theorem.py::{verdict['id']} ")
        ntkfl(f"{verdict['replay'].removeprefix('ntkfl ')} --json again.json")
        assert json.loads((folder / "again.json").read_text())["verdicts"] == [verdict]


def test_a_verdict_against_the_record_is_said(ntkfl, folder):
    file = folder / "my_theorem.py"
    file.write_text(file.read_text().replace("Outcome.VIOLATED, Drawn", "Outcome.HOLDS, Drawn"))
    assert "DIFFERS" in ntkfl("verify my_theorem.py::mine/T2", status=1)


def test_an_open_form_that_is_violated_is_neither_as_recorded_nor_against_the_record(ntkfl, folder):
    file = folder / "my_theorem.py"
    file.write_text(file.read_text().replace("Outcome.VIOLATED, Drawn", "Outcome.OPEN, Drawn"))
    said = ntkfl("verify my_theorem.py --json found.json", status=3)
    assert "as recorded" not in said and "DIFFERS" not in said
    assert said.splitlines()[-1] == ("2 verdicts: 1 hold, 1 violated, recorded open; 0 differ from what is recorded")
    assert "(recorded open: nobody has settled it)\n  ntkfl verify my_theorem.py::mine/T2 " in said
    verdicts = json.loads((folder / "found.json").read_text())["verdicts"]
    assert [(v["outcome"], v["recorded"]) for v in verdicts] == [("holds", "holds"), ("violated", "open")]
    ntkfl("report --verdicts found.json --out pages --statements my_theorem.py")
    assert "Violated, recorded open" in (folder / "pages" / "index.html").read_text()
    page = (folder / "pages" / "statements" / "mine-t2.html").read_text()
    assert "recorded open" in page and "differs" not in page.replace('class="differs"', "")


def test_an_open_form_that_is_not_violated_passes_and_stays_open(ntkfl, folder):
    file = folder / "my_theorem.py"
    file.write_text(file.read_text().replace("Outcome.HOLDS, Drawn", "Outcome.OPEN, Drawn"))
    said = ntkfl("verify my_theorem.py::mine/T1")
    assert "recorded: open" in said and "as recorded" not in said


@pytest.mark.slow
def test_other_processes_find_the_same(folder):
    statements = bounds.load("my_theorem.py")
    here = [verdict for statement in statements for verdict in verify(statement)]
    there = verify_in_processes(statements, bounds.Options(), processes=2)
    assert [v.to_json() for v in there] == [v.to_json() for v in here]
    assert {v.outcome for v in there} == {Outcome.HOLDS, Outcome.VIOLATED}


def test_what_other_processes_cannot_look_up_is_checked_here(folder):
    first, second = bounds.load("my_theorem.py")
    (folder / "my_theorem.py").write_text((folder / "my_theorem.py").read_text() + "\n")
    assert bounds.load("my_theorem.py")[0] is not first
    verdicts = verify_in_processes([first, second], bounds.Options(), [Form.STATED], processes=2)
    assert [v.outcome for v in verdicts] == [Outcome.HOLDS, Outcome.VIOLATED]


def test_a_counterexample_is_kept_with_a_case_of_ones_own(ntkfl, folder):
    output = ntkfl("attack my_theorem.py::mine/T2 --examples 50")
    file = "counterexample_mine_t2_stated.json"
    assert f"ntkfl attack my_theorem.py --replay {file}" in output
    assert "file_of_the_user_my_theorem:Numbers" in (folder / file).read_text()
    assert "bit for bit" in ntkfl(f"attack my_theorem.py --replay {file}")
    refused = ntkfl(f"attack --replay {file}", status=2)
    assert "mine/T2 is a statement of my_theorem.py; name it: ntkfl attack my_theorem.py --replay FILE" in refused


def test_a_counterexample_names_no_class_that_the_file_only_imports(folder):
    from verification.search.case_codec import decode

    bounds.load("my_theorem.py")
    with pytest.raises(ValueError, match="Statement is not a class of that module"):
        decode({"value": "file_of_the_user_my_theorem:Statement", "fields": {}})


def test_a_report_has_their_pages(ntkfl, folder):
    ntkfl("verify my_theorem.py --json found.json")
    said = ntkfl("report --verdicts found.json --out pages", status=2)
    assert "a verdict of mine/T" in said and "a statement of my_theorem.py: name that with --statements" in said
    ntkfl("report --verdicts found.json --out pages --statements my_theorem.py")
    page = (folder / "pages" / "statements" / "mine-t1.html").read_text()
    assert "times the norm" in page and "my_theorem.py" in page
    assert "mine" in (folder / "pages" / "index.html").read_text()


def test_their_algebra_is_proved(ntkfl):
    assert "1 of 1 steps proved" in ntkfl("verify my_theorem.py --symbolic")


def test_a_file_that_has_changed_is_loaded_again_and_one_that_has_not_is_not(folder):
    first = bounds.load("my_theorem.py")
    assert bounds.load(folder / "my_theorem.py")[0] is first[0] is bounds.get("mine/T1")
    text = (folder / "my_theorem.py").read_text()
    (folder / "my_theorem.py").write_text(text.replace("A sum is at most the norm", "Otherwise"))
    assert bounds.load("my_theorem.py")[1].title == "Otherwise" == bounds.get("mine/T2").title
    assert [statement.id for statement in bounds.find("my_theorem.py::mine/T2", "fl-ntk/C.6")] == [
        "mine/T2",
        "fl-ntk/C.6",
    ]


def test_only_what_the_user_named_is_written(ntkfl, folder):
    before = set(folder.rglob("*"))
    ntkfl("verify my_theorem.py::mine/T1")
    ntkfl("list my_theorem.py")
    assert set(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "bad.py must have STATEMENTS, a tuple of bounds.Statement; it has none"),
        ("STATEMENTS = ()\n", "it is an empty one"),
        ("STATEMENTS = (1,)\n", "it is a tuple with a int"),
        ("STATEMENTS = [1]\n", "it is a list"),
        ("a = 1\nb = a + undefined\n", "bad.py, line 2, `b = a + undefined`: NameError: name 'undefined' is not"),
        ("def f(:\n", "bad.py, line 1: SyntaxError: "),
        ("import no_such_module\n", "line 1, `import no_such_module`: ModuleNotFoundError: No module named"),
        ("raise SystemExit('enough')\n", "line 1, `raise SystemExit('enough')`: SystemExit: enough"),
    ],
)
def test_a_bad_file_says_what_is_wrong(ntkfl, folder, text, message):
    (folder / "bad.py").write_text(text)
    for command in ("verify", "show", "attack", "list"):
        assert message in ntkfl(f"{command} bad.py", status=2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mine/{label}", "fl-ntk/C.6", "the id fl-ntk/C.6, as this project has; choose another"),
        ("mine/{label}", "mine/{title[:1]}", "the id mine/A, as itself has; choose another"),
        ("mine/{label}", "{label}", "the id 'T1'; it must be paper/label: mine/T1"),
    ],
)
def test_an_id_must_be_of_its_own(ntkfl, folder, old, new, message):
    file = folder / "my_theorem.py"
    file.write_text(file.read_text().replace(old, new))
    assert message in ntkfl("verify my_theorem.py", status=2)


def test_an_id_of_another_file_is_refused(folder):
    bounds.load("my_theorem.py")
    (folder / "again.py").write_text((folder / "my_theorem.py").read_text())
    with pytest.raises(ValueError, match=r"again.py has a statement with the id mine/T1, as my_theorem.py has"):
        bounds.load("again.py")


def test_a_file_is_not_overwritten_by_what_is_found_with_it(ntkfl, folder):
    before = (folder / "my_theorem.py").read_text()
    assert "is what is read" in ntkfl("verify my_theorem.py::mine/T1 --json my_theorem.py", status=2)
    assert (folder / "my_theorem.py").read_text() == before


def test_what_is_not_there_is_said(ntkfl):
    assert "nowhere.py cannot be read: No such file" in ntkfl("verify nowhere.py", status=2)
    assert "has no statement 'mine/T9'; it has mine/T1, mine/T2" in ntkfl("show my_theorem.py::mine/T9", status=2)
