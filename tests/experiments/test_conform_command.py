"""Tests of `ntkfl conform`: its output, its files and its refusals."""

import json
from pathlib import Path

import pytest
from typed import command

from ntkfl.conformance import methods, variants_of

PLAIN = Path(__file__).parents[2] / "ntkfl" / "conformance" / "loops.py"


def invoke(*words):
    return command("conform", *words)


@pytest.fixture
def faulty(tmp_path):
    """Returns an adapter with faults.

    Its FedAvg ignores the server's step size, one case of FedAvg raises an error, and SCAFFOLD is not implemented.
    """
    text = PLAIN.read_text().replace("w = w + server_rate * d\n", "w = w + d\n")
    text = text.replace(
        "def run(case: ConformanceCase) -> States:\n", "def run(case):\n    return ours(case)\n\n\ndef plain(case):\n"
    )
    text += (
        "\n\ndef ours(case):\n    if case.name == 'fedavg/logistic':\n        raise ValueError('no | labels')\n"
        "    if case.method == 'scaffold':\n        raise NotImplementedError('later')\n    return plain(case)\n"
    )
    (tmp_path / "faulty.py").write_text(text)
    return tmp_path / "faulty.py"


def test_the_plain_loop_is_equal_and_the_files_say_so(tmp_path):
    result = invoke("run", PLAIN, "--method", "fedavg", "--json", tmp_path / "c.json", "--markdown", tmp_path / "c.md")
    assert result.exit_code == 0 and result.output.splitlines() == [
        "fedavg  equal     12 equal",
        "",
        "1 method: 1 equal",
    ]
    kept = json.loads((tmp_path / "c.json").read_text())
    assert kept["conforms"] is True and [case["outcome"] for case in kept["methods"][0]["cases"]] == ["equal"] * 12
    page = (tmp_path / "c.md").read_text()
    assert "![ntkfl conform: 1 of 1 methods equal](" in page and "| fedavg | equal | 12 equal |  |  |" in page


def test_a_variant_a_failure_and_what_is_left_out_are_said(faulty, tmp_path):
    words = [
        "--method",
        "scaffold",
        "--method",
        "fedavg",
        "--json",
        tmp_path / "c.json",
        "--markdown",
        tmp_path / "c.md",
    ]
    result = invoke("run", faulty, *words)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == "fedavg    differs   7 equal, 4 differ, 1 failed"
    assert lines[1].split() == "no-server-rate: the server's rate is not used".split()
    assert lines[2].strip().startswith("first: fedavg/server-rate-quadratics, round 1, w, off by ")
    assert lines[3].strip() == "fedavg/logistic: ValueError: no | labels"
    assert lines[4] == "scaffold  left out  13 left out" and lines[-1] == "2 methods: 1 differs, 1 left out"
    kept = json.loads((tmp_path / "c.json").read_text())
    (explained,) = kept["methods"][0]["explained"]
    assert explained[0]["name"] == "no-server-rate" and kept["conforms"] is False
    first = kept["methods"][0]["cases"][4]["difference"]
    assert (first["round"], first["name"]) == (1, "w") and first["size"] > 0
    page = (tmp_path / "c.md").read_text()
    assert "0 of 1 methods equal" in page and "no-server-rate: the server's rate is not used" in page


@pytest.mark.parametrize(
    "words, said",
    [
        (["run", "none.py"], "the adapter is 'none.py'; there is no such file"),
        (["run", PLAIN, "--method", "fedsgd"], "the kit has no method 'fedsgd'."),
        (["run", PLAIN, "--python", "python9"], "the interpreter is 'python9'; there is no such file"),
        (["run", PLAIN, "--limit", "0"], "the limit is 0 s; it must be positive"),
        (["run", PLAIN, "--json", PLAIN], "is what is read; the output needs a file of its own"),
        (["cases", "--out", PLAIN.parent], "exists and is not an empty folder; name a new one"),
        (["variants", "--method", "fedsgd"], "the kit has no method 'fedsgd'."),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, said):
    result = invoke(*words)
    assert result.exit_code == 2 and said in result.output and result.output.startswith("error: ")


def test_cases_and_variants(tmp_path):
    result = invoke("cases", "--out", tmp_path / "kit", "--method", "local")
    assert result.exit_code == 0 and result.output == f"4 cases: {tmp_path / 'kit'}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kit"]
    listed = invoke("variants").output
    assert all(f"{method}:\n" in listed for method in methods())
    assert all(f"    {variant.name}: {variant.says}\n" in listed for variant in variants_of("scaffold"))
