"""Tests of methods by name: each file is found, and options are understood or refused with a reason."""

import inspect
import pkgutil
from typing import Literal

import pytest

from ntkfl.training import methods
from ntkfl.training.method import Method
from ntkfl.training.methods import build, catalogue, fed_prox, fl_ntk, options
from ntkfl.training.objectives import CrossEntropy, HalfSquares

MINE = ("fedavg", "fl-ntk", "local", "fedprox", "feddyn", "scaffold", "fednova", "fedadam", "fedyogi", "fedgma")


def test_every_file_with_a_name_is_found():
    assert set(MINE) <= set(catalogue())
    assert catalogue()["fedprox"] is fed_prox and catalogue()["fl-ntk"] is fl_ntk
    files = [module.name for module in pkgutil.iter_modules(methods.__path__)]
    assert len(files) >= len(catalogue()) >= len(MINE)


@pytest.mark.kind("options")
@pytest.mark.parametrize("name", catalogue())
def test_a_method_is_built_by_its_name_and_carries_it(name):
    built = build(name, CrossEntropy())
    assert isinstance(built, Method) and built.name == name


@pytest.mark.kind("options")
@pytest.mark.parametrize("name", catalogue())
def test_a_methods_defaults_are_of_the_types_it_states(name):
    defaults = {key: option.default for key, option in options(name).items()}
    assert inspect.Parameter.empty not in defaults.values()
    build(name, CrossEntropy(), **defaults)


def test_options_reach_the_method():
    built = build("scaffold", CrossEntropy(), option="I", server_rate=2)
    assert built.local.needs_full_gradient and built.server.server_rate == 2
    assert built.options == {"option": "I", "server_rate": 2}
    assert build("fedgma", CrossEntropy(), mask="hard").options["threshold"] == 0.8  # .8 is the default threshold.
    assert options("scaffold")["option"].annotation == Literal["I", "II"]
    assert options("fedprox")["mu"].annotation is float and options("fedprox")["mu"].default == 0.01


@pytest.mark.parametrize("name, near", [("fedproxy", "fedprox"), ("FedAvg", "fedavg"), ("scafold", "scaffold")])
def test_an_unknown_method_is_refused_with_the_nearest(name, near):
    with pytest.raises(
        ValueError, match=f"there is no method '{name}'. Did you mean '{near}'\\? The methods are .*fedavg"
    ):
        build(name, CrossEntropy())
    with pytest.raises(ValueError, match=r"there is no method 'zzz'\. The methods are"):
        options("zzz")


def test_an_unknown_option_is_refused_with_the_nearest_and_the_known():
    with pytest.raises(ValueError, match=r"feddyn has no option 'alhpa'. Did you mean 'alpha'\? Its options are alpha"):
        build("feddyn", CrossEntropy(), alhpa=0.1)
    with pytest.raises(ValueError, match=r"local has no option 'mu'\. It has none"):
        build("local", CrossEntropy(), mu=0.1)


@pytest.mark.parametrize(
    "name, key, value, message",
    [
        ("fedprox", "mu", "0.1", "fedprox's option mu is '0.1'; it must be a finite number"),
        ("fedprox", "mu", True, "fedprox's option mu is True; it must be a finite number"),
        ("fedprox", "mu", float("nan"), "fedprox's option mu is nan; it must be a finite number"),
        ("feddyn", "alpha", float("inf"), "feddyn's option alpha is inf; it must be a finite number"),
        ("fedavg", "server_rate", None, "fedavg's option server_rate is None; it must be a finite number"),
        ("scaffold", "option", "III", "scaffold's option option is 'III'; it must be 'I' or 'II'"),
        ("fedgma", "mask", "none", "fedgma's option mask is 'none'; it must be 'soft' or 'hard'"),
        ("fedgma", "released", 1, "fedgma's option released is 1; it must be true or false"),
    ],
)
def test_a_value_of_another_type_is_refused(name, key, value, message):
    with pytest.raises(ValueError) as refused:
        build(name, CrossEntropy(), **{key: value})
    assert str(refused.value) == message


def test_optional_and_whole_options():
    assert methods._fits(3, int) and not methods._fits(3.0, int) and not methods._fits(True, int)
    assert methods._fits(None, float | None) and methods._fits(2, float | None) and not methods._fits("x", float | None)
    assert methods._described(float | None) == "a finite number or None"
    assert methods._described(int) == "a whole number" and methods._fits("x", str)


@pytest.mark.method("fl-ntk")
def test_only_fl_ntk_has_an_objective_of_its_own():
    assert build("fl-ntk").objective == HalfSquares("sum")
    with pytest.raises(ValueError, match="fedavg has no objective of its own; give one"):
        build("fedavg")
