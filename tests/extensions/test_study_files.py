"""Tests of a file with a study: nothing else is needed to list, run, show and report it."""

import pytest

from experiments.studies import find


def test_it_is_listed_run_shown_and_reported(ntkfl, folder, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS"):
        # A run sets these variables; monkeypatch restores them after the test.
        monkeypatch.setenv(name, "1" if name != "XLA_FLAGS" else "")
    assert "squares: with which power of its side" in ntkfl("study list my_study.py")
    assert "area ~ side^2" in ntkfl("study run my_study.py --out cells")
    assert "1 holds" in ntkfl("study show cells")
    ntkfl("report --studies cells --out pages")
    assert any("area" in page.read_text() for page in (folder / "pages").rglob("*.html"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "bad.py has no study: its STUDY is None, not an experiments.studies.study.Study"),
        ("x = 1\nSTUDY = undefined\n", "bad.py, line 2, `STUDY = undefined`: NameError"),
    ],
)
def test_a_bad_file_says_what_is_wrong(folder, text, message):
    (folder / "bad.py").write_text(text)
    with pytest.raises(ValueError) as caught:
        find(str(folder / "bad.py"))
    assert message in str(caught.value)
