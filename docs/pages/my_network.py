# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # My network
#
# You have a network of your own, of any depth: a torch module, or a JAX function. This page computes the kernel of
# the network and its convergence rate under every federated method, and shows how far real training is from what the
# kernel predicts. The data are twenty of scikit-learn's digits on four clients, so that everything takes seconds.
#
# ## From a module to its kernel
#
# The output of the module on a sample must be a differentiable function of that sample only. In training mode batch
# norm mixes the samples of a batch, and dropout is random. So both are refused, with the reason. After a call of
# `eval()` on the module both are accepted: the present statistics of batch norm are then constants, and dropout is
# switched off. Parameters are converted to float64.

# %%
import torch

import ntkfl


def perceptron(width):
    linear, tanh = torch.nn.Linear, torch.nn.Tanh
    torch.manual_seed(width)
    return torch.nn.Sequential(linear(64, width), tanh(), linear(width, width), tanh(), linear(width, 1))


problem = ntkfl.data.digits(n=20, test=50)
network = ntkfl.network(perceptron(512))
kernel = ntkfl.gram.empirical(problem.x, network, network.initial(0))
print(f"{network.size()} parameters; kernel {kernel.shape}")
print("smallest eigenvalue", ntkfl.gram.smallest_eigenvalue(kernel))

# %% [markdown]
# The kernel is $J J^\top$, with a row of $J$ for each sample: the gradient of the network's output in all parameters.
# The Jacobian is never held as a whole. A network with $C$ outputs has a kernel of $nC$ rows; `problem.per_output()` is
# the matching problem with $nC$ samples.
#
# ## Its federated rate
#
# While the network stays near its linearisation, training is linear. For every method that is linear in the weights,
# `kernel_regime` then computes the rate, the largest stable step sizes, and the number of rounds.

# %%
setup = ntkfl.Setup(eta_local=0.05, local_steps=2, rounds=150)
for method in ("fl-ntk", "fedavgm", "scaffold", "feddyn"):
    regime = ntkfl.kernel_regime(problem, setup, kernel, method)
    print(f"{method:8}: factor {regime.rate:.5f} a round, {regime.rounds_to(0.1)} rounds to a tenth")
print(f"clients contract for eta_local below {regime.step_limits.eta_local:.3f}")

# %% [markdown]
# `eta_local` multiplies the gradient of *half the sum* of squares over a client's samples. If your loss is half the
# mean of these squares, divide your step by the client's number of samples. The [glossary](../glossary.md#steps)
# explains all step sizes.
#
# ## How far the trained network is from its kernel regime
#
# `simulate_network` trains all parameters with this library's training engine, under any method, on full batches.
# With `linearised=True` it trains the linearised network, which agrees with the kernel regime up to rounding.

# %%
import numpy as np

regime = ntkfl.kernel_regime(problem, setup, kernel)
for linearised in (True, False):
    run = ntkfl.simulate_network(problem, setup, network, linearised=linearised, keep=[setup.rounds])
    exact = regime.trajectory(initial_outputs=run.outputs[0])  # from where this network starts
    off = np.linalg.norm(run.outputs - exact.outputs, axis=1).max() / exact.residual_norm[0]
    print(f"{'linearised' if linearised else 'trained':10}: outputs off the kernel regime by {off:.1e} of the residual")

# %% [markdown]
# The last line has the distance of a network of this size, with PyTorch's initialisation, from its kernel regime. The
# rates above forecast the first rounds; for later rounds they give only the order of magnitude. Wider networks are
# nearer to their kernel regime. The next cell compares networks of three widths, each with the kernel regime of its
# own kernel. The widest of them is the network above.

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
pairs = {512: (run, exact)}
for width in (16, 128):
    own = ntkfl.network(perceptron(width))
    theirs = ntkfl.kernel_regime(problem, setup, ntkfl.gram.empirical(problem.x, own, own.initial(0)))
    seen = ntkfl.simulate_network(problem, setup, own)
    pairs[width] = seen, theirs.trajectory(initial_outputs=seen.outputs[0])
for axis, width in zip(axes, sorted(pairs), strict=True):
    seen, forecast = pairs[width]
    axis.semilogy(seen.residual_norm, label="trained")
    axis.semilogy(forecast.residual_norm, "--", color="black", label="kernel regime of its own kernel")
    axis.set(title=f"width {width}", xlabel="round $t$")
axes[0].set(ylabel="residual $|y - y(t)|_2$")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %% [markdown]
# ## Predictions on new data
#
# Give `kernel_regime` the kernel as a function, and it predicts the outputs at other points too, without training.
# The trained weights were kept in the run above.

# %%
start = network.initial(0)
regime = ntkfl.kernel_regime(problem, setup, lambda x, z: ntkfl.gram.empirical(x, network, start, z))
ends = {name: torch.tensor(value) for name, value in run.weights[setup.rounds].items()}
x = torch.tensor(np.array(problem.x_test))
before, trained = (network.outputs(params, x).detach().numpy() for params in (start, ends))
predicted = regime.predict(problem.x_test, setup.rounds, run.outputs[0], before)
print(f"test outputs: {np.std(trained):.3f} in size, predicted up to {np.abs(predicted - trained).max():.3f}")
print(f"same class on {np.mean(np.sign(predicted) == np.sign(trained)):.0%} of {len(trained)} test images")

