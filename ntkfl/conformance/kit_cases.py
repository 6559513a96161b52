"""The cases of the kit, method by method: how the method is trained, its options, and its limit cases.

The plain loop of a method is its reference implementation in `loops`, `split_loops` or `merging_loops`. In a limit case
the method equals a simpler computation exactly, such as gradient descent.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ntkfl.conformance import loops, merging_loops, plan, split_loops
from ntkfl.conformance.conformance_case import ConformanceCase
from ntkfl.conformance.plan import DrawnData, Setting
from ntkfl.messages import did_you_mean
from ntkfl.training import methods as trained
from ntkfl.training.engine.local_plan import LocalWork

Tensors = Iterator[dict[str, np.ndarray]]


def still(case: ConformanceCase) -> Tensors:
    """The start model after every round."""
    for _ in range(case.rounds):
        yield case.result(case.start)


def pooled_descent(case: ConformanceCase) -> Tensors:
    """One step of gradient descent a round, on the samples of all clients."""
    w = case.start
    for rate in case.rates:
        w = w - rate * (case.gradient(w, case.x, case.y) + case.weight_decay * w)
        yield case.result(w)


def one_client(case: ConformanceCase) -> Tensors:
    """The steps of the first client, in one round after the other."""
    w = case.start
    for number, rate in enumerate(case.rates):
        move = np.zeros_like(w)
        for batch in case.batches(number, 0):
            move = case.momentum * move - rate * (case.gradient(w, batch.x, batch.y) + case.weight_decay * w)
            w = w + move
        yield case.result(w)


def one_adam_w(case: ConformanceCase) -> Tensors:
    """The first client's AdamW, which is never reset.

    The moments of AdamW are weighted means of all gradients so far and of their squares.
    """
    w, seen = case.start, []
    first, second = case.options["first"], case.options["second"]
    for number, rate in enumerate(case.rates):
        for batch in case.batches(number, 0):
            seen.append(case.gradient(w, batch.x, batch.y))
            ages = np.arange(len(seen))[::-1]
            mean = np.average(seen, axis=0, weights=first**ages)
            square = np.average(np.square(seen), axis=0, weights=second**ages)
            w = (1 - rate * case.weight_decay) * w - rate * mean / (np.sqrt(square) + case.options["epsilon"])
        yield case.result(w)


def fed_avg(case: ConformanceCase) -> Tensors:
    """FedAvg, by its plain loop."""
    for kept in loops.fed_avg(case):
        yield case.result(kept["model"])


def mean_of_products(case: ConformanceCase) -> Tensors:
    """The base plus the mean of the clients' products B A, after a round."""
    clients = case.cohort(0)
    total = sum(case.sizes[i] for i in clients)
    own = case.tensors(case.start)
    update = np.zeros_like(own["base.weight"])
    for i in clients:
        end = case.tensors(loops.train(case, case.start, 0, i))
        update = update + case.sizes[i] / total * (end["lora_B"] @ end["lora_A"])
    yield {"weight": own["base.weight"] + update}


Trajectory = dict[str, np.ndarray]
ROUNDS = 4
MODULES = loops, split_loops, merging_loops


@dataclass(frozen=True, eq=False)
class KitCase:
    """A case and the values that an implementation of its method must give.

    Args:
        equals: in a limit case, the simpler computation of the model; None: the method's plain loop.
    """

    case: ConformanceCase
    equals: Callable[[ConformanceCase], Iterable[Mapping[str, np.ndarray]]] | None = None

    @cached_property
    def expected(self) -> Trajectory:
        """The values after rounds 1, 2, ... by name. They are the values of the model's tensors and of other state of
        the plain loop.
        """
        kept = trajectory(self.case, loops_of(self.case.method).run)
        return kept | trajectory(self.case, self.equals) if self.equals else kept

    @property
    def required(self) -> tuple[str, ...]:
        """The names that an adapter must return. Other names of `expected` are compared only if it returns them."""
        return (*self.case.results, *(("client_models",) if "client_models" in self.expected else ()))


