"""Methods with losses, gradients or servers of their own equal plain loops, for any grouping of the clients."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tiny_federations import case_of, flat, models, network, on_classes, rows, states

from ntkfl.conformance import split_loops as loops
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.optimizers import SGD

FA = {"strength": 0.3, "anchor_momentum": 0.4, "calibration_rate": 0.05}
GUCCI = {"beta": 0.7, "anchors": 2}
PLUS = {"tau": 0.5, "rho": 0.1}
CASES = {
    "moon": ("moon", {"mu": 2.0, "temperature": 0.7}),
    "moon-released": ("moon", {"mu": 2.0, "temperature": 0.7, "released": True}),
    "fedrod": ("fedrod", {"gamma": 0.8}),
    "fedlc": ("fedlc", {"tau": 0.5}),
    "fedsam": ("fedsam", {"rho": 0.2}),
    "fedasam": ("fedasam", {"rho": 0.5, "eta": 0.1}),
    "fedfa": ("fedfa", FA),
    "fedfa-present": ("fedfa", FA | {"anchor_avg": "present_only", "calibrate_from": 1}),
    "fedfa-released": ("fedfa", FA | {"released": True}),
    "gucci": ("fedgucci", GUCCI),
    "gucci-gauss2": ("fedgucci", GUCCI | {"alpha": "gauss2"}),
    "gucci-released": ("fedgucci", GUCCI | {"released": True}),
    "gucci-sequential": ("fedgucci", GUCCI | {"step": "sequential"}),
    "gucci-client": ("fedgucci", GUCCI | {"anchor_history": "client"}),
    "gucci+": ("fedgucci+", GUCCI | PLUS),
    "gucci+released": ("fedgucci+", GUCCI | PLUS | {"released": True}),
}
WORK = LocalWork(batch_size=3)
each_case = pytest.mark.parametrize("case", CASES)


def lacking_classes():
    """Clients of different sizes; two lack a class, one of them the class of sample 0 (which padding repeats)."""
    labels = [[0, 1, 2, 0], [1, 2], [0, 0, 1, 2, 2], [0, 0, 2]]
    y, owner = np.concatenate(labels), np.repeat(np.arange(4), [len(own) for own in labels])
    x = np.random.default_rng(5).standard_normal((len(y), 4)) + y[:, None]
    return FederatedData(torch.tensor(x), torch.tensor(y), owner, 4, classes=3)


def at(case, **changes):
    method, options = CASES[case]
    return on_classes(method, options=options, data=lacking_classes(), **changes)


@pytest.mark.kind("equals a plain loop")
@each_case
@pytest.mark.parametrize("optimizer, participation", [(SGD(), 1.0), (SGD(0.9, 1e-2), 0.75)], ids=["plain", "momentum"])
def test_equals_the_plain_loop_however_clients_are_grouped(case, optimizer, participation):
    run, options = at(case, optimizer=optimizer, participation=participation), CASES[case][1]
    expected = loops.LOOPS[run.method.name](case_of(run, 3, options), **options)
    alone, grouped = (states(replace(run, at_once=at_once), 3)[1:] for at_once in (1, 2))
    for state, kept, other in zip(grouped, expected, alone, strict=True):
        assert np.abs(flat(state.model) - kept.pop("model")).max() < 1e-10
        assert np.abs(flat(state.model) - flat(other.model)).max() < 1e-12
        for name, value in kept.items():
            if name == "anchors":
                assert np.abs(state.server["anchors"].numpy() - value).max() < 1e-10
            else:  # all other values are kept by clients
                (own,) = state.clients["rule"].values()
                seen = state.seen.numpy()
                assert np.abs(rows(own)[seen] - value[seen]).max() < 1e-10 and not value[~seen].any()


@pytest.mark.kind("float32")
@each_case
def test_is_the_same_in_single_precision_but_for_rounding(case):
    run = at(case, work=WORK)
    double = models(run, 2)
    assert np.abs(double - fed_avg()).max() > 1e-4
    single = replace(run, model=network(torch.float32), data=run.data.to("cpu", torch.float32))
    for at_once in (1, 4):
        state = states(replace(single, at_once=at_once), 2)[-1]
        assert all(value.dtype == torch.float32 for value in state.model.values())
        assert np.abs(flat(state.model) - double[-1]).max() < 1e-4


@cache
def fed_avg():
    return models(on_classes("fedavg", data=lacking_classes(), work=WORK), 2)
