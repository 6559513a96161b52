"""Tests of an installation without PyTorch: every method can be built, and the module that compares networks can be
imported.

The exact limits of the linear methods are computed.
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Without())
import experiments.console.barrier_files, ntkfl
from ntkfl.training.methods import build, catalogue
from ntkfl.training.objectives import CrossEntropy

problem, setup, exact, drawn = ntkfl.data.sphere(n=6), ntkfl.Setup(eta_local=0.1), [], []
for name, module in catalogue().items():
    assert build(name, CrossEntropy()).name == name
    for answer, names in ((ntkfl.kernel_regime, exact), (ntkfl.random_rounds, drawn)):
        try:
            answer(problem, setup, method=name)
        except ValueError as error:
            assert hasattr(module, "NOT_LINEAR") or name == "cyclic", (name, error)
        except ModuleNotFoundError as error:
            assert not hasattr(module, "linear") and "is differentiated: it needs PyTorch" in str(error), (name, error)
        else:
            names.append(name)
linear = {name for name, module in catalogue().items() if hasattr(module, "linear")}
assert set(exact) == linear and set(drawn) == linear - {"cyclic"}, (exact, drawn)
ntkfl.kernel_regime(problem, setup, method="fedavg", ima=ntkfl.exact_dynamics.MovingWindow(2, 0))
for name in ("run", "Federation"):
    try:
        getattr(ntkfl.training, name)
    except ModuleNotFoundError as error:
        assert "pip install 'ntkfl[train]'" in str(error), error
    else:
        raise AssertionError(name)
"""


def test_methods_and_their_limits_do_without_torch():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