def trajectory(
    case: ConformanceCase, run: Callable[[ConformanceCase], Iterable[Mapping[str, np.ndarray]]]
) -> Trajectory:
    """The values that `run` yields, by name, stacked over the rounds."""
    rounds = list(run(case))
    return {name: np.array([kept[name] for kept in rounds]) for name in rounds[0]}


def loops_of(method: str) -> Any:
    """The module whose `run` is the method's plain loop."""
    return next(module for module in MODULES if method in module.LOOPS)


SETTINGS = {
    "quadratics": Setting(DrawnData("line"), 0.1, LocalWork(1, 4)),
    "logistic": Setting(DrawnData("logistic"), 0.3, LocalWork(2, 3), 0.9, participation=0.6),
    "network": Setting(DrawnData("network"), 0.2, LocalWork(2, 3), 0.9, 0.9, 1e-2, participation=0.6),
}
INNER_ADAM_W = {  # with AdamW as inner optimizer the cases have no local momentum
    "quadratics": replace(SETTINGS["quadratics"], weight_decay=0.1),
    "logistic": replace(SETTINGS["logistic"], rate=0.05, momentum=0.0, clip=0.5),
    "network": replace(SETTINGS["network"], rate=0.03, momentum=0.0, weight_decay=0.2),
}
LACKING = DrawnData("network", lacking=True)
SPLIT = {
    "network-plain": Setting(LACKING, 0.2, LocalWork(2, 3)),
    "network": Setting(LACKING, 0.2, LocalWork(2, 3), 0.9, 0.9, 1e-2, participation=0.6),
}
ADAPTED = Setting(DrawnData("lora"), 0.2, LocalWork(3, 3), 0.9, 0.5, participation=0.6)
ADAPTERS = "fedex-lora", "fedit", "flexlora", "flora"
FURTHER = {
    "fedavg": {"clipped": replace(SETTINGS["logistic"], clip=0.5, weight_decay=0.2, momentum=0.5)},
    "fedavg-aligned": {  # with these steps the order of the hidden units changes
        "far": replace(SETTINGS["network"], rate=0.4, work=LocalWork(3, 3), momentum=0.8, participation=1.0)
    },
    "fl-ntk": {"quadratics": replace(SETTINGS["quadratics"], rate=0.02, loss="sum")},
}
INNER = {"first": 0.6, "second": 0.9, "epsilon": 1e-2}
ADAPTIVE = {"server_rate": 0.05, "first": 0.8, "second": 0.9, "tau": 1e-2}
ANCHORS = {"strength": 0.3, "anchor_momentum": 0.4, "calibration_rate": 0.05}
GUCCI = {"beta": 0.7, "anchors": 2, "alpha": "uniform", "step": "joint"}
AS_RELEASED = {"alpha": "half", "step": "sequential", "released": True}
PLUS = {"tau": 0.5, "rho": 0.1}
# For each method, one or more dicts of options. The key of such a dict is put before the name of the setting.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "cyclic": {"": {}, "server-rate-": {"server_rate": 0.7}},
    "diloco": {"": {"momentum": 0.8, "server_rate": 0.7}},
    "diloco-adamw": {"": {"momentum": 0.8, "server_rate": 0.7} | INNER},
    "dp-fedavg": {
        "": {"bound": 0.3, "noise": 0.2, "cap": 6.0},
        "even-": {"bound": 0.3, "noise": 0.2, "cap": 1.0},
    },
    "fedadagrad": {
        "": {"server_rate": 0.1, "first": 0.4, "tau": 1e-2},
        "plain-": {"server_rate": 0.1, "first": 0.0, "tau": 0.1},
    },
    "fedadam": {"": ADAPTIVE},
    "fedasam": {"": {"rho": 0.5, "eta": 0.1}},
    "fedavg": {"": {}, "server-rate-": {"server_rate": 0.7}},
    "fedavg-aligned": {"": {}, "server-rate-": {"server_rate": 0.7}},
    "fedavgm": {
        "": {"momentum": 0.6, "server_rate": 0.7},
        "nesterov-": {"momentum": 0.8, "nesterov": True, "server_rate": 0.7},
    },
    "feddyn": {"": {"alpha": 0.4}},
    "fedex-lora": {"": {}},
    "fedfa": {
        "": ANCHORS,
        "present-": ANCHORS | {"anchor_avg": "present_only", "calibrate_from": 1},
        "released-": ANCHORS | {"released": True},
    },
    "fedgma": {
        "": {"threshold": 0.6, "server_rate": 0.7},
        "hard-": {"threshold": 0.6, "mask": "hard", "server_rate": 0.7},
        "released-": {"threshold": 0.4, "released": True},
    },
    "fedgucci": {
        "": GUCCI,
        "gauss2-": GUCCI | {"alpha": "gauss2"},
        "client-": GUCCI | {"anchor_history": "client"},
        "released-": GUCCI | AS_RELEASED,
    },
    "fedgucci+": {"": GUCCI | PLUS, "released-": GUCCI | PLUS | AS_RELEASED},
    "fedit": {"": {}},
    "fedlc": {"": {"tau": 0.5}},
    "fednova": {"": {}, "proximal-": {"mu": 0.5}},
    "fedprox": {"": {"mu": 0.5}, "server-rate-": {"mu": 0.5, "server_rate": 0.7}},
    "fedrod": {"": {"gamma": 0.8}},
    "fedsam": {"": {"rho": 0.2}},
    "fedyogi": {"": ADAPTIVE},
    "flexlora": {"": {}},
    "flora": {"": {}},
    "fl-ntk": {"": {}, "server-rate-": {"server_rate": 1.3}},
    "local": {"": {}},
    "moon": {
        "": {"mu": 2.0, "temperature": 0.7},
        "released-": {"mu": 2.0, "temperature": 0.7, "released": True},
    },
    "scaffold": {"": {}, "server-rate-": {"server_rate": 0.8}, "option-I-": {"option": "I"}},
    "task-arithmetic": {"": {"scale": 0.4}},
    "ties": {
        "": {"density": 0.7, "scale": 0.8, "weighted": False},
        "weighted-": {"density": 0.7, "scale": 0.8, "weighted": True},
    },
}


