"""Tests of what a run measures, and of runs that are refused.

Scores are computed independently; the table and the summary are tested too.
"""

import csv
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from tiny_federations import line, network, regression
from toy_runs import KEYS, objects, toy_data, toy_run

import ntkfl.training.engine.measurement as evaluation
from ntkfl import Problem, Setup, kernel_regime
from ntkfl.training.engine.measurement import evaluate
from ntkfl.training.metrics import Row
from ntkfl.training.runs.summary import summary
from ntkfl.training.runs.training_run import run


def log_softmax(outputs):
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def outputs(params, x):
    w = {name: value.numpy() for name, value in params.items()}
    hidden = np.tanh(x.numpy() @ w["body.0.weight"].T + w["body.0.bias"])
    return hidden @ w["head.weight"].T + w["head.bias"]


def by_hand(params, x, y):
    scores = outputs(params, x)
    return -log_softmax(scores)[np.arange(len(y)), y].mean(), (scores.argmax(1) == y.numpy()).mean()


def test_scores_of_the_global_model(monkeypatch):
    monkeypatch.setattr(evaluation, "AT_ONCE", 5)  # Data are evaluated in several parts, of which the last is short.
    done, data = toy_run("fedavg"), toy_data()
    loss, accuracy = by_hand(done.params, data.x_test, data.y_test)
    train, _ = by_hand(done.params, data.x, data.y)
    measured = {name: column[-1] for name, column in done.metrics.items()}
    np.testing.assert_allclose([measured["test_loss"], measured["train_loss"]], [loss, train], rtol=1e-12)
    assert measured["test_accuracy"] == accuracy and 0 < accuracy < 1
    initial = by_hand(network().initial(3), data.x_test, data.y_test)[0]
    np.testing.assert_allclose(done.metrics["test_loss"][0], initial, rtol=1e-12)


