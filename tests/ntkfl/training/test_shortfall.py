"""Tests of the report that a run learned nothing: it diverged, or is no better than an answer that ignores inputs."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from ntkfl.training import FederatedData, Federation, Model
from ntkfl.training.engine.measurement import measured
from ntkfl.training.methods import fed_avg
from ntkfl.training.objectives import CrossEntropy, HalfSquares
from ntkfl.training.runs.shortfall import shortfall
from ntkfl.training.runs.training_run import run
from ntkfl.training.schedules import Exponential

KINDS = st.sampled_from(["classes", "signs", "one-hot", "real", "several"])


def labels(kind, classes, rng, n):
    if kind in ("real", "several"):
        return torch.tensor(rng.normal(size=n if kind == "real" else (n, classes)))
    drawn = rng.integers(0, 2 if kind == "signs" else classes, n)
    if kind == "classes":
        return torch.tensor(drawn)
    return torch.tensor(2.0 * drawn - 1 if kind == "signs" else np.eye(classes)[drawn])


def answering(answers, before, y, train, classes, tested):
    """Returns the report on a model that has the answers `before` a round and `answers` after it."""
    x = torch.arange(float(len(y)), dtype=torch.float64)[:, None]
    model = Model("table", lambda seed: {"table": before}, lambda p, x: p["table"][x[:, 0].long()], lambda p, z: z)
    own = torch.arange(float(len(train)), dtype=torch.float64)[:, None]
    data = FederatedData(own, train, np.zeros(len(own), int), 1, *((x, y) if tested else (None, None)), classes)
    loss = CrossEntropy() if classes else HalfSquares("mean")
    federation = Federation(model, data, fed_avg.method(loss), Exponential(0.1))
    start = federation.start()
    done = federation.round(start).state
    done.server["model"] = {"table": answers}
    return shortfall(federation, done, [measured(federation, start), measured(federation, done)])


@settings(deadline=None, max_examples=60)
@given(kind=KINDS, classes=st.integers(2, 4), n=st.integers(12, 40), seed=st.integers(0, 10**6), tested=st.booleans())
def test_one_answer_for_all_is_never_learned_and_the_labels_themselves_always(kind, classes, n, seed, tested):
    rng = np.random.default_rng(seed)
    y, count = labels(kind, classes, rng, n), classes if kind == "classes" else None
    assume(len(torch.unique(y, dim=0)) > 1)
    right = 3 * torch.nn.functional.one_hot(y, classes).double() if kind == "classes" else y
    before, row = torch.tensor(rng.normal(size=right.shape)), torch.tensor(rng.normal(size=right.shape[1:]))
    constant = torch.zeros_like(right) + row
    said = answering(constant, before, y, y, count, tested)
    assert said is not None and said.startswith(("NOT TRAINED: after 1 rounds ", "DIVERGED: the "))
    assert answering(right, before, y, y, count, tested) is None
    grown = answering(1e6 * constant, before, y, y, count, tested)
    assert grown.startswith(f"DIVERGED: the {'test' if tested else 'training'} loss is ")


@pytest.fixture(scope="module")
def separable():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(200, 4)))
    return x, x[:, 0] > 0


def linear(outputs, dead=False):
    """Returns the model w x from w = 0; a `dead` model ends with a ReLU whose output is always 0."""
    shape = (4,) if outputs is None else (4, outputs)

    def head(p, z):
        return torch.relu(z @ p["w"] - 100) if dead else z @ p["w"]

    return Model("line", lambda seed: {"w": torch.zeros(shape).double()}, lambda p, x: x, head, ("w",))


@pytest.mark.parametrize("kind", ["classes", "signs", "real"])
def test_runs(separable, kind, tmp_path):
    x, above = separable
    y = {"classes": above.long(), "signs": 2.0 * above - 1, "real": x[:, 0] + x[:, 1]}[kind]
    data = FederatedData(x[:100], y[:100], np.arange(100) % 4, 4, x[100:], y[100:], 2 if kind == "classes" else None)
    keys = {"rounds": 8, "model": "mlp:16", "dtype": "float64", "momentum": 0.0}
    learned = run("fedavg", data, rate=0.1, out=tmp_path / "learned", **keys)
    assert learned.shortfall is None and (tmp_path / "learned" / "outcome.txt").read_text() == "trained\n"
    # A random start may be right by luck, so the model is dead.
    keys |= {"model": linear(2 if kind == "classes" else None, dead=True)}
    still = run("fedavg", data, rate=0.1, out=tmp_path / "still", **keys)
    assert still.shortfall.startswith("NOT TRAINED: after 8 rounds")
    assert (tmp_path / "still" / "outcome.txt").read_text() == still.shortfall + "\n"
    # The method "local" is measured by means over the clients' own models.
    assert run("local", data, rate=1e-12, **keys).shortfall is None


def test_a_linear_model_that_grows_has_diverged(separable):
    x, _ = separable
    y = x[:, 0] + x[:, 1]
    data = FederatedData(x[:100], y[:100], np.arange(100) % 4, 4, x[100:], y[100:])
    keys = {"rounds": 4, "dtype": "float64", "batch_size": "full", "momentum": 0.0}
    assert run("fedavg", data, linear(None), rate=0.1, **keys).shortfall is None
    assert run("fedavg", data, linear(None), rate=5.0, **keys).shortfall.startswith("DIVERGED: the test loss is ")


def test_what_is_learned_by_heart_is_learned(separable):
    """What is learned by heart counts as learned.

    Labels are drawn independently. Training samples are learned by heart, and test samples stay at chance.
    """
    x, _ = separable
    y = torch.tensor(np.random.default_rng(4).integers(0, 2, 200))
    data = FederatedData(x[:20], y[:20], np.arange(20) % 2, 2, x[20:], y[20:], 2)
    done = run("fedavg", data, rate=0.2, rounds=60, model="mlp:64", dtype="float64")
    assert done.shortfall is None and done.rows[-1].test_accuracy < 0.65


@pytest.mark.parametrize("kind", ["classes", "real"])
def test_where_all_labels_are_the_same_there_is_nothing_to_learn(kind):
    y = torch.ones(10, dtype=torch.int64 if kind == "classes" else torch.float64)
    before = torch.zeros(10, 2).double() if kind == "classes" else torch.zeros(10).double()
    for tested in (True, False):
        assert answering(before + 0.1, before, y, y, 2 if kind == "classes" else None, tested) is None
    if kind == "real":
        assert answering(before - 9, before, y, y, None, True).startswith("DIVERGED: the test loss is 50 ")
