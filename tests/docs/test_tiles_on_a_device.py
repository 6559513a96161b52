"""Tests of the script that a machine with a GPU runs: here the CPU takes the GPU's place, with few samples."""

import json

import numpy as np
import tiles_on_a_device as script

from ntkfl.gram.remote_tiles import DeviceTiles


def test_the_script_measures_and_compares(capsys):
    assert script.main(["cpu", "90", "--rounds", "5"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["n"] == 90 and row["product"] > 0 and row["product_off"] <= 1 and row["residual_off"] <= 1
    assert [row[method]["round"] for method, _ in script.METHODS] == [5] * 3


def test_a_device_that_multiplies_wrongly_is_told(monkeypatch, capsys):
    product = DeviceTiles.__matmul__
    monkeypatch.setattr(DeviceTiles, "__matmul__", lambda tiles, v: product(tiles, v.astype(np.float32)) * (1 + 1e-6))
    assert script.main(["cpu", "90", "--rounds", "5"]) == 1
    assert json.loads(capsys.readouterr().out)["product_off"] > 1
