"""`ntkfl bench`: times of slow computations, of other packages, and of the machine's limit, all measured in one run."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, if_stopped, reserved
from experiments.console.choices import named

if TYPE_CHECKING:
    from experiments.benchmarks.runner import Timing


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="names of computations, as in the tables (all)")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="how often each one is timed; medians are shown")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="threads that each one may use (as many as cores)")] = None,
    smallest: Annotated[bool, "measure only the first size of each computation"] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the numbers to this file")] = None,
    markdown: Annotated[Path | None, "write the tables to this file"] = None,
    peer_python: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PEER=PATH",
            help="an interpreter with one of pfl, flower, fedjax, neural-tangents, keops, gpytorch; repeat it for more",
        ),
    ] = None,
    compare: Annotated[Path | None, "a file with numbers of an earlier run, to show beside the new ones"] = None,
) -> None:
    """Measure time and memory of expensive computations, and compare them with other packages and the machine's limit.

    Everything that is compared does the same work, in a process of its own. Times count only if the results agree. Exit
    status: 0 done, 2 bad input, 130 stopped by Ctrl-C (the sizes that were measured until then are reported).
    """
    from experiments.benchmarks.elsewhere import how_to_get, interpreters
    from experiments.benchmarks.runner import as_json, bench_page, from_json, measured
    from experiments.benchmarks.workloads import catalogue
    from verification.cores import cores

    with bad_input():
        chosen = named(dict.fromkeys(names or catalogue()), catalogue(), "workload")
        earlier: list[Timing] = from_json(json.loads(compare.read_text(encoding="utf-8"))) if compare else []
        peers = interpreters(peer_python or [])
    with reserved(json_file, markdown) as (write_json, write_page):
        wanted = dict.fromkeys(c.peer for workload in chosen for c in workload.candidates if c.peer)
        for peer in (peer for peer in wanted if peer not in peers):
            typer.echo(how_to_get(peer), err=True)
        count = threads or cores()
        timings: list[Timing] = []
        say = partial(typer.echo, err=True)

        def reported() -> str:
            if not timings:
                return "nothing was measured so far"
            text = bench_page(chosen, timings, earlier, repetitions, count)
            if write_json:
                write_json(as_json(timings, repetitions, count))
            if write_page:
                write_page(text)
            typer.echo(text)
            return "the sizes that were measured until then are reported"

        with if_stopped(reported), bad_input(RuntimeError):
            for workload in chosen:
                for sizes in workload.sizes[:1] if smallest else workload.sizes:
                    timings += measured(workload, sizes, repetitions, count, say, peers)
        reported()
