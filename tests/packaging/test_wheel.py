"""Tests of the distributions: they are built from the tree and installed into an environment of their own.

In that environment they are used outside a checkout. No network is needed, because the new environment has the test
environment's packages on its path. The editable checkout of the test environment is not on this path, since Python does
not read .pth files of folders on the path.
"""

import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy
import pytest
from packaging.requirements import Requirement

from ntkfl.version import VERSION

ROOT = Path(__file__).parents[2]
PACKAGES = ("ntkfl", "bounds", "verification", "experiments")
PROBE = "; ".join(f"import {package}; print({package}.__file__)" for package in PACKAGES)

pytestmark = pytest.mark.slow


def done(*command, cwd, env=None, status=0):
    """Runs a command, asserts its exit status, and returns its output."""
    process = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True)
    assert process.returncode == status, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Returns a folder with an sdist and with a wheel that is built from the sdist.

    Its subfolder `straight` has a wheel that is built from the tree.
    """
    out = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation")
    done(*build, "--outdir", out, ROOT, cwd=out)
    done(*build, "--wheel", "--outdir", out / "straight", ROOT, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(built):
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Returns a function that runs `ntkfl` in an environment that has the wheel, in an empty folder elsewhere."""
    place = tmp_path_factory.mktemp("elsewhere")
    done(sys.executable, "-m", "venv", "--without-pip", place / "venv", cwd=place)
    python = place / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    done(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel, cwd=place)
    (site,) = (place / "venv").glob("lib/*/site-packages")
    (site / "dependencies.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    work = place / "work"
    work.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "OMP_NUM_THREADS": "1"}

    def run(line, status=0):
        return done(python.parent / "ntkfl", *line.split(), cwd=work, env=env, status=status)

    run.python = lambda code: done(python, "-c", code, cwd=work, env=env)
    run.folder, run.site = work, site
    return run


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(wheel):
    tracked = done("git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES, cwd=ROOT).split()
    wanted = {name for name in tracked if (ROOT / name).is_file()}
    assert {f"{package}/py.typed" for package in PACKAGES} <= wanted
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == wanted


def test_the_wheel_of_the_sdist_is_that_of_the_tree(built, wheel):
    (straight,) = (built / "straight").glob("*.whl")
    one, other = zipfile.ZipFile(wheel), zipfile.ZipFile(straight)
    assert {name: one.read(name) for name in one.namelist()} == {name: other.read(name) for name in other.namelist()}


def test_the_metadata_say_what_it_is(wheel):
    archive = zipfile.ZipFile(wheel)
    about = Parser().parsestr(archive.read(f"ntkfl-{VERSION}.dist-info/METADATA").decode())
    assert (about["Name"], about["Version"], about["License-Expression"]) == ("ntkfl", VERSION, "Apache-2.0")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(about.get_all("Provides-Extra")) == set(extras)
    required = {}  # packages by extra; "" has the packages of every installation
    for line in map(Requirement, about.get_all("Requires-Dist")):
        extra = next((name for name in extras if line.marker and line.marker.evaluate({"extra": name})), "")
        required.setdefault(extra, set()).add(line.name)
    assert required["train"] == {"torch"} and required["privacy"] == {"dp-accounting"}
    assert not {"torch", "dp-accounting", "dask", "sphinx"} & required[""] and {"numpy", "jax"} <= required[""]
    assert set().union(*(required[name] for name in extras)) == required["dev"]
    assert "ntkfl = ntkfl.__main__:main" in archive.read(f"ntkfl-{VERSION}.dist-info/entry_points.txt").decode()
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()


def test_it_runs_where_no_checkout_is(installed):
    places = installed.python(PROBE).split()
    assert all(Path(place).is_relative_to(installed.site) for place in places), places
    assert f"ntkfl {VERSION}" in installed("--version")
    assert "fl-ntk/B.12" in installed("list")
    assert "Concentration of H(0)" in installed("show fl-ntk/C.6 --tex")
    assert "everything that is needed is there" in installed("doctor")
    assert "no violation" in installed("verify fl-ntk/C.6 --json found.json --markdown found.md")
    installed("report --verdicts found.json --out pages")
    assert (installed.folder / "pages" / "style.css").is_file()


def test_it_trains_and_runs_studies_where_no_checkout_is(installed):
    installed("train fedprox --data digits --samples 60 --test 30 --clients 3 --rounds 2 --model mlp:8 --out run")
    assert "fedprox" in (installed.folder / "run" / "config.toml").read_text()
    installed("study run certificate-frontier --dry-run")
    (installed.folder / "my_study.py").write_text((ROOT / "tests" / "extensions" / "own_study.py").read_text())
    assert "area ~ side^2" in installed("study run my_study.py --processes 2 --out cells")


def test_nothing_is_written_beside_what_was_named(installed):
    before = {path for path in installed.folder.rglob("*")}
    installed("rate")
    assert {path for path in installed.folder.rglob("*")} == before
