"""Tests of values that are no array of real numbers, or that float64 does not hold: each kind has a message of its own.

`test_array_doors` tests that every public function refuses such values.
"""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import nn

import ntkfl
from ntkfl import Problem, gram
from ntkfl.problem import checked_owner, real_array

BAD = {
    "masked": (np.ma.array(np.eye(2) + 1, mask=[[0, 1], [0, 0]]), "x has 1 masked entries; fill or remove them"),
    "complex": (np.eye(2) * 1j, "x is complex"),
    "complex tensor": (torch.eye(2) * 1j, "x is complex"),
    "complex numbers": ([[1, 2j]], "x is complex"),
    "sparse": (scipy.sparse.csr_array(np.eye(2)), "x is sparse"),
    "sparse tensor": (torch.eye(2).to_sparse(), "x is a tensor without plain numbers"),
    "meta tensor": (torch.empty(2, device="meta"), "x is a tensor without plain numbers"),
    "words": (np.array([["1", "2"], ["3", "4"]]), "x has dtype <U1; every entry must be a real number"),
    "a list of words": ([["1", 2.0]], "x has dtype <U32; every entry must be a real number"),
    "objects": (np.array([1, "2"], object), r"x\[1\] is '2'; every entry must be a real number"),
    "None": ([1.0, None], r"x\[1\] is None; every entry must be a real number"),
    "dates": (np.full((2, 2), "2020-01-01", "M8[D]"), "x has dtype datetime64"),
    "records": (np.zeros((2, 2), [("a", float)]), "every entry must be a real number"),
    "ragged": ([[1.0], [1.0, 2.0]], "x is no array of real numbers: .*inhomogeneous"),
    "2^53 + 1": ([0, 2**53 + 1], r"x\[1\] is an integer of 54 bits that no float64 equals"),
    "2^53 + 1 beside floats": ([0.5, 2**53 + 1], r"x\[1\] is an integer of 54 bits that no float64 equals"),
    "2^63 + 1 beside -1": ([2**63 + 1, -1], r"x\[0\] is an integer of 64 bits that no float64 equals"),
    "numpy's own": ([np.int64(2**53 + 1), 0.5], r"x\[0\] is an integer of 54 bits that no float64 equals"),
    "numpy's own objects": (np.array([np.uint64(2**63 + 1)], object), r"x\[0\] is an integer of 64 bits"),
    "unsigned": (np.array([2**64 - 1], np.uint64), r"x\[0\] is an integer of 64 bits that no float64 equals"),
    "2^63 + 1 in a tensor": (torch.tensor([-(2**63) + 1]), r"x\[0\] is an integer of 63 bits that no float64 equals"),
    "10^400": ([1, 10**400], r"x\[1\] is an integer of 1329 bits that no float64 equals"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_would_lose_something_is_refused(kind):
    array, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        real_array("x", array)


def test_labels_that_float64_does_not_hold_are_refused():
    with pytest.raises(ValueError, match=r"y\[1\] is an integer of 1329 bits"):
        Problem(np.eye(2), [1, 10**400])
    assert Problem(np.eye(2), [2**53, -(2**60)]).y.tolist() == [2.0**53, -(2.0**60)]


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ([True, False], "owner has dtype bool; it must hold the integers 0..N-1"),
        (np.array([True, False], object), "owner has dtype bool; it must hold the integers 0..N-1"),
        (np.array(["a", "b"], object), r"owner\[0\] is 'a'; it must hold the integers 0..N-1"),
        ([0.0, np.inf], r"owner\[1\] is inf; it must hold the integers 0..N-1"),
    ],
)
def test_owners_are_integers(owner, message):
    with pytest.raises(ValueError, match=message):
        Problem(np.eye(2), np.ones(2), owner)


def test_what_columns_of_pandas_would_lose_is_named():
    pd = pytest.importorskip("pandas")
    for owner in (pd.Series([0, pd.NA], dtype="Int64"), np.array([0, pd.NA], object)):
        with pytest.raises(ValueError, match=r"owner\[1\] is (nan|<NA>); it must hold the integers 0..N-1"):
            checked_owner(owner, 2)
    with pytest.raises(ValueError, match=r"y\[1\] is (nan|<NA>); every entry must be"):
        Problem(np.eye(2), pd.Series([0.5, None], dtype="Float64"))
    with pytest.raises(ValueError, match=r"x\[1, 0\] is an integer of 54 bits"):
        real_array("x", pd.DataFrame({"a": [0, 2**53 + 1], "b": [0.5, 0.25]}))
    assert checked_owner(pd.Series([1, 0], dtype="Int64"), 2).tolist() == [1, 0]


def test_what_loses_nothing_is_taken():
    assert gram.convolutional(np.ma.array(np.ones((2, 1, 2, 2)), mask=False), depth=2).shape == (2, 2)
    assert checked_owner([1.0, 0.0], 2).tolist() == [1, 0]
    assert real_array("x", [1e300, -(2**60)]).tolist() == [1e300, -(2.0**60)]
    assert real_array("x", np.array([1, 2.5, True, np.float32(0.5)], object)).tolist() == [1, 2.5, 1, 0.5]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_tensors_are_taken_with_or_without_gradients(dtype):
    given = torch.tensor([1.5, -2.0], dtype=dtype, requires_grad=True)
    assert real_array("it", given).tolist() == [1.5, -2.0]


def test_complex_parameters_of_a_module_are_refused():
    with pytest.raises(ValueError, match=r"is torch\.complex64; parameters must be real numbers"):
        ntkfl.network(nn.Linear(2, 1, dtype=torch.complex64))
