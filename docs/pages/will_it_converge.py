# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Will this network converge?
#
# Three questions can be answered before training: are the steps stable, how fast will the training loss fall, and
# does *this* network, of finite width, certainly converge? The first two need one eigendecomposition. The third is a
# **certificate**. The data here are eight of scikit-learn's digits on two clients, so that everything takes seconds.
#
# ## Rate and stability limits
#
# In the limit of infinite width, FedAvg with $K$ local steps is a linear recursion: the residual $r(t) = y - y(t)$
# follows $r(t+1) = M r(t)$ with a matrix $M$ made of the kernel $H^\infty$ and the partition. Its spectral radius is
# the rate.

# %%
# !ntkfl rate --data digits --n 8 --clients 2 --eta-local 0.1

# %% [markdown]
# - **spectral radius per round**: the factor by which a round multiplies the residual in the long run.
# - **eta_global limit**: beyond it some residual grows, with all other settings unchanged.
# - **eta_local limit**: below it, every `eta_global` up to 1 is stable, whatever the number of local steps and of
#   rounds. It depends only on the clients' own data: $2 / \max_c \lambda_{\max}(H_{cc})$.
# - The eigenvalues are certified: the error is a proven bound, for the matrix in memory.
#
# `eta_local` multiplies the gradient of *half the sum* of squares over a client's samples, as in the theory. If your
# loss is half their mean, divide your step by the client's number of samples.
#
# A step that is too large is reported at once, with the limit:

# %%
# !ntkfl rate --data digits --n 8 --clients 2 --eta-local 3

# %% [markdown]
# With `--width 512` there is a second column, for the Gram matrix $H(0)$ of the network that the seed draws.
#
# ## The whole curve, without training
#
# From Python the recursion gives the loss at any round, and the outputs on new data, at the cost of one
# eigendecomposition. A network of 4096 neurons is close to it:

# %%
import ntkfl

problem = ntkfl.data.digits(n=8, clients=2)
setup = ntkfl.Setup(width=4096, eta_local=0.1, local_steps=2, rounds=200)
regime = ntkfl.kernel_regime(problem, setup)
run = ntkfl.simulate(problem, setup)
exact = regime.trajectory(initial_outputs=run.outputs[0])  # from where this network starts
for round_ in (0, 50, 100, 200):
    print(f"round {round_:3}: {run.residual_norm[round_]:.4f} trained, {exact.residual_norm[round_]:.4f} in the limit")
print("rounds to a thousandth of the residual:", regime.rounds_to(1e-3))

# %% [markdown]
# This is a forecast. It is exact at infinite width, and guarantees nothing about a given network. (From a shell:
# `ntkfl simulate`.)
#
# The next picture shows how wide a network must be to follow it: networks of three widths, five of each, and the limit.
# Each network starts from other outputs, so the residual is drawn relative to its start.

# %%
import dataclasses

import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for color, width in zip(("C2", "C1", "C0"), (32, 256, 2048), strict=True):
    for seed in range(5):
        small = dataclasses.replace(setup, width=width, seed=seed)
        run = ntkfl.simulate(problem, small)
        exact = regime.trajectory(initial_outputs=run.outputs[0])  # the limit, from where this network starts
        off = np.linalg.norm(run.outputs - exact.outputs, axis=1) / run.residual_norm[0]
        label = f"width {width}" if seed == 0 else None
        left.semilogy(run.residual_norm / run.residual_norm[0], color=color, lw=0.8, label=label)
        right.semilogy(range(1, setup.rounds + 1), off[1:], color=color, lw=0.8)
exact = regime.trajectory()
left.semilogy(exact.residual_norm / exact.residual_norm[0], "--", color="black", label="infinite width")
left.set(xlabel="round $t$", ylabel="residual $|r(t)|_2 / |r(0)|_2$")
right.set(xlabel="round $t$", ylabel="outputs off their limit, over $|r(0)|_2$")
left.legend()
plt.show()

# %% [markdown]
# Narrow networks converge too, each at a rate of its own. Wide ones follow the limit. Eight times the width leaves
# about a third of the distance: it falls like $m^{-1/2}$.
#
# ## What the theorem asks for
#
# Theorem B.3 of FL-NTK promises linear convergence of a finite network, if it is wide enough and the step small
# enough. In numbers, for these eight images:

