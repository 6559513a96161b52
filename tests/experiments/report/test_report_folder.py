"""Tests of the report's folder: it is written whole or not at all, and no file of the user is lost."""

from pathlib import Path

import pytest

from experiments.report.folder import MANIFEST, check, write

FILES = {"index.html": b"one", "statements/a.html": b"two"}


def there(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST}


def test_a_report_is_written_and_replaced_with_what_is_gone_removed(tmp_path):
    out = tmp_path / "new" / "report"
    write(FILES, out)
    assert there(out) == FILES
    write({"index.html": b"three"}, out)
    assert there(out) == {"index.html": b"three"}
    assert [path.name for path in out.parent.iterdir()] == ["report"]


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "report").mkdir()
    write(FILES, tmp_path / "report")
    assert there(tmp_path / "report") == FILES


def test_a_folder_that_is_no_report_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=f"is there and is no report: it has no {MANIFEST}; name a new folder"):
        write(FILES, tmp_path)
    assert there(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_file_added_to_a_report_is_kept(tmp_path):
    out = tmp_path / "report"
    write(FILES, out)
    (out / "statements" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"has statements/notes\.txt, which no report wrote; move it away"):
        write({"index.html": b"three"}, out)
    assert there(out) == FILES | {"statements/notes.txt": b"mine"}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"generator": "other", "files": ["index.html"]}'])
def test_a_manifest_of_another_sort_makes_no_report(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(ValueError, match="which no report wrote"):
        check(tmp_path)


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(OSError, match="it is a file; name a folder"):
        check(tmp_path / "report")
    with pytest.raises(OSError, match="no permission"):
        check(tmp_path / "report" / "deeper")


@pytest.mark.parametrize("moment", ["while pages are written", "when the old one is away"])
def test_a_crash_leaves_the_older_report(tmp_path, monkeypatch, moment):
    out = tmp_path / "report"
    write(FILES, out)
    original = {"write_bytes": Path.write_bytes, "rename": Path.rename}

    def full(path, content):
        if path.name == "b.html":
            raise OSError(28, "No space left on device")
        return original["write_bytes"](path, content)

    def refused(path, target):
        if path.name.endswith(".new"):
            raise OSError(13, "Permission denied")
        return original["rename"](path, target)

    if moment == "while pages are written":
        monkeypatch.setattr(Path, "write_bytes", full)
    else:
        monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OSError, match=r"No space left|Permission denied"):
        write({"a.html": b"new", "b.html": b"new"}, out)
    monkeypatch.undo()
    assert there(out) == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
