"""Tests of `ntkfl train`: its output and files, resumption, Ctrl-C, and refusals in one line."""

import csv
import errno
import re
from types import SimpleNamespace, UnionType
from typing import Annotated, Union, get_args, get_origin

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from typed import command

from experiments.commands.models.train import KEYS
from experiments.console.method_options import method_options
from experiments.console.progress_bar import RunProgress
from ntkfl.training.checkpoint import load
from ntkfl.training.config import RunConfig, checked, read_toml
from ntkfl.training.methods import catalogue, options
from ntkfl.training.runs.training_run import run as run_in_python
from ntkfl.training.tree import flatten

SMALL = ["--clients", "5", "--samples", "100", "--test", "50", "--seed", "3", "--model", "mlp:8"]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def run(*arguments):
    return command("train", *arguments)


def table(folder):
    """Returns the rows as text, without the times."""
    return [line.rsplit(",", 1)[0] for line in (folder / "metrics.csv").read_text().splitlines()]


def refused(*arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and re.search(message, errors[0]), result.stderr
    assert "Traceback" not in result.output and not result.stdout


def test_a_files_owners_are_the_clients(tmp_path):
    rows = [f"{i / 10},{1 - i / 7},{i % 2},{i % 3}" for i in range(12)]
    (tmp_path / "mine.csv").write_text("a,b,y,owner\n" + "\n".join(rows))
    done = run("fedavg", "--data", tmp_path / "mine.csv", "--model", "mlp:4", "--rounds", 1)
    assert done.exit_code == 0 and re.search(r"clients +3\n", done.stdout), done.output
    done = run("fedavg", "--data", tmp_path / "mine.csv", "--model", "mlp:4", "--rounds", 1, "--partition", "iid")
    assert re.search(r"clients +10, iid", done.stdout), done.output


def without_limits(annotation):
    """Returns the type of an annotation, without None and limits."""
    if get_origin(annotation) in (Union, UnionType):
        return without_limits(next(literal for literal in get_args(annotation) if literal is not type(None)))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def test_every_key_is_an_option_of_its_type_and_every_option_a_key():
    assert ["method", "options", *KEYS] == list(RunConfig.model_fields)
    types = {name: without_limits(get_args(option)[0]) for name, option in KEYS.items()}
    wanted = {name: without_limits(RunConfig.model_fields[name].annotation) for name in KEYS}
    # The option for the batch size also takes a word, and the option for the start of IMA also takes a share.
    assert types == wanted | {"batch_size": str, "ima_start": float}
    for field in ("clients", "seed"):
        assert f"--{field}" in run("--help").stdout


def test_the_list_has_every_method_with_its_options_and_what_stands_there_are_the_defaults():
    lines = run("list").stdout.splitlines()
    named = {line.partition(":")[0] for line in lines if not line.startswith(" ")}
    assert named == set(catalogue())
    name = ""
    for line in lines:
        if not line.startswith(" "):
            name = line.partition(":")[0]
            continue
        written = method_options(re.findall(r"--option (\S+)", line))
        assert written == {key: option.default for key, option in options(name).items()}


def test_a_run_says_what_it_was_and_what_came_out(tmp_path):
    result = run("fedprox", *SMALL, "--rounds", 2, "--option", "mu=0.1", "--train-loss", "--out", tmp_path / "a")
    assert result.exit_code == 0, result.output
    done = run_in_python(
        "fedprox", "digits", "mlp:8", clients=5, samples=100, test=50, seed=3, rounds=2, options={"mu": 0.1}
    )
    last = done.rows[-1]
    assert re.search(rf"test accuracy +{last.test_accuracy:.2%} ", result.stdout)
    assert re.search(rf"test loss +{last.test_loss:.4g} .*nats per sample", result.stdout)
    assert "fedprox" in result.stdout and "100 training and 50 test samples" in result.stdout
    assert f"2 of 2 rounds: test loss {last.test_loss:.4g}" in result.stderr
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        ".lock",
        "checkpoint.safetensors",
        "config.toml",
        "metrics.csv",
        "outcome.txt",
    ]
    again = run("--config", tmp_path / "a" / "config.toml", "--out", tmp_path / "b")
    assert again.exit_code == 0 and table(tmp_path / "a") == table(tmp_path / "b")
    assert read_toml(tmp_path / "b" / "config.toml")["options"] == {"mu": 0.1}


