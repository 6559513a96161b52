"""What is no array of real numbers is refused: a mask, an imaginary part or a unit is never dropped in silence."""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import nn

import ntkfl
from ntkfl import Problem, gram
from ntkfl.problem import real_array

BAD = {
    "masked": (np.ma.array(np.eye(2) + 1, mask=[[0, 1], [0, 0]]), "1 masked entries; fill or remove them"),
    "complex": (np.eye(2) * 1j, "complex"),
    "complex tensor": (torch.eye(2) * 1j, "complex"),
    "sparse": (scipy.sparse.csr_array(np.eye(2)), "sparse"),
    "words": (np.array([["1", "2"], ["3", "4"]]), "has dtype <U1; every entry must be a real number"),
    "dates": (np.full((2, 2), "2020-01-01", "M8[D]"), "has dtype datetime64"),
    "records": (np.zeros((2, 2), [("a", float)]), "every entry must be a real number"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize(
    "taken",
    [lambda x: Problem(x, np.ones(2)), gram.infinite, gram.deep, gram.smallest_eigenvalue],
    ids=["Problem", "infinite", "deep", "eigenvalue"],
)
def test_what_would_lose_something_is_refused(kind, taken):
    array, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        taken(array)


def test_masks_of_images_and_owners_are_refused_and_empty_ones_are_not():
    images = np.ma.array(np.ones((2, 1, 2, 2)), mask=False)
    assert gram.convolutional(images, depth=2).shape == (2, 2)
    images[0, 0, 0, 0] = np.ma.masked
    with pytest.raises(ValueError, match="1 masked entries"):
        gram.convolutional(images, depth=2)
    with pytest.raises(ValueError, match="owner has 1 masked entries"):
        Problem(np.eye(2), np.ones(2), np.ma.array([0, 1], mask=[False, True]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_tensors_are_taken_with_or_without_gradients(dtype):
    given = torch.tensor([1.5, -2.0], dtype=dtype, requires_grad=True)
    assert real_array("it", given).tolist() == [1.5, -2.0]


def test_complex_parameters_of_a_module_are_refused():
    with pytest.raises(ValueError, match=r"is torch\.complex64; parameters must be real numbers"):
        ntkfl.network(nn.Linear(2, 1, dtype=torch.complex64))
