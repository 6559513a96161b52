"""Tests of exported certificates of smooth networks: the script that checks them agrees with other computations.

The script refuses files that were tampered with.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import arb, ctx
from small_networks import BALLS, hessians, jacobian, module, near, outputs, residual, trained
from torch import nn

from ntkfl import certify_network
from ntkfl.any_order.ntkfl_check import Refused
from ntkfl.smooth_networks import ntkfl_check_network as script
from ntkfl.smooth_networks.export import export_network
from ntkfl.smooth_networks.reading import layers_of

SLOPES = {
    "erf": lambda z: 2 / arb.pi().sqrt() * (-z * z).exp(),
    "gelu": lambda z: (1 + (z / arb(2).sqrt()).erf()) / 2 + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt(),
    "tanh": lambda z: 1 / z.cosh() ** 2,
    "softplus": lambda z: 1 / (1 + (-z).exp()),
    "sin": lambda z: z.cos(),
    "sigmoid": lambda z: 1 / (1 + (-z).exp()) / (1 + z.exp()),
    "silu": lambda z: (1 + z / (1 + z.exp())) / (1 + (-z).exp()),
}


@pytest.mark.parametrize("name", SLOPES)
def test_series_are_within_a_unit_of_balls(name):
    """Series agree with ball arithmetic up to one unit of the last place.

    The points are near 0, at the end of the range of an activation's series, at the end of the range of erf's series,
    and far out.
    """
    rng, before = np.random.default_rng(0), ctx.prec
    edge = [0.0, 1e-30, -1e-12, 9.4999, 9.5, -9.5001, 30.0, -99.0, 0.5, -1.0, 2.0**-5, 124.9, 125.1, -250.5, 1e9]
    points = [v for v in (*edge, *rng.normal(0, 4, 40)) if name != "sin" or abs(v) <= script.FAR]
    try:
        ctx.prec = 1500
        for z in points:
            for got, exact in zip(
                script.PHI[name][0](int(Fraction(z) * (1 << script.W))), (BALLS, SLOPES), strict=True
            ):
                shown = int(Fraction(z) * (1 << script.W))
                off = arb(got) / arb(2) ** script.W - exact[name](arb(shown) / arb(2) ** script.W)
                assert abs(off) < arb(2) ** -script.P, (z, off)
    finally:
        ctx.prec = before


def test_a_sine_of_a_large_number_is_refused():
    with pytest.raises(Refused, match="sine of a number beyond 100"):
        script.PHI["sin"][0](101 << script.W)


def test_norms_are_bounded_on_their_side_and_nearly_met():
    rng = np.random.default_rng(0)
    for size in (1, 3, 12):
        a = rng.standard_normal((size, size + 2))
        matrix = script.fixed([[int(v) for v in row] for row in np.rint(a * 2**40).tolist()], 40)
        top, least = np.linalg.norm(a, 2), np.linalg.eigvalsh(a @ a.T)[0]
        assert top * (1 - 1e-9) <= script.spectral(matrix) <= 1.01 * top
        assert 0.95 * least <= script.least_eigenvalue(script.matmul(matrix, matrix.turned())) <= least * (1 + 1e-9)
    with pytest.raises(Refused, match="smallest eigenvalue of J J' is not known to be positive"):
        script.least_eigenvalue(script.fixed([[1, 1], [1, 1]], 0))


def relu():
    return module(2, 1, nn.ReLU, 20)


def frozen():
    net = module(1)
    net[4].requires_grad_(False)
    return net


NETWORKS = {
    "tanh": (module, 4),
    "gelu, two outputs": (lambda: module(1, 2, nn.GELU), 3),
    "blocks, softplus": (lambda: residual(1, 12), 3),
    "relu": (relu, 3),
    "frozen readout": (frozen, 4),
}


def certified(name, visits=1.0, width=0.9):
    make, n = NETWORKS[name]
    net = make()
    far = certify_network(net, None, near(net, n, 1.0), visits=visits)
    problem = near(net, n, width * far.needed_residual)
    return net, certify_network(net, None, problem, visits=visits)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("name", "visits"),
    [
        ("tanh", 1.0),
        ("blocks, softplus", 1.0),
        ("relu", 1.0),
        pytest.param("gelu, two outputs", 1.0, marks=pytest.mark.slow),
        pytest.param("frozen readout", 1.0, marks=pytest.mark.slow),
        pytest.param("tanh", 2.5, marks=pytest.mark.slow),
    ],
)
def test_the_script_shows_what_is_certified(name, visits, tmp_path):
    """The script's numbers agree with the certificate to one or two hundredths.

    The intermediate numbers of the script agree with values that torch computes, or bound them.
    """
    net, certificate = certified(name, visits)
    assert certificate.certified
    probes = np.random.default_rng(1).standard_normal((12, 4))
    shown = export_network(certificate, tmp_path / "out", probes)
    assert shown["distance"] == pytest.approx(certificate.distance, rel=0.01)
    assert shown["reach"] == pytest.approx(certificate.reach, rel=0.02)
    assert 1 - shown["window_factor"] == pytest.approx(1 - certificate.window_factor, rel=0.02)
    assert shown["eigenvalue"] <= certificate.smallest_eigenvalue.hi
    assert shown["final"] == certificate.final(probes).tolist()

    content, read, x, y, _ = script.loaded(tmp_path / "out")
    start, ball, layers = script.started(read, x, y, content), Fraction(content["ball"]), layers_of(net, None)
    theta, rows = trained(layers), certificate.problem.x
    j = jacobian(layers, theta, rows).numpy()
    kernel = script.kernel(read, script.passes(read, x))
    np.testing.assert_allclose(np.array(kernel.rows, float) / 2.0**script.P, j @ j.T, rtol=1e-11, atol=1e-12)
    assert kernel.error < 2**20
    own = certificate.start.curvature
    separate = [float(script.curvature(read, group, ball)) for group in start.groups]
    np.testing.assert_allclose(separate, own.of_each(float(ball)), rtol=0.02)
    norms = torch.linalg.matrix_norm(hessians(layers, theta, rows), 2).numpy()
    assert (norms <= np.array(separate)).all()
    assert float(script.curvature(read, start.all, ball)) >= 0.98 * own.of_all(float(ball))
    off = certificate.problem.y.ravel() - outputs(layers, theta, rows).numpy()
    assert float(start.residual) == pytest.approx(float(np.linalg.norm(off)), rel=1e-9)
    with pytest.raises(Refused):
        script.window(start, ball * 10**4, Fraction(content["step"]), Fraction(visits))
    with pytest.raises(Refused, match="models may leave the ball"):
        script.window(start, ball / 3, Fraction(content["step"]), Fraction(visits))


def run(folder):
    done = subprocess.run(
        [sys.executable, "-I", "-S", folder / "ntkfl_check_network.py", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a small export, and one of another network of the same shapes."""
    folders = []
    for seed in (0, 1):
        net = module(seed, 2, nn.Tanh, 5, 3)
        far = certify_network(net, None, near(net, 2, 1.0, features=3))
        certificate = certify_network(net, None, near(net, 2, 0.9 * far.needed_residual, features=3))
        folder = tmp_path_factory.mktemp("network") / "out"
        export_network(certificate, folder, np.random.default_rng(0).standard_normal((4, 3)))
        folders.append(folder)
    return folders


