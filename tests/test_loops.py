"""Tests of the loops of the packages: each has a named end, and can be interrupted before it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("ntkfl", "bounds", "verification", "experiments")

# `while` loops that need no check for interrupts, because they are short, wait for others, or are compiled. Each loop
# comes with its end.
SHORT = {
    "bounds/fl_ntk/movement_parts.py _linear_part": "the bits of the number of rounds",
    "experiments/formulas/latex.py _typed": "takes a part of the formula from its list at each turn",
    "experiments/formulas/latex.py typed": "joins two words of the formula at each turn",
    "ntkfl/algorithm1/switch_passes.py gather": "at most 64 turns: each clears a bit of a word",
    "ntkfl/algorithm1/switch_passes.py step": "once around a ring of entries, compiled",
    "ntkfl/conformance/driver.py main": "the folders of finished cases that are there",
    "ntkfl/conformance/kit.py _listen": "a thread that ends with the other process's pipe",
    "ntkfl/conformance/variants.py _passed": "each turn reaches functions that were not reached, of a file",
    "ntkfl/connectivity/units/walk.py resolved": "a chain of atoms, each joined to an earlier one",
    "ntkfl/connectivity/units/walk.py unite": "each turn takes a factor off two axes, or splits one",
    "ntkfl/connectivity/units/walk.py regrouped": "each turn takes a factor above 1 of a given size",
    "ntkfl/gram/device_counts.py summed_on_devices": "the pieces that are counted and waited for",
    "ntkfl/interruption.py _importing": "the frames of a stack",
    "ntkfl/interruption.py first": "each turn checks for interrupts, and halves a range",
    "ntkfl/limit/convex_regime.py _least": "20 halvings of a step, from 1 to 1e-6",
    "ntkfl/memory.py shown": "the units of memory, kB to PB",
    "ntkfl/smooth_networks/ntkfl_check_network.py arctan": "each term is a 25th of the one before, or less",
    "ntkfl/smooth_networks/ntkfl_check_network.py erf": "some 500 terms, then each is half of the one before, or less",
    "ntkfl/smooth_networks/ntkfl_check_network.py falling": "each term is a 32nd of the one before, or less",
    "ntkfl/smooth_networks/ntkfl_check_network.py log_of_one_and": "each term is a 9th of the one before",
    "ntkfl/smooth_networks/ntkfl_check_network.py sine": "some 500 terms, then each is half of the one before, or less",
    "ntkfl/training/datasets/glue.py encode": "each turn shortens a text by a token",
    "ntkfl/training/datasets/glue.py _pieces": "each turn takes a piece of a word",
    "ntkfl/training/engine/local_plan.py _batches": "each turn adds a pass to the steps of a client",
    "verification/engine.py _ahead": "the results that are waited for",
    "verification/false_alarms.py false_alarms": "BATCHES of seeds, each a run that can be interrupted",
    "verification/processes.py run": "the pieces of work that are waited for",
    "verification/workers/worker.py say": "the warnings that are to be told",
    "verification/workers/worker.py serve": "the work that is sent, until the other end is closed",
    "experiments/benchmarks/rounds_by_flower.py processor_seconds": "generations of processes",
    "experiments/commands/study.py axis_options": "each turn takes a word from a command line",
    "experiments/studies/runner.py run": "the cells that are left, until who holds one lets go of it",
    "experiments/studies/running/code_version.py _modules": "each turn takes a module, none of them twice",
    "experiments/studies/running/dask_cluster.py run": "the cells that are left or waited for",
    "experiments/studies/running/local_processes.py run": "the processes that are not yet started",
    "experiments/studies/running/worker.py main": "the work that is sent, until it says stop",
}

# `while True` loops, each with its end. If the loop is in a generator, the caller checks for interrupts.
ENDLESS = {
    "experiments/studies/whole_run.py measured_until": "the seeds double until the budget is spent",
    "ntkfl/algorithm1/switch_passes.py step": "once around a ring of entries",
    "ntkfl/algorithm1/switch_tracking.py train": "the reach doubles until too many neurons are within it",
    "ntkfl/any_order/certificate.py on_few_samples": "each turn keeps samples that the one before did not",
    "ntkfl/any_order/adversary.py run": "_Spent: each round takes one of the trials",
    "ntkfl/connectivity/paths/convex_path.py convex_supremum": "most_points, or no number between two points",
    "ntkfl/connectivity/paths/exact_roots.py rational_between": "bits double until two numbers are told apart",
    "ntkfl/gram/finite_width.py empirical": "each turn adds a parameter to those that are held whole",
    "ntkfl/gram/spectrum.py _by_cholesky": "the margin grows fourfold, up to the norm of the matrix and further",
    "ntkfl/interruption.py _listen": "a thread that ends with the process",
}


def loops(text):
    """Returns the function of every `while` in a text, whether it is `while True`, and whether it checks for an
    interrupt.
    """
    seen = []

    def visit(node, function):
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.While):
                body = "\n".join(map(ast.unparse, child.body))
                asks = "interruption.check()" in body
                generator = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(child))
                seen.append((inner, isinstance(child.test, ast.Constant) and not (generator and asks), asks))
            visit(child, inner)

    visit(ast.parse(text), "")
    return seen


@cache
def of_packages():
    return [
        (f"{path.relative_to(ROOT).as_posix()} {function}", endless, asks)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "while " in (text := path.read_text())
        for function, endless, asks in loops(text)
    ]


def test_every_while_loop_can_be_interrupted_or_is_known_to_be_short():
    deaf = {where for where, _, asks in of_packages() if not asks}
    new, gone = deaf - SHORT.keys() - ENDLESS.keys(), SHORT.keys() - deaf
    assert not new, f"give them interruption.check(), or add them to SHORT with their bound: {sorted(new)}"
    assert not gone, f"they are no such loops any more: {sorted(gone)}"


def test_every_endless_loop_has_a_named_end():
    endless = {where for where, endless, _ in of_packages() if endless}
    assert not (differ := endless ^ ENDLESS.keys()), f"ENDLESS names them with their end, and no others: {differ}"


def test_loops_are_found_as_they_are():
    text = "def f():\n while True:\n  g()\n while x:\n  if y:\n   interruption.check()\n  def h():\n   while z: pass"
    assert loops(text) == [("f", True, False), ("f", False, True), ("h", False, False)]
    assert loops("def g():\n while True:\n  interruption.check()\n  yield") == [("g", False, True)]
    assert loops("def g():\n while True:\n  yield") == [("g", True, False)]
