"""Federations small enough to compute by hand: a network on classes, and linear regression, whose loss is quadratic."""

import numpy as np
import torch

from ntkfl.conformance import plan
from ntkfl.conformance.plan import DrawnData
from ntkfl.training.engine.federation import Federation
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import build
from ntkfl.training.model import Model, from_modules
from ntkfl.training.objectives import CrossEntropy, HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential

SIZES = (5, 3, 9, 4, 7)  # The clients' numbers of samples differ on purpose.
FEATURES = 3


def classes(sizes=SIZES, clients=None, seed=0):
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x, y = rng.standard_normal((len(owner), 4)), rng.integers(0, 3, len(owner))
    return FederatedData(torch.tensor(x), torch.tensor(y), owner, clients or len(sizes), classes=3)


def network(dtype=torch.float64):
    def make():
        return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh()), torch.nn.Linear(5, 3)

    return from_modules("tanh network", make, dtype, "cpu")


def line(features=FEATURES):
    """Returns the model f(x) = w . x, which starts from a random w."""

    def initial(seed):
        return {"w": torch.tensor(np.random.default_rng(seed).standard_normal(features))}

    return Model("line", initial, lambda params, x: x, lambda params, z: z @ params["w"])


def regression(sizes=SIZES, seed=1, spread=0.2, distance=1.0):
    """Returns linear regressions whose Hessians have eigenvalues in 1 -+ spread, and whose optima are about `distance`
    apart.
    """
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for size in sizes:
        columns = np.linalg.qr(rng.standard_normal((size, FEATURES)))[0]
        turn = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
        x = np.sqrt(size) * columns * np.sqrt(rng.uniform(1 - spread, 1 + spread, FEATURES)) @ turn
        xs.append(x)
        ys.append(x @ (distance * rng.standard_normal(FEATURES)) + 0.1 * rng.standard_normal(size))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return FederatedData(torch.tensor(np.concatenate(xs)), torch.tensor(np.concatenate(ys)), owner, len(sizes))


def quadratics(data):
    """Returns H_i and b_i, (M, d, d) and (M, d), of F_i(w) = w.H_i w / 2 - b_i.w + const.

    F_i is the mean of halved squares of client i.
    """
    parts = [(data.x.numpy()[rows], data.y.numpy()[rows]) for rows in data.members()]
    return np.array([x.T @ x / len(y) for x, y in parts]), np.array([x.T @ y / len(y) for x, y in parts])


def optimum(data, weights):
    """Returns the minimiser of sum_i weights_i F_i."""
    hessians, linear = quadratics(data)
    return np.linalg.solve(np.einsum("i,ijk", weights, hessians), weights @ linear)


def on_classes(method="fedavg", rate=0.2, decay=0.9, **changes):
    options = changes.pop("options", {})
    given = {"work": LocalWork(epochs=2, batch_size=3), "optimizer": SGD(0.9, 1e-2), "seed": 3, "data": classes()}
    schedule = Exponential(rate, decay)
    return Federation(network(), method=build(method, CrossEntropy(), **options), schedule=schedule, **given | changes)


def on_quadratics(method="fedavg", rate=0.1, steps=5, **changes):
    """Returns a run of a method, by default with full batches, a constant rate and no momentum."""
    options, objective = changes.pop("options", {}), changes.pop("objective", HalfSquares())
    given = {"work": LocalWork(batch_size=None, steps=steps), "seed": 3, "data": regression()}
    given |= {"schedule": Exponential(rate), "model": line()}
    return Federation(method=build(method, objective, **options), **given | changes)


def flat(params):
    """Returns all parameters as one vector, (P,)."""
    return np.concatenate([value.numpy().ravel() for value in params.values()])


def rows(stacked):
    """Returns parameters that are stacked over clients as one vector for each client, (clients, P)."""
    return np.concatenate([value.numpy().reshape(len(value), -1) for value in stacked.values()], axis=1)


def states(run, rounds, start=None):
    """Returns the states after 0, 1, ..., `rounds` rounds."""
    history = [run.start(start)]
    for _ in range(rounds):
        history.append(run.round(history[-1]).state)
    return history


def models(run, rounds):
    """Returns the server's models after 1, ..., `rounds` rounds, (rounds, P)."""
    return np.array([flat(state.model) for state in states(run, rounds)[1:]])


def case_of(run, rounds, options=None):
    """Returns the run as the case that a plain loop trains; participants and samples are drawn as in the engine."""
    start = {name: value.numpy() for name, value in run.model.initial(run.seed).items()}
    loss = getattr(run.method.objective, "reduction", "mean")
    setting = plan.Setting(
        DrawnData("line" if "w" in start else "network"),
        run.schedule.rate,
        run.work,
        run.schedule.decay,
        run.optimizer.momentum,
        run.optimizer.weight_decay,
        run.optimizer.clip,
        run.participation,
        loss,
        run.seed,
    )
    data = (run.data.x.numpy(), run.data.y.numpy(), run.data.owner), start
    return plan.case(
        run.method.name, options or {}, setting, rounds, data=data, clients=run.data.clients, draws=run.method.draws
    )


def fixed_point(run):
    """Returns the fixed point of a round, and the spectral radius of the round's linear part.

    The round must be affine in "w" and have no state.
    """

    def after(w):
        return flat(run.round(run.start({"w": torch.tensor(w)})).state.model)

    features = run.data.x.shape[1]
    constant = after(np.zeros(features))
    linear = np.stack([after(column) - constant for column in np.eye(features)], axis=1)
    return np.linalg.solve(np.eye(features) - linear, constant), np.abs(np.linalg.eigvals(linear)).max()
