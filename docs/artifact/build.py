"""Builds the artifact, an anonymous archive of the checked-out commit: `python docs/artifact/build.py FILE.tar.gz`.

Whenever the archive is built from one commit it is the same, byte by byte, except for the exported certificate.
"""

import gzip
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from claims import CLAIMS, table

ROOT = Path(__file__).parents[2]
FOLDER = "ntkfl-artifact"
HOME = re.compile(rb"/(?:home|Users|root)/(?!you\b|me\b|user\b)[\w.-]+")
CERTIFICATE = (
    "certify --any-order --data digits --n 20 --width 256 --local-steps 5 --eta-local 0.5 --watch --every 5 --export"
)
ABOUT = """# Artifact

This archive has a laboratory in which theorems of federated learning on wide networks are computed, judged and proved.
The archive has no history and no names of persons.

`python claims.py` lists the claims, `python claims.py NAME` checks one claim, and `python claims.py all` checks all.
The folder may lie anywhere. Some claims need only Python 3.11 or later. For the others run:

    pip install --constraint constraints.txt .
    apt-get install coq libcoq-mathcomp-algebra libcoq-mathcomp-algebra-tactics

The minutes in the table are upper bounds on two cores.

"""


def main(words: list[str]) -> int:
    """Returns 0 if the archive is written. Otherwise prints a line that says why it is not, and returns 1."""
    if len(words) != 1 or not words[0].endswith(".tar.gz"):
        print("usage: python docs/artifact/build.py FILE.tar.gz")
        return 1
    try:
        files = _committed()
        if named := list(naming(files, _identities())):
            print("\n".join(f"{path}: names {what}; the artifact must name nobody" for path, what in named))
            return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the artifact is built from a git checkout, and git fails: {error}")
        return 1
    files["claims.py"] = (ROOT / "docs" / "artifact" / "claims.py").read_bytes()
    files["ARTIFACT.md"] = (ABOUT + "\n".join(table()) + "\n").encode()
    files |= _certificate()
    Path(words[0]).write_bytes(packed(files))
    print(f"{words[0]}: {len(files)} files, {len(CLAIMS)} claims; unpack it anywhere and run python claims.py")
    return 0


def naming(files: dict[str, bytes], identities: Iterable[str]) -> Iterable[tuple[str, str]]:
    """The files that contain one of the identities or the path of somebody's home folder, each with what was found."""
    for path, content in files.items():
        for word in identities:
            if word.encode().lower() in content.lower():
                yield path, word
        if home := HOME.search(content):
            yield path, home[0].decode()


def packed(files: dict[str, bytes]) -> bytes:
    """A compressed archive of one folder, without owners and times."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as squeezed, tarfile.open(fileobj=squeezed, mode="w") as tar:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{FOLDER}/{path}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def _committed() -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", "HEAD"))) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}


def _identities() -> set[str]:
    """The names and addresses of everybody in the history, and the addresses from which the repository is fetched."""
    people = set(_git("log", "--format=%an%n%ae%n%cn%n%ce").decode().split("\n"))
    remotes = {line.split("\t")[1].split(" ")[0] for line in _git("remote", "-v").decode().splitlines()}
    return {word for word in people | remotes if len(word) > 3}


def _certificate() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "certificate"
        run = [sys.executable, "-m", "experiments", *CERTIFICATE.split(), str(folder)]
        subprocess.run(run, cwd=ROOT, check=True, capture_output=True)
        return {f"certificate/{file.name}": file.read_bytes() for file in sorted(folder.iterdir())}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