def methods(chosen: Collection[str] | None = None) -> tuple[str, ...]:
    """All methods of the kit, or the chosen ones.

    Args:
        chosen: names of methods; None: all.

    Raises:
        ValueError: an unknown method; the message names the most similar one.

    Example:
        >>> from ntkfl.conformance import methods
        >>> methods(["fedavg"])
        ('fedavg',)
    """
    for name in chosen or ():
        if name not in OPTIONS:
            raise ValueError(
                f"the kit has no method {name!r}.{did_you_mean(name, OPTIONS)} Its methods are {', '.join(OPTIONS)}"
            )
    return tuple(name for name in OPTIONS if not chosen or name in chosen)


def cases(chosen: Collection[str] | None = None) -> tuple[KitCase, ...]:
    """The cases of the kit: for every method, or every chosen one, its cases and then its limit cases.

    Args:
        chosen: names of methods; None: all.

    Raises:
        ValueError: an unknown method.
    """
    return tuple(case for method in methods(chosen) for case in (*_ordinary(method), *_limits(method)))


def build(
    method: str, name: str, setting: Setting, given: Mapping[str, Any], limit: str = "", rounds: int = ROUNDS
) -> ConformanceCase:
    """The case with these options, and with the method's defaults for all others. The case lists every option."""
    # for methods that the training engine does not have, OPTIONS has every option
    known = trained.options(method) if method in trained.catalogue() else {}
    chosen = {key: option.default for key, option in known.items()} | dict(given)
    draws = chosen["anchors"] if chosen.get("alpha") == "uniform" else 0
    noise, full = "noise" in chosen, f"{method}/{name}"
    return plan.case(method, chosen, setting, rounds, name=full, limit=limit, draws=draws, noise=noise)


