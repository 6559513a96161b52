# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Is my group of models connected?
#
# Federated learning averages models. The mean of two good models can be a bad model, because the loss may rise on the
# way from one model to the other. The *barrier* is the largest amount by which the loss rises above the straight line
# between its two end values,
#
# $$\sup_{0 \le \alpha \le 1} \; L(\alpha w_1 + (1 - \alpha) w_2) - \alpha L(w_1) - (1 - \alpha) L(w_2).$$
#
# For networks $f(x) = v \cdot \mathrm{relu}(U x)$ the barrier is computed here without a grid. Along the segment the
# outputs are piecewise quadratic, with breaks where a unit switches on or off. So the supremum is taken piece by
# piece. For squared loss, absolute loss and accuracy the result is exact up to rounding. For logistic loss and
# cross-entropy the result has a proven error. This error is at most 1e-10 if evaluating 200 000 points of the segment
# is enough. If not, the error is larger. The error is printed in either case.
#
# ## Two networks
#
# The strangest barrier is the barrier between a network and a copy of this network whose units are in another order.
# Both compute the same function:

# %%
import numpy as np

import ntkfl
from ntkfl.connectivity import TwoLayer, connectivity_loss, loss_barrier

rng = np.random.default_rng(0)
x = rng.standard_normal((40, 5))
first = TwoLayer(rng.standard_normal((16, 5)), rng.standard_normal(16) / 4)
order = rng.permutation(16)
second = TwoLayer(first.hidden[order], first.readout[order])
y = first.outputs(x)
print("loss barrier     ", loss_barrier(first, second, x, y))
print("connectivity loss", connectivity_loss(first, second, x, y))

# %% [markdown]
# Neither network has any loss, but between them the loss rises to 1.06. (The connectivity loss is the mean of the
# loss over the segment, FedGuCci's Eq (7).)
#
# ## A group, trained alone or connected to an anchor
#
# The next example uses real images. Three networks from different starts are trained on different halves of 400
# digits, first by themselves, and then again with FedGuCci's connectivity loss to one trained anchor network.

# %%
from ntkfl.connectivity import accuracy_barrier, draw_two_layer, group_accuracy_barrier, group_barrier, train_two_layer

problem = ntkfl.data.digits(n=400, target="one-hot")
x, classes = problem.x, problem.y.argmax(axis=1)
rng = np.random.default_rng(0)
*starts, last = [draw_two_layer(32, x.shape[1], 10, rng) for _ in range(4)]
halves = slice(None, 200), slice(200, None), slice(100, 300)
training = {"steps": 300, "rate": 1.0}
anchor = train_two_layer(last, x, classes, **training)
groups = {
    kind: [
        train_two_layer(start, x[half], classes[half], anchor=anchor, weight=weight, **training)
        for start, half in zip(starts, halves, strict=True)
    ]
    for kind, weight in (("alone", 0.0), ("connected", 1.0))
}
for kind, group in groups.items():
    print(f"{kind}:")
    print("  loss barrier of the first two    ", loss_barrier(*group[:2], x, classes, "cross-entropy"))
    print("  accuracy barrier of the first two", accuracy_barrier(*group[:2], x, classes))
    print("  loss of the mean, less their mean", group_barrier(group, x, classes, "cross-entropy"))
    print("  accuracy of the mean, drop       ", group_accuracy_barrier(group, x, classes))

# %% [markdown]
# Training with the connectivity loss divides the barrier of the pair by more than a hundred here. The drop of the
# group's accuracy becomes negative, so averaging increases the accuracy. The last two lines of each group compare the
# averaged network with the group's mean loss and mean accuracy, as FedGuCci's Definition 3.6 does for any number of
# networks. The drop of accuracy is relative to the mean accuracy.
#
# ## The plane through three models
#
# Three models span a plane of weight space. The next picture shows the loss in this plane, and where the mean of the
# models lies:

# %%
import matplotlib.pyplot as plt

from ntkfl.connectivity import combination, plane_losses, plane_through

figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for panel, (kind, group) in zip(panels, groups.items(), strict=True):
    plane = plane_through([network.vector() for network in group])
    s, t = plane.axes(41)
    losses = plane_losses(group, x, classes, s, t, "cross-entropy")
    filled = panel.contourf(s, t, np.minimum(losses.T, 1.2), levels=np.linspace(0, 1.2, 13), cmap="viridis_r")
    panel.plot(*plane.corners.T, "o", color="white", markeredgecolor="black")
    panel.plot(*plane.coordinates(combination(group).vector()), "*", color="red", markersize=12)
    panel.set_title(kind)
    panel.set_aspect("equal")
