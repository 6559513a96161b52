"""`ntkfl train`: train a model with a federated method, measure every round, store runs and resume them."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from experiments.console.blocks import bad_input, if_stopped, shown_warnings
from experiments.console.choices import with_parameters
from experiments.console.method_options import method_options

if TYPE_CHECKING:
    from ntkfl.training.runs.training_run import PreparedRun, Run


def method_lines() -> Iterator[str]:
    """Lines about every method: one with its rule and source, and below it one for each option with its default."""
    from ntkfl.training.methods import catalogue, options

    for name, module in sorted(catalogue().items()):
        yield f"{name}: {(inspect.getdoc(module) or '').partition(chr(10))[0]}"
        given = [f"--option {key}={_default(option)}" for key, option in options(name).items()]
        if given:
            yield f"    {'  '.join(given)}"


def _default(option: inspect.Parameter) -> str:
    """The default value as `--option` takes it, followed by the possible words if the option takes words."""
    words = sorted(set(_words(option.annotation)))
    shown = "null" if option.default is None else str(option.default)
    shown = shown.lower() if isinstance(option.default, bool) else shown
    return f"{shown} ({', '.join(words)})" if words else shown


def _words(annotation: Any) -> Iterator[str]:
    """The words of all Literal types in a type."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _words(part)


LIST = "list"
NOTHING_LEARNED = 1  # exit status


def _option(annotation: Any, help: str, *names: str) -> Any:
    return Annotated[annotation | None, typer.Option(*names, help=help, show_default=False)]


# There is an option for each key of RunConfig except `method` and `options`, in the order of --help.
KEYS: dict[str, Any] = {
    "data": _option(str, "data set by name, or the path of a file (digits)"),
    "path": _option(str, "folder or file of the data set, where it is not the usual one"),
    "clients": _option(int, "number of clients (10, or a file's owners)"),
    "partition": _option(str, "iid, dirichlet:ALPHA, shards:S or given (given, where a file has owners; else iid)"),
    "samples": _option(int, "training samples to draw (all)"),
    "test": _option(int, "test samples to draw, 0 for none (all)"),
    "train_share": _option(float, "share of its samples on which each client trains (1; .7 in FedGuCci's code)"),
    "target": _option(
        Literal["classes", "real", "sign", "one-hot"],
        "how labels are coded (classes, if there are any; fl-ntk: sign)",
    ),
    "unit": _option(bool, "divide every input by its norm (fl-ntk: yes)", "--unit/--no-unit"),
    "reduction": _option(Literal["mean", "sum"], "mean or sum of the squared loss over a batch (mean; fl-ntk: sum)"),
    "model": _option(
        str, "the model, such as mlp:64-64, simple-cnn, ntk:4096, or a .py file of yours (by data and method)"
    ),
    "rounds": _option(int, "communication rounds (10)"),
    "participation": _option(float, "share of the clients that take part in each round (1)"),
    "epochs": _option(int, "local passes a round (3)"),
    "local_steps": _option(int, "local steps a round, in place of epochs (fl-ntk: 2)"),
    "batch_size": _option(str, "samples a step, or full (32; fl-ntk: full)"),
    "optimizer": _option(Literal["sgd", "adam"], "optimizer of the clients (sgd)"),
    "rate": _option(
        float, "local learning rate, on the mean loss unless --reduction sum (.05; adam: .001; fl-ntk: .01)"
    ),
    "rate_decay": _option(float, "factor of the rate from round to round (1)"),
    "momentum": _option(float, "momentum of sgd (.9; fl-ntk: 0)"),
    "weight_decay": _option(float, "weight decay, whose product with the weights is added to the gradient (0)"),
    "clip": _option(float, "largest norm of a client's gradient (none)"),
    "keep_optimizer": _option(bool, "clients keep their momenta between rounds (no)", "--keep-optimizer/--no-keep"),
    "ima": _option(bool, "average the global models of the last rounds; with any method (no)", "--ima/--no-ima"),
    "ima_window": _option(int, "number of models that are averaged (5)"),
    "ima_start": _option(float, "average from this round on; a number below 1 is a share of the rounds (.75)"),
    "ima_exploration": _option(
        Literal["exponential", "constant", "cyclic", "epochs", "none"],
        "the learning rate once averaging starts: exponential, a faster decay; constant, 1/200 of the first rate; "
        "cyclic, cycles down to 1/200 of it; epochs, fewer epochs instead; none, no change (exponential)",
    ),
    "ima_decay": _option(float, "factor of the learning rate in exponential exploration (.97)"),
    "ima_period": _option(int, "rounds of a cycle, or rounds after which there is one epoch fewer (20)"),
    "ima_order": _option(
        Literal["after_server_step", "before_server_step"], "what is averaged (after_server_step, as printed)"
    ),
    "ima_restart": _option(bool, "zero the server's moments when averaging starts (no)", "--ima-restart/--no-restart"),
    "ima_released": _option(
        bool, "take the rates and the first averaged round of the authors' code (no)", "--ima-released/--ima-printed"
    ),
    "seed": _option(int, "seed of data, model, sampled clients and batches (0)"),
    "device": _option(str, "cpu, cuda or cuda:NUMBER (cpu)"),
    "dtype": _option(Literal["float32", "float64"], "precision of parameters and inputs (float32)"),
    "at_once": _option(int, "number of clients trained at once (by the size of the model)"),
    "train_loss": _option(bool, "measure the loss on all training samples (no)", "--train-loss/--no-train-loss"),
    "client_accuracy": _option(
        bool,
        "measure clients' models before averaging, and FedRoD's personal heads (no)",
        "--client-accuracy/--no-client-accuracy",
    ),
}


