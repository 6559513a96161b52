"""`ntkfl limit`: how a federated method learns a whole data set at infinite width, round by round."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, picture_kind, reserved
from experiments.console.choices import (
    Everything,
    LocalSchedule,
    ServerSchedule,
    StepsSchedule,
    given_numbers,
    setting,
    takes_options,
)
from experiments.console.cluster_options import Scheduler, TlsCa, TlsCert, TlsKey, chosen_cluster, client_of
from experiments.console.method_options import method_options, methods_with_options
from experiments.console.tables import print_lines

if TYPE_CHECKING:
    from bounds import Options
    from ntkfl import Estimate, Problem
    from ntkfl.limit_curves import LimitCurves

IMAGES = {"fashion-mnist": (2000, 1000), "digits": (1200, 500)}  # default numbers of samples and of test samples
REPORTED = 13  # number of rounds that are reported, spaced evenly in their logarithm


@takes_options
def limit(
    options: "Options",
    method: Annotated[
        list[str] | None,
        "a method of `ntkfl train list` that is linear in the weights; default: fl-ntk. Repeat it for several "
        "methods, which share the tiles; give options as in fedavgm:momentum=0.9,server_rate=2",
    ] = None,
    option: Annotated[
        list[str] | None, "an option of a single --method, such as server_rate=1.5; repeat it for more options"
    ] = None,
    local_schedule: LocalSchedule = None,
    server_schedule: ServerSchedule = None,
    steps_schedule: StepsSchedule = None,
    test: Annotated[int | None, typer.Option(min=1, help="test samples to draw from a named data set")] = None,
    tiles: Annotated[
        Literal["auto", "float64", "float32"],
        "precision of the stored Gram matrix; auto: float64 where it fits the memory, else float32",
    ] = "auto",
    landmarks: Annotated[
        int | None,
        "replace the Gram matrix by Nystrom's approximation with this many samples as landmarks; the printed "
        "errors leave out the error of the approximation",
    ] = None,
    memmap: Annotated[
        Path | None, "a file for the tiles, in place of memory; after a kill the build goes on from it"
    ] = None,
    scheduler: Scheduler = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    device: Annotated[
        str | None, "the torch device that holds and multiplies the tiles: cuda, cuda:NUMBER or cpu"
    ] = None,
    participation: Annotated[
        float, "share of the clients that a round draws; the curves are then of the mean over draws"
    ] = 1.0,
    state: Annotated[
        Path | None,
        "a .npz file that keeps the run (with several methods: NAME-1.npz and so on); after a kill the same "
        "command goes on from it",
    ] = None,
    json_file: Everything = None,
    plot: Annotated[Path | None, "draw the curves into this file, .png or .svg"] = None,
) -> None:
    """Print residual and accuracies of the infinitely wide network, round by round; before training all outputs are 0.

    Default: Fashion-MNIST, one-hot labels, 2000 samples of 4 clients, 1000 test samples, fl-ntk, 5 local steps, 100
    rounds, eta_local = 1 / max_c |H_cc| (at twice this step a client alone diverges). --n 60000 --test 10000 takes the
    whole data set and some 17 GB of memory, or 10 GB with --tiles float32. The command first checks whether the memory
    suffices.

    For fl-ntk, fedavg, fedprox and fednova, many rounds take few products with the Gram matrix; other methods are
    computed round by round. If several methods are given, they share the tiles (blocks) of the Gram matrix, the
    products with these tiles, and the kernel of the test samples. --state keeps a run in a file. With --scheduler the
    workers of a Dask cluster hold the tiles, and the numbers differ by rounding at most. The printed errors bound the
    errors of all rounds together; for SCAFFOLD there is a bound only with its option II. No accuracy is printed for
    labels that are neither one-hot nor +-1.
    """
    import numpy as np

    from ntkfl.gram import nystroem
    from ntkfl.limit_curves import kept_files, several_limit_curves

    with bad_input():
        unused = next((name for name in ("width", "sigma", "eta_global") if getattr(options, name) is not None), None)
        if unused is not None:
            instead = "; the server's step is --option server_rate=X" if unused == "eta_global" else ""
            raise ValueError(f"--{unused.replace('_', '-')} is not for this command{instead}")
        kind = None if plot is None else picture_kind(plot)
        if state is not None and state.suffix != ".npz":
            raise ValueError(f"state is {state}; it must end in .npz")
        if state is not None and not state.parent.is_dir():
            raise ValueError(f"state is {state}, but there is no folder {state.parent}; make it, or name another file")
        if landmarks is not None and (tiles != "auto" or memmap or scheduler or device):
            raise ValueError("--landmarks needs no tiles; leave out --tiles, --memmap, --scheduler and --device")
        for name, by_round in (("eta_local", local_schedule), ("local_steps", steps_schedule)):
            if by_round is not None and (constant := getattr(options, name)) is not None:
                raise ValueError(f"{name} is {constant:g} in every round, and {by_round} by round; give one of them")
        eta_local = given_numbers("local-schedule", local_schedule, float) or options.eta_local
        eta_global = given_numbers("server-schedule", server_schedule, float)
        local_steps = given_numbers("steps-schedule", steps_schedule, int)
        cluster = chosen_cluster(scheduler, tls_ca, tls_cert, tls_key)
        problem, setup = _problem(options, test), options.setup(local_steps=5, rounds=100)
        typed = method or ["fl-ntk"]
        methods = methods_with_options(typed, method_options(option))
        kernel = None if landmarks is None else nystroem(problem.x, landmarks, seed=options.seed)
    with reserved(json_file, plot, inputs=(options.data,)) as (write, draw):
        from experiments.console.progress_bar import ProgressBar

        rounds = np.unique(np.append(0, np.geomspace(1, max(1, setup.rounds), REPORTED).round().astype(int)))

        def kept() -> str:
            has = [f"{state} has the run"] * any(path.exists() for path in kept_files(state, len(methods)))
            has += [f"{memmap} has the tiles so far"] if memmap is not None and memmap.exists() else []
            return f"{' and '.join(has)}; the same command goes on" if has else "nothing is kept"

        with client_of(cluster, kept) as client, if_stopped(kept), ProgressBar("steps") as bar, bad_input():
            all_curves = several_limit_curves(
                problem,
                rounds[rounds <= setup.rounds],
                methods,
                kernel,
                local_steps=local_steps or setup.local_steps,
                eta_local=eta_local,
                eta_global=eta_global,
                participation=participation,
                tiles=True if tiles == "auto" else tiles,
                memmap=memmap,
                cluster=client,
                device=device,
                keep=state,
                progress=lambda done, total: bar.show(done, total, ", ".join(typed)),
            )
        first = all_curves[0]
        taken = {"local_steps": first.local_steps, "eta_local": first.eta_local, "eta_global": first.eta_global}
        named = [f"{name} = {_by_round(value)}" for name, value in taken.items() if value is not None]
        steps = ", ".join([setting(problem, setup), *named])
        for number, curves in enumerate(all_curves):
            if number:
                typer.echo()
            held = f"{curves.tiles} tiles" if landmarks is None else f"by {landmarks} landmarks"
            print_lines(f"{_named(curves)} at infinite width, {held}", f"  setting: {steps}", "")
            typer.echo("\n".join(_lines(curves)))
        if draw and kind is not None:
            draw(_picture(all_curves, kind))
        if write:
            everything = [curves.to_dict() | ({"landmarks": landmarks} if landmarks else {}) for curves in all_curves]
            write(as_json(everything if len(everything) > 1 else everything[0]))


def _named(curves: "LimitCurves") -> str:
    named = curves.method + "".join(f", {name} = {value}" for name, value in curves.options.items())
    drawn = curves.participation
    return named + (f", mean over draws of {drawn:g} of the clients" if drawn < 1 else "")


def _by_round(steps: "float | list[float] | list[int]") -> str:
    """A step size as text; a schedule becomes the list of its values.

    Of more than three values, the list has the first two and the last, with dots between them.
    """
    if not isinstance(steps, list):
        return f"{steps:.6g}"
    shown = [f"{step:.6g}" for step in steps]
    return f"{', '.join(shown if len(shown) <= 3 else [*shown[:2], '...', shown[-1]])} by round"


def _problem(options: "Options", test: int | None) -> "Problem":
    from ntkfl import data

    spec = options.data or "fashion-mnist"
    samples, tests = IMAGES.get(spec, (None, None))
    return data.named(
        spec,
        n=options.n if options.n is not None else samples,
        seed=options.seed,
        target="one-hot" if spec in IMAGES else None,
        test=test if test is not None else tests,
        clients=options.clients,
        partition=options.partition,
        unit=options.unit,
    )


def _lines(curves: "LimitCurves") -> list[str]:
    bounded = all(point.bounded for point in curves.points)
    lines = [f"{'round':>8}{'|r| / |y|':>24}{'train accuracy':>22}{'test accuracy':>22}"]
    for point in curves.points:
        cells = [_cell(part) for part in (point.residual, point.train, point.test)]
        lines.append(f"{point.round:>8}{cells[0]:>24}{cells[1]:>22}{cells[2]:>22}")
    if not bounded:
        lines.append(f"\nno error bound is proved for {curves.method} with {curves.tiles} tiles")
    return lines


def _cell(part: "Estimate | None") -> str:
    from math import isfinite

    if part is None:
        return "-"
    error = float(part.error)
    return f"{float(part.value):.4f}" + (f" ± {error:.1e}" if isfinite(error) and error else "")


def _picture(all_curves: "list[LimitCurves]", kind: str) -> bytes:
    """The picture of residual and accuracies against the round: a panel for each method, with common axes."""
    from matplotlib.figure import Figure

    from experiments.pictures import as_bytes

    figure = Figure(figsize=(7, 4.2 * len(all_curves)), layout="constrained")
    names = {"residual": "|r| / |y|", "train": "training accuracy", "test": "test accuracy"}
    for axes, curves in zip(figure.subplots(len(all_curves), squeeze=False)[:, 0], all_curves, strict=True):
        for name, label in names.items():
            points = [(point.round, getattr(point, name)) for point in curves.points if point.round]
            known = [(t, float(part.value), float(part.error)) for t, part in points if part is not None]
            if known:
                t, value, error = zip(*known, strict=True)
                axes.plot(t, value, "o-", label=label)
                low, high = ([v + sign * min(e, 1.0) for v, e in zip(value, error, strict=True)] for sign in (-1, 1))
                if all(point.bounded for point in curves.points):
                    axes.fill_between(t, low, high, alpha=0.2)
        axes.set(xscale="log", xlabel="round", ylim=(0, 1.02))
        axes.set_title(
            f"{_named(curves)}, {curves.samples} samples of {curves.clients} clients, infinite width", fontsize=10
        )
        axes.legend(fontsize="small")
    return as_bytes(figure, kind, "limit")
