"""Tests of runs that were stopped and resumed: they are bitwise equal to runs without a stop.

A kept run is read back unchanged.
"""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tiny_federations import line, regression
from toy_runs import measured, objects, same, tensors, toy_data, toy_run

from ntkfl.training import load_run
from ntkfl.training.checkpoint import load
from ntkfl.training.methods import build, catalogue
from ntkfl.training.models.two_layer import to_network, to_networks
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.run_folder import RunFolder
from ntkfl.training.runs.training_run import prepared, run

whole = cache(toy_run)  # the result of a run that is not stopped, computed once
IMA = {"ima": True, "ima_window": 2, "ima_start": 1}


@pytest.mark.quick_rows(4)
@pytest.mark.kind("resumed")
@pytest.mark.parametrize(
    ("method", "more"),
    [(method, {"reduction": "mean"} if method == "fl-ntk" else {}) for method in catalogue()]
    + [pytest.param(method, IMA, marks=pytest.mark.method("ima")) for method in ("feddyn", "fedadam")]
    + [("feddyn", {"at_once": 2})],
)
def test_stopped_and_resumed(method, more, tmp_path):
    at_once = toy_run(method, **more)
    first = toy_run(method, out=tmp_path, rounds=2, **more)
    assert not same(at_once, first)
    resumed = run(**objects(), out=tmp_path, resume=True, rounds=4)
    assert same(at_once, resumed) and measured(at_once) == measured(resumed)
    assert len(resumed.rows) == 5 and resumed.state.rounds == 4


def test_the_state_that_is_compared_is_not_trivial():
    arrays = tensors(whole())
    kinds = {name.split("/")[0] + "/" + name.split("/")[1] for name in arrays if "/" in name}
    assert {"server/model", "clients/rule", "clients/optimizer"} <= kinds
    assert 0 < arrays["seen"].sum() <= len(arrays["seen"])


