"""Tests of the pages with code: run again, every page prints the output that the site shows (docs/executed)."""

import execute
import nbformat
import pytest
from outputs import NOISE, assert_same


def marked(name: str):
    """Returns a page's name, marked as slow if the page's metadata say `slow`.

    Only the header is read while tests are collected, because jupytext would take .1 s a page.
    """
    header = (execute.PAGES / f"{name}.py").read_text(encoding="utf-8").partition("# %%")[0]
    return pytest.param(name, marks=[pytest.mark.slow] if "#   slow: true\n" in header else [])


def kept(name: str) -> nbformat.NotebookNode:
    return nbformat.read(execute.EXECUTED / f"{name}.ipynb", as_version=4)


def noise(cell: nbformat.NotebookNode) -> float | None:
    """Returns the noise that a cell's tags allow.

    The tag `noise:0.1` allows a relative difference of 0.1, and `timing` allows any (None).
    """
    tags = cell.metadata.get("tags", [])
    if "timing" in tags:
        return None
    return next((float(tag.removeprefix("noise:")) for tag in tags if tag.startswith("noise:")), NOISE)


def test_every_page_was_executed_and_no_other_output_is_kept():
    assert sorted(file.stem for file in execute.EXECUTED.glob("*.ipynb")) == execute.names()


@pytest.mark.parametrize("name", execute.names())
def test_the_kept_outputs_are_those_of_the_page_as_it_is(name):
    ours, theirs = execute.source(name), kept(name)
    assert bool(ours.metadata.get("slow")) == bool(marked(name).marks)
    assert [(c.cell_type, c.source, c.metadata) for c in ours.cells] == [
        (c.cell_type, c.source, c.metadata) for c in theirs.cells
    ], f"run `make docs-execute` (python docs/execute.py {name})"


@pytest.mark.parametrize("name", execute.names())
def test_figures_of_a_page_have_colours_for_dark_pages(name):
    for output in (output for cell in kept(name).cells for output in cell.get("outputs", [])):
        assert "image/png" not in output.get("data", {})
        assert "prefers-color-scheme:dark" in output.get("data", {}).get(execute.SVG, "prefers-color-scheme:dark")


def test_kept_pictures_have_colours_for_dark_pages():
    kept = [*execute.DOCS.glob("*.*"), *(execute.DOCS / "curves").iterdir()]
    pictures = [path for path in kept if path.suffix in (".svg", ".png", ".jpg", ".gif")]
    assert len(pictures) > 15
    for path in pictures:
        assert b"prefers-color-scheme:dark" in path.read_bytes(), path


@pytest.mark.parametrize("name", [marked(name) for name in execute.names()])
def test_a_page_prints_what_is_shown(name):
    for ours, theirs in zip(execute.execute(name).cells, kept(name).cells, strict=True):
        if ours.cell_type == "code":
            _assert_same_outputs(ours, theirs)


def _assert_same_outputs(ours: nbformat.NotebookNode, theirs: nbformat.NotebookNode) -> None:
    """Asserts that the outputs have the same kinds in the same order.

    Texts are compared by content. Pictures must only exist.
    """
    assert list(map(_kind, ours.outputs)) == list(map(_kind, theirs.outputs)), ours.source
    for output, shown in zip(ours.outputs, theirs.outputs, strict=True):
        assert_same(_text(output), _text(shown), noise(ours))


def _kind(output: nbformat.NotebookNode) -> tuple:
    return output.output_type, output.get("name"), output.get("ename"), sorted(output.get("data", {}))


def _text(output: nbformat.NotebookNode) -> str:
    return output.get("text") or output.get("evalue") or output.get("data", {}).get("text/plain", "")


def test_options_of_the_tests_that_run_a_page_are_not_those_of_tests_on_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--durations=5")
    assert execute._environment(tmp_path, tmp_path)["PYTEST_ADDOPTS"] == ""


def test_a_page_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no page 'from_pyton' in docs/pages; there are "):
        execute.source("from_pyton")


def test_text_is_taken_over_without_running_only_where_no_code_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "PAGES", tmp_path)
    monkeypatch.setattr(execute, "EXECUTED", tmp_path)
    page = tmp_path / "toy.py"
    page.write_text("# %% [markdown]\n# Old\n\n# %%\nprint(1)\n")
    with pytest.raises(ValueError, match="the code of toy is not that of docs/executed/toy"):
        execute.retold("toy")
    executed = execute.source("toy")
    executed.cells[1].outputs = [nbformat.v4.new_output("stream", text="1\n")]
    executed.metadata.language_info = {"name": "python"}
    nbformat.write(executed, tmp_path / "toy.ipynb")
    page.write_text("# %% [markdown]\n# New\n\n# %%\nprint(1)\n")
    retold_page = execute.retold("toy")
    assert [cell.source for cell in retold_page.cells] == ["New", "print(1)"]
    assert retold_page.cells[1].outputs[0].text == "1\n"
    page.write_text("# %% [markdown]\n# New\n\n# %%\nprint(2)\n")
    with pytest.raises(ValueError, match="run it, without --prose"):
        execute.retold("toy")
