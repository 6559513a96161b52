"""Compiles every proof of this folder and checks that it assumes only what ALLOWED names. `make proofs` runs this
script.

    python proofs/check.py [EXPORT]

EXPORT is a folder that `ntkfl certify --any-order --export` wrote. Its certificate is proved as a theorem, too, with
the machine's integers (Fast.v). This script needs only the standard library and Coq. Files that do not require each
other are compiled in parallel. They are compiled in a temporary folder, so that no old result is used.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGES = "coq libcoq-mathcomp-algebra libcoq-mathcomp-algebra-tactics"
AT_ONCE = 4  # number of files compiled at once, one for each core; more files than cores would wait for each other
CLOSED = "Closed under the global context"
# The axioms of Coq's library Uint63 about the machine's integers. Only Fast.v and the theorem of an EXPORT may rest on
# them.
MACHINE = set(
    "int add sub mul land lor lsl lsr ltb leb eqb add_spec sub_spec mul_spec land_spec lor_spec lsl_spec "
    "lsr_spec ltb_spec leb_spec eqb_correct eqb_refl of_to_Z".split()
)
# The axioms of Coq's library Reals, which exp and ln need: classical logic, and extensionality of functions.
REALS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
LOGARITHMS = "Connectivity IndependentEntries SquaredMoments UniformLaw UniformNetworks UniformSums".split()
ALLOWED = {"Fast.v": MACHINE, "Export.v": MACHINE, **{f"{name}.v": REALS for name in LOGARITHMS}}
FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjecture|Abort|bypass_check|Unset\s+Guard\s+Checking"
    r"|Unset\s+Positivity\s+Checking|Unset\s+Universe\s+Checking)\b"
)


def without_comments(source: str) -> str:
    """The source with its comments, which may be nested, replaced by blanks; lines keep their numbers."""
    depth, kept, at = 0, [], 0
    while at < len(source):
        pair = source[at : at + 2]
        if pair == "(*" or (pair == "*)" and depth):
            depth += 1 if pair == "(*" else -1
            kept.append("  ")
            at += 2
        else:
            kept.append(source[at] if not depth or source[at] == "\n" else " ")
            at += 1
    return "".join(kept)


def theorems(source: str) -> dict[str, int]:
    """The names of the theorems, each with its line."""
    text = without_comments(source)
    matches = re.finditer(r"^\s*Theorem\s+(\w+)", text, re.MULTILINE)
    return {match[1]: text.count("\n", 0, match.start(1)) + 1 for match in matches}


def faults(name: str, source: str) -> list[str]:
    """The forbidden commands that the file has, and the theorems whose assumptions the file does not print."""
    text = without_comments(source)
    wrong = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]} leaves something unproved"
        for match in FORBIDDEN.finditer(text)
    ]
    printed = re.findall(r"^Print Assumptions (\w+)\.", text, re.MULTILINE)
    for theorem, line in theorems(source).items():
        if theorem not in printed:
            wrong.append(f"{name}:{line}: there is no 'Print Assumptions {theorem}.' at the end of the file")
    return wrong


def judged(name: str, source: str, output: str) -> list[str]:
    """The faults of a file of which Coq has printed the assumptions.

    The list is empty if the output shows that every theorem of the file assumes only what is allowed.
    """
    asked = re.findall(r"^Print Assumptions (\w+)\.", without_comments(source), re.MULTILINE)
    said = re.split(rf"^(?={CLOSED}|Axioms:)", output.strip(), flags=re.MULTILINE)[1:]
    lines = [line for part in said for line in part.splitlines()[1:]]
    # the lines with the types of the axioms are indented
    names = {line.split()[0].rstrip(":") for line in lines if line[:1].strip()}
    axioms = {re.sub(r"^(Uint63|PrimInt63)\.", "", axiom) for axiom in names}
    if len(said) == len(asked) and axioms <= ALLOWED.get(name, set()):
        return []
    return [f"{name}: {len(asked)} theorems have to be '{CLOSED}', and Coq says: {output.strip() or 'nothing'}"]


def requirements(folder: Path) -> dict[str, set[str]]:
    """For every file the files that it requires. The more other files rest on a file, the earlier the file comes."""
    names = sorted(path.name for path in folder.glob("*.v"))
    listed = subprocess.run(["coqdep", "-Q", ".", "", *names], cwd=folder, capture_output=True, text=True, check=True)
    rules = re.findall(r"^(\w+)\.vo .*: (.*)$", listed.stdout, re.MULTILINE)
    needs = {f"{name}.v": {f"{Path(word).stem}.v" for word in by.split() if word.endswith(".vo")} for name, by in rules}

    def rests_on(name: str) -> set[str]:
        return needs[name].union(*map(rests_on, needs[name]))

    below = {name: rests_on(name) for name in names}
    return dict(sorted(needs.items(), key=lambda item: -sum(item[0] in others for others in below.values())))


def compiled(folder: Path, name: str) -> tuple[list[str], float]:
    """The faults of a file whose requirements are compiled already, and the seconds that its compilation took."""
    source, begun = (folder / name).read_text(encoding="utf-8"), time.monotonic()
    wrong = faults(name, source)
    if not wrong:
        run = subprocess.run(["coqc", "-w", "none", name], cwd=folder, capture_output=True, text=True)
        wrong = judged(name, source, run.stdout) if run.returncode == 0 else [f"{name}: {run.stderr.strip()}"]
    return wrong, time.monotonic() - begun


def all_compiled(folder: Path, at_once: int) -> Iterator[tuple[str, list[str], float]]:
    """For every file its name and the result of `compiled`, in the order in which the compilations end.

    The compilation of a file begins when all files that it requires are compiled.
    """
    needs, running = requirements(folder), dict[Future, str]()
    waiting, done = list(needs), set[str]()
    with ThreadPoolExecutor(at_once) as pool:
        while waiting or running:
            for name in [name for name in waiting if needs[name] <= done][: at_once - len(running)]:
                running[pool.submit(compiled, folder, name)] = name
                waiting.remove(name)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                wrong, seconds = future.result()
                if wrong:
                    waiting.clear()  # no further file is begun, but compilations that have begun come to their end
                done.add(name)
                yield name, wrong, seconds


def of_export(digits: str) -> str:
    """The text of Digits.v for another export, whose products are calculated with the machine's integers."""
    words = {"DigitsData": "Fast ExportData", "plain_dots": "fast_dots", "(fun _ _ => erefl)": "fast_dots_right"}
    for old, new in {**words, "digits_are_safe": "export_is_safe"}.items():
        digits = digits.replace(old, new)
    return digits


