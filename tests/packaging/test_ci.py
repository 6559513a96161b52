"""Tests of `.ci/run` with a Makefile and a Coq that do nothing: any failure fails the run, and no part hides a
failure.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
SET_UP = ".venv/.complete"
PARTS = "check", "proofs", "test-all"


@pytest.mark.parametrize("failing", [SET_UP, *PARTS, None])
def test_what_fails_fails_the_run(tmp_path, failing):
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci")
    (tmp_path / "coqc").write_text("#!/bin/sh\n")
    (tmp_path / "coqc").chmod(0o755)
    rules = [f"{part}: ; @echo {part}; {'false' if part == failing else 'true'}\n" for part in (SET_UP, *PARTS)]
    (tmp_path / "Makefile").write_text("".join(rules))
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run([tmp_path / ".ci" / "run"], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (failing is None), done.stderr
    ran = [line for line in done.stdout.splitlines() if line in (SET_UP, *PARTS)]
    assert sorted(ran) == ([SET_UP, "proofs"] if failing == SET_UP else sorted((SET_UP, *PARTS)))
    assert failing == SET_UP or ran.index(SET_UP) < min(ran.index("check"), ran.index("test-all"))
