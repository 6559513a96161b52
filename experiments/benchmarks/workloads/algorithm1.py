"""Rounds of Algorithm 1, against an autograd loop and against simulators of federated learning.

Clients have equal numbers of samples, and take five full-batch steps a round.

The amount of work depends on the step size, since a larger step turns more neurons on or off. With N = 10 clients, one
neuron in seven hundred may turn on or off at a given sample in a round of step size 1/500. At step size 1/20 one neuron
in thirty may.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows

ROUNDS, STEPS = 4, 5
IN_SINGLE = 1e-5  # error allowed to float32, relative to the largest output


def _given(sizes: Sizes):
    from ntkfl.initialisation import draw

    n, rng = sizes["n"], np.random.default_rng(1)
    owner = np.arange(n) % sizes["N"]
    return unit_rows(n, sizes["d"]), rng.choice([-1.0, 1.0], n), owner, draw(sizes["m"], sizes["d"], 0)


def _simulated(sizes: Sizes, **options) -> Call:
    from ntkfl import Problem, Setup, simulate

    x, y, owner, weights = _given(sizes)
    setup = Setup(width=sizes["m"], eta_local=1 / sizes["1/eta"], eta_global=1.0, local_steps=STEPS, rounds=ROUNDS)
    problem = Problem(x, y, owner)
    return lambda: simulate(problem, setup, weights, **options).outputs[-1]


_fast = partial(_simulated, movements=False, compiled=True)


def _engine(sizes: Sizes) -> Call:
    """The training engine, in float32."""
    import torch

    from ntkfl import Problem
    from ntkfl.training.engine.federation import Federation
    from ntkfl.training.engine.local_plan import LocalWork
    from ntkfl.training.federated_data import FederatedData
    from ntkfl.training.methods import fl_ntk
    from ntkfl.training.models.two_layer import ntk_network
    from ntkfl.training.schedules import Exponential

    x, y, owner, weights = _given(sizes)
    data, rate = FederatedData.from_problem(Problem(x, y, owner), torch.float32), Exponential(1 / sizes["1/eta"])
    work = LocalWork(batch_size=None, steps=STEPS)
    run = Federation(ntk_network(weights, torch.float32), data, fl_ntk.method(), rate, work=work)
    return lambda: run.model.outputs([*islice(run.states(), ROUNDS + 1)][-1].model, run.data.x).numpy()


def _loop(sizes: Sizes, dtype: str = "float64") -> Call:
    """A loop over the clients, in which autograd computes the gradients."""
    import torch

    x, y, owner, weights = _given(sizes)
    given = partial(torch.tensor, dtype=getattr(torch, dtype))
    signs = given(weights.signs) / len(weights.signs) ** 0.5
    clients = [(given(x[owner == c]), given(y[owner == c])) for c in range(sizes["N"])]

    def outputs(u):
        return (torch.relu(given(x) @ u.T) @ signs).numpy()

    def work():
        u = given(weights.hidden)
        for _ in range(ROUNDS):
            change = torch.zeros_like(u)
            for rows, labels in clients:
                w = u.clone().requires_grad_(True)
                for _ in range(STEPS):
                    (slope,) = torch.autograd.grad(((torch.relu(rows @ w.T) @ signs - labels) ** 2).sum() / 2, w)
                    with torch.no_grad():
                        w -= slope / sizes["1/eta"]
                change += w.detach() - u
            u = u + change / len(clients)
        return outputs(u)

    return work


def _by_simulator(script: str) -> Callable[[Sizes], Call]:
    """A federated simulator that runs in another environment, in float32.

    The time of a round is the median over all rounds but the first.
    """

    def build(sizes: Sizes) -> Call:
        from experiments.benchmarks.elsewhere import timed_there

        x, y, owner, weights = _given(sizes)
        scale = weights.signs / np.sqrt(len(weights.signs))
        arrays = {"x": x, "y": y, "hidden": weights.hidden, "scale": scale, "rate": np.array(1 / sizes["1/eta"])}
        given = {name: array.astype(np.float32) for name, array in arrays.items()}
        given |= {"owner": owner, "local_steps": np.array(STEPS)}

        def work():
            timed = timed_there(script, given, ROUNDS, counted=ROUNDS)
            outputs = np.maximum(x @ timed.result.T, 0) @ scale
            return timed._replace(result=outputs)

        return work

    return build


WORKLOAD = Workload(
    name="algorithm1",
    says=f"{ROUNDS} rounds of Algorithm 1, n samples of d features, m neurons, N clients, {STEPS} local steps of eta",
    sizes=(
        {"n": 1000, "d": 32, "m": 4096, "N": 10, "1/eta": 500},
        {"n": 1000, "d": 32, "m": 4096, "N": 100, "1/eta": 500},
        {"n": 1000, "d": 784, "m": 4096, "N": 100, "1/eta": 500},
        {"n": 1000, "d": 32, "m": 4096, "N": 10, "1/eta": 20},
        {"n": 1000, "d": 32, "m": 4096, "N": 100, "1/eta": 20},
    ),
    candidates=(
        Candidate("ntkfl", _fast, "ours"),
        Candidate("ntkfl, with movements", _simulated, "also ours"),
        Candidate("ntkfl, float32", partial(_fast, dtype="float32"), "also ours", tolerance=IN_SINGLE),
        Candidate("ntkfl train, float32", _engine, "also ours", tolerance=IN_SINGLE),
        Candidate("autograd loop", _loop),
        Candidate("autograd loop, float32", partial(_loop, dtype="float32"), tolerance=IN_SINGLE),
        *(
            Candidate(peer, _by_simulator(f"rounds_by_{peer}"), peer=peer, most={"d": 32}, tolerance=IN_SINGLE)
            for peer in ("pfl", "flower", "fedjax")
        ),
    ),
    along="N",
    tolerance=1e-9,
)
