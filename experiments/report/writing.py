"""A report in one call: verdicts and studies, as a folder of pages."""

from collections.abc import Iterable
from pathlib import Path

from experiments.report import folder
from experiments.report.comparison import Comparison
from experiments.report.conformance_pages import conformance_page
from experiments.report.site import built
from experiments.report.study_pages import study_page
from experiments.report.verdict_file import VerdictFile


def write_report(
    out: Path,
    verdicts: VerdictFile | None = None,
    studies: Iterable[Path] = (),
    changes: Comparison | None = None,
    conformance: Iterable[Path] = (),
) -> Path:
    """Write the pages and return the first one.

    Args:
        out: a folder that is new, empty, or an older report.
        verdicts: as `verdict_file.read` reads them.
        studies: folders of studies.
        changes: between an older run and this one, from `comparison.compared`.
        conformance: files that `ntkfl conform run --json` wrote.

    Raises:
        ValueError, OSError: the folder holds something else or cannot be written; a study has no results;
            a file is none of a conformance run.
    """
    folder.check(out)
    implementations = [conformance_page(path) for path in conformance]
    folder.write(built(verdicts, [study_page(path) for path in studies], changes, implementations), out)
    return out / "index.html"
