"""Tests of the imports in guides and pages.

Guides and pages import only from `ntkfl`, `bounds`, `verification`, an area such as `ntkfl.gram`, or `experiments`.
"""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = "ntkfl", "bounds", "verification", "experiments"
IMPORT = re.compile(
    rf"^ *(?:>>> )?(?:from|import) ((?:{'|'.join(OURS)})[\w.]*)(?: import (?:\(([^)]*)\)|([^(\n#]+)))?", re.MULTILINE
)
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/pages").glob("*.py")]


def imported(text: str) -> list[tuple[str, list[str]]]:
    """Returns the project's modules that a page imports from, each with the names that the page imports."""
    return [
        (module, [name.split()[0] for name in (several or few or "").replace("\n", " ").split(",") if name.strip()])
        for module, several, few in IMPORT.findall(text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_imports_is_near(page):
    for module, names in imported(page.read_text()):
        assert module.count(".") <= (not module.startswith("experiments.")), (
            f"{page.name} imports from {module}: give its names in {module.rpartition('.')[0]}"
        )
        assert [name for name in names if not hasattr(import_module(module), name)] == []


def test_imports_are_read():
    text = "from ntkfl.gram import (\n    deep,\n    finite as of,\n)\nimport bounds\n>>> from bounds.a.x import y, z\n"
    assert imported(text) == [("ntkfl.gram", ["deep", "finite"]), ("bounds", []), ("bounds.a.x", ["y", "z"])]


@pytest.mark.parametrize("name", ["bounds.symbols.n", "bounds.strategies.problems", "verification.kernels.check"])
def test_areas_are_there_once_their_package_is_imported(name):
    package, area, of_area = name.split(".")
    assert hasattr(getattr(import_module(package), area), of_area)
