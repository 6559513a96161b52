"""The settings with which Sphinx builds the pages: `make docs`, without network."""

import gc
import sys
from pathlib import Path

gc.disable()  # garbage collection took 15 of a build's 56 seconds; without it the build takes 0.8 GB more
sys.path[:0] = [str(Path(__file__).parent / "extensions"), str(Path(__file__).parent)]

project = "ntkfl"
author = "the ntkfl authors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "commands",
    "docstrings",
    "folded_findings",
    "mathml",
    "methods",
    "shell_cells",
    "sidebar",
    "statement_pictures",
    "statements",
    "tables",
]
exclude_patterns = ["_build", "pages", "paper", "bench.md"]  # bench.md is part of performance.md
nitpicky = True
highlight_language = "text"
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other projects, whose pages would take a network to find

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_use_type_comments = False
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
myst_update_mathjax = False
nb_execution_mode = "off"  # the notebooks in executed/ have their outputs already, from docs/execute.py
nb_merge_streams = True

html_theme = "furo"
html_title = "ntkfl"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sphinx = False
html_show_copyright = False  # README names the licence; a copyright line would name nobody, so it would say nothing
html_copy_source = False
