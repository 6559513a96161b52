"""Tests of the script that checks exported certificates in exact numbers.

The script confirms genuine exports. It refuses changed files, unless the answer for these files is still true.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import pytest
from exact_certificate import exact, fitted, hostile
from flint import arb
from hypothesis import given, settings, strategies as st

from ntkfl import Problem, certify_any_order
from ntkfl.any_order import ntkfl_check
from ntkfl.any_order.export import CHECKER, export_any_order
from ntkfl.connectivity.network import TwoLayer

CASES = {
    "signs, a width that is no square": {"distance": 1e-3, "width": 50, "size": 100.0},
    "two outputs, rows of any norm": {"distance": 1e-3, "width": 64, "outputs": 2, "unit": False},
    "a held pair": {"distance": 1e-3, "width": 64, "seed": 22, "outputs": 2, "unit": False},
}


@pytest.fixture(scope="module", params=CASES)
def exported(request, tmp_path_factory):
    """Returns a folder with an exported certificate, the certificate, and the test inputs of the export."""
    problem, weights = fitted(**{"seed": 2} | CASES[request.param])
    certificate = certify_any_order(problem, weights)
    folder = tmp_path_factory.mktemp("export") / "folder"
    inputs = np.random.default_rng(0).standard_normal((9, problem.d))
    export_any_order(certificate, folder, inputs)
    return folder, certificate, inputs


@pytest.fixture
def folder(exported, tmp_path):
    return Path(shutil.copytree(exported[0], tmp_path / "copy"))


def answer(folder, capsys):
    """Returns the last line that the script prints, and its exit status."""
    status = ntkfl_check.main([str(folder)])
    return capsys.readouterr().out.splitlines()[-1], status


def refused(folder, capsys):
    line, status = answer(folder, capsys)
    assert line.startswith("refused: ") and status == 1
    return line


def change(folder, name, edit, checksum=True):
    """Edits an array of the folder and, unless told otherwise, renews its checksum."""
    values = np.fromfile(folder / f"{name}.f64", "<f8")
    edit(values)
    (folder / f"{name}.f64").write_bytes(values.tobytes())
    if checksum:
        edit_json(folder, lambda c: c["sha256"].update({name: hashlib.sha256(values.tobytes()).hexdigest()}))


def edit_json(folder, edit):
    content = json.loads((folder / "certificate.json").read_text())
    edit(content)
    (folder / "certificate.json").write_text(json.dumps(content))


def flip_sign(values):
    values[0] *= -1


def test_the_script_proves_what_the_certificate_says(exported):
    folder, certificate, inputs = exported
    proved = ntkfl_check.check(folder)
    assert float(certificate.distance.lo) <= proved["distance"] <= float(certificate.distance.hi) * (1 + 1e-8)
    assert proved["final"] == list(certificate.final(inputs))
    largest = certificate.pooled_step_limit
    assert 0.5 * largest < proved["pooled_step_limit"] < 2 * largest


def test_no_slopes_on_held_pairs_give_gradients_a_smaller_eigenvalue(exported):
    """The claimed least eigenvalue holds for any slopes of the held pairs.

    A held pair is a neuron and a sample at whose kink the neuron may stay. The claimed eigenvalue is compared with the
    least eigenvalues of two kinds of matrices of inner products of gradients, in float64. For the first kind, the
    directions of held pairs are projected out of the gradients. For the second kind, the slopes on held pairs are
    random.
    """
    folder, certificate, _ = exported
    claimed = json.loads((folder / "certificate.json").read_text())["claim"]["eigenvalue"]
    (problem, network), rng = network_of(folder), np.random.default_rng(0)
    neurons, samples = certificate.held.T
    slopes = (problem.x @ network.hidden.T >= 0).astype(float)

    def gradients(on_held):
        slopes[samples, neurons] = on_held
        return np.einsum("or,ir,id->iord", network.readout, slopes, problem.x).reshape(-1, network.hidden.size)

    pairs = np.zeros((len(neurons), *network.hidden.shape))
    pairs[np.arange(len(neurons)), neurons] = problem.x[samples]
    flat = pairs.reshape(len(neurons), network.hidden.size)
    projected = gradients(0.0) @ (np.eye(flat.shape[1]) - np.linalg.pinv(flat) @ flat)
    least = np.linalg.eigvalsh(projected @ projected.T)[0]
    assert 0.2 * least < claimed <= least * (1 + 1e-9)
    for _ in range(5):
        rows = gradients(rng.random(len(neurons)))
        assert claimed <= np.linalg.eigvalsh(rows @ rows.T)[0] * (1 + 1e-9)


def test_the_eigenvalue_is_that_of_samples_that_are_no_multiples(tmp_path):
    """The claimed eigenvalue belongs to samples of which none is a multiple of another.

    A repeated sample would make the matrix of products of all gradients singular.
    """
    problem, network = fitted(distance=1e-3, width=50, size=100.0, seed=2)
    rows = [*range(problem.n), 0]
    repeated = Problem(problem.x[rows], problem.y[rows], problem.owner[rows])
    claimed = export_any_order(certify_any_order(repeated, network), tmp_path / "folder")["eigenvalue"]
    readout = np.fromfile(tmp_path / "folder" / "readout.f64", "<f8") / np.sqrt(network.hidden.shape[0])
    slopes = readout * (repeated.x @ network.hidden.T >= 0)
    products = (slopes @ slopes.T) * (repeated.x @ repeated.x.T)
    assert np.linalg.eigvalsh(products)[0] < 1e-12 < 0.01 < claimed
    assert claimed <= np.linalg.eigvalsh(products[:-1, :-1])[0] * (1 + 1e-9)


def test_the_script_runs_alone_from_another_folder(exported, tmp_path):
    folder = exported[0]
    command = [sys.executable, "-I", "-S", str(folder / CHECKER), str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "certified" and not done.stderr


def test_held_pairs_are_exported(exported):
    folder, certificate, _ = exported
    assert json.loads((folder / "certificate.json").read_text())["held"] == certificate.held.tolist()


@pytest.mark.parametrize("name", ["hidden", "readout", "x", "y", "x_test", "solution", "inverse_root"])
def test_a_changed_array_is_noticed(name, folder, capsys):
    change(folder, name, lambda values: values.view("<u8").__ixor__(1), checksum=False)
    assert f"{name}.f64 was changed" in refused(folder, capsys)


@pytest.mark.parametrize("name", ["hidden", "readout", "x", "y", "solution", "inverse_root"])
def test_a_changed_array_with_its_checksum_is_refused_by_an_inequality_or_proves_something_else(name, folder, capsys):
    change(folder, name, flip_sign if name != "inverse_root" else lambda values: values.__imul__(0))
    line = refused(folder, capsys)
    assert any(part in line for part in ("(1) fails", "(3) fails", "the claim is not", "rows of"))


def test_rows_of_data_or_labels_in_another_order_are_refused(folder, exported, capsys):
    d = exported[1].problem.d

    def swap(values):
        values[:d], values[d : 2 * d] = values[d : 2 * d].copy(), values[:d].copy()

    change(folder, "x", swap)
    refused(folder, capsys)


EDITS = {
    "a smaller distance": (lambda c: c["claim"].update(distance=c["claim"]["distance"] / 2), "claim"),
    "a distance that is not finite": (lambda c: c["claim"].update(distance=float("nan")), "claim"),
    "a larger eigenvalue": (lambda c: c["claim"].update(eigenvalue=1.01 * c["claim"]["eigenvalue"]), "claim"),
    "a longer step": (lambda c: c["claim"]["step_limits"].__setitem__(0, 512.0), "claim"),
    "another class": (lambda c: c["claim"]["final"].__setitem__(0, 7), "claim"),
    "fewer classes": (lambda c: c["claim"]["final"].pop(), "claim"),
    "a claim too many": (lambda c: c["claim"].update(accuracy=1.0), "claim"),
    "another schema": (lambda c: c.update(schema="x"), "schema"),
    "no features": (lambda c: c.pop("features"), "needs {'features'"),
    "a huge number of features": (lambda c: c.update(features=10**30), "rows of"),
    "other features": (lambda c: c.update(features=2), "refused"),
    "features of true": (lambda c: c.update(features=True), "refused"),
    "other outputs": (lambda c: c.update(outputs=3), "refused"),
    "another root": (lambda c: c.update(root_of=4), "root_of"),
    "a held pair too many": (lambda c: c["held"].append([0, 0]), "refused"),
    "a held pair twice": (lambda c: c["held"].extend([[0, 0], [0, 0]]), "held pair"),
    "a held pair of no neuron": (lambda c: c["held"].append([10**9, 0]), "held pair"),
    "an owner too many": (lambda c: c["owner"].append(0), "owner"),
    "an owner that is none": (lambda c: c["owner"].__setitem__(0, 9), "owner"),
    "a client of no sample": (lambda c: c.update(owner=[v + (v > 0) for v in c["owner"]]), "owner"),
    "text for a list": (lambda c: c.update(held="all"), "refused"),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_certificate_is_refused(what, folder, capsys):
    edit, reason = EDITS[what]
    edit_json(folder, edit)
    assert reason in refused(folder, capsys)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[" * 100_000, b"{}", b"[]", b'{"schema": ' + b"9" * 10_000 + b"}", b"null"],
    ids=["empty", "not UTF-8", "nested", "no keys", "a list", "a huge integer", "null"],
)
def test_what_is_no_certificate_is_refused_in_a_line(content, folder, capsys):
    (folder / "certificate.json").write_bytes(content)
    assert len(refused(folder, capsys)) < 400


def test_a_missing_file_is_refused(folder, capsys):
    (folder / "x.f64").unlink()
    refused(folder, capsys)


def test_what_is_not_certified_is_not_confirmed(tmp_path):
    """A network whose training may still cross kinks is not confirmed, because inequality (3) fails for its folder."""
    problem, weights = fitted(3, distance=0.5, width=64)
    certificate = certify_any_order(problem, weights, most_held=0)
    assert not certificate.certified and certificate.distance.hi < np.inf
    with pytest.raises(ValueError, match=r"not confirmed in exact numbers: \(3\) fails"):
        export_any_order(replace(certificate, certified=True), tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_a_sample_that_is_there_twice_is_exported(tmp_path):
    problem, weights = fitted(2, distance=1e-3, width=64, unit=False)
    x, y = np.concatenate([problem.x, 2 * problem.x[:1]]), np.append(problem.y, 2 * problem.y[0])
    certificate = certify_any_order(Problem(x, y), weights)
    proved = export_any_order(certificate, tmp_path / "folder")
    assert proved["step_limits"] == [pytest.approx(certificate.step_limit, rel=0.2)]


def test_step_limits_are_those_of_the_gradients_of_all_samples_and_their_multiples(tmp_path):
    """The step limits are those of the gradients of all samples, multiples included.

    The step limits are compared with the largest eigenvalue of J J' over each client's samples and over all samples.
    """
    problem, weights = fitted(2, distance=1e-3, width=64, unit=False, outputs=2)
    factors, of = np.array([1, 1, 1, 0.125, 8, 4]), np.array([0, 1, 2, 0, 0, 2])
    x, y = factors[:, None] * problem.x[of], factors[:, None] * problem.y[of]
    problem = Problem(x, y, np.array([0, 0, 1, 0, 1, 1]))
    proved = export_any_order(certify_any_order(problem, weights), tmp_path / "folder")
    active = problem.x @ weights.hidden.T > 0
    rows = np.einsum("or,nr,nd->nord", weights.readout, active, problem.x).reshape(6, 2, -1)
    exact_limits = [
        2 / np.linalg.norm(rows[of_batch].reshape(-1, rows.shape[2]), 2) ** 2
        for of_batch in (problem.owner == 0, problem.owner == 1, problem.owner >= 0)
    ]
    limits = np.array([*proved["step_limits"], proved["pooled_step_limit"]])
    assert (limits < exact_limits).all() and limits == pytest.approx(exact_limits, rel=0.2)


def test_a_class_is_final_only_beyond_all_neurons_that_may_become_active(tmp_path):
    """A class counts as final only if its margin exceeds the error with all neurons that may become active.

    The neurons in this error are the active neurons, and the inactive neurons so close to their kinks that they may
    cross them. An error that leaves out these inactive neurons is smaller. The class is open if its margin lies between
    the two errors.
    """
    problem, weights = fitted(2, distance=0.01, width=64, outputs=2, unit=False)
    certificate = certify_any_order(problem, weights)
    x = np.random.default_rng(0).standard_normal((4000, problem.d))
    z, reach = x @ certificate.fitted_weights().T, float(certificate.distance.hi) * np.linalg.norm(x, axis=1)
    top, other = np.sort(np.maximum(z, 0) @ weights.readout.T, axis=1)[:, ::-1].T
    margins = [
        (top - other) - reach * np.sqrt((z > -floor) @ weights.readout.T**2).sum(axis=1)
        for floor in (0, reach[:, None])
    ]
    between = (margins[0] > 0) & (margins[1] < 0)
    assert between.any()
    assert export_any_order(certificate, tmp_path / "folder", x[between])["final"] == ["open"] * between.sum()


def test_units_of_the_weights_do_not_matter(exported, folder, capsys):
    """If weights, labels and distance are multiplied by one power of two, however small, the proof is the same."""
    for name in ("hidden", "y", "solution"):
        change(folder, name, lambda values: values.__imul__(2.0**-400))
    edit_json(folder, lambda c: c["claim"].update(distance=2.0**-400 * c["claim"]["distance"]))
    assert answer(folder, capsys) == ("certified", 0)


def test_the_length_of_a_test_input_asks_for_no_time(tmp_path):
    """A test input of extreme size does not slow the check down.

    One of 500 inputs is the smallest float. The other inputs are not converted to integer multiples of this float, and
    they keep their classes.
    """
    problem, weights = fitted(2, distance=1e-3, width=256, outputs=2, unit=False)
    inputs = np.random.default_rng(0).standard_normal((500, problem.d))
    folder, seconds = tmp_path / "folder", []
    proved = export_any_order(certify_any_order(problem, weights), folder, inputs)
    for put in (1.0, 5e-324):
        change(folder, "x_test", lambda values, put=put: values.__setitem__(0, put))
        begun = time.process_time()
        assert ntkfl_check.check(folder)["final"][1:] == proved["final"][1:]
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 4 * seconds[0]


def test_a_distance_above_all_floats_is_refused(folder):
    change(folder, "solution", lambda values: values.fill(1.7e308))
    with pytest.raises(ntkfl_check.Refused, match=r"\(3\) fails"):
        ntkfl_check.check(folder)


@pytest.mark.parametrize("name", ["features", "outputs", "root_of", "owner", "held", "sha256"])
@pytest.mark.parametrize("value", [None, "z", True])
def test_a_field_of_another_type_is_named(name, value, folder, capsys):
    edit_json(folder, lambda content: content.update({name: value}))
    assert f"the JSON needs {{'{name}': <class '" in refused(folder, capsys)


@pytest.mark.parametrize("name", ["certificate.json", "x_test.f64"])
def test_a_device_is_not_read(name, tmp_path, capsys):
    problem, weights = fitted(2, distance=1e-3, width=64)
    export_any_order(certify_any_order(problem, weights), tmp_path / "folder")
    (tmp_path / "folder" / name).unlink()
    (tmp_path / "folder" / name).symlink_to(os.devnull)
    assert "no file" in refused(tmp_path / "folder", capsys)


def test_printed_numbers_are_those_that_are_proved(exported, capsys):
    proved = ntkfl_check.check(exported[0])
    assert ntkfl_check.main([str(exported[0])]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    *limits, pooled = (
        re.fullmatch(r"steps below (.*) by client, (.*) on batches of all", second).expand(r"\1 \2").split()
    )
    assert float(re.search(r"at most (\S+):", first)[1]) == proved["distance"]
    assert [*map(float, limits)] == proved["step_limits"] and float(pooled) == proved["pooled_step_limit"]


POSITIVE = st.builds(
    lambda value, power: value * Fraction(2) ** power,
    st.fractions(1, 4, max_denominator=10**20),
    st.integers(-1200, 1200),
)


@given(POSITIVE)
def test_a_limit_is_rounded_down_and_little(value):
    low = Fraction(ntkfl_check.below(value))
    assert low < value and (low > value * (1 - Fraction(2) ** -50) or low <= 2.0**-1022 or low > 2.0**999)


def integers(rows, columns):
    return st.lists(
        st.lists(st.integers(-(2**90), 2**90), min_size=columns, max_size=columns), min_size=rows, max_size=rows
    )


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_products_of_integers_are_exact(data, rows, inner, columns):
    a, b = data.draw(integers(rows, inner)), data.draw(integers(inner, columns))
    assert list(ntkfl_check.product(a, b)) == (np.array(a, dtype=object) @ np.array(b, dtype=object)).tolist()


@given(st.data(), st.integers(1, 5))
def test_no_eigenvalue_is_above_the_largest(data, size):
    """No eigenvalue is above the number that `largest` returns.

    The leading determinants of top I - M are computed in fractions. No eigenvalue is above top if all of them are
    positive, where the last one may also be 0.
    """
    half = data.draw(st.lists(st.integers(0, 2**40), min_size=size * size, max_size=size * size))
    matrix = [[half[i * size + j] + half[j * size + i] + 1 for j in range(size)] for i in range(size)]
    top = ntkfl_check.largest(matrix)
    rest = flint.fmpq_mat(
        size,
        size,
        [flint.fmpq(*((i == j) * top - matrix[i][j]).as_integer_ratio()) for i in range(size) for j in range(size)],
    )
    parts = (flint.fmpq_mat(k, k, [rest[i, j] for i in range(k) for j in range(k)]) for k in range(1, size))
    assert all(part.det() > 0 for part in parts) and rest.det() >= 0
    assert top <= max(map(sum, matrix)) * (1 + Fraction(1, 2**30))


def test_a_folder_that_is_not_empty_is_kept(exported, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="new folder"):
        export_any_order(exported[1], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def network_of(folder):
    """Returns the network and the data that a folder stores."""
    sizes = json.loads((folder / "certificate.json").read_text())
    arrays = {name: np.fromfile(folder / f"{name}.f64", "<f8") for name in ("hidden", "readout", "x", "y")}
    m, n, outputs = arrays["hidden"].size // sizes["features"], len(sizes["owner"]), sizes["outputs"]
    readout = arrays["readout"].reshape(outputs, m)
    if sizes["root_of"] != 1:
        readout = readout / np.sqrt(m)  # m is a square in the test below
    return Problem(arrays["x"].reshape(n, -1), arrays["y"].reshape(n, outputs)), TwoLayer(
        arrays["hidden"].reshape(m, -1), readout
    )


ARRAYS = ("hidden", "readout", "x", "y", "solution", "inverse_root")


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(ARRAYS),
    bit=st.sampled_from([0, 20, 40, 45, 48, 51, 52, 54, 63]),
    place=st.integers(0, 10**6),
    seed=st.integers(0, 3),
)
def test_whatever_is_accepted_is_true(name, bit, place, seed, tmp_path_factory):
    """Whatever the script accepts after a bit was flipped is true, as ball arithmetic of 300 bits shows.

    The flipped bit belongs to an array whose checksum is renewed.
    """
    folder = tmp_path_factory.mktemp("flipped") / "folder"
    certificate = certify_any_order(*fitted(seed, distance=0.01, width=16))
    if not certificate.certified:
        return
    export_any_order(certificate, folder)

    def flip(values):
        values.view("<u8")[place % len(values)] ^= np.uint64(1 << bit)

    change(folder, name, flip)
    try:
        proved = ntkfl_check.check(folder)
    except ntkfl_check.Refused:
        return
    again = exact(*network_of(folder), certificate.held)
    assert again.distance.lower() <= arb(proved["distance"])
    assert all(margin > 0 for margin in again.margins.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_what_float64_certifies_is_confirmed(seed, tmp_path):
    """The script confirms what float64 has certified, even if numbers are of very different sizes."""
    problem, weights = hostile(seed)
    certificate = certify_any_order(problem, weights)
    if not certificate.certified or not float(certificate.distance.hi) > 0:
        return
    nearest = certificate.proof[1]
    if nearest.slack > 0.01 * float(certificate.distance.lo):
        return  # Here float64 hardly determines W*.
    proved = export_any_order(certificate, tmp_path / "folder")
    assert proved["distance"] >= float(certificate.distance.lo)
