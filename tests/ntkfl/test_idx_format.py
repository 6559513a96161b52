"""The idx reader returns the written images, and says what is wrong with a damaged file."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ntkfl.data.user_files import read_idx


def idx_bytes(array, magic=None):
    magic = 0x0800 | array.ndim if magic is None else magic
    return b"".join(size.to_bytes(4, "big") for size in (magic, *array.shape)) + array.tobytes()


@given(array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3)), zipped=st.booleans())
@settings(deadline=None, max_examples=40)
def test_what_was_written_is_read(tmp_path_factory, array, zipped):
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if zipped else "file")
    path.write_bytes(gzip.compress(idx_bytes(array)) if zipped else idx_bytes(array))
    read = read_idx(path, array.ndim)
    assert read.dtype == np.uint8
    assert np.array_equal(read, array)


ARRAY = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
GOOD = idx_bytes(ARRAY)
FAULTS = [
    (b"", "is truncated: 0 bytes, where the idx header alone takes 16"),
    (GOOD[:10], "is truncated: 10 bytes, where the idx header alone takes 16"),
    (GOOD[:-1], "is truncated: 23 bytes of data, 24 for shape (4, 3, 2)"),
    (GOOD + b"\0\0", "has bytes left over: 26 bytes of data, 24 for shape (4, 3, 2)"),
    (
        idx_bytes(ARRAY, magic=0x0D03),
        "starts with the magic number 0x00000d03; an idx file of unsigned bytes with 3 dimensions starts with 0x0000"
        "0803",
    ),
    (idx_bytes(ARRAY.reshape(4, 6)), "starts with the magic number 0x00000802"),
    (idx_bytes(ARRAY[:, :0]), "declares the shape (4, 0, 2); every size must be at least 1"),
]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("content", "message"), FAULTS, ids=[message[:40] for _, message in FAULTS])
def test_a_damaged_file_is_refused(tmp_path, content, message, zipped):
    path = tmp_path / ("file.gz" if zipped else "file")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(ValueError, match=re.escape(f"{path} {message}")):
        read_idx(path, 3)


def test_one_dimension_is_singular(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(GOOD)
    with pytest.raises(ValueError, match="with 1 dimension starts with 0x00000801"):
        read_idx(path, 1)


BROKEN_GZIP = [GOOD, gzip.compress(GOOD)[:-9], gzip.compress(GOOD)[:12] + b"\xff" * 8 + gzip.compress(GOOD)[20:]]


@pytest.mark.parametrize("content", BROKEN_GZIP, ids=["not compressed", "cut off", "overwritten"])
def test_a_broken_gzip_stream_is_refused(tmp_path, content):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"file\.gz is not a whole gzip file: "):
        read_idx(path, 3)


def test_an_absent_file_is_no_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "file.gz", 3)
