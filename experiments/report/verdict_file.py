"""Files of verdicts that `ntkfl verify --json` writes, with the settings of the run.

A verdict is the result of checking one form of a statement, that is, one version of its claim.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bounds import catalogue
from verification.json_values import read_as
from verification.verdict import Verdict


@dataclass(frozen=True)
class VerdictFile:
    """The verdicts of one run and its provenance: versions, machine, options."""

    verdicts: tuple[Verdict, ...]
    provenance: dict[str, Any]

    @property
    def own_data(self) -> bool:
        """Whether some cases were made of the user's own data, for which no outcomes are recorded."""
        return any(verdict.own_data for verdict in self.verdicts)

    @property
    def complete(self) -> bool:
        """Whether the run was not interrupted."""
        return bool(self.provenance.get("complete", True))


def read(path: Path, *, any_version: bool = False) -> VerdictFile:
    """The verdicts and the provenance in a file.

    A file of another version may have statements or forms that this version does not have.

    Args:
        path: the JSON file.
        any_version: whether statements and forms that this version does not have are accepted, default no.

    Raises:
        ValueError: `ntkfl verify --json` did not write this file, a form occurs twice, or this version does not have
            one of the statements or forms. OSError: the file cannot be read.
    """
    try:
        run: VerdictFile = read_as(VerdictFile, json.loads(path.read_text(encoding="utf-8")), "")
        read_as(bool, run.provenance.get("complete", True), "provenance.complete")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a file that `ntkfl verify --json` wrote: {error}") from error
    seen: set[tuple[str, str]] = set()
    for verdict in run.verdicts:
        if (verdict.id, verdict.form) in seen:
            raise ValueError(f"{path} has two verdicts of {verdict.id} ({verdict.form.value}); one is right")
        seen.add((verdict.id, verdict.form))
        if not any_version:
            _check_known(path, verdict)
    return run


def _check_known(path: Path, verdict: Verdict) -> None:
    if verdict.id not in catalogue() and (file := verdict.provenance.get("statement", {}).get("file")):
        raise ValueError(f"{path} has a verdict of {verdict.id}, a statement of {file}: name that with --statements")
    if verdict.id not in catalogue():
        raise ValueError(f"{path} has a verdict of {verdict.id}, a statement that this version does not have")
    if verdict.form not in catalogue()[verdict.id].forms:
        raise ValueError(
            f"{path} has a verdict of {verdict.id} in the form {verdict.form.value}, which it has not here"
        )
