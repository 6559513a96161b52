"""Write a report's folder as a whole or not at all, and never remove a user's file."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

MANIFEST = "ntkfl-report.json"


def check(folder: Path) -> None:
    """Raise an error unless the path does not exist, or is an empty folder or an older report.

    Raises:
        OSError: the path is a file, or cannot be written. ValueError: the folder has files that no report wrote.
    """
    target = folder.resolve()
    if target.exists() and not target.is_dir():
        raise OSError(f"cannot write the report to {folder}: it is a file; name a folder")
    parent = next(path for path in target.parents if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise OSError(f"cannot write the report to {folder}: no permission in {parent}")
    if not target.exists():
        return
    there = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir() or path.is_symlink()}
    if not there:
        return
    if MANIFEST not in there:
        raise ValueError(f"{folder} is there and is no report: it has no {MANIFEST}; name a new folder")
    foreign = sorted(there - set(_listed(target / MANIFEST)) - {MANIFEST})
    if foreign:
        raise ValueError(f"{folder} has {foreign[0]}, which no report wrote; move it away, or name a new folder")


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a report to the folder, in place of an older report.

    The files are first written to another folder beside it, and the two folders change places at the end. So a crash
    leaves the older report as it was.

    Raises:
        OSError, ValueError: as `check`, or because the disk is full.
    """
    check(folder)
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    new, old = (target.with_name(f".{target.name}.{os.getpid()}.{part}") for part in ("new", "old"))
    try:
        manifest = json.dumps({"generator": "ntkfl report", "files": sorted(files)}, indent=1) + "\n"
        for name, content in {**files, MANIFEST: manifest.encode()}.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if target.exists():
            target.rename(old)
        try:
            new.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _listed(manifest: Path) -> list[str]:
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        return list(map(str, content["files"])) if content["generator"] == "ntkfl report" else []
    except (ValueError, KeyError, TypeError):
        return []
