"""Tests of the configuration of a run: some defaults depend on other keys, and bad values are refused.

The error messages say how to correct bad values.
"""

import pytest

from ntkfl.training.config import RunConfig, checked, read_toml
from ntkfl.training.run_folder import as_toml


def refused(given, *words):
    with pytest.raises(ValueError) as caught:
        checked(given)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "pydantic" not in message and "\n" not in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"eta_local": 0.1}, ["no key 'eta_local': the clients' step is rate here"]),
        ({"eta_global": 1.0}, ["no key 'eta_global': the server's step is server_rate here"]),
        ({"momentm": 0.9}, ["no key 'momentm'", "Did you mean 'momentum'?"]),
        ({"local-step": 3}, ["Did you mean 'local_steps'?"]),
        ({"momentum": 1.0}, ["momentum is 1.0", "less than 1"]),
        ({"rounds": -1}, ["rounds is -1", "greater than or equal to 0"]),
        ({"rounds": 2.5}, ["rounds is 2.5", "integer"]),
        ({"clients": True}, ["clients is True", "integer"]),
        ({"batch_size": 0}, ["batch_size is 0", "greater than or equal to 1 or 'full'"]),
        ({"batch_size": "ful"}, ["batch_size is 'ful'", "'full'"]),
        ({"rate": float("nan")}, ["rate is nan", "finite"]),
        ({"participation": 0.0}, ["participation is 0.0", "greater than 0"]),
        ({"dtype": "float16"}, ["dtype is 'float16'", "'float32' or 'float64'"]),
        ({"options": [1]}, ["options is [1]", "dictionary"]),
        ({"epochs": 2, "local_steps": 3}, ["epochs is 2 and local_steps 3", "give one"]),
        ({"optimizer": "adam", "momentum": 0.9}, ["momentum is 0.9", "Adam has none"]),
        ({"ima_window": 3}, ["ima_window is 3 without ima", "add ima"]),
        ({"ima_start": 0.75}, ["ima_start is 0.75", "integer"]),
        ({"rate": 1e300}, ["rate is 1e+300", "less than or equal to 1"]),
        ({"seed": 2**70}, ["seed is 1180591620717411303424", "less than"]),
        ({"ima": True, "ima_start": 1.5}, ["ima_start is 1.5", "integer"]),
        ({"rounds": 0.5, "momentum": -1.0}, ["rounds is 0.5", "momentum is -1.0"]),
    ],
)
def test_refused(given, words):
    refused(given, *words)


def test_algorithm_1_has_the_paper_s_setting():
    config = checked({"method": "fl-ntk"})
    assert (config.batch_size, config.reduction, config.target, config.unit) == ("full", "sum", "sign", True)
    assert config.local_steps == 2 and config.epochs is None and config.momentum == 0
    assert checked({"method": "fl-ntk", "epochs": 3}).local_steps is None
    assert checked({"method": "fl-ntk", "local_steps": 7}).local_steps == 7


def test_defaults_depend_on_data_and_optimizer():
    assert checked({}).model == checked({"data": "mine.csv"}).model == "mlp"
    assert checked({"data": "fashion-mnist:14"}).model == "simple-cnn"
    assert checked({"data": "rte"}).model == "minilm-lora"
    assert checked({"data": "fashion-mnist", "model": "mlp:8"}).model == "mlp:8"
    assert checked({"optimizer": "adam"}).rate != checked({}).rate == checked({"optimizer": "sgd"}).rate
    assert checked({"optimizer": "adam", "rate": 1}).rate == 1.0 and checked({"optimizer": "adam"}).momentum == 0


def test_a_share_of_the_rounds_becomes_a_round():
    assert checked({"ima": True, "rounds": 8}).ima_start == 6
    assert checked({"ima": True, "rounds": 8, "ima_start": 0.5}).ima_start == 4
    assert checked({"ima": True, "rounds": 8, "ima_start": 0.0}).ima_start == 0
    assert checked({"ima": True, "rounds": 8, "ima_start": 3}).ima_start == 3


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"method": "fl-ntk", "path": 'a "quoted" \\ path, Größe'},
        {"method": "fedgucci", "options": {"beta": 1e-30, "step": "joint", "released": False}, "ima": True},
    ],
)
def test_a_configuration_is_complete_and_survives_toml(given, tmp_path):
    config = checked(given)
    assert checked(config.model_dump()) == config
    (tmp_path / "config.toml").write_text(as_toml(config.model_dump()), encoding="utf-8")
    assert checked(read_toml(tmp_path / "config.toml")) == config


def test_toml_that_is_none(tmp_path):
    (tmp_path / "config.toml").write_text("rounds = = 3")
    with pytest.raises(ValueError, match=r"config.toml is not TOML.*line 1"):
        read_toml(tmp_path / "config.toml")
    with pytest.raises(FileNotFoundError):
        read_toml(tmp_path / "nothing.toml")


def test_nothing_can_be_changed_afterwards():
    with pytest.raises(ValueError, match="frozen"):
        checked({}).rounds = 3
    assert "model" in RunConfig.model_fields
