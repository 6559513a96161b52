"""Tests of `ntkfl requirements`, a table with aligned columns: its sizes are those of the project's list of statements.

The command also takes a user's data.
"""

import numpy as np
from typed import command

# The entries are n, d: lambda, width at the mean r_0, width at the r_0 of B.8, eta_l K, 2/mu, rounds. The list of
# statements used other draws of the data.
RECORDED = {
    (4, 4): (0.164, 3.4e13, 6.8e16, 2.0e-6, 2.37, 1.7e8),
    (4, 16): (0.368, 1.3e12, 2.5e15, 1.3e-5, 3.05, 1.2e7),
    (8, 8): (0.174, 4.3e14, 1.2e18, 5.2e-7, 2.20, 6.1e8),
    (12, 12): (0.231, 7.0e14, 2.2e18, 4.3e-7, 2.30, 5.6e8),
    (20, 20): (0.195, 1.1e16, 4.0e19, 8.1e-8, 1.70, 3.5e9),
    (20, 100): (0.342, 1.1e15, 4.1e18, 4.0e-7, 2.76, 4.0e8),
}


def table(*arguments):
    result = command("requirements", *arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.split("\n\n")[0].splitlines()
    # All lines end at the same place, because the columns are aligned on the right.
    assert len({len(line) for line in lines}) == 1
    return [[float(cell) for cell in line.split()] for line in lines[1:]]


def test_the_default_table_is_the_recorded_one_but_for_the_draws():
    rows = table()
    assert [(row[0], row[1]) for row in rows] == list(RECORDED)
    for row in rows:
        lam, width, by_lemma, local_time, stable, rounds = RECORDED[int(row[0]), int(row[1])]
        scale = row[3] / lam  # The other numbers depend on the draw mainly through lambda.
        for least, expected, power in zip(
            row[5:], (width, by_lemma, local_time, stable, rounds), (-4, -4, 2, 0, -3), strict=True
        ):
            assert 0.5 < least / (expected * scale**power) < 2


def test_one_row_for_the_users_data(tmp_path):
    lines = ["a,b,y,owner", "1,0,1,0", "0,1,-1,1"]
    file = tmp_path / "two.csv"
    file.write_text("\n".join(lines) + "\n")
    ((n, d, clients, lam, kappa, width, _, local_time, stable, rounds),) = table("--data", file, "--share", 0.01)
    assert (n, d, clients, lam, kappa, stable) == (2, 2, 2, 0.5, 1.0, 4.0)
    assert np.isclose(width, 6.4e7 * 8 * 3 * 16, rtol=0.05)
    assert np.isclose(rounds, 8 * np.log(100) / local_time, rtol=0.05)


def test_samples_and_clients_are_chosen():
    ((n, _, clients, *_),) = table("--n", 6, "--clients", 3)
    assert (n, clients) == (6, 3)


def test_a_share_that_is_none_is_refused():
    result = command("requirements", "--n", "4", "--share", "2")
    assert result.exit_code == 2
    assert result.stderr == "error: share is 2; it must lie between 0 and 1\n"


def test_options_that_the_theorem_decides_itself_are_refused():
    result = command("requirements", "--eta-local", "7")
    assert result.exit_code == 2
    assert "eta_local is given, but the theorem's own eta local is used here; leave it out" in result.stderr