def _ordinary(method: str) -> Iterator[KitCase]:
    usual = SPLIT if method in split_loops.LOOPS else {"lora": ADAPTED} if method in ADAPTERS else SETTINGS
    usual = INNER_ADAM_W if method == "diloco-adamw" else usual
    settings = usual | FURTHER.get(method, {})
    for tag, given in OPTIONS[method].items():
        for name, setting in settings.items():
            yield KitCase(build(method, tag + name, setting, given))


WHOLE = LocalWork(batch_size=None, steps=1)
SEVERAL = LocalWork(batch_size=None, steps=3)
RAGGED = Setting(DrawnData("logistic"), 0.3, WHOLE, 0.9)
ALIKE = replace(RAGGED, data=DrawnData("logistic", (4, 4, 4)))
ALONE = Setting(DrawnData("network", (9,)), 0.2, LocalWork(2, 4), 0.9, 0.9, 1e-2)
COPIES = Setting(DrawnData("network", copies=3), 0.2, SEVERAL, 0.9, 0.9, 1e-2)
STILL = replace(SPLIT["network"], rate=0.0)
SAME_STEPS = replace(SPLIT["network"], work=SEVERAL)
FROZEN = {"server_rate": 0.5, "first": 0.0, "second": 1.0, "tau": 0.5}
NO_GUCCI = {"beta": 0.0, "alpha": "uniform", "step": "joint"}
BY_SIZE: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavgm": {"momentum": 0.0},
    "fedgma": {"threshold": 0.0},
    "fednova": {},
}
ADAPTIVE_FROZEN = {"fedadam": FROZEN, "fedyogi": FROZEN}
UNIFORM: dict[str, dict[str, Any]] = {
    "diloco": {"momentum": 0.0, "server_rate": 1.0},
    "fl-ntk": {},
    "scaffold": {},
}
PLAIN_OUTER = {"diloco-adamw": {"momentum": 0.0, "server_rate": 1.0} | INNER}
WHOLE_VECTORS = {"ties": {"density": 1.0, "scale": 1.0, "weighted": False}}
NOT_PRIVATE = {"bound": 1e6, "noise": 0.0, "cap": 9.0}


@dataclass(frozen=True)
class LimitCase:
    """A limit case of some methods with these options.

    `says` is a sentence on what a method equals in this case, and `equals` computes this simpler model.
    """

    name: str
    says: str
    setting: Setting
    equals: Callable[[ConformanceCase], Iterable[Mapping[str, np.ndarray]]]
    methods: Mapping[str, Mapping[str, Any]]
    rounds: int = ROUNDS


