# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Is my deep network's training safe?
#
# [For two-layer networks with ReLU and a fixed readout](safe_from_here.ipynb) a certificate of a checkpoint can prove
# that further training fits the data, *whatever* the order of the samples is. This page has such certificates for
# networks of any depth **with all layers trained**. The network must be smooth (GELU, tanh, softplus, sigmoid, SiLU,
# erf or sine), because the proof bounds second derivatives. A network with ReLU is covered if no sample is near a kink
# (a point where a unit switches on or off). Further training must use every sample about equally often. Three kinds of
# layers are covered too: convolutions of any stride (odd kernels, padded by half the kernel), a mean over pixels, and
# residual blocks (`ntkfl.training.Residual(...)`) with activations in front or behind. Max pooling is not covered: it
# has kinks wherever two pixels are equal. torch's `Softplus` becomes linear at its threshold, 20. The threshold is a
# kink, and no sample may come near it. A JAX function `f(params, x)` that consists of products `x @ W`, biases, these
# activations and residual sums can be passed as it is, by the call `ntkfl.certify_network(f, params, problem)`. The
# program finds the layers in it.
#
# ## A checkpoint
#
# Any program may have made the checkpoint, with any optimiser. Here it is made by PyTorch, with its usual
# initialisation and momentum, on twenty of scikit-learn's digits. The network has two hidden layers with biases.

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
# The checkpoint is not certified. A missing certificate does not mean that training will fail: the residual is still
# too large for the proof. The second line estimates which residual would be small enough. Train on, and ask again:

# %%
train(300)
certificate = ntkfl.certify_network(net, None, digits)
print(certificate)

# %% [markdown]
# The first two sentences are **what is proved**. Their words mean:
#
# - A **step** is a gradient step on *half the sum* of squares over any batch of distinct samples. If your loss is the
#   mean over a batch of $b$ samples, your learning rate is $b / 2$ times the step meant here. Momentum may have been
#   used before the checkpoint, but not after it.
# - A **window** is a sequence of steps in which each sample is used equally often. A window may be an epoch, in any
#   order and in batches of any sizes. It may also be a round in which clients make such steps and the mean of their
#   models is taken. With `certify_network(..., visits=3)` some samples may be used up to three times as often as
#   others.
# - **distance to a fit**: within this distance there are weights that fit every label. A window multiplies the square
#   of this distance by at most the factor in the last line. This factor is for the worst order, and real training is
#   faster.
#
# The numbers come from norms of the layers and the smallest eigenvalue of the network's tangent kernel, all with proven
# error bounds.

