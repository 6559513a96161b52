"""Statements as LaTeX: environments are closed, no hypothesis is missing, and the document compiles."""

import re
import shutil
import subprocess

import pytest
from latex2mathml.converter import convert
from typer.testing import CliRunner

from bounds import get
from bounds.papers import own
from experiments.command_line import app
from experiments.formulas.theorem import PREAMBLE, as_tex, text

SOME = ["fl-ntk/B.12", "fl-ntk/A.2", "fl-ntk/C.7-error", "fedgucci/F9", "averaging/I7", "fl-ntk/X.6"]
A_WORD = 80  # points: the most that a word without a hyphen sticks out; a path without breaks may do so further
DOCUMENT = r"""\documentclass{article}
\usepackage{amsmath,amssymb,amsthm}
\newtheorem{theorem}{Theorem}
\newtheorem*{remark}{Remark}
\begin{document}
%s
\end{document}
"""


def closed(tex: str) -> bool:
    """Whether every environment and brace is closed, in the order in which they were opened."""
    opened = []
    for begin, end, brace in re.findall(r"\\begin\{(\w+)\}|\\end\{(\w+)\}|(?<!\\)([{}])", tex):
        if begin or brace == "{":
            opened.append(begin or "}")
        elif not opened or opened.pop() != (end or "}"):
            return False
    return not opened


@pytest.mark.parametrize("identifier", SOME)
def test_a_form_is_a_theorem_with_its_hypotheses_and_its_outcome_under_it(identifier):
    statement = get(identifier)
    tex = as_tex(statement)
    assert tex.isascii() and closed(tex)
    theorems = re.findall(
        r"\\begin\{theorem\}(.*?)\\end\{theorem\}\n\\begin\{remark\}(.*?)\\end\{remark\}", tex, re.DOTALL
    )
    for (form, claim), (theorem, remark) in zip(statement.forms.items(), theorems, strict=True):
        hypotheses = statement.required(form)
        assert [text(h.says) in theorem for h in hypotheses] == [True] * len(hypotheses)
        formulas = re.findall(r"\\\[\n(.*?)\n\\\]", theorem, re.DOTALL)
        assert len(formulas) == len(claim.parts) and all(map(convert, formulas))
        assert f"Recorded: {claim.recorded.value}" in remark and text(f"ntkfl verify {identifier}") in remark
        assert ("except with probability" in theorem) == (claim.failure is not None)


@pytest.mark.parametrize(
    ("plain", "tex"),
    [
        ("lambda_min(H) <= 1e-12", r"$\lambda$\_min(H) $\le$ 1e-12"),
        ("50% of {a} & #1 ~ x^2 \\ $", r"50\% of \{a\} \& \#\allowbreak{}1 \~{} x\^{}2 \textbackslash{} \$"),
        ("|x| > 0", r"\textbar{}x\textbar{} \textgreater{} 0"),
    ],
)
def test_text_is_text_in_latex(plain, tex):
    assert text(plain) == tex


def test_the_command_prints_nothing_but_latex():
    result = CliRunner().invoke(app, ["show", "fl-ntk/A.2", "--tex"])
    assert (
        result.exit_code == 0
        and result.stdout.startswith(PREAMBLE)
        and result.stdout == as_tex(get("fl-ntk/A.2")) + "\n"
    )


@pytest.mark.slow
def test_every_statement_closes_what_it_opens():
    for statement in own().values():
        tex = as_tex(statement)
        assert tex.isascii() and closed(tex), statement.id


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-recommended)")
def test_a_document_of_all_statements_compiles_with_its_words_between_the_margins(tmp_path):
    bodies = [as_tex(statement) for statement in own().values()]
    (tmp_path / "all.tex").write_text(DOCUMENT % "\n\n".join(bodies))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    outside = re.findall(r"Overfull \\hbox \((\d+)\.\d+pt too wide\) in paragraph at lines (\d+)", done.stdout)
    assert [line for points, line in outside if int(points) > A_WORD] == []
