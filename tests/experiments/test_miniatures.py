"""Tests of miniatures, which are small repetitions of the papers' experiments.

The tests concern comparisons, judgements of differences, results that survive a stop, and a tiny run of each miniature.
"""

import csv
import json
import math
import re
import signal
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from experiments.command_line import app
from experiments.miniatures import catalogue, ima, ima_start, plane
from experiments.miniatures.cells import path_of, planned_cell, run, slug
from experiments.miniatures.comparison import chance, compared, looked_up, printed
from experiments.miniatures.federated import trained
from experiments.miniatures.grid_barriers import group_barriers, segments
from experiments.miniatures.miniature import Miniature, Quantity, Setting
from experiments.miniatures.plane import ThreeModels
from experiments.miniatures.results.by_scale import both, pairs
from experiments.miniatures.results.results_page import as_csv, results_page
from experiments.miniatures.solo_models import Solo
from experiments.studies.running import cell_store
from ntkfl.connectivity.barrier import accuracy_barrier, group_accuracy_barrier, loss_barrier
from ntkfl.connectivity.network import TwoLayer
from ntkfl.training.config import checked
from ntkfl.training.runs.training_run import prepared
from ntkfl.training.tree import tree_map

# The settings of these miniatures continue another run ("plane"), or compare gains ("ima-federations"). They need not
# share data and rounds with a baseline.
OTHER_FEDERATIONS = {"plane", "ima-federations"}
SOLO = {"transitivity", "plane"}  # These miniatures have settings that are no training configurations.
TINY = {"samples": 120, "test": 60, "model": "mlp:8", "rounds": 2, "epochs": 1}


def tiny(miniature, setting):
    """Returns the setting's keys on a tiny scale, with digits as data."""
    keys = {**setting.keys, **TINY, "data": "digits"}
    if miniature.name in SOLO:
        return {**keys, "anchor_epochs": min(1, keys["anchor_epochs"])} if "anchor_epochs" in keys else keys
    if "local_steps" in setting.keys:
        keys["local_steps"] = keys.pop("epochs")
    return keys


def toy(measure, *settings, **more):
    names = settings or (Setting("base", {"effect": 0}), Setting("more", {"effect": 1}, "base"))
    given = {"quantities": (Q,)} | more
    return Miniature(
        "toy", "Is more more?", "Nowhere, Table 0", {"size": ("large", "small")}, names, measure=measure, **given
    )


Q = Quantity("score", "points")


def noise(seed, *words):
    """Returns a standard normal number that is always the same for the same arguments."""
    return np.random.default_rng([seed, *words]).standard_normal()


# --- what there is


@pytest.mark.parametrize("miniature", catalogue().values(), ids=list(catalogue()))
def test_a_miniature_is_well_formed(miniature):
    assert re.fullmatch("[a-z-]+", miniature.name) and miniature.question.endswith("?") and miniature.scale
    slugs = [slug(setting.name) for setting in miniature.settings]
    assert len(set(slugs)) == len(slugs), "two settings share a file"
    assert any(setting.against is None for setting in miniature.settings) and miniature.seeds >= 3
    for setting in miniature.settings:
        assert json.loads(json.dumps(setting.keys)) == setting.keys
        for quantity in miniature.quantities:
            # This fails if the paper's table has no row, or several rows, for a printed setting.
            printed(setting, quantity)
            assert not (setting.claim.get(quantity.name) and printed(setting, quantity)), "the claim is in the numbers"


@pytest.mark.parametrize("miniature", catalogue().values(), ids=list(catalogue()))
def test_settings_differ_from_their_baseline_only_in_what_they_are_about(miniature):
    """Settings share data, partition, model and rounds with their baseline, because the differences are paired."""
    settings = {setting.name: setting for setting in miniature.settings}
    shared = "data", "partition", "model", "rounds", "samples", "test", "participation"
    for setting in miniature.settings:
        if setting.against and miniature.name not in OTHER_FEDERATIONS:
            base = settings[setting.against].keys
            assert {key: setting.keys.get(key) for key in shared} == {key: base.get(key) for key in shared}


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    "miniature", [miniature for miniature in catalogue().values() if miniature.name not in SOLO], ids=lambda m: m.name
)
def test_every_setting_names_a_run(miniature):
    for setting in miniature.settings:
        keys = tiny(miniature, setting)
        job = prepared(**keys)
        assert job.federation.data.clients == keys["clients"]


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("miniature", catalogue().values(), ids=list(catalogue()))
def test_every_miniature_measures_its_quantities(miniature):
    for setting in (miniature.settings[0], miniature.settings[-1]):
        numbers = miniature.measure(tiny(miniature, setting), 0)
        assert set(numbers) == {quantity.name for quantity in miniature.quantities}
        assert all(np.isfinite(value).all() for value in numbers.values()), numbers


