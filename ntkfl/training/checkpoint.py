"""The state of a run as a safetensors file, with the configuration and the code's versions. No pickle is ever read."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ntkfl.training.engine.federation import State
from ntkfl.training.tree import Tree, flatten, tree_map

KIND = "ntkfl training run, version 1"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run, the run's configuration, data and model as JSON values, and the versions of the code."""

    state: State
    run: dict[str, Any]
    provenance: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the checkpoint.

        The new file replaces an old one in one step, so a process that is killed leaves either the whole old file or
        the whole new one.

        Raises:
            OSError: the folder cannot be written.
        """
        trees = {"server": self.state.server, "clients": self.state.clients, "seen": self.state.has_trained}
        # copies, since safetensors refuses tensors that share memory
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in flatten(trees).items()}
        about = {
            "kind": KIND,
            "tree": json.dumps(_outline(trees)),
            "rounds": str(self.state.rounds),
            "run": json.dumps(self.run, sort_keys=True),
            "provenance": json.dumps(self.provenance, sort_keys=True),
        }
        part = path.with_name(f".{path.name}.part")
        try:
            try:
                save_file(tensors, part, about | {"sha256": tensors_digest(tensors, about)})
            except SafetensorError as error:  # for example on a full disk
                raise OSError(f"cannot write {path}: {error}") from error
            _flushed(part)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        _flushed(path.parent)


def load(path: Path) -> Checkpoint:
    """The checkpoint in a file, with all tensors on the CPU.

    Raises:
        OSError: no such file. ValueError: the file is damaged, or is no checkpoint of this package.
    """
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            about = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged, or no safetensors file: {error}") from None
    if about.get("kind") != KIND:
        kind = about.get("kind", "no such entry")
        raise ValueError(f"{path} is no checkpoint of this package: its metadata say {kind!r}, not {KIND!r}")
    if about.pop("sha256", None) != tensors_digest(tensors, about):
        raise ValueError(f"{path} is damaged: its content does not have the digest that was written with it")
    trees = _filled(json.loads(about["tree"]), tensors)
    state = State(int(about["rounds"]), trees["server"], trees["clients"], trees["seen"])
    return Checkpoint(state, json.loads(about["run"]), json.loads(about["provenance"]))


def restored(state: State, start: State) -> State:
    """The state, moved to the device of the run whose first state is `start`.

    Raises:
        ValueError: the state is of another run: parameters of other names, shapes or dtypes, or another number of
            clients.
    """
    shapes, right = ({name: (tuple(w.shape), w.dtype) for name, w in s.model.items()} for s in (state, start))
    for name in sorted(shapes.keys() | right.keys()):
        if shapes.get(name) != right.get(name):
            raise ValueError(f"the checkpoint's {name!r} is {shapes.get(name)}; this model's is {right.get(name)}")
    if len(state.has_trained) != len(start.has_trained):
        raise ValueError(f"the checkpoint has {len(state.has_trained)} clients; this run has {len(start.has_trained)}")
    device = next(iter(start.model.values())).device
    return replace(state, server=tree_map(lambda tensor: tensor.to(device), state.server))


def tensors_digest(tensors: Mapping[str, Tensor], about: Mapping[str, str] = {}) -> str:
    """SHA-256 of named tensors (names, dtypes, shapes and bytes) and of the description `about`."""
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _outline(tree: Tree) -> dict[str, Any]:
    """The keys of a tree in order, with empty dicts. A safetensors file keeps neither the order nor empty dicts."""
    return {key: _outline(value) if isinstance(value, dict) else None for key, value in tree.items()}


def _filled(outline: dict[str, Any], tensors: Mapping[str, Tensor], prefix: str = "") -> Tree:
    """The tree that has the keys of `outline`, with the tensors as its values."""
    return {
        key: tensors[prefix + key] if below is None else _filled(below, tensors, f"{prefix}{key}/")
        for key, below in outline.items()
    }


def _flushed(path: Path) -> None:
    """Wait until the contents of a file, or the entries of a folder, are written to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