figure.colorbar(filled, ax=panels, label="mean loss [nats], cut off at 1.2")
plt.show()

# %% [markdown]
# The circles are the three models, and the star is their mean. `ntkfl miniature plane --out miniatures` draws such
# planes for larger models and for clients of one training run, like FedGuCci's Figure 3 and IMA's Figure 1.
# [Results](../results) has the picture.
#
# ## Saved networks, and networks of a run
#
# A network is saved as a `.npz` file with the arrays `hidden` (h, l) and `readout` (h,) or (C, h). You can save your
# network in this form. Or give the file in which torch, safetensors, numpy or Flower saved a two-layer ReLU network,
# with biases or without: `ntkfl barrier A.pt B.safetensors C.pth.tar --data mine.npz`. [Files of
# networks](../glossary.md) says which files can be read.

# %%
from pathlib import Path

from ntkfl.connectivity import save_network

for name, network in zip("ab", groups["alone"], strict=False):
    save_network(network, Path(f"{name}.npz"))

# %%
# !ntkfl barrier a.npz b.npz --data digits --n 400 --loss cross-entropy

# %% [markdown]
# The value on the grid of 11 points, which papers use, is printed for comparison. The largest loss on a grid is never
# above the maximum on the segment, but it may be below this maximum. `--json FILE` saves the numbers.
#
# The folder of a training run can be given in place of a network, if the model is `two-layer:WIDTH`. The barrier is
# then taken on the run's own test samples:

# %%
# !ntkfl train fedavg --model two-layer:64 --partition shards:2 --rounds 5 --out fedavg 2>log | grep acc

# %%
# !ntkfl train fedgucci --model two-layer:64 --partition shards:2 --rounds 5 --out fedgucci 2>log | grep acc

# %%
# !ntkfl barrier fedavg fedgucci --loss cross-entropy

# %% [markdown]
# ## The clients of a round
#
# The server averages the clients' models. Here a saved run is trained for one more round, and the models that the
# clients have at the end of this round are kept:

# %%
from itertools import combinations

from ntkfl.training import load_run, to_networks

for folder in ("fedavg", "fedgucci"):
    kept = load_run(folder)
    data = kept.federation.data
    images, labels = data.x_test.flatten(1).numpy(), data.y_test.numpy()
    clients = to_networks(kept.federation.round(kept.state, keep_ends=True).ends)
    pairs = [loss_barrier(*pair, images, labels, "cross-entropy").value for pair in combinations(clients[:4], 2)]
    print(f"{folder:<9} largest barrier of six pairs: {max(pair.hi for pair in pairs):.6f}")
    print(f"{'':<9} mean of all, loss less their mean: {group_barrier(clients, images, labels, 'cross-entropy')}")
    print(f"{'':<9} drop of accuracy: {group_accuracy_barrier(clients, images, labels)}")

# %% [markdown]
# Each client has samples of few classes, and its model is bad at the other classes. All clients start from one
# network, and there is no barrier between any two of them. The mean of the clients' models is far better than these
# models are: the last two numbers of each run are negative.
#
# ## What the theorems promise
#
# `ntkfl connectivity-table` compares the bounds with the exact barriers. Its rows are of three kinds: networks that are
# drawn at random, networks that are trained alone or connected, and clients of one round. `--images fashion-mnist`
# takes other images.

# %%
# !ntkfl connectivity-table

# %% [markdown]
# Read a row from right to left. The last columns are the exact barriers. To the left of them is the quantity that the
# theorems bound (*largest gap*), and then come the bounds themselves: FedGuCci's Theorem 3.5, and three bounds proved
# by this project, which are called *R1*, *sure* and *R2* (`ntkfl show fedgucci/R2`). *d* is the side of the cube
# around the anchor that contains the networks.
#
# Theorem 3.5 holds, but on every row it is far from the truth. R2, which uses the data, is within a small factor of
# the truth on networks drawn around an anchor (*cube*). Trained networks are not uniform draws, so Theorem 3.5 and R1
# guarantee nothing about them, while the bounds *sure* and R2 hold. In the rows of ten classes the cross-entropy
# barriers are certified, and the bounds are multiplied by the Lipschitz constant of this loss, $\sqrt 2$ (Assumption
# 3.2 has 1). Networks trained from different starts have a barrier (*alone*). If they are trained with the
# connectivity loss to a trained anchor (*connected*), the barrier is divided by six for ten classes, and by less for
# two classes. *FedAvg* and *FedGuCci* are clients of one round, which start from one network. Between them no loss
# barrier is found (0 means that the barrier is smaller than its error). FedGuCci's clients move farther from that
# network than FedAvg's clients do (column d), as statement `fedgucci/X4` says.
#
# ## Any other model
#
# Barriers are exact for two-layer ReLU networks, with biases too. For any other torch module the barrier is computed
# on a grid of the segment, and the output says so. `TorchNetwork` wraps a module so that it can be averaged and
# evaluated. *WENS less FMA* (names of the averaging paper) is the mean of the models' outputs less the output of the
# averaged model; *locality* is the largest distance of a model from the average.

