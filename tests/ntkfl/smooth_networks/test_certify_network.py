"""Tests of `certify_network`: its refusals, and its claims, which adversarial training must keep."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_networks import hessians, jacobian, module, near, nearest_fit, outputs, residual, trained
from torch import nn

from ntkfl import Problem, Setup, certify_network, certify_rounds
from ntkfl.memory import TooLittleMemory
from ntkfl.networks import wide
from ntkfl.smooth_networks.reading import layers_of
from ntkfl.training import Residual

CERTIFIED = 2e-5


def batches(rng, layers, theta, x, y, step, mode):
    """Returns the weights after one window of training, in which every sample is used once.

    Batches have any size. Samples come in random order or in the order of the residuals.
    """
    n = len(x)
    size, shape = len(outputs(layers, theta, x[:1])), int(rng.integers(1, n + 1))
    left = list(range(n))
    while left:
        r = (y - outputs(layers, theta, x)).reshape(n, -1).norm(dim=1).numpy()
        order = {"random": rng.permutation(len(left)), "largest": np.argsort(-r[left]), "smallest": np.argsort(r[left])}
        chosen = [left[k] for k in order[mode][:shape]]
        left = [i for i in left if i not in chosen]
        rows = x[chosen]
        labels = y.reshape(n, size)[chosen].reshape(-1)
        theta = theta + step * jacobian(layers, theta, rows).T @ (labels - outputs(layers, theta, rows))
    return theta


@pytest.mark.parametrize("mode", ["random", "largest", "smallest"])
@pytest.mark.parametrize("net", [module(1, 1, nn.Tanh), module(1, 2, nn.GELU), residual(1)], ids=["1", "2", "blocks"])
def test_windows_keep_to_the_certificate(net, mode):
    problem = near(net, 4, 0.98 * certify_network(net, None, near(net, 4, 0.1)).needed_residual)
    certificate = certify_network(net, None, problem)
    assert certificate.certified, certificate.why
    layers, rng = layers_of(net, None), np.random.default_rng(0)
    start = theta = trained(layers)
    x, y = problem.x, torch.tensor(problem.y.reshape(-1))
    probes = rng.standard_normal((5, problem.d))
    claimed = certificate.enclosure(probes)
    before = (theta - nearest_fit(layers, theta, x, y)).norm()
    assert before <= certificate.distance
    for _ in range(4):
        # In this mode the models of two clients with half of the samples each are averaged, so p, the weight of a step,
        # is 1/2.
        if mode == "random":
            halves = [
                batches(
                    rng, layers, theta, x[k::2], y.reshape(len(x), -1)[k::2].reshape(-1), certificate.step_limit, mode
                )
                for k in (0, 1)
            ]
            theta, share = (halves[0] + halves[1]) / 2, 0.5
        else:
            theta, share = batches(rng, layers, theta, x, y, certificate.step_limit, mode), 1.0
        after = (theta - nearest_fit(layers, theta, x, y)).norm()
        assert (after / before) ** 2 <= 1 - share * (1 - certificate.window_factor)
        assert (theta - start).norm() <= certificate.reach
        now = outputs(layers, theta, probes).numpy().reshape(claimed.value.shape)
        assert (claimed.lo <= now).all() and (now <= claimed.hi).all()
        before = after


def test_the_claim_is_no_looser_than_it_has_to_be():
    """The claim is not much looser than necessary.

    The distance is nearly the distance of the nearest fit. For nearly every input far from the boundary, the
    certificate proves that training leaves the class as it is.
    """
    net = module(1)
    problem = near(net, 4, CERTIFIED)
    certificate = certify_network(net, None, problem)
    theta = trained(layers_of(net, None))
    fit = nearest_fit(layers_of(net, None), theta, problem.x, torch.tensor(problem.y))
    r = float(certificate.residual.value)
    assert certificate.distance <= 1.05 * r / np.sqrt(certificate.smallest_eigenvalue.lo)
    assert float((theta - fit).norm()) > 0.1 * certificate.distance
    final = certificate.final(np.random.default_rng(1).standard_normal((50, 4)))
    assert (final != "open").mean() > 0.8


def test_an_enclosure_counts_what_the_gradient_turns():
    """An enclosure of outputs takes into account that the gradient changes.

    Weights move along the gradient and against it, as far as the certificate's reach, which is scaled to 1.
    """
    net = module(1)
    certificate = certify_network(net, None, near(net, 4, CERTIFIED))
    far = replace(certificate, window=replace(certificate.window, reach=1.0))
    layers, probes = layers_of(net, None), np.random.default_rng(2).standard_normal((10, 4))
    theta, claimed, beyond = trained(layers), far.enclosure(probes), 0
    for k, g in enumerate(jacobian(layers, theta, probes)):
        for side in (-1, 1):
            now = float(outputs(layers, theta + side * g / g.norm(), probes[k : k + 1]))
            assert claimed.lo[k] <= now <= claimed.hi[k]
            beyond += abs(now - float(claimed.value[k])) > float(g.norm())
    assert beyond > 0  # An enclosure by the gradient alone would be too narrow.


def test_what_is_needed_would_do():
    net = module(1)
    far = certify_network(net, None, near(net, 4, 0.1))
    assert not far.certified and "NOT CERTIFIED" in str(far) and far.step_limit == 0 and far.window_factor == 1
    assert np.isinf(far.enclosure(np.ones((1, 4))).error).all() and far.final(np.ones((1, 4)))[0] == "open"
    x = near(net, 4, 0.1).x
    for share, certified in ((0.99, True), (1.05, False)):
        y = net(torch.tensor(x)).detach().numpy()[:, 0] + share * far.needed_residual / 2
        assert certify_network(net, None, Problem(x, y)).certified is certified
    assert far.to_dict()["distance"] is None and far.to_dict()["certified"] is False


def test_the_outcome_is_two_short_sentences():
    net = module(1)
    near_enough = [certify_network(net, None, near(net, 4, CERTIFIED), visits=visits) for visits in (1, 2.5)]
    dependent = certify_network(net, None, Problem(np.ones((2, 4)), np.zeros(2)))
    for certificate in (*near_enough, certify_network(net, None, near(net, 4, 0.1)), dependent):
        first, second, blank, *numbers = str(certificate).splitlines()
        assert len(first.split()) <= 25 >= len(second.split()) and not blank and numbers
        assert first.startswith("CERTIFIED" if certificate.certified else "NOT CERTIFIED")


def test_visits_and_shorter_steps():
    net = module(1)
    problem = near(net, 4, CERTIFIED)
    once, thrice = certify_network(net, None, problem), certify_network(net, None, problem, visits=3)
    assert thrice.reach > once.reach and thrice.window_factor > once.window_factor
    short = certify_network(net, None, problem, step=once.step_limit / 8)
    assert short.certified and short.step_limit == once.step_limit / 8 and short.reach < once.reach
    long = certify_network(net, None, problem, step=100.0)
    assert not long.certified and "the step 100 is too long" in long.why


def test_a_network_of_any_width_is_read_as_it_is_trained():
    for spec in ("fc:3:erf", "fc:4:gelu:bias=0.2", "fc:2:erf:standard", "conv:3:erf:bias=0.1", "conv:2:gelu"):
        network = wide(spec)
        x = np.random.default_rng(0).standard_normal((5, 9 if network.kind == "conv" else 6))
        model = network.model(x.shape[1:], 20, 2)
        params = model.initial(3)
        certificate = certify_network(network, params, Problem(x, np.zeros((5, 2))))
        exact = model.outputs(params, torch.tensor(x)).numpy()
        np.testing.assert_allclose(certificate.residual.value, np.linalg.norm(exact), rtol=1e-12)
        j = model.jacobian(params, torch.tensor(x)).reshape(10, -1).numpy()
        np.testing.assert_allclose(certificate.smallest_eigenvalue.value, np.linalg.eigvalsh(j @ j.T)[0], rtol=1e-6)


def test_a_residual_block_is_read_as_torch_computes_it():
    """A residual block is read as torch computes it.

    Bounds of outputs, kernel and curvature of nested blocks are right at the start and far from it.
    """
    net = residual(3, 6)
    layers, x = layers_of(net, None), np.random.default_rng(0).standard_normal((3, 4))
    certificate = certify_network(net, None, Problem(x, np.zeros(3)))
    np.testing.assert_allclose(outputs(layers, trained(layers), x), net(torch.tensor(x)).detach()[:, 0], rtol=1e-12)
    np.testing.assert_allclose(certificate.residual.value, net(torch.tensor(x)).detach().norm(), rtol=1e-12)
    j = jacobian(layers, trained(layers), x)
    np.testing.assert_allclose(certificate.smallest_eigenvalue.value, torch.linalg.eigvalsh(j @ j.T)[0], rtol=1e-6)
    assert [(layer.name, layer.opens, layer.closes) for layer in layers] == [
        ("0", 0, 0),
        ("2.0", 1, 0),
        ("2.2.0", 1, 2),
        ("3", 0, 0),
    ]


@pytest.mark.parametrize(
    "parts",
    [
        lambda: (nn.Tanh(), linear(12, 4), linear(4, 1)),
        lambda: (linear(12, 5), Residual(nn.GELU(), linear(5, 5), nn.SiLU(), linear(5, 5)), nn.Tanh(), linear(5, 1)),
        lambda: (linear(12, 5), nn.GELU(), nn.Tanh(), linear(5, 1), Residual(nn.Sigmoid())),
        lambda: (nn.Unflatten(1, (2, 2, 3)), nn.GELU(), conv(2, 3), nn.Tanh(), nn.Flatten(), nn.SiLU(), linear(18, 1)),
        lambda: (
            nn.Unflatten(1, (2, 2, 3)),
            conv(2, 3),
            Residual(nn.GELU(), conv(3, 3)),
            nn.AdaptiveAvgPool2d(1),
            nn.Tanh(),
            nn.Flatten(),
            linear(3, 1),
        ),
        lambda: (nn.Unflatten(1, (1, 3, 4)), conv(1, 2, stride=2), nn.Tanh(), conv(2, 2), nn.Flatten(), linear(8, 1)),
        lambda: (nn.Unflatten(1, (1, 3, 4)), conv(1, 2, stride=3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(2, 1)),
    ],
    ids=["input", "pre-activation", "in a row", "images", "images, pre-activation", "stride", "stride, mean"],
)
def test_activations_in_any_place_and_strides_are_as_torch_has_them(parts):
    """Activations and strides in any place give torch's outputs, kernel and weights.

    Bounds of the curvature hold at the start.
    """
    torch.manual_seed(3)
    net, x = nn.Sequential(*parts()), np.random.default_rng(0).standard_normal((3, 12))
    layers = layers_of(net, None, 12)
    certificate = certify_network(net, None, Problem(x, np.zeros(3)))
    np.testing.assert_allclose(certificate.residual.value, net(torch.tensor(x)).detach().norm(), rtol=1e-12)
    j = jacobian(layers, trained(layers), x)
    np.testing.assert_allclose(certificate.smallest_eigenvalue.value, torch.linalg.eigvalsh(j @ j.T)[0], rtol=1e-6)
    own = dict(net.named_parameters())
    by_torch = torch.func.jacrev(lambda given: torch.func.functional_call(net, given, torch.tensor(x))[:, 0])(own)
    rows = torch.cat([part.reshape(3, -1) for part in by_torch.values()], dim=1).detach()
    np.testing.assert_allclose(j @ j.T, rows @ rows.T, rtol=1e-9)
    assert certificate.depth == sum(value.ndim > 1 for value in own.values())
    norms = torch.linalg.matrix_norm(hessians(layers, trained(layers), x), 2).numpy()
    assert (norms <= certificate.start.curvature.of_each(0.0) * (1 + 1e-12)).all() and norms.max() > 0


def test_a_softplus_is_torchs_up_to_its_threshold_and_beyond():
    """The threshold of softplus is a kink: a network is certified on either side of it, and not across it."""
    x, torch_net = np.eye(4)[:3], module(1, activation=nn.Softplus)
    for threshold, certified in ((20.0, True), (-20.0, True), (None, False)):
        z = (torch_net[0](torch.tensor(x))).detach()
        for k in (1, 3):
            torch_net[k].threshold = float(z[1, 2]) + 1e-12 if threshold is None else threshold
        y = torch_net(torch.tensor(x)).detach().numpy()[:, 0]
        y[0] += 1e-9
        certificate = certify_network(torch_net, None, Problem(x, y))
        assert float(certificate.residual.hi) == pytest.approx(1e-9, rel=1e-2)
        assert certificate.certified is certified, certificate.why
        if not certified:
            assert re.search(r"layer 0 may reach its kink at .* in the ball .* for sample 1$", certificate.why)
            continue
        w, b = torch_net[0].weight.detach().numpy()[0], float(torch_net[0].bias.detach()[0])
        # At `probe` the first neuron is at the threshold, where the outputs jump.
        probe = (threshold - b) * w / (w @ w)
        assert (
            np.isinf(certificate.enclosure(probe[None]).error).all()
            and np.isfinite(certificate.enclosure(x).error).all()
        )


def test_a_frozen_layer_is_no_part_of_the_kernel():
    net = module(1)
    net[4].weight.requires_grad_(False)
    net[4].bias.requires_grad_(False)
    problem = near(net, 4, CERTIFIED)
    certificate, j = (
        certify_network(net, None, problem),
        jacobian(layers_of(net, None), trained(layers_of(net, None)), problem.x),
    )
    assert j.shape[1] == sum(p.numel() for p in net.parameters() if p.requires_grad)
    np.testing.assert_allclose(certificate.smallest_eigenvalue.value, torch.linalg.eigvalsh(j @ j.T)[0], rtol=1e-6)


def test_relu_is_certified_away_from_its_kinks():
    net = module(2, 1, nn.ReLU, 20)
    far = certify_network(net, None, near(net, 3, 1.0))
    assert not far.certified and re.search(
        r"a neuron of layer [02] may reach its kink in the ball of .*, for sample \d", far.why
    )
    problem = near(net, 3, 0.9 * far.needed_residual)
    certificate, layers = certify_network(net, None, problem), layers_of(net, None)
    assert certificate.certified
    start, x, y = trained(layers), problem.x, torch.tensor(problem.y)
    theta, before = start, float((start - nearest_fit(layers, start, x, y)).norm())
    for _ in range(3):
        theta = batches(np.random.default_rng(0), layers, theta, x, y, certificate.step_limit, "smallest")
        after = float((theta - nearest_fit(layers, theta, x, y)).norm())
        assert (after / before) ** 2 <= certificate.window_factor and (theta - start).norm() <= certificate.reach
        before = after
    rng = np.random.default_rng(0)
    probes = rng.standard_normal((200, 4))
    w, b = net[0].weight.detach().numpy()[0], float(net[0].bias.detach()[0])
    probes -= np.outer(probes @ w + b, w) / (w @ w)  # The points are moved to the kink of the first neuron.
    claimed = certificate.enclosure(probes)
    for _ in range(5):
        step = torch.tensor(rng.standard_normal(len(start)))
        now = outputs(layers, start + certificate.reach * step / step.norm(), probes).numpy()
        assert (claimed.lo <= now).all() and (now <= claimed.hi).all()


def test_samples_that_depend_on_each_other_are_named():
    net = module(1)
    problem = near(net, 5, CERTIFIED)
    x = problem.x.copy()
    x[3] = x[1]
    certificate = certify_network(net, None, Problem(x, problem.y))
    assert not certificate.certified and certificate.needed_residual is None
    apart = f"samples 1 and 3 are equal, and their labels are {problem.y[1]} and {problem.y[3]}: none fits both"
    assert certificate.why == apart and certify_rounds(net, None, Problem(x, problem.y), Setup()).why == apart
    alike = certify_network(net, None, Problem(x, np.ones(5)))
    assert not alike.certified and alike.why.endswith("most of all those of samples 1 and 3; leave one out")


def linear(*sizes):
    return nn.Linear(*sizes).double()


def conv(before, after, side=3, padding=1, **options):
    return nn.Conv2d(before, after, side, padding=padding, **options).double()


def images(pools):
    """Returns a torch network of convolutions with a residual block, for images of 3 x 4 pixels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        body = [nn.Unflatten(1, (2, 3, 4)), conv(2, 8), nn.Tanh(), Residual(conv(8, 8), nn.GELU())]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(8, 1)] if pools else [nn.Flatten(), linear(96, 1)]
        return nn.Sequential(*body, *head)


