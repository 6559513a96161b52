"""Tests of the artifact for reviewers, built from this checkout and unpacked in an empty folder.

Three of its claims are checked, and no file contains the name of a person.
"""

import os
import re
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARTIFACT = ROOT / "docs" / "artifact"
sys.path.insert(0, str(ARTIFACT))
try:
    BUILD = runpy.run_path(str(ARTIFACT / "build.py"))
finally:
    sys.path.remove(str(ARTIFACT))
CLAIMS = BUILD["CLAIMS"]
SHOWN = ("certificate", "I10", "verdict")


def run(folder, *words):
    """Returns the output of a folder's claims.py, and its exit status; nothing else of this project is importable."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        [sys.executable, "claims.py", *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    return process.stdout, process.returncode


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    place = tmp_path_factory.mktemp("artifact")
    archive = place / "a.tar.gz"
    built = subprocess.run(
        [sys.executable, ARTIFACT / "build.py", archive], capture_output=True, text=True, cwd=place, check=False
    )
    if "git fails" in built.stdout:
        pytest.skip("not a git checkout")
    assert built.returncode == 0, built.stdout + built.stderr
    with tarfile.open(archive) as tar:
        assert {(entry.uid, entry.uname, entry.mtime) for entry in tar} == {(0, "", 0)}
        tar.extractall(place / "elsewhere", filter="data")
    return place / "elsewhere" / "ntkfl-artifact"


@pytest.mark.slow
def test_three_claims_come_out_in_an_empty_folder(unpacked):
    said, status = run(unpacked, *SHOWN)
    assert status == 0, said
    assert re.findall(r"^(\S+): as claimed", said, re.MULTILINE) == list(SHOWN)
    table = (unpacked / "ARTIFACT.md").read_text()
    assert all(f"`{claim.command}`" in table for claim in CLAIMS)
    assert not (unpacked / ".git").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "claim"),
    [
        ("certificate/y.f64", "certificate"),
        ("docs/checks/averaging_i10.py", "I10"),
        ("bounds/averaging/variance.py", "verdict"),
    ],
)
def test_a_damaged_artifact_does_not_show_its_claim(unpacked, path, claim):
    kept = (unpacked / path).read_bytes()
    try:
        (unpacked / path).write_bytes(bytes(len(kept)))
        said, status = run(unpacked, claim)
    finally:
        (unpacked / path).write_bytes(kept)
    assert status == 1 and said.startswith(f"{claim}: NOT as claimed")


def test_names_and_home_folders_are_found():
    # The path is joined from parts, because the artifact's check would find it in this file if it were one string.
    home = "/".join(("", "home", "jane"))
    files = {"a.py": b"by Jane Roe", "b.py": f"see {home}/data".encode(), "c.py": b"/home/you/data, jane", "d.py": b""}
    assert list(BUILD["naming"](files, ["jane roe"])) == [("a.py", "jane roe"), ("b.py", home)]


def test_an_archive_is_the_same_each_time():
    assert BUILD["packed"]({"b": b"2", "a": b"1"}) == BUILD["packed"]({"a": b"1", "b": b"2"})


def test_scripts_of_claims_are_there_and_wrong_names_are_refused():
    scripts = [claim.arguments[0] for claim in CLAIMS if claim.arguments[0].endswith(".py")]
    assert all((ROOT / script).exists() for script in scripts if not script.startswith("certificate/"))
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    said, status = run(ARTIFACT, "gone")
    assert status == 2 and said.startswith("there is no claim gone; it is one of certificate, I10")
    said, status = run(ARTIFACT)
    assert status == 0 and len(said.splitlines()) == len(CLAIMS)


def test_it_says_how_it_is_used(capsys):
    assert BUILD["main"](["out.zip"]) == 1
    assert capsys.readouterr().out.startswith("usage: python docs/artifact/build.py FILE.tar.gz")
