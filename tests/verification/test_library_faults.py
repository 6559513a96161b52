"""Tests of faults that are planted in the library, in one function each.

A fault is planted in every module that imported the function, and is removed from these modules afterwards. Each fault
must change the verdict on a statement.
"""

import json
import sys
from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
from typed import command

from bounds import catalogue, get
from bounds.cases.snapshot import snapshot
from bounds.fl_ntk import change_of_outputs
from bounds.fl_ntk.exact_update import WAYS
from ntkfl import gram
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.gram import finite_width
from ntkfl.initialisation import draw
from ntkfl.limit import infinite_width
from ntkfl.problem import Problem, Setup
from verification.planted_faults import planted_faults
from verification.planted_faults.fault import PlantedFault, changed, times
from verification.planted_faults.noticing import Noticed, library_markdown, library_totals, noticed, unnoticed
from verification.planted_faults.planting import planted

LOCAL = "ntkfl.gram.finite_width:local_gram"
REGIME = "ntkfl.limit.infinite_width:KernelRegime"
PROBLEM = Problem(np.eye(2), np.array([1.0, -0.5]))
CHEAP = "fl-ntk/H-inf"


def same(right):
    return lambda *args, **named: right(*args, **named)


def rounds():
    return kernel_regime(PROBLEM, Setup(eta_local=0.1, rounds=3)).round_map


# --- planting --------------------------------------------------------------------------------------------------------


def test_a_fault_is_wherever_the_function_was_imported_and_then_nowhere():
    right = finite_width.local_gram
    with planted(LOCAL, same):
        wrong = finite_width.local_gram
        assert wrong is not right
        assert gram.local_gram is wrong and change_of_outputs.gram.local_gram is wrong
        holders = [m for m in list(sys.modules.values()) if getattr(m, "__dict__", {}).get("local_gram") is right]
        assert [m for m in holders if m.__name__.startswith(("ntkfl", "bounds", "verification"))] == []
    assert finite_width.local_gram is right and gram.local_gram is right


LONG = {"tracking switches"}  # This fault needs seconds of compilation.


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LONG else ())
        for name in WAYS
        if name != "by the training engine"
    ],
)
def test_a_fault_of_simulate_reaches_every_way_to_run_it(name):
    seen = []

    def noted(right):
        def wrong(*args, **named):
            seen.append(name)
            return right(*args, **named)

        return wrong

    with planted("ntkfl.algorithm1.simulation:simulate", noted):
        WAYS[name](PROBLEM, Setup(width=8, rounds=1), draw(8, 2, 0))
    assert seen == [name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_is_taken_out_after_an_error_too(error):
    right, kept = finite_width.local_gram, vars(infinite_width.KernelRegime)["nu"]
    for function in (LOCAL, f"{REGIME}.nu"):
        with pytest.raises(error), planted(function, same):
            raise error
    assert finite_width.local_gram is right is gram.local_gram
    assert vars(infinite_width.KernelRegime)["nu"] is kept


def test_a_fault_that_cannot_be_made_changes_nothing():
    right = finite_width.local_gram

    with pytest.raises(TypeError, match="no such fault"), planted(LOCAL, Mock(side_effect=TypeError("no such fault"))):
        pass
    assert finite_width.local_gram is right is gram.local_gram


def test_a_module_first_imported_meanwhile_gets_the_right_function_back():
    module = "bounds.fl_ntk.change_of_outputs"
    right, known = finite_width.local_gram, sys.modules.pop(module)
    try:
        with planted(LOCAL, same):
            import bounds.fl_ntk.change_of_outputs as again  # This import happens while the fault is planted.

            again.mine = finite_width.local_gram
            assert again.mine is not right
        assert again.mine is right
    finally:
        sys.modules[module] = known


@pytest.mark.parametrize("name", ["nu", "rate", "step_limits", "round_map"])
def test_properties_of_every_kind_are_replaced(name):
    def of(name):
        return getattr(kernel_regime(PROBLEM, Setup(eta_local=0.1, rounds=3)), name)

    before = of(name)
    with planted(f"{REGIME}.{name}", times(2.0)):
        assert np.allclose(of(name), 2 * np.asarray(before), rtol=0, atol=0)
    assert np.array_equal(of(name), before)


def test_what_was_measured_before_is_forgotten():
    case = get("fl-ntk/Eq3-4").families_of(next(iter(get("fl-ntk/Eq3-4").forms)), _few())[1].case(0)
    kept = snapshot(case)
    with planted(LOCAL, changed(np.transpose)):
        assert snapshot(case) is not kept
        faulty = snapshot(case).grams().value
    assert not np.array_equal(faulty, snapshot(case).grams().value)


def _few():
    from bounds import Options

    return Options(trials=1, width=64)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("ntkfl.gram:no_such_function", AttributeError),
        ("ntkfl.no_such_module:f", ModuleNotFoundError),
        ("ntkfl.gram.finite_width:GRAM", AttributeError),
        ("ntkfl.gram.patterns:SINGLE", TypeError),
    ],
)
def test_what_is_no_function_is_refused(function, error):
    with pytest.raises(error), planted(function, same):
        pass