@pytest.mark.parametrize(
    "body",
    [
        lambda: (nn.Unflatten(1, (2, 2, 3)), conv(2, 4), nn.Flatten(), linear(24, 5), Residual(linear(5, 5))),
        lambda: (Residual(nn.Unflatten(1, (2, 2, 3)), conv(2, 2), nn.Tanh(), nn.Flatten()), linear(12, 5)),
        lambda: (nn.Unflatten(1, (1, 3, 4)), conv(1, 1), nn.Flatten(), Residual(linear(12, 12)), linear(12, 5)),
    ],
)
def test_outputs_are_those_of_torch_where_images_are_flattened(body):
    torch.manual_seed(0)
    net, x = nn.Sequential(*body(), linear(5, 1)), np.random.default_rng(0).standard_normal((3, 12))
    expected = net(torch.tensor(x)).detach().numpy()
    certificate = certify_network(net, None, Problem(x, expected[:, 0]))
    assert float(certificate.residual.hi) < 1e-12


@pytest.mark.parametrize("pools", [True, False])
def test_windows_of_convolutions_keep_to_the_certificate(pools):
    net = images(pools)
    problem = near(
        net, 3, 0.98 * certify_network(net, None, near(net, 3, 0.1, features=24)).needed_residual, features=24
    )
    certificate, layers = certify_network(net, None, problem), layers_of(net, None)
    assert certificate.certified, certificate.why
    start, x, y = trained(layers), problem.x, torch.tensor(problem.y)
    f = outputs(layers, start, x)
    np.testing.assert_allclose(net(torch.tensor(x)).detach()[:, 0], f, rtol=1e-12)
    np.testing.assert_allclose(certificate.residual.value, (y - f).norm(), rtol=1e-9)
    theta, before = start, float((start - nearest_fit(layers, start, x, y)).norm())
    assert before <= certificate.distance
    for mode in ("largest", "smallest", "random"):
        theta = batches(np.random.default_rng(0), layers, theta, x, y, certificate.step_limit, mode)
        after = float((theta - nearest_fit(layers, theta, x, y)).norm())
        assert (after / before) ** 2 <= certificate.window_factor and (theta - start).norm() <= certificate.reach
        before = after


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (
            nn.Sequential(linear(4, 3), nn.LeakyReLU(), linear(3, 1)),
            "layer 1 is LeakyReLU.* covers Linear, ntkfl.training.Residual",
        ),
        (
            nn.Sequential(linear(4, 3), nn.ELU(), linear(3, 1)),
            "layer 1 is ELU.*second derivative jumps at 0: SiLU and Softplus are smooth functions like it; the cert",
        ),
        (
            nn.Sequential(linear(4, 3), nn.BatchNorm1d(3), linear(3, 1)),
            r"layer 1 is BatchNorm1d.* depends on the others",
        ),
        (nn.Sequential(linear(4, 3), nn.Sequential(nn.Dropout(0.1))), r"layer 1.0 is Dropout.* is random, .* Identity"),
        (
            nn.Sequential(nn.MultiheadAttention(4, 1)),
            r"layer 0 is MultiheadAttention; it multiplies its inputs .* covers",
        ),
        (nn.Sequential(linear(4, 3), nn.GELU("tanh")), r"layer 1 is GELU\(approximate='tanh'\)"),
        (nn.Sequential(linear(4, 3), nn.Softplus(2.0)), r"layer 1 is Softplus"),
        (
            nn.Sequential(linear(4, 3), Residual(linear(3, 1))),
            "residual block that ends with layer 1.0 takes 3 .* gives 1",
        ),
        (nn.Sequential(linear(4, 3), Residual(nn.Flatten())), "layer 1 is a Residual without a Linear layer"),
        (nn.Sequential(nn.Tanh()), "the network Sequential has no Linear layer"),
        (nn.Sequential(linear(4, 3), linear(2, 1)), r"layer 1 takes 2 numbers; layer 0 gives 3"),
        (nn.Sequential(nn.Flatten()), "the network Sequential has no Linear layer"),
        (nn.Sequential(linear(5, 1)), "the network takes 5 features; data has 4"),
        (nn.Sequential(linear(4, 2)), "the network has 2 outputs; data has 1 label a sample"),
        (nn.Sequential(nn.Flatten(0), linear(4, 1)), r"layer 0 is Flatten\(start_dim=0"),
        (linear(4, 1), "network is a Linear; it must be a torch Sequential"),
        (lambda p, x: x, "params have no array; give the function's parameters"),
        (nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(1, 2), linear(4, 1)), "layer 2 must follow a Flatten"),
        (nn.Sequential(conv(1, 2), nn.Flatten(), linear(8, 1)), r"layer 0 takes images: put Unflatten\(1, "),
        (nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(2, 2)), "layer 1 takes 2 channels; it gets 1"),
        (
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(1, 2), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()),
            r"layer 3 is MaxPool2d\(kernel_size=2.*; a maximum has a kink wherever two of its pixels are equal; ",
        ),
        (
            nn.Sequential(linear(4, 4), nn.MaxPool1d(2)),
            r"layer 1 is MaxPool1d.* a maximum has",
        ),
        (
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(1, 2, padding=0)),
            r"layer 1 is Conv2d.*Conv2d with an odd kernel and padding of half of it",
        ),
        (nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(1, 2, stride=(1, 2))), r"layer 1 is Conv2d"),
        (
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(1, 1)),
            "layer 1 is a convolution; the last layer must be a Li",
        ),
        (
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), Residual(conv(1, 1), nn.AdaptiveAvgPool2d(1)), nn.Flatten()),
            "layer 1 is a Residual that changes the shape of images",
        ),
        (
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), Residual(nn.Flatten(), linear(4, 4)), linear(4, 1)),
            "layer 1 is a Residual that changes the shape of images",
        ),
        (
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), conv(1, 2), nn.Flatten(), Residual(linear(8, 8)), linear(8, 1)),
            "layer 3.0 takes a flattened image within a Residual",
        ),
        (
            nn.Sequential(Residual(nn.Unflatten(1, (2, 1, 2)), conv(2, 2), nn.Flatten(), linear(4, 4)), linear(4, 1)),
            "layer 0.3 takes a flattened image within a Residual",
        ),
        (
            nn.Sequential(linear(4, 4), Residual(nn.Flatten(), nn.SiLU(inplace=True), linear(4, 4)), linear(4, 1)),
            r"layer 1.1 is SiLU\(inplace=True\), which overwrites what the Residual adds",
        ),
        (
            nn.Sequential(nn.SiLU(inplace=True), linear(4, 1)),
            "layer 0 is SiLU.*, which overwrites the data; take",
        ),
    ],
)
def test_a_network_that_is_not_covered_is_refused_by_name(network, why):
    params = {} if not isinstance(network, nn.Module) else None
    with pytest.raises(ValueError, match=why):
        certify_network(network, params, Problem(np.eye(4), np.zeros(4)))


