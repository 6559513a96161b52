"""Tests of `ntkfl verify --processes`: refusals, and a terminal's Ctrl-C, which arrives at every process at once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.command_line import app

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--processes", "0"], "processes is 0; it must be a positive integer"),
        (["--processes", "2", "--meta"], "leave out --meta, --symbolic and --device"),
        (["--processes", "2", "--device", "cpu"], "leave out --meta, --symbolic and --device"),
    ],
)
def test_processes_that_make_no_sense_are_refused(arguments, message):
    result = CliRunner().invoke(app, ["verify", "fl-ntk/A.2", *arguments])
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_an_interrupted_terminal_gets_what_all_processes_counted(tmp_path, sent, name):
    command = [sys.executable, "-m", "experiments", "verify", "fl-ntk/A.1", "fl-ntk/A.2", "fedgucci/F4"]
    options = ["--processes", "2", "--trials", "100000", "--json", str(tmp_path / "v.json")]
    started = subprocess.Popen(
        command + options,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        # A shell's background jobs ignore SIGINT, so the handler is set.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert started.stderr is not None
    said = [started.stderr.readline() for _ in range(2)]  # Cases run for some seconds before the second line.
    os.killpg(started.pid, sent)
    output, errors = started.communicate()
    assert started.returncode == 128 + sent, errors
    assert all("cases" in line for line in said) and "Traceback" not in errors
    assert errors.splitlines()[-2:] == [f"stopped by {name}", "what was counted until then is reported"]
    content = json.loads((tmp_path / "v.json").read_text())
    assert content["provenance"]["complete"] is False and content["verdicts"]
    assert all(verdict["notes"][0]["text"].startswith("interrupted: ") for verdict in content["verdicts"])
    assert all(verdict["id"] in output for verdict in content["verdicts"])
    assert "0 differ from what is recorded" in output and "DIFFERS" not in output and "FAILED" not in output


@pytest.mark.slow
def test_workers_take_no_module_from_the_users_folder(tmp_path):
    for name in ("bounds", "verification", "numbers"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    # The script has the sys.path of an installed script.
    installed = "import sys; sys.path.remove(''); from experiments.command_line import app; app()"
    command = [sys.executable, "-c", installed, "verify", "fl-ntk/A.1", "fedgucci/F4", "--processes", "2"]
    process = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "0 differ from what is recorded" in process.stdout and "not this one" not in process.stderr
