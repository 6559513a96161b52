"""The claims of the artifact.

`python claims.py` lists them, `python claims.py NAME ...` checks some of them, and `python claims.py all` checks all.
It needs only the standard library. A claim holds if its command ends as expected and prints the expected line.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALONE = "Python alone"
PACKAGES = "the packages of constraints.txt"


@dataclass(frozen=True)
class Claim:
    """A claim and its check.

    `arguments` are Python's arguments, `expected` is a pattern of the line that must be printed, and `needs` says what
    must be installed.
    """

    name: str
    says: str
    arguments: tuple[str, ...]
    expected: str
    minutes: float
    needs: str
    status: int = 0

    @property
    def command(self) -> str:
        """The command as a reader types it in the folder of the archive."""
        return " ".join(["python", *self.arguments])


def _check(name: str, says: str, script: str, expected: str, needs: str = "numpy, mpmath") -> Claim:
    return Claim(name, says, (f"docs/checks/{script}.py",), expected, 0.1, needs)


CLAIMS = (
    Claim(
        "certificate",
        "A network of 256 neurons on 20 images converges whatever order it is trained in; checked in exact integers",
        ("certificate/ntkfl_check.py", "certificate"),
        "certified",
        0.1,
        ALONE,
    ),
    _check(
        "I10",
        "Averaging identically distributed clients changes the variance",
        "averaging_i10",
        "what holds: .*: agrees",
        ALONE,
    ),
    _check(
        "F17", "FedGuCci's bound for a moved anchor fails, and a repaired bound holds", "fedgucci_f17", ".*: VIOLATED"
    ),
    _check("C.10", "FL-NTK's bound on B_3 lacks a term", "fl_ntk_c_10", "m = 1e1000: .*VIOLATED.*"),
    _check(
        "Eq18",
        "FL-NTK's remainder does not fall for two local steps or more",
        "fl_ntk_eq18",
        "xi does not fall .*: True",
    ),
    _check(
        "centralised",
        "FedAvg is not gradient descent, at any width",
        "fl_ntk_centralised",
        "FedAvg is its own .*: True",
    ),
    _check(
        "deep",
        "FedAvg on a deep network is not gradient descent, even at infinite width",
        "deep_centralised",
        "printed limit VIOLATED; .*: True",
    ),
    Claim(
        "proofs",
        "Theorems about certificates, round maps and lower bounds are proved; the printed line ends with files that "
        "use axioms of Coq",
        ("proofs/check.py",),
        r"\d+ theorems are proved, each of them 'Closed under the global context' but .*",
        2,
        "Coq 8.16, mathcomp, algebra-tactics",
    ),
    Claim(
        "verdict",
        "The laboratory calls I10 as printed violated, and its repaired form not",
        ("-m", "experiments", "verify", "averaging/I10"),
        "2 verdicts: 1 hold, 1 violated as recorded; 0 differ from what is recorded",
        0.2,
        PACKAGES,
    ),
    Claim(
        "all-verdicts",
        "Every statement comes out as recorded",
        ("-m", "experiments", "verify"),
        r"\d+ verdicts: .*; 0 differ from what is recorded",
        6,
        PACKAGES,
    ),
)


def table() -> list[str]:
    """The claims as rows of Markdown."""
    rows = ["| claim | command | a line that it prints | minutes | needs |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        expected = claim.expected.replace("|", r"\|")
        rows.append(
            f"| {claim.name}: {claim.says} | `{claim.command}` | `{expected}` | {claim.minutes:g} | {claim.needs} |"
        )
    return rows


def checked(claim: Claim) -> bool:
    """Whether a claim holds; a line that says so is printed."""
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    begun = time.monotonic()
    run = subprocess.run([sys.executable, *claim.arguments], cwd=HERE, env=environment, capture_output=True, text=True)
    printed = any(re.fullmatch(claim.expected, line.strip()) for line in run.stdout.splitlines())
    good = printed and run.returncode == claim.status
    print(f"{claim.name}: {'as claimed' if good else 'NOT as claimed'}, {time.monotonic() - begun:.0f} s", flush=True)
    if not good:
        print(f"status {run.returncode}, expected {claim.status} and a line {claim.expected!r}; its last lines were:")
        print("\n".join([*run.stdout.splitlines()[-5:], *run.stderr.splitlines()[-5:]]))
    return good


def main(words: list[str]) -> int:
    """Check the named claims, or list all claims.

    Returns 0 if the named claims hold, 1 if one does not hold, and 2 if a name is unknown.
    """
    known = {claim.name: claim for claim in CLAIMS}
    unknown = [word for word in words if word not in known and word != "all"]
    if unknown:
        print(f"there is no claim {unknown[0]}; it is one of {', '.join(known)}, or all")
        return 2
    if not words:
        print("\n".join(f"{claim.name:<13}{claim.command}" for claim in CLAIMS))
        return 0
    chosen = CLAIMS if "all" in words else [known[word] for word in words]
    return 0 if all([checked(claim) for claim in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