@pytest.fixture(scope="module")
def stopped():
    """Returns the pipes of stopped_runs.py, which starts the training processes."""
    command = [sys.executable, Path(__file__).with_name("stopped_runs.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        yield process.stdin, process.stdout


@pytest.mark.slow  # This test is slow, since the process of `stopped` loads torch again.
@pytest.mark.parametrize("where", ["round", "checkpoint"])
def test_killed_and_resumed(where, tmp_path, stopped):
    """A run that was killed is resumed.

    SIGKILL comes between the clients' and the server's part of round 2, or with a checkpoint half in place.
    """
    folder, (lines, said) = tmp_path / "run", stopped
    print(f"killed_in_a_{where} {folder}", file=lines)
    assert int(said.readline()) == -signal.SIGKILL
    assert (folder / ".checkpoint.safetensors.part").exists() == (where == "checkpoint")
    with (folder / "metrics.csv").open("a") as file:
        file.write("9,0.1,cut o")  # This line was being written when the process died.
    resumed = run(**objects("feddyn"), out=folder, resume=True)
    assert resumed.state.rounds == 4 and [row.round for row in resumed.rows] == [0, 1, 2, 3, 4]
    assert same(resumed, toy_run(build("feddyn", CrossEntropy()))) and measured(resumed) == measured(whole())
    names = [path.name for path in folder.iterdir()]
    assert sorted(names) == [".lock", "checkpoint.safetensors", "config.toml", "metrics.csv", "outcome.txt"]


@pytest.mark.slow
def test_two_processes_do_not_train_in_one_folder(tmp_path, stopped):
    """Two processes do not train in one folder.

    Nothing is written while another process trains. After the other process has died, training continues.
    """
    lines, said = stopped
    print(f"waiting {tmp_path}", file=lines)
    number = int(said.readline())
    try:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(BlockingIOError, match=r"another process is training in .*; wait until it ends, or name"):
            run(**objects(), out=tmp_path, resume=True)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    finally:
        os.kill(number, signal.SIGKILL)
    assert int(said.readline()) == -signal.SIGKILL
    resumed = run(**objects(), out=tmp_path, resume=True)
    assert same(resumed, whole()) and measured(resumed) == measured(whole())


def test_what_another_process_has_done_meanwhile_is_not_overwritten(tmp_path):
    """What another process has done meanwhile is not overwritten.

    Another run may begin and end between the reading of a folder and its lock.
    """
    folder = RunFolder(tmp_path)
    toy_run(out=tmp_path, rounds=1)
    with pytest.raises(BlockingIOError, match=r"another process has just trained in .*; begin again"):
        folder.lock()
    os.close(RunFolder(tmp_path).lock())


def test_a_folder_is_free_when_training_is_over(tmp_path):
    job = prepared(**objects(), dtype="float64", out=tmp_path, rounds=1)
    with pytest.raises(BlockingIOError):
        RunFolder(tmp_path).lock()
    job.train()
    os.close(RunFolder(tmp_path).lock())
    again = prepared(**objects(), out=tmp_path, resume=True)
    del again
    os.close(RunFolder(tmp_path).lock())


def test_averaging_that_never_begins_is_said(tmp_path):
    with pytest.warns(UserWarning, match="ima_start is 3, after the last of 2 rounds: no model is averaged until"):
        toy_run(out=tmp_path, rounds=2, ima=True, ima_start=3)
    resumed = run(**objects(), out=tmp_path, resume=True, rounds=4)
    assert same(resumed, toy_run(ima=True, ima_start=3))


def test_ctrl_c_keeps_the_rounds_that_were_done(tmp_path):
    def stop(row, rounds):
        if row.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toy_run(out=tmp_path, progress=stop, checkpoint_every=100)
    assert load(tmp_path / "checkpoint.safetensors").state.rounds == 3
    resumed = run(**objects(), out=tmp_path, resume=True)
    assert same(resumed, whole()) and measured(resumed) == measured(whole())


def test_checkpoints_are_as_many_rounds_apart_as_asked_for(tmp_path):
    there = []
    toy_run(out=tmp_path, checkpoint_every=3, progress=lambda *_: there.append(RunFolder(tmp_path).load().state.rounds))
    assert there == [0, 0, 3, 3] and RunFolder(tmp_path).load().state.rounds == 4


def test_ctrl_c_before_the_first_round(tmp_path, monkeypatch):
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr("ntkfl.training.runs.training_run.measured", Mock(side_effect=KeyboardInterrupt))
        toy_run(out=tmp_path)
    (tmp_path / "metrics.csv").unlink()
    assert measured(run(**objects(), out=tmp_path, resume=True)) == measured(whole())


def test_a_diverging_run_keeps_what_was_finite(tmp_path):
    def hot(number):
        return 1e300 if number == 2 else 0.01

    given = {"data": regression(), "model": line(), "dtype": "float64", "train_loss": True, "out": tmp_path}
    job = prepared("fedavg", **given, rounds=4)
    with pytest.raises(FloatingPointError, match=r"round 2: .* the local rate 1e\+300 is too large"):
        replace(job, federation=replace(job.federation, schedule=hot)).train()
    resumed = run(**given, resume=True)
    assert [row.round for row in resumed.rows] == [0, 1, 2, 3, 4] and np.isfinite(resumed.metrics["train_loss"]).all()


def test_a_folder_holds_one_run(tmp_path):
    toy_run(out=tmp_path, rounds=1)
    with pytest.raises(
        FileExistsError, match=r"holds this run already, with 1 rounds done; resume it, or name another"
    ):
        toy_run(out=tmp_path, rounds=1)
    with pytest.raises(FileExistsError, match=r"holds another run: momentum is 0.9 there and 0.5 here"):
        toy_run(out=tmp_path, momentum=0.5)
    with pytest.raises(FileExistsError, match="method is 'feddyn' there and 'fedavg' here"):
        toy_run("fedavg", out=tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.csv").write_text("mine")
    with pytest.raises(FileExistsError, match=r"metrics.csv exists already, and belongs to no run"):
        toy_run(out=tmp_path / "other")
    assert (tmp_path / "other" / "metrics.csv").read_text() == "mine"


def test_a_run_goes_on_with_the_samples_that_it_was_begun_with(tmp_path):
    toy_run(out=tmp_path, rounds=1)
    data = toy_data()
    for part in ("x", "y", "owner", "x_test", "y_test"):
        other = replace(data, **{part: np.roll(data.owner, 1) if part == "owner" else getattr(data, part).roll(1, 0)})
        with pytest.raises(ValueError, match="toy has changed since the run in"):
            run(**objects() | {"data": other}, out=tmp_path, resume=True)


def test_only_the_number_of_rounds_may_change(tmp_path):
    toy_run(out=tmp_path, rounds=2)
    with pytest.raises(ValueError, match=r"rate is 0.1, and 0.05 in the run that is resumed; only rounds may change"):
        toy_run(out=tmp_path, resume=True, rate=0.1)
    with pytest.raises(ValueError, match="rounds is 1, and 2 are done"):
        toy_run(out=tmp_path, resume=True, rounds=1)
    with pytest.raises(ValueError, match=r"the data of this run, <toy>, was an object; give it again"):
        run(model=objects()["model"], out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="method is '<fedavg>', and 'feddyn' in the run"):
        run(**objects("fedavg"), out=tmp_path, resume=True)
    other = toy_data()
    other.x[0, 0] += 1e-9
    with pytest.raises(ValueError, match=r"toy has changed since the run in .* was begun"):
        run(**objects() | {"data": other}, out=tmp_path, resume=True)
    with pytest.raises(FileNotFoundError, match="no run in"):
        toy_run(out=tmp_path / "nothing", resume=True)
    with pytest.raises(ValueError, match="name its folder with out"):
        toy_run(resume=True)
    assert run(**objects(), out=tmp_path, resume=True).state.rounds == 2  # The refusals have not harmed the run.


def test_averaging_that_starts_at_a_share_of_the_rounds_says_why_it_cannot_go_further(tmp_path):
    toy_run("fedavg", out=tmp_path, ima=True, ima_start=0.5, rounds=2)
    assert run(**objects(), out=tmp_path, resume=True, rounds=3).federation.method.server.start == 1
    with pytest.raises(ValueError, match="ima_start is 2, and 1 in the run that is resumed"):
        toy_run("fedavg", out=tmp_path, resume=True, ima=True, ima_start=0.5, rounds=4)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace("round", "lap", 1), "is no metrics file of this run"),
        (lambda text: "\n".join(text.splitlines()[:2]) + "\n", "ends with round 0; the checkpoint is of round 2"),
        (lambda text: text.replace("\n1,", "\n1,x,", 1), "the row of round 1 is .*not 11 numbers"),
        (lambda text: text.replace("\n1,", "\n5,", 1), "has round 5 where round 1 belongs"),
    ],
)
def test_a_damaged_table_is_refused(damage, message, tmp_path):
    toy_run(out=tmp_path, rounds=2)
    file = tmp_path / "metrics.csv"
    file.write_text(damage(file.read_text()))
    with pytest.raises(ValueError, match=message):
        toy_run(out=tmp_path, resume=True)


