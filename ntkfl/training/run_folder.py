"""The folder of a single run: config.toml, metrics.csv, checkpoint.safetensors, outcome.txt."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ntkfl.extensions import require_outside
from ntkfl.training.checkpoint import Checkpoint, load

CONFIG, METRICS, CHECKPOINT, LOCK = "config.toml", "metrics.csv", "checkpoint.safetensors", ".lock"
OUTCOME, TRAINED = "outcome.txt", "trained"  # after the last round this file says whether the run has learned
MAY_CHANGE = "rounds"


class RunFolder:
    """The folder of a run. The file `metrics` has the measurements, and the file `checkpoint` the last stored state."""

    def __init__(self, path: Path) -> None:
        self.path, self.metrics, self.checkpoint = path, path / METRICS, path / CHECKPOINT
        self._seen = self._stamp()  # stamp of the checkpoint when this object was made

    def load(self) -> Checkpoint:
        """The checkpoint of the run in the folder.

        Raises:
            FileNotFoundError: there is no run. ValueError: the checkpoint is damaged or of another program; or the
            run's method or model is in a file of the folder, or in a file that is given without its full path. (If
            such a file were accepted, a file that came with somebody else's folder could be executed.)
        """
        if not self.checkpoint.is_file():
            raise FileNotFoundError(f"there is no run in {self.path}: it has no {CHECKPOINT}")
        checkpoint = load(self.checkpoint)
        for key in ("method", "model"):
            spec = str(checkpoint.run["config"].get(key)).partition(":")[0]
            require_outside(self.path, key, spec, "train")
        return checkpoint

    def require_free(self, config: Mapping[str, Any]) -> None:
        """Refuse a folder in which a new run cannot be begun.

        Args:
            config: keys of a run.

        Raises:
            FileExistsError: the folder has a run, or a file with a name that a run needs. ValueError: the folder has a
                damaged run.
        """
        if self.checkpoint.is_file():
            there = self.load()
            if key := differing(there.run["config"], config):
                config_there = there.run["config"].get(key)
                raise FileExistsError(
                    f"{self.path} holds another run: {key} is {config_there!r} there and {config.get(key)!r} here; "
                    "name another folder"
                )
            raise FileExistsError(
                f"{self.path} holds this run already, with {there.state.rounds} rounds done; resume it, or name "
                "another folder"
            )
        for name in (CONFIG, METRICS):
            if (self.path / name).exists():
                raise FileExistsError(f"{self.path / name} exists already, and belongs to no run; name another folder")

    def lock(self) -> int:
        """Make the folder if needed, and lock it until the returned file descriptor is closed or this process ends.

        Raises:
            BlockingIOError: another process trains in the folder, or has trained there since this object was made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise type(error)(f"cannot keep a run in {self.path}: {error.strerror}; name another folder") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BlockingIOError(
                f"another process is training in {self.path}; wait until it ends, or name another folder"
            ) from None
        if self._stamp() != self._seen:
            os.close(descriptor)
            raise BlockingIOError(f"another process has just trained in {self.path}; begin again")
        return descriptor

    def _stamp(self) -> tuple[int, ...] | None:
        """A tuple that changes whenever a checkpoint is written; None if there is no checkpoint."""
        if not self.checkpoint.is_file():
            return None
        status = self.checkpoint.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def describe(self, config: Mapping[str, Any]) -> None:
        """Write the configuration, for people and for `ntkfl train --config`.

        Args:
            config: keys of a run.
        """
        (self.path / CONFIG).write_text(as_toml(config), encoding="utf-8")


def differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """The first key other than "rounds" in which two configurations differ; None if there is none.

    Args:
        there: the configuration in the folder.
        here: the new configuration.
    """
    keys = [key for key in {**there, **here} if key != MAY_CHANGE]
    return next((key for key in keys if there.get(key) != here.get(key)), None)


def as_toml(config: Mapping[str, Any]) -> str:
    """The configuration as TOML. Entries that are None are left out, since TOML has no None.

    Args:
        config: keys of a run.
    """
    tables = {key: value for key, value in config.items() if isinstance(value, Mapping)}
    lines = _lines({key: value for key, value in config.items() if key not in tables})
    for name, table in tables.items():
        lines += [f"\n[{name}]", *_lines(table)] if table else []
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    there = {key: value for key, value in table.items() if value is not None}
    # JSON of a scalar or of a list is valid TOML
    return [f"{key} = {json.dumps(value, ensure_ascii=False, allow_nan=False)}" for key, value in there.items()]