@pytest.mark.parametrize("shape", [(3, 18), (3, 9, 2, 1), (3, 2, 9, 1), (2, 3, 3, 3), (3, 2, 3, 3, 1)])
def test_weights_of_a_convolution_with_as_many_numbers_in_another_shape_are_refused(shape):
    """Weights with as many numbers in another shape are refused.

    This holds for the convolution of a torch module, which has a fixed number of channels (here 2 at its input), and
    for the convolution of a network from `wide`, which may have any width.
    """
    layers = nn.Unflatten(1, (2, 4, 4)), nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net = nn.Sequential(*layers, nn.Linear(3, 1)).double()
    problem = Problem(np.random.default_rng(0).standard_normal((3, 32)), np.zeros(3))
    given = {name: value.detach() for name, value in net.named_parameters()}
    certify_network(net, given, problem)
    why = re.escape(f"the parameter '1.weight' has shape {shape}; the network's is (3, 2, 3, 3)")
    with pytest.raises(ValueError, match=why):
        certify_network(net, given | {"1.weight": given["1.weight"].reshape(shape)}, problem)
    free, images = wide("conv:3:erf"), Problem(np.eye(16)[:3], np.zeros(3))
    drawn = free.model((16,), 2).initial(0)
    certify_network(free, drawn, images)
    weight = drawn["layer2.weight"]  # Its shape is (2, 2, 3, 3).
    for other in (weight.reshape(2, 18), weight.reshape(2, 2, 9, 1), weight.reshape(1, 4, 3, 3)):
        why = re.escape(f"'layer2.weight' has shape {tuple(other.shape)}; the network's is (any, 2, 3, 3)")
        with pytest.raises(ValueError, match=why):
            certify_network(free, drawn | {"layer2.weight": other}, images)