def test_printed_numbers_are_the_papers():
    """The looked-up numbers equal those that the paper prints, digit by digit."""
    table = {"paper": "FedGuCci", "table": "6", "dataset": "CIFAR-10"}
    names = "FedAvg", "FedGuCci", "FedGuCci+LC only", "FedGuCci+SAM only", "FedGuCci+"
    assert [looked_up(table | {"method": name}).mean for name in names] == [64.14, 65.45, 65.51, 65.93, 66.05]
    decay = {"table": "III", "method": "FedAvg+IMA", "setting": "Dir 0.1, IMA decay=no additional decay"}
    assert looked_up(decay).mean == 63.96 and math.isnan(looked_up(decay).deviation)
    with pytest.raises(ValueError, match=r"5 rows of paper_numbers.csv have .*; it must be one"):
        looked_up(table)


def test_a_miniature_refuses_what_cannot_be_compared():
    with pytest.raises(ValueError, match="toy has two settings of one name"):
        toy(noise, Setting("a", {}), Setting("a", {}))
    with pytest.raises(ValueError, match="'a' is compared with 'b', which is not in toy"):
        toy(noise, Setting("a", {}, "b"))
    with pytest.raises(ValueError, match="'a' has a claim about 'speed', which is not measured"):
        toy(noise, Setting("a", {}, claim={"speed": "higher"}))


# --- larger scales


LARGER = [other for miniature in catalogue().values() for other in miniature.larger.values()]
# The papers' printed numbers for settings, by miniature: FedGuCci, appendix A; IMA, section VI; FL-NTK, Figure 1.
CNN_ON_CIFAR = {"data": "cifar-10", "model": "simple-cnn", "epochs": 3, "batch_size": 64, "rate": 0.04}
OF_IMA = {"data": "cifar-10", "model": "ima-cnn", "clients": 100, "participation": 0.1, "rounds": 400, "epochs": 5}
OF_IMA |= {"batch_size": 50, "rate": 0.01, "momentum": 0.9, "rate_decay": 0.99, "optimizer": "sgd"}
AS_PRINTED = {
    "ablation": CNN_ON_CIFAR | {"clients": 50, "partition": "dirichlet:1.0", "rounds": 150, "participation": 1.0},
    "clients": {"data": "cifar-10", "rounds": 160, "batch_size": 128, "rate": 0.03, "optimizer": "sgd"},
    "ordering": {
        **{"data": "fashion-mnist:32", "samples": None, "test": None, "model": "vgg11", "clients": 50, "rounds": 400},
        **{"participation": 1.0, "epochs": 3, "batch_size": 64},
        **{"optimizer": "adam", "rate": 0.08},
    },
    "ima": OF_IMA | {"partition": "dirichlet:0.1"},
    "ima-methods": OF_IMA | {"partition": "shards:2"},
    "ima-start": OF_IMA | {"partition": "dirichlet:0.1"},
    "ima-start-methods": OF_IMA | {"partition": "dirichlet:0.1"},
    "ima-decays": OF_IMA | {"partition": "dirichlet:0.1"},
    "ima-window": OF_IMA | {"partition": "dirichlet:0.1"},
    "ima-federations": OF_IMA,
    "ima-line": OF_IMA | {"partition": "dirichlet:0.1"},
    "ima-locality": OF_IMA | {"partition": "shards:2", "clients": 10, "participation": 1.0},
    "local-epochs": {
        **{"data": "cifar-10", "model": "simple-cnn", "clients": 60, "partition": "dirichlet:0.4", "rounds": 200},
        **{"rate": 0.03, "participation": 1.0},
    },
    "sensitivity": CNN_ON_CIFAR | {"clients": 60, "partition": "dirichlet:0.4", "rounds": 150, "rate": 0.02},
    "participation": {"data": "cifar-10", "model": "simple-cnn", "clients": 100, "partition": "dirichlet:0.1"},
    "population": CNN_ON_CIFAR | {"partition": "dirichlet:1.0", "rounds": 150},
}


VARIED = {"ima-federations": ("partition", "participation", "epochs"), "ima-locality": ("rate_decay",)}


@pytest.mark.parametrize("miniature", LARGER, ids=lambda m: m.label)
def test_every_setting_of_a_larger_scale_is_a_configuration(miniature):
    small = catalogue()[miniature.name]
    assert len({slug(setting.name) for setting in miniature.settings}) == len(miniature.settings)
    assert set(miniature.scale) == set(small.scale) and miniature.measure is small.measure and miniature.keeps_rounds
    for setting in miniature.settings:
        checked({**setting.keys, "seed": 0})
        checked({**setting.keys, **miniature.quick, "seed": 0})
        for quantity in miniature.quantities:
            printed(setting, quantity)


