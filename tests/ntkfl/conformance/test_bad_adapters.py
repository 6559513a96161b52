"""Tests of adapters that crash, hang or return wrong values: each fault gives one line, and the other cases
continue.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from ntkfl.conformance import Agreement, cases, conformance, kit
from ntkfl.conformance.kit import AdapterError, Refused, arrays, document

LOOPS = Path(__file__).parents[3] / "ntkfl" / "conformance" / "loops.py"
GOOD = f"""
import importlib.util, os, sys, time, signal
import numpy as np
spec = importlib.util.spec_from_file_location("plain_loops", {str(LOOPS)!r})
loops = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loops)

def good(case):
    return [case.tensors(one["model"]) for one in loops.LOOPS[case.method](case, **case.options)]

class Rubbish:
    def __reduce__(self):
        return os.system, ("touch unpickled",)
"""
BAD = {
    "raises": ("raise KeyError('weights')", "KeyError: 'weights'"),
    "raises in colours": (r"raise ValueError('\x1b[31mno\x07\n weights')", "ValueError: [31mno weights"),
    "exits": ("sys.exit(3)", "SystemExit: 3"),
    "crashes": ("os._exit(7)", "the process ended with status 7"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "the process was ended by SIGKILL"),
    "speaks and crashes": (
        "print('out of luck', file=sys.stderr, flush=True); os._exit(1)",
        "the process ended with status 1: out of luck",
    ),
    "hangs": ("time.sleep(1000)", "no answer within 3 s"),
    "nothing": ("return None", "TypeError: run returned NoneType; run(case) must return, or yield, a dictionary"),
    "empty": ("return []", "there is no 'head.weight'; the answer has nothing"),
    "text": ("return 'done'", "TypeError: run returned str"),
    "numbers": ("return [1, 2, 3, 4]", "TypeError: a round is int; run(case) must return"),
    "too few rounds": (
        "return good(case)[:2]",
        "'head.weight' has shape (2, 3, 4), rounds first; it must be (4, 3, 4)",
    ),
    "for ever": (
        "return (case.tensors(case.start) for _ in iter(int, 1))",
        "'head.weight' has shape (5, 3, 4), rounds first; it must be (4, 3, 4)",
    ),
    "float16": (
        "return [{n: v.astype(np.float16) for n, v in one.items()} for one in good(case)]",
        "'head.weight' is float16; it must be float64 or float32",
    ),
    "whole numbers": (
        "return [{n: v.astype(int) for n, v in one.items()} for one in good(case)]",
        "'head.weight' is int64; it must be float64 or float32",
    ),
    "two precisions": (
        "return [one | {'head.bias': one['head.bias'].astype(np.float32)} for one in good(case)]",
        "some arrays are float64 and some float32; all must be of one precision",
    ),
    "objects": (
        "return [{n: Rubbish() for n in one} for one in good(case)]",
        "ValueError: Object arrays cannot be saved when allow_pickle=False",
    ),
    "a wrong name": (
        "return [{'w': 1.0} for one in good(case)]",
        "there is no 'head.weight'; the answer has 'w'",
    ),
    "a name too many": (
        "return [one | {'velocity': np.zeros(3)} for one in good(case)]",
        "'velocity' is no name of this case; its names are 'head.weight', 'head.bias'",
    ),
    "a wrong shape": (
        "return [one | {'head.weight': one['head.weight'].T} for one in good(case)]",
        "'head.weight' has shape (4, 4, 3), rounds first; it must be (4, 3, 4)",
    ),
    "rounds unlike each other": (
        "return good(case)[:3] + [{'head.bias': 0}]",
        "ValueError: the rounds do not all have the same names",
    ),
    "nan": (
        "one = good(case); one[2]['head.bias'][1] = np.nan; return one",
        "'head.bias' has NaN or infinity after round 3; every number must be finite",
    ),
}


METHODS = "fedavg", "fedgma", "fednova", "fedprox", "fl-ntk", "scaffold"
PLACES = [kit.case.name for kit in cases(METHODS) if kit.case.document["model"] == "logistic"]
AT = dict(zip(BAD, PLACES, strict=False))  # Each kind of fault has a case of its own.


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Returns the verdicts on one adapter that has every fault of this file, each fault in a case of its own."""
    folder = tmp_path_factory.mktemp("bad")
    bad = "".join(f"\n    if case.name == {AT[kind]!r}:\n        {line}" for kind, (line, _) in BAD.items())
    (folder / "adapter.py").write_text(
        f"{GOOD}\ndef run(case):\n    print('rubbish on stdout'){bad}\n    return good(case)\n"
    )
    judgements = conformance(folder / "adapter.py", METHODS, limit=3).methods
    assert [path.name for path in folder.iterdir()] == ["adapter.py"]  # Nothing was written, and nothing was unpickled.
    return judgements


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("kind", BAD)
def test_one_line_says_what_is_wrong(kind, verdicts):
    (method,) = (judged for judged in verdicts if judged.method == AT[kind].split("/")[0])
    (failed,) = (case for case in method.cases if case.case == AT[kind])
    assert failed.outcome is method.outcome is Agreement.FAILED
    assert BAD[kind][1] in failed.remark and "\n" not in failed.remark


def test_the_other_cases_go_on(verdicts):
    others = [case.outcome for method in verdicts for case in method.cases if case.case not in AT.values()]
    assert set(others) == {Agreement.EQUAL} and len(others) == len(cases(METHODS)) - len(BAD)


