"""The progress of a verification, on stderr."""

from experiments.console.progress_bar import Reporter


class CaseProgress(Reporter):
    """The progress callback of `verify_all`; `complete` says whether every case was run."""

    def __init__(self) -> None:
        super().__init__(unit="")
        self._seen = (0, 1)

    @property
    def complete(self) -> bool:
        """Whether all cases were run."""
        done, total = self._seen
        return done == total

    def __call__(self, family: str, done: int, total: int) -> None:
        self._seen = done, total
        text = "settling the verdicts" if done == total else family
        self.report(done, total, text, f"{done} of {total} cases ({family})")