def test_the_folder_needs_nothing_but_python(exported, tmp_path):
    shutil.copytree(exported[0], tmp_path / "out")
    assert run(tmp_path / "out") == (0, "certified")
    content = json.loads((tmp_path / "out" / "certificate.json").read_text())
    content["claim"]["distance"] /= 2
    (tmp_path / "out" / "certificate.json").write_text(json.dumps(content))
    status, last = run(tmp_path / "out")
    assert status == 1 and last.startswith("refused: the claim is not what is shown, {'loss'")


def tampered(folders, rng):
    """Yields changed files: the name, the new bytes, and whether the checksum is renewed.

    Bits are flipped, or numbers are scaled or taken from the other network.
    """
    arrays = sorted(path.name for path in folders[0].glob("*.f64"))
    for k in range(60):
        name = arrays[k % len(arrays)]
        values = bytearray((folders[0] / name).read_bytes())
        values[rng.integers(len(values))] ^= 1 << int(rng.integers(8))
        yield name, bytes(values), False
    for name in arrays:
        values = np.frombuffer((folders[0] / name).read_bytes(), "<f8")
        other = (folders[1] / name).read_bytes()
        if name != "x_test.f64":
            if other != values.tobytes():
                yield name, other, True
            yield name, (values * 1.001).tobytes(), True
        for bad in (other[:-8], other + bytes(8), b"", np.full(len(values), np.nan).tobytes()):
            yield name, bad, name != "x_test.f64" or bad != b""


