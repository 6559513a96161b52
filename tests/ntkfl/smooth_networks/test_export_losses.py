"""Tests of exported certificates under hinge, band and Huber's loss, and of the script that checks them.

The script agrees with true certificates and refuses false claims. A pull is the negative slope of the loss in an
output; 0 means that nothing trains the output.
"""

import hashlib
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from small_networks import module

from ntkfl import Problem, certify_network
from ntkfl.any_order.ntkfl_check import Refused
from ntkfl.limit.convex_loss import HINGE, band, huber, loss_of
from ntkfl.smooth_networks import ntkfl_check_network as script
from ntkfl.smooth_networks.export import export_network
from ntkfl.smooth_networks.window import Failed, Window, inequalities

LOSSES = {"hinge": HINGE, "band": band(0.15), "huber": huber(0.123456789)}
# the share by which the script's number may differ from the certificate's
FIT = {"window_factor": 0.02, "distance": 0.01, "reach": 0.02}


def case(kind, outputs, fixed, pull=3e-5, samples=4):
    """Returns a network and data with pulls up to this size; the last sample has a pull only under Huber's loss."""
    net, rng = module(3, outputs, width=24), np.random.default_rng(5)
    x = rng.standard_normal((samples, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    signs = np.sign(rng.standard_normal((samples, outputs)))
    off = signs * pull * rng.uniform(0.2, 1, signs.shape)
    # For the hinge loss these outputs miss their margins by |off|, and the last sample's outputs are beyond their
    # margins.
    wanted = np.append(signs[:-1] - off[:-1], 1.5 * signs[-1:], 0)
    with torch.no_grad():  # The last layer is changed to give these outputs.
        columns = np.hstack([net[:-1](torch.tensor(x)).numpy(), np.ones((samples, 1))])
        change = torch.tensor(np.linalg.lstsq(columns, wanted - net(torch.tensor(x)).numpy(), rcond=None)[0])
        net[-1].weight += change[:-1].T
        net[-1].bias += change[-1]
        f = net(torch.tensor(x)).numpy()
    if fixed:
        net[-1].requires_grad_(False)
    inside = np.append(f[:-1] + off[:-1] + 0.15 * signs[:-1], f[-1:] + 0.05, 0)
    y = {"hinge": signs, "band": inside, "huber": f + off}[kind]
    return net, Problem(x, y[:, 0] if outputs == 1 else y)


CASES = [(kind, outputs, fixed) for kind in LOSSES for outputs in (1, 2) for fixed in (False, True)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns for each case the certificate and the folder of its export."""
    made = {}
    for kind, outputs, fixed in CASES:
        net, problem = case(kind, outputs, fixed)
        certificate = certify_network(net, None, problem, loss=LOSSES[kind])
        assert certificate.certified, certificate.why
        folder = tmp_path_factory.mktemp("losses") / "out"
        export_network(certificate, folder, np.random.default_rng(1).standard_normal((5, 4)))
        made[kind, outputs, fixed] = certificate, folder
    return made


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("which", CASES)
def test_the_script_shows_what_is_certified(which, exported):
    certificate, folder = exported[which]
    shown = script.check(folder)
    for name, rel in FIT.items():
        assert shown[name] == pytest.approx(getattr(certificate, name), rel=rel)
    assert shown["kept"] == certificate.kept.tolist() == list(range(3 if which[0] != "huber" else 4))
    assert loss_of(":".join([shown["loss"], *([str(shown["size"])] if shown["size"] else [])])).name == (
        certificate.loss.name
    )
    assert shown["samples"] == 4 and shown["eigenvalue"] <= certificate.smallest_eigenvalue.hi
    assert shown["final"] == certificate.final(np.random.default_rng(1).standard_normal((5, 4))).tolist()
    content, net, x, y, _ = script.loaded(folder)
    start = script.started(net, x, y, content)
    assert start.intervals == (which[0] != "huber")
    f = np.array(script.passes(net, x).outputs.rows, float).reshape(4, -1) / 2.0**script.P
    slope = certificate.loss.slope(f, certificate.problem.y.reshape(4, -1))[shown["kept"]]
    assert float(start.residual) == pytest.approx(np.linalg.norm(slope), rel=1e-9)


@pytest.mark.parametrize("kind", ["hinge", "huber"])
def test_the_inequalities_are_those_in_balls(kind, exported):
    """The script's inequalities are those of the certificate, which are computed in ball arithmetic.

    Both are compared for many steps, residuals and numbers of uses of a sample. Verdicts differ only near the limit,
    and the script's numbers are 0-2% above the certificate's.
    """
    certificate, folder = exported[kind, 1, False]
    content, net, x, y, _ = script.loaded(folder)
    start, outcomes = script.started(net, x, y, content), []
    known, rng = certificate.start, np.random.default_rng(0)
    for _ in range(80):
        rho = Fraction(content["ball"]) * Fraction(2.0 ** rng.uniform(-1, 5))
        residual, step = float(start.residual) * 2 ** rng.uniform(-2, 6), content["step"] * 2 ** rng.uniform(-3, 1)
        visits = float(rng.choice([1, 2, 7]))
        separate, together = known.curvature.of_both(float(rho))
        balls = inequalities(
            known, float(np.linalg.norm(separate)), together, residual, float(step), visits, float(rho)
        )
        try:
            shown = script.window(start._replace(residual=Fraction(residual)), rho, Fraction(step), Fraction(visits))
        except Refused:
            outcomes.append("refused")
            assert isinstance(balls, Failed) or balls.reach > 0.9 * float(rho) or balls.alpha < 1.1 * balls.beta
            continue
        outcomes.append("shown")
        assert isinstance(balls, Window)
        factor = 1 - float(step) * (balls.alpha - balls.beta)
        for ours, theirs in zip(map(float, shown), (balls.distance, balls.reach, factor), strict=True):
            assert theirs * (1 - 1e-6) <= ours <= theirs * 1.02
    assert min(outcomes.count("shown"), outcomes.count("refused")) > 10


def changed(folder, content=None, **arrays):
    """Replaces entries of the JSON and arrays, and renews the arrays' checksums."""
    path = folder / "certificate.json"
    entries = json.loads(path.read_text()) | (content or {})
    for name, values in arrays.items():
        raw = np.ascontiguousarray(values, "<f8").tobytes()
        (folder / f"{name}.f64").write_bytes(raw)
        entries["sha256"][name] = hashlib.sha256(raw).hexdigest()
    path.write_text(json.dumps(entries))


def answer(folder, capsys):
    capsys.readouterr()
    status = script.main([str(folder)])
    return status, capsys.readouterr().out.splitlines()


def tampered(kind, certificate, folder):
    """Yields changes that make another claim or other data, each with the answer that the script must give."""
    content = json.loads((folder / "certificate.json").read_text())
    x, y, kept = certificate.problem.x, certificate.problem.y, content["kept"]
    labels = y.reshape(len(y), -1)
    for other in {"squares", "hinge", "huber", "band"} - {kind}:
        for size in (0.0, 0.15, content["size"]):
            yield {"loss": other, "size": size}, {}, ""
    for size in (0, -0.1, 0.9 * content["size"] + 1e-9, 2 * content["size"] + 1, 1e308):
        if size != content["size"]:
            yield {"size": size}, {}, ""
    for i in range(len(y)):
        rest = [k - (k > i) for k in kept if k != i]
        yield {"kept": rest}, {"x": np.delete(x, i, 0), "y": np.delete(labels, i, 0)}, ""
        if i in kept:
            yield {"kept": [k for k in kept if k != i]}, {}, "keeps all" if kind == "huber" else f"sample {i} may leave"
        else:
            yield {"kept": sorted([*kept, i])}, {}, ""
        for k in range(labels.shape[1]):
            flipped = labels.copy()
            flipped[i, k] *= -1
            yield {}, {"y": flipped}, ""
        moved = labels.copy()
        moved[i] *= 1.5
        yield {}, {"y": moved}, "a label of the hinge is not" if kind == "hinge" else ""
    for wrong in ([], [0, 0, *kept], kept[::-1], [*kept, 99], [-1, *kept], [0.0, *kept[1:]], [[0]], ["0"]):
        yield {"kept": wrong}, {}, "are not numbers of samples" if wrong else ""
    for key in ("loss", "size", "kept", "samples"):
        for value in (None, "band", 3, 0.5, [0], True, {}):
            if value != content["claim"][key]:
                yield {"claim": content["claim"] | {key: value}}, {}, "the claim is not what is shown"


@pytest.mark.parametrize(
    "which",
    [
        ("hinge", 1, False),
        pytest.param(("band", 2, False), marks=pytest.mark.slow),
        pytest.param(("huber", 2, True), marks=pytest.mark.slow),
    ],
)
def test_whatever_is_changed_is_refused(which, exported, tmp_path, capsys):
    certificate, folder = exported[which]
    shutil.copytree(folder, tmp_path / "original")
    assert answer(tmp_path / "original", capsys)[1][-1] == "certified"
    true = 0
    for at, (content, arrays, why) in enumerate(tampered(which[0], certificate, folder)):
        shutil.copytree(folder, tmp_path / str(at))
        changed(tmp_path / str(at), content, **arrays)
        status, lines = answer(tmp_path / str(at), capsys)
        assert status == 1 and len(lines) == 1 and lines[0].startswith("refused: ") and why in lines[0], content
        if "claim" not in content:  # If the claim names the changed loss and samples, the proof alone decides.
            named = {"samples": len(arrays.get("y", certificate.problem.y))} | content
            claim = json.loads((folder / "certificate.json").read_text())["claim"] | named
            changed(tmp_path / str(at), {"claim": claim})
            status, lines = answer(tmp_path / str(at), capsys)
            assert (status == 0) is (lines[-1] == "certified") is stays_true(which[0], content, arrays, certificate)
            true += not status
    assert at > 50 and true in (1, 4)


def stays_true(kind, content, arrays, certificate):
    """Says whether a changed claim is true too: a sample without a pull is left out, or the losses agree on
    the data.
    """
    if kind == "huber":
        same = content.get("loss", kind), content.get("size", 0) > 0.1
        return not arrays and same in {("squares", False), (kind, True)}
    return "x" in arrays and len(content["kept"]) == len(certificate.kept)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_sample_that_may_get_a_pull_is_refused_and_no_other(kind, exported, tmp_path, capsys):
    """A sample that may get a pull is refused, and no other sample is.

    The last sample, or Huber's size, is moved until an output's enclosure just reaches or just misses the end of the
    interval without pull.
    """
    certificate, folder = exported[kind, 1, False]
    later = certificate.enclosure(certificate.problem.x[-1:])
    f, off = float(later.value[0]), float(later.error[0])
    y = certificate.problem.y.reshape(-1, 1).copy()
    for part, fine in ((0.9, False), (1.1, True)):
        shutil.copytree(folder, tmp_path / str(fine))
        if kind == "huber":
            every = certificate.enclosure(certificate.problem.x)
            farthest = np.abs(every.value - certificate.problem.y) + part * every.error
            changed(tmp_path / str(fine), {"size": float(farthest.max())})
        elif kind == "band":
            y[-1] = f + 0.15 - part * off
            changed(tmp_path / str(fine), y=y)
        else:
            x = certificate.problem.x.copy()
            x[-1] = at_margin(certificate, float(y[-1, 0]), part)
            changed(tmp_path / str(fine), x=x)
        status, lines = answer(tmp_path / str(fine), capsys)
        # The inequality holds. But with Huber's loss the folder's claim names the old size, and the script says so.
        if fine:
            assert (status == 0) if kind != "huber" else "the claim is not what is shown, {'loss'" in lines[0]
        else:
            where = "huber is half a square" if kind == "huber" else "its loss is 0"
            assert status == 1 and f" may leave where {where}" in lines[0] and lines[0].startswith("refused: sample ")


def at_margin(certificate, side, part):
    """Returns an input whose output f is beyond the margin 1 on the side `side`, which is 1 or -1: side * f > 1.

    The output exceeds the margin by the share `part` of the movement that training may cause.
    """
    x = certificate.problem.x[-1]
    first = certificate.problem.x[0 if certificate.problem.y[0] != side else 1]

    def room(t):
        later = certificate.enclosure((x + t * (first - x))[None])
        return float(side * later.value[0] - 1 - part * later.error[0])

    low, high = 0.0, 1.0
    assert room(low) > 0 > room(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if room(middle) > 0 else (low, middle)
    return x + low * (first - x)


def test_a_loss_of_the_callers_own_is_not_exported(exported, tmp_path):
    certificate, _ = exported["band", 1, False]
    for other in (replace(certificate.loss, name="mine"), replace(certificate.loss, name="band:0.2")):
        with pytest.raises(ValueError, match=r"the loss is one of your own, named '(mine|band:0.2)'; the script"):
            export_network(replace(certificate, loss=other), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_losss_name_has_all_digits_of_its_number():
    for make in (band, huber):
        for number in (0.1, 1, 100.0, 1 / 3, 1e-30, 0.123456789, 1e22):
            loss = make(number)
            again = loss_of(loss.name)
            y = np.linspace(-3, 3, 7) * number
            assert again.name == loss.name and again.halved == loss.halved
            np.testing.assert_array_equal(again.minimisers(y), loss.minimisers(y))
            np.testing.assert_array_equal(again.slope(y[::-1], y), loss.slope(y[::-1], y))
    assert (band(1).name, huber(0.1).name, band(1e-5).name) == ("band:1", "huber:0.1", "band:1e-05")
