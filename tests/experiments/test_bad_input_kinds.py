"""Tests of bad input of every kind: one line says what was wrong and where, and the exit status is 2.

Other input gives no such line.
"""

import hashlib
import json

import numpy as np
import pytest
from typed import command as invoke

from bounds import Options, catalogue, find
from bounds.federated_run import FederatedRun
from verification.engine import verify_all

HEADER = "a,b,c,y\n"


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return [",".join(f"{v:.6f}" for v in rng.standard_normal(3)) + f",{1 - 2 * (i % 2)}\n" for i in range(n)]


def write(path, lines):
    path.write_text(HEADER + "".join(lines))
    return path


def refused(*words, says):
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    assert says in result.stderr and "Traceback" not in result.stderr and "[Errno" not in result.stderr
    # Lines with ": y is column " are notes on what was read, not errors.
    errors = [line for line in result.stderr.splitlines() if ": y is column " not in line]
    assert len(errors) == 1


def test_one_sample_is_one_client(tmp_path):
    one = write(tmp_path / "one.csv", rows(1))
    assert "1 x 1" in invoke("gram", "--data", one).stdout
    assert "2 x 2" in invoke("gram", "--n", 2).stdout
    assert "N = 1" in invoke("simulate", "--data", one, "--unit", "--width", 8, "--rounds", 1).stdout


def test_links_folders_and_devices_are_named(tmp_path):
    loop, folder = tmp_path / "loop.csv", tmp_path / "folder.csv"
    loop.symlink_to(loop)
    folder.mkdir()
    refused("gram", "--data", loop, says="is a link that leads back to itself")
    refused("gram", "--out", tmp_path / "loop.csv/x.npy", says="leads back to itself")
    refused("gram", "--data", folder, says="is a folder; name a file in it")
    refused("gram", "--data", tmp_path / "none.csv", says="there is no such file")
    refused("train", "fedavg", "--config", loop, says=f"{loop}: ")


def test_what_the_system_refuses_is_said_without_its_number(tmp_path):
    refused("train", "fedavg", "--out", "/proc/x", says="cannot keep a run in /proc/x")
    refused("gram", "--out", "/proc/x.npy", says="cannot write /proc/x.npy")
    missing = tmp_path / "v.json"
    refused("report", "--verdicts", missing, "--out", tmp_path / "r", says=f"error: {missing}: No such file")


def test_parallel_rows_have_their_line_numbers(tmp_path):
    lines = rows(4)
    twice = write(tmp_path / "twice.csv", [*lines[:2], "\n", lines[2], lines[0]])
    refused("gram", "--data", twice, says=f"{twice}, lines 2 and 6: rows 0 and 3 of x are parallel")


def test_a_paper_stands_for_all_its_statements():
    whole = find("fl-ntk")
    assert [statement.id for statement in whole] == [
        name for name in catalogue() if name.startswith("fl-ntk/")
    ] and len(whole) > 50
    assert find("FL-NTK", "fl-ntk/C.6") == whole
    with pytest.raises(KeyError, match="no statement 'fl-nt'"):
        find("fl-nt")


def test_memory_that_is_not_there_is_asked_for_before_the_work(tmp_path):
    data = ("--data", write(tmp_path / "ok.csv", rows(8)), "--unit")
    large = ("--width", 10**12)
    refused("verify", "fl-ntk/C.6", *data, *large, says="at initialisation takes")
    refused("verify", "fl-ntk/B.12", *data, "--rounds", 10**12, says="rounds up to")
    for command in ("simulate", "gram", "rate", "certify"):
        refused(command, *data, *large, says="width up to")
    refused("simulate", *data, "--rounds", 10**12, says="rounds up to")
    refused("train", "fedavg", "--model", f"mlp:{10**12}", says="parameters up to")


def test_cases_that_the_data_alone_reject_are_not_simulated(monkeypatch, tmp_path):
    prepared = []
    monkeypatch.setattr(FederatedRun, "prepare", lambda case: prepared.append(case))
    data = str(write(tmp_path / "not_unit.csv", rows(8)))
    for threads in (0, 2):
        verdicts = verify_all(find("fl-ntk/B.12"), Options(data=data, trials=2), threads=threads)
        assert not prepared
        assert {name for verdict in verdicts for name in verdict.counts.rejected} == {"unit-rows"}


def test_what_was_taken_as_what_is_said_once_and_first(tmp_path):
    data = write(tmp_path / "ok.csv", rows(8))
    said = "ok.csv: y is column 'y'; no column is the owner; 3 features, 'a' to 'c'"
    runs = ("gram", "rate", "applies", "simulate"), ("train", "fedavg", "--rounds", "1", "--clients", "2")
    for words in [*([command] for command in runs[0]), runs[1]]:
        result = invoke(
            *words, "--data", data, "--unit", *(("--width", 8, "--rounds", 1) if "simulate" in words else ())
        )
        assert result.stderr.splitlines().count(said) == 1 and result.stderr.startswith(said), (words, result.output)


def test_labels_that_look_like_classes_are_said_to_be_numbers(tmp_path):
    lines = [line.rsplit(",", 1)[0] + f",{i % 3}\n" for i, line in enumerate(rows(9))]
    three = write(tmp_path / "three.csv", lines)
    result = invoke("simulate", "--data", three, "--unit", "--width", 8, "--rounds", 1)
    assert result.exit_code == 0
    assert "look like 3 classes, 0 to 2; the network has one output, which is fitted to these numbers" in result.stderr


def test_verdicts_carry_the_checksum_of_the_data(tmp_path):
    data, out = write(tmp_path / "ok.csv", rows(8)), tmp_path / "v.json"
    invoke("verify", "fl-ntk/C.6", "--data", data, "--unit", "--trials", 2, "--json", out)
    content = json.loads(out.read_text())
    right = hashlib.sha256(data.read_bytes()).hexdigest()
    assert json.dumps(content).count(right) == 1 + len(content["verdicts"])