def test_other_versions_are_told(tmp_path, monkeypatch):
    toy_run(out=tmp_path, rounds=1)
    monkeypatch.setattr("ntkfl.training.runs.training_run.package_version", lambda name: "0.0")
    with pytest.warns(UserWarning, match="begun with other versions"):
        toy_run(out=tmp_path, resume=True)


def test_an_object_stands_for_itself(tmp_path):
    """A user's method object trains as the method of the catalogue does, and the object's name is kept."""
    own = replace(build("feddyn", CrossEntropy()), name="mine")
    kept = toy_run(own, out=tmp_path)
    assert kept.config.method == "<mine>" and same(kept, whole())
    assert np.isfinite(kept.metrics["train_loss"]).all()
    assert all(w.dtype == torch.float64 for w in kept.params.values())


SMALL = {"clients": 3, "samples": 60, "test": 30, "rounds": 1, "model": "two-layer:6", "dtype": "float64"}


def stamps(folder):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_it_is_the_run_that_was_kept_and_nothing_is_written(tmp_path):
    done = toy_run(out=tmp_path)
    before = stamps(tmp_path)
    read = load_run(tmp_path, **objects("feddyn"))
    assert same(done, read) and measured(done) == measured(read) and read.config == done.config
    assert stamps(tmp_path) == before


def test_a_run_of_names_needs_nothing_given_again(tmp_path):
    done = run("fedprox", options={"mu": 0.1}, out=tmp_path, **SMALL)
    read = load_run(str(tmp_path))
    assert same(done, read) and read.federation.method.name == "fedprox"
    assert read.federation.method.local == done.federation.method.local  # The method is read with its options.


def test_an_object_that_is_missing_other_data_and_an_empty_folder_are_refused(tmp_path):
    toy_run(out=tmp_path)
    with pytest.raises(ValueError, match=r"the model of this run, <.*>, was an object; give it again"):
        load_run(tmp_path, data=toy_data())
    changed = replace(toy_data(), x=toy_data().x + 1)
    with pytest.raises(ValueError, match="toy has changed since the run in"):
        load_run(tmp_path, **objects("feddyn") | {"data": changed})
    with pytest.raises(FileNotFoundError, match=r"no run in .*nowhere"):
        load_run(tmp_path / "nowhere")


def test_networks_of_a_run_and_of_its_clients_have_the_outputs_of_its_model(tmp_path):
    done = run("fedavg", **SMALL)
    x = done.federation.data.x_test
    ends = done.federation.round(done.state, keep_ends=True).ends
    for network, params in (
        (to_network(done.params), done.params),
        *zip(to_networks(ends), ({k: w[i] for k, w in ends.items()} for i in range(3)), strict=True),
    ):
        expected = done.model.outputs(params, x).numpy()
        assert np.allclose(network.outputs(x.flatten(1).numpy()), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="the parameters are 0, 1; exact barriers need hidden and readout"):
        to_network({"0": torch.zeros(2), "1": torch.zeros(2)})


@pytest.mark.parametrize(
    "key, spec", [("method", "mine.py"), ("model", "FOLDER/net.py:3,4"), ("method", "FOLDER/a.py")]
)
def test_a_folder_does_not_run_a_file_that_it_brings(key, spec, tmp_path, monkeypatch):
    (tmp_path / "checkpoint.safetensors").touch()
    config = {"method": "fedavg", "model": "mlp"} | {key: spec.replace("FOLDER", str(tmp_path))}
    monkeypatch.setattr("ntkfl.training.run_folder.load", lambda path: SimpleNamespace(run={"config": config}))
    with pytest.raises(ValueError, match=f"says that its {key} is in .*; only a file outside it"):
        RunFolder(tmp_path).load()
    config[key] = str(tmp_path.parent / "mine.py")
    assert RunFolder(tmp_path).load().run["config"] == config
