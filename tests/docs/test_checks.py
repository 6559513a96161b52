"""Checks of findings of substance: with numpy and mpmath alone they confirm, and with a planted fault refuse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bounds.papers import own, slug
from bounds.statement import Nature

CHECKS = Path(__file__).parents[2] / "docs" / "checks"
SCRIPTS = sorted(path.stem for path in CHECKS.glob("*.py"))
# Run in a process of its own, in which nothing but the standard library, numpy and mpmath can be imported.
ALONE = """
import importlib.abc, runpy, sys

class Refused(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "mpmath"} | sys.stdlib_module_names:
            raise ImportError(f"a check imports {name}; it may import numpy, mpmath and the standard library")

sys.meta_path.insert(0, Refused())
runpy.run_path(sys.argv[1], run_name="__main__")
"""
FAULTS = {  # a part of each script, and what would be wrong
    "averaging_i10": [
        ("sum(client(s, y) for y in ys) / K", "sum(client(s, y) for y in ys)"),
        ("1 - F(1, K)", "F(1, K)"),
    ],
    "deep_centralised": [("k1 + theta * k0", "theta * k0"), ("ETA / 2)", "ETA)")],
    "fedgucci_f17": [
        ("F(A**2, 2)", "F(A, 2)"),
        ("(float(gamma) / 2)", "(float(gamma) / 8)"),
        ("A, X, BEND", "X, A, BEND"),
    ],
    "fedgucci_f2_smooth": [("(mp.pi * r)", "(2 * mp.pi * r)"), ("(2 * mp.pi) for f", "(3 * mp.pi) for f")],
    "fedgucci_f3_equality": [("F(region.side, 2)) and", "region.side) and"), ("max(values[w]) <= eps", "w == w")],
    "fl_ntk_c_10": [
        ("mp.sqrt(2) * abs", "1.4 * abs"),
        ("f + (1 + f) * ETA", "f + ETA / 2"),
        ("ETA) - (1", "ETA) + (1"),
    ],
    "fl_ntk_centralised": [("b / 2 for a, b in zip(r, outputs(pulled)", "b / 3 for a, b in zip(r, outputs(pulled)")],
    "fl_ntk_eq18": [("arccos(g)) / (2", "arccos(g)) / (3"), ("(1 - (1 - eta * d) ** steps)", "(eta * d * steps)")],
}
END = '\n\nif __name__ == "__main__":'


def run(path):
    return subprocess.run(
        [sys.executable, "-I", "-c", ALONE, str(path)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )


def planted(script, line, folder):
    """The script with one function put in the place of another."""
    text = (CHECKS / f"{script}.py").read_text(encoding="utf-8")
    assert text.count(END) == 1
    (folder / "planted.py").write_text(text.replace(END, f"\n\n{line}\n{END}"), encoding="utf-8")
    return folder / "planted.py"


def test_every_finding_of_substance_has_a_script_and_no_script_is_without_one():
    findings = {s.id for s in own().values() for claim in s.forms.values() if claim.nature is Nature.SUBSTANCE}
    assert SCRIPTS == sorted(map(slug, findings)) and len(findings) >= 8
    for identifier in findings:
        text = (CHECKS / f"{slug(identifier)}.py").read_text(encoding="utf-8")
        assert text.startswith(f'"""Check of {identifier} (') and len(text.splitlines()) <= 105
        assert "\nPrinted" in text or "\nReported: " in text


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_confirms_its_finding_without_this_project(script):
    done = run(CHECKS / f"{script}.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VIOLATED" in done.stdout and "DISAGREES" not in done.stdout and not done.stderr


@pytest.mark.parametrize("line", ["printed = holds", "holds = printed"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_refuses_a_printed_claim_that_is_right_and_a_repair_that_is_wrong(script, line, tmp_path):
    done = run(planted(script, line, tmp_path))
    assert done.returncode == 1 and not done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize(("script", "old", "new"), [(name, *fault) for name in FAULTS for fault in FAULTS[name]])
def test_a_script_refuses_a_fault(script, old, new, tmp_path):
    text = (CHECKS / f"{script}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1 and FAULTS.keys() == set(SCRIPTS)
    (tmp_path / "planted.py").write_text(text.replace(old, new), encoding="utf-8")
    done = run(tmp_path / "planted.py")
    assert done.returncode == 1 and not done.stderr, done.stdout + done.stderr


def test_a_script_that_imports_more_is_refused(tmp_path):
    (tmp_path / "more.py").write_text("import scipy\n", encoding="utf-8")
    done = run(tmp_path / "more.py")
    assert done.returncode != 0 and "a check imports scipy" in done.stderr
