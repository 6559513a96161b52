"""Tests of models by name: they have the papers' numbers of parameters, and have no hidden state.

Refusals, and gradients that vmap computes, are tested too.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import grad, vmap

from ntkfl.connectivity.network import TwoLayer
from ntkfl.initialisation import draw
from ntkfl.training.engine.federation import Federation
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Average, Method
from ntkfl.training.model import applied, from_modules
from ntkfl.training.models import build, catalogue
from ntkfl.training.models.two_layer import to_network
from ntkfl.training.objectives import CrossEntropy, half_squares
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential

SMALL = [
    *[("mlp:5-3", (1, 4, 4)), ("linear", (6,)), ("two-layer:7", (1, 3, 3)), ("simple-cnn", (1, 18, 18))],
    *[("ima-cnn", (1, 16, 16)), ("ima-cnn", (3, 16, 16)), ("resnet20", (3, 8, 8)), ("resnet20-gn", (1, 8, 8))],
    *[("vit:4-8-2-2", (1, 8, 8)), ("ima-domain-cnn", (3, 4, 4))],
    *[("fc:3:gelu:5:bias=0.2", (6,)), ("conv:3:relu:4", (2, 4, 4))],
]
LARGE = [
    *[("vgg11", (1, 32, 32)), ("vgg11-gn", (3, 32, 32)), ("ima-vgg11", (3, 32, 32)), ("resnet56", (3, 32, 32))],
    *[("resnet56-gn", (3, 32, 32)), ("resnet18", (3, 32, 32)), ("resnet18-gn", (3, 32, 32))],
    *[("ima-resnet18", (3, 32, 32)), ("ima-alexnet", (3, 64, 64))],
]
WITHOUT_DATA = {"ntk", "minilm-lora"}  # These models have tests of their own.


def some_data(shape, classes=3, n=6, clients=1):
    """Returns Gaussian inputs with classes in turn; if there are several clients, the first one owns about half."""
    x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    owner = np.minimum(np.arange(n) // max(n // 2, 1), clients - 1)
    return FederatedData(x, torch.arange(n) % classes, owner, clients, classes=classes)


NAMED = {spec.partition(":")[0] for spec, _ in SMALL + LARGE} | WITHOUT_DATA
# These are the models that the table does not name.
SMALL += [(name, (1, 8, 8)) for name in catalogue() if name not in NAMED]


def test_every_model_that_is_named_here_is_there():
    assert set(catalogue()) >= NAMED


@pytest.mark.parametrize(
    ("spec", "shape", "classes", "count"),
    [
        ("simple-cnn", (3, 32, 32), 10, 122_570),
        ("ima-cnn", (1, 28, 28), 10, 274_026),
        ("ima-cnn", (3, 32, 32), 10, 772_682),
    ],
)
def test_the_counts_of_the_papers(spec, shape, classes, count):
    assert build(spec, some_data(shape, classes, n=10)).size() == count


def residual_count(blocks, widths, projection, norm, channels, classes):
    """Returns the number of parameters of a residual network, counted by hand.

    The parameters are the weights of the convolutions, for each convolution the norm's scale and shift or, without a
    norm, a bias, and the last layer.
    """
    maps = [(channels, widths[0], 9)] + [(widths[0], widths[0], 9)] * 2 * blocks
    for inputs, outputs in pairwise(widths):
        maps += [(inputs, outputs, 9)] + [(outputs, outputs, 9)] * (2 * blocks - 1)
        maps += [(inputs, outputs, 1)] if projection else []
    per_map = 2 if norm else 1  # Each output channel has a scale and a shift or, without a norm, a bias.
    return sum(k * m * pixels + per_map * m for k, m, pixels in maps) + (widths[-1] + 1) * classes


THIN, WIDE = (16, 32, 64), (64, 128, 256, 512)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("resnet20-gn", residual_count(3, THIN, False, True, 3, 10)),
        ("resnet20", residual_count(3, THIN, False, False, 3, 10)),
        ("resnet56-gn", residual_count(9, THIN, False, True, 3, 10)),
        ("resnet18-gn", residual_count(2, WIDE, True, True, 3, 10)),
        ("resnet18", residual_count(2, WIDE, True, False, 3, 10)),
        ("ima-resnet18", residual_count(2, WIDE, True, True, 3, 128) + 129 * 10),
    ],
)
def test_counts_of_residual_networks(spec, count):
    assert build(spec, some_data((3, 32, 32), 10, n=10), dtype=torch.float32).size() == count


def test_the_counts_by_hand_are_those_of_the_literature():
    assert round(residual_count(3, THIN, False, True, 3, 10) / 1e6, 2) == 0.27  # from He et al. 2016, table 6
    assert round(residual_count(9, THIN, False, True, 3, 10) / 1e6, 2) == 0.85
    # the number that is often quoted for ResNet18 on CIFAR
    assert residual_count(2, WIDE, True, True, 3, 10) == 11_173_962


def test_counts_of_vgg_and_alexnet():
    pairs = [(1, 64), (64, 128), (128, 256), (256, 256), (256, 512), (512, 512), (512, 512), (512, 512)]
    convolutions = sum(9 * k * m + m for k, m in pairs)
    vgg = build("vgg11", some_data((1, 32, 32), 10, n=10), dtype=torch.float32)
    assert vgg.size() == convolutions + 513 * 10
    normed = build("ima-vgg11", some_data((1, 32, 32), 10, n=10), dtype=torch.float32)
    assert normed.size() == convolutions + sum(m for _, m in pairs) + 513 * 128 + 129 * 10
    layers = [(3, 64, 121), (64, 192, 25), (192, 384, 9), (384, 256, 9), (256, 256, 9)]
    body = sum(k * m * pixels + 2 * m for k, m, pixels in layers) + (9216 + 1) * 4096 + 4097 * 4096 + 4097 * 512
    alexnet = build("ima-alexnet", some_data((3, 224, 224), 7, n=7), dtype=torch.float32)
    assert alexnet.size() == body + 513 * 7


def test_the_cnn_for_domains_has_the_printed_layer():
    params = build("ima-domain-cnn", some_data((3, 28, 28), 10, n=10), dtype=torch.float32).initial(0)
    assert (2048, 6272) in {tuple(w.shape) for w in params.values()}  # the layer FC(6272, 2048) of the paper


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("spec", "shape"), SMALL + LARGE)
def test_shapes_seeds_and_heads(spec, shape):
    data = some_data(shape)
    model = build(spec, data, dtype=torch.float32)
    before = torch.random.get_rng_state()
    first, again, other = model.initial(3), model.initial(3), model.initial(4)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert {w.dtype for w in first.values()} == {torch.float32}
    x = data.x[:2].float()
    z = model.features(first, x)
    assert z.ndim == 2 and model.outputs(first, x).shape == (2, 3)
    used = grad(lambda p: model.features(p, x).square().sum())(first)
    assert model.head_names and all(not used[name].any() for name in model.head_names)
    used = grad(lambda p: model.head(p, z).square().sum())(first)
    assert {name for name, g in used.items() if g.any()} == set(model.head_names)


def mapped_and_looped(model, data):
    """Returns gradients of two clients with different weights and samples, by vmap and one by one."""
    one, two = model.initial(0), model.initial(1)
    stacked = {name: torch.stack([one[name], two[name]]) for name in one}
    x, y = torch.stack([data.x, data.x.flip(0)]), torch.stack([data.y, data.y.flip(0)])

    def loss(params, x, y):
        outputs = model.outputs(params, x)
        per_sample = half_squares(outputs, y) if data.classes is None else nn.functional.cross_entropy(outputs, y)
        return per_sample.mean()

    looped = [grad(loss)(p, x[i], y[i]) for i, p in enumerate((one, two))]
    return vmap(grad(loss))(stacked, x, y), {name: torch.stack([g[name] for g in looped]) for name in one}


def assert_close(tensors, expected, tolerance=1e-12):
    for name, value in expected.items():
        assert (tensors[name] - value).abs().max() <= tolerance * max(1.0, value.abs().max().item()), name
    assert any(value.abs().max() > 1e-6 for value in expected.values())


@pytest.mark.parametrize(("spec", "shape"), SMALL)
def test_the_mapped_gradient_is_the_loops(spec, shape):
    data = some_data(shape)
    assert_close(*mapped_and_looped(build(spec, data), data))


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "shape"), LARGE)
def test_the_mapped_gradient_of_large_models_is_the_loops(spec, shape):
    data = some_data(shape, n=2)
    assert_close(*mapped_and_looped(build(spec, data), data))


@pytest.mark.parametrize(
    ("spec", "size", "padding", "pooled"),
    [("simple-cnn", 18, 0, (1, 1, 0)), ("ima-cnn", 16, 0, (1, 1)), ("vgg11", 32, 1, (1, 1, 0, 1, 0, 1, 0, 1))],
)
def test_pooling_before_the_relu_is_to_the_bit_the_printed_pooling_after_it(spec, size, padding, pooled):
    data = some_data((1, size, size), n=1)
    model = build(spec, data)

    def printed(params, x):
        weights = iter(params.items())
        for pools in pooled:
            (_, filters), (_, bias) = next(weights), next(weights)
            x = nn.functional.conv2d(x, filters, bias, padding=padding).relu()
            x = nn.functional.max_pool2d(x, 2) if pools else x
        x = x.mean((-2, -1)) if spec == "vgg11" else x.flatten(1)
        layers = [(matrix, bias) for (_, matrix), (_, bias) in zip(weights, weights, strict=True)]
        for place, (matrix, bias) in enumerate(layers):
            x = nn.functional.linear(x, matrix, bias)
            x = x.relu() if len(layers) > 1 and place == 0 else x  # A network of two layers has one ReLU between them.
        return x

    params = model.initial(1)
    assert torch.equal(model.outputs(params, data.x), printed(params, data.x))
    gradients, expected = (grad(lambda p, f=f: f(p, data.x).square().sum())(params) for f in (model.outputs, printed))
    assert all(torch.equal(gradients[name], expected[name]) and expected[name].any() for name in params)


class Shared(nn.Module):
    """A model with two layers that share one matrix, and a bias of its own outside any layer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.shift = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x))) + self.shift


