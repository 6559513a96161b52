"""Tests of users' files: what is written is read back, with owners and partitions, and errors name the faulty place."""

import bz2
import csv
import gzip
import lzma
import re
from contextlib import nullcontext
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ntkfl import data
from ntkfl.partition import assign_owners
from ntkfl.training.config import read_toml
from ntkfl.training.datasets.loading import table

entries = st.floats(-1e6, 1e6)


@st.composite
def contents(draw):
    """Draws the arrays of a valid file: x, y, and perhaps owner."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    x = draw(hnp.arrays(float, (n, d), elements=entries))
    arrays = {"x": x, "y": draw(hnp.arrays(float, n, elements=entries))}
    if draw(st.booleans()):
        clients = draw(st.integers(1, n))
        arrays["owner"] = np.array(draw(st.permutations([i % clients for i in range(n)])))
    return arrays


@given(arrays=contents(), outputs=st.integers(0, 3), test=st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_npz_round_trip(tmp_path_factory, arrays, outputs, test):
    n, d = arrays["x"].shape
    if outputs:
        arrays["y"] = np.arange(n * outputs, dtype=float).reshape(n, outputs)
    if test:
        arrays |= {"x_test": np.ones((test, d)), "y_test": np.zeros((test, *arrays["y"].shape[1:]))}
    path = tmp_path_factory.mktemp("npz") / "mine.npz"
    np.savez(path, **arrays, notes=np.array(["arrays of other names are the user's own affair"]))
    problem = data.load(path, clients=None if "owner" in arrays else 1)
    for name, array in arrays.items():
        column = name.startswith("y") and outputs == 1  # A y of shape (n, 1) means the same as one of shape (n,).
        assert np.array_equal(getattr(problem, name), array[:, 0] if column else array)


@given(arrays=contents(), order=st.randoms(use_true_random=False), spaces=st.booleans())
@settings(deadline=None, max_examples=40)
def test_csv_round_trip_in_any_order_of_columns(tmp_path_factory, arrays, order, spaces):
    """Features of a CSV file keep their order; y and owner may be in any column."""
    columns = {f"pixel {j}, raw": arrays["x"][:, j] for j in range(arrays["x"].shape[1])}
    names = list(columns)
    for name in sorted(arrays.keys() - {"x"}):
        columns[name] = arrays[name]
        names.insert(order.randint(0, len(names)), name)
    path = tmp_path_factory.mktemp("csv") / "mine.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in zip(*(columns[name] for name in names), strict=True):
            writer.writerow([f" {v.item()!r} " if spaces else repr(v.item()) for v in row])
        file.write("\n")
    problem = data.load(path, clients=None if "owner" in arrays else 1)
    for name, array in arrays.items():
        assert np.array_equal(getattr(problem, name), array)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_without_an_owner_the_samples_are_split_over_four_clients(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y\n" + "".join(f"{i + 1},{i % 2}\n" for i in range(12)))
    problem = data.load(path)
    assert problem.name == "mine.csv"
    assert np.array_equal(problem.owner, assign_owners("iid", problem.y, 4, 0))
    other = data.load(path, partition="shards:1", clients=2, seed=3)
    assert np.array_equal(other.owner, assign_owners("shards:1", problem.y, 2, 3))
    assert other.name == "mine.csv(clients=2, partition='shards:1', seed=3)"


def test_the_owners_of_a_file_count_unless_another_partition_is_asked_for(tmp_path):
    path = write(tmp_path / "mine.csv", "a,owner,y\n1,0,1\n2,1,1\n3,1,0\n4,2,0\n")
    assert data.load(path).owner.tolist() == [0, 1, 1, 2]
    assert data.load(path, partition="given", clients=3).owner.tolist() == [0, 1, 1, 2]
    again = data.load(path, partition="iid", clients=2)
    assert np.array_equal(again.owner, assign_owners("iid", again.y, 2, 0))
    with pytest.raises(ValueError, match="gives its own owners, 3 clients; clients=4 needs a partition beside it"):
        data.load(path, clients=4)


def test_unit_divides_rows_by_their_norm(tmp_path):
    path = write(tmp_path / "mine.csv", "\ufeffa, b, y\n3, 4, 1\n0, 2, 0\n")
    assert data.load(path, clients=1).x.tolist() == [[3, 4], [0, 2]]
    assert data.load(path, clients=1, unit=True).x == pytest.approx(np.array([[0.6, 0.8], [0, 1]]), abs=1e-16)


def test_integers_and_single_precision_are_numbers_too(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.eye(3, dtype=np.float32), y=np.array([True, False, True]), owner=np.zeros(3))
    problem = data.load(tmp_path / "mine.npz")
    assert (problem.x.dtype, problem.y.dtype, problem.n_clients) == (float, float, 1)


def test_pickles_are_never_loaded(tmp_path):
    """Pickles are never loaded: if anything unpickled the array, this object's reduction would fail the test."""

    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    np.savez(tmp_path / "mine.npz", x=np.eye(2), y=np.array([Trap(), Trap()], dtype=object))
    with pytest.raises(ValueError, match=r"array 'y' of .*mine\.npz holds pickled Python objects; loading those could"):
        data.load(tmp_path / "mine.npz")


