"""The page of machine-checked proofs names what there is, and the check of the proofs refuses what it should."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bounds import catalogue

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
CHECK = runpy.run_path(str(PROOFS / "check.py"))
ROW = re.compile(
    r"^\| `(?P<theorem>\w+)` \| `proofs/(?P<file>\w+\.v):(?P<line>\d+)` \| (?P<ids>[^|]*) \|", re.MULTILINE
)
ROWS = [match.groupdict() for match in ROW.finditer((ROOT / "docs" / "proofs_machine.md").read_text())]
SOURCE = "Theorem one : 1 = 1.\nProof. reflexivity. Qed.\nPrint Assumptions one.\n"


def test_the_page_has_every_theorem_with_its_line():
    said = {(row["file"], row["theorem"], int(row["line"])) for row in ROWS}
    assert said == {
        (file.name, theorem, line)
        for file in PROOFS.glob("*.v")
        for theorem, line in CHECK["theorems"](file.read_text()).items()
    }


def test_the_page_names_statements_of_the_catalogue():
    named = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row["ids"])}
    assert named and named <= set(catalogue())


@pytest.mark.parametrize("file", sorted(PROOFS.glob("*.v")), ids=lambda file: file.name)
def test_a_file_leaves_nothing_unproved(file):
    assert CHECK["faults"](file.name, file.read_text()) == []


@pytest.mark.parametrize(
    ("source", "where"),
    [
        (SOURCE.replace("Qed", "Admitted"), "x.v:2: Admitted"),
        (SOURCE.replace("reflexivity", "admit"), "x.v:2: admit"),
        ("(* one\n*)\nAxiom no : False.\n" + SOURCE, "x.v:3: Axiom"),
        ("Parameter no : False.\n" + SOURCE, "x.v:1: Parameter"),
        (SOURCE.replace("Print Assumptions one.", "(* Print Assumptions one. *)"), "x.v:1: there is no"),
    ],
)
def test_an_unproved_step_is_found(source, where):
    assert CHECK["faults"]("x.v", SOURCE + "(* Admitted (* Axiom *) *)") == []
    assert CHECK["faults"]("x.v", source)[0].startswith(where)


def test_only_closed_theorems_pass():
    judged = CHECK["judged"]
    assert judged("x.v", SOURCE, "Closed under the global context\n") == []
    for output in ("", "Axioms:\nno : False\n", "Closed under the global context\n" * 2):
        assert judged("x.v", SOURCE, output)


def listed(text, field):
    """The numbers of a field of the definitions for Coq, in order."""
    values = re.search(rf"\b{field} := (.*?)(?:;[\s]*\w+ :=| \|\}})", text, re.DOTALL)[1]
    return [int(value.replace(" ", ""), 0) for value in re.findall(r"- 0x[0-9a-f]+|0x[0-9a-f]+", values)]


def test_coq_reads_the_numbers_of_the_export():
    folder = PROOFS / "digits"
    text = runpy.run_path(str(PROOFS / "reflect.py"))["source"](folder)
    exponent = int(re.search(r"exponent := (\d+)", text)[1])
    for field, file in (("hidden", "hidden"), ("readouts", "readout"), ("samples", "x"), ("labels", "y")):
        assert [value / 2**exponent for value in listed(text, field)] == np.fromfile(folder / f"{file}.f64").tolist()
    claimed, power = (int(re.search(rf"{name} := (\d+)", text)[1]) for name in ("claimed", "claimed_exponent"))
    content = json.loads((folder / "certificate.json").read_text())
    assert claimed / 2**power == content["claim"]["distance"]
    held = re.search(r"held := (.*?);\n", text)[1].split("; [::")
    assert [
        [r, i] for r, row in enumerate(held) for i, value in enumerate(row.split("; ")) if "true" in value
    ] == content["held"]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("root_of", 200, "the square root of 200 is no whole number"),
        ("schema", "ntkfl-any-order/1", "the export is of ntkfl-any-order/1; reflect.py reads ntkfl-any-order/3"),
    ],
)
def test_an_export_that_coq_cannot_take_is_refused(tmp_path, key, value, why):
    content = json.loads((PROOFS / "digits" / "certificate.json").read_text())
    (tmp_path / "certificate.json").write_text(json.dumps(content | {key: value}))
    with pytest.raises(ValueError, match=why):
        runpy.run_path(str(PROOFS / "reflect.py"))["source"](tmp_path)


def test_the_export_for_coq_passes_the_script():
    run = [sys.executable, ROOT / "ntkfl" / "any_order" / "ntkfl_check.py", PROOFS / "digits"]
    assert subprocess.run(run, capture_output=True, text=True).stdout.splitlines()[-1] == "certified"


def test_without_coq_it_says_what_to_install(tmp_path):
    run = subprocess.run(
        [sys.executable, PROOFS / "check.py"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert len(run.stdout.splitlines()) == 1 and "apt-get install coq" in run.stdout and not run.stderr
