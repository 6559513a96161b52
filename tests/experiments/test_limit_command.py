"""Tests of `ntkfl limit`: it prints and writes the numbers that Python gives, and bad input is refused in one line."""

import json

import pytest
from typed import command

from ntkfl import data, gram
from ntkfl.limit_curves import limit_curves, several_limit_curves

SMALL = ("--data", "digits", "--n", 60, "--test", 20, "--clients", 5, "--partition", "shards:2", "--rounds", 6)


def run(*words):
    return command("limit", *words)


@pytest.mark.parametrize(
    ("method", "options"), [("fedavg", {"server_rate": 0.9}), ("scaffold", {"server_rate": 0.9, "option": "I"})]
)
def test_the_table_and_the_file_are_what_python_gives(tmp_path, method, options):
    file, picture = tmp_path / "a.json", tmp_path / "a.svg"
    words = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    result = run(*SMALL, "--method", method, *words, "--json", file, "--plot", picture)
    assert result.exit_code == 0, result.output
    problem = data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)
    curves = limit_curves(problem, range(7), method=method, options=options)
    written = json.loads(file.read_text())
    at = {point["round"]: point for point in written.pop("points")}
    same = curves.to_dict()
    assert {point["round"]: point for point in same.pop("points") if point["round"] in at} == at
    assert same == written and {0, 1, 6} <= set(at)
    assert picture.read_text().lstrip().startswith("<?xml")
    assert ("no error bound" in result.stdout) == (method == "scaffold")
    assert f"{at[6]['test']:.4f}" in result.stdout


def test_several_methods_are_written_together(tmp_path):
    file, picture, state = tmp_path / "a.json", tmp_path / "a.svg", tmp_path / "run.npz"
    methods = ("--method", "fedavg", "--method", "fedavgm:momentum=0.5,server_rate=0.9")
    result = run(*SMALL, *methods, "--json", file, "--plot", picture, "--state", state)
    assert result.exit_code == 0, result.output
    problem = data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)
    methods = [("fedavg", {}), ("fedavgm", {"momentum": 0.5, "server_rate": 0.9})]
    together = several_limit_curves(problem, [0, 1, 2, 3, 4, 5, 6], methods)
    written = json.loads(file.read_text())
    for curves, part in zip(together, written, strict=True):
        assert part == json.loads(json.dumps(curves.to_dict()))
    assert "fedavg at infinite width" in result.stdout
    assert "fedavgm, momentum = 0.5, server_rate = 0.9 at infinite width" in result.stdout
    assert picture.read_text().count("|r| / |y|") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "a.svg", "run-1.npz", "run-2.npz"}


def test_schedules_are_typed_as_those_of_rate(tmp_path):
    file = tmp_path / "a.json"
    schedules = ("--local-schedule", "0.02,0.01", "--server-schedule", "1,0.9,0.8,0.7", "--steps-schedule", "3,1")
    result = run(*SMALL, "--method", "fedavg", *schedules, "--json", file)
    assert result.exit_code == 0, result.output
    assert (
        "local_steps = 3, 1 by round, eta_local = 0.02, 0.01 by round, eta_global = 1, 0.9, ..., 0.7" in result.stdout
    )
    problem = data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)
    curves = limit_curves(
        problem, range(7), None, "fedavg", local_steps=[3, 1], eta_local=[0.02, 0.01], eta_global=[1, 0.9, 0.8, 0.7]
    )
    assert json.loads(file.read_text()) == json.loads(json.dumps(curves.to_dict()))


def test_landmarks_take_the_place_of_the_matrix(tmp_path):
    file = tmp_path / "a.json"
    result = run(*SMALL, "--method", "fedavg", "--landmarks", 30, "--json", file)
    assert result.exit_code == 0 and "at infinite width, by 30 landmarks" in result.stdout, result.output
    problem = data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)
    curves = limit_curves(problem, range(7), gram.nystroem(problem.x, 30), "fedavg")
    assert json.loads(file.read_text()) == json.loads(json.dumps(curves.to_dict())) | {"landmarks": 30}


def test_tiles_in_a_file_give_the_same(tmp_path):
    inside, outside, tiles = (tmp_path / name for name in ("a.json", "b.json", "tiles.bin"))
    for json_file, *words in ((inside,), (outside, "--memmap", tiles), (outside, "--memmap", tiles)):
        json_file.unlink(missing_ok=True)
        result = run(*SMALL, "--json", json_file, *words)
        assert result.exit_code == 0, result.output
    assert inside.read_text() == outside.read_text() and tiles.stat().st_size > 60 * 60 * 4
    refused = run(*SMALL, "--seed", 3, "--memmap", tiles)
    assert refused.exit_code == 2 and "has no tiles of these samples" in refused.stderr