def main() -> int:
    """Returns 0 if all is proved, 1 if not or if Coq or its libraries are missing; prints a line for each reason."""
    if not shutil.which("coqc"):
        print(f"make proofs needs Coq 8.16 with mathcomp and algebra-tactics: apt-get install {PACKAGES}")
        return 1
    count, open_files, started = 0, [], time.monotonic()
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))  # Coq needs a deep stack to read long lists
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file in FOLDER.glob("*.v"):
            shutil.copy(file, folder)
        with (folder / "DigitsData.v").open("w") as data:
            subprocess.run([sys.executable, FOLDER / "reflect.py", FOLDER / "digits"], stdout=data, check=True)
        for export in sys.argv[1:]:
            with (folder / "ExportData.v").open("w") as data:
                subprocess.run([sys.executable, FOLDER / "reflect.py", export, "--machine"], stdout=data, check=True)
            (folder / "Export.v").write_text(of_export((FOLDER / "Digits.v").read_text(encoding="utf-8")))
        probe = "From mathcomp Require Import all_ssreflect all_algebra ring.\n"
        (folder / "probe_of_libraries.v").write_text(probe)
        if subprocess.run(["coqc", "-w", "none", "probe_of_libraries.v"], cwd=folder, capture_output=True).returncode:
            print(f"coqc is there, and mathcomp or algebra-tactics are not: apt-get install {PACKAGES}")
            return 1
        (folder / "probe_of_libraries.v").unlink()
        failed = False
        for name, wrong, seconds in all_compiled(folder, min(os.cpu_count() or 1, AT_ONCE)):
            failed = failed or bool(wrong)
            names = list(theorems((folder / name).read_text(encoding="utf-8")))
            proved = ", ".join(names) or "lemmas for the others"
            print("\n".join(wrong) or f"{seconds:6.1f} s  {name}: {proved}", flush=True)
            count += len(names)
            open_files += [name] if name in ALLOWED else []
        if failed:
            return 1
    closed = f"each of them '{CLOSED}' but those of {', '.join(sorted(open_files))}"
    print(f"{count} theorems are proved, {closed}, in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