def test_a_module_is_applied_to_parameters_as_functional_call_does():
    module, x = Shared().double(), torch.randn(2, 3, dtype=torch.float64)
    own = dict(module.named_parameters())
    other = {name: torch.randn_like(value) for name, value in own.items()}
    call = applied(module, "body.")
    outputs = call({f"body.{name}": value for name, value in other.items()} | {"head.weight": x}, x)
    assert torch.equal(outputs, torch.func.functional_call(module, other, x))
    with pytest.raises(RuntimeError, match="shape"):
        call({f"body.{name}": value for name, value in other.items()}, torch.ones(2, 5, dtype=torch.float64))
    with pytest.raises(KeyError, match="body"):
        call(other, x)
    assert (
        all(value is own[name] for name, value in module.named_parameters())
        and module.second.weight is own["first.weight"]
    )


@pytest.mark.parametrize(
    ("spec", "labels"),
    [(spec, labels) for spec in ("mlp:4", "linear", "two-layer:5") for labels in ((6,), (6, 2))] + [("ntk:6", (6,))],
)
def test_real_labels_have_outputs_of_their_shape(spec, labels):
    y = torch.linspace(-1, 1, int(np.prod(labels)), dtype=torch.float64).reshape(labels)
    data = FederatedData(some_data((2, 3)).x, y, np.zeros(6, int), 1)
    model = build(spec, data)
    assert model.outputs(model.initial(0), data.x).shape == labels
    assert_close(*mapped_and_looped(model, data))


