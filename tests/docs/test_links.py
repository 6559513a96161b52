"""Tests of what the docs refer to.

Everything that scripts and pages import exists, and so does the target of every link in the README and the pages.
"""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXTS = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "pages").glob("*.py"))]
OURS = ("ntkfl", "bounds", "verification", "experiments")
CODE = {str(path.relative_to(ROOT)): path.read_text() for path in (*DOCS.glob("*.py"), *(DOCS / "pages").glob("*.py"))}
CODE |= {
    f"{path.name} {k}": block
    for path in TEXTS
    for k, block in enumerate(re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE))
}


def absent(code):
    """Returns the names of this project that code imports and that do not exist."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in wanted:
            if module.partition(".")[0] in OURS:
                try:
                    imported = importlib.import_module(module)
                    if name is not None and not hasattr(imported, name):
                        importlib.import_module(f"{module}.{name}")
                except ImportError:
                    yield f"{module}.{name}"


@pytest.mark.parametrize("where", CODE)
def test_what_is_imported_is_there(where):
    assert list(absent(CODE[where])) == []


@pytest.mark.parametrize("where", [where for where in CODE if not re.fullmatch(r"docs/\w+\.py", where)])
def test_guides_import_names_from_where_users_look_for_them(where):
    """Guides import from ntkfl, bounds, verification or an area such as ntkfl.training.

    Guides do not import from the modules of an area.
    """
    modules = {node.module for node in ast.walk(ast.parse(CODE[where])) if isinstance(node, ast.ImportFrom)}
    assert [module for module in modules if re.match(r"(ntkfl|bounds|verification)(\.\w+){2}", module or "")] == []


def test_what_is_not_there_is_found():
    assert list(absent("from ntkfl import gram, gone\nimport ntkfl.nowhere")) == ["ntkfl.gone", "ntkfl.nowhere.None"]


@pytest.mark.parametrize("path", [path for path in TEXTS if path.suffix == ".md"], ids=lambda path: path.name)
def test_what_is_linked_to_is_there(path):
    links = re.findall(
        r"\]\(((?![a-z]+:)[^)#\s]+)[^)]*\)", re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.S)
    )
    assert [link for link in links if not (path.parent / link).exists()] == []