@pytest.mark.parametrize("size", [1e120, 1e200, 1e308])
def test_weights_beyond_float64_are_refused(size):
    net = module(1)
    params = {name: size / 4 * value.detach().sign() for name, value in net.named_parameters()}
    why = f"outputs or gradients are beyond float64: data reach .*, the weights of layer 0 {size / 4:.3g}; rescale them"
    with pytest.raises(ValueError, match=re.escape(why).replace(r"\.\*", ".*")):
        certify_network(net, params, near(module(1), 4, CERTIFIED))


def test_another_error_of_the_pass_keeps_its_own_words(monkeypatch):
    """The message blames large weights only if the error is due to numbers beyond float64."""

    def fails(layers, x, norms):
        raise ValueError("the layers do not follow one another")

    monkeypatch.setattr("ntkfl.smooth_networks.certificate.passed", fails)
    with pytest.raises(ValueError, match="the layers do not follow one another"):
        certify_network(module(1), None, near(module(1), 4, CERTIFIED))


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
def test_hooks_on_all_modules_are_refused(kind):
    problem = near(module(1), 4, CERTIFIED)
    assert certify_network(module(1), None, problem).certified
    hook = getattr(nn.modules.module, f"register_module_{kind}")(lambda *_: None)
    try:
        with pytest.raises(ValueError, match="torch has hooks on all modules"):
            certify_network(module(1), None, problem)
    finally:
        hook.remove()


