"""Tests of the page of machine-checked proofs, which must name existing files.

The program that checks the proofs refuses faulty ones.
"""

import json
import os
import re
import runpy
import shutil
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
    for output in ("", "Axioms:\nno : False\n", "Closed under the global context\n" * 2, "Axioms:\nint : Set\n"):
        assert judged("x.v", SOURCE, output)


def test_only_the_file_about_machine_integers_may_rest_on_them():
    judged, integers = CHECK["judged"], "Axioms:\nleb_spec\n  : forall x y : int, True\nint : Set\n"
    assert judged("Fast.v", SOURCE, integers) == []
    assert judged("Export.v", SOURCE, "Axioms:\nUint63.leb_spec\n  : True\nPrimInt63.int : Set\n") == []
    assert judged("Export.v", SOURCE, "Axioms:\nOther.int : Set\n")
    assert judged("Checker.v", SOURCE, integers)
    assert judged("Fast.v", SOURCE, integers + "no : False\n")
    assert judged("Fast.v", SOURCE, integers + "no\n  : False\n")


def test_only_files_with_logarithms_may_rest_on_the_axioms_of_the_reals():
    judged, printed = CHECK["judged"], "Axioms:\nClassical_Prop.classic : forall P : Prop, P \\/ ~ P\n"
    for file in PROOFS.glob("*.v"):
        needs_reals = re.search(r"^From Coq Require Import .*\bReals\b", file.read_text(), re.MULTILINE)
        assert (judged(file.name, SOURCE, printed) == []) == bool(needs_reals)
    assert judged("Connectivity.v", SOURCE, "Axioms:\nint : Set\n")
    assert judged("Connectivity.v", SOURCE, printed + "no : False\n")


def test_an_export_is_said_to_be_safe_as_the_stored_one_is():
    text = CHECK["of_export"]((PROOFS / "Digits.v").read_text())
    assert "check fast_dots stored proof" in text and "Print Assumptions export_is_safe." in text
    assert not re.search(r"plain_dots|erefl\)|digits_are_safe", text.replace("(erefl true)", ""))


def listed(text, field):
    """Returns in order the numbers of one field of the definitions for Coq.

    A matrix may be defined in several parts.
    """
    part = rf"Definition {field}_\d+ : seq \(seq [\w.]+\) := (.*?)\.\n|\b{field} := (\[.*?)(?:;\s*\w+ :=| \|\}})"
    shown = " ".join("".join(groups) for groups in re.findall(part, text, re.DOTALL))
    return [int(value.replace(" ", ""), 0) for value in re.findall(r"- 0x[0-9a-f]+|\b0x[0-9a-f]+|\b\d+\b", shown)]


@pytest.mark.parametrize("machine", [False, True])
def test_coq_reads_the_numbers_of_the_export(machine, tmp_path):
    folder = PROOFS / "digits"
    if machine:  # The weights fit into the machine's integers.
        folder = shutil.copytree(folder, tmp_path / "rounded")
        (np.rint(np.fromfile(folder / "hidden.f64") * 2**32) / 2**32).tofile(folder / "hidden.f64")
    text = runpy.run_path(str(PROOFS / "reflect.py"))["source"](folder, machine)
    assert ("seq (seq PrimInt63.int)" in text) == machine
    for field, file in {"hidden": "hidden", "readouts": "readout", "samples": "x", "labels": "y"}.items():
        bits = int(re.search(rf"{field.removesuffix('s')}_bits := (\d+)", text)[1])
        values = listed(text.replace("%uint63", ""), field)
        if machine and field == "hidden":
            values = [value if value < 2**62 else value - 2**63 for value in values]
        assert [value / 2**bits for value in values] == np.fromfile(folder / f"{file}.f64").tolist()
    claimed, power = (int(re.search(rf"{name} := (\d+)", text)[1]) for name in ("claimed", "claimed_exponent"))
    content = json.loads((folder / "certificate.json").read_text())
    assert claimed / 2**power == content["claim"]["distance"]
    held = []
    for i, row in enumerate(re.search(r"held := map \(column 256\) \[:: (.*?)\]%nat;\n", text)[1].split("; [::")):
        at = -1
        for gap in re.findall(r"0x[0-9a-f]+", row):
            at += int(gap, 0) + 1
            held.append([at, i])
    assert sorted(held) == sorted(content["held"])


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


COQDEP = """
for file in *.v; do
  echo "${file%.v}.vo ${file%.v}.glob: $file $(sed -n 's/^(. needs \\(.*\\) .)$/\\1/p' "$file")"
done
"""
COQC = """
for file; do :; done
for need in $(sed -n 's/^(. needs \\(.*\\) .)$/\\1/p' "$file"); do [ -e "$need" ] || exit 2; done
grep -q '1 = 2' "$file" && { echo "no proof" >&2; exit 1; }
touch "${file%.v}.vo"
echo 'Closed under the global context'
"""


def test_files_are_compiled_side_by_side_each_after_those_it_requires_and_none_after_one_that_fails(
    tmp_path, monkeypatch
):
    """Two scripts take the place of Coq's programs."""
    for name, script in (("coqdep", COQDEP), ("coqc", COQC)):
        (tmp_path / name).write_text("#!/bin/sh" + script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    needs = {"A": "", "B": "A.vo", "C": "B.vo A.vo", "D": "", "E": "D.vo"}
    folder = tmp_path / "proofs"
    folder.mkdir()
    for name, files in needs.items():
        (folder / f"{name}.v").write_text(f"(* needs {files} *)\n" * bool(files) + SOURCE)
    assert CHECK["requirements"](folder) == {
        f"{n}.v": {f"{f[0]}.v" for f in files.split()} for n, files in needs.items()
    }
    assert next(iter(CHECK["requirements"](folder))) == "A.v"
    for at_once in (1, 2, 4):
        compiled = [(name, wrong) for name, wrong, _ in CHECK["all_compiled"](folder, at_once)]
        assert sorted(compiled) == [(f"{name}.v", []) for name in needs]
        for file in folder.glob("*.vo"):
            file.unlink()
    (folder / "B.v").write_text("(* needs A.vo *)\n" + SOURCE.replace("1 = 1", "1 = 2"))
    compiled = {name: wrong for name, wrong, _ in CHECK["all_compiled"](folder, 2)}
    assert compiled["B.v"] == ["B.v: no proof"] and "C.v" not in compiled
