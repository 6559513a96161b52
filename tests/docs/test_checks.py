"""Tests of the scripts that check findings with numpy and mpmath alone.

Each script confirms its finding, and refuses it if a fault is planted in the script.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from bounds.papers import own, slug
from verification.findings.address import CHECKED

CHECKS = Path(__file__).parents[2] / "docs" / "checks"
SCRIPTS = sorted(path.stem for path in CHECKS.glob("*.py"))
# This text runs in a process of its own, in which only the standard library, numpy and mpmath can be imported.
ALONE = """
import importlib.abc, io, json, sys, traceback
from contextlib import redirect_stderr, redirect_stdout
import mpmath

class Refused(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "mpmath"} | sys.stdlib_module_names:
            raise ImportError(f"a check imports {name}; it may import numpy, mpmath and the standard library")

def done(text):
    out, err, status = io.StringIO(), io.StringIO(), 0
    mpmath.mp.dps = 15  # mpmath's precision at the start
    with redirect_stdout(out), redirect_stderr(err):
        try:
            exec(compile(text, "script", "exec"), {"__name__": "__main__"})
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            status = traceback.print_exc() or 2
    return status, out.getvalue(), err.getvalue()

sys.meta_path.insert(0, Refused())
json.dump([done(text) for text in json.load(sys.stdin)], sys.stdout)
"""
FAULTS = {  # For each script, parts of its text and a wrong replacement for each part.
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
    "fl_ntk_c_10": [
        ("mp.sqrt(2) * abs", "1.4 * abs"),
        ("f + (1 + f) * ETA", "f + ETA / 2"),
        ("ETA) - (1", "ETA) + (1"),
    ],
    "fl_ntk_centralised": [("b / 2 for a, b in zip(r, outputs(pulled)", "b / 3 for a, b in zip(r, outputs(pulled)")],
    "fl_ntk_eq18": [("arccos(g)) / (2", "arccos(g)) / (3"), ("(1 - (1 - eta * d) ** steps)", "(eta * d * steps)")],
}
COSTLY = {"deep_centralised", "fl_ntk_eq18"}  # Scripts that take half a second or more. Their tests are marked as slow.
END = '\n\nif __name__ == "__main__":'
LINES = ("printed = holds", "holds = printed")


def ran(*texts):
    """Runs scripts one after the other in one process; returns the exit status, the output and the errors of each."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout)


def text_of(script):
    return (CHECKS / f"{script}.py").read_text(encoding="utf-8")


@cache
def outcomes(script):
    """Returns what a script says: unchanged, with one line of LINES added, and with one of the script's faults.

    Each line of LINES makes the name of one of the functions `printed` and `holds` stand for the other function.
    """
    text = text_of(script)
    assert text.count(END) == 1 and all(text.count(old) == 1 for old, _ in FAULTS[script])
    planted = [text.replace(END, f"\n\n{line}\n{END}") for line in LINES]
    wrong = [text.replace(old, new) for old, new in FAULTS[script]]
    return dict(zip((None, *LINES, *FAULTS[script]), ran(text, *planted, *wrong), strict=True))


def test_every_finding_of_substance_or_reported_has_a_script_and_no_script_is_without_one():
    findings = {s.id for s in own().values() for claim in s.forms.values() if claim.nature in CHECKED}
    assert SCRIPTS == sorted(map(slug, findings)) and len(findings) >= 6
    for identifier in findings:
        text = text_of(slug(identifier))
        assert text.startswith(f'"""Check of {identifier} (') and len(text.splitlines()) <= 105
        assert "\nPrinted" in text or "\nReported: " in text


@pytest.mark.parametrize(
    "script", [pytest.param(script, marks=pytest.mark.slow if script in COSTLY else ()) for script in SCRIPTS]
)
def test_a_script_confirms_its_finding_without_this_project(script):
    status, out, err = outcomes(script)[None]
    assert status == 0, out + err
    assert "VIOLATED" in out and "DISAGREES" not in out and not err


def rows(several):
    """Returns a row of parameters for each script and each of its faults."""
    marks = {script: pytest.mark.slow if script in COSTLY else () for script in SCRIPTS}
    return [pytest.param(script, row, marks=marks[script]) for script in SCRIPTS for row in several(script)]


@pytest.mark.parametrize(("script", "line"), rows(lambda script: LINES))
def test_a_script_refuses_a_printed_claim_that_is_right_and_a_repair_that_is_wrong(script, line):
    status, out, err = outcomes(script)[line]
    assert status == 1 and not err, out + err


@pytest.mark.parametrize(("script", "fault"), rows(FAULTS.get))
def test_a_script_refuses_a_fault(script, fault):
    status, out, err = outcomes(script)[fault]
    assert status == 1 and not err, out + err


def test_a_script_that_imports_more_is_refused():
    ((status, _, err),) = ran("import scipy\n")
    assert status != 0 and "a check imports scipy" in err