def places(content, path=()):
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


BENIGN = {"name"}  # The name of a layer occurs in messages only.


@pytest.mark.slow  # slow, because it makes hundreds of checks; a quick test is in test_export_losses
def test_whatever_is_changed_is_refused_in_a_line(exported, tmp_path, capsys):
    folder, rng, count = tmp_path / "out", np.random.default_rng(0), 0
    shutil.copytree(exported[0], folder)
    original = (folder / "certificate.json").read_text()
    assert script.main([str(folder)]) == 0

    def refused(what):
        nonlocal count
        capsys.readouterr()
        assert script.main([str(folder)]) == 1, what
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 1 and lines[0].startswith("refused: "), what
        count += 1

    for name, values, checked in tampered(exported, rng):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(values)
        if checked:
            content = json.loads(original)
            content["sha256"][name[:-4]] = hashlib.sha256(values).hexdigest()
            (folder / "certificate.json").write_text(json.dumps(content))
        refused((name, checked))
        (folder / name).write_bytes(before)
        (folder / "certificate.json").write_text(original)
    for path in places(json.loads(original)):
        if path[-1] in BENIGN:
            continue
        for value in (None, -1, [], {}, "z", 1e308, 0.3, 10**4000, True):
            content = json.loads(original)
            inner = content
            for key in path[:-1]:
                inner = inner[key]
            if inner[path[-1]] == value:  # 1.0 equals True
                continue
            inner[path[-1]] = value
            sys.set_int_max_str_digits(0)
            (folder / "certificate.json").write_text(json.dumps(content))
            sys.set_int_max_str_digits(4300)
            refused((path, str(value)[:9]))
    for raw in (b"", b"\xff\xfe", b"[" * 100_000, b"[1]", b'{"schema": NaN}'):
        (folder / "certificate.json").write_bytes(raw)
        refused(raw[:9])
    assert count > 400


@pytest.mark.parametrize("name", [*script.FIELDS, *script.LAYER_FIELDS])
def test_a_field_that_is_not_there_or_of_another_type_is_named(name, exported, tmp_path, capsys):
    shutil.copytree(exported[0], tmp_path / "out")
    path = tmp_path / "out" / "certificate.json"
    original = path.read_text()
    for is_there in (True, False):
        content = json.loads(original)
        fields = content if name in script.FIELDS else content["layers"][0]
        fields[name] = {} if isinstance(fields[name], list) else [True]
        if not is_there:
            del fields[name]
        path.write_text(json.dumps(content))
        assert script.main([str(path.parent)]) == 1
        assert f"certificate.json: {name} is no " in capsys.readouterr().out