def test_the_papers_recipes_are_as_printed():
    printed = {
        miniature.name: miniature.on("paper") for miniature in catalogue().values() if "paper" in miniature.larger
    }
    assert set(printed) == set(AS_PRINTED)
    for name, miniature in printed.items():
        for setting in miniature.settings:
            if setting.control or not any(setting.name == other.control for other in miniature.settings):
                config = checked(setting.keys).model_dump()
                wanted = {key: value for key, value in AS_PRINTED[name].items() if key not in VARIED.get(name, ())}
                assert {key: config[key] for key in wanted} == wanted, setting.name
    assert {s.keys["clients"] for s in printed["population"].settings} == {100, 200}
    assert {s.keys["partition"] for s in printed["ordering"].settings} == {"dirichlet:0.5", "dirichlet:100"}
    assert {s.keys["participation"] for s in printed["participation"].settings} == {0.05, 0.1}
    assert {s.keys["clients"] for s in printed["clients"].settings} == {10, 50, 100}
    late = {s.keys["ima_period"] for s in printed["ima"].settings if "ima_period" in s.keys}
    assert late == {20} and {checked(s.keys).ima_start for s in printed["ima"].settings[1:]} == {300}
    assert [checked(s.keys).ima_start for s in printed["ima-start"].settings[1::2]] == [150, 200, 250, 300]
    assert {checked(s.keys).ima_start for s in printed["ima-window"].settings} == {150, 200, 300}
    assert all(miniature.no_paper for miniature in catalogue().values() if miniature.name not in printed)


@pytest.mark.parametrize("scale", ["middle", "paper"])
def test_methods_of_the_ordering_are_trained_on_every_scale(scale):
    """On every scale each method takes the scale's optimizer.

    The loss of a tiny network is finite after a round, even at Adam's rate .08.
    """
    for setting in catalogue()["ordering"].on(scale).settings:
        job = prepared(**{**setting.keys, **TINY, "data": "digits", "clients": 4})
        assert job.config.optimizer == {"middle": "sgd", "paper": "adam"}[scale]
        assert np.isfinite(replace(job, config=job.config.model_copy(update={"rounds": 1})).train().rows[-1].test_loss)


def test_a_scale_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"no scale 'midle'. Did you mean 'middle'\? They are small, middle, paper"):
        catalogue()["ordering"].on("midle")
    with pytest.raises(ValueError, match="ablation does not exist on the scale 'middle'; it is on small, paper"):
        catalogue()["ablation"].on("middle")
    with pytest.raises(ValueError, match=r"transitivity does not exist on the scale 'paper': FedGuCci states neither"):
        catalogue()["transitivity"].on("paper")
    assert catalogue()["ordering"].on("small") is catalogue()["ordering"]


def test_a_run_on_a_larger_scale_goes_on_where_it_was(tmp_path):
    """The rounds of a run are kept below --out, in a folder for each run, whatever its number of rounds is."""
    keys = {**catalogue()["ordering"].on("middle").settings[0].keys, **TINY, "data": "digits", "clients": 4}
    whole = trained(keys | {"rounds": 3}, 0).metrics["test_loss"]
    kept = {"keep": str(tmp_path)}
    trained(keys | kept | {"rounds": 1}, 0)
    np.testing.assert_array_equal(trained(keys | kept | {"rounds": 3}, 0).metrics["test_loss"], whole)
    trained(keys | kept | {"rate": 0.01}, 0)
    assert sorted(path.name.split(".")[:2] for path in tmp_path.iterdir()) == [["fedavg", "0"]] * 2