def test_what_is_given_takes_the_place_of_the_file_s(tmp_path):
    (tmp_path / "c.toml").write_text(
        'method = "scaffold"\nrounds = 1\nsamples = 60\n[options]\noption = "I"\nserver_rate = 1.0\n'
    )
    words = ("--rounds", 2, "--batch-size", "full", "--option", "server_rate=0.5")
    result = run("--config", tmp_path / "c.toml", *words, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    config = checked(read_toml(tmp_path / "run" / "config.toml"))
    assert (config.method, config.rounds, config.samples, config.batch_size) == ("scaffold", 2, 60, "full")
    assert config.options == {"option": "I", "server_rate": 0.5}


def test_resumed_on_the_command_line(tmp_path):
    common = ["feddyn", *SMALL, "--participation", 0.4, "--momentum", 0.9, "--keep-optimizer"]
    assert run(*common, "--rounds", 4, "--out", tmp_path / "whole").exit_code == 0
    assert run(*common, "--rounds", 2, "--out", tmp_path / "parts").exit_code == 0
    refused(*common, "--rounds", 4, "--out", tmp_path / "parts", message="holds this run already, with 2 rounds done")
    refused("fedavg", *common[1:], "--out", tmp_path / "parts", message="method is 'feddyn' there and 'fedavg' here")
    refused("--resume", "--rate", 0.1, "--out", tmp_path / "parts", message=r"rate is 0.1, and 0.05 in the run")
    result = run("--resume", "--rounds", 4, "--out", tmp_path / "parts")
    assert result.exit_code == 0, result.output
    assert table(tmp_path / "whole") == table(tmp_path / "parts")
    whole, parts = (load(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts"))
    assert whole.run == parts.run and whole.state.rounds == parts.state.rounds == 4
    for part in ("server", "clients"):
        left, right = flatten(getattr(whole.state, part)), flatten(getattr(parts.state, part))
        assert left and list(left) == list(right) and all(torch.equal(left[name], right[name]) for name in left)


def test_averaging_around_a_method(tmp_path):
    result = run("fedavg", *SMALL, "--rounds", 4, "--ima", "--ima-window", 2, "--ima-start", 0.5, "--out", tmp_path)
    assert result.exit_code == 0 and "fedavg+ima" in result.stdout
    config = read_toml(tmp_path / "config.toml")
    assert (config["ima_start"], config["ima_window"]) == (2, 2)


def test_algorithm_1():
    result = run("fl-ntk", "--model", "ntk:64", "--samples", 60, "--test", 20, "--clients", 3, "--rounds", 60)
    assert result.exit_code == 0 and "half squares per sample" in result.stdout, result.output


def test_ctrl_c_keeps_the_rounds(tmp_path, monkeypatch):
    """Ctrl-C keeps the finished rounds; `test_interrupts` stops real processes at any moment."""
    folder, really = tmp_path / "run", RunProgress.__call__

    def stopped(progress, row, rounds):
        really(progress, row, rounds)
        if row.round == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunProgress, "__call__", stopped)
    result = run("feddyn", *SMALL, "--rounds", 1000000, "--out", folder)
    assert result.exit_code == 130 and "Traceback" not in result.stderr and not result.stdout, result.output
    said = re.search(r"stopped by Ctrl-C\n(\d+) of 1000000 rounds were done; they are kept in", result.stderr)
    done, rows = int(said.group(1)), table(folder)
    assert done == 3
    assert len(rows) == done + 2  # The two other lines are the header and the model before training.
    result = run("--resume", "--rounds", done + 1, "--out", folder)
    assert result.exit_code == 0 and table(folder)[: done + 2] == rows, result.output


def test_a_model_that_is_no_longer_finite_ends_with_one_line(tmp_path):
    result = run("fedavg", *SMALL, "--rate", 1e30, "--rounds", 3, "--out", tmp_path)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert re.search(r"error: round \d: .*no longer finite; the local rate 1e\+30 is too large", result.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fedprx"], "no method 'fedprx'.*Did you mean 'fedprox'"),
        (["fedprox", "--option", "mu"], "--option is 'mu'; write NAME=VALUE"),
        (["fedprox", "--option", "muu=1"], "fedprox has no option 'muu'"),
        (["fedprox", "--option", "mu=much"], "option mu is 'much'; it must be a finite number"),
        (["--data", "digit"], "'digit'.*Did you mean 'digits'"),
        (["--model", "mpl"], "no model 'mpl'.*Did you mean 'mlp'"),
        (["--model", "simple-cnn"], "at least"),
        (["--partition", "dirichlet:0"], "alpha is 0; it must be positive"),
        (["--clients", "400", "--samples", "300"], "400 clients cannot share 300 samples"),
        (["--clients", "0"], "clients is 0; it must be greater than or equal to 1"),
        (["--test", "-1"], "test is -1; it must be greater than or equal to 0"),
        (["--batch-size", "half"], "batch_size is 'half'; it must be .*'full'"),
        (["--epochs", "1", "--local-steps", "2"], "epochs is 1 and local_steps 2"),
        (["--ima-window", "3"], "ima_window is 3 without ima"),
        (["--device", "cuda:77"], "device is 'cuda:77'"),
        (["fedlc", "--target", "sign"], "fedlc needs classes"),
        (["--resume"], "name its folder with out"),
        (["--resume", "--out", "/nonexistent/run"], "no run in /nonexistent/run"),
        (["--config", "/nonexistent.toml"], "nonexistent.toml"),
    ],
)
def test_refused(arguments, message):
    refused(*arguments, message=message)


def test_a_file_with_a_wrong_key_is_named(tmp_path):
    (tmp_path / "c.toml").write_text("momentm = 0.9\n")
    refused("--config", tmp_path / "c.toml", message=r"c.toml: there is no key 'momentm'. Did you mean 'momentum'\?")


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    refused(*SMALL, "--rounds", "1", "--out", tmp_path / "file" / "run", message="Not a directory|File exists")


def test_a_damaged_checkpoint_is_refused(tmp_path):
    assert run("fedavg", *SMALL, "--rounds", 1, "--out", tmp_path).exit_code == 0
    file = tmp_path / "checkpoint.safetensors"
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)
    refused("--resume", "--out", tmp_path, message="checkpoint.safetensors is damaged")
    refused("fedavg", "--out", tmp_path, message="checkpoint.safetensors is damaged")
    assert file.read_bytes() == whole