# %% [markdown]
# ## Go on training, in a bad way
#
# The next cell trains by steps on single samples. The samples with the smallest residuals come first, so that the
# large residuals wait as long as possible:

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
# `ntkfl study run certificate-reach` measures the residual at which a network on digits is first certified.
# Gauss-Newton steps bring the outputs of the network towards the labels until a checkpoint is certified. The residual
# of this checkpoint is the network's *first certified residual*. The 56 networks of the study took 229 s of one
# processor.
#
# ![The first certified residual over the width, for seven networks and 50 or 200 samples](../reach.svg)
#
# - **Depth**: with 50 samples and 1024 neurons a layer, the first certified residual $|y - f|$ of networks with erf
#   is .010 with two layers, .0022 with three, and .00042 with four. The bounds on second derivatives get looser with
#   every layer.
# - **Samples**: with 200 samples instead of 50 the first certified residual is 2.8 to 6.5 times smaller, and with
#   ReLU up to 11 times smaller.
# - **Width**: with eight times the neurons the first certified residual is 1.2 to 2.9 times as large. In theory the
#   first certified residual grows like $m^{1/2}$ once the kernel's smallest eigenvalue is the eigenvalue at infinite
#   width. In the study this eigenvalue still falls with the width.
# - **Activation and parametrisation**: the first certified residuals are 1.03 to 1.2 times smaller with tanh than
#   with erf, and 1.4 to 3.4 times smaller with GELU than with erf. With the standard parametrisation the first
#   certified residuals are 3 to 5 times larger.
# - **ReLU** needs residuals 600 to 17,000 times smaller than erf does. The wider the network, the smaller these
#   residuals must be, because with more neurons the samples are closer to kinks. Gradient descent, unlike the study's
#   Gauss-Newton steps, also [gathers neurons at kinks](neurons_at_kinks.ipynb). In other runs, gradient descent
#   trained both layers of 16 two-layer networks, on 5 to 20 digits. One network was certified. The others were not
#   certified at any residual down to $10^{-10}$. What is still proved about such networks is in
#   {doc}`../proofs/smooth_networks`, "Neurons at their kinks".
#
# Wider networks than these 56 were tried with 50 samples and 2048 neurons a layer. The first certified residual is
# .0029 with three layers (27 s of processor, .6 GB) and .013 with two layers (1 s, .2 GB). The certified distance to
# a fit was 2.7 to 15 times the distance to the fit that Newton steps found.
#
# The next table has single networks with 1024 neurons in each layer and up to five layers, on digits and on
# Fashion-MNIST. A readout that is not trained is called fixed (`:fixed` in the name of a network). Each row is a cell
# of the study, that is, one of its runs. `python docs/certified_networks.py --measure "digits 500 fc:4:erf:fixed
# 1024"` measures one row again. Without `--measure` the script writes both tables from the stored rows. The distance,
# the window factor and the number of final classes belong to the first checkpoint that is certified. The class of a
# test image is *final* if the certificate proves that further training does not change it. There are 500 test images.
# All numbers are rounded in the direction that claims less. The seconds are processor time of one processor, counted
# from the draw of the first weights:
#
# | images | n | network | readout | first certified residual | distance to a fit | 1 - window factor | final classes | s | GB |
# |---|---|---|---|---|---|---|---|---|---|
# | digits | 50 | fc:2:erf | trained | .01 | .062 | .00021 | 427 | 0.46 | 0.2 |
# | digits | 50 | fc:2:erf | fixed | .0095 | .071 | .00017 | 427 | 0.52 | 0.2 |
# | digits | 50 | fc:3:erf | trained | .0021 | .013 | .00016 | 496 | 3.5 | 0.3 |
# | digits | 50 | fc:3:erf | fixed | .0019 | .012 | .00035 | 483 | 3.4 | 0.3 |
# | digits | 50 | fc:4:erf | trained | .00041 | .0022 | .00019 | 498 | 6.2 | 0.3 |
# | digits | 50 | fc:4:erf | fixed | .00037 | .0021 | .00035 | 499 | 6.4 | 0.3 |
# | digits | 50 | fc:5:erf | trained | .00012 | .0005 | .00041 | 498 | 9.2 | 0.4 |
# | digits | 50 | fc:5:erf | fixed | .00011 | .00048 | .00027 | 498 | 7.7 | 0.4 |
# | digits | 50 | fc:2:gelu | trained | .0099 | .07 | 8.5e-5 | 435 | 0.5 | 0.2 |
# | digits | 50 | fc:2:gelu | fixed | .0087 | .073 | .00021 | 446 | 0.52 | 0.2 |
# | digits | 50 | fc:3:gelu | trained | .0015 | .012 | 5.7e-5 | 489 | 3 | 0.3 |
# | digits | 50 | fc:3:gelu | fixed | .0013 | .011 | .00034 | 493 | 3.2 | 0.3 |
# | digits | 50 | fc:4:gelu | trained | .00014 | .0011 | .00065 | 499 | 5.1 | 0.3 |
# | digits | 50 | fc:4:gelu | fixed | .00011 | .0011 | .00085 | 499 | 5.5 | 0.3 |
# | digits | 50 | fc:5:gelu | trained | 1.4e-5 | 8.6e-5 | .00061 | 500 | 3.9 | 0.4 |
# | digits | 50 | fc:5:gelu | fixed | 1.2e-5 | 9e-5 | .00062 | 500 | 4 | 0.4 |
# | digits | 50 | fc:2:relu | trained | 9e-7 | 3e-6 | .0011 | 500 | 0.44 | 0.2 |
# | digits | 50 | fc:2:relu | fixed | 2.2e-6 | 8.1e-6 | .0025 | 500 | 0.43 | 0.2 |
# | digits | 50 | fc:3:relu | trained | 3.7e-7 | 7.8e-7 | .0015 | 500 | 3.6 | 0.3 |
# | digits | 50 | fc:3:relu | fixed | 1.7e-7 | 3.7e-7 | .0041 | 500 | 3.2 | 0.3 |
# | digits | 50 | fc:4:relu | trained | 6.4e-7 | 1.1e-6 | .0016 | 500 | 3.3 | 0.3 |
# | digits | 50 | fc:4:relu | fixed | 3e-7 | 5.1e-7 | .0034 | 500 | 2.9 | 0.3 |
# | digits | 50 | fc:5:relu | trained | 1.8e-8 | 2.5e-8 | .0017 | 500 | 4.7 | 0.4 |
# | digits | 50 | fc:5:relu | fixed | 4.5e-7 | 1.6e-7 | .0031 | 500 | 3.6 | 0.4 |
# | digits | 200 | fc:2:erf | trained | .0026 | .024 | 4.1e-5 | 482 | 1.7 | 0.2 |
# | digits | 200 | fc:2:erf | fixed | .0025 | .024 | 7.7e-5 | 489 | 1.7 | 0.2 |
# | digits | 200 | fc:3:erf | trained | .00057 | .0048 | 1.4e-5 | 496 | 6.1 | 0.3 |
# | digits | 200 | fc:3:erf | fixed | .00048 | .0047 | 3.1e-5 | 496 | 7.7 | 0.3 |
# | digits | 200 | fc:4:erf | trained | .0001 | .00077 | 4.9e-5 | 498 | 11 | 0.4 |
# | digits | 200 | fc:4:erf | fixed | 9e-5 | .00081 | 9.4e-6 | 499 | 11 | 0.3 |
# | digits | 200 | fc:5:erf | trained | 2.7e-5 | .00018 | 6.4e-5 | 500 | 8.8 | 0.4 |
# | digits | 200 | fc:5:erf | fixed | 2.4e-5 | .00017 | 6e-5 | 500 | 8.9 | 0.4 |
# | digits | 200 | fc:2:gelu | trained | .0016 | .022 | 1.4e-5 | 490 | 2.3 | 0.2 |
# | digits | 200 | fc:2:gelu | fixed | .0015 | .024 | 1.3e-5 | 492 | 1.8 | 0.2 |
# | digits | 200 | fc:3:gelu | trained | .0003 | .004 | 1.8e-5 | 500 | 6.5 | 0.3 |
# | digits | 200 | fc:3:gelu | fixed | .00025 | .0037 | 3.5e-5 | 497 | 6.7 | 0.3 |
# | digits | 200 | fc:4:gelu | trained | 4.1e-5 | .00035 | 6.4e-5 | 500 | 11 | 0.4 |
# | digits | 200 | fc:4:gelu | fixed | 2.9e-5 | .00038 | .00012 | 500 | 12 | 0.3 |
# | digits | 200 | fc:5:gelu | trained | 4.2e-6 | 6.6e-5 | 5.6e-5 | 500 | 19 | 0.4 |
# | digits | 200 | fc:5:gelu | fixed | 3e-6 | 2.9e-5 | 7.3e-5 | 500 | 9.7 | 0.4 |
# | digits | 200 | fc:2:relu | trained | 1.5e-7 | 1.9e-7 | .00016 | 500 | 1.8 | 0.2 |
# | digits | 200 | fc:2:relu | fixed | 7.6e-8 | 2e-7 | .00038 | 500 | 1.8 | 0.2 |
# | digits | 200 | fc:3:relu | trained | 1.7e-7 | 5e-7 | .00021 | 500 | 8.3 | 0.3 |
# | digits | 200 | fc:3:relu | fixed | 4.7e-9 | 1.4e-8 | .00069 | 500 | 5.5 | 0.3 |
# | digits | 200 | fc:4:relu | trained | 1.4e-7 | 3.1e-7 | .00025 | 500 | 8.6 | 0.4 |
# | digits | 200 | fc:4:relu | fixed | 5.7e-8 | 1.2e-7 | .00059 | 500 | 8.7 | 0.4 |
# | digits | 200 | fc:5:relu | trained | 7.5e-8 | 4.7e-8 | .00035 | 500 | 10 | 0.4 |
# | digits | 200 | fc:5:relu | fixed | 5e-8 | 5e-8 | .00057 | 500 | 10 | 0.4 |
# | digits | 500 | fc:2:erf | trained | .0006 | .0073 | 8e-6 | 497 | 3.6 | 0.3 |
# | digits | 500 | fc:2:erf | fixed | .00057 | .0082 | 1.2e-5 | 496 | 3.4 | 0.3 |
# | digits | 500 | fc:3:erf | trained | .00014 | .0015 | 9.8e-6 | 500 | 14 | 0.3 |
# | digits | 500 | fc:3:erf | fixed | .00011 | .0016 | 9.3e-6 | 500 | 14 | 0.4 |
# | digits | 500 | fc:4:erf | trained | 3.2e-5 | .00028 | 1.3e-5 | 499 | 25 | 0.5 |
# | digits | 500 | fc:4:erf | fixed | 2.6e-5 | .0003 | 1.4e-5 | 499 | 24 | 0.5 |
# | digits | 500 | fc:5:erf | trained | 7.4e-6 | 5.9e-5 | 1.4e-5 | 499 | 18 | 0.6 |
# | digits | 500 | fc:5:erf | fixed | 6.8e-6 | 6.4e-5 | 1.4e-5 | 500 | 18 | 0.6 |
# | digits | 500 | fc:2:gelu | trained | .00025 | .0053 | 3.7e-6 | 499 | 3.4 | 0.3 |
# | digits | 500 | fc:2:gelu | fixed | .00024 | .0056 | 7.7e-6 | 499 | 4.1 | 0.2 |
# | digits | 500 | fc:3:gelu | trained | 5.6e-5 | .0011 | 7.1e-6 | 500 | 15 | 0.4 |
# | digits | 500 | fc:3:gelu | fixed | 4.5e-5 | .0012 | 9.9e-6 | 500 | 14 | 0.4 |
# | digits | 500 | fc:4:gelu | trained | 8.3e-6 | 7.5e-5 | 1.1e-5 | 500 | 27 | 0.5 |
# | digits | 500 | fc:4:gelu | fixed | 5.9e-6 | 8.9e-5 | 1.2e-5 | 500 | 26 | 0.5 |
# | digits | 500 | fc:5:gelu | trained | 1.3e-6 | 6.1e-6 | 1.3e-5 | 500 | 21 | 0.6 |
# | digits | 500 | fc:5:gelu | fixed | 1e-6 | 6.9e-6 | 1.4e-5 | 500 | 21 | 0.6 |
# | digits | 500 | fc:2:relu | trained | 7.5e-9 | 4.2e-8 | 4.1e-5 | 500 | 4.8 | 0.3 |
# | digits | 500 | fc:2:relu | fixed | 1.1e-7 | 1.9e-7 | .0001 | 500 | 4.2 | 0.2 |
# | digits | 500 | fc:3:relu | trained | 1.1e-8 | 3.5e-8 | 7e-5 | 500 | 11 | 0.4 |
# | digits | 500 | fc:3:relu | fixed | 3.1e-8 | 5.2e-8 | .00019 | 500 | 9.1 | 0.4 |
# | digits | 500 | fc:4:relu | trained | 2.6e-8 | 2.5e-8 | 6.9e-5 | 500 | 15 | 0.5 |
# | digits | 500 | fc:4:relu | fixed | 3.4e-8 | 2.7e-8 | .00014 | 500 | 15 | 0.5 |
# | digits | 500 | fc:5:relu | trained | none (2.2e-10 asked for, known to 9.4e-9) |  |  |  | 13 | 0.5 |
# | digits | 500 | fc:5:relu | fixed | 1e-8 | 1.8e-8 | .00018 | 500 | 14 | 0.6 |
# | Fashion-MNIST | 200 | fc:2:erf | trained | .0018 | .018 | 1.7e-5 | 486 | 2.7 | 0.3 |
# | Fashion-MNIST | 200 | fc:2:erf | fixed | .0015 | .018 | 2.5e-5 | 491 | 2.8 | 0.3 |
# | Fashion-MNIST | 200 | fc:3:erf | trained | .00037 | .0033 | 2.9e-5 | 500 | 7.2 | 0.4 |
# | Fashion-MNIST | 200 | fc:3:erf | fixed | .00029 | .0031 | 1.4e-5 | 499 | 8.8 | 0.4 |
# | Fashion-MNIST | 200 | fc:4:erf | trained | 8.1e-5 | .00066 | 1.2e-5 | 499 | 15 | 0.4 |
# | Fashion-MNIST | 200 | fc:4:erf | fixed | 7.4e-5 | .00067 | 4e-6 | 500 | 13 | 0.4 |
# | Fashion-MNIST | 200 | fc:5:erf | trained | 1.8e-5 | .00013 | 3.8e-5 | 500 | 9.9 | 0.5 |
# | Fashion-MNIST | 200 | fc:5:erf | fixed | 1.5e-5 | .00013 | 2.5e-5 | 500 | 9.6 | 0.5 |
# | Fashion-MNIST | 200 | fc:2:gelu | trained | .0013 | .017 | 1e-5 | 493 | 3.4 | 0.3 |
# | Fashion-MNIST | 200 | fc:2:gelu | fixed | .0011 | .018 | 1.4e-5 | 494 | 2.7 | 0.3 |
# | Fashion-MNIST | 200 | fc:3:gelu | trained | .00017 | .0025 | 1.2e-5 | 498 | 9.1 | 0.4 |
# | Fashion-MNIST | 200 | fc:3:gelu | fixed | .00014 | .0025 | 1.8e-5 | 498 | 9.1 | 0.4 |
# | Fashion-MNIST | 200 | fc:4:gelu | trained | 2.7e-5 | .00028 | 5e-5 | 500 | 7.3 | 0.4 |
# | Fashion-MNIST | 200 | fc:4:gelu | fixed | 2.1e-5 | .00031 | 5.2e-5 | 500 | 7.2 | 0.4 |
# | Fashion-MNIST | 200 | fc:5:gelu | trained | 3e-6 | 1.6e-5 | 3.9e-5 | 500 | 10 | 0.5 |
# | Fashion-MNIST | 200 | fc:5:gelu | fixed | 2.7e-6 | 1.8e-5 | 3.7e-5 | 500 | 9.8 | 0.5 |
# | Fashion-MNIST | 200 | fc:2:relu | trained | 5.2e-8 | 6.4e-8 | .00012 | 500 | 2.9 | 0.3 |
# | Fashion-MNIST | 200 | fc:2:relu | fixed | 4.8e-8 | 6.7e-8 | .00026 | 500 | 2.9 | 0.3 |
# | Fashion-MNIST | 200 | fc:3:relu | trained | 2.1e-7 | 6.4e-7 | .00017 | 500 | 6 | 0.3 |
# | Fashion-MNIST | 200 | fc:3:relu | fixed | 8.4e-8 | 2.8e-7 | .00042 | 500 | 6.2 | 0.3 |
# | Fashion-MNIST | 200 | fc:4:relu | trained | 1.3e-7 | 2.8e-7 | .0002 | 500 | 9.5 | 0.4 |
# | Fashion-MNIST | 200 | fc:4:relu | fixed | 4.2e-8 | 8.9e-8 | .00041 | 500 | 9.2 | 0.4 |
# | Fashion-MNIST | 200 | fc:5:relu | trained | 5.3e-8 | 8.9e-8 | .00025 | 500 | 12 | 0.5 |
# | Fashion-MNIST | 200 | fc:5:relu | fixed | 2e-8 | 3.6e-8 | .0004 | 500 | 8.9 | 0.5 |
# | Fashion-MNIST | 500 | fc:2:erf | trained | .00074 | .008 | 7e-6 | 496 | 5.4 | 0.3 |
#
# *None* means that four attempts gave no certificate. Each attempt followed Gauss-Newton steps to the residual that
# the attempt before had estimated to be small enough. This residual is the number *asked for*. *Known to* is the
# proven rounding bound of $|y - f|$ at that point. If this bound is above the residual asked for, float64 is too
# coarse. Of 289 networks eleven were not certified, all with ReLU, ten of them with 4096 neurons. With erf and GELU,
# the first certified residual of a network with a fixed readout is .5 to .97 times the first certified residual of
# the network with a trained readout. With ReLU this factor is .02 to 26. With 4096 neurons a row takes 1 to 15 s with
# two layers. With three layers it takes 27 to 48 s and 1.5 GB (200 and 500 samples), with four layers 39 to 91 s and
# 2.3 GB, and with five layers 58 to 127 s and 3.0 GB. (In the first table some rows of four and five layers, and of
# 500 samples, have the times of an earlier, slower version.)
#
# The next table has the first certified residuals for three widths. For digits, with erf and GELU, sixteen times the
# neurons give first certified residuals that are 1.2 to 4.5 times as large:
#
# | images | n | network | readout | 256 neurons | 1024 | 4096 |
# |---|---|---|---|---|---|---|---|
# | digits | 50 | fc:2:erf | trained | .0053 | .01 | .017 |
# | digits | 50 | fc:2:erf | fixed | .0045 | .0095 | .016 |
# | digits | 50 | fc:3:erf | trained | .0013 | .0021 | .0041 |
# | digits | 50 | fc:3:erf | fixed | .001 | .0019 | .0036 |
# | digits | 50 | fc:4:erf | trained | .00037 | .00041 | .00086 |
# | digits | 50 | fc:4:erf | fixed | .0003 | .00037 | .00077 |
# | digits | 50 | fc:5:erf | trained | 8.1e-5 | .00012 | .0002 |
# | digits | 50 | fc:5:erf | fixed | 6.8e-5 | .00011 | .00018 |
# | digits | 50 | fc:2:gelu | trained | .0048 | .0099 | .018 |
# | digits | 50 | fc:2:gelu | fixed | .0041 | .0087 | .015 |
# | digits | 50 | fc:3:gelu | trained | .00082 | .0015 | .0026 |
# | digits | 50 | fc:3:gelu | fixed | .00059 | .0013 | .0022 |
# | digits | 50 | fc:4:gelu | trained | .00014 | .00014 | .00024 |
# | digits | 50 | fc:4:gelu | fixed | 9.8e-5 | .00011 | .00021 |
# | digits | 50 | fc:5:gelu | trained | 1.4e-5 | 1.4e-5 | 2e-5 |
# | digits | 50 | fc:5:gelu | fixed | 1.3e-5 | 1.2e-5 | 1.6e-5 |
# | digits | 50 | fc:2:relu | trained | 2.7e-6 | 9e-7 | 6.8e-7 |
# | digits | 50 | fc:2:relu | fixed | 1.9e-7 | 2.2e-6 | 3.3e-8 |
# | digits | 50 | fc:3:relu | trained | 3.6e-7 | 3.7e-7 | 4.2e-7 |
# | digits | 50 | fc:3:relu | fixed | 5.5e-6 | 1.7e-7 | 1.8e-8 |
# | digits | 50 | fc:4:relu | trained | 3.9e-7 | 6.4e-7 | 2.3e-8 |
# | digits | 50 | fc:4:relu | fixed | 3.7e-7 | 3e-7 | 1e-8 |
# | digits | 50 | fc:5:relu | trained | 5.6e-7 | 1.8e-8 | 4.6e-8 |
# | digits | 50 | fc:5:relu | fixed | 2.9e-7 | 4.5e-7 | 3.9e-8 |
# | digits | 200 | fc:2:erf | trained | .0016 | .0026 | .0045 |
# | digits | 200 | fc:2:erf | fixed | .001 | .0025 | .0039 |
# | digits | 200 | fc:3:erf | trained | .00038 | .00057 | .001 |
# | digits | 200 | fc:3:erf | fixed | .00029 | .00048 | .00092 |
# | digits | 200 | fc:4:erf | trained | 9.3e-5 | .0001 | .00023 |
# | digits | 200 | fc:4:erf | fixed | 7.2e-5 | 9e-5 | .0002 |
# | digits | 200 | fc:5:erf | trained | 2.5e-5 | 2.7e-5 | 5.5e-5 |
# | digits | 200 | fc:5:erf | fixed | 2.2e-5 | 2.4e-5 | 4.9e-5 |
# | digits | 200 | fc:2:gelu | trained | .00089 | .0016 | .0033 |
# | digits | 200 | fc:2:gelu | fixed | .00069 | .0015 | .0027 |
# | digits | 200 | fc:3:gelu | trained | .00018 | .0003 | .00053 |
# | digits | 200 | fc:3:gelu | fixed | .00013 | .00025 | .00046 |
# | digits | 200 | fc:4:gelu | trained | 2.7e-5 | 4.1e-5 | 5.5e-5 |
# | digits | 200 | fc:4:gelu | fixed | 2.1e-5 | 2.9e-5 | 4.6e-5 |
# | digits | 200 | fc:5:gelu | trained | 2.5e-6 | 4.2e-6 | 5.4e-6 |
# | digits | 200 | fc:5:gelu | fixed | 2.4e-6 | 3e-6 | 4.3e-6 |
# | digits | 200 | fc:2:relu | trained | 4.7e-7 | 1.5e-7 | 5.3e-8 |
# | digits | 200 | fc:2:relu | fixed | 7e-7 | 7.6e-8 | 3.1e-8 |
# | digits | 200 | fc:3:relu | trained | 3.8e-7 | 1.7e-7 | 2.5e-9 |
# | digits | 200 | fc:3:relu | fixed | 4.8e-7 | 4.7e-9 | 3e-8 |
# | digits | 200 | fc:4:relu | trained | 9.4e-8 | 1.4e-7 | 1.6e-8 |
# | digits | 200 | fc:4:relu | fixed | 1.4e-7 | 5.7e-8 | 8.6e-9 |
# | digits | 200 | fc:5:relu | trained | 3.7e-8 | 7.5e-8 | none (asked: 1.2e-9) |
# | digits | 200 | fc:5:relu | fixed | 2e-7 | 5e-8 | none (asked: 3.6e-9) |
# | digits | 500 | fc:2:erf | trained | .0004 | .0006 | .001 |
# | digits | 500 | fc:2:erf | fixed | .00021 | .00057 | .00094 |
# | digits | 500 | fc:3:erf | trained | 6.2e-5 | .00014 | .00023 |
# | digits | 500 | fc:3:erf | fixed | 5.5e-5 | .00011 | .00021 |
# | digits | 500 | fc:4:erf | trained | 2.2e-5 | 3.2e-5 | 5.2e-5 |
# | digits | 500 | fc:4:erf | fixed | 1.7e-5 | 2.6e-5 | 4.6e-5 |
# | digits | 500 | fc:5:erf | trained | 5.2e-6 | 7.4e-6 | 1.3e-5 |
# | digits | 500 | fc:5:erf | fixed | 4.6e-6 | 6.8e-6 | 1.2e-5 |
# | digits | 500 | fc:2:gelu | trained | .00014 | .00025 | .00043 |
# | digits | 500 | fc:2:gelu | fixed | .00011 | .00024 | .00039 |
# | digits | 500 | fc:3:gelu | trained | 3.6e-5 | 5.6e-5 | 9e-5 |
# | digits | 500 | fc:3:gelu | fixed | 3.3e-5 | 4.5e-5 | 7.9e-5 |
# | digits | 500 | fc:4:gelu | trained | 8.3e-6 | 8.3e-6 | 1.1e-5 |
# | digits | 500 | fc:4:gelu | fixed | 6.2e-6 | 5.9e-6 | 9.1e-6 |
# | digits | 500 | fc:5:gelu | trained | 9.2e-7 | 1.3e-6 | 1.5e-6 |
# | digits | 500 | fc:5:gelu | fixed | 8.8e-7 | 1e-6 | 1e-6 |
# | digits | 500 | fc:2:relu | trained | 1.9e-7 | 7.5e-9 | 1.8e-8 |
# | digits | 500 | fc:2:relu | fixed | 2.1e-7 | 1.1e-7 | 1.7e-8 |
# | digits | 500 | fc:3:relu | trained | 5.5e-7 | 1.1e-8 | none (asked: 1.4e-9) |
# | digits | 500 | fc:3:relu | fixed | 1.9e-7 | 3.1e-8 | 1e-8 |
# | digits | 500 | fc:4:relu | trained | 7.2e-9 | 2.6e-8 | none (asked: 3.9e-9) |
# | digits | 500 | fc:4:relu | fixed | 3.4e-8 | 3.4e-8 | none (asked: 2.9e-9) |
# | digits | 500 | fc:5:relu | trained | 4.1e-9 | none (asked: 2.2e-10) | none (asked: 3.1e-9) |
# | digits | 500 | fc:5:relu | fixed | 1e-8 | 1e-8 | none (asked: 1.5e-9) |
# | Fashion-MNIST | 200 | fc:2:erf | trained | .00099 | .0018 | .0028 |
# | Fashion-MNIST | 200 | fc:2:erf | fixed | .00076 | .0015 | .0022 |
# | Fashion-MNIST | 200 | fc:3:erf | trained | .00019 | .00037 | .00067 |
# | Fashion-MNIST | 200 | fc:3:erf | fixed | .00014 | .00029 | .00057 |
# | Fashion-MNIST | 200 | fc:4:erf | trained | 4.8e-5 | 8.1e-5 | .00015 |
# | Fashion-MNIST | 200 | fc:4:erf | fixed | 4.5e-5 | 7.4e-5 | .00013 |
# | Fashion-MNIST | 200 | fc:5:erf | trained | 1.3e-5 | 1.8e-5 | 3.2e-5 |
# | Fashion-MNIST | 200 | fc:5:erf | fixed | 1.1e-5 | 1.5e-5 | 2.9e-5 |
# | Fashion-MNIST | 200 | fc:2:gelu | trained | .00079 | .0013 | .0022 |
# | Fashion-MNIST | 200 | fc:2:gelu | fixed | .00058 | .0011 | .0017 |
# | Fashion-MNIST | 200 | fc:3:gelu | trained | 9.6e-5 | .00017 | .00035 |
# | Fashion-MNIST | 200 | fc:3:gelu | fixed | 7.1e-5 | .00014 | .00029 |
# | Fashion-MNIST | 200 | fc:4:gelu | trained | 1.5e-5 | 2.7e-5 | 3.6e-5 |
# | Fashion-MNIST | 200 | fc:4:gelu | fixed | 1.1e-5 | 2.1e-5 | 2.9e-5 |
# | Fashion-MNIST | 200 | fc:5:gelu | trained | 2.7e-6 | 3e-6 | 3.7e-6 |
# | Fashion-MNIST | 200 | fc:5:gelu | fixed | 2.5e-6 | 2.7e-6 | 2.7e-6 |
# | Fashion-MNIST | 200 | fc:2:relu | trained | 7.1e-7 | 5.2e-8 | 4e-9 |
# | Fashion-MNIST | 200 | fc:2:relu | fixed | 1e-7 | 4.8e-8 | 1.3e-8 |
# | Fashion-MNIST | 200 | fc:3:relu | trained | 2e-7 | 2.1e-7 | 1.3e-8 |
# | Fashion-MNIST | 200 | fc:3:relu | fixed | 1e-7 | 8.4e-8 | 1.5e-8 |
# | Fashion-MNIST | 200 | fc:4:relu | trained | 1.2e-7 | 1.3e-7 | none (asked: 2.1e-10) |
# | Fashion-MNIST | 200 | fc:4:relu | fixed | 6.6e-9 | 4.2e-8 | 7.1e-8 |
# | Fashion-MNIST | 200 | fc:5:relu | trained | 2.3e-8 | 5.3e-8 | none (asked: 1.8e-8) |
# | Fashion-MNIST | 200 | fc:5:relu | fixed | 2.2e-8 | 2e-8 | none (asked: 1.5e-8) |
#
# With 200 samples and erf, the first certified residuals are 1.2 to 2.1 times smaller on Fashion-MNIST than on
# digits. With 500 samples they are 1.2 times larger.
#
# ## How sharp it is
#
# With `ntkfl certify --network ... --attack 2000` an adversary trains further, in the worst windows that it finds.
# `python tests/ntkfl/smooth_networks/attack_windows.py` trained 200 certified networks further. At the start the
# residual of each network was .98 of the largest residual with which the network is certified. The networks have two
# to four layers of 8 to 40 neurons, all seven activations, and two to four samples. Each network was trained in 2,000
# windows whose orders, batches, clients and step lengths were chosen to break the claims. No window, model or output
# broke a claim. Every window lowered the squared distance to the fit by at least 5.3 times the claimed amount. The
# distance to the fit that Newton steps found was at most .68 of the certified distance. Models moved by at most .19
# of the stated distance, and outputs by at most .12 of what their intervals allow. The script keeps a row for each
# network, and a test repeats some of these attacks.
#
# The proof bounds second derivatives: $L_i$ bounds the norm of the Hessian of the output on sample $i$ in a ball
# around the checkpoint. This bound was never below the largest norm of a Hessian found at the checkpoint and on the
# border of the ball. With two layers the bound is 1.2 to 2.3 times that norm (median 1.5), with three layers 1.3 to
# 7.1 times (median 3.3), and with four layers 1.2 to 18 times (median 8). So the bound, and all that follows from it,
# gets looser with every layer.

