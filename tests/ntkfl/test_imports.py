"""Tests of imports from a user's folder that has the name of one of our packages: a message names the folder."""

import subprocess
import sys

import pytest

from ntkfl.imports import refuse_other_folders


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("bounds", "import verification"),
        ("verification", "from ntkfl.__main__ import main; main()"),
        ("experiments", "from ntkfl.__main__ import main; main()"),
    ],
)
def test_a_users_folder_in_front_of_ours_is_named(package, code, tmp_path):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    said = f"Error: {tmp_path / package} is imported as {package!r}, the name of a package of ntkfl"
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_bounds_warns_of_a_users_folder_in_front_of_verification(tmp_path):
    (tmp_path / "verification").mkdir()
    (tmp_path / "verification" / "__init__.py").touch()
    begin = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import bounds"
    done = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True)
    said = f"UserWarning: {tmp_path / 'verification'} is imported as 'verification', the name of a package of ntkfl"
    assert done.returncode == 0 and said in done.stderr, done.stderr
    ours = subprocess.run([sys.executable, "-c", "import bounds, verification"], capture_output=True, text=True)
    assert ours.returncode == 0 and not ours.stderr, ours.stderr


def test_a_folder_without_code_is_no_package_and_ours_are_let_through(tmp_path, monkeypatch):
    (tmp_path / "bounds").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    refuse_other_folders("bounds", "verification", "experiments")
