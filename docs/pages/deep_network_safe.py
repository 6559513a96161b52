# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Is my deep network's training safe?
#
# [For two ReLU layers with a fixed readout](safe_from_here.ipynb) a checkpoint can prove that *every* further order of
# training fits the data. This page does the like for a network of any depth **all of whose layers are trained**. It
# must be smooth (GELU, tanh, softplus, sigmoid, SiLU, or erf and sine), because the proof bounds second derivatives, or
# ReLU with no sample near a kink; and every sample must be visited about equally often. Convolutions that
# keep the image's size, a mean over pixels and residual blocks (`ntkfl.training.Residual(...)`) are covered too.
#
# ## A checkpoint
#
# Any program may have made it, with any optimiser. Here it is PyTorch, with its usual initialisation and momentum, on
# twenty of scikit-learn's digits; the network has two hidden layers with biases.

# %%
import numpy as np
import torch

import ntkfl

digits = ntkfl.data.digits(n=20, clients=2, seed=0, test=300)
x, y = torch.tensor(digits.x), torch.tensor(digits.y)

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(64, 400), torch.nn.GELU(), torch.nn.Linear(400, 400), torch.nn.GELU(), torch.nn.Linear(400, 1)
).double()
sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.95)


def train(steps):
    for _ in range(steps):
        loss = ((net(x).squeeze(1) - y) ** 2).sum() / 2
        sgd.zero_grad()
        loss.backward()
        sgd.step()


train(300)

# %% [markdown]
# ## The question
#
# After 300 steps:

# %%
print(ntkfl.certify_network(net, None, digits))

# %% [markdown]
# Not certified. That says nothing against the training: the residual is still too large for the proof, and the second
# line estimates which one would do. Train on, and ask again:

# %%
train(300)
certificate = ntkfl.certify_network(net, None, digits)
print(certificate)

# %% [markdown]
# **What is proved** are the first two sentences. Their words mean:
#
# - A **step** is on *half the sum* of squares over any batch of distinct samples. If your loss is the mean over a batch
#   of $b$ samples, your learning rate is $b / 2$ times the step meant here. Training by momentum ends at the checkpoint.
# - A **window** is a run of steps in which each sample is visited equally often: an epoch, in any order and in batches
#   of any sizes, or a round in which clients make such steps and the mean of their models is taken. With
#   `certify_network(..., visits=3)` some samples may be visited up to three times as often as others.
# - **distance to a fit**: so near there are weights that fit every label. A window lowers the square of that distance by
#   the factor in the last line, at least. That is for the worst order; what happens is faster.
#
# The numbers come from norms of the layers and the smallest eigenvalue of the network's tangent kernel, all with proven
# error bounds.

# %% [markdown]
# ## Go on training, in a bad way
#
# Single samples, those with the smallest residuals first, so that the large ones wait as long as they can:

# %%
start = [value.detach().clone() for value in net.parameters()]
seen = torch.tensor(digits.x_test)
claimed = certificate.enclosure(digits.x_test)
eta = certificate.step_limit
for epoch in range(31):
    with torch.no_grad():
        residual = y - net(x).squeeze(1)
    if epoch % 10 == 0:
        print(f"epoch {epoch}: |y - f| = {residual.norm():.3g}")
    for i in torch.argsort(residual.abs()).tolist():
        loss = (net(x[i : i + 1]).squeeze() - y[i]) ** 2 / 2
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for value in net.parameters():
                value -= eta * value.grad

moved = sum(((a - b) ** 2).sum() for a, b in zip(net.parameters(), start, strict=True)) ** 0.5
outputs = net(seen).squeeze(1).detach().numpy()
print("within the stated distance:", bool(moved <= certificate.reach))
print("all outputs in their intervals:", bool(((claimed.lo <= outputs) & (outputs <= claimed.hi)).all()))
final = certificate.final(digits.x_test)
settled = final != "open"
print(f"{settled.sum()} of {len(final)} classes are final; changed since: {(np.sign(outputs) != final)[settled].sum()}")

# %% [markdown]
# ## How far it reaches
#
# `ntkfl study run certificate-reach` measures the residual at which a network on digits first certifies. It brings
# the network towards the labels by Gauss-Newton steps until a checkpoint certifies. 56 networks took 229 s of one
# processor.
#
# ![The first certified residual over the width, for seven networks and 50 or 200 samples](../reach.png)
#
# - **Depth**: with 50 samples and 1024 neurons a layer, networks with erf certify from $|y - f|$ = .010 on with two
#   layers, .0022 with three, .00042 with four. The bounds on second derivatives get looser with every layer.
# - **Samples**: with 200 of them instead of 50 the residual is 2.8 to 6.5 times smaller, with ReLU up to 11 times.
# - **Width**: eight times the neurons allow 1.2 to 2.9 times the residual. In theory the residual grows as $m^{1/2}$
#   once the kernel's smallest eigenvalue is that of infinite width; here the eigenvalue still falls with the width.
# - **Activation and parametrisation**: residuals are 1.03 to 1.2 times smaller with tanh than with erf, and 1.4 to 3.4
#   times smaller with GELU. The standard parametrisation certifies at residuals 3 to 5 times larger.
# - **ReLU** needs residuals 600 to 17,000 times smaller than erf does. The wider the network, the smaller they must be:
#   more neurons leave less room between samples and kinks.
#
# Beyond the grid, with 50 samples: five layers of 1024 neurons certify from .00013 on (12 s of processor, .3 GB), three
# of 2048 from .0029 (27 s, .6 GB), two of 2048 from .013 (1 s, .2 GB).
#
# The certified distance to a fit was 2.7 to 15 times that of the fit which Newton steps found. Of 100 test images 88 or
# more had a final class.

# %% [markdown]
# ## Full rounds of federated averaging
#
# Where training goes on by full rounds, `ntkfl.certify_rounds` proves the rate of these rounds. Two clients, three
# steps each:

# %%
setup = ntkfl.Setup(eta_local=0.01, local_steps=3)
print(ntkfl.certify_rounds(net, None, digits, setup))

# %% [markdown]
# ## Networks that are not covered
#
# They are refused by the name of the layer:

# %%
try:
    ntkfl.certify_network(torch.nn.Sequential(torch.nn.Linear(64, 9), torch.nn.BatchNorm1d(9)), None, digits)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Which certificate for which network?
#
# | network | trained | further training | certificate |
# |---|---|---|---|
# | two layers, ReLU | hidden layer | any order, no bound on the gaps between visits | `ntkfl certify --any-order` |
# | two layers, ReLU | hidden layer | Algorithm 1 itself, with its rate | [`ntkfl certify`](will_it_converge.ipynb), also before any training |
# | any depth, smooth, or ReLU away from its kinks | all layers or some | any order that visits samples about equally often | `certify_network`, `ntkfl certify --network` |
# | the same | all layers or some | full rounds of federated averaging, with their rate | `certify_rounds` |
#
# None of them covers momentum or control variates after the checkpoint: for two layers of ReLU `ntkfl certify --method`
# does. Only `--any-order` covers other losses (`--loss`); it takes server steps up to 1, as `certify_network` does,
# while Algorithm 1 and full rounds may have longer ones where they are stable.
#
# What is proved is about real arithmetic: rounding in later training is not in it. The theorem behind `certify_network`
# is checked on small networks, and each of its hypotheses is shown to be needed: `ntkfl verify deep/any-order`.
#
# `ntkfl certify --network fc:3:gelu --width 256 --data digits --n 20 --eta-local 0.1 --watch` trains a network by
# Algorithm 1 until it certifies.
