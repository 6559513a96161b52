"""Tests of checkpoints as people save them: the saved network is read, or the message names the contents of
the file.
"""

import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import save_file
from torch import nn

from ntkfl.connectivity.checkpoints.layers import two_layers
from ntkfl.connectivity.network_files import load_affine_network


def module(features=3, width=5, outputs=2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, outputs)).double()


class Backwards(nn.Module):
    """A network whose second layer has the name that sorts first."""

    def __init__(self, of):
        super().__init__()
        self.encoder, self.decoder = of[0], of[2]


def assert_read(path, of):
    """Asserts that the network in the file has the outputs of torch's own module."""
    x = np.random.default_rng(1).normal(size=(20, of[0].in_features))
    with np.errstate(all="raise"):
        outputs = load_affine_network(path).with_unit().outputs(np.column_stack([x, np.ones(20)]))
    expected = of.double()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(outputs.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)


def sparse(state):
    return {name: value.to_sparse() if value.ndim == 2 else value for name, value in state.items()}


SAVED = {
    "parameters.pt": lambda m: dict(m.named_parameters()),
    "kept.pt": lambda m: m.state_dict(keep_vars=True),
    "list.pt": lambda m: list(m.parameters()),
    "sparse.pt": lambda m: sparse(m.state_dict()),
    "half.bin": lambda m: m.to(torch.bfloat16).state_dict(),
    "old.pth.tar": lambda m: {"epoch": 3, "arch": "mlp", "state_dict": m.state_dict(), "best_acc1": 0.5},
    "no_suffix": lambda m: m.state_dict(),
    "net.pth": lambda m: {"net": m.state_dict(), "acc": 0.5},
    "params.pt": lambda m: {"params": m.state_dict()},
    "network.pt": lambda m: {"network": m.state_dict(), "rng": torch.get_rng_state()},
    "teacher.pt": lambda m: {"teacher": m.state_dict()},
    "named.pt": lambda m: {"model.state_dict": m.state_dict()},
    "deep.ckpt": lambda m: {"checkpoint": {"model": {"state": {f"module.{k}": v for k, v in m.state_dict().items()}}}},
    "adam.pt": lambda m: {"net": m.state_dict(), "optimizer": stepped(m)},
    "backwards.pt": lambda m: Backwards(m).state_dict(),
}


def stepped(m):
    """Returns the state of an optimizer, which has moments of the shapes of the weights."""
    adam = torch.optim.Adam(m.parameters())
    m(torch.ones(1, m[0].in_features, dtype=torch.float64)).sum().backward()
    adam.step()
    return adam.state_dict()


@pytest.mark.parametrize("sizes", [(3, 5, 2), (2, 4, 2), (3, 3, 3), (4, 5, 1)])
@pytest.mark.parametrize("name", SAVED)
def test_what_torch_saved_is_read(tmp_path, name, sizes):
    """Torch's files are read, even if both orders of the two layers fit the shapes.

    Only a list of square matrices without names is refused.
    """
    of = module(*sizes)
    torch.save(SAVED[name](of), tmp_path / name)
    if name == "list.pt" and sizes == (3, 3, 3):
        with pytest.raises(ValueError, match=r"may be \(outputs, inputs\), as torch has them, or \(inputs, outputs\)"):
            load_affine_network(tmp_path / name)
    else:
        assert_read(tmp_path / name, of)


def flat(m):
    return [value.detach().numpy() for value in m.parameters()]


def as_keras(m):
    """Returns the arrays in the order of Keras: kernel (inputs, outputs), bias, kernel, bias."""
    return [value.T if value.ndim == 2 else value for value in flat(m)]


def named(m, names, arrays=as_keras):
    return dict(zip(names.split(), arrays(m), strict=True))


NPZ = {
    "flower": lambda m: {f"arr_{k}": value for k, value in enumerate(flat(m))},
    "keras": lambda m: {f"arr_{k}": value for k, value in enumerate(as_keras(m))},
    "numpy": lambda m: named(m, "W1 b1 W2 b2"),
    "as in torch": lambda m: named(m, "W1 b1 W2 b2", flat),
    "vectors last": lambda m: {key: named(m, "w1 b1 w2 b2")[key] for key in ("w1", "w2", "b1", "b2")},
    "flax": lambda m: dict(sorted(named(m, "p/Dense_0/kernel p/Dense_0/bias p/Dense_1/kernel p/Dense_1/bias").items())),
    "state": lambda m: {name: value.numpy() for name, value in m.state_dict().items()},
}


@pytest.mark.parametrize("sizes", [(3, 5, 2), (2, 4, 2), (4, 5, 1)])
@pytest.mark.parametrize("kind", NPZ)
def test_what_numpy_saved_is_read(tmp_path, kind, sizes):
    of = module(*sizes)
    np.savez(tmp_path / "net.npz", **NPZ[kind](of))
    assert_read(tmp_path / "net.npz", of)
    (tmp_path / "net.npz").rename(tmp_path / "net.weights")
    assert_read(tmp_path / "net.weights", of)


