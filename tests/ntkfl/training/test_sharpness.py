"""Tests of sharpness-aware gradients: the size and the limits of the perturbation.

The limits of FedSAM and FedASAM are tested too.
"""

import numpy as np
import pytest
import torch
from tiny_federations import models, on_classes
from torch.func import vmap

from ntkfl.training.method import plain_gradient
from ntkfl.training.methods import build
from ntkfl.training.methods.fed_sam import SharpnessAware
from ntkfl.training.objectives import CrossEntropy

pytestmark = pytest.mark.method("fedsam", "fedasam")


def drawn(seed, rows=()):
    rng = np.random.default_rng(seed)
    shapes = {"body.weight": (3, 4), "body.bias": (3,), "head.weight": (2, 3)}
    return {name: torch.tensor(rng.standard_normal((*rows, *shape))) for name, shape in shapes.items()}


def squared(tree):
    return sum(float((value**2).sum()) for value in tree.values())


@pytest.mark.parametrize("method", ["fedsam", "fedasam"])
def test_with_radius_0_they_are_fed_avg(method):
    run = on_classes(method, options={"rho": 0.0}, participation=0.6)
    assert np.abs(models(run, 2) - models(on_classes(participation=0.6), 2)).max() < 1e-14


def test_the_perturbation_of_sam_has_norm_rho_for_each_client():
    gradients = {
        name: value * torch.tensor([1e-6, 1.0, 1e6]).reshape(3, *(1,) * (value.ndim - 1))
        for name, value in drawn(0, (3,)).items()
    }
    perturbation = vmap(SharpnessAware(0.3).perturbation)(gradients, drawn(1, (3,)))
    for client in range(3):
        e, g = ({name: value[client] for name, value in tree.items()} for tree in (perturbation, gradients))
        assert abs(squared(e) ** 0.5 - 0.3) < 1e-14
        inner = sum(float((e[name] * g[name]).sum()) for name in e)
        assert abs(inner / (0.3 * squared(g) ** 0.5) - 1) < 1e-14  # The perturbation is along the gradient.


def test_a_gradient_that_is_not_cleared_is_added():
    w, centre = drawn(1), drawn(2)

    def loss(at):
        return sum(((at[name] - centre[name]) ** 4).sum() for name in at)

    cleared, value = SharpnessAware(0.3)(loss, w)
    uncleared, same = SharpnessAware(0.3, uncleared=True)(loss, w)
    here = {name: 4 * (w[name] - centre[name]) ** 3 for name in w}
    assert all((uncleared[name] - cleared[name] - here[name]).abs().max() < 1e-12 for name in w) and value == same


def test_asam_scales_with_the_weights_but_not_with_biases():
    w, g, (rho, eta) = drawn(1), drawn(2), (0.7, 0.2)
    e = SharpnessAware(rho, eta).perturbation(g, w)
    scale = {name: value.abs() + eta if "weight" in name else torch.ones_like(value) for name, value in w.items()}
    norm = squared({name: scale[name] * g[name] for name in w}) ** 0.5
    assert all((e[name] - rho * scale[name] ** 2 * g[name] / norm).abs().max() < 1e-14 for name in w)


@pytest.mark.parametrize("c", [0.5, 3.0])
def test_asam_at_weights_of_one_size_is_sam_of_another_radius(c):
    g = {name: value for name, value in drawn(0).items() if "weight" in name}
    w = {name: (c - 0.2) * torch.sign(value) for name, value in drawn(1).items() if "weight" in name}
    adaptive, plain = SharpnessAware(0.4, 0.2).perturbation(g, w), SharpnessAware(0.4 * c).perturbation(g, w)
    assert all((adaptive[name] - plain[name]).abs().max() < 1e-14 for name in g)


@pytest.mark.parametrize("rule", [SharpnessAware(0.5), SharpnessAware(0.5, 0.2), SharpnessAware(0.5, 0.0)])
@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_0_or_nearly_give_no_nan(rule, size, dtype):
    w = {name: value.to(dtype) for name, value in drawn(0).items()}
    gradient, _ = rule(lambda v: sum((size * value).sum() + value.square().sum() * 0 for value in v.values()), w)
    assert all(torch.isfinite(value).all() and (value - size).abs().max() <= 1e-6 * size for value in gradient.values())


def test_on_a_quadratic_it_is_the_gradient_at_the_perturbed_point_and_the_value_at_the_weights():
    rng = np.random.default_rng(3)
    hessian = torch.tensor(np.cov(rng.standard_normal((4, 9))))
    w = torch.tensor(rng.standard_normal(4))
    gradient, value = SharpnessAware(0.3)(lambda v: v["w"] @ hessian @ v["w"] / 2, {"w": w})
    g = hessian @ w
    assert (gradient["w"] - hessian @ (w + 0.3 * g / g.norm())).abs().max() < 1e-14
    assert abs(value - w @ hessian @ w / 2) < 1e-14


def test_with_radius_0_it_is_the_gradient():
    w = drawn(0)
    steps, expected = (
        rule(lambda v: sum((value**4).sum() for value in v.values()), w)
        for rule in (SharpnessAware(0.0, 0.2), plain_gradient)
    )
    assert all(torch.equal(steps[0][name], expected[0][name]) for name in w)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="rho, the radius of the perturbation, is -1; it must be 0 or more"):
        build("fedsam", CrossEntropy(), rho=-1.0)
    with pytest.raises(ValueError, match=r"eta, added to the size of the weights, is -0\.5; it must be 0 or more"):
        build("fedasam", CrossEntropy(), eta=-0.5)