# %%
# !ntkfl requirements --data digits --n 8 --clients 2

# %% [markdown]
# Some $10^{13}$ neurons and $10^8$ rounds. Nobody can meet that, so the theorem as it stands says nothing about your
# network. Its proof says a lot, once every constant in it is replaced by a number computed from the network at hand.
#
# ## A certificate
#
# That is what a certificate is: a theorem about **one** network, one data set and one set of steps. Every sum and
# matrix in it is enclosed rigorously; its inputs are the floats in memory. Where its conditions hold, the residual
# falls by the stated factor in every round, for ever, and no neuron leaves a ball of the stated radius.

# %%
# !ntkfl certify --data digits --n 8 --clients 2 --eta-local 0.1 --width 8000

# %% [markdown]
# Not certified: neurons might move by more than the radius within which the proof works. That is no sign of
# divergence. The certificate's conditions are sufficient, not necessary.
#
# The weights need not be Gaussian. After some training the residual is smaller, neurons will move less from then on,
# and the same network may be certified. `--watch` trains the network and tries again every 50 rounds. At round 0 the
# movement is expected to be 5.7 times the radius; 50 rounds later the network is certified:

# %%
# !ntkfl certify --data digits --n 8 --clients 2 --eta-local 0.1 --width 8000 --watch

# %% [markdown]
# - **CERTIFIED** line: a bound on the residual in every later round (`t` counts from that round), and on how far any
#   neuron moves.
# - **movement needed** against **radius R**: the proof works for neurons that move by at most R, and shows that they
#   move by at most the movement needed. The margins below are rigorous.
# - **factor of the frozen kernel**: how much a round shrinks the residual if no neuron moves, in the norm
#   $|S^{-1} r|$ with $S = H^{p/2}$. **Perturbation E** bounds the change of the kernel $H$ while neurons move by at
#   most R, $E_c$ that of the clients' blocks. Both together give the **factor q** of the real network.
# - **patterns in doubt**: pairs of a neuron and a sample, so close to the kink (where the neuron switches on or off)
#   that rounding hides the side; the worse case is assumed.
#
# How narrow may the network be? `--search` looks for the smallest width that can be certified, here after 300 rounds,
# and compares it with Theorem B.3:

# %%
# !ntkfl certify --data digits --n 8 --clients 2 --eta-local 0.1 --after 300 --search

# %% [markdown]
# Some 50 neurons against millions (with the theorem's unnamed constant taken as 1) or $10^{14}$ (with the constants
# of its proof). `--search-steps` looks for the largest step instead.
#
# `--save FILE` saves the certificate with the command that reproduces it.
#
# ## What a certificate is not
#
# - It is about one network, whose weights are the floats in memory (drawn from the seed, or after the rounds trained
#   in float64), and about Algorithm 1 from there on in exact arithmetic. It does not cover rounding in later
#   training.
# - It is about the **training** residual. It says nothing about the test error.
# - It is about full participation, full-batch local steps, squared loss and one output, with only the hidden layer
#   trained.
# - A certificate that fails proves nothing. `NOT CERTIFIED` means that this argument does not decide.
# - `fl-ntk/B.3-certificate`, `fl-ntk/X.11` and `fl-ntk/X.12` are the theorems behind the certificate. They are
#   statements of the catalogue like all others: `ntkfl verify fl-ntk/X.12` compares certificates with simulated runs.
#
# ## On your own data
#
# Give `--data mine.csv --unit` to each of these commands; the file is described in [Check a theorem on your own
# data](check_a_theorem.ipynb). From Python:

# %%
from verification import certify

for n in (4, 8):
    certificate = certify(ntkfl.data.digits(n=n, clients=2), ntkfl.Setup(width=64_000, eta_local=0.02, local_steps=2))
    print(f"{n} samples:", certificate.certified, f"shortfall {certificate.shortfall:.3g}")

# %% [markdown]
# (`shortfall` is the movement needed divided by the radius; a network is certified if it is at most 1.
# `print(certificate)` gives the whole page.)
#
# Where to go next: [how wide is wide enough](how_wide.ipynb), or [train and compare
# methods](train_and_compare.ipynb).