def test_a_layers_name_can_neither_break_nor_forge_the_answer(exported, tmp_path):
    """A layer's name can neither break nor forge the answer.

    A lone surrogate in a message cannot be printed, and a terminal's escapes hide the text beside them.
    """
    shutil.copytree(exported[0], tmp_path / "out")
    path = tmp_path / "out" / "certificate.json"
    content = json.loads(path.read_text())
    content["layers"][0]["closes"] = 1
    for name in ("\ud800", "\x1b[2K\rx\ncertified\x1b[8m", "\u2028certified", "x" * 10**5):
        content["layers"][0]["name"] = name
        path.write_text(json.dumps(content))
        done = subprocess.run(
            [sys.executable, tmp_path / "out" / "ntkfl_check_network.py", tmp_path / "out"],
            capture_output=True,
            check=False,
        )
        lines = done.stdout.decode().splitlines()
        assert done.returncode == 1 and not done.stderr and len(lines) == 1 and len(lines[0]) < 200
        assert lines[0].startswith("refused: no block may end with layer '") and lines[0].isprintable()


def test_the_factor_is_printed_for_the_step_without_means(exported, capsys):
    """The printed factor is only for windows without means, so that p = 1, and with exactly the printed step eta'.

    The proof has the factor 1 - p eta' (alpha - beta). In a window, which is a sequence of rounds, every model that
    makes steps has at least the weight p in the means.
    """
    _, net, x, y, _ = script.loaded(exported[0])
    content = json.loads((exported[0] / "certificate.json").read_text())
    ball, step = Fraction(content["ball"]), Fraction(content["step"])
    factors = [
        script.window(script.started(net, x, y, content), ball, step / part, Fraction(1))[2] for part in (1, 100)
    ]
    assert factors[0] < factors[1] < 1
    assert script.main([str(exported[0])]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "a window at that step without means multiplies the squared distance to the fits by at most 0.9" in printed


def test_modules_beside_the_scripts_are_imported_but_by_python_alone(exported, tmp_path):
    """A module beside the script is imported by plain `python`, and not by `python -I`.

    Therefore the page checks other people's folders by a script elsewhere and by `python -I`.
    """
    shutil.copytree(exported[0], tmp_path / "out")
    own = tmp_path / "own"
    own.mkdir()
    for name in ("ntkfl_check.py", "ntkfl_check_network.py"):
        shutil.copy(tmp_path / "out" / name, own)
    content = json.loads((tmp_path / "out" / "certificate.json").read_text())
    content["claim"]["distance"] /= 2
    (tmp_path / "out" / "certificate.json").write_text(json.dumps(content))
    (tmp_path / "out" / "fractions.py").write_text("print('certified')\nraise SystemExit(0)\n")
    answers = [
        subprocess.run(
            [sys.executable, *flags, at / "ntkfl_check_network.py", tmp_path / "out"], capture_output=True, check=False
        )
        for at, flags in ((tmp_path / "out", ()), (own, ()), (tmp_path / "out", ("-I",)))
    ]
    assert [answer.returncode for answer in answers] == [0, 1, 1]
    assert answers[2].stdout == answers[1].stdout
    assert answers[1].stdout.startswith(b"refused: the claim is not what is shown")


def test_what_is_not_exported_says_why(tmp_path):
    net = module(1)
    far = certify_network(net, None, near(net, 4, 1.0))
    with pytest.raises(ValueError, match="the certificate does not hold, and nothing is exported: "):
        export_network(far, tmp_path / "a")
    images = nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 9, 1), nn.Tanh(), nn.Flatten(), nn.Linear(36, 1)
    ).double()
    needed = certify_network(images, None, near(images, 2, 1.0)).needed_residual
    small = certify_network(images, None, near(images, 2, 0.5 * needed))
    assert small.certified
    with pytest.raises(ValueError, match=r"layer 1 is a convolution; the script .* cannot check it"):
        export_network(small, tmp_path / "a")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    _, certificate = certified("tanh")
    with pytest.raises(FileExistsError, match=re.escape("is there and not empty")):
        export_network(certificate, tmp_path / "a")
    with pytest.raises(ValueError, match="x_test"):
        export_network(certificate, tmp_path / "b", np.full((1, 4), np.nan))