NPZ_FAULTS = [
    ({"x": np.eye(2)}, "has no array 'y'; it needs x and y, and its arrays are: x"),
    ({"z": np.eye(2), "y": np.ones(2)}, "has no array 'x'; it needs x and y, and its arrays are: z, y"),
    ({"x": np.eye(2), "label": np.ones(2), "target": np.ones(2)}, "'label' and 'target' may each be what is called y"),
    ({"x": np.eye(2), "y": np.ones(2), "owner": np.array([True, False])}, "holds True and False, which name no client"),
    (
        {"x": np.eye(2), "y": np.array(["2020-01-01"] * 2, "M8[D]")},
        "has dtype datetime64[D]; it must hold real numbers",
    ),
    ({}, "has no array 'x'; it needs x and y, and its arrays are: none"),
    ({"x": np.array([["1"], ["2"]]), "y": np.ones(2)}, "has dtype <U1; it must hold real numbers"),
    ({"x": np.eye(2) * 1j, "y": np.ones(2)}, "has dtype complex128; it must hold real numbers"),
    ({"x": np.array([[1, np.nan]]), "y": np.ones(1)}, "mine.npz: x[0, 1] is nan; every entry must be finite"),
    ({"x": np.eye(2), "y": np.ones(3)}, "mine.npz: y has shape (3,); it must be (2,)"),
    ({"x": np.eye(2), "y": np.ones(2), "owner": [0, 2]}, "mine.npz: client 1 owns no sample"),
    ({"x": np.eye(2), "y": np.ones(2), "x_test": np.eye(2)}, "x_test and y_test come together"),
]


@pytest.mark.parametrize(("arrays", "message"), NPZ_FAULTS, ids=[message[:40] for _, message in NPZ_FAULTS])
def test_a_faulty_npz_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=re.escape(message)):
        data.load(tmp_path / "mine.npz", clients=1)


def damaged(content):
    """Returns the archive with bytes of its first array overwritten, so that its checksum no longer fits."""
    middle = content.index(b"\x93NUMPY") + 140
    return content[:middle] + b"\xff\xff" + content[middle + 2 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: b"", "is not a .npz archive; write one with numpy.savez(file, x=..., y=...)"),
        (lambda c: b"x,y\n1,2\n", "is not a .npz archive"),
        (lambda c: c[:-30], "is not a .npz archive"),
        (damaged, "array 'x' of "),
    ],
    ids=["empty", "text", "cut off", "overwritten"],
)
def test_a_damaged_npz_is_refused(tmp_path, change, message):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.eye(20), y=np.ones(20))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=re.escape(message)):
        data.load(path)


