"""Tests of the units that are found in networks of every architecture.

If all axes of one group of units are permuted together, the function does not change.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional

from ntkfl.connectivity.units.torch_alignment import permuted
from ntkfl.connectivity.units.walk import Atom, axis, hold, length, regrouped, resolved, unite, units_of
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.models import build

X = torch.linspace(-1, 2, 2 * 3 * 8 * 8, dtype=torch.float64).sin().reshape(2, 3, 8, 8)


class Residual(nn.Module):
    """A network with a residual stream that two branches change in place.

    Channels are narrowed, widened and joined.
    """

    def __init__(self):
        super().__init__()
        self.first, self.branch = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.narrow, self.wide = nn.Conv2d(6, 4, 1), nn.Conv2d(4, 6, 1)
        self.joined, self.head = nn.Linear(12, 5), nn.Linear(5, 2)

    def forward(self, x):
        z = self.first(x)
        z += self.branch(torch.relu(z))
        z = z + self.wide(functional.silu(self.narrow(z)))
        pooled = torch.cat([z.mean((2, 3)), z.amax((2, 3))], 1)
        return self.head(torch.tanh(self.joined(pooled)))


class Attention(nn.Module):
    """An attention network with one linear map for the heads, a class token, and torch's normalisation of rows."""

    def __init__(self):
        super().__init__()
        self.embed, self.joint, self.out, self.head = (
            nn.Linear(24, 6),
            nn.Linear(6, 18),
            nn.Linear(6, 6),
            nn.Linear(6, 2),
        )
        self.norm, self.token = nn.LayerNorm(6), nn.Parameter(torch.randn(6))

    def forward(self, x):
        tokens = self.embed(x.permute(0, 2, 1, 3).flatten(2))
        tokens = torch.cat([self.token.expand(len(x), 1, 6), tokens], 1)
        q, k, v = (
            projected.unflatten(-1, (2, 3)).transpose(1, 2) for projected in self.joint(self.norm(tokens)).chunk(3, -1)
        )
        mixed = ((q @ k.mT / 3**0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.head(functional.normalize(tokens + self.out(mixed), dim=-1)[:, 0])


def masked(x, weights):
    """Returns the outputs of a network in which a constant removes half of the hidden units."""
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    return (torch.relu(x.flatten(1) @ weights["in"]) * mask) @ weights["out"]


def conv_net(*layers, flat):
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, 5), nn.PReLU(5), nn.Linear(5, 2))


NETWORKS = {
    "batch norm": lambda: conv_net(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), flat=144),
    "group norm": lambda: conv_net(nn.Conv2d(3, 6, 3), nn.GroupNorm(3, 6), nn.GELU(), nn.AvgPool2d(2), flat=54),
    "groups": lambda: conv_net(
        nn.Conv2d(3, 4, 3), nn.ELU(), nn.Conv2d(4, 8, 3, groups=2), nn.Softplus(), nn.MaxPool2d(2), flat=32
    ),
    "depthwise": lambda: conv_net(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(), flat=144),
    "transposed": lambda: conv_net(nn.ConvTranspose2d(3, 4, 2), nn.Tanh(), nn.AdaptiveAvgPool2d(2), flat=16),
    "transposed groups": lambda: conv_net(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 6, 2, groups=2), nn.AdaptiveAvgPool2d(1), flat=6
    ),
    "instance norm": lambda: conv_net(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Mish(), flat=144),
    "layer norm of images": lambda: conv_net(nn.Conv2d(3, 4, 3), nn.LayerNorm([4, 6, 6]), nn.SELU(), flat=144),
    "residual": Residual,
    "attention": Attention,
}


def weights_of(module, seed):
    torch.manual_seed(seed)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand_like(value) + 0.5 if name.endswith("var") else torch.randn_like(value))
    return {name: value for name, value in module.double().eval().state_dict().items() if value.is_floating_point()}


