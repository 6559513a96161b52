"""Tests of JAX's precision: `import ntkfl` leaves JAX as the user has set it.

The package's own computations with JAX are still in float64.
"""

import subprocess
import sys

import pytest

GUEST = """
import sys
import numpy as np
import ntkfl
assert "jax" not in sys.modules and "torch" not in sys.modules
import jax.numpy as jnp
from ntkfl.initialisation import draw
assert jnp.ones(2).dtype == np.float32
weights = draw(5, 3, seed=1)
assert weights.hidden.dtype == np.float64 and (weights.hidden != weights.hidden.astype(np.float32)).all()
kinds = []
def kernel(x, z=None):
    value = jnp.asarray(x) @ jnp.asarray(x if z is None else z).T
    kinds.append(value.dtype)
    return np.asarray(value)
problem = ntkfl.Problem(np.eye(3) + 0.1, np.ones(3))
ntkfl.kernel_regime(problem, ntkfl.Setup(eta_local=0.1), gram=kernel).predict(problem.x, [1])
network = ntkfl.network(lambda params, x: x @ params["w"], {"w": np.ones(3)})
value = ntkfl.gram.empirical(problem.x, network, network.initial(0))
assert np.abs(value - problem.x @ problem.x.T).max() < 1e-14
assert set(kinds) == {np.dtype("float64")}, kinds
assert jnp.ones(2).dtype == np.float32
"""


@pytest.mark.slow  # The test starts a process, in which JAX compiles everything again.
def test_the_users_jax_stays_in_float32():
    done = subprocess.run([sys.executable, "-c", GUEST], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
