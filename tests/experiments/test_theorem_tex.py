"""Tests of statements as LaTeX: environments are closed, no hypothesis is missing, and the document compiles."""

import re
import shutil
import subprocess

import pytest
import sympy as sp
from latex2mathml.converter import convert
from typer.testing import CliRunner

from bounds import get
from bounds.papers import own
from experiments.command_line import app
from experiments.formulas.mathml import named
from experiments.formulas.theorem import PACKAGES, PREAMBLE, as_tex, text

DISPLAY = r"\\\[(.*)\\\]|\\begin\{align\*\}(.*)\\end\{align\*\}"
SOME = ["fl-ntk/B.12", "fl-ntk/A.2", "fl-ntk/C.7-error", "fedgucci/F9", "averaging/I7", "fl-ntk/X.6"]


def closed(tex: str) -> bool:
    """Says whether every environment and brace is closed, in the order in which they were opened."""
    opened = []
    for begin, end, brace in re.findall(r"\\begin\{([\w*]+)\}|\\end\{([\w*]+)\}|(?<!\\)([{}])", tex):
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
        (alone, aligned) = re.search(DISPLAY, theorem, re.DOTALL).groups()
        parts = [alone] if alone else aligned.split(r"\\[1ex]")
        assert len(parts) == len(claim.parts) and all(map(convert, parts))
        assert f"Recorded: {claim.recorded.value}" in remark and text(f"ntkfl verify {identifier}") in remark
        assert ("except with probability" in theorem) == (claim.failure is not None)


def test_a_premise_says_whether_the_size_must_be_large_or_small():
    """Theorem B.3 asks for a width of at least a given order of magnitude, and for a step of at most another."""
    premises = re.findall(r"^Let \$(.*?)\$ be at (\w+) of", as_tex(get("fl-ntk/B.3")), re.MULTILINE)
    assert premises == [("m", "least"), (r"\eta_{l}", "most")] * 2


@pytest.mark.parametrize(
    ("plain", "tex"),
    [
        ("lambda_min(H) <= 1e-12", r"$\lambda_{\mathrm{min}}$(H) $\le$ $10^{-12}$"),
        ("50% of {a} & #1 ~ x^2 \\ $", r"50\% of \{a\} \& \#\allowbreak{}1 \~{} $x^{2}$ \textbackslash{} \$"),
        ("|x| > 0, 6.4e7 a/b_c^{(k)}", r"$\vert$x$\vert$ $>$ 0, $6.4 \cdot 10^{7}$ a/\allowbreak{}$b_{c}^{(k)}$"),
        ("max_r |u_r(t) - w~|_F^2.", r"$\max_{r}$ $\vert u_{r}$(t) $-$ $\tilde{w} \vert_{F}^{2}$."),
        ("a_b.py of x'_inf", r"$a_{b}$.py of x'\_\allowbreak{}inf"),
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


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("identifier", "part"), [("deep/federated-rounds", 2), ("deep/kernel", 4), ("deep/any-order", 2)]
)
def test_names_in_a_long_formula_stand_for_what_they_replace(identifier, part):
    (form,) = list(get(identifier).forms.values())[:1]
    whole = sp.Tuple(form.parts[part])
    short, names = named(whole)
    assert names
    for symbol, meaning in reversed(names):
        short = short.xreplace({symbol: meaning})
    numbers = {s: 0.3 + 0.07 * k for k, s in enumerate(sorted(whole.free_symbols, key=str))}
    assert complex(short[0].subs(numbers)) == pytest.approx(complex(whole[0].subs(numbers)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-recommended)")
def test_a_document_of_all_statements_compiles_with_nothing_beyond_the_margins(tmp_path):
    body = "\n\n".join(as_tex(statement) for statement in own().values())
    document = "\\documentclass{article}\n" + PACKAGES + "\\begin{document}\n" + body + "\n\\end{document}\n"
    (tmp_path / "all.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.findall(r"Overfull \\hbox.*", done.stdout) == []