def test_a_run_that_has_learned_nothing_says_so_in_the_last_line(tmp_path):
    large = ["fedavg", *SMALL, "--target", "one-hot", "--rounds", 3]
    result = run(*large, "--rate", 1e-9, "--out", tmp_path / "still")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("NOT TRAINED: after 3 rounds test accuracy is ")
    assert result.stdout.splitlines()[-1] == (tmp_path / "still" / "outcome.txt").read_text().strip()
    result = run("--resume", "--out", tmp_path / "still")
    assert result.exit_code == 1 and "NOT TRAINED" in result.stdout
    result = run("fl-ntk", "--model", "ntk:64", *SMALL[:-2], "--rate", 5, "--rounds", 3)
    assert result.exit_code == 1 and result.stdout.splitlines()[-1].startswith("DIVERGED: the test loss is ")


def test_local_says_that_it_reports_means():
    result = run("local", *SMALL, "--rounds", 1, "--client-accuracy")
    assert result.exit_code == 0 and "client accuracy" in result.stdout
    assert "each client's own model" in result.stdout and "own model" not in run("fedavg", *SMALL).stdout


@pytest.mark.parametrize("what", ["table", "checkpoint"])
def test_a_full_disk_ends_with_one_line_and_the_run_goes_on_when_there_is_room(tmp_path, monkeypatch, what):
    common, written = ["fedavg", *SMALL, "--out", tmp_path / "full"], []

    class FullWriter:
        def __init__(self, file):
            self.of = csv.writer(file)
            self.writerows = self.of.writerows

        def writerow(self, row):
            full()
            self.of.writerow(row)

    def full():
        written.append(1)
        if len(written) > 2:
            raise (
                SafetensorError("no room") if what == "checkpoint" else OSError(errno.ENOSPC, "No space left on device")
            )

    with monkeypatch.context() as patch:
        if what == "checkpoint":
            patch.setattr("ntkfl.training.checkpoint.save_file", lambda *given: (full(), save_file(*given)))
        else:
            patch.setattr("ntkfl.training.metrics.csv", SimpleNamespace(writer=FullWriter, reader=csv.reader))
        result = run(*common, "--rounds", 4)
    assert result.exit_code == 2 and "Traceback" not in result.output
    file = tmp_path / "full" / ("metrics.csv" if what == "table" else "checkpoint.safetensors")
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and f"cannot write {file}: " in errors[0], result.stderr
    assert errors[0].endswith("make room, and --resume goes on from the last checkpoint")
    assert run("--resume", "--out", tmp_path / "full").exit_code == 0
    assert run(*common[:-1], tmp_path / "whole", "--rounds", 4).exit_code == 0
    assert table(tmp_path / "full") == table(tmp_path / "whole")
