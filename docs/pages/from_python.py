# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # From Python
#
# The command line is a thin layer over Python functions, so all that it does can be done from Python. Three packages
# matter: `ntkfl` (data, Gram matrices, training and its infinite-width limit), `bounds` (the statements),
# `verification` (the code that checks them). Arrays are NumPy arrays of float64. A number that is not exact comes
# with its error.
#
# ## Gram matrices
#
# The network is $f(x) = m^{-1/2} \sum_r a_r \max(w_r^\top x, 0)$, with fixed signs $a_r$ and hidden weights $w_r$ that
# are trained. Its neural tangent kernel at infinite width is
#
# $$H^\infty_{ij} = x_i^\top x_j \, \frac{\pi - \angle(x_i, x_j)}{2 \pi},$$
#
# and a network of $m$ neurons has a random $H(0)$ near it.

# %%
import numpy as np

import ntkfl

problem = ntkfl.data.digits(n=50)  # 50 real images, 4 clients, labels +-1
limit = ntkfl.gram.infinite(problem.x)  # H_inf, (50, 50)
finite = ntkfl.gram.initial(problem.x, width=2**16, seed=0)  # H(0); no weights are kept
print(f"|H(0) - H_inf|_F = {np.linalg.norm(finite - limit):.3f}")
print("lambda_min(H_inf) =", ntkfl.gram.smallest_eigenvalue(limit))  # the lower end is certified

# %% [markdown]
# ## Training, and its limit
#
# `simulate` runs Algorithm 1 of FL-NTK on a network of finite width. `kernel_regime` computes the limit of this
# training at infinite width. One eigendecomposition gives the residual at any round, the rate, and the step sizes
# beyond which training diverges.

# %%
setup = ntkfl.Setup(width=4096, eta_local=0.3, local_steps=5, rounds=200)
regime = ntkfl.kernel_regime(problem, setup)  # infinite width, any number of rounds
run = ntkfl.simulate(problem, setup)  # Algorithm 1
print(f"rate {regime.rate:.5f} a round, {regime.rounds_to(1e-3)} rounds to 1e-3, stable: {regime.stable}")
exact = regime.trajectory(initial_outputs=run.outputs[0])
print(f"residual after 200 rounds: {run.residual_norm[-1]:.4f} simulated, {exact.residual_norm[-1]:.4f} in the limit")

# %% [markdown]
# `simulate` and `regime.trajectory` both return a `Trajectory`, so their results are easily compared.

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.semilogy(run.residual_norm, label="Algorithm 1, 4096 neurons")
axis.semilogy(exact.residual_norm, "--", label="infinite width")
axis.set(xlabel="round $t$", ylabel=r"residual $|y - y(t)|_2$")
axis.legend()
plt.show()

# %% [markdown]
# ## Statements with your own numbers
#
# A statement can be evaluated on your own numbers in ball arithmetic, in which each result has a proven error. The
# statement can also be solved for a symbol. The symbols are explained in the [glossary](../glossary.md).

# %%
import bounds
from bounds.symbols import K, eta_local, lam, m, n, r0

b12 = bounds.get("fl-ntk/B.12")
numbers = {n: 50, K: 5, eta_local: 0.001, lam: 0.08, r0: 7.0}
(bound,) = b12.evaluate(numbers | {m: 4096})
print("no neuron moves farther than", bound)
print("width for a bound of 0.01:", f"{b12.solve_for(m, 0.01, numbers)[0]:.3g}")

# %% [markdown]
# Bounds of this kind ask for very wide networks. `verify` checks a statement on its default cases and gives a
# `Verdict` for each form; `print(verdict)` shows the whole verdict.

# %%
from verification import verify

for verdict in verify(bounds.get("fl-ntk/A.2")):
    largest = verdict.tightness["sharpest"]
    print(f"{verdict.form}: {verdict.outcome}, {verdict.trials} trials, largest left/right {largest:.6g}")

# %% [markdown]
# The [guides](../index.md) show the rest. Every public name is in the [reference](../reference/index.md).
