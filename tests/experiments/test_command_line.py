"""Tests of the command line: exit statuses, messages for bad input, files that are written or refused, interruption."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from typed import command as run

from bounds import Family, Outcome, catalogue, get
from bounds.listing import narrowed
from bounds.papers import conventions, own
from experiments.command_line import SECTIONS
from verification.verdict import Verdict

ROOT = Path(__file__).parents[2]
CHEAP = ["verify", "fl-ntk/A.2", "--trials", "20"]
LONG = {"fl-ntk/method-limits", "fl-ntk/state-maps"}  # statements with formulas that sympy prints only after seconds
DATA = np.random.default_rng(0).standard_normal((6, 3))
UNIT = DATA / np.linalg.norm(DATA, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def csv(path: Path, x: np.ndarray, y=None, owner=None) -> Path:
    columns = [f"f{i}" for i in range(x.shape[1])] + ["y"] + (["owner"] if owner is not None else [])
    y = np.where(np.arange(len(x)) % 2, 1.0, -1.0) if y is None else y
    table = np.column_stack([x, y, *([owner] if owner is not None else [])])
    lines = [",".join(columns), *(",".join(f"{v:.17g}" for v in row) for row in table)]
    path.write_text("\n".join(lines) + "\n")
    return path


def before_each_tail(monkeypatch, act):
    """Calls act(seed) before each case of the family "Gaussian tails" is drawn."""
    original = Family.case

    def case(self, seed):
        if self.name == "Gaussian tails":
            act(seed)
        return original(self, seed)

    monkeypatch.setattr(Family, "case", case)


@pytest.fixture
def drawn(monkeypatch):
    """Returns the list to which the seeds of drawn cases of the family "Gaussian tails" are added."""
    seeds = []
    before_each_tail(monkeypatch, seeds.append)
    return seeds


def refused(*arguments, message: str):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and re.search(message, errors[0]), result.stderr
    assert "Traceback" not in result.output


def test_one_statement_is_shown_in_full_with_the_totals_last():
    result = run(*CHEAP, "--seed", "5")
    assert result.exit_code == 0
    assert "fl-ntk/A.2 (stated)  HOLDS: no violation in 20 trials" in result.stdout
    assert "20 drawn = 0 rejected + 20 trials" in result.stdout
    assert "replay     ntkfl verify fl-ntk/A.2 --form stated --seed 5 --trials 20" in result.stdout
    assert result.stdout.splitlines()[-1] == "2 verdicts: 2 hold; 0 differ from what is recorded"


def test_several_statements_make_a_table_worst_first():
    result = run("verify", "fl-ntk/A.2", "fl-ntk/A.1", "--trials", "20")
    assert result.exit_code == 0
    outcomes = [line.split()[0] for line in result.stdout.splitlines() if "fl-ntk/" in line]
    assert outcomes == ["violated", "holds", "holds", "holds"]
    assert result.stdout.splitlines()[-1].startswith("4 verdicts: 3 hold, 1 violated as a scan reads")
    assert "\x1b" not in result.output


def test_strict_demands_that_every_form_holds():
    result = run("verify", "fl-ntk/A.2", "fl-ntk/A.1", "--trials", "20", "--strict")
    assert result.exit_code == 1
    said = "--strict: 1 of 4 forms were not tested, or not found to hold: fl-ntk/A.1 (stated) violated"
    assert result.stdout.splitlines()[-1] == said
    assert run("verify", "fl-ntk/A.2", "--trials", "20", "--strict").exit_code == 0


def test_the_form_is_chosen():
    result = run(*CHEAP, "--form", "new")
    assert "(new)" in result.stdout and "(stated)" not in result.stdout
    refused(*CHEAP, "--form", "proved", message="fl-ntk/A.2 has no form 'proved'; it has: new, stated")


def test_json_and_markdown_hold_the_same_verdicts(tmp_path):
    result = run(*CHEAP, "--json", tmp_path / "v.json", "--markdown", tmp_path / "v.md")
    assert result.exit_code == 0
    content = json.loads((tmp_path / "v.json").read_text())
    assert content["provenance"]["options"]["trials"] == 20 and content["provenance"]["complete"] is True
    read = [Verdict.from_json(part) for part in content["verdicts"]]
    assert [(v.id, v.form.value, v.outcome.value) for v in read] == [
        ("fl-ntk/A.2", "stated", "holds"),
        ("fl-ntk/A.2", "new", "holds"),
    ]
    assert "| holds | fl-ntk/A.2 | stated | 20 |" in (tmp_path / "v.md").read_text()
    assert sorted(os.listdir(tmp_path)) == ["v.json", "v.md"]


def test_a_verdict_that_differs_from_the_record_gives_status_1(monkeypatch):
    statement = get("fl-ntk/A.2")
    claims = {form: replace(claim, recorded=Outcome.VIOLATED) for form, claim in statement.forms.items()}
    otherwise = statement.with_forms(claims)
    monkeypatch.setitem(own(), statement.id, otherwise)
    result = run(*CHEAP)
    assert result.exit_code == 1 and "DIFFERS from what is recorded: violated" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("2 differ from what is recorded")
    assert run(*CHEAP, "--data", "sphere").exit_code == 0  # On a user's data only a violation counts as a failure.


@pytest.mark.parametrize("kind", ["--json", "--markdown"])
def test_an_output_that_cannot_be_written_is_known_before_the_work(tmp_path, drawn, kind):
    refused(*CHEAP, kind, tmp_path / "absent" / "out", message="cannot write .*absent.*: No such file or directory")
    refused(*CHEAP, kind, tmp_path, message="it is a folder; name a file")
    assert drawn == []


def test_one_file_cannot_take_two_outputs(tmp_path, drawn):
    refused(*CHEAP, "--json", tmp_path / "a", "--markdown", tmp_path / "a", message="named for two outputs")
    assert drawn == [] and os.listdir(tmp_path) == []


def test_a_file_keeps_its_content_until_the_results_exist(tmp_path, monkeypatch):
    target = tmp_path / "v.json"
    target.write_text("old")

    def fails(*arguments, **options):
        assert target.read_text() == "old"
        raise RuntimeError("a bug")

    monkeypatch.setattr("verification.processes.verify_in_processes", fails)
    result = run(*CHEAP, "--json", target)
    assert isinstance(result.exception, RuntimeError)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["v.json"]


def test_a_bug_in_a_statement_is_named_and_ends_no_other(monkeypatch):
    before_each_tail(monkeypatch, Mock(side_effect=ValueError("a bug, not bad input")))
    result = run(*CHEAP, "fl-ntk/X.7")
    assert result.exit_code == 1
    assert result.stdout.count("FAILED") == 2 and "error:" not in result.output
    assert "failed with ValueError: a bug, not bad input" in " ".join(result.stdout.split())
    assert re.search(r"^holds +fl-ntk/X\.7", result.stdout, flags=re.MULTILINE)


def test_interrupted_what_was_counted_is_printed_and_written(tmp_path, monkeypatch):
    def interrupts(seed):
        if seed == 12:
            raise KeyboardInterrupt

    before_each_tail(monkeypatch, interrupts)
    result = run(*CHEAP, "--json", tmp_path / "v.json", "--markdown", tmp_path / "v.md")
    assert result.exit_code == 130
    assert "12 drawn = 0 rejected + 12 trials" in result.stdout and "stopped by Ctrl-C" in result.stderr
    content = json.loads((tmp_path / "v.json").read_text())
    assert [v["trials"] for v in content["verdicts"]] == [12, 12] and content["provenance"]["complete"] is False
    assert all("interrupted" in " ".join(note["text"] for note in v["notes"]) for v in content["verdicts"])
    assert "12 trials" in (tmp_path / "v.md").read_text()


def test_an_interrupted_test_of_the_verifier_does_not_go_on_with_false_alarms(monkeypatch):
    asked = []

    def interrupts(seed):
        asked.append(seed)
        if len(asked) == 5:
            raise KeyboardInterrupt

    before_each_tail(monkeypatch, interrupts)
    result = run("verify", "fl-ntk/A.2", "--meta")
    assert result.exit_code == 130 and " in 0 runs of true statements" in result.stdout, result.output
    assert result.stderr.splitlines()[-2:] == ["stopped by Ctrl-C", "what was counted until then is reported"]
    assert len(asked) < 40  # Some cases are prepared ahead, but fewer than the 200 of a whole batch.


def test_interrupted_before_anything_was_counted(monkeypatch):
    before_each_tail(monkeypatch, Mock(side_effect=KeyboardInterrupt))
    result = run(*CHEAP)
    assert result.exit_code == 130 and "0 verdicts: none finished" in result.stdout


def test_an_unknown_statement_gets_the_nearest_ones(drawn):
    refused("verify", "fl-ntk/A.22", message="no statement 'fl-ntk/A.22'; nearest: .*fl-ntk/A.2")
    refused("show", "B.12", message="nearest: .*fl-ntk/B.12")
    assert drawn == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--width", "0"], "width is 0; it must be a positive integer"),
        (["--rounds", "-1"], "rounds is -1; it must be a positive integer"),
        (["--local-steps", "0"], "local_steps is 0"),
        (["--eta-local", "nan"], "eta_local is nan; it must be a positive finite number"),
        (["--eta-global", "-1"], "eta_global is -1"),
        (["--sigma", "0"], "sigma is 0"),
        (["--seed", "-1"], "seed is -1"),
        (["--clients", "0"], "clients is 0; it must be a positive integer"),
        (["--clients", "50"], "50 clients cannot share 20 samples"),
        (["--partition", "idd"], "there is no partition 'idd'"),
        (["--n", "0"], "n is 0; it must be a positive integer"),
        (["--trials", "0"], "trials is 0; it must be a positive integer"),
        (["--trials", "5", "--until-decided"], "--trials 5 says how many cases are drawn: leave out --until-decided"),
        (["--data", "digit"], "no data named 'digit'. Did you mean 'digits'"),
        (["--data", "absent.csv"], "absent.csv"),
    ],
)
def test_options_out_of_range(arguments, message, drawn):
    refused("verify", "fl-ntk/A.2", *arguments, message=message)
    assert drawn == []


def test_a_word_for_a_number_is_refused():
    assert run("verify", "--width", "wide").exit_code == 2


def test_bad_data_are_named(tmp_path, drawn):
    bad = UNIT.copy()
    bad[2, 1] = np.nan
    files = {
        csv(tmp_path / "nan.csv", bad): r"nan\.csv",
        csv(tmp_path / "zero.csv", UNIT * (np.arange(6) != 3)[:, None]): "row 3 .*zero",
        csv(tmp_path / "parallel.csv", UNIT[[0, 1, 2, 0]]): "rows 0 and 3 of x are parallel",
        csv(tmp_path / "empty.csv", UNIT, owner=[0, 0, 2, 2, 2, 0]): "client 1 owns no sample",
    }
    antipodal = np.vstack([np.eye(2), -np.eye(2), [[0.6, 0.8], [-0.6, -0.8]]])
    files[csv(tmp_path / "antipodal.csv", antipodal)] = r"antipodal pairs .*\(4, 5\)"
    lengths = tmp_path / "owner.npz"
    np.savez(lengths, x=UNIT, y=np.ones(6), owner=np.zeros(5, int))
    files[lengths] = r"owner has shape \(5,\)"
    several = tmp_path / "several.npz"
    np.savez(several, x=UNIT, y=np.ones((6, 2)))
    files[several] = r"y has shape \(6, 2\); the network has one output"
    (tmp_path / "ragged.csv").write_text("a,b,y\n1,2,3\n1,2\n")
    files[tmp_path / "ragged.csv"] = r"ragged\.csv.*line 3"
    for path, message in files.items():
        refused("verify", "fl-ntk/A.2", "--data", path, message=message)
    refused("verify", "fl-ntk/A.2", "--data", csv(tmp_path / "x.csv", UNIT), "--n", 3, message="takes no n")
    assert drawn == []


def test_rows_that_are_not_unit_are_said_once_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS")  # Without COLUMNS, no line is broken.
    small = ["--trials", "20", "--rounds", "2", "--width", "16", "--clients", "2", "--eta-local", "0.01"]
    path = csv(tmp_path / "mine.csv", 2 * UNIT)
    result = run("verify", "fl-ntk/B.7", "--data", path, *small)
    hints = [line for line in result.stderr.splitlines() if "unit norm" in line]
    assert len(hints) == 1 and re.search(r"off by up to 1; .* --unit", hints[0])
    # The exit status is 1, because nothing at all was tested.
    assert result.exit_code == 1 and "unit-rows" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("untested (") and result.stdout.endswith("--unit passes\n")
    assert "UNTESTED" in result.stdout and "DIFFERS" not in result.stdout  # No outcome is recorded for these data.
    normalised = run("verify", "fl-ntk/B.7", "--data", path, "--unit", *small)
    assert normalised.exit_code == 0 and "unit norm" not in normalised.stderr and "HOLDS" in normalised.stdout
    assert f"--data {path}" in normalised.stdout and "--unit" in normalised.stdout


def test_steps_beyond_the_limit_are_warned_of_with_the_limit():
    result = run("rate", "--data", "sphere", "--eta-local", "20")
    assert result.exit_code == 1 and result.stdout.startswith("NOT STABLE")
    assert "\nNOT STABLE, infinite width: " in result.stdout
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1 and re.search(r"eta_local < [\d.]+", warnings[0])
    assert re.search(r"rounds to 1e-06 .*never", result.stdout)


def test_verify_warns_once_of_the_users_steps_and_never_of_stored_cases():
    small = ["--trials", "20", "--width", "64", "--rounds", "2", "--data", "sphere"]
    result = run("verify", "fl-ntk/Eq1", "--eta-local", "20", *small)
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1 and re.search(r"eta_local = 20 .* eta_local < [\d.]+", warnings[0])
    quiet = run("verify", "fl-ntk/B.7", *small)  # The stored case of the statement takes steps beyond the limit.
    assert quiet.exit_code == 0 and "warning" not in quiet.stderr


@pytest.mark.parametrize("rounds", [28, 80])
def test_a_run_that_overflows_is_named_and_the_limit_is_said(rounds):
    steps = ["--data", "sphere", "--eta-local", "1e6", "--width", "16", "--rounds", rounds, "--trials", "5"]
    result = run("verify", "fl-ntk/Eq1", "--form", "stated", *steps)
    assert result.exit_code == 1  # The exit status is 1, because nothing could be tested.
    said = " ".join(result.stdout.split())
    assert re.search(r"UNRESOLVED on your data: 5 of 5 trials could not be computed: .*, seed 0 failed with", said)
    assert "overflowed" in said
    assert re.search(r"warning: .*eta_local < [\d.]+", result.stderr)


def test_rate_reaches_the_residual_in_the_rounds_it_says():
    from ntkfl import Setup, data, kernel_regime

    result = run("rate", "--data", "sphere", "--n", "6", "--seed", "3", "--width", "256", "--eps", "1e-3")
    assert result.exit_code == 0
    rounds = int(re.search(r"rounds to 0.001 of the start\s+(\d+)", result.stdout)[1])
    radius = float(re.search(r"factor ([\d.]+)", result.stdout)[1])
    problem = data.sphere(6, seed=3)
    regime = kernel_regime(problem, Setup(seed=3))
    norms = np.linalg.norm(problem.y - regime.outputs([rounds - 1, rounds]), axis=1) / np.linalg.norm(problem.y)
    assert norms[0] > 1e-3 >= norms[1]
    assert radius == pytest.approx(np.abs(np.linalg.eigvals(regime.round_map)).max(), rel=1e-8)
    assert "H(0) at width 256" in result.stdout
    refused("rate", "--eps", "0", message="eps is 0.0; it must be positive")


def test_certify_says_what_the_certificate_finds(tmp_path):
    from ntkfl import Setup, data
    from verification.certification import certify

    result = run("certify", "--json", tmp_path / "c.json")
    assert result.exit_code == 0 and result.stdout.startswith("CERTIFIED")
    content = json.loads((tmp_path / "c.json").read_text())
    setup = Setup(64000, eta_local=0.02)
    expected = certify(data.sphere(4), setup)
    assert content["certificate"]["certified"] and content["certificate"]["radius"] == expected.radius
    assert {condition["name"]: condition["holds"] for condition in content["certificate"]["conditions"]} == {
        condition.name: condition.holds for condition in expected.conditions
    }
    assert "width = 64000" in content["setting"] and content["provenance"]["seeds"] == {"weights": 0}


def test_certify_says_which_width_it_would_take():
    result = run("certify", "--width", "500")
    assert result.exit_code == 1
    assert re.match(r"NOT CERTIFIED at width 500; it would take about \d\.\de\+\d\d neurons", result.stdout)
    assert "FAILS" in result.stdout and "--watch trains on until a round does" in result.stdout
    refused("certify", "--json", "absent/c.json", message="cannot write absent/c.json")


def test_list_names_every_statement_and_form(monkeypatch):
    monkeypatch.delenv("COLUMNS")
    result = run("list", "--paper", "fl-ntk")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for statement in (s for i, s in catalogue().items() if i.startswith("fl-ntk/")):
        (at,) = (i for i, line in enumerate(lines) if line.split()[0] == statement.id)
        assert lines[at] == f"{statement.id}  {statement.title}"
        assert lines[at + 1].startswith(f"    {statement.kind.value}: ")
        for form in statement.forms:
            assert f"{form.value} {statement.forms[form].recorded.value}" in lines[at + 1]
    for command in ("list", "verify"):
        refused(command, "--paper", "fl-ntkk", message="no paper 'fl-ntkk'; it is one of fl-ntk")
        refused(command, "averaging/I8", "--paper", "fl-ntk", message="none of these is a statement of fl-ntk")


def test_list_searches_texts_and_verify_keeps_to_a_paper():
    named = [line.split()[0] for line in run("list", "--search", "EIGENVALUE h(0)").stdout.splitlines()[:-1:2]]
    assert "fl-ntk/Weyl" in named and len(named) < len(catalogue()) / 4
    assert set(named) >= {i for i, s in catalogue().items() if {"eigenvalue", "h(0)"} <= set(s.title.lower().split())}
    assert named == [statement.id for statement in narrowed(map(get, named), text="eigenvalue")]
    refused("list", "--search", "eigenvalue unheard", message="statements has 'eigenvalue unheard' in its texts")
    kept = run("verify", "fl-ntk/Weyl", "averaging/I8", "--paper", "fl-ntk", "--trials", "1", "--processes", "1")
    assert kept.exit_code == 0 and "fl-ntk/Weyl" in kept.stdout and "I8" not in kept.stdout


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    "identifier", [pytest.param(i, marks=pytest.mark.slow) if i in LONG else i for i in sorted(catalogue())]
)
def test_show_tells_hypotheses_source_measure_and_mutants(identifier):
    statement = get(identifier)
    result = run("show", identifier)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for said in (statement.title, statement.source.label, statement.says_left, *(m.name for m in statement.mutants)):
        assert " ".join(said.split()) in text
    for form, formula in statement.forms.items():
        for hypothesis in statement.required(form):
            assert " ".join(hypothesis.says.split()) in text
        recorded = f"recorded: {formula.recorded.value}"
        # A form is one version of the statement's claim. Its `nature` says how the form differs from a form that holds;
        # it is None if the form does not differ.
        if formula.nature is not None:
            word = "remark" if formula.recorded is Outcome.HOLDS else "differs from what holds by"
            recorded += f" {word}: {formula.nature.value}"
        assert recorded in text


def test_show_of_a_paper_tells_its_conventions():
    result = run("show", "fl-ntk")
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    for convention in conventions("fl-ntk"):
        assert convention.used in text and convention.printed in text


def test_algebraic_steps_are_proved_by_statement_and_refused_beside_what_runs_cases():
    result = run("verify", "--symbolic", "fl-ntk/A.2")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "2 of 2 steps proved; nothing here is sampled"
    refused("verify", "--symbolic", "fl-ntk/A.1", message="no algebraic step belongs to fl-ntk/A.1")
    refused("verify", "--symbolic", "--meta", message="--symbolic runs no case")


def test_the_findings_page_is_made_from_saved_verdicts(tmp_path):
    saved, page = tmp_path / "v.json", tmp_path / "FINDINGS.md"
    assert run("verify", "fl-ntk/A.1", "--trials", "20", "--json", str(saved)).exit_code == 0
    assert run("findings", "--from", str(saved), "--output", str(page)).exit_code == 0
    assert "#### fl-ntk/A.1, stated" in page.read_text()
    refused("findings", "--from", str(page), message="is not a file that `ntkfl verify --json` wrote")
    refused("findings", "--from", str(saved), "--measure", message="both say where the numbers come from")


def test_findings_measures_nothing_unless_told(monkeypatch):
    known = {"fl-ntk/A.1": get("fl-ntk/A.1")}
    monkeypatch.setattr("bounds.listing.catalogue", lambda: known)
    monkeypatch.setattr("verification.processes.verify_in_processes", None)
    result = run("findings")
    assert result.exit_code == 0 and "fl-ntk/A.1, stated" in result.stdout and not result.stderr


@pytest.mark.parametrize("command", ["list", "doctor", "cite", "rate --n 8", "verify fl-ntk/A.1 --trials 4"])
def test_nothing_is_wider_than_the_terminal_and_piped_lines_are_whole(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*command.split()).stdout
    monkeypatch.delenv("COLUMNS")
    piped = run(*command.split()).stdout
    assert max(map(len, shown.splitlines())) <= 80
    # The shell continues a command after a line that ends with a backslash.
    assert shown.replace(" \\\n", "\n").split() == piped.split()
    assert max(map(len, piped.splitlines())) > 80 or command.startswith("verify")


def test_findings_are_listed_for_a_terminal_and_written_as_markdown(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("findings").stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "\\_" not in "".join(lines)
    different = [f"{i}, {form}" for i, s in catalogue().items() for form in s.forms if s.forms[form].nature]
    assert sorted(line.split(" (")[0] for line in lines if ", " in line and line.split(", ")[0] in catalogue()) == (
        sorted(different)
    )
    page = tmp_path / "page.md"
    assert run("findings", "--output", str(page)).exit_code == 0
    assert page.read_text().count("\n### ") == len(different)


def test_replay_files_of_findings_need_a_folder(tmp_path):
    refused(
        "findings", "--replays", str(tmp_path / "absent"), message="absent, which is no folder; make it, or name one"
    )


def test_help_lists_every_command_once_under_its_heading():
    said = run("--help").output
    for heading, commands in SECTIONS.items():
        below = said.partition(f"\n{heading}:\n")[2].partition("\n\n")[0].splitlines()
        assert {line.split()[0] for line in below} == set(commands)


def test_help_is_quick_because_nothing_heavy_is_imported():
    code = (
        "import sys; from experiments.command_line import app\n"
        "try: app(['verify', '--help'])\nexcept SystemExit: pass\n"
        "sys.exit(bool({'jax', 'sympy', 'numpy', 'scipy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for option in "data unit clients partition width eta-local eta-global local-steps rounds sigma seed".split():
        assert f"--{option}" in done.stdout


def test_it_runs_from_a_checkout_as_a_module_and_loads_all_statements_without_what_is_slow_to_load():
    command = [sys.executable, "-W", "error", "-X", "importtime", "-m", "experiments", *CHEAP]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2 verdicts: 2 hold; 0 differ from what is recorded"
    assert "\x1b" not in done.stdout + done.stderr
    loaded = re.findall(r"\| +(\S+)$", done.stderr, flags=re.MULTILINE)
    assert "bounds.cases.cube_networks" in loaded and not {"torch", "jax"} & set(loaded)


def test_one_statement_in_one_form_is_counted_as_such():
    assert run("list", "fl-ntk/B.7").stdout.splitlines()[-1].startswith("1 statement in 1 form, ")
    assert run("list", "fl-ntk/B.12").stdout.splitlines()[-1].startswith("1 statement in 3 forms, ")
