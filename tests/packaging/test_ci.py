"""`.ci/run`, with a Makefile and a Coq that do nothing: any failure ends the run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
PARTS = "check", "proofs", "test-all"


@pytest.mark.parametrize("failing", [*PARTS, None])
def test_what_fails_ends_the_run(tmp_path, failing):
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci")
    (tmp_path / "coqc").write_text("#!/bin/sh\n")
    (tmp_path / "coqc").chmod(0o755)
    rules = [f"{part}: ; @echo {part}; {'false' if part == failing else 'true'}\n" for part in PARTS]
    (tmp_path / "Makefile").write_text("".join(rules))
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run([tmp_path / ".ci" / "run"], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (failing is None), done.stderr
    ran = [line for line in done.stdout.splitlines() if line in PARTS]
    last = {"check": 2, "proofs": 2}.get(failing, 3)
    assert sorted(ran[:2]) == ["check", "proofs"] and ran[2:] == list(PARTS[2:last])