def _plain(self, x):
    return nn.functional.linear(x, self.weight, self.bias)


@pytest.mark.parametrize(
    ("forward", "what"),
    [
        (lambda self, x: _plain(self, x) * (1 + 1e-10), "outputs"),
        (lambda self, x: _plain(self.float(), x.float()).double(), "outputs"),
        (lambda self, x: nn.functional.linear(x, self.weight.detach(), self.bias), "gradients"),
        (lambda self, x: _plain(self, x.detach()), "gradients"),
        (lambda self, x: _plain(self, x.clamp(-1e-3, 1e-3)), "outputs"),
    ],
    ids=["longer", "float32", "weights fixed", "cut", "clamped"],
)
@pytest.mark.parametrize("readout", [None, 0.0, 1e300])
def test_a_forward_that_is_not_torchs_own_is_refused(forward, what, readout, monkeypatch):
    """A forward that is not torch's own is refused.

    It is refused even if the network's readout is zero, or if the true outputs overflow.
    """
    net, problem = module(1), near(module(1), 4, CERTIFIED)
    if readout is not None:
        nn.init.constant_(net[4].weight, readout)
        nn.init.constant_(net[2].weight, readout)
    monkeypatch.setattr(nn.Linear, "forward", forward)
    with pytest.raises(ValueError, match=r"of the network, computed by torch, are not those of its layers") as error:
        certify_network(net, None, problem)
    if readout is None:
        assert str(error.value).startswith(f"the {what} of")
    monkeypatch.undo()
    assert certify_network(module(1), None, problem).certified


