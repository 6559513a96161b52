"""Run the pages with code, `docs/pages/NAME.py`, and keep what they print in `docs/executed/NAME.ipynb`.

    python docs/execute.py [--prose] [NAME ...]

A page is a jupytext script in the percent format; a cell `# !ntkfl ...` is one shell command. Each page runs in a
Jupyter kernel of its own with one thread, in an empty temporary folder, where its files are written. Jupyter kernels
and `ntkfl` commands are forks of one process (docs/forked_programs.py). The tests run each page again and compare the
outputs. Words must be equal, and numbers may differ by 2%. A cell's tags may allow more: `# %% tags=["noise:0.1"]` sets
another share, and with `"timing"` any number is accepted. The script also copies the totals of FINDINGS.md into README.
A page that takes more than 10 seconds says so in its header:

    # ---
    # jupyter:
    #   slow: true
    # ---
"""

import argparse
import os
import re
import shlex
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import jupytext
import nbformat
from forked_programs import SETTINGS, program
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

from experiments.pictures import themed

DOCS = Path(__file__).resolve().parent
PAGES, EXECUTED = DOCS / "pages", DOCS / "executed"
README, FINDINGS = DOCS.parent / "README.md", DOCS.parent / "FINDINGS.md"
PATIENCE = 1800  # number of seconds after which a cell is stopped
SVG = "image/svg+xml"


def names() -> list[str]:
    """The names of the pages."""
    return sorted(page.stem for page in PAGES.glob("*.py"))


def source(name: str) -> NotebookNode:
    """A page as a notebook without outputs, and without what would differ from one reading to the next.

    Raises:
        ValueError: there is no such page.
    """
    if name not in names():
        raise ValueError(f"there is no page {name!r} in docs/pages; there are {', '.join(names())}")
    notebook = jupytext.read(PAGES / f"{name}.py")
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    return notebook


def execute(name: str) -> NotebookNode:
    """A page with the outputs of its cells, which are run.

    Raises:
        CellExecutionError: a cell raised an exception, and has no tag `raises-exception`.
        CellTimeoutError: a cell took longer than `PATIENCE`.
    """
    notebook = source(name)
    kernel = [f"--IPKernelApp.exec_files={DOCS / 'kernel.py'}"]
    with tempfile.TemporaryDirectory() as folder:
        work, commands, settings = (Path(folder, part) for part in ("work", "commands", "settings"))
        work.mkdir()
        commands.mkdir()
        (commands / "ntkfl").write_text(f'#!/bin/sh\nexec {shlex.join(program())} ntkfl "$@"\n')
        (commands / "ntkfl").chmod(0o700)
        sockets = {"transport": "ipc", "connection_file": str(Path(folder, "kernel.json"))}
        client = NotebookClient(
            notebook,
            timeout=PATIENCE,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=kernel,
            config=Config(KernelManager=sockets),
            resources={"metadata": {"path": str(work)}},
        )
        started = client.create_kernel_manager().kernel_spec
        started.argv = [*program(), "ipykernel_launcher", "-f", "{connection_file}"]
        client.execute(env=_environment(settings, commands))
        _settle(notebook, work)
    return notebook


def retold(name: str) -> NotebookNode:
    """A page whose text has changed, with its stored outputs; nothing is run.

    Raises:
        ValueError: the page's code has changed too, or no outputs are stored.
    """
    notebook, file = source(name), EXECUTED / f"{name}.ipynb"
    kept = nbformat.read(file, as_version=4) if file.exists() else nbformat.v4.new_notebook()
    ours, theirs = ([cell for cell in book.cells if cell.cell_type == "code"] for book in (notebook, kept))
    if [cell.source for cell in ours] != [cell.source for cell in theirs]:
        raise ValueError(f"the code of {name} is not that of docs/executed/{name}.ipynb; run it, without --prose")
    for cell, old in zip(ours, theirs, strict=True):
        cell.outputs, cell.execution_count = old.outputs, old.execution_count
    notebook.metadata.language_info = kept.metadata.language_info
    return notebook


def with_totals(readme: str, findings: str) -> str:
    """The README with the numbers of FINDINGS.md: its totals, the known failures and the rows that the README shows."""
    (totals,) = re.findall(r"^(\d+ verdicts: .*)\.$", findings, flags=re.MULTILINE)
    failing = sum(map(int, re.findall(r"(\d+) violated as", totals)))
    lines = textwrap.fill(totals, 80, subsequent_indent="  ")
    readme = re.sub(r"^\d+ verdicts: .*(\n  .*)*$", lines, readme, flags=re.MULTILINE)
    readme = re.sub(r"\d+ known failures? (is|are)", f"{failing} known failures are", readme)
    shown = r"^\| violated \| (\S+) \| (\w+) \| (\d+) \| (\S+) \|"
    rows = {(name, form): numbers for name, form, *numbers in re.findall(shown, findings, flags=re.MULTILINE)}

    def row(line: re.Match[str]) -> str:
        trials, tightness = rows[line[2], line[3]]
        return f"{line[1]}{trials:>{len(line[4])}}{tightness:>{len(line[5])}}"

    return re.sub(r"^(violated +(\S+) +(\w+))( +\d+)( +\S+)", row, readme, flags=re.MULTILINE)


def _environment(settings: Path, commands: Path) -> dict[str, str]:
    """The environment variables for a page.

    These commands and the programs of this environment come first in the path, and a user's settings are not read.
    """
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **SETTINGS, "PATH": path, "IPYTHONDIR": str(settings), "PYTEST_ADDOPTS": ""}


def _settle(notebook: NotebookNode, work: Path) -> None:
    """Remove versions and the folder's name, which differ between runs, and give figures colours for dark pages."""
    notebook.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for held, key in ((output, "text"), (output.get("data", {}), "text/plain")):
                if key in held:
                    held[key] = held[key].replace(f"{work}/", "").replace(str(work), ".")
            if SVG in output.get("data", {}):
                output["data"][SVG] = themed(output["data"][SVG].encode()).decode()


def main() -> None:
    """Run the pages that are named, or all pages. With --prose, take over only their text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="pages, all if none is named")
    parser.add_argument("--prose", action="store_true", help="the code is as it was: keep its outputs, run nothing")
    given = parser.parse_args()
    for name in given.name or names():
        start = time.monotonic()
        notebook = (retold if given.prose else execute)(name)
        EXECUTED.mkdir(exist_ok=True)
        nbformat.write(notebook, EXECUTED / f"{name}.ipynb")
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    README.write_text(with_totals(README.read_text(encoding="utf-8"), FINDINGS.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