def test_cells_of_a_larger_scale_have_a_folder_of_their_own(tmp_path):
    """Results on a larger scale have a folder of their own.

    The test runs quickly on files in CIFAR-10's format. Options about the machine are passed on, and data may be moved.
    """
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = rng.integers(0, 256, (200, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(200) % 10
        (tmp_path / f"{name}.bin").write_bytes(records.tobytes())
    whole = catalogue()["participation"].on("paper")
    one = replace(whole, settings=whole.settings[:1])
    (cell,) = run(one, [0], tmp_path / "out", quick=True, where={"path": str(tmp_path), "device": "cpu"})
    assert cell.miniature == "participation-paper" and math.isfinite(cell.numbers["test accuracy"])
    (folder,) = (tmp_path / "out" / "participation-paper" / "runs").iterdir()
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + 1 + one.quick["rounds"]
    moved = {"path": str(tmp_path / "elsewhere"), "device": "cpu"}
    assert run(one, [0], tmp_path / "out", quick=True, where=moved) == [cell]
    with pytest.raises(ValueError, match="is of another run: device is 'cpu' there and 'cuda' here"):
        run(one, [0], tmp_path / "out", quick=True, where={"device": "cuda"})


@pytest.mark.parametrize(
    "effects, says",
    [
        ((1, 1), "seen on both scales"),
        ((-1, -1), "the opposite on both scales: due to the claim, or to what both scales share"),
        ((-1, 1), "due to the scale: the sign changes"),
        ((1, -1), "due to the scale: the sign changes"),
        ((0.1, 0.1), "within noise on both scales, with the same sign"),
        ((0.1, -0.1), "within noise on both scales, with the other sign"),
        ((-1, -0.1), "the opposite is seen on the small scale; within noise on the middle one, with the same sign"),
        ((-0.1, 1), "seen on the middle scale; within noise on the small one, with the other sign"),
    ],
)
def test_what_two_scales_say_of_a_claim(effects, says):
    """The noise of the seeds is .5 up or down, and the claim is 'higher'."""
    results = scaled_toy(effects)
    ((one, two, sentence),) = both(*results)
    assert sentence == says and one.setting == two.setting == "more"
    line = f"| score | more |  | {effects[0]:+.2f} ± 0.29 | {effects[1]:+.2f} ± 0.29 | {says} |"
    assert line in results_page(results, "").splitlines()


def test_what_cannot_be_said_of_two_scales():
    """One seed decides nothing, and results of different miniatures are not compared."""
    small, middle = scaled_toy((1, 1))
    alone = small[0], [cell for cell in small[1] if not cell.seed]
    assert [row[2] for row in both(alone, middle)] == ["small: too few seeds; middle: seen"]
    other = replace(middle[0], name="other"), middle[1]
    assert not list(pairs([small, other])) and list(pairs([small, other, middle])) == [(small, middle)]


def scaled_toy(effects):
    """Returns the toy miniature on the small and the middle scale, with four seeds each.

    `effects` are the effects of the setting 'more' on the two scales.
    """
    settings = Setting("base", {"effect": 0}), Setting("more", {"effect": 1}, "base", claim={"score": "higher"})
    results = []
    for scale, effect in zip(("small", "middle"), effects, strict=True):

        def measure(keys, seed, effect=effect):
            return {"score": keys["effect"] * (effect + 0.5 * (-1) ** seed)}

        one = toy(measure, *settings, at=scale)
        results.append((one, run(one, range(4))))
    return results


# --- differences


def test_differences_are_paired():
    """Noise that settings share cancels in differences.

    An effect a hundred times smaller than the noise is found, with its own standard error.
    """
    own = [0.1 * noise(seed, 1) for seed in range(6)]
    miniature = toy(lambda keys, seed: {"score": 100 * noise(seed, 0) + keys["effect"] * (1 + own[seed])})
    base, more = compared(miniature, run(miniature, range(6)))
    gains = 1 + np.array(own)
    assert base.finding == "baseline" and math.isnan(base.difference)
    assert more.difference == pytest.approx(gains.mean(), abs=1e-12)
    assert more.difference_error == pytest.approx(math.sqrt(gains.var(ddof=1) / 6), abs=1e-12)
    assert more.error > 10 and more.finding == "higher"


def test_noise_is_called_noise_as_often_as_it_should():
    """Noise alone is called a finding as often as `chance` says, up to 4 standard deviations.

    The test compares 2000 pairs of settings without any effect.
    """
    miniature = toy(lambda keys, seed: {"score": noise(seed, keys["effect"])})
    trials = [compared(miniature, run(miniature, range(3 * k, 3 * k + 3)))[1].finding for k in range(2000)]
    wrong = np.mean([finding != "within noise" for finding in trials])
    # The formula is that of Student's t with 2 degrees of freedom.
    assert chance(3) == pytest.approx(1 - 2 / math.sqrt(6), abs=1e-12)
    assert abs(wrong - chance(3)) < 4 * math.sqrt(chance(3) * (1 - chance(3)) / 2000)


@pytest.mark.parametrize(
    "claim, effect, finding", [("higher", 1, "seen"), ("lower", 1, "the opposite is seen"), ("lower", 0, "not seen")]
)
def test_the_papers_ordering_is_held_against_the_finding(claim, effect, finding):
    settings = Setting("base", {"effect": 0}), Setting("more", {"effect": effect}, "base", claim={"score": claim})
    miniature = toy(lambda keys, seed: {"score": keys["effect"] + (-1) ** seed * 1e-3 * len(keys)}, *settings)
    _, more = compared(miniature, run(miniature, range(4)))
    assert more.ordering == f"{claim}: {finding}"
    _, alone = compared(miniature, run(miniature, range(1)))
    assert alone.finding == "too few seeds" and alone.ordering == f"{claim}: too few seeds"


@pytest.mark.parametrize(
    "method, ordering", [("FedGuCci+", "higher: the opposite is seen"), ("FedLC", "within its own noise")]
)
def test_printed_differences_within_their_deviations_claim_nothing(method, ordering):
    """A printed difference within the printed deviations claims nothing.

    The printed values 86.99 ± .04 and 88.61 ± .40 order the two methods. The printed values 86.99 ± .04 and 86.79 ± .29
    do not order them.
    """
    fields = {"table": "2", "setting": "M=50,E=3,full participation,Dir alpha=0.5"}
    settings = (
        Setting("base", {"effect": 1}, None, {"method": "FedAvg"}),
        Setting("more", {"effect": 0}, "base", {"method": method}),
    )
    miniature = replace(
        toy(lambda keys, seed: {"score": keys["effect"]}, *settings), quantities=(replace(Q, printed=fields),)
    )
    _, more = compared(miniature, run(miniature, range(3)))
    assert more.ordering == ordering
    assert more.paper_difference == pytest.approx(looked_up({**fields, "method": method}).mean - 86.99)


def test_a_setting_that_diverges_is_a_result(tmp_path):
    def measure(keys, seed):
        if keys["effect"] and seed == 1:
            raise FloatingPointError("round 3: not finite")
        return {"score": keys["effect"] + seed}

    miniature = toy(measure)
    cells = run(miniature, range(3), tmp_path)
    assert [cell.failure for cell in cells] == ["", "", "", "round 3: not finite", "", ""]
    assert compared(miniature, cells)[1].finding == "diverged with seed 1"
    assert compared(miniature, cells)[1].difference == 1  # The mean is over the seeds with which both settings ended.
    assert run(miniature, range(3), tmp_path) == cells


# --- cells


def counting(fails_at=None):
    """Returns a miniature that counts its measurements and is interrupted at one of them."""
    calls = []

    def measure(keys, seed):
        if len(calls) == fails_at:
            raise KeyboardInterrupt
        calls.append((keys["effect"], seed))
        return {"score": keys["effect"] + 0.1 * seed}

    return toy(measure, quick={"size": 1}), calls


def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    whole, _ = counting()
    stopped, before = counting(fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(stopped, range(3), tmp_path)
    rest, after = counting()
    cells = run(rest, range(3), tmp_path)
    assert before + after == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert [replace(cell, seconds=0) for cell in cells] == [replace(cell, seconds=0) for cell in run(whole, range(3))]
    again, none = counting()
    assert run(again, range(3), tmp_path) == cells and not none
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == sorted(
        f"{s}.{k}.json" for s in ("base", "more") for k in range(3)
    )


def test_cells_of_another_run_are_refused_before_anything_is_run(tmp_path):
    miniature, calls = counting()
    run(miniature, range(1), tmp_path)
    with pytest.raises(
        ValueError, match=r"more.0.json is of another run|base.0.json is of another run: size is None there"
    ):
        run(miniature, range(2), tmp_path, quick=True)
    path_of(tmp_path, planned_cell(miniature, miniature.settings[1], 0, False)).write_text("{}")
    with pytest.raises(ValueError, match=r"more.0.json is no cell of a miniature"):
        run(miniature, range(2), tmp_path)
    assert len(calls) == 2


def test_a_measure_must_give_what_was_announced():
    with pytest.raises(KeyError, match=r"toy measured \['speed'\]; its quantities are \['score'\]"):
        run(toy(lambda keys, seed: {"speed": 1.0}), range(1))


# --- measures


@pytest.fixture(scope="module")
def solo():
    return Solo.of({"data": "digits", "samples": 200, "test": 150, "model": "mlp:12", "epochs": 3}, 0)


def two_layer(models, row):
    """Returns the network of a row of `models` as one without biases, on inputs with a 1 appended.

    Biases become weights of this 1 and of a unit that is always 1.
    """
    w, b, v, c = (models[name][row].numpy() for name in ("body.1.weight", "body.1.bias", "head.weight", "head.bias"))
    constant = np.eye(1, w.shape[1] + 1, w.shape[1])
    return TwoLayer(np.vstack([np.hstack([w, b[:, None]]), constant]), np.hstack([v, c[:, None]]))


def test_grid_barriers_approach_the_exact_ones_from_below(solo):
    models = solo.trained(solo.starts(4, 0), solo.anchor(0, 0), 0.0, 0)
    x = np.hstack([solo.data.x_test.flatten(1).numpy(), np.ones((150, 1))])
    y, networks = solo.data.y_test.numpy(), [two_layer(models, row) for row in range(4)]
    segment = segments(solo.scores, tree_map(lambda w: w[:1], models), tree_map(lambda w: w[1], models), points=101)
    exact = loss_barrier(networks[0], networks[1], x, y, "cross-entropy").value
    assert 0 <= exact.hi - segment.loss_barriers().item() < 1e-3 * exact.value + 1e-6
    shares = accuracy_barrier(networks[0], networks[1], x, y).value
    assert -1e-12 < shares.hi - segment.accuracy_barriers().item() < 0.02
    groups = group_barriers(solo.scores, models, 2)
    exact_groups = [float(group_accuracy_barrier(networks[k : k + 2], x, y).value) for k in (0, 2)]
    assert groups.tolist() == pytest.approx(exact_groups, abs=1e-9)
    with pytest.raises(ValueError, match="4 models cannot be split into groups of 3"):
        group_barriers(solo.scores, models, 3)


def test_barriers_are_symmetric_and_none_lies_between_a_model_and_itself(solo):
    models = solo.starts(3, 0)
    rolled = tree_map(lambda w: w.roll(1, 0), models)
    there, back = segments(solo.scores, models, rolled), segments(solo.scores, rolled, models)
    torch.testing.assert_close(there.loss_barriers(), back.loss_barriers(), rtol=0, atol=1e-12)
    same = segments(solo.scores, models, models)
    assert same.loss_barriers().abs().max() < 1e-12 and same.accuracy_barriers().abs().max() < 1e-12


def test_models_trained_alone_are_alone(solo):
    """A model's training depends only on its own initial weights and its order of samples.

    The training depends on the anchor only if beta is positive.
    """
    starts, anchor, other = solo.starts(3, 0), solo.anchor(0, 0), solo.anchor(1, 0)
    models = solo.trained(starts, anchor, 0.0, 0)
    two = solo.trained(tree_map(lambda w: w[:2], starts), other, 0.0, 0)
    for name in two:
        torch.testing.assert_close(two[name], models[name][:2], rtol=0, atol=1e-12)
        assert not torch.equal(models[name][0], models[name][1])
    pulled = [solo.trained(starts, anchors, 1.0, 0) for anchors in (anchor, other)]
    assert (pulled[0]["head.weight"] - pulled[1]["head.weight"]).abs().max() > 1e-3


def test_one_step_with_the_anchor_is_the_gradient_of_both_losses(solo):
    """With one full batch, no momentum and the anchor at the start, the step is (1 + beta alpha) times the plain step.

    The plain step, with beta = 0, is the rate times the gradient.
    """
    once = replace(solo, epochs=1, batch_size=200, momentum=0.0)
    starts = solo.starts(1, 0)
    start = tree_map(lambda w: w[0], starts)
    moves = [tree_map(lambda w, v: w - v, once.trained(starts, start, beta, 0), starts) for beta in (0.0, 1.0, 3.0)]
    first, last = ((move["head.weight"] / moves[0]["head.weight"]).median().item() - 1 for move in moves[1:])
    assert 0 < first < 1 and last == pytest.approx(3 * first, abs=1e-9)


def test_the_three_models_are_where_the_plane_says(solo):
    models = solo.starts(3, 0)
    three = ThreeModels(solo.model, solo.data, models)
    losses, accuracies = solo.scores(models)
    assert [corner.loss for corner in three.corners()] == pytest.approx(losses.tolist(), abs=1e-12)
    assert [corner.accuracy for corner in three.corners()] == pytest.approx(accuracies.tolist(), abs=1e-12)
    mean = solo.scores(tree_map(lambda w: w.mean(0, keepdim=True), models))
    assert three.centre() == pytest.approx((mean[0].item(), mean[1].item()), abs=1e-12)
    network_plane, s, t, grid = three.losses(5)
    assert grid[1, 3] == pytest.approx(three.score(network_plane.point(s[1], t[3])).loss, abs=1e-12)
    assert three.rise() >= 0 and three.rise(parts=1) == 0  # With parts=1, only corners are evaluated.


def test_the_picture_names_its_axes_and_marks_the_models(monkeypatch):
    monkeypatch.setattr(plane, "POINTS", 5)
    figure = plane.draw({**TINY, "epochs": 1})
    *panels, bar = figure.axes
    assert [panel.get_title() for panel in panels] == [setting.name for setting in plane.MINIATURE.settings]
    for panel in panels:
        assert len(panel.lines[0].get_xdata()) == 3
    assert figure.get_supxlabel() and figure.get_supylabel()
    assert "nats" in bar.get_xlabel()


ON_DIGITS = {**ima.COMMON, "data": "digits", "partition": "shards:2"}


def test_late_decays_of_the_rate():
    """The schedules of step sizes and passes are those of Table III of the IMA paper.

    The least rate is 1/200 of the first rate. The cyclic rate has five periods; the fifth ends with the last round.
    """

    def federation(name):
        return prepared(**{**ON_DIGITS, **ima.VARIATIONS[f"IMA, {name}"], "samples": 120, "test": 60}).federation

    plain = [0.01 * 0.99**number for number in range(225)]
    cycle = [0.01 - (0.01 - 5e-5) * place / 14 for place in range(15)]
    for name, after in (("constant rate", [5e-5] * 75), ("cyclic rate", cycle * 5)):
        assert list(map(federation(name).schedule, range(300))) == pytest.approx(plain + after)
    work = federation("fewer passes").work
    passes = [work.at(number).epochs for number in (0, 224, 239, 240, 255, 270, 285, 299)]
    assert passes == [5, 5, 5, 4, 3, 2, 1, 1]


def test_ima_is_its_baseline_until_it_starts():
    """IMA is its baseline until averaging starts.

    All four settings agree before that. In the first round of averaging the mean is over one model, and thus is that
    model.
    """
    curves = {}
    for name in ("FedAvg", "faster decay only", "averaging only", "IMA"):
        keys = {**ON_DIGITS, **ima.VARIATIONS[name], **TINY, "rounds": 8, "rate": 0.2}
        curves[name] = prepared(**keys).train().metrics["test_loss"]
    for losses in curves.values():
        np.testing.assert_allclose(losses[:6], curves["FedAvg"][:6], rtol=0, atol=1e-7)
    assert not np.allclose(curves["IMA"][6:], curves["faster decay only"][6:], atol=1e-6)
    assert not np.allclose(curves["averaging only"][6:], curves["FedAvg"][6:], atol=1e-6)


def test_rounds_to_the_target_are_counted_from_one(monkeypatch):
    """The measured number is the number of the first round that reaches the mean of the baseline's last ten rounds.

    Rounds are counted from 1. If no round reaches the mean, the number is the last round plus one.
    """
    curves = {"fedavg": [10.0] * 9 + [50.0] * 11, "early": [20.0, 45.9, 46.0] + [0.0] * 17, "never": [45.9] * 20}
    monkeypatch.setattr(ima_start, "trained", lambda keys, seed: curves[keys.get("ima", "fedavg")])
    monkeypatch.setattr(ima_start, "accuracies", np.array)
    curves["fedavg"][-1] = 10.0  # The mean of the last ten rounds is 46.
    measured = {name: ima_start.measure({} if name == "fedavg" else {"ima": name}, 0) for name in curves}
    assert [values[ima_start.ROUNDS] for values in measured.values()] == [10, 3, 21]
    ima_start._curve.cache_clear()


# --- the command


def command(*arguments):
    return CliRunner().invoke(app, ["miniature", *(str(argument) for argument in arguments)])


def test_the_list_names_every_miniature():
    result = command("list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(catalogue())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["imma"], "error: there is no miniature 'imma'. Did you mean 'ima'?"),
        (["all", "ima"], "error: there is no miniature 'all'."),
        (["ima", "--markdown", "."], "error: cannot write .: it is a folder; name a file"),
        (["ordering", "--scale", "large"], "error: there is no scale 'large'. They are small, middle, paper"),
        (["ima", "--scale", "middle"], "error: ima does not exist on the scale 'middle'; it is on small, paper"),
        (["plane", "--rounds", "9"], "error: plane is not trained in rounds; leave --rounds 9 out"),
        (["plane", "--device", "cuda"], "error: plane is computed on the CPU only; leave --device cuda out"),
        (["ima", "--scale", "paper"], "error: cifar-10 needs path=FOLDER, the folder of its files"),
        (
            ["ima", "ordering", "--scale", "paper", "--path", "x"],
            "error: --path x is the folder of one data set; these miniatures have cifar-10, fashion-mnist:32",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    result = command(*arguments)
    assert result.exit_code == 2 and message in result.stderr and "Traceback" not in result.output


def test_page_and_numbers_come_from_the_same_cells(tmp_path, monkeypatch):
    miniature = toy(lambda keys, seed: {"score": 50 + keys["effect"] * (3 + 0.5 * (-1) ** seed)}, seeds=4)
    monkeypatch.setattr("experiments.miniatures.catalogue", lambda: {"toy": miniature})
    result = command("toy", "--out", tmp_path / "cells", "--markdown", tmp_path / "a.md", "--csv", tmp_path / "a.csv")
    assert result.exit_code == 0, result.output
    assert "toy 8/8: more, seed 3: score 52.5" in result.stderr and not result.stdout
    text = (tmp_path / "a.md").read_text()
    assert "`ntkfl miniature toy --out cells --markdown a.md`" in text and str(tmp_path) not in text
    assert "| more | 53.00 ± 0.29 | +3.00 ± 0.29 | higher |" in text
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [float(row["difference"]) for row in rows[1:]] == [3.0] and rows[0]["difference"] == ""
    assert rows[1]["seeds"] == "4" and rows[1]["finding"] == "higher"
    assert (
        text.rstrip()
        == results_page(
            [(miniature, run(miniature, range(4), tmp_path / "cells"))],
            "ntkfl miniature toy --out cells --markdown a.md",
        ).rstrip()
    )
    assert as_csv([(miniature, run(miniature, range(4)))]) == (tmp_path / "a.csv").read_text()


def test_scales_are_run_beside_each_other(tmp_path, monkeypatch):
    (small, _), (middle, _) = scaled_toy((1, -1))
    toys = {
        "toy": replace(small, larger={"middle": middle}),
        "other": replace(small, name="other", no_paper="no size"),
    }
    monkeypatch.setattr("experiments.miniatures.catalogue", lambda: toys)
    result = command("all", "--scale", "small", "--scale", "middle", "--out", tmp_path, "--csv", tmp_path / "a.csv")
    assert result.exit_code == 0, result.output
    assert "other is left out on the scale middle" in result.stderr
    assert "`ntkfl miniature all --scale small --scale middle --out" in result.stdout
    assert "## toy on two scales" in result.stdout and "[toy-middle](#toy-middle)" in result.stdout
    assert {path.parent.name for path in tmp_path.rglob("*.json")} == {"toy", "toy-middle", "other"}
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert {row["miniature"] for row in rows} == {"toy", "toy-middle", "other"}
    assert "other is left out on the scale paper: no size" in command("all", "--scale", "paper").stderr


def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch):
    miniature, _ = counting(fails_at=1)
    monkeypatch.setattr("experiments.miniatures.catalogue", lambda: {"toy": miniature})
    result = command("toy", "--out", tmp_path / "cells", "--markdown", tmp_path / "a.md")
    assert result.exit_code == 128 + signal.SIGINT and "what is done is kept in" in result.stderr
    assert not (tmp_path / "a.md").exists() and len(list(tmp_path.rglob("*.json"))) == 1


def test_a_picture_is_put_beside_the_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(plane, "POINTS", 5)
    small = replace(plane.MINIATURE, quick=TINY)
    monkeypatch.setattr("experiments.miniatures.catalogue", lambda: {"plane": small})
    result = command("plane", "--quick", "--seeds", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert b"prefers-color-scheme:dark" in (tmp_path / "plane" / "plane.svg").read_bytes()
    assert len(list((tmp_path / "plane").glob("*.json"))) == len(plane.MINIATURE.settings)


def test_the_line_to_imas_model_begins_and_ends_at_the_models_of_the_runs():
    """The line to IMA's model begins and ends at the models of the two runs.

    In the second run clients do not start from the mean of models. So the model of this run is the mean of the last
    five models of the first run.
    """
    settings = {setting.name: tiny(catalogue()["ima-line"], setting) for setting in catalogue()["ima-line"].settings}
    keys = {name: {**of, "rounds": 7} for name, of in settings.items()}
    plain, averaged = (trained(keys[name], 1) for name in ("FedAvg", "FedAvg, mean of its last five"))
    models = [trained({**keys["FedAvg"], "rounds": rounds}, 1).params for rounds in range(3, 8)]
    mean = tree_map(lambda *rows: torch.stack(rows).mean(0), *models)
    for name, value in mean.items():
        torch.testing.assert_close(averaged.params[name], value, rtol=0, atol=1e-6)
    for name, done in (("FedAvg", plain), ("FedAvg, mean of its last five", averaged)):
        measured = catalogue()["ima-line"].measure(keys[name], 1)
        assert measured["test loss"] == done.metrics["test_loss"][-1] and measured["above the lowest"] >= 0
        assert measured["test error"] == pytest.approx(100 * (1 - done.metrics["test_accuracy"][-1]))


def test_kept_pictures_are_there_and_small():
    for miniature in catalogue().values():
        if miniature.picture:
            picture = (Path(__file__).parents[2] / miniature.picture).read_bytes()
            assert len(picture) < 150_000 and miniature.draw
            assert f"]({miniature.picture})" in results_page([(miniature, [])], "")


def test_the_kept_page_shows_pictures_that_are_there_and_names_its_miniatures():
    root = Path(__file__).parents[2]
    text = (root / "RESULTS.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\((docs/[^)]+)\)", text)
    for picture in shown:
        file = root / picture
        assert file.stat().st_size < 150_000, picture
    labels = {other.label for miniature in catalogue().values() for other in (miniature, *miniature.larger.values())}
    named = set(re.findall(r"^\| \[([a-z-]+)\]\(#", text, re.M))
    assert named and named <= labels and all(f"\n## {label}\n" in text for label in named)
    drawn = re.findall(r"as `ntkfl miniature ([a-z-]+)(?: --scale (\w+))? --out DIR` draws it in `DIR/([a-z-]+)/", text)
    assert len(drawn) == len(shown)
    assert all(catalogue()[name].on(scale or "small").label == label for name, scale, label in drawn)


def test_what_is_omitted_is_said():
    text = results_page([], "ntkfl miniature all")
    assert "- IMA, Figure 5(a): a drawing that explains the method; nothing is measured in it.\n" in text
    assert all(f"`ntkfl miniature {name} --out DIR`" in text for name in catalogue())
    one = catalogue()["clients"]
    assert "`ntkfl miniature clients --out DIR`" not in results_page([(one, [])], "")


def test_cells_are_whole_or_not_there(tmp_path, monkeypatch):
    """A result that a process writes while it dies leaves no file that a later run would read."""
    miniature, _ = counting()

    monkeypatch.setattr(cell_store.os, "replace", Mock(side_effect=OSError(28, "no space left on device")))
    with pytest.raises(OSError, match="no space left"):
        run(miniature, range(1), tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