def test_clients_are_measured_before_they_are_averaged():
    done, data = toy_run("fedavg", rounds=1), toy_data()
    federation = done.federation
    result = federation.round(federation.start(), keep_ends=True)
    ends = [{name: w[row] for name, w in result.ends.items()} for row in range(len(result.cohort))]
    expected = np.mean([by_hand(params, data.x_test, data.y_test)[1] for params in ends])
    row = done.rows[-1]
    np.testing.assert_allclose(row.client_accuracy, expected, rtol=1e-12)
    start = network().initial(3)
    drift = np.mean([sum(float(((p[k] - start[k]) ** 2).sum()) for k in p) for p in ends])
    np.testing.assert_allclose(row.drift, drift, rtol=1e-12)
    assert row.cohort == len(ends) == 2 and row.local_steps == result.steps.sum()
    sizes = [len(data.members()[client]) for client in result.cohort]
    assert row.local_steps == sum(2 * -(-size // 3) for size in sizes)  # There are 2 epochs with batches of 3.
    assert np.isnan(toy_run("fedavg", rounds=1, client_accuracy=False).rows[-1].client_accuracy)


def test_personal_accuracy_is_of_both_heads_on_the_client_s_own_classes():
    done, data = toy_run("fedrod"), toy_data()
    kept, shares = done.state.clients["rule"]["head"], data.class_counts()
    w, accuracies = {name: value.numpy() for name, value in done.params.items()}, []
    for client in done.state.has_trained.nonzero()[:, 0].tolist():
        z = np.tanh(data.x_test.numpy() @ w["body.0.weight"].T + w["body.0.bias"])
        own = {name: value[client].numpy() for name, value in kept.items()}
        logits = z @ (w["head.weight"] + own["head.weight"]).T + w["head.bias"] + own["head.bias"]
        hits, classes = logits.argmax(1) == data.y_test.numpy(), data.y_test.numpy()
        weights = np.array([shares[client, c] for c in classes])
        accuracies.append((weights * hits).sum() / weights.sum())
    accuracy = done.metrics["personal_accuracy"]
    assert accuracy[-1] == pytest.approx(np.mean(accuracies), abs=1e-12) and np.isnan(accuracy[0])
    # The row has the accuracy of the shared model.
    assert done.rows[-1].test_accuracy == by_hand(done.params, data.x_test, data.y_test)[1]
    others = toy_run("fedavg", rounds=1), toy_run("fedrod", rounds=1, client_accuracy=False)
    assert all(np.isnan(other.rows[-1].personal_accuracy) for other in others)


def test_rates_follow_the_schedule():
    rates = toy_run("fedavg").metrics["rate"]
    assert np.isnan(rates[0])
    np.testing.assert_allclose(rates[1:], 0.05 * 0.95 ** np.arange(4), rtol=1e-15)
    late = toy_run("fedavg", ima=True, ima_start=2, ima_decay=0.5).metrics["rate"]
    np.testing.assert_allclose(late[1:], 0.05 * np.array([1, 0.95, 0.95**2, 0.95**2 * 0.5]), rtol=1e-15)


def test_what_imas_averaging_goes_with():
    """IMA's averaging comes with the schedules of Table III of the IMA paper, here at rate .05.

    From the start of averaging on, the rate is constant at .05/200, falls in cycles from .05 to .05/200, or decays as
    before.
    """

    def explored(kind, rounds=4, **more):
        metrics = toy_run("fedavg", rounds=rounds, ima=True, ima_start=2, ima_exploration=kind, **more).metrics
        return metrics["rate"][1:], metrics["local_steps"][1:], metrics["cohort"][1:]

    before = 0.05 * 0.95 ** np.arange(4)
    np.testing.assert_allclose(explored("none")[0], before, rtol=1e-15)
    np.testing.assert_allclose(explored("constant")[0], [*before[:2], 0.00025, 0.00025], rtol=1e-15)
    cycle = 0.05 - (0.05 - 0.00025) * np.arange(2) / 19
    np.testing.assert_allclose(explored("cyclic")[0], [*before[:2], *cycle], rtol=1e-15)
    np.testing.assert_allclose(explored("cyclic", ima_period=2)[0], [*before[:2], 0.05, 0.00025], rtol=1e-15)
    rates, steps, _ = explored("epochs", rounds=23)
    np.testing.assert_allclose(rates, 0.05 * 0.95 ** np.arange(23), rtol=1e-15)
    plain = toy_run("fedavg", rounds=23).metrics["local_steps"][1:]
    # After 20 rounds of averaging, clients train one epoch instead of two.
    assert (steps[:22] == plain[:22]).all() and 2 * steps[22] == plain[22]
    soon = explored("epochs", rounds=5, ima_period=2)[1]
    assert (soon[:4] == plain[:4]).all() and 2 * soon[4] == plain[4]


def test_local_is_the_mean_over_all_clients_own_models():
    done, data = toy_run("local", participation=1.0, at_once=2), toy_data()
    assert done.rows[-1].test_accuracy == done.rows[-1].client_accuracy
    models = done.federation.own_models(done.state, list(range(data.clients)))
    scores = [
        by_hand({name: w[c] for name, w in models.items()}, data.x_test, data.y_test) for c in range(data.clients)
    ]
    np.testing.assert_allclose([done.rows[-1].test_loss, done.rows[-1].test_accuracy], np.mean(scores, 0), rtol=1e-12)
    assert len({tuple(score) for score in scores}) > 1


def test_real_labels():
    x, y = torch.zeros(4, 1), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    scores = evaluate(lambda some: torch.tensor([2.0, 1.0]).expand(len(some), 2), x, y)
    assert scores.accuracy == 0.5 and scores.loss == pytest.approx(np.mean([1, 2, 2, 1]), rel=1e-15)
    signs = evaluate(lambda some: torch.full((len(some),), 3.0), x, torch.tensor([1.0, 1.0, -1.0, 1.0]))
    assert signs.accuracy == 0.75 and signs.loss == pytest.approx((3 * 4 + 16) / 8, rel=1e-15)
    numbers = evaluate(lambda some: torch.full((len(some),), 3.0), x, torch.tensor([1.0, 2.0, -1.0, 1.0]))
    assert np.isnan(numbers.accuracy) and numbers.loss == pytest.approx((4 + 1 + 16 + 4) / 8, rel=1e-15)


def test_regression_has_half_squares(tmp_path):
    data = regression()
    done = run("fedavg", data=data, model=line(), dtype="float64", rounds=2, out=tmp_path, train_loss=True)
    residual = data.x.numpy() @ done.params["w"].numpy() - data.y.numpy()
    np.testing.assert_allclose(done.rows[-1].train_loss, (residual**2).mean() / 2, rtol=1e-12)
    assert np.isnan(done.rows[-1].test_loss)  # There is no test set.
    assert "train_loss [half squares per sample]" in (tmp_path / "metrics.csv").read_text().splitlines()[0]


def test_the_sum_takes_the_steps_of_the_mean_times_the_size():
    data = replace(regression(sizes=(6, 6)), name="six")
    keys = {"dtype": "float64", "rounds": 2, "batch_size": "full", "local_steps": 3, "momentum": 0.5}
    mean = run("fedavg", data=data, model=line(), rate=0.06, **keys)
    total = run("fedavg", data=data, model=line(), rate=0.01, reduction="sum", **keys)
    torch.testing.assert_close(mean.params, total.params, rtol=1e-13, atol=0)


@pytest.mark.parametrize("sum_of_squares", [True, False])
def test_rates_of_training_are_the_steps_of_the_kernel_regime(sum_of_squares):
    """Rates of training are the steps of the kernel regime.

    A linear model has H = x x^T. The rate is n_c eta_local for training on means, and eta_local for training on sums.
    """
    data, eta, server = regression(sizes=(6, 6)), 0.012, 1.3
    problem = Problem(data.x.numpy(), data.y.numpy(), data.owner)
    rate = eta if sum_of_squares else problem.mean_loss_rate(eta)
    keys = {"rounds": 4, "batch_size": "full", "local_steps": 3, "momentum": 0.0, "options": {"server_rate": server}}
    reduction = "sum" if sum_of_squares else "mean"
    trained = run("fedavg", data=data, model=line(), rate=rate, reduction=reduction, dtype="float64", **keys)
    start = problem.x @ line().initial(0)["w"].numpy()
    setup = Setup(eta_local=eta, eta_global=server, local_steps=3)
    limit = kernel_regime(problem, setup, problem.x @ problem.x.T, "fedavg").outputs(4, start)
    assert np.abs(problem.x @ trained.params["w"].numpy() - limit).max() <= 1e-12
    uneven = Problem(problem.x, problem.y, np.minimum(np.arange(12) // 5, 1))
    with pytest.raises(
        ValueError, match=r"clients have from 5 to 7 samples, .*reduction='sum', whose rate is eta_local"
    ):
        uneven.mean_loss_rate(eta)
    assert replace(problem, y=np.stack([problem.y] * 2, 1)).per_output().mean_loss_rate(eta) == 6 * eta


def test_the_table_has_every_column_with_its_unit(tmp_path):
    done = toy_run("fedavg", out=tmp_path)
    with (tmp_path / "metrics.csv").open() as file:
        labels, *lines = csv.reader(file)
    assert [label.split(" [")[0] for label in labels] == [field.name for field in fields(Row)]
    assert all(label.endswith("]") for label in labels) and len(lines) == 5
    for column, label in zip(zip(*lines, strict=True), labels, strict=True):
        np.testing.assert_array_equal(np.array(column, float), done.metrics[label.split(" [")[0]])


def test_summary():
    accuracies = [0.9, 0.1, 0.5, 0.7, 0.7, 0.4, 0.2, 0.3]
    rows = [Row(number, test_accuracy=a, test_loss=1 - a) for number, a in enumerate(accuracies)]
    summaries = summary(rows)
    one = summaries["test_accuracy"]
    # The model before training is no round.
    assert (one.last, one.best, one.best_round, one.rounds) == (0.3, 0.7, 3, 5)
    assert one.mean == pytest.approx(np.mean(accuracies[-5:]), rel=1e-15)
    assert (summaries["test_loss"].best_round, set(summaries)) == (3, {"test_accuracy", "test_loss"})
    assert summary(rows[:1])["test_accuracy"].last == 0.9 and summary(rows[:3])["test_accuracy"].rounds == 2
    assert summary([Row(0), Row(1)]) == {}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"method": "fedprx"}, "no method 'fedprx'.*Did you mean 'fedprox'"),
        ({"options": {"muu": 1.0}, "method": "fedprox"}, "no option 'muu'"),
        ({"device": "cuda:99"}, "device is 'cuda:99'"),
        ({"device": "tpu"}, "device is 'tpu'; it must be cpu"),
        ({"clients": 4}, "clients is 4, and toy has 5"),
        ({"reduction": "sum"}, "reduction is 'sum', which is for squares"),
        ({"dtype": "float32"}, "'body.0.weight' of tanh network is torch.float64 on cpu; this run is torch.float32"),
        ({"checkpoint_every": 0}, "checkpoint_every is 0"),
        ({"model": "mlpp"}, "no model 'mlpp'. Did you mean 'mlp'"),
        ({"data": "digit"}, "'digit'.*Did you mean 'digits'"),
        ({"data": "digits", "clients": 400, "samples": 300, "model": "mlp"}, "400 clients cannot share 300 samples"),
    ],
)
def test_refused_before_any_round(keys, message, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match=message):
        run(**{"method": "fedavg"} | objects() | KEYS | keys, out=folder)
    assert not folder.exists()


def test_methods_for_classes_are_refused_on_real_labels():
    with pytest.raises(ValueError, match="fedlc needs classes; the labels of data are real"):
        run("fedlc", data=regression(), model=line(), dtype="float64")


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toy_run("fedavg", rounds=1)
    assert not list(tmp_path.iterdir())


def test_zero_rounds_measure_the_initial_model():
    done = toy_run("fedavg", rounds=0)
    assert len(done.rows) == 1 and done.state.rounds == 0
    assert done.rows[0].test_loss == toy_run("fedavg", rounds=1).rows[0].test_loss
