"""Runs an adapter on cases, in the adapter's own interpreter. This file imports only numpy and the adapter.

`python driver.py ADAPTER FOLDER FIRST`: FOLDER has the cases 0, 1, ... as folders. Each case from FIRST on is given to
the adapter's function `run`. The arrays of the answer to case N are written to N.npz, without pickles, and after that
the rest of the answer to N.json. Arrays that the adapter yields are copied at once.
"""

import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import sys
import zipfile
from pathlib import Path
from typing import Any

START = "start.json"
WANTED = "run(case) must return, or yield, a dictionary of arrays after every round"


def main(adapter: Path, folder: Path, first: int) -> None:
    """Load the adapter, report this in a file, and give the cases to the adapter."""
    try:
        import numpy

        sys.path.insert(0, str(adapter.parent))
        module = loaded("conformance_adapter", adapter)
        if not callable(getattr(module, "run", None)):
            raise TypeError("it has no function run(case)")
        reading = loaded("conformance_case", Path(__file__).with_name("conformance_case.py"))
        packages = {name: importlib.metadata.version(name) for name in getattr(module, "PACKAGES", ())}
    except BaseException as error:
        say(folder / START, {"fault": described(error)})
        raise
    python = {"python": platform.python_version(), "numpy": numpy.__version__}
    say(folder / START, {"packages": packages, "with": python})
    while (folder / str(first)).is_dir():
        case = reading.ConformanceCase.read(folder / str(first))
        say(folder / f"{first}.json", answer(module.run, case, folder / f"{first}.npz"))
        first += 1


def loaded(name: str, path: Path) -> Any:
    """The module that a file contains."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def answer(run: Any, case: Any, path: Path) -> dict[str, Any]:
    """Write the arrays that the adapter returns for a case to a file.

    Returns what N.json shall say: the names of `one_memory`, or why there are no arrays.
    """
    import numpy

    try:
        returned = run(case)
        if isinstance(returned, (dict, str, bytes)) or not hasattr(returned, "__iter__"):
            raise TypeError(f"run returned {type(returned).__name__}; {WANTED}")
        rounds = [copied(kept) for kept in itertools.islice(returned, case.rounds + 1)]  # `returned` may be endless
        if len({tuple(sorted(kept)) for kept in rounds}) > 1:
            raise ValueError("the rounds do not all have the same names")
        stacked = {name: numpy.array([kept[name] for kept in rounds]) for name in (rounds or [{}])[0]}
        with zipfile.ZipFile(path, "w") as file:  # older versions of savez have no allow_pickle
            for name, value in stacked.items():
                with file.open(f"{name}.npy", "w") as member:
                    numpy.lib.format.write_array(member, value, allow_pickle=False)
    except NotImplementedError as error:
        return {"left_out": str(error) or "not implemented"}
    except BaseException as error:  # even SystemExit is caught, so that the other cases are run
        return {"fault": described(error)}
    return {"one_memory": one_memory(returned)} if isinstance(returned, (list, tuple)) else {}


def copied(kept: Any) -> dict[str, Any]:
    """Copies of the arrays of a round.

    They are needed because the adapter may train on in the same memory, or use its dictionary again.
    """
    import numpy

    if not isinstance(kept, dict) or not all(isinstance(name, str) for name in kept):
        raise TypeError(f"a round is {type(kept).__name__}; {WANTED}")
    return {name: numpy.array(numpy.asarray(value)) for name, value in kept.items()}


def one_memory(rounds: Any) -> list[str]:
    """The names whose arrays have the same memory in the first round and in the last."""
    import numpy

    if len(rounds) < 2:
        return []
    first, last = ({name: numpy.asarray(value) for name, value in kept.items()} for kept in (rounds[0], rounds[-1]))
    return [name for name, value in first.items() if numpy.may_share_memory(value, last[name])]


def described(error: BaseException) -> str:
    """An exception as one line of text."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def say(path: Path, value: Any) -> None:
    """Write the value as JSON in one step, so that a waiting process never reads half of it."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    os.replace(part, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
