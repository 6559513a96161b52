"""Tests of `ntkfl applies`: it sorts forms by their hypotheses on one case.

With the options that its output names, the hypotheses hold.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from typed import command

from bounds import Form, Options, get
from experiments.console.choices import for_a_look
from ntkfl import data
from verification.applicability import Applies, applicable
from verification.engine import verify

FEW = ("fl-ntk/B.12", "fl-ntk/X.1", "fl-ntk/B.3-unbounded-labels", "fl-ntk/A.1", "fl-ntk/L6.1", "fl-ntk/B.3")
# The first statement claims a rate over widths, and the second a bound at the largest of several widths.
ALONG_WIDTHS = ("fl-ntk/L6.1", "fl-ntk/method-limits")


@pytest.fixture
def options(tmp_path):
    draws = np.random.default_rng(0)
    x = draws.normal(size=(12, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.savez(tmp_path / "mine.npz", x=x, y=np.sign(x[:, 0]), owner=np.arange(12) % 3)
    return Options(data=str(tmp_path / "mine.npz"), width=128, rounds=5, eta_local=0.01)


def test_it_says_of_one_case_what_verdicts_say_and_sorts_it(options):
    sorted_forms, left_out = applicable([get(name) for name in FEW], options)
    by_name = {(applied.statement.id, applied.form): applied for applied in sorted_forms}
    assert [list(Applies).index(applied.applies) for applied in sorted_forms] == sorted(
        list(Applies).index(applied.applies) for applied in sorted_forms
    )
    movement = by_name["fl-ntk/B.12", Form.REPAIRED]
    (verdict,) = verify(get("fl-ntk/B.12"), replace(options, trials=1), Form.REPAIRED)
    assert movement.applies is Applies.YES and movement.sharpness == verdict.tightness["sharpest"]
    assert movement.margins == verdict.counts.margins
    assert by_name["fl-ntk/X.1", Form.NEW].applies is Applies.IDENTITY
    assert by_name["fl-ntk/B.3", Form.STATED].applies is Applies.VACUOUS
    assert "asks for m >=" in by_name["fl-ntk/B.3", Form.STATED].why
    wide = by_name["fl-ntk/B.3-unbounded-labels", Form.REPAIRED]
    assert wide.applies is Applies.NO and wide.why.startswith("steps-of-the-proof: eta_l and eta_g eta_l")
    names = {applied.statement.id for applied in sorted_forms}
    # Statement A.1 is not about data, and statement L6.1 needs networks of several widths.
    assert "fl-ntk/A.1" not in names and "fl-ntk/L6.1" not in names
    forms = sum(len(get(name).forms) for name in FEW)
    assert len(sorted_forms) + left_out == forms and left_out >= 4


def test_networks_of_several_widths_are_not_trained(options):
    sorted_forms, left_out = applicable([get(name) for name in ALONG_WIDTHS], options)
    assert not sorted_forms and left_out == sum(len(get(name).forms) for name in ALONG_WIDTHS)


def test_the_options_that_it_names_pass(options):
    (first, *_), _ = applicable([get("fl-ntk/B.12")], replace(options, eta_local=0.5))
    assert (
        first.applies is Applies.OTHER_OPTIONS
        and "eta_l n K = 12, at most 1.2564: --eta-local 0.0523 passes" in first.why
    )
    (again, *_), _ = applicable([get("fl-ntk/B.12")], replace(options, eta_local=0.0523))
    assert again.applies is Applies.YES
    with pytest.raises(ValueError, match="there are no data"):
        applicable([get("fl-ntk/B.12")], Options())


def test_the_command(options, tmp_path):
    def run(*words):
        return command("applies", *words)

    small = ("--data", options.data, "--width", 128, "--rounds", 5)
    done = run("fl-ntk/B.12", "fl-ntk/X.1", *small, "--json", tmp_path / "o.json")
    assert done.exit_code == 0 and "2 apply, the sharpest first" in done.stdout, done.output
    assert "1 hold as identities" in done.stdout and done.stdout.splitlines()[-1].endswith(
        "5 rounds of 2 local steps of 0.3"
    )
    assert "3 forms looked at: 2 say something, 1 are identities, 0 say nothing" in done.stdout
    assert {record["applies"] for record in json.loads((tmp_path / "o.json").read_text())} == {"yes", "identity"}
    nothing = run("fl-ntk/B.12", *small, "--eta-local", 0.5)
    assert nothing.exit_code == 1 and "--eta-local 0.0523 passes" in " ".join(nothing.stdout.split())
    assert run("fl-ntk/B.12").exit_code == 2


def test_what_is_left_open_is_chosen_for_a_quick_and_stable_look(options, monkeypatch):
    open_ = replace(options, width=None, rounds=None, eta_local=None)
    problem = data.named(options.data)
    chosen = for_a_look(problem, open_, 100 * np.eye(problem.n))
    # The limit of the step is 2/100, and half of the limit is chosen.
    assert (chosen.width, chosen.rounds, chosen.eta_local) == (1024, 20, 0.01)
    # The default step is stable, so none is chosen.
    assert for_a_look(problem, open_, np.eye(problem.n)).eta_local is None
    for columns, width in ((1024, 1024), (4096, 256), (20_000, 64)):
        wide = replace(problem, x=np.ones((problem.n, columns)))
        assert for_a_look(wide, open_, np.eye(problem.n)).width == width
    monkeypatch.setattr("ntkfl.exact_dynamics.kernel_of", None)
    monkeypatch.setattr("ntkfl.limit.infinite_width.infinite", None)  # If the user gives a step, no kernel is needed.
    assert for_a_look(problem, options) == options
    assert for_a_look(problem, options, 100 * np.eye(problem.n)) == options