# %% [markdown]
# ## Full rounds of federated averaging
#
# If training continues by rounds in which all clients take part with full batches, `ntkfl.certify_rounds` proves the
# rate of these rounds. The command is `ntkfl certify --network fc:3:gelu --method scaffold`. For another method, its
# name takes the place of `scaffold`.
#
# Methods with a memory can be certified too, at smaller residuals. An example has twenty digits, three layers with
# erf and width 512, and two clients that take five local steps of .05. At the first weights of seed 0, the residual
# that is estimated to be small enough is .0034 for `fl-ntk`, .0016 for `fedprox` (mu .1), .00059 for `fedavgm`
# (momentum .9), .00052 for `feddyn` (alpha .5) and .00011 for `scaffold`. Each of these estimates took at most one
# second of one processor.
#
# The next cell certifies plain averaging with two clients that take three local steps each:

# %%
setup = ntkfl.Setup(eta_local=0.01, local_steps=3)
print(ntkfl.certify_rounds(net, None, digits, setup))

# %% [markdown]
# ## Networks that are not covered
#
# Networks that are not covered are refused, and the message names the layer:

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
# | the same | all layers or some | full rounds of federated averaging, of momentum, FedProx, SCAFFOLD or FedDyn, with their rate | `certify_rounds`, `ntkfl certify --network --method` |
#
# Momentum and control variates after the checkpoint are covered in full rounds: for a network of any depth by the
# last line of the table, and for two layers with ReLU by `ntkfl certify --method`. The two certificates for any order
# also cover other losses (`--loss hinge`, `huber:DELTA`, `band:WIDTH`). The certificates of full rounds with a rate
# do not cover other losses, because they are proved only for steps that are linear in the outputs. The certificates
# for any order cover server steps up to 1. Algorithm 1 and full rounds may have longer server steps if they are
# stable.
#
# The proofs are about real arithmetic, and do not cover rounding in later training. `ntkfl verify deep/any-order`
# checks the theorem behind `certify_network` on small networks, and shows that each of its hypotheses is needed.
#
# `ntkfl certify --network fc:3:gelu --width 256 --data digits --n 20 --eta-local 0.1 --watch` trains a network by
# Algorithm 1 until it is certified, at round 650, with $|y - f|$ = .0034. With `--loss hinge` the command trains on
# the squared hinge, and the network is certified at round 300, since samples beyond their margins need no change. At
# this round the outputs are .0055 from satisfying all margins, and the proof has conditions on 13 samples only. On
# Fashion-MNIST the network trained on the squared loss is certified at round 1000, with $|y - f|$ = .0020. The
# network trained on the squared hinge is certified at round 350, where the outputs are .0068 from satisfying all
# margins, and the proof has conditions on five samples. `--export` writes certificates for all of these losses.