# %% [markdown]
# ## Networks that have a limit
#
# For some networks the kernel no longer depends on the random start when the network is wide. Among such networks are
# fully connected networks of any depth, with ReLU, erf or GELU and with biases or without, and convolutional networks
# with global average pooling. These two kinds have names, such as `fc:3:relu`, and use the NTK parametrisation.
# `:standard` after the name gives the standard parametrisation. `step_factors` scales its step sizes so that both
# parametrisations train the same functions. The kernels in the limit are known in closed form (`ntkfl.gram.deep`), so
# that a network can be compared with the exact run at infinite width.

# %%
wide = ntkfl.networks.wide("fc:3:relu")  # three layers of weights, all trained
limit = ntkfl.kernel_regime(problem, setup, wide.kernel)
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for width in (32, 128, 512):
    run = ntkfl.simulate_network(problem, setup, wide.model((problem.d,), width))
    exact = limit.outputs(range(setup.rounds + 1), run.outputs[0])
    off = np.linalg.norm(run.outputs - exact, axis=1) / run.residual_norm[0]
    axis.semilogy(range(1, setup.rounds + 1), off[1:], label=f"width {width}")
axis.set(xlabel="round $t$", ylabel=r"$|y_m(t) - y_\infty(t)|_2 / |r(0)|_2$", title="fc:3:relu against its limit")
axis.legend()
plt.show()

# %% [markdown]
# Four times the width halves the distance, at any depth. The distance comes from the random fluctuation of the kernel
# at the start. Training adds less: order $1/m$ if the activation is smooth. The kernel of a ReLU network also moves
# by an amount of order $m^{-1/2}$, since neurons cross their kinks ([deep/kinks](../statements/deep.md)), but this
# part of the movement shows at large widths only.
#
# `ntkfl study run deep-width-scaling` measures the powers of the width with which these distances fall. The table
# combines networks of 2 to 6 layers, with widths from 64 to 768 and 12 seeds. Its intervals are 99% intervals. *Run*
# means the outputs on the training samples, in the round in which they are farthest off:
#
# | power of the width | ReLU | erf | theory |
# |---|---|---|---|
# | kernel, off its limit | -.55 ± .10 | -.51 ± .04 | -1/2 |
# | run, off its limit | -.50 ± .07 | -.50 ± .05 | -1/2 |
# | test predictions, off their limit | -.48 ± .05 | -.48 ± .07 | -1/2 |
# | run, off the regime of its own kernel | -.67 ± .16 | -.97 ± .13 | -1 if smooth; ReLU -1/2 in the end |
# | kernel, moved by training | -.89 ± .12 | -.99 ± .14 | -1 if smooth; ReLU -1/2 in the end |
#
# ## A JAX function
#
# A JAX function is passed together with its parameters, which are any pytree of arrays. The function is trained by
# the same engine.

# %%
import jax

keys = jax.random.split(jax.random.key(0), 2)
params = {"hidden": jax.random.normal(keys[0], (64, 100)) / 8, "readout": jax.random.normal(keys[1], (100,)) / 10}


def apply(params, x):
    return jax.nn.silu(x @ params["hidden"]) @ params["readout"]


mine = ntkfl.network(apply, params)
run = ntkfl.simulate_network(problem, setup, mine)
exact = ntkfl.kernel_regime(problem, setup, ntkfl.gram.empirical(problem.x, mine, mine.initial(0)))
print(
    f"residual {run.residual_norm[0]:.3f}, after {run.rounds} rounds {run.residual_norm[-1]:.3f}; by its kernel",
    end=" ",
)
print(f"{np.linalg.norm(problem.y - exact.outputs(run.rounds, run.outputs[0])):.3f}")

# %% [markdown]
# ## From a shell
#
# A file of three lines is enough. The file is executed with random seed 0.

# %%
# %%writefile mine.py
from torch.nn import Linear, Sequential, Tanh

module = Sequential(Linear(64, 200), Tanh(), Linear(200, 1))

# %%
# !ntkfl rate --network mine.py --eta-local 0.02

# %%
# !ntkfl simulate --network fc:4:erf --width 256 --eta-local 0.05 --rounds 90

# %% [markdown]
# `ntkfl fastest --network mine.py` tunes every method for this network, and `ntkfl gram --network fc:3:relu --out
# h.npy` writes the kernel.
#
# ## Limits
#
# A forecast is no proof. Before any training, a certificate (`ntkfl certify`) is possible only for the two-layer
# network of FL-NTK, because the bounds on how far a kernel moves are for one layer of trained weights. After some
# training, [a checkpoint of a deep network](deep_network_safe.ipynb) may be certified. For a deep network before
# training, only the smallest eigenvalue of its limit kernel is *proved*; the kernel's entries have proven errors
# (`ntkfl.gram.deep_estimate`). The limit of convolutional networks and the kernel of a finite network are computed in
# float64 without proven errors, as the tables say (*not certified*).
