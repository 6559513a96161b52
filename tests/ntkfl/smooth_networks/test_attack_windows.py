"""The adversary of windows: it finds nothing against a certificate, and does where one claims too much."""

from dataclasses import replace

import numpy as np
import pytest
from attack_windows import Run, sharpness, small


def worst(layers, problem, certificate, windows=40):
    run = Run(layers, problem, certificate, np.random.default_rng(0))
    run.windows(windows)
    assert run.worst.windows >= windows
    return run.worst


@pytest.mark.parametrize("seed", [1, 4])
def test_claims_that_are_too_large_are_broken(seed):
    layers, problem, certificate = small(seed)
    window = certificate.window
    honest = worst(layers, problem, certificate)
    assert 0 < max(honest.fall, honest.factor, honest.distance, honest.reach, honest.outputs) < 1
    for too_much, claim in (
        ({"distance": window.distance / 2}, "distance"),
        ({"reach": window.reach * honest.reach / 2}, "reach"),
        ({"gain": 10 * window.gain}, "factor"),
        ({"reach": window.reach * honest.outputs / 3}, "outputs"),
    ):
        broken = worst(layers, problem, replace(certificate, window=replace(window, **too_much)))
        assert getattr(broken, claim) > 1, claim


def test_bounds_of_second_derivatives_are_at_least_the_largest_that_are_met():
    layers, problem, certificate = small(4)
    assert 1 <= sharpness(layers, problem.x, certificate, 2) < 3
    curvature = certificate.start.curvature
    rows = {name: [size / 10 for size in getattr(curvature.alone, name)] for name in ("before", "after")}
    bent = replace(curvature, alone=replace(curvature.alone, **rows))
    with pytest.raises(AssertionError):
        sharpness(layers, problem.x, replace(certificate, start=replace(certificate.start, curvature=bent)), 2)
