# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Why neurons gather at kinks
#
# A ReLU neuron has a kink for every sample: the weights $w$ with $w \cdot x_i = 0$. At the start, a network of width
# $m$ has some neurons near a kink by chance. The smaller a distance is, the fewer neurons lie within this distance of a
# kink. After training many more neurons are near a kink, at distances that shrink with the residual (`fl-ntk/X.13`).
# This page shows how neurons arrive at kinks, which neurons stay there and how many, and which kernel drives the loss
# while they stay (`fl-ntk/X.13b`). A neuron that stays at a kink is called *caught*, or *held*.
#
# ## They arrive
#
# The data are twenty digits on one client, and the network is trained by plain gradient descent. $z = \sqrt m\, w_r
# \cdot x_i$ is the scaled signed distance of neuron $r$ from the kink of sample $i$. The plot shows $z$ for the neurons
# that end at a kink, and for some neurons that start as near to a kink and do not end at it.

# %% tags=["noise:0.5"]
from dataclasses import replace

import numpy as np
from matplotlib import pyplot as plt

import ntkfl
from ntkfl.initialisation import draw

width, rounds, window = 1000, 420, 100
problem = ntkfl.data.digits(n=20, clients=1)
setup = ntkfl.Setup(width=width, eta_local=0.3, local_steps=1, rounds=rounds)
start = draw(width, problem.d, setup.seed)
run = ntkfl.simulate(problem, setup, start, keep=range(rounds + 1))
residual, size = problem.y - run.outputs, run.residual_norm
places = np.array([np.sqrt(width) * run.weights[t] @ problem.x.T for t in range(rounds + 1)])  # (rounds, m, n)