def test_what_hangs_again_and_again_is_not_waited_for(tmp_path):
    file = tmp_path / "adapter.py"
    file.write_text("import time\n\ndef run(case):\n    time.sleep(1000)\n")
    report = conformance(file, ["local"], limit=0.1)
    said = [case.remark for case in report.methods[0].cases]
    assert said == ["no answer within 0.1 s"] * 2 + [
        "not run: 2 cases of this method had no answer within 0.1 s"
    ] * (len(said) - 2) and len(said) > 2  # fmt: skip


def test_its_children_end_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(kit, "HANGS", 1)
    file = tmp_path / "adapter.py"
    file.write_text(  # The child process starts before the case, so that the case's time limit may be short.
        "import subprocess, sys, time\n\nchild = subprocess.Popen([sys.executable, '-c', 'import time; "
        f"time.sleep(1000)'])\nwith open({str(tmp_path / 'pid')!r}, 'w') as file:\n    file.write(str(child.pid))\n\n"
        "def run(case):\n    time.sleep(1000)\n"
    )
    conformance(file, ["local"], limit=0.1)
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    "text, said",
    [
        ("def run(case:\n", "the adapter cannot be loaded: SyntaxError"),
        ("import no_such_framework\n", "the adapter cannot be loaded: ModuleNotFoundError: No module named 'no_such"),
        ("steps = 3\n", r"the adapter cannot be loaded: TypeError: it has no function run\(case\)"),
        ("import os\nos._exit(9)\n", "the adapter cannot be loaded: the process ended with status 9"),
        ("PACKAGES = ('no-such-framework',)\ndef run(case): pass\n", "cannot be loaded: PackageNotFoundError"),
        ("import time\ntime.sleep(1000)\n", "the adapter cannot be loaded: it was not loaded within 0.1 s"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_is_bad_input(text, said, tmp_path, monkeypatch):
    limit = 0.1 if "sleep" in text else 60
    monkeypatch.setattr(kit, "LOADING", limit)
    (tmp_path / "adapter.py").write_text(text)
    with pytest.raises(AdapterError, match=said):
        conformance(tmp_path / "adapter.py", ["local"], limit=limit)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"the adapter is '.*none.py'; there is no such file"):
        conformance(tmp_path / "none.py", ["local"])
    (tmp_path / "adapter.py").write_text("def run(case): pass\n")
    with pytest.raises(ValueError, match="the interpreter is '/no/python'; there is no such file"):
        conformance(tmp_path / "adapter.py", ["local"], python="/no/python")
    with pytest.raises(ValueError, match=r"adapter.py cannot be started: Permission denied"):
        conformance(tmp_path / "adapter.py", ["local"], python=str(tmp_path / "adapter.py"))
    with pytest.raises(ValueError, match="the limit is 0 s; it must be positive"):
        conformance(tmp_path / "adapter.py", ["local"], limit=0)


def test_single_precision_is_equal_but_for_its_rounding_and_a_fault_is_still_named(tmp_path):
    single = "\n".join(
        [
            "def run(case):",
            "    found = loops.run(case.cast(np.float32))",
            "    return [{n: v.astype(np.float32) for n, v in one.items()} for one in found]",
        ]
    )
    file = tmp_path / "adapter.py"
    file.write_text(GOOD + single)
    (judgement,) = conformance(file, ["fedprox"]).methods
    assert judgement.outcome is Agreement.EQUAL and {case.precision for case in judgement.cases} == {"float32"}
    halved = single.replace("loops.run(", "changed(") + (
        "\ndef changed(case):\n    case.options['mu'] /= 2\n    return loops.run(case)\n"
    )
    file.write_text(GOOD + halved)
    (judgement,) = conformance(file, ["fedprox"]).methods
    assert [[variant.name for variant in together] for together in judgement.explained] == [["proximal-halved"]]


def test_files_that_are_no_arrays_are_refused(tmp_path):
    path = tmp_path / "0.npz"
    for content in (b"", b"PK\x03\x04 rubbish", b"not a zip file"):
        path.write_bytes(content)
        with pytest.raises(Refused, match=r"0.npz cannot be read: "):
            arrays(path, {"w": (4, 3)}, ["w"])
    with pytest.raises(Refused, match=r"1.npz cannot be read: FileNotFoundError"):
        arrays(tmp_path / "1.npz", {"w": (4, 3)}, ["w"])
    np.savez(path, w=np.array([{"a": 1}] * 4, dtype=object))
    with pytest.raises(Refused, match="'w' is object; it must be float64 or float32"):
        arrays(path, {"w": (4,)}, ["w"])
    for content, said in ((b"[1]", "0.json is list; it must be an object"), (b"\xff", "0.json cannot be read as JSON")):
        (tmp_path / "0.json").write_bytes(content)
        with pytest.raises(Refused, match=said):
            document(tmp_path / "0.json")


def test_arrays_come_back_as_they_were_written_in_either_order(tmp_path):
    value = np.random.default_rng(0).standard_normal((4, 3, 2))
    for order in (value, np.asfortranarray(value), value.astype(">f8"), value.astype(np.float32)):
        np.savez(tmp_path / "a.npz", w=order)
        read = arrays(tmp_path / "a.npz", {"w": value.shape}, ["w"])["w"]
        assert np.array_equal(read, order) and read.dtype.isnative


def test_the_interpreter_is_the_one_that_was_named(tmp_path):
    (tmp_path / "adapter.py").write_text(
        f"import sys\nassert sys.executable == {sys.executable!r}\nPACKAGES = ('numpy',)\n"
        "def run(case): raise NotImplementedError('later')\n"
    )
    report = conformance(tmp_path / "adapter.py", ["local"])
    assert report.peer.packages == {"numpy": np.__version__} and not report.conforms
    assert {case.remark for case in report.methods[0].cases} == {"later"}
    assert len(report.methods[0].cases) == len(cases(["local"]))