@pytest.mark.parametrize("spec", ["simple-cnn", "resnet20-gn"])
def test_a_round_in_groups_is_the_round_one_by_one(spec):
    data = some_data((1, 18, 18), n=7, clients=3)
    ends = []
    for at_once in (1, 3):
        model = build(spec, data)
        run = Federation(
            model,
            data,
            Method("fedavg", CrossEntropy(), server=Average()),
            Exponential(0.05),
            SGD(momentum=0.9),
            LocalWork(batch_size=2),
            at_once=at_once,
        )
        ends.append(run.round(run.start()).state.model)
    assert_close(ends[1], ends[0])


@pytest.mark.parametrize(("spec", "unchanged"), [("resnet20-gn", True), ("resnet20", False)])
def test_group_norm_forgets_the_scale_of_the_convolution_before_it(spec, unchanged):
    data = some_data((3, 8, 8))
    model = build(spec, data)
    params = model.initial(0)
    first = next(name for name in params if params[name].ndim == 4)
    large, larger = (model.outputs(params | {first: scale * params[first]}, data.x) for scale in (1e4, 1e6))
    assert torch.allclose(large, larger, rtol=0, atol=1e-6) == unchanged


@pytest.mark.parametrize("spec", ["vgg11", "resnet18", "resnet20", "resnet56"])
def test_the_signal_reaches_the_end_of_deep_networks_without_norm(spec):
    x = torch.rand(4, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    model = build(spec, FederatedData(x, torch.arange(4), np.zeros(4, int), 1, classes=4), dtype=torch.float32)
    for seed in range(2):
        variation = model.features(model.initial(seed), x - 0.5).std(0).mean()
        assert 0.01 < variation < 10


def test_the_transformer_is_torchs():
    data = some_data((3, 8, 8))
    model = build("vit:4-8-2-2", data)
    params = model.initial(0)
    x = nn.functional.conv2d(data.x, params["body.embed.weight"], params["body.embed.bias"], stride=4)
    tokens = x.flatten(2).transpose(1, 2)
    tokens = torch.cat([params["body.token"].expand(len(x), 1, 8), tokens], 1) + params["body.positions"]
    for layer in range(2):
        at = f"body.layers.{layer}."
        ours = {name.removeprefix(at): w for name, w in params.items() if name.startswith(at)}
        reference = nn.TransformerEncoderLayer(8, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True).double()
        names = {"self_attn.in_proj_": "joint.", "self_attn.out_proj.": "out.", "linear1.": "mlp.0."}
        names |= {"linear2.": "mlp.2.", "norm1.": "before_attention.", "norm2.": "before_mlp."}
        kinds = ("weight", "bias")
        reference.load_state_dict({a + kind: ours[b + kind] for a, b in names.items() for kind in kinds})
        tokens = reference(tokens)
    norm = params["body.norm.weight"], params["body.norm.bias"]
    expected = nn.functional.layer_norm(tokens, (8,), *norm)[:, 0]
    assert torch.allclose(model.features(params, data.x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("outputs", [None, 3])
def test_two_layer_networks_go_to_connectivity(outputs):
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((5, 4)))
    y = torch.zeros(5, dtype=torch.float64) if outputs is None else torch.zeros(5, outputs, dtype=torch.float64)
    model = build("two-layer:6", FederatedData(x, y, np.zeros(5, int), 1))
    params = model.initial(1)
    network = to_network(params)
    assert isinstance(network, TwoLayer)
    assert np.allclose(network.outputs(x.numpy()), model.outputs(params, x).numpy(), rtol=0, atol=1e-14)
    assert all(np.array_equal(getattr(network, name), params[name].numpy()) for name in params)


@pytest.mark.method("fl-ntk")
def test_the_network_of_fl_ntk_is_the_simulators():
    x = np.random.default_rng(1).standard_normal((5, 6))
    data = FederatedData(torch.tensor(x).reshape(5, 2, 3), torch.zeros(5, dtype=torch.float64), np.zeros(5, int), 1)
    hidden, signs = draw(16, 6, 4)
    model = build("ntk:16", data, seed=4)
    expected = np.maximum(x @ hidden.T, 0) @ signs / 4
    assert np.allclose(model.outputs(model.initial(4), data.x).numpy(), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("resnet2", (3, 8, 8), r"there is no model 'resnet2'\. Did you mean 'resnet20'\? Models are conv, fc, .*ima-"),
        ("mlp:6x4", (4,), r"'mlp:6x4' has the sizes '6x4'; they must be positive integers, such as 'mlp:64-64'"),
        ("mlp:0", (4,), r"sizes '0'"),
        ("two-layer:3-4", (4,), r"such as 'two-layer:512'"),
        ("simple-cnn:3", (1, 18, 18), r"'simple-cnn:3' takes no sizes; write 'simple-cnn'"),
        ("simple-cnn", (1, 8, 8), r"at least 18 x 18 pixels; an input of these data has the shape \(1, 8, 8\)"),
        ("resnet20", (64,), r"takes images .* has the shape \(64,\)"),
        ("vit:3", (1, 8, 8), r"'vit:3' has the sizes"),
        ("vit:3-8-1-1", (1, 8, 8), r"patches of 3 x 3 pixels; images of 8 x 8 are not tiled"),
        ("vit:4-8-1-3", (1, 8, 8), r"width 8 and 3 heads; HEADS must divide WIDTH"),
        ("ntk:8", (4,), r"'ntk:8' has one output; these data ask for 3"),
    ],
)
def test_what_cannot_be_built_is_refused(spec, shape, message):
    with pytest.raises(ValueError, match=message):
        build(spec, some_data(shape))


def test_dropout_in_eval_mode_is_the_network_without_it():
    from ntkfl.training.own_network import from_module

    torch.manual_seed(0)
    layers = nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)
    with pytest.raises(ValueError, match=r"mine is in training mode, .*'1' \(Dropout\).*: call eval\(\) on the module"):
        from_module(nn.Sequential(*layers), "mine")
    model = from_module(nn.Sequential(*layers).eval(), "mine")
    x = torch.randn(5, 3, dtype=torch.float64)
    outputs = model.outputs(model.initial(0), x)
    params = [value.double() for value in nn.Sequential(*layers).parameters()]
    assert torch.equal(outputs, nn.functional.linear(nn.functional.linear(x, *params[:2]), *params[2:]))


@pytest.mark.parametrize("layer", [lambda: nn.BatchNorm2d(2), lambda: nn.Dropout(0.5)], ids=["norm", "dropout"])
def test_what_is_no_pure_function_in_training_mode_is_one_after_eval(layer):
    def make():
        return nn.Sequential(nn.Conv2d(1, 2, 3), layer(), nn.Flatten()), nn.Linear(2, 2)

    def in_eval():
        return tuple(module.eval() for module in make())

    with pytest.raises(ValueError, match=r"x is in training mode, .* part '1' .*: call eval\(\) on the module$"):
        from_modules("x", make, torch.float64, "cpu")
    model = from_modules("x", in_eval, torch.float64, "cpu")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        body, head = (module.double() for module in in_eval())
    x = torch.randn(4, 1, 3, 3, dtype=torch.float64)
    assert torch.equal(model.outputs(model.initial(3), x), head(body(x)))
