"""Tests of the stored words of every statement: they are the words that the statement has in the present sources.

Commands that read only these words build no formula.
"""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from bounds import cards as kept_cards
from bounds.papers import own
from verification.cards import card_of, cards

ANEW = "python -m verification.cards writes them anew"
COMMANDS = (["list"], ["list", "--search", "eigenvalue"], ["show", "fl-ntk/B.12"], ["show", "fl-ntk"], ["cite"])
COMMANDS += (["cite", "fl-ntk/B.12"], ["cite", "fedprox"])


@pytest.fixture
def fresh_reading():
    """Makes `kept` read its file again, in the test and after it."""
    kept_cards.kept.cache_clear()
    yield
    kept_cards.kept.cache_clear()


def test_what_is_read_is_what_the_statements_say():
    for identifier, card in kept_cards.kept().items():
        assert asdict(card) == asdict(card_of(own()[identifier])), f"{identifier}: {ANEW}"


# Only commits need this test. Between commits the stored words, which are called cards, may be old, and are then not
# read.
@pytest.mark.slow
def test_the_kept_cards_are_of_the_sources_that_are_here():
    written = json.loads(kept_cards.FILE.read_text(encoding="utf-8"))
    assert written["sources"] == kept_cards.sources(), ANEW
    assert list(kept_cards.kept()) == list(own())


def test_cards_of_other_sources_are_not_read(fresh_reading, monkeypatch, tmp_path):
    other = json.loads(kept_cards.FILE.read_text(encoding="utf-8"))
    other["sources"]["bounds/statement.py"] = "0" * 16
    other["cards"][0]["title"] = "of another version"
    (tmp_path / "cards.json").write_text(json.dumps(other))
    here = kept_cards.sources()
    monkeypatch.setattr(kept_cards, "sources", lambda: here)
    monkeypatch.setattr(kept_cards, "FILE", tmp_path / "cards.json")
    assert kept_cards.kept() == {}
    (card,) = cards(other["cards"][0]["id"])
    assert card.title == own()[card.id].title != "of another version"


def test_each_source_counts(monkeypatch, tmp_path):
    before = kept_cards.sources()
    assert {"bounds/fl_ntk/lazy_neurons.py", "bounds/evidence.json", "verification/plain_text.py"} <= set(before)
    printer = tmp_path / "verification/plain_text.py"
    printer.parent.mkdir()
    (tmp_path / "bounds").mkdir()
    printer.write_text("one")
    monkeypatch.setattr(kept_cards, "FILE", tmp_path / "bounds/cards.json")
    monkeypatch.setattr(kept_cards, "PRINTER", printer)
    first = kept_cards.sources()
    printer.write_text("two")
    second = kept_cards.sources()
    (tmp_path / "bounds/new.py").write_text("")
    assert first != second and set(kept_cards.sources()) == {*second, "bounds/new.py"}


def test_what_only_reads_the_catalogue_imports_nothing_heavy():
    code = f"""
import json, sys
from bounds import cards
cards.sources = lambda: json.loads(cards.FILE.read_text(encoding="utf-8"))["sources"]
from experiments.command_line import app
for words in {COMMANDS}:
    try: app(words)
    except SystemExit as end: assert not end.code, words
sys.exit(bool({{'jax', 'sympy', 'numpy', 'scipy', 'flint', 'hypothesis', 'torch'}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "something heavy was imported"
    assert "fl-ntk/B.12  Movement of the global weights" in done.stdout
