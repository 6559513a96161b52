"""Tests of result files: if a file cannot be written, results are printed all the same.

One line names the file, and the exit status is 2.
"""

import errno
import os

import pytest
import typer
from typed import command

from experiments.console import blocks
from experiments.console.blocks import reserved

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_block_goes_on_and_every_file_is_tried(tmp_path, monkeypatch, capsys):
    write, reached = blocks._write, []

    def on_a_full_disk(path, content):
        if "first" in path.name:
            raise FULL
        write(path, content)

    monkeypatch.setattr(blocks, "_write", on_a_full_disk)
    (tmp_path / "first").write_text("as it was")
    with pytest.raises(typer.Exit) as end, reserved(tmp_path / "first", tmp_path / "second") as (first, second):
        first("new")
        second("new")
        reached.append(True)
    assert reached and end.value.exit_code == 2
    assert capsys.readouterr().err == (
        f"error: cannot write {tmp_path / 'first'}: No space left on device; name a file where there is room\n"
    )
    assert (tmp_path / "first").read_text() == "as it was" and (tmp_path / "second").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["gram", "--n", "4", "--out", "FULL.npy"], "lambda_min"),
        (["simulate", "--n", "4", "--width", "8", "--rounds", "1", "--out", "FULL.npz"], "residual"),
        (["doctor", "--json", "FULL"], "numpy"),
        (["certify", "--json", "FULL"], "radii"),
        (["verify", "fl-ntk/X.8", "--trials", "2", "--json", "FULL"], "1 verdict"),
        (
            ["applies", "fl-ntk/X.8", "--data", "sphere", "--n", "4", "--width", "8", "--json", "FULL"],
            "forms looked at",
        ),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_commands_print_what_they_cannot_write(tmp_path, words, printed):
    words = [tmp_path / word if word.startswith("FULL") else word for word in words]
    for word in words:
        if isinstance(word, os.PathLike):
            word.symlink_to("/dev/full")
    result = command(*words)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    assert printed in result.stdout and "No space left on device; name a file where there is room" in result.stderr