def test_names_with_numbers_give_the_order_that_safetensors_does_not_keep(tmp_path):
    of = module(2, 4, 2)
    state = of.state_dict()
    renamed = {
        name: state[old] for old, name in zip(state, ("l2.weight", "l2.bias", "l10.weight", "l10.bias"), strict=True)
    }
    save_file(renamed, tmp_path / "net.safetensors")
    assert_read(tmp_path / "net.safetensors", of)
    save_file(Backwards(of).state_dict(), tmp_path / "doubt.safetensors")
    with pytest.raises(ValueError, match=r"may come first in .* and the file has no order of its own"):
        load_affine_network(tmp_path / "doubt.safetensors")
    wide = module(3, 4, 2)
    save_file(Backwards(wide).state_dict(), tmp_path / "clear.safetensors")
    assert_read(tmp_path / "clear.safetensors", wide)


def test_numbers_that_contradict_the_order_of_a_file_are_refused(tmp_path):
    state = module(2, 4, 2).state_dict()
    torch.save({name: state[name] for name in sorted(state, reverse=True)}, tmp_path / "net.pt")
    with pytest.raises(ValueError, match="their numbers say another order than the file"):
        load_affine_network(tmp_path / "net.pt")


REFUSED = {
    "meta": (lambda s: {name: value.to("meta") for name, value in s.items()}, "0.weight is on the device meta"),
    "quantised": (
        lambda s: {name: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8) for name, value in s.items()},
        "0.weight is quantised (torch.qint8); save its dequantize(), if those weights are meant",
    ),
    "complex": (lambda s: s | {"0.weight": s["0.weight"] * 1j}, "0.weight is torch.complex128; a state holds tensors"),
    "nan": (lambda s: s | {"2.bias": s["2.bias"] * torch.nan}, "net.pt: 2.bias[0] is nan; every entry must be finite"),
    "beside": (lambda s: s | {"epoch": 3}, "epoch is int; a state holds tensors of real numbers alone"),
    "norm": (
        lambda s: {"0.weight": s["0.weight"], "1.weight": torch.ones(5), "2.weight": s["2.weight"]},
        "has 0.weight (5, 3), 1.weight (5,), 2.weight (2, 5): which vector is the bias of which matrix",
    ),
    "two": (
        lambda s: {"student": s, "teacher": s},
        "net.pt has several networks: student, teacher; save the one that is meant in a file of its own",
    ),
    "none": (lambda s: {"epoch": 3, "loss": torch.ones(())}, "net.pt holds a dict of epoch, loss; it must hold what"),
    "convolution": (
        lambda s: s | {"0.weight": torch.ones(5, 3, 1, 1)},
        "net.pt has 0.weight (5, 3, 1, 1), 0.bias (5,), 2.weight (2, 5), 2.bias (2,): it is no two-layer network",
    ),
    "apart": (lambda s: s | {"2.weight": s["2.weight"][:, :4]}, "2.weight (2, 4), 2.bias (2,) do not follow one"),
    "bias": (lambda s: s | {"0.bias": s["0.bias"][:4]}, "0.bias (4,), 2.weight (2, 5), 2.bias (2,) do not follow"),
}


@pytest.mark.filterwarnings("ignore:.*quantiz.*")  # Torch warns that its own quantisation is deprecated.
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_such_network_is_refused_and_named(tmp_path, kind):
    change, message = REFUSED[kind]
    torch.save(change(dict(module().state_dict())), tmp_path / "net.pt")
    with pytest.raises(ValueError, match=re.escape(message)):
        load_affine_network(tmp_path / "net.pt")


@pytest.mark.parametrize("name", ["net.pt", "net.pth.tar", "net.npz", "net", "net.safetensors"])
def test_nothing_is_unpickled_whatever_the_file_is_called(tmp_path, name):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    (tmp_path / name).write_bytes(pickle.dumps({"0.weight": Trap()}))
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / name))):
        load_affine_network(tmp_path / name)
    if name != "net.safetensors":
        arrays = np.empty(1, object)
        arrays[0] = Trap()
        with (tmp_path / name).open("wb") as file:
            np.savez(file, W1=arrays)
        with pytest.raises(
            ValueError, match="holds pickled Python objects" if name.endswith(("npz", "net")) else "net"
        ):
            load_affine_network(tmp_path / name)


@given(st.permutations(["0.weight", "0.bias", "2.weight", "2.bias"]), st.integers(1, 3), st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_names_of_torch_are_read_in_any_order_or_refused(names, features, outputs):
    """Arrays with torch's names are read in any order, or refused: the order never changes the network that is read."""
    state = {name: value.numpy() for name, value in module(features, 4, outputs).state_dict().items()}
    expected = two_layers(state, "it", ordered=True)
    try:
        layers = two_layers({name: state[name] for name in names}, "it", ordered=True)
    except ValueError as error:
        assert features == outputs and "another order" in str(error)
        assert names.index("2.weight") < names.index("0.weight")
        return
    assert layers.keys() == expected.keys()
    assert all(np.array_equal(layers[name], expected[name]) for name in layers)