LIMIT_CASES = (
    LimitCase(
        "one-full-step",
        "one full-batch step of every client is a step of gradient descent on the pooled loss",
        RAGGED,
        pooled_descent,
        BY_SIZE | {"fedprox": {"mu": 0.5}, "dp-fedavg": NOT_PRIVATE} | ADAPTIVE_FROZEN,
    ),
    LimitCase(
        "one-full-step",
        "with clients of one size, one full-batch step of each is gradient descent on the pooled loss",
        ALIKE,
        pooled_descent,
        UNIFORM | {"task-arithmetic": {"scale": 1 / 3}},
    ),
    LimitCase(
        "one-client",
        "a single client is centralised training whose momentum begins anew every round",
        ALONE,
        one_client,
        BY_SIZE
        | UNIFORM
        | ADAPTIVE_FROZEN
        | WHOLE_VECTORS
        | {"fedprox": {"mu": 0.0}, "cyclic": {}, "dp-fedavg": NOT_PRIVATE, "task-arithmetic": {"scale": 1.0}},
    ),
    LimitCase(
        "one-client",
        "a single worker without outer momentum is AdamW that is never interrupted",
        replace(ALONE, rate=0.03, momentum=0.0),
        one_adam_w,
        PLAIN_OUTER,
    ),
    LimitCase(
        "identical-clients",
        "workers with the same samples, without outer momentum, train as a single worker",
        replace(COPIES, rate=0.03, momentum=0.0),
        one_adam_w,
        PLAIN_OUTER,
    ),
    LimitCase(
        "one-client",
        "a single client is centralised training of its factors",
        replace(ADAPTED, data=DrawnData("lora", (9,)), participation=1.0),
        one_client,
        {"fedex-lora": {}, "fedit": {}},
    ),
    LimitCase(
        "identical-clients",
        "clients with the same samples train as a single client with these samples",
        COPIES,
        one_client,
        BY_SIZE
        | UNIFORM
        | WHOLE_VECTORS
        | {
            "fedgma": {"threshold": 0.8},
            "fedprox": {"mu": 0.0},
            "dp-fedavg": NOT_PRIVATE,
            "task-arithmetic": {"scale": 1 / 3},
        },
    ),
    LimitCase(
        "identical-clients",
        "clients with the same samples train as a single client with these samples",
        replace(ADAPTED, data=DrawnData("lora", copies=3), work=SEVERAL, participation=1.0),
        one_client,
        {"fedex-lora": {}, "fedit": {}},
    ),
    LimitCase(
        "first-round",
        "after a round the weight is the base plus the mean of the clients' products",
        ADAPTED,
        mean_of_products,
        {"fedex-lora": {}, "flora": {}},
        1,
    ),
    LimitCase(
        "one-client",
        "after a round a single client's product is kept; its rank is that of the client's factors",
        replace(ADAPTED, data=DrawnData("lora", (9,)), participation=1.0),
        mean_of_products,
        {"flexlora": {}, "flora": {}},
        1,
    ),
    LimitCase(
        "identical-clients",
        "after a round the product of one of the identical clients is kept",
        replace(ADAPTED, data=DrawnData("lora", copies=3), participation=1.0, work=SEVERAL),
        mean_of_products,
        {"flexlora": {}, "flora": {}},
        1,
    ),
    LimitCase(
        "full-rank",
        "where the factors have full rank, projecting the mean of the products loses nothing",
        replace(ADAPTED, data=DrawnData("lora", rank=3)),
        mean_of_products,
        {"flexlora": {}},
        1,
    ),
    LimitCase(
        "first-step",
        "after one step from B = 0 no client's A has moved, and the product of means is the mean of products",
        replace(ADAPTED, work=WHOLE),
        mean_of_products,
        {"fedit": {}},
        1,
    ),
    LimitCase(
        "zero-rate",
        "with a local rate of 0 the model stays as it is, and nothing becomes NaN",
        STILL,
        still,
        {
            **{name: given[""] for name, given in OPTIONS.items() if name not in ("scaffold", *ADAPTERS)},
            "fedfa": ANCHORS | {"calibration_rate": 0.0},
            "scaffold": {"option": "I"},
            "dp-fedavg": NOT_PRIVATE,
        },
    ),
    LimitCase(
        "zero-rate",
        "with a local rate of 0 the weight stays as it is, and nothing becomes NaN",
        replace(ADAPTED, rate=0.0),
        still,
        {name: {} for name in ADAPTERS},
    ),
    LimitCase(
        "is-fedavg",
        "with these options the method is FedAvg",
        SAME_STEPS,
        fed_avg,
        {
            **{name: given for name, given in (BY_SIZE | ADAPTIVE_FROZEN).items() if name != "fedavg"},
            "fedprox": {"mu": 0.0},
            "moon": {"mu": 0.0},
            "fedlc": {"tau": 0.0},
            "fedrod": {"gamma": 0.0},
            "fedsam": {"rho": 0.0},
            "fedasam": {"rho": 0.0},
            "fedfa": {"strength": 0.0, "calibration_rate": 0.0},
            "fedgucci": NO_GUCCI,
            "fedgucci+": NO_GUCCI | {"tau": 0.0, "rho": 0.0},
        },
    ),
)


def _limits(method: str) -> Iterator[KitCase]:
    for limit in LIMIT_CASES:
        if method in limit.methods:
            case = build(method, limit.name, limit.setting, limit.methods[method], limit.says, limit.rounds)
            yield KitCase(case, limit.equals)
