"""Tests of adapters that yield the same state object after every round and change it later.

The state is copied at once, or an error says what to do.
"""

import pytest

from ntkfl.conformance import Agreement, conformance

START = """
import numpy as np
import torch


def end(case, w, t, i):
    velocity, w = np.zeros_like(w), w.copy()
    for x, y, _, _ in case.batches(t, i):
        velocity = case.momentum * velocity + case.gradient(w, x, y) + case.weight_decay * w
        w -= case.rates[t] * velocity
    return w


def mean(case, w, t):
    clients = case.cohort(t)
    n = sum(case.sizes[i] for i in clients)
    return w + case.options["server_rate"] * sum(case.sizes[i] / n * (end(case, w, t, i) - w) for i in clients)


def run(case):
    if case.clip is not None:
        raise NotImplementedError("no clipping")
"""
KINDS = {
    "one vector": """
    w = case.start.copy()
    for t in range(case.rounds):
        w[:] = mean(case, w, t)
        yield case.tensors(w)
""",
    "a state_dict": """
    model = torch.nn.Module()
    for name, value in case.tensors(case.start).items():
        *path, last = name.split(".")
        place = model
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
        place.register_parameter(last, torch.nn.Parameter(torch.tensor(value)))
    for t in range(case.rounds):
        found = case.tensors(mean(case, case.flat(model.state_dict()), t))
        model.load_state_dict({name: torch.tensor(value) for name, value in found.items()})
        yield model.state_dict()
""",
    "one dictionary": """
    kept = case.tensors(case.start)
    for t in range(case.rounds):
        kept.update(case.tensors(mean(case, case.flat(kept), t)))
        yield kept
""",
}
OTHERS = ("a state_dict", "one dictionary")
LISTED = """
    def rounds():
        w = case.start.copy()
        for t in range(case.rounds):
            w[:] = mean(case, w, t)
            yield case.tensors(w)

    return list(rounds())
"""


def fed_avg(text, tmp_path):
    (tmp_path / "adapter.py").write_text(START + text)
    return conformance(tmp_path / "adapter.py", ["fedavg"]).methods[0]


@pytest.mark.parametrize("kind", ["one vector", *(pytest.param(k, marks=pytest.mark.slow) for k in OTHERS)])
def test_what_is_yielded_is_taken_as_it_is_then(kind, tmp_path):
    judgement = fed_avg(KINDS[kind], tmp_path)
    assert {case.outcome for case in judgement.cases} == {Agreement.EQUAL, Agreement.LEFT_OUT}


def test_a_list_of_one_memory_is_no_answer_and_it_is_said_why(tmp_path):
    judgement = fed_avg(LISTED, tmp_path)
    assert judgement.outcome is Agreement.FAILED and judgement.explained == ()
    failed = [case for case in judgement.cases if case.outcome is Agreement.FAILED]
    assert len(failed) > 8 and all("is the same memory in every round" in case.remark for case in failed)
    assert "yield the rounds, or copy the arrays of each" in failed[0].remark


@pytest.mark.slow
def test_what_it_says_to_do_works(tmp_path):
    copied = LISTED.replace("yield case.tensors(w)", "yield case.tensors(w.copy())")
    for text in (copied, LISTED.replace("return list(rounds())", "yield from rounds()")):
        assert {case.outcome for case in fed_avg(text, tmp_path).cases} == {Agreement.EQUAL, Agreement.LEFT_OUT}