# %%
import torch
from torch import nn

from ntkfl.connectivity import (
    CROSS_ENTROPY,
    TorchNetwork,
    averaging_gap,
    between,
    evaluated_group_barrier,
    grid_barrier,
    grid_connectivity_loss,
    linear_cka,
    locality,
)

torch.manual_seed(0)
deep = [nn.Sequential(nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(3)]
for module in deep:
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(x).float()), torch.tensor(classes)).backward()
        optimizer.step()
models = [TorchNetwork.of(module) for module in deep]


def loss(model):
    return float(CROSS_ENTROPY.value(model.outputs(x), classes).mean())


def on_the_segment(alpha):
    return loss(between(models[0], models[1], alpha))


print("loss barrier     ", grid_barrier(on_the_segment))
print("connectivity loss", grid_connectivity_loss(on_the_segment))
print("group barrier    ", f"{evaluated_group_barrier(loss, models):.4f}")
print("WENS less FMA    ", f"{np.sqrt(np.mean(averaging_gap(models, x) ** 2)):.4f} (root mean square)")
print("locality         ", f"{locality(models):.4f}")
print("CKA of two       ", f"{linear_cka(models[0].outputs(x), models[1].outputs(x)):.4f}")

# %% [markdown]
# With `plane_through([model.vector() for model in models])` and `plane_grid` you can draw the plane through these
# models. `error_factors` takes the outputs of any models, and splits the error of their average into the five factors
# of the averaging paper. `mean_discrepancy` computes the maximum mean discrepancy from the matrices of any kernel
# (with K or K^2, as a U- or a V-statistic).
#
# ## How large is a region of low loss?
#
# FedGuCci's $d_\varepsilon$ is $V^{1/S}$, with $V$ the volume of $\{L < \varepsilon\}$ in a cube and $S$ the number of
# weights. For few weights $d_\varepsilon$ is estimated from uniform points, for many weights by multilevel splitting.
# Without a bounded domain $d_\varepsilon$ is infinite:

# %%
from ntkfl.connectivity import region_size, split_region_size

rng = np.random.default_rng(0)
anchor = TwoLayer(rng.standard_normal((2, 2)), rng.standard_normal(2))
inputs = rng.standard_normal((10, 2))


def losses(points):
    hidden, readout = points[:, :4].reshape(-1, 2, 2), points[:, 4:, None]
    outputs = (np.maximum(inputs @ hidden.swapaxes(1, 2), 0) @ readout)[..., 0]
    return np.abs(outputs - anchor.outputs(inputs)).mean(axis=1)


print("uniform points", region_size(losses, 0.15, anchor.vector(), 4.0, rng, points=200_000))
print("splitting     ", split_region_size(losses, 0.15, anchor.vector(), 4.0, rng))
try:
    region_size(losses, 0.15, anchor.vector(), np.inf, rng)
except ValueError as error:
    print(error)

# %% [markdown]
# ## If a group is not connected: align the models, or connect them
#
# The strange barrier of the beginning goes away when the units are put back in order. `align` permutes the units of
# the second network so that they are as near as possible to the units of the first network. The choice of the order
# is an assignment problem, which is solved exactly, so no other order is nearer:

# %%
from ntkfl.connectivity import align, align_group

alignment = align(first, second)
inputs = np.random.default_rng(1).standard_normal((40, 5))
print("squared distance ", alignment.cost_before, "->", alignment.cost_after)
print("loss barrier     ", loss_barrier(first, alignment.aligned, inputs, first.outputs(inputs)))

# %% [markdown]
# Networks that are trained from different starts are not copies of each other. Here the two groups from above are
# aligned, once by the units' weights and once by their activations on the data:

# %%
for kind, group in groups.items():
    for by in ("weights", "activations"):
        aligned = [alignment.aligned for alignment in align_group(group, by, x if by == "activations" else None)]
        pair = loss_barrier(*aligned[:2], x, classes, "cross-entropy").value
        mean = group_barrier(aligned, x, classes, "cross-entropy")
        print(
            f"{kind:<9} aligned by {by:<11} barrier {float(pair.value):.4f}, mean less their mean {float(mean.value):+.4f}"
        )

# %% [markdown]
# After alignment, the models that were trained alone have no barrier either: the barrier is 0 to within its error.
# Before alignment, the mean of these models was far worse than the models are. After alignment, the mean is better
# than the models. The mean is best, compared with the models, if they are connected in training and aligned by their
# weights afterwards. The barrier of an aligned network is exact as before. `least_barrier` searches for an order of
# the units with a smaller barrier. For up to 8 units it tries all orders, and the result says whether all orders were
# tried.
#
# For saved networks, one command prints the barriers before and after alignment:

# %%
# !ntkfl barrier a.npz b.npz --data digits --n 400 --loss cross-entropy --align weights

# %% [markdown]
# Torch modules are aligned one layer at a time, again and again until no layer changes. The search is made from
# several starts, and the best result is kept. Which weights must be permuted together is found by tracing one
# evaluation of the model, so you need not list them, even if the model has convolutions, norms or residual streams. A
# model that cannot be traced is refused, and the message names the weights and the reason. Units are compared by
# their weights, by their activations, or by their contributions to the outputs (activation times gradient of the
# outputs).

# %%
from ntkfl.connectivity import align_torch, align_torch_group

for by in ("weights", "activations", "outputs"):
    alignment = align_torch(models[0], models[1], x, by)
    units = {name: len(order) for name, order in alignment.permutations.items()}

    def on_the_aligned_segment(alpha, other=alignment.aligned):
        return loss(between(models[0], other, alpha))

    print(f"by {by:<11} loss barrier {grid_barrier(on_the_aligned_segment).value:.4f}; moved: {units}")

aligned = [alignment.aligned for alignment in align_torch_group(models, x)]
print(f"all three by weights: group barrier {evaluated_group_barrier(loss, models):.4f}", end=" -> ")
print(f"{evaluated_group_barrier(loss, aligned):.4f}")

# %% [markdown]
# Most of the barrier is gone, but not all: with several layers the search ends in a local minimum. (A grid only
# bounds a barrier from below.) Matching by outputs removes less here, because units that contribute the same to the
# outputs may have different weights on their inputs. (Matching by outputs is the only one of the three rules that is
# unchanged when units are rescaled.) The running averages of batch norm are permuted with their channels. But the
# running averages of an averaged network do not fit its activations, so compute them again before you judge the
# averaged network.
#
# In short, if a group is not connected:
#
# * If the models are trained already, align them to one of them, or all to each other (`align_group`, and for modules
#   `align_torch_group`), and measure again.
# * If the models are still to be trained, give them one start, or connect them to an anchor.
# * Clients of a round start from one network and stay near it. Their units are already in the nearest order, so
#   `ntkfl train fedavg-aligned`, which aligns the clients before they are averaged, is the same as FedAvg unless
#   steps are very long.
#
# `ntkfl study run alignment` measures the barriers of all these cases against the width, on digits and on
# Fashion-MNIST:
#
# ![Exact barriers against the width, for networks trained alone, connected, from one start](../alignment.svg)
#
# The study has five widths, both data sets, four seeds, and two lengths of training. The picture shows the longer
# training. Weight matching lowers the barrier of independent models in all of 80 pairs, by .39 nats on average.
# Connecting to an anchor lowers the barrier by .22. Both together are better than either alone, and .03 nats better
# than matching. Which matching is better depends on the data: matching by activations is better on digits after a
# short training (by .08 nats), and matching by weights is better on Fashion-MNIST after a long training (by .03).
# Clients of a round have no barrier to begin with. `ntkfl verify alignment` checks the theorems about aligned
# networks.

# %% [markdown]
# ## Limits
#
# * Exact barriers are for two-layer ReLU networks; for other networks a grid gives a lower bound.
# * A barrier depends on the data set, so take samples that the models have not been trained on.
# * Networks that compute the same function may have a barrier between them, as above, so align them first.
#
# Where next: `ntkfl study run transitivity`, `group-connectivity` and `drift` measure how barriers grow with
# distance, clients and width; [How wide is wide enough?](how_wide) explains studies.
