"""Tests of devices, named as in torch: a device that the machine does not have is refused before any work."""

import re

import pytest
import torch

from ntkfl.training.engine.devices import device_name, provenance_on, torch_device


def test_the_cpu_is_always_there():
    assert torch_device("cpu") == torch.device("cpu") and device_name(torch_device("cpu")) == "cpu"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "device is 'gpu'; it must be cpu, cuda or cuda:NUMBER"),
        ("", "device is ''; it must be"),
        ("mps", "device is 'mps'; float64 is needed, so it must be cpu, cuda or cuda:NUMBER"),
        ("cpu:1", "device is 'cpu:1'; there is one cpu"),
    ],
)
def test_another_is_refused(name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        torch_device(name)


def test_a_cuda_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(
        ValueError, match=r"device is 'cuda', and PyTorch .* sees no CUDA device here; cpu runs anywhere"
    ):
        torch_device("cuda")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert torch_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="device is 'cuda:2', and there are 2 CUDA devices; the last is cuda:1"):
        torch_device("cuda:2")


def test_a_card_is_named_with_its_model(monkeypatch):
    monkeypatch.setattr("torch.cuda.current_device", lambda: 3)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda index: f"card {index}")
    assert device_name(torch.device("cuda")) == "cuda:3, card 3"
    assert device_name(torch.device("cuda:1")) == "cuda:1, card 1"


def test_provenance_has_seeds_dtype_device_and_torch():
    made = provenance_on(torch.device("cpu"), weights=4)
    assert (made["seeds"], made["dtype"], made["device"]) == ({"weights": 4}, "float64", "cpu")
    assert made["versions"]["torch"] == torch.__version__ and "jax" in made["versions"]
