"""A cell: one point of a study's grid, measured by one version of the code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.studies.study import Point


@dataclass(frozen=True)
class Cell:
    """Everything that a cell's numbers depend on."""

    study: str
    point: Point  # one value of every axis
    version: str  # version of the code, as `code_version.version_of`

    @cached_property
    def inputs(self) -> str:
        """The cell as canonical JSON: equal texts are equal cells, bit for bit."""
        fields = {"study": self.study, "point": dict(self.point), "version": self.version}
        return json.dumps(fields, sort_keys=True, allow_nan=False)

    @cached_property
    def key(self) -> str:
        """SHA-256 of `inputs`, in hexadecimal."""
        return hashlib.sha256(self.inputs.encode()).hexdigest()

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())