late = places[-window:] >= 0
crossings = (late[1:] != late[:-1]).sum(axis=0)
caught = np.argwhere(crossings >= 3)
near = np.argwhere((np.abs(places[0]) < 1.0) & (crossings == 0))
print(f"|r| from {size[0]:.2g} to {size[-1]:.2g}; {len(caught)} pairs cross their kink again and again in the end")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for r, i in near[:: max(1, len(near) // 12)]:
    axes.plot(places[:, r, i], color="0.75", linewidth=0.8)
for r, i in caught[:12]:
    axes.plot(places[:, r, i], linewidth=1)
axes.plot(size, "k--", linewidth=0.8, label="|r(t)|")
axes.plot(-size, "k--", linewidth=0.8)
axes.set_yscale("symlog", linthresh=1e-7)
axes.set(xlabel="round", ylabel="z, place beside the kink", ylim=(-3, 3), title="Caught neurons, and others (grey)")
axes.legend()
plt.show()

# %% [markdown]
# A caught neuron comes to the kink, crosses it, is pushed back, and crosses it again. The neuron cannot leave: as the
# residual falls, the neuron's steps become shorter, and so do its distances from the kink.
#
# ## Which neurons are caught
#
# Gradient descent pushes neuron $r$ along $x_i$. While the neuron is inactive on sample $i$, only the other samples
# push it. The push is $a_r B / \sqrt m$ with $B = \sum_{j \ne i} \langle x_i, x_j \rangle s_{rj} r_j$, where $r_j$ is
# the residual of sample $j$, and $s_{rj}$ is 1 if the neuron is active on sample $j$ and 0 if not. While the neuron
# is active on sample $i$, the push is $a_r (B + |x_i|^2 r_i) / \sqrt m$. The neuron is held if both pushes are
# directed towards the kink. Both pushes have this direction if $a_r r_i < 0$ and $\psi = -B / (|x_i|^2 r_i)$ is
# between 0 and 1. If $a_r r_i > 0$, the kink repels. The next cell prints how many of the caught pairs of a neuron
# and a sample meet these two conditions:

# %% tags=["noise:0.5"]
from ntkfl.finite_width import sliding

last = ntkfl.Weights(run.weights[rounds], start.signs)
pairs = sliding(problem, last, caught)
psi, sign = pairs.activations(residual[-1]), start.signs[caught[:, 0]] * residual[-1][caught[:, 1]]
print(f"a_r r_i < 0: {np.mean(sign < 0):.0%};  psi in (0, 1): {np.mean((psi > 0) & (psi < 1)):.0%}")

# %% [markdown]
# $\psi$ does not only decide whether a neuron is held. $\psi$ is also the activation, between 0 and 1, with which the
# neuron would stay where it is. A caught neuron has this activation *on average*: $\psi$ is the share of rounds in
# which the neuron is active.

# %% tags=["noise:0.5"]
active = late.mean(axis=0)[caught[:, 0], caught[:, 1]]
figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
axes.plot([0, 1], [0, 1], "k", linewidth=0.8)
axes.plot(psi, active, "o", alpha=0.6)
axes.set(xlabel="psi", ylabel="share of the last rounds active", xlim=(-0.1, 1.1), ylim=(-0.1, 1.1))
plt.show()
print(f"median difference: {np.median(np.abs(psi - active)):.1g}")

# %% [markdown]
# ## How many
#
# The count can be predicted without fitting a constant. In a wide network a neuron switches on or off for at most one
# sample, and its $z$ follows a scalar recursion that is driven by the residuals of the *infinitely wide* network. The
# number of neurons that end near the kink then follows from the density of $z$ at the start. The next cell counts the
# pairs of a neuron and a sample within $0.3\,|r| / \sqrt m$ of their kinks, in federated training on four clients
# with five local steps:

# %% tags=["noise:0.2"]
from ntkfl.finite_width import pairs_near_kinks

federated = ntkfl.data.digits(n=20, clients=4)
steps = ntkfl.Setup(eta_local=0.3, local_steps=5, rounds=200)
limit = np.linalg.norm(federated.y - ntkfl.kernel_regime(federated, steps).outputs([steps.rounds])[0])
foretold = pairs_near_kinks(federated, steps, [steps.rounds], [0.3 * limit], draws=128, starts=16)
print("width   foretold   by the density of the start   counted in three networks")
for m in (500, 2000, 8000):
    counts = []
    for seed in range(3):
        weights = draw(m, federated.d, seed)
        shifted = replace(federated, y=federated.y + weights.outputs(federated.x))  # so that r(0) is that of the limit
        trained = ntkfl.simulate(shifted, replace(steps, width=m, seed=seed), weights, keep=[steps.rounds])
        z = np.abs(trained.weights[steps.rounds] @ federated.x.T)
        counts.append(int((z < 0.3 * trained.residual_norm[-1] / np.sqrt(m)).sum()))
    chance = federated.n * 2 * 0.3 * limit / np.sqrt(2 * np.pi)
    print(f"{m:5}   {float(foretold.value[0]) * m**0.5:8.0f}   {chance:27.1g}   {counts}")

# %% [markdown]
# The count grows like $\sqrt m$. (The prediction is for large widths. In narrow networks the late residuals have
# other directions than those of the infinitely wide network, so other neurons are held.)
#
# ## The kernel that is left
#
# A caught neuron slides along the hyperplane of its kink. Only those parts of the pushes from other samples that lie
# in this hyperplane move the neuron, and it contributes nothing to the output $f_i$. So while these pairs are held,
# the kernel of training is the Gram matrix of the gradients *with the held pairs projected out*: the gradient of a
# held neuron is projected onto the hyperplane of its kink. The next cell starts from the residual before the last
# hundred rounds, and predicts the residual after these rounds by three kernels:

# %% tags=["noise:0.5"]
before, after, gram = residual[-window - 1], residual[-1], problem.x @ problem.x.T
patterns = run.weights[rounds] @ problem.x.T >= 0
without = patterns.copy()
without[caught[:, 0], caught[:, 1]] = False
kernels = {
    "patterns as they are": gram * (patterns.T @ patterns.astype(float)) / width,
    "held pairs left out": gram * (without.T @ without.astype(float)) / width,
    "held pairs projected out": pairs.kernel(),
}
for name, kernel in kernels.items():
    predicted = np.linalg.matrix_power(np.eye(problem.n) - setup.eta_local * kernel, window) @ before
    print(f"{name:26} off by {np.linalg.norm(predicted - after) / np.linalg.norm(after):.1e} of |r|")

# %% [markdown]
# The catalogue has a statement about this kernel. The statement is about networks that are built so that neurons are
# held for a while. As $K \eta_l$ goes to 0, gradient descent, and FedAvg with any number of local steps, converge to
# the flow $r' = -H_P r$, where $H_P$ is the kernel with the held pairs projected out. The error is proportional to $K
# \eta_l$.

# %%
# !ntkfl verify fl-ntk/X.13b --trials 3

# %% [markdown]
# ## What it means
#
# - Neurons that gather at kinks do not affect a bound that counts neurons by their distance to the kinks at the
#   start. They affect a bound that starts again at a checkpoint, because the neurons that have gathered at kinks are
#   always within the radius that such a bound needs (`ntkfl show fl-ntk/X.13`).
# - These neurons do not affect a certificate that treats them separately. [The any-order
#   certificate](safe_from_here.ipynb) does so: at its point $W^*$, a network that fits the data, these neurons lie
#   exactly on their kinks.
# - With several local steps a neuron may also cross a kink in every round, but only during the local steps of one
#   client, and be brought back when the server takes the mean. Such pairs are held like the others: $\psi$ is the
#   share of local steps in which the neuron is active, and these pairs are projected out too. Late in training most
#   of the held pairs are of this kind. All this is for small steps. With long steps $H_P$ is still the kernel of the
#   server's move, but it is not the kernel of a client's local moves ({doc}`../proofs/finite_width` has the numbers).