# --- noticing --------------------------------------------------------------------------------------------------------


def test_a_handful_of_faults_is_noticed_and_a_harmless_one_is_not():
    cheap = [mutant for mutant in planted_faults() if mutant.noticed_by == CHEAP]
    outcomes = noticed([*cheap, PlantedFault("nothing is wrong", LOCAL, same, "fl-ntk/counts")])
    assert len(cheap) >= 5
    assert [fault.name for fault in outcomes if fault.id is None] == ["nothing is wrong"]
    assert {fault.outcome for fault in outcomes[:-1]} == {"violated"}
    assert unnoticed(outcomes) == [f"{LOCAL}: no statement notices the fault 'nothing is wrong'"]
    assert library_totals(outcomes) == f"faults planted in the library: {len(cheap)}/{len(outcomes)} change a verdict"
    page = library_markdown(outcomes)
    assert page.count("\n| `ntkfl.") == len(outcomes) and "holds -> violated" in page


def test_the_two_faults_that_once_changed_no_verdict():
    """Two faults that once changed no verdict are noticed.

    One fault makes H(t,k) symmetric, and the other multiplies the clients' response by 1.0001.
    """
    wanted = {LOCAL: "symmetric: global patterns on both sides", f"{REGIME}._response": "the clients' response"}
    chosen = [m for m in planted_faults() if m.function in wanted and m.name.startswith(wanted[m.function])]
    outcomes = noticed(chosen)
    assert len(outcomes) == 2 and all(fault.outcome == "violated" for fault in outcomes)


def test_faults_are_of_many_functions_and_name_statements_that_exist():
    mutants = planted_faults()
    assert len(mutants) >= 25 and len({m.function for m in mutants}) >= 25
    assert {m.noticed_by for m in mutants} <= set(catalogue())
    assert max(Counter((m.function, m.name) for m in mutants).values()) == 1
    parts = ("gram", "infinite_width", "algorithm1", "neurons", "client_threads", "switch_tracking", "client_groups")
    for part in (*parts, "connectivity", "training"):
        assert any(part in m.function for m in mutants), part


def test_a_form_that_differs_without_the_fault_notices_nothing(monkeypatch):
    """If the verdict on a form differs from the record even without the fault, the form does not count as noticing the
    fault.

    With too few cases a form is untested, whether the library is right or not.
    """
    outcomes = noticed([PlantedFault("doubled", LOCAL, times(2.0), "fl-ntk/counts", trials=1)])
    assert outcomes == [Noticed("doubled", LOCAL)]


def test_an_interrupt_keeps_what_was_found():
    mutants = [PlantedFault("doubled", LOCAL, times(2.0), "fl-ntk/counts")] * 2
    assert [fault.outcome for fault in noticed(mutants, progress=Mock(side_effect=KeyboardInterrupt))] == ["violated"]


def test_the_command_plants_what_its_statements_stand_on(tmp_path):
    pages = tmp_path / "faults.json", tmp_path / "faults.md"
    arguments = ["verify", "--meta", "--library", "fl-ntk/counts", "--json", str(pages[0]), "--markdown", str(pages[1])]
    result = command(*arguments)
    assert result.exit_code == 0, result.output
    kept = json.loads(pages[0].read_text())["library"]
    own = [m for m in planted_faults() if m.noticed_by == "fl-ntk/counts"]
    assert [(fault["name"], fault["function"]) for fault in kept] == [(m.name, m.function) for m in own]
    assert {fault["id"] for fault in kept} == {"fl-ntk/counts"}
    assert f"{len(own)}/{len(own)} change a verdict" in result.output and "ties left out" in pages[1].read_text()
    refused = command("verify", "--library")
    assert refused.exit_code == 2 and "--library is a part of --meta" in refused.output


@pytest.mark.slow
def test_every_fault_of_the_library_changes_a_verdict():
    outcomes = noticed(planted_faults())
    assert unnoticed(outcomes) == []