def takes_keys(command: Callable) -> Callable:
    """The command with an option for each of KEYS, in place of its parameter `**keys`."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters += [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in KEYS.items()]
    return with_parameters(command, parameters)


@takes_keys
def train(
    method: Annotated[str | None, typer.Argument(help="the method (fedavg), or list, which prints them all")] = None,
    option: Annotated[list[str] | None, "an option of the method, such as mu=0.01; repeat it for more"] = None,
    config: Annotated[Path | None, "a TOML file with these options as keys"] = None,
    out: Annotated[Path | None, "folder for metrics.csv, config.toml, outcome.txt and the checkpoint"] = None,
    resume: Annotated[bool, "continue the run in --out"] = False,
    checkpoint_every: Annotated[int, "rounds from one checkpoint to the next"] = 1,
    **keys: Any,
) -> None:
    """Train a model with a federated method, and print its losses and accuracies.

    `ntkfl train list` prints the methods and their options, which are given as in --option mu=0.01. METHOD may also be
    a .py file of yours. --ima works with every method but cyclic. Defaults are in parentheses.

    Options given here override those of the --config file. --resume continues a stopped run that was stored by --out,
    and needs no other option; --rounds makes that run longer. Exit status: 0 done, 1 done and nothing was learned (the
    loss has diverged, or the last rounds are no better than an answer that ignores the input), 2 bad input or a model
    that is no longer finite, 130 stopped by Ctrl-C (the finished rounds are kept).
    """
    if method == LIST:
        return typer.echo("\n".join(method_lines()))
    from experiments.console.progress_bar import RunProgress
    from ntkfl.training.config import checked, read_toml
    from ntkfl.training.runs.training_run import prepared

    with shown_warnings():
        with bad_input():
            given: dict[str, Any] = {}
            if config is not None:
                given = read_toml(config)
                checked(given, where=f"{config}: ")
            given |= {key: value for key, value in keys.items() if value is not None}
            given |= {} if method is None else {"method": method}
            if option:
                given["options"] = given.get("options", {}) | method_options(option)
            for key in ("batch_size", "ima_start"):
                given |= {key: _number(given[key])} if key in given else {}
            job = prepared(**given, out=out, resume=resume, checkpoint_every=checkpoint_every)
        with if_stopped(lambda: _kept(job)), bad_input(FloatingPointError, OSError), RunProgress() as progress:
            try:
                done = job.train(progress)
            except OSError as error:
                raise OSError(f"{error}; make room, and --resume goes on from the last checkpoint") from error
    _print(done)
    if done.shortfall:
        typer.echo(f"\n{done.shortfall}")
        raise typer.Exit(NOTHING_LEARNED)


def _number(value: Any) -> Any:
    """The integer, if the value is an integer or its text; otherwise the value itself, which RunConfig checks."""
    try:
        return int(value) if float(value).is_integer() else value
    except (ValueError, OverflowError):
        return value


def _kept(job: "PreparedRun") -> str:
    done = max(len(job.record.rows) - 1, 0)
    kept = f"they are kept in {job.folder}, and --resume goes on" if job.folder else "nothing is kept: no --out"
    return f"{done} of {job.config.rounds} rounds were done; {kept}"


def _print(done: "Run") -> None:
    """Print what was trained, and for each quantity the last value, the best value and the mean of the last rounds."""
    from ntkfl.training.engine.measurement import loss_unit
    from ntkfl.training.runs.summary import summary

    data = done.federation.data
    tested = 0 if data.x_test is None else len(data.x_test)
    of = {
        "method": done.federation.method.name,
        "data": f"{data.name}, {len(data.x)} training and {tested} test samples",
        "model": f"{done.model.name}, {done.model.size()} parameters",
        "clients": ", ".join(filter(None, (str(data.clients), done.config.partition))),
        "rounds": f"{done.state.rounds}, {done.rows[-1].cohort} of {data.clients} clients in each",
    }
    if done.federation.method.personal:
        of["measured"] = "each client's own model; the means over all clients follow"
    for name, text in of.items():
        typer.echo(f"{name:<18}{text}")
    measures = summary(done.rows)
    if measures:
        rounds = max(run.rounds for run in measures.values())
        typer.echo(f"\n{'':<18}{'last':>10}{'best':>10} {'in round':>9}{f'mean of last {rounds}':>16}")
    for name, measure in measures.items():
        form = ".2%" if name.endswith("accuracy") else ".4g"
        unit = "" if name.endswith("accuracy") else f"  {loss_unit(data)} per sample"
        label = name.replace("_", " ")
        best = f"{measure.best:>10{form}} {measure.best_round:>9}"
        typer.echo(f"{label:<18}{measure.last:>10{form}}{best}{measure.mean:>16{form}}{unit}")
    if done.folder:
        typer.echo(f"\nkept in {done.folder}")