def moved(function, weights, x, seed):
    """Returns the units, the weights after random permutations, and the outputs before and after."""
    units, _ = units_of(function, weights, x)
    rng = np.random.default_rng(seed)
    after = permuted(weights, units, [rng.permutation(size) for size in units.sizes])
    with torch.no_grad():
        return units, after, function(weights, x), function(after, x)


def as_function(module):
    return lambda weights, x: torch.func.functional_call(module, weights, (x,))


@given(st.sampled_from(list(NETWORKS)), st.integers(0, 10**6))
@settings(max_examples=60)
def test_units_are_permuted_without_changing_the_function(name, seed):
    module = NETWORKS[name]()
    weights = weights_of(module, seed)
    _, _, before, after = moved(as_function(module), weights, X, seed)
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name, sizes",
    {
        "batch norm": [4, 5],
        "group norm": [3, 2, 5],
        "groups": [2, 2, 4, 5],
        "depthwise": [4, 5],
        "transposed": [4, 5],
        "transposed groups": [2, 2, 3, 5],
        "instance norm": [4, 5],
        "layer norm of images": [4, 5],
        "residual": [4, 5],
        "attention": [6, 2, 3],
    }.items(),
)
def test_all_units_are_found_that_can_be_permuted_alike(name, sizes):
    module = NETWORKS[name]()
    units, _ = units_of(as_function(module), weights_of(module, 0), X)
    assert list(units.sizes) == sizes and len(set(units.names)) == len(sizes)
    for factors, value in zip(units.factors.values(), weights_of(module, 0).values(), strict=True):
        assert np.prod([factor.size for factor in factors], dtype=int) == value.numel()


def test_what_stays_in_its_place_is_said_with_the_reason():
    module = Residual()
    units, _ = units_of(as_function(module), weights_of(module, 0), X)
    assert units.held == dict.fromkeys(
        ("first.weight", "first.bias", "branch.weight", "wide.weight", "wide.bias"), "it is joined with others"
    )
    weights = {"in": torch.randn(192, 4, dtype=torch.float64), "out": torch.randn(4, 2, dtype=torch.float64)}
    groups, _ = units_of(lambda w, x: masked(x, w), weights, X)
    assert groups.sizes == () and groups.held == {"out": "an operation combines it with a constant"}


@pytest.mark.parametrize(
    "spec, shape, groups",
    [
        ("mlp:6-5", (4,), 2),
        ("linear", (4,), 0),
        ("two-layer:7", (4,), 1),
        ("ntk:16", (4,), 0),
        ("simple-cnn", (1, 18, 18), 4),
        ("ima-cnn", (3, 16, 16), 4),
        ("ima-domain-cnn", (1, 4, 4), 8),
        ("vit:4-8-2-2", (1, 8, 8), 7),
        pytest.param("resnet20", (3, 8, 8), 9, marks=pytest.mark.slow),
        pytest.param("resnet20-gn", (3, 8, 8), 18, marks=pytest.mark.slow),
        pytest.param("resnet18", (3, 8, 8), 12, marks=pytest.mark.slow),
        pytest.param("resnet18-gn", (3, 8, 8), 24, marks=pytest.mark.slow),
        pytest.param("vgg11", (3, 32, 32), 8, marks=pytest.mark.slow),
        pytest.param("vgg11-gn", (3, 32, 32), 16, marks=pytest.mark.slow),
    ],
)
def test_the_models_of_the_training_engine(spec, shape, groups):
    x = torch.tensor(np.random.default_rng(0).normal(size=(2, *shape)))
    labels = torch.tensor([0.0, 1.0]) if spec.startswith("ntk") else torch.tensor([0, 1])
    data = FederatedData(x, labels, np.zeros(2, int), 1, classes=None if spec.startswith("ntk") else 3)
    model = build(spec, data)
    units, after, one, other = moved(model.outputs, model.initial(1), x, 0)
    assert len(units.sizes) == groups
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    assert groups == 0 or any(not torch.equal(after[name], value) for name, value in model.initial(1).items())


