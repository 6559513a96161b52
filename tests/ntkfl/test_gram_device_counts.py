"""Tests of counts on JAX devices: they equal the processor's counts on any number of devices.

This holds even if rounding on the devices leaves signs undecided.
"""

import json
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.gram import activations, device_counts, initial
from ntkfl.gram.device_counts import summed_on_devices
from ntkfl.gram.patterns import unit_product_error, unit_rows
from ntkfl.rounding import scaled_rows


def counted(x, u, size=100):
    """Returns the counts by the first device, in pieces of this size."""
    pieces = (u[start : start + size] for start in range(0, len(u), size))
    return summed_on_devices(x, pieces, jax.devices()[:1])


def exact(x, u):
    active = activations(x, u).astype(np.int64)
    return active @ active.T


def passed_on(monkeypatch):
    """Returns a list that collects, in order, the neurons whose signs the devices leave to the processor."""
    rows = []

    def noted(x, u):
        rows.extend(u)
        return activations(x, u)

    monkeypatch.setattr(device_counts, "activations", noted)
    return rows


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 4]),  # There are few shapes, since each shape is compiled.
    m=st.sampled_from([1, 7, 64]),
    d=st.sampled_from([1, 3]),
    ties=st.booleans(),
    scale=st.sampled_from([1.0, 1e-200, 1e150]),
)
def test_counts_are_those_of_the_exact_patterns(seed, n, m, d, ties, scale):
    rng = np.random.default_rng(seed)
    x, u = (rng.integers(-2, 3, (k, d)).astype(float) if ties else rng.normal(size=(k, d)) for k in (n, m))
    x[~x.any(axis=1), 0] = 1.0
    counts = counted(x * scale, u / scale, 5)
    assert counts.dtype == np.int64
    assert np.array_equal(counts, exact(x, u))


@pytest.mark.parametrize("d", [5, 3000])
def test_signs_that_float64_gets_wrong_are_those_of_the_processor_and_no_others(d, monkeypatch):
    rng, rows = np.random.default_rng(1), passed_on(monkeypatch)
    x, u = rng.normal(size=(6, d)), rng.normal(size=(300, d))
    x[3], towards = x[1], x[0] / np.linalg.norm(x[0])
    for _ in range(2):
        u -= np.outer(u @ towards, towards)  # The neurons become orthogonal to the first sample, up to rounding.
    # Every second neuron is moved off the hyperplane, to either side, by more than `unit_product_error`.
    least = 20 * unit_product_error(d, np.float64) * np.linalg.norm(u[1::2], axis=1)
    u[1::2] += np.outer(least * rng.choice([-1, 1], len(least)), towards)
    unit, of_neurons = unit_rows(scaled_rows(x), np.float64), unit_rows(scaled_rows(u), np.float64)
    assert ((unit @ of_neurons.T >= 0) != activations(x, u))[0, ::2].any()
    assert np.array_equal(counted(x, u), exact(x, u))
    assert np.array_equal(np.array(rows), u[::2])


@pytest.mark.parametrize("d", [2, 7, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_within_their_doubt_which_is_of_their_size(d, dtype):
    rng = np.random.default_rng(d)
    x, u = (scaled_rows(rng.random((200, d))) for _ in range(2))
    longer = [rows.astype(np.longdouble) / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, u)]
    off = np.abs((unit_rows(x, dtype) @ unit_rows(u, dtype).T).astype(np.longdouble) - longer[0] @ longer[1].T).max()
    assert unit_product_error(d, dtype).dtype == dtype
    assert unit_product_error(d, dtype) / 50 < off <= unit_product_error(d, dtype)


@pytest.mark.slow  # The test counts more than 2^24 neurons.
def test_a_count_that_neither_eight_bits_nor_float32_hold():
    width = 2**24 + 3
    assert summed_on_devices(np.ones((1, 1)), [np.ones((width, 1))], jax.devices()[:1]).item() == width


def test_only_integers_are_summed():
    shapes = [jax.ShapeDtypeStruct(shape, float) for shape in ((3, 2), (9, 2), ())]
    text = str(jax.make_jaxpr(device_counts._counted)(*shapes, jax.ShapeDtypeStruct((3, 3), int)))
    (line,) = (line for line in text.splitlines() if "dot_general" in line and "i32[3,3]" in line)
    assert "preferred_element_type=int32" in text[text.index(line) :]
    assert "i8[3,9]" in text


@pytest.mark.parametrize(("width", "block"), [(1, 1), (3 * 1024 + 5, 1), (3 * 1024 + 5, 2)])
def test_the_initial_gram_is_bit_for_bit_that_of_the_processor(width, block):
    x = np.random.default_rng(1).normal(size=(7, 4))
    assert np.array_equal(initial(x, width, 77, block=block, devices=jax.devices()[:1]), initial(x, width, 77))


def test_a_tpu_is_refused():
    with pytest.raises(ValueError, match="is a TPU, whose float64 has no known error bound; exact counts need CPUs or"):
        initial(np.eye(2), 5, 0, devices=[SimpleNamespace(platform="tpu")])


ON_DEVICES = """
import json, sys
import jax, numpy as np
from ntkfl.gram import device_counts, initial
assert len(jax.devices()) == 4
made, used = device_counts._counted, []
def noted(*arguments):
    total, unsure = made(*arguments)
    used.append(sorted(device.id for device in total.devices()))
    return total, unsure
device_counts._counted = noted
x = np.random.default_rng(0).normal(size=(9, 3))
alone, found = initial(x, 9000, 5), []
for devices in (jax.devices()[1:3], jax.devices(), jax.devices()[:1]):
    used.clear()
    same = np.array_equal(initial(x, 9000, 5, block=1, devices=devices), alone)
    found.append([same, sum(used, []), [device.id for device in devices]])
json.dump(found, sys.stdout)
"""


@pytest.mark.slow  # The test starts a process with four devices.
def test_several_devices_take_pieces_in_turn_and_give_the_same():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", ON_DEVICES], env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for same, used, devices in json.loads(done.stdout):
        assert same
        assert used == [devices[k % len(devices)] for k in range(9)]  # There are nine pieces of 1024 neurons or fewer.
