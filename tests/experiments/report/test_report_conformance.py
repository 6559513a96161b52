"""Tests of the pages on federated learning libraries that `ntkfl conform` tested against the definitions of methods.

The pages show everything that was found, with special characters escaped.
"""

import json
from dataclasses import replace

import pytest
from html_tree import tree
from typed import command

from experiments.report.conformance_pages import conformance_page
from experiments.report.site import built
from ntkfl.conformance import Agreement, CaseVerdict, Conformance, Difference, MethodVerdict, variants_of
from ntkfl.conformance.conformance_page import as_json, as_markdown, from_json
from ntkfl.conformance.kit import Peer

RUDE = "<script>alert(1)</script>"


def conformance():
    """Returns verdicts with each outcome.

    One text has markup characters, and a known variant explains one difference.
    """
    equal = CaseVerdict("fedavg/a", Agreement.EQUAL, "float32", seconds=0.5)
    differs = CaseVerdict("fedprox/a", Agreement.DIFFERS, "float64", Difference(2, "w", 0.5), limit="mu = 0 is FedAvg")
    failed = CaseVerdict("scaffold/a", Agreement.FAILED, remark=f"ValueError: {RUDE}")
    left_out = CaseVerdict("local/a", Agreement.LEFT_OUT, remark="later")
    one, two, *_ = variants_of("fedprox")
    methods = (
        MethodVerdict("fedavg", Agreement.EQUAL, (equal,)),
        MethodVerdict("fedprox", Agreement.DIFFERS, (differs,), ((one, two),), ((one, 1),)),
        MethodVerdict("scaffold", Agreement.FAILED, (failed,)),
        MethodVerdict("local", Agreement.LEFT_OUT, (left_out,)),
    )
    return Conformance("my_own.py", methods, Peer({"torch": "2"}, {"python": "3"}))


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(as_json(conformance()), allow_nan=False))
    return tmp_path / "c.json"


def test_what_was_written_as_json_is_read_as_it_was():
    assert from_json(json.loads(json.dumps(as_json(conformance())))) == conformance()


def test_the_page_has_what_the_markdown_has(kept):
    files = built(None, implementations=[conformance_page(kept)])
    page = tree(files["conformance/my-own.html"])
    shown = [[" ".join(cell.text().split()) for cell in row.all("th", "td")] for row in page.all("tr")]
    rows = [line.strip("| ").split(" | ") for line in as_markdown(conformance()).splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["method", "fedavg", "fedprox", "scaffold"]
    for row, (name, outcome, *rest) in zip(rows[1:], shown[1:4], strict=True):
        assert name == row[0] and outcome.split()[1] == row[1]
        assert [cell for cell in rest if cell] == [cell.strip() for cell in row[2:] if cell.strip()]
    text = next(page.all("main")).text()
    assert "Left out: local" in text and RUDE in text and ["torch", "2"] in shown
    assert [node.text() for node in page.all("script")] == [""]
    (link,) = (a for a in tree(files["index.html"]).all("a") if a.attributes["href"] == "conformance/my-own.html")
    assert "my_own" in link.text()


def test_the_command_and_what_it_refuses(kept, tmp_path):
    def run(*words):
        return command("report", *words)

    done = run("--conformance", kept, "--out", tmp_path / "report")
    assert done.exit_code == 0 and (tmp_path / "report" / "conformance" / "my-own.html").is_file()
    twice = run("--conformance", kept, "--conformance", kept, "--out", tmp_path / "report")
    assert twice.exit_code == 2 and "two files have the adapter my_own; a report shows one of each" in twice.output
    content = json.loads(kept.read_text())
    for spoiled in ({}, [], content | {"methods": [{}]}, content | {"adapter": None}, content | {"packages": 3}):
        kept.write_text(json.dumps(spoiled))
        refused = run("--conformance", kept, "--out", tmp_path / "report")
        assert refused.exit_code == 2 and "is not a file that `ntkfl conform run --json` wrote" in refused.output


def test_nothing_that_was_tried_is_no_fault(kept):
    kept.write_text(json.dumps(as_json(replace(conformance(), methods=conformance().methods[3:]))))
    none = conformance_page(kept)
    assert b"Left out: local" in built(None, implementations=[none])["conformance/my-own.html"]