def test_tied_weights_stay_tied():
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    names = ["3.weight", "5.weight"]
    weights = weights_of(module, 0)
    free, _ = units_of(as_function(module), weights, X)
    tied, _ = units_of(as_function(module), weights, X, [names])
    assert free.sizes == (4, 4)
    # No units are left. The rows of 5.weight are outputs and are held, which means that they must stay in their places.
    # 3.weight is tied to 5.weight, so the rows of 3.weight are held too. They belong to the same units as the columns
    # of 5.weight, so these columns are held. By the tie, the columns of 3.weight are held as well.
    assert tied.sizes == ()


class Odd(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.layer, self.head, self.odd = nn.Linear(192, 4), nn.Linear(4, 2), forward

    def forward(self, x):
        return self.head(self.odd(self.layer(x.flatten(1))))


@pytest.mark.parametrize(
    "odd, message",
    [
        (lambda z: z.cumsum(1), "through the operation cumsum, applied to results of 'layer.weight'"),
        (lambda z: functional.dropout(z, 0.5), "operation bernoulli_, which draws random numbers"),
        (lambda z: z * z.abs().max(1, keepdim=True).indices, "through the operation max, applied to"),
        (
            lambda z: z * functional.max_pool1d_with_indices(z[:, None], 1)[1][:, 0],
            "through the further results of an operation, applied to results of 'layer.weight'",
        ),
        (lambda z: z[:, [1, 0, 2, 3]], "through the operation index, applied to"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_the_layer(odd, message):
    module = Odd(odd)
    with pytest.raises(ValueError, match=message):
        units_of(as_function(module), weights_of(module, 0), X)


@pytest.mark.parametrize(
    "odd",
    [
        lambda z: torch.cat([z[:, :2], z[:, 2:]], 1),
        lambda z: functional.pad(z, (1, -1)),
        lambda z: torch.stack([z[:, k] for k in (1, 0, 2, 3)], 1),
        lambda z: z.reshape(-1, 2).reshape(-1, 4).flip(0).flip(0),
        lambda z: z @ torch.eye(4, dtype=z.dtype),
        lambda z: z.new_zeros(z.shape).copy_(z).mul_(torch.arange(4)),
    ],
)
def test_what_goes_by_places_keeps_them_or_is_refused(odd):
    module = Odd(odd)
    weights = weights_of(module, 0)
    try:
        _, _, before, after = moved(as_function(module), weights, X, 3)
    except ValueError as error:
        assert "cannot be followed" in str(error)
    else:
        torch.testing.assert_close(before, after, rtol=1e-12, atol=1e-12)


@given(st.data())
def test_axes_keep_their_lengths_however_they_are_regrouped_and_united(data):
    numbers = st.lists(st.integers(1, 6), min_size=1, max_size=4)
    one = data.draw(numbers)
    total = int(np.prod(one))
    cut = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    axes = [axis(size) for size in one]
    axes_made = regrouped([atom for atoms in axes for atom in atoms], [cut, total // cut])
    assert [length(resolved(atoms)) for atoms in axes_made] == [cut, total // cut]
    assert [length(resolved(atoms)) for atoms in axes] == one
    held = {atom for atoms in axes for atom in resolved(atoms) if atom.held}
    # Axes are made of atoms, and a held atom must stay in its place. If no atoms are held, `axes` and `axes_made` have
    # the same atoms in the same order.
    if not held:
        assert [a for atoms in axes for a in resolved(atoms)] == [a for atoms in axes_made for a in resolved(atoms)]
    unite(axes_made[0], axis(cut))
    assert [length(resolved(atoms)) for atoms in axes] == one


def test_parts_that_do_not_fit_are_held_and_so_is_what_joins_them():
    first, second = axis(2) + axis(3), axis(3) + axis(2)
    unite(first, second)
    assert all(atom.held for atom in resolved(first + second))
    whole = axis(6)
    hold(whole, "why")
    unite(whole, free := axis(6))
    unite(free, parts := axis(3) + axis(2))
    assert [atom.held for atom in resolved(parts)] == ["why", "why"] and isinstance(resolved(parts)[0], Atom)
