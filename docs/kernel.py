"""Settings of the Jupyter kernel that runs a page.

Figures are SVG. A `!command` writes to a pipe, and the page shows when it fails.
"""

import os
import re
import subprocess

from IPython import get_ipython
from matplotlib_inline.config import InlineBackend

PROGRESS = re.compile(r"\d+ of \d+ ")  # the beginning of progress lines, which differ in every run


def run_shell(command: str) -> None:
    """Print what a command writes, as it comes. Then print its exit status, unless it is 0."""
    shell = get_ipython()
    line = shell.var_expand(command, depth=1)
    with subprocess.Popen(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        for text in started.stdout:
            if not PROGRESS.match(text):
                print(text, end="", flush=True)
    if started.returncode:
        print(f"[exit status {started.returncode}]")


os.environ.pop("FORCE_COLOR", None)  # the Jupyter kernel sets this variable, but a pipe shows no colours
get_ipython().system = run_shell
figures = InlineBackend.instance(parent=get_ipython())
figures.figure_formats, figures.print_figure_kwargs = (
    {"svg"},
    {"bbox_inches": "tight", "metadata": {"Date": None, "Creator": None}},
)
