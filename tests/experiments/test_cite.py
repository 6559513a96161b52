"""Tests of `ntkfl cite`: every paper and method has its entries, and a folder has the entries of what ran in it."""

import json
import re
from functools import cache

import pytest
from typed import command

from bounds import catalogue as statements
from experiments.citing import TOOL, citation, references
from experiments.studies.study_folder import StudyFolder
from ntkfl.training import run as train
from ntkfl.training.methods import catalogue as methods
from ntkfl.version import VERSION

cited = cache(citation)  # Cached, because two tests need the citations of every statement.


def keys(citations):
    return [re.match(r"@\w+{([^,]+),", entry)[1] for entry in citations.entries]


def run(*words):
    return command("cite", *words)


def test_every_entry_is_complete_and_no_key_is_there_twice():
    entries = [entry for _, entry in references()]
    matches = [re.match(r"@(\w+){(\w+),\n", entry) for entry in entries]
    assert all(matches) and len({match[2] for match in matches}) == len(entries) > 10
    for entry in (*entries, TOOL):
        assert entry.count("{") == entry.count("}") and "keywords" not in entry
        assert all(re.search(rf"^  {field} +=", entry, re.MULTILINE) for field in ("author", "title")), entry
    for entry in entries:
        assert re.search(r"^  year +=", entry, re.MULTILINE) and re.search("booktitle|journal", entry)


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_has_the_papers_that_it_is_from(name):
    entries = keys(citation(name))
    assert entries[-1] == "ntkfl" and (len(entries) > 1) == (name != "local")


def test_every_statement_cites_its_paper_and_those_that_it_rests_on():
    for statement in statements().values():
        citations = cited(statement.id)
        papers = {i.partition("/")[0] for i in (statement.id, *statement.uses)}
        behind = [entry for names, entry in references() if names & papers]
        assert all(any(paper in names for names, _ in references()) for paper in papers)
        own = [entry for entry in citations.entries if entry.startswith("@misc{ntkfl-")]
        assert len(own) == sum(claim.nature is not None for claim in statement.forms.values())
        assert (
            citations.entries == (*behind, *own, TOOL)
            and statement.id in citations.what
            and str(statement.source) in str(citations)
        )
    three = ["huang2021flntk", "li2025fedgucci", "zhou2024averaging"]
    deep = ["jacot2018neural", "jian2025widening"]
    assert keys(citation()) == [
        *three,
        *deep,
        "khaled2025understanding",
        "entezari2022role",
        "ainsworth2023git",
        "ntkfl",
    ]
    assert f"version   = {{{VERSION}}}" in TOOL


def test_a_finding_is_an_item_of_its_own_with_its_address_and_its_check():
    citations = citation("fl-ntk/C.10")
    assert keys(citations) == ["huang2021flntk", "ntkfl-fl-ntk-C.10-stated", "ntkfl"]
    entry = citations.entries[1]
    assert r"findings.html\#fl-ntk-C.10-stated}" in entry and r"by docs/checks/fl\_ntk\_c\_10.py}" in entry
    assert r"B\_3: what" in entry and "recorded: violated" in entry
    of_a_scan = citation("fl-ntk/B.12").entries[1]
    assert "note         = {scan; recorded: violated}" in of_a_scan
    items = [entry for statement in statements().values() for entry in cited(statement.id).entries if "@misc" in entry]
    assert len(items) == len({re.match(r"@misc{([^,]+),", entry)[1] for entry in items}) > 30
    for entry in items:
        assert entry.count("{") == entry.count("}") and not re.search(r"(?<!\\)[&%$#_]", entry), entry


def test_folders_of_runs_and_studies(tmp_path):
    small = {"clients": 3, "samples": 60, "test": 30, "rounds": 1, "local_steps": 1, "model": "two-layer:4"}
    train("fedprox", out=tmp_path / "run", ima=True, **small)
    assert keys(citation(str(tmp_path / "run"))) == ["zhou2024averaging", "li2020federated", "ntkfl"]
    (tmp_path / "study").mkdir()
    about = {"study": "width-scaling", "spec": "width-scaling", "version": "0", "axes": {}}
    (tmp_path / "study" / "study.json").write_text(json.dumps(about))
    assert keys(citation(str(tmp_path / "study"))) == ["ntkfl"]
    answers = [{"source": "fl-ntk/W-gram"}, {"source": "fl-ntk/Eq18"}]
    (tmp_path / "study" / "answers.json").write_text(json.dumps({"answers": answers}))
    assert keys(citation(str(tmp_path / "study"))) == ["huang2021flntk", "ntkfl"]
    (tmp_path / "study" / "answers.json").write_text("{}")
    with pytest.raises(ValueError, match="is damaged"):
        citation(str(tmp_path / "study"))
    folder = StudyFolder(tmp_path / "empty")
    with pytest.raises(ValueError, match="no study's folder"):
        folder.sources()
    (tmp_path / "empty").mkdir()
    refused = run(tmp_path / "empty")
    assert refused.exit_code == 2 and "is no study's folder" in refused.stderr


def test_the_command_prints_a_bib_file():
    done = run("fl-ntk/B.12")
    assert done.exit_code == 0 and done.stdout.startswith("% fl-ntk/B.12: FL-NTK") and "@software{ntkfl," in done.stdout
    assert run("fl-ntk/B.999").exit_code == 2
