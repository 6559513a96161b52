# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Will this network converge?
#
# Three questions can be answered before training: are the steps stable, how fast will the training loss fall, and
# does *this* network, of finite width, certainly converge? The first two questions need one eigendecomposition. The
# third is answered by a **certificate**. The data here are eight of scikit-learn's digits on two clients, so that
# everything takes seconds.
#
# ## Rate and stability limits
#
# In the limit of infinite width, FedAvg with $K$ local steps is a linear recursion: the residual $r(t) = y - y(t)$
# follows $r(t+1) = M r(t)$ with a matrix $M$ made of the kernel $H^\infty$ and the partition. The spectral radius of
# $M$ is the rate.

# %%
# !ntkfl rate --data digits --n 8 --clients 2 --eta-local 0.1

# %% [markdown]
# - **spectral radius per round**: the factor by which a round multiplies the residual in the long run.
# - **eta_global limit**: if `eta_global` is larger than this limit and all other settings are unchanged, some
#   residual grows.
# - **eta_local limit**: if `eta_local` is below this limit, every `eta_global` up to 1 is stable, whatever the
#   numbers of local steps and of rounds. The limit depends only on the clients' own data: it is $2 / \max_c
#   \lambda_{\max}(H_{cc})$.
# - The eigenvalues are certified: the stated error is a proven bound for the matrix as it is stored in memory.
#
# `eta_local` multiplies the gradient of *half the sum* of squares over a client's samples, as in the theory. If your
# loss is half the mean of these squares, divide your step by the client's number of samples.
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
# eigendecomposition. Training of a network of 4096 neurons is close to this recursion:

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
# The recursion is a forecast. It is exact at infinite width, and guarantees nothing about a given network. (From a
# shell: `ntkfl simulate`.)
#
# The next picture shows how wide a network must be to follow this forecast. The picture has five networks of each of
# three widths, and the limit. Each network starts from other outputs, so each residual is drawn relative to its value
# at the start.

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
# Narrow networks converge too, each at a rate of its own. Wide networks follow the limit. With eight times the width,
# about a third of the distance from the limit is left: the distance falls like $m^{-1/2}$.
#
# ## What the theorem asks for
#
# Theorem B.3 of FL-NTK promises linear convergence of a finite network, if it is wide enough and the step small enough.
# The next command evaluates both conditions for these eight images:

# %%
# !ntkfl requirements --data digits --n 8 --clients 2

# %% [markdown]
# The theorem asks for some $10^{14}$ neurons and $2 \cdot 10^8$ rounds. Nobody can meet that, so the theorem as it
# stands says nothing about your network. But the proof of the theorem says a lot, once every constant in the proof is
# replaced by a number that is computed from your network.
#
# ## A certificate
#
# This replacement gives a certificate: a theorem about **one** network, one data set and one choice of the steps. The
# inputs of a certificate are the floats in memory, and every sum and matrix that the certificate needs is computed
# with a proven error. Where its conditions hold, the residual falls by the stated factor in every round, for ever,
# and no neuron moves farther than the stated radius.

# %%
# !ntkfl certify --data digits --n 8 --clients 2 --eta-local 0.1 --width 8000

# %% [markdown]
# The network is not certified, because neurons might move by more than the radius within which the proof works. A
# missing certificate is no sign of divergence. The conditions of the certificate are sufficient, not necessary.
#
# The weights need not be Gaussian. After some training the residual is smaller, neurons will move less from then on,
# and the same network may be certified. `--watch` trains the network and tries again every 50 rounds. At round 0 the
# movement is expected to be 5.7 times the radius; 50 rounds later the network is certified:

# %%
# !ntkfl certify --data digits --n 8 --clients 2 --eta-local 0.1 --width 8000 --watch

# %% [markdown]
# - **CERTIFIED** line: a bound on the residual in every later round (`t` counts from that round), and on how far any
#   neuron moves.
# - **movement needed** and **radius R**: the proof works as long as every neuron moves by at most R. The proof shows
#   that neurons move by at most the *movement needed*. So the *movement needed* must be at most R. The margins in the
#   lines below are rigorous.
# - **factor of the frozen kernel**: the factor by which a round shrinks the norm of the residual if no neuron moves.
#   The norm is $|S^{-1} r|$ with $S = H^{p/2}$. The exponent $p$ is between 0 and 1, and the program takes the best
#   of several values. **Perturbation E** bounds the change of the kernel $H$ while neurons move by at most R, and
#   $E_c$ bounds the change of the clients' blocks. The factor of the frozen kernel and these bounds together give the
#   **factor q** of the real network.
# - **patterns in doubt**: the number of pairs of a neuron and a sample in which the neuron is so close to its kink
#   (where it switches on or off) that rounding hides on which side it is. For these pairs the worse case is assumed.
#
# How narrow may the network be? `--search` looks for the smallest width that can be certified, here after 300 rounds,
# and compares this width with the width of Theorem B.3:

# %%
# !ntkfl certify --data digits --n 8 --clients 2 --eta-local 0.1 --after 300 --search

# %% [markdown]
# Some 50 neurons are enough for the certificate. The theorem needs millions of neurons if its unnamed constant is taken
# as 1, and some $10^{14}$ neurons with the constants of its proof. `--search-steps` looks for the largest step instead.
#
# `--save FILE` saves the certificate with the command that reproduces it.
#
# ## What a certificate is not
#
# - A certificate is about one network, whose weights are the floats in memory. These weights are drawn from the seed,
#   or are the result of training in float64. The certificate is about Algorithm 1 from these weights on, in exact
#   arithmetic. It does not cover rounding in later training.
# - A certificate is about the **training** residual. It says nothing about the test error.
# - A certificate is about full participation, full-batch local steps, squared loss and one output, with only the
#   hidden layer trained.
# - If a network is not certified, nothing is proved. `NOT CERTIFIED` means that this argument does not decide.
# - `fl-ntk/B.3-certificate`, `fl-ntk/X.11` and `fl-ntk/X.12` are the theorems behind the certificate. They are
#   statements of the catalogue like all others: `ntkfl verify fl-ntk/X.12` compares certificates with simulated runs.
#
# ## On your own data
#
# Add `--data mine.csv --unit` to each of these commands. The file is described in [Check a theorem on your own
# data](check_a_theorem.ipynb). From Python:

# %%
from verification import certify

for n in (4, 8):
    certificate = certify(ntkfl.data.digits(n=n, clients=2), ntkfl.Setup(width=64_000, eta_local=0.02, local_steps=2))
    print(f"{n} samples:", certificate.certified, f"shortfall {certificate.shortfall:.3g}")

# %% [markdown]
# (`shortfall` is the movement needed divided by the radius. A network is certified if its shortfall is at most 1.
# `print(certificate)` prints all that the command above prints.)
#
# Where to go next: [how wide is wide enough](how_wide.ipynb), or [train and compare
# methods](train_and_compare.ipynb).
