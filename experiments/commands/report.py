"""`ntkfl report`: a folder of pages about verdicts, studies and tested implementations, or a comparison of two runs."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.console.blocks import as_json, bad_input, reserved, shown_warnings

WORSE = 1


def report(
    verdicts: Annotated[Path | None, "a file that `ntkfl verify --json` wrote"] = None,
    studies: Annotated[list[Path] | None, "a folder that `ntkfl study run` filled; may be given again"] = None,
    statements: Annotated[
        list[Path] | None, "a .py file of yours, if verdicts are about its statements; may be given again"
    ] = None,
    conformance: Annotated[
        list[Path] | None, "a file that `ntkfl conform run --json` wrote; may be given again"
    ] = None,
    out: Annotated[Path | None, "folder for the pages: new, empty, or an older report"] = None,
    markdown: Annotated[Path | None, "write the verdicts as Markdown to this file"] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the verdicts as JSON to this file")] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="OLD NEW", help="two files of verdicts: say what changed, and report the second"),
    ] = None,
    factor: Annotated[float, "with --compare: list tightnesses that changed by more than this factor"] = 2.0,
) -> None:
    """Make a folder of pages from verdicts, studies and conformance runs, or say what changed between two runs.

    The first page is index.html. The pages are static files that need neither network nor JavaScript. Exit status: 0
    done; 1 an outcome got worse (only with --compare); 2 bad input.
    """
    from bounds import load
    from experiments.report import folder
    from experiments.report.comparison import compared
    from experiments.report.conformance_pages import conformance_page
    from experiments.report.site import write_report
    from experiments.report.study_pages import study_page
    from experiments.report.verdict_file import read
    from verification.verdict_list import as_json as report_json, as_markdown

    with bad_input():
        if compare and (verdicts or studies or conformance):
            raise ValueError("--compare reports its second file; leave --verdicts, --studies, --conformance out")
        if not (compare or verdicts or studies or conformance):
            raise ValueError(
                "nothing to report: give --verdicts FILE, --studies DIR, --conformance FILE or --compare OLD NEW"
            )
        if not (compare or out or markdown or json_file):
            raise ValueError("give --out FOLDER for the pages, --markdown FILE or --json FILE")
        source = compare[1] if compare else verdicts
        if source is None and (markdown or json_file):
            raise ValueError("--markdown and --json hold verdicts: give --verdicts FILE")
        inputs = tuple(str(path) for path in (*(compare or ()), verdicts) if path is not None)
    with reserved(markdown, json_file, inputs=inputs) as (write_markdown, write_json):
        with bad_input():
            for file in statements or ():
                load(file)
            if out:
                folder.check(out)
            run = read(source, any_version=out is None) if source else None
            changes = compared(read(compare[0], any_version=True), run, factor) if compare and run else None
            with shown_warnings():
                if out:
                    first = write_report(out, run, studies or (), changes, conformance or ())
                    typer.echo(f"report: {first}", err=True)
                else:
                    for path in studies or ():
                        study_page(path)  # raises an error for a folder that is not a study's
                    for path in conformance or ():
                        conformance_page(path)
            if run and write_markdown:
                write_markdown(as_markdown(run.verdicts))
            if run and write_json:
                write_json(as_json(report_json(run.verdicts, run.provenance)))
    if changes:
        typer.echo(changes.as_text())
        raise typer.Exit(WORSE if changes.worse else 0)