def test_a_single_array_named_npz_is_refused(tmp_path):
    with (tmp_path / "mine.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(ValueError, match=r"mine\.npz is not a \.npz archive"):
        data.load(tmp_path / "mine.npz")


CSV_FAULTS = [
    ("", " is empty; its first line must name the columns, one of them y"),
    ("\n\n", " is empty; its first line must name the columns, one of them y"),
    ("a,y\n", " has a header and no rows; every line after the header is a sample"),
    (
        "a,b\n1,2\n",
        ", line 1: no column is named y, label, target or class, so none has the labels; "
        "rename the one that does, of a, b",
    ),
    (
        "a,b,c,d,e,f,g,h,i\n1,2,3,4,5,6,7,8,9\n",
        ", line 1: no column is named y, label, target or class, so none has the labels; "
        "rename the one that does, of a, b, c, ..., h, i",
    ),
    (
        "1,2\n3,4\n",
        ", line 1: all cells are numbers; the first line must name the columns, one of them y, such as x0,y",
    ),
    ("1,-.5e1,1\n3,4,0\n", ", line 1: all cells are numbers; the first line must name the columns, one of them y"),
    ("\na,b\n1,2\n", ", line 2: no column is named y"),
    ("y,owner\n1,0\n", ", line 1: no feature column; all columns but y and owner are features: ['y', 'owner']"),
    ("a,b,a,y\n1,2,3,4\n", ", line 1: columns 1 and 3 are both named 'a'; rename one"),
    ("a,y\nred,2\n", ", line 2, column 'a': 'red' is not a finite number; make words columns of 0 and 1"),
    ("a,,y\n1,2,3\n", ", line 1: column 2 has no name"),
    ("a,y\n1,2\n3\n", ", line 3: 1 cells; the header names 2 columns"),
    ("a,y\n1,2\n\n3,4,5\n", ", line 4: 3 cells; the header names 2 columns"),
    ("a,y\n1,2\n,\n", ", line 3, column 'a': '' is not a finite number, it stands for a missing value; fill it in"),
    ("a,y\n1,2\n3,cat\n", ", line 3, column 'y': 'cat' is not a finite number"),
    ("a,y\n1_000,2\n", ", line 2, column 'a': '1_000' is not a finite number"),
    ("a,y\nnan,2\n", ", line 2, column 'a': 'nan' is not a finite number"),
    ("a,y\n1e999,2\n", ", line 2, column 'a': '1e999' is not a finite number"),
    ("a,y,owner\n1,2,0.5\n", ", line 2, column 'owner': '0.5' is not a client number 0, 1, 2, ..."),
    ("a,y,owner\n1,2,-1\n", ", line 2, column 'owner': '-1' is not a client number 0, 1, 2, ..."),
    ("a,y,owner\n1,2,north\n2,1,1\n", ", line 2, column 'owner': 'north' is not a finite number"),
    ("a,y,owner\n1,2,north\n2,1\n", ", line 3: 2 cells; the header names 3 columns"),
    ("a,y,owner\n1,2,1\n", ": client 0 owns no sample; every client 0..1 must own at least one"),
    ("a;y\n1,5;2\n", ", line 2, column 'a': '1,5' is not a finite number; write decimals with a point"),
    ("a;y\n1.5;2,5\n1;1,5\n", ", line 2, column 'y': '2,5' is not a finite number; write decimals with a point"),
    ("a,y\n1,2020-01-01\n", ", line 2, column 'y': '2020-01-01' is not a finite number"),
    ("a,y\n1,cat\n2,\n3,cat\n", ", line 3, column 'y': '' stands for a missing value, beside names such as 'cat'"),
    ("a,y\n1,red\n2,blue\n3,green\n", ", line 2, column 'y': 'red', and all other labels, are different words"),
    ("a,y,owner\n1,2,north\n2,1,nan\n", ", line 3, column 'owner': 'nan' stands for a missing value, beside names"),
    ("a,y,owner\n1,2,yes\n2,1,no\n", ", line 2, column 'owner': the owners are yes and no, which name no clients"),
    ("a,label,target\n1,2,3\n", ", line 1: 'label' and 'target' may each be what is called y here; rename the right"),
    ("a,y,client,cid\n1,2,0,0\n", ", line 1: 'client' and 'cid' may each be what is called owner here; rename the"),
    ("Unnamed: 0,a,y\n7,1,1\n7,2,1\n", ", line 1: column 1 is 'Unnamed: 0', which is no name; name it, or remove"),
    ('a,y\n"1,2\n', ", line 2: unexpected end of data"),
]


@pytest.mark.parametrize(("text", "message"), CSV_FAULTS, ids=[repr(text) for text, _ in CSV_FAULTS])
def test_a_faulty_csv_is_refused_with_the_place(tmp_path, text, message):
    path = write(tmp_path / "mine.csv", text)
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
        data.load(path, clients=1)


def test_clients_with_names_are_numbered_as_they_come(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y,owner\n1,2,north\n2,1,south \n3,1,north\n")
    assert data.load(path).owner.tolist() == [0, 1, 0]


def noted(path, caplog):
    """Returns the problem, and the note on the file."""
    with caplog.at_level("INFO"):
        return data.load(path, clients=None if "client" in path.read_text() else 1), caplog.messages[-1]


def test_other_names_of_columns_are_taken_and_said(tmp_path, caplog):
    """Other names of columns are accepted and reported.

    pandas' index, which has no name, numbers the rows and is no feature.
    """
    for index in ("", "Unnamed: 0"):
        text = f"{index},a,b,Label,client\n10,1,2,cat,n\n7,3,4,dog,s\n8,5,6,cat,n\n"
        problem, said = noted(write(tmp_path / "mine.csv", text), caplog)
        assert problem.x.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert problem.y.tolist() == [-1, 1, -1] and problem.owner.tolist() == [0, 1, 0]
        assert said == (
            "mine.csv: y is column 'Label' (cat = -1, dog = 1); the owner is column 'client' (2 clients); 2 features, "
            f"'a' and 'b'; column 1 ({index!r}) numbers the rows and is not read"
        )
    problem, said = noted(write(tmp_path / "mine.csv", "# y,a\n1,2\n"), caplog)
    assert problem.y.tolist() == [1] and "no column is the owner; 1 feature, 'a'" in said


def test_three_names_of_classes_are_numbered(tmp_path, caplog):
    problem, said = noted(write(tmp_path / "mine.csv", "a,y\n1,fox\n2,cat\n3,dog\n4,cat\n"), caplog)
    assert problem.y.tolist() == [2, 0, 1, 0] and "(cat = 0, dog = 1, fox = 2)" in said


def test_an_owner_may_be_called_nan(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y,owner\n1,2,Nan\n2,1,Phrae\n")  # Nan and Phrae are provinces of Thailand.
    assert data.load(path).owner.tolist() == [0, 1]


@pytest.mark.parametrize("text", ["a,b,y\n1,2,1\n3,4,0\n", "a;b;y\n1;2;1\n3;4;0\n", "a\tb\ty\n1\t2\t1\n3\t4\t0\n"])
def test_delimiters_and_compression(tmp_path, text):
    path = tmp_path / "mine.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    problem = data.named(str(path), clients=1)
    assert problem.x.tolist() == [[1, 2], [3, 4]] and problem.y.tolist() == [1, 0]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"mine\.csv\.gz is damaged, or not compressed by gzip"):
        data.load(path)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_wide_table_is_read(tmp_path, mark):
    """A wide table is read, whose header is longer than the longest cell that Python's csv reads."""
    names = [*(f"feature{j}" for j in range(20_000)), "y"]
    assert len(mark.join(names)) > csv.field_size_limit()
    rows = [mark.join(map(str, [*range(k, k + 20_000), k])) for k in (1, 2)]
    problem = data.load(write(tmp_path / "wide.csv", "\n".join([mark.join(names), *rows])), clients=1)
    assert problem.x.shape == (2, 20_000) and problem.x[1, -1] == 20_001 and problem.y.tolist() == [1, 2]


def test_booleans_of_pandas_are_1_and_0(tmp_path):
    path = write(tmp_path / "mine.csv", "a,b,y\n1,True,True\n3,False,False\n")
    assert data.load(path, clients=1).x.tolist() == [[1, 1], [3, 0]]


@pytest.mark.parametrize("name", ["index", "ID", "row_id"])
@pytest.mark.parametrize("cells", ["012", "201", "123", "312"])
def test_a_column_called_an_index_that_numbers_the_rows_is_not_read(tmp_path, caplog, name, cells):
    rows = "".join(f"{k},{cell},1\n" for k, cell in zip("579", cells, strict=True))
    problem, said = noted(write(tmp_path / "mine.csv", f"a,{name},y\n{rows}"), caplog)
    assert problem.x.tolist() == [[5], [7], [9]] and f"column 2 ({name!r}) numbers the rows and is not read" in said


def test_whole_numbers_are_exact_or_refused(tmp_path):
    for column, row in (("y", "1,{}\n"), ("a", "{},1\n")):
        kept = data.load(write(tmp_path / "mine.csv", "a,y\n" + row.format(-(2**60)) + row.format(2**53)), clients=1)
        assert -(2.0**60) in (kept.x if column == "a" else kept.y)
        for number in (2**53 + 1, -(2**63) + 1, 10**23):
            path = write(tmp_path / "mine.csv", "a,y\n" + row.format(0) + row.format(number))
            with pytest.raises(
                ValueError, match=f"line 3, column '{column}': no float64 equals the whole number {number};"
            ):
                data.load(path)
    owners = write(tmp_path / "mine.csv", f"a,y,owner\n1,2,{2**53 + 1}\n")
    with pytest.raises(ValueError, match="line 2, column 'owner': '9007199254740993' is not a client number"):
        data.load(owners)


def test_features_with_names_of_something_else_are_warned_of(tmp_path):
    path = write(tmp_path / "mine.csv", "id,a,y,label\n1,2,1,0\n7,3,1,1\n")
    with pytest.warns(UserWarning, match="'id', 'label' taken as features"):
        assert data.load(path, clients=1).d == 3


def test_usual_names_and_words_in_npz(tmp_path, caplog):
    words = {"y_train": np.array(["b", "a", "b"]), "client": np.array(["n", "s", "n"])}
    np.savez(tmp_path / "mine.npz", X_train=np.eye(3), notes=np.array(["mine"]), **words)
    with caplog.at_level("INFO"):
        problem = data.load(tmp_path / "mine.npz")
    assert problem.y.tolist() == [1, -1, 1] and problem.owner.tolist() == [0, 1, 0]
    assert "x is 'X_train', (3, 3)" in caplog.text and "not read: notes" in caplog.text


def test_a_csv_that_gzip_compressed_is_read(tmp_path):
    (tmp_path / "mine.csv").write_bytes(gzip.compress(b"a,y\n1,2\n3,5\n"))
    problem = data.load(tmp_path / "mine.csv", clients=1)
    assert problem.x.tolist() == [[1], [3]] and problem.y.tolist() == [2, 5]


@pytest.mark.parametrize("pack, kind", [(bz2.compress, "bzip2"), (lzma.compress, "xz")], ids=["bzip2", "xz"])
def test_another_compressed_file_is_named(tmp_path, pack, kind):
    (tmp_path / "mine.csv").write_bytes(pack(b"a,y\n1,2\n"))
    with pytest.raises(ValueError, match=rf"mine\.csv is a {kind} file, not text: uncompress it"):
        data.load(tmp_path / "mine.csv")


def test_labels_of_one_class_are_refused(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y\n1,cat\n2,cat\n3,cat\n")
    with pytest.raises(ValueError, match=r"line 2, column 'y': 'cat' is the label of every sample; classes need"):
        data.load(path, clients=1)


def test_a_csv_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "mine.csv").write_bytes(b"a,y\n1,\xff\n")
    with pytest.raises(ValueError, match=r"mine\.csv is not UTF-8 text: byte 0xff; save it as UTF-8"):
        data.load(tmp_path / "mine.csv")


def test_other_suffixes_and_absent_files_are_refused(tmp_path):
    write(tmp_path / "mine.txt", "a,y\n1,2\n")
    with pytest.raises(ValueError, match=r"mine\.txt has the suffix '\.txt'; data files are \.npz, \.csv, \.csv\.gz"):
        data.load(tmp_path / "mine.txt")
    with pytest.raises(FileNotFoundError, match=r"yours\.csv: there is no such file"):
        data.load(tmp_path / "yours.csv")


def test_given_owners_must_be_there(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y\n1,2\n")
    with pytest.raises(ValueError, match="partition 'given' is for a file with an array or column named owner"):
        data.load(path, partition="given", clients=1)


def test_a_row_of_zeros_is_a_sample_and_has_no_unit_norm(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y\n0,2\n1,3\n")
    assert data.load(path, clients=1).x.tolist() == [[0.0], [1.0]]
    with pytest.raises(ValueError, match=re.escape(f"{path}: row 0 of x is zero: it has no direction")):
        data.load(path, clients=1, unit=True)


@settings(deadline=None, max_examples=40)
@given(of=st.lists(st.integers(0, 3), min_size=1, max_size=9), agree=st.booleans(), unit=st.booleans())
def test_of_equal_rows_the_first_stays(tmp_path_factory, of, agree, unit):
    """Of equal rows the first stays.

    Rows repeat four directions. The test computes the means of labels, the owners and the order again.
    """
    rows = np.random.default_rng(0).normal(size=(4, 2)) + 3
    x, y = rows[of] * (2.0 ** np.arange(len(of))[:, None] if unit else 1), np.arange(len(of), dtype=float)
    y = np.array(of, float) if agree else y
    path = tmp_path_factory.mktemp("twice") / "mine.npz"
    np.savez(path, x=x, y=y, owner=np.zeros(len(of), int), x_test=x, y_test=y)
    firsts = [of.index(k) for k in dict.fromkeys(of)]
    repeats = len(firsts) < len(of)
    whole = data.load(path, unit=unit)
    if repeats and not agree:
        with pytest.raises(ValueError, match="are the same and their labels differ; 'merge' in place of 'drop'"):
            data.load(path, unit=unit, duplicates="drop")
    for how in ("drop",) * (agree or not repeats) + ("merge",):
        with pytest.warns(UserWarning, match="rows of mine.npz.* are left out") if repeats else nullcontext():
            loaded = data.load(path, unit=unit, duplicates=how)
        assert np.array_equal(loaded.x, whole.x[firsts])
        assert loaded.y.tolist() == [y[[i for i, row in enumerate(of) if row == of[first]]].mean() for first in firsts]
        assert np.array_equal(loaded.x_test, whole.x_test)


def test_clients_are_shared_out_after_duplicates_are_dropped(tmp_path):
    path = write(tmp_path / "mine.csv", "a,y\n" + "1,2\n" * 5 + "2,3\n3,3\n")
    with pytest.warns(UserWarning, match=re.escape("4 of 7 rows of")) as said:
        assert data.load(path, duplicates="drop", clients=3).owner.tolist() in [list(p) for p in permutations(range(3))]
    assert "of the equal rows 0, 1, 2, 3 and 4 the first stays, with its client" in str(said[0].message)
    path = write(tmp_path / "owned.csv", "a,y,owner\n1,2,0\n2,2,0\n1,2,1\n")
    with pytest.raises(ValueError, match="client 1 owns no row that is not equal to an earlier one of another client"):
        data.load(path, duplicates="drop")
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        assert data.load(path, duplicates="drop", clients=2, partition="iid").n_clients == 2
    with pytest.raises(ValueError, match="duplicates is 'first'; it must be 'keep', 'drop' or 'merge'"):
        data.load(path, duplicates="first")


def test_many_whole_numbers_are_not_silently_quantities(tmp_path):
    """Many whole numbers are not silently taken for quantities.

    More than a hundred classes were once fitted as numbers, with a loss of 1.5e24.
    """
    y = np.repeat(np.arange(120), 2)
    np.savez(tmp_path / "mine.npz", x=np.random.default_rng(0).normal(size=(240, 2)), y=y)
    with pytest.raises(ValueError, match=r"the 120 labels 0, 1, 2, \.\.\. may be classes or quantities; say target"):
        table(tmp_path / "mine.npz")
    assert table(tmp_path / "mine.npz", "classes").classes == 120
    assert table(tmp_path / "mine.npz", "real").classes is None


def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "config.toml").write_bytes(b'\xef\xbb\xbfmethod = "fedavg"\r\nrounds = 3\r\n')
    assert read_toml(tmp_path / "config.toml") == {"method": "fedavg", "rounds": 3}