def test_layers_of_a_class_derived_from_torchs_are_refused():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    class Backwards(nn.Sequential):
        def forward(self, x):
            return -super().forward(x)

    problem = Problem(np.eye(4), np.zeros(4))
    for net, why in (
        (nn.Sequential(Doubled(4, 3), nn.Tanh(), nn.Linear(3, 1)), "layer 0 is Doubled"),
        (Backwards(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), "layer network is Backwards"),
    ):
        with pytest.raises(ValueError, match=why):
            certify_network(net, None, problem)


def test_weights_that_do_not_fit_are_refused():
    net, problem = module(1), near(module(1), 4, CERTIFIED)
    given = {name: value.detach() for name, value in net.named_parameters()}
    tied = nn.Sequential(one := linear(4, 4), nn.Tanh(), one)
    half = module(1)
    half[0].bias.requires_grad_(False)
    fixed = module(1).requires_grad_(False)
    hooked = module(1)
    hooked[2].register_forward_hook(lambda *_: None)
    steered, shared, overlapping, patched, pulled, late = (module(1) for _ in range(6))
    steered[2].register_full_backward_hook(lambda *_: None)
    shared[2].bias.data = shared[0].bias.data
    overlapping[2].bias.data = overlapping[0].weight.data.reshape(-1)[1:31]
    late[2].bias.register_post_accumulate_grad_hook(lambda value: value.grad.zero_())
    patched[2].forward = lambda x: x
    pulled[0].weight.register_hook(lambda gradient: -gradient)
    for network, params, why in (
        (net, given | {"more": torch.zeros(1)}, "params have more, which the network has not"),
        (net, {name: value for name, value in given.items() if name != "2.bias"}, "params have no '2.bias'"),
        (net, given | {"0.bias": torch.full((30,), np.nan)}, re.escape("the parameter '0.bias'[0] is nan")),
        (net, given | {"0.bias": torch.zeros(1)}, r"'0.bias' has shape \(1,\); the network's is \(30,\)"),
        (net, given | {"0.bias": torch.zeros(1, 30)}, r"'0.bias' has shape \(1, 30\); the network's is \(30,\)"),
        (net, given | {"2.weight": torch.zeros(30)}, r"'2.weight' has shape \(30,\); the network's is \(30, 30\)"),
        (wide("fc:3:erf"), None, "params are missing"),
        (tied, None, "layer 2 has the weights of layer 0"),
        (half, None, "layer 0 trains its weight or its bias alone"),
        (fixed, None, "no layer of the network is trained"),
        (hooked, None, r"layer 2 \(Linear\) has hooks"),
        (steered, None, r"layer 2 \(Linear\) has hooks"),
        (patched, None, r"layer 2 \(Linear\) has a forward of its own"),
        (shared, None, "layer 2 has the weights of layer 0"),
        (overlapping, None, "layer 2 has the weights of layer 0"),
        (pulled, None, "a parameter of layer 0 has hooks"),
        (late, None, "a parameter of layer 2 has hooks"),
    ):
        with pytest.raises(ValueError, match=why):
            certify_network(network, params, problem)
    for options, why in (
        ({"visits": 0.5}, "visits is 0.5; it must be 1 or more"),
        ({"visits": np.inf}, "visits is inf; it must be 1 or more, and finite"),
        ({"visits": "two"}, "visits is 'two'; it must be a number"),
        ({"step": 0.0}, "step is 0.0"),
        ({"step": np.nan}, "step"),
        ({"step": "long"}, "step is 'long'; it must be a positive number, or None"),
        ({"step": True}, "step is True; it must be a positive number, or None"),
        ({"visits": True}, "visits is True; it must be a number"),
        ({"memory": "all"}, "memory is 'all'; it must be a number"),
    ):
        with pytest.raises(ValueError, match=why):
            certify_network(net, None, problem, **options)
    with pytest.raises(TooLittleMemory, match="the certificate of a smooth network takes"):
        certify_network(net, None, problem, memory=1e3)
    with pytest.raises(ValueError, match=r"x has shape \(1, 3\); it must be \(k, 4\)"):
        certify_network(net, None, problem).enclosure(np.ones((1, 3)))