def test_a_build_that_is_stopped_says_that_its_file_has_tiles(tmp_path, monkeypatch):
    def stopped(*of):
        raise KeyboardInterrupt

    file, state = tmp_path / "tiles.bin", tmp_path / "run.npz"
    monkeypatch.setattr("ntkfl.gram.tiles.TilesFile.keep", stopped)
    ended = run(*SMALL, "--memmap", file, "--state", state)
    assert ended.exit_code == 130 and f"{file} has the tiles so far; the same command goes on" in said(ended)
    ended = run(*SMALL, "--tiles", "float32", "--state", state, "--memmap", tmp_path / "none" / "tiles.bin")
    assert ended.exit_code == 2 and not state.exists()
    monkeypatch.undo()
    for part, kept in (("prepare", "nothing is kept"), ("asking", f"{state} has the run; the same command goes on")):
        monkeypatch.setattr(f"ntkfl.limit.kept_run.KeptRun.{part}", stopped)
        ended = run(*SMALL, "--state", state)
        assert ended.exit_code == 130 and kept in said(ended)
        monkeypatch.undo()


def said(result):
    """Returns the text on standard error, with broken lines joined."""
    return " ".join(result.stderr.split())


def test_a_cluster_gives_the_same_file_and_one_that_is_lost_is_said(tmp_path):
    from distributed import LocalCluster

    alone, shared = tmp_path / "a.json", tmp_path / "b.json"
    options = {"threads_per_worker": 1, "processes": False, "protocol": "tcp", "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, **options) as cluster:
        there = ("--scheduler", cluster.scheduler_address)
        for file, *words in ((alone,), (shared, *there)):
            result = run(*SMALL, "--json", file, *words)
            assert result.exit_code == 0, result.output
        assert alone.read_text() == shared.read_text()
        both = run(*SMALL, *there, "--memmap", tmp_path / "tiles.bin")
        assert both.exit_code == 2 and "and tiles are in one place" in both.stderr
    with LocalCluster(n_workers=0, **options) as cluster:
        empty = run(*SMALL, "--scheduler", cluster.scheduler_address, "--state", tmp_path / "run.npz")
    assert empty.exit_code == 2 and "has no workers; start some" in empty.stderr and "nothing is kept" in empty.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--eta-global", 2), "--eta-global is not for this command; the server's step is --option server_rate=X"),
        (("--width", 9), "--width is not for this command"),
        (("--state", "run.txt"), "it must end in .npz"),
        (("--state", "none/run.npz"), "state is none/run.npz, but there is no folder none"),
        (("--plot", "a.gif"), "pictures are .png or .svg"),
        (("--clients", 99), "99 clients cannot share 60 samples"),
        (("--scheduler", "127.0.0.1:8786"), "it must be tcp://HOST:PORT or tls://HOST:PORT"),
        (("--tls-ca", "ca.pem"), "go with --scheduler tls://HOST:PORT"),
        (("--method", "fedavg", "--method", "feddyn", "--option", "alpha=2"), "write --method fedavg:alpha=VALUE"),
        (("--method", "fedavg", "--method", "fedavg"), "--method fedavg is there twice"),
        (("--landmarks", 3, "--tiles", "float32"), "--landmarks needs no tiles; leave out --tiles"),
        (("--landmarks", 61), "landmarks is 61; it must be from 1 to the number of samples, 60"),
        (("--method", "fedavgm:0.9"), "write NAME=VALUE, such as mu=0.01"),
        (("--method", "moon"), "has no exact linear limit"),
        (("--local-schedule", "0.1;0.2"), "--local-schedule is '0.1;0.2'; it must be numbers, such as 1,0.5"),
        (("--local-schedule", "0.1,0"), "eta_local is 0"),
        (("--local-schedule", "0.1", "--eta-local", 0.1), "eta_local is 0.1 in every round, and 0.1 by round"),
        (("--steps-schedule", "1,2", "--local-steps", 2), "local_steps is 2 in every round, and 1,2 by round"),
        (("--steps-schedule", "1,2.5"), "it must be whole numbers, such as 1,5,20"),
        (("--server-schedule", "1,2", "--method", "feddyn"), "feddyn"),
    ],
)
def test_bad_input_is_one_line(words, said):
    result = run(*SMALL, *words)
    assert result.exit_code == 2 and said in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2
