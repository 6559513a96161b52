# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Batches, orders, outer rates, privacy
#
# Rounds are random: clients and batches are drawn, and private training adds noise. If the model is linear in its
# weights, as a wide network nearly is, the mean and the covariance of the outputs are known exactly in every round.
# Every curve on this page is one exact computation. Only the table of trained networks and the last section show
# means over runs. The data are 24 images of digits on 4 clients with squared loss.
#
# ## Shuffled passes against independent batches
#
# In most training a client shuffles its samples and goes through them once. One such walk through all samples is
# called a pass. If each batch is drawn independently of the others instead, some samples may be taken twice and
# others not at all. The next cell compares two local passes in batches of one sample with the same number of
# independent steps:

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

import ntkfl
from ntkfl.exact_dynamics import UnstableSteps

warnings.simplefilter("ignore", UnstableSteps)
problem = ntkfl.data.digits(n=24, clients=4)
samples = max(np.bincount(problem.owner))
rounds = np.unique(np.geomspace(1, 300, 25).astype(int))
figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for panel, eta in zip(panels, (0.02, 0.1), strict=True):
    for label, steps, shuffled in (("independent", 2 * samples, False), ("shuffled", 2, True)):
        setup = ntkfl.Setup(eta_local=eta, local_steps=steps)
        regime = ntkfl.random_rounds(problem, setup, batch_size=1, shuffled=shuffled)
        panel.plot(rounds, regime.root_mean_square(rounds) ** 2 / problem.n, label=f"{label}, factor {regime.rate:.4f}")
    panel.set(xscale="log", yscale="log", xlabel="rounds", title=f"eta_local = {eta}")
    panel.legend(fontsize="small")
_ = panels[0].set_ylabel("expected loss")

# %% [markdown]
# At the smaller step the two curves hardly differ. At the larger step shuffled passes leave, after 300 rounds, a
# tenth of the loss that independent batches leave. To first order in the step, a pass has the same effect in every
# order of the samples. So the variance of a pass falls with the fourth power of the step, and the variance of
# independent batches with the second power. The computation goes through all sets of samples that a pass may have
# taken so far. So, in batches of one, the computation is limited to clients with up to 14 samples, or 13 if the
# method is FedProx or its clients keep a memory from round to round, as in SCAFFOLD.
#
# ## The best outer rate
#
# The server may go further than the mean of its clients' models. Which outer rate leaves the least loss after twenty
# rounds? The expected loss is computed on a grid of outer rates, for each number of local steps and with the same
# `eta_local`:

# %%
rates = np.geomspace(0.5, 64, 15)


def best_rate(local_steps, **drawn):
    """The outer rate of the grid with the least expected loss after 20 rounds."""
    setup = ntkfl.Setup(eta_local=0.05, local_steps=local_steps)
    losses = []
    for rate in rates:
        regime = ntkfl.random_rounds(problem, setup, None, "fedavg", {"server_rate": rate}, **drawn)
        losses.append(regime.root_mean_square(20))
    return rates[int(np.argmin(losses))]


local_steps = (1, 4, 16)
figure, panel = plt.subplots(figsize=(5, 3.4), layout="constrained")
for label, drawn in (("full batches", {}), ("batches of 1", {"batch_size": 1}), ("noise 0.05", {"noise": 0.05})):
    panel.plot(local_steps, [best_rate(k, **drawn) for k in local_steps], "o-", label=label)
panel.axhline(1, color="black", linestyle=":")
panel.set(xscale="log", yscale="log", xlabel="local steps K", ylabel="best outer rate, 20 rounds")
panel.set_xticks(local_steps, local_steps)
_ = panel.legend(fontsize="small")

# %% [markdown]
# At K = 1 with full batches the best rate is the last one of the grid, so the best rate of all is 64 or more. With
# more local steps the best rate is lower, since less is left for the server to do. Small batches lower the best rate
# at K = 1. Noise on the weights lowers the best rate for every K, to between 2 and 4.
#
# For one round the answer is a formula. Let $H$ be the Gram matrix, $r$ the residual, $d$ the mean displacement of
# the clients (in coefficients of the samples' gradients), $b=E\,r'Hd$ and $a=E|Hd|^2$. Noise changes only $a$. A rate
# above 1 helps exactly if $b>a$, and the rate $b/a$ is best (`fl-ntk/outer-rate`). In the long run a round multiplies
# the loss by a factor. This factor is convex in the outer rate, so that its slope at rate 1 decides whether a rate
# above 1 helps (`fl-ntk/outer-rate-convex`). {doc}`../proofs/random_rounds` has both proofs.
#
# ## Loss over the privacy budget
#
# `ntkfl privacy` and `ntkfl.privacy` choose local steps, server rate and rounds for a budget. Here the budget protects
# each of 24 clients, who have one sample each, at delta = 0.01; all clients take part in each round:

# %%
from ntkfl.privacy import best_choices, private_settings

alone = ntkfl.data.digits(n=24, clients=24)
settings = private_settings(alone, local_steps=(1, 5), rounds=60)
budgets = np.geomspace(1, 100, 9)
figure, panel = plt.subplots(figsize=(5, 3.4), layout="constrained")
best = [best_choices(settings, float(epsilon), 0.01)[0].plan for epsilon in budgets]
panel.plot(budgets, [plan.mean_square for plan in best], "o-", label="least expected loss")
panel.axhline(float((alone.y**2).mean()), color="black", linestyle=":", label="before training")
panel.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="expected loss")
_ = panel.legend(fontsize="small")

# %% [markdown]
# The loss above is the loss of a model that is linear in its weights. Under this noise a wide ReLU network is not
# linear: every weight gets noise of the same size at each width, and this noise turns neurons on and off. Over all
# rounds, a share of what training has changed in the network's output at each sample is lost in this way. With initial
# weights of size 1, as FL-NTK draws them, no width makes this share smaller. `ntkfl privacy` prints the share. Initial
# weights that are 30 times as large leave the kernel as it is, and make the share nearly 30 times smaller. The study
# `private-width` trains networks with the noise of a budget for 20 rounds and with real clipping (40 images of digits,
# 40 clients, delta = 0.01). The table has the ratio of the trained loss to the expected loss. Each entry is the mean
# over 12 seeds with its 99% interval:
#
# | epsilon | initial weights times | share destroyed | width 1024 | width 4096 | width 16384 |
# |--:|--:|--:|--:|--:|--:|
# | 30 | 1 | 15.8 % | 1.11 ± 0.13 | 1.15 ± 0.11 | 1.16 ± 0.17 |
# | 30 | 30 | 0.6 % | 0.98 ± 0.15 | 0.99 ± 0.13 | 0.97 ± 0.11 |
# | 300 | 1 | 12.5 % | 1.28 ± 0.15 | 1.34 ± 0.29 | 1.43 ± 0.23 |
# | 300 | 30 | 0.4 % | 0.97 ± 0.14 | 1.02 ± 0.25 | 1.03 ± 0.17 |
#
# No update was clipped. The two sizes of initial weights were also compared seed by seed. The larger initial weights
# leave less loss: at width 16384 the logarithm of the ratio of losses is -.18 ± .12 at epsilon 30, and -.32 ± .14 at
# epsilon 300. So the expected loss above is the loss of a network with large initial weights
# ({doc}`../proofs/random_rounds` has the share).
#
# Clients may be drawn too. The clients that are drawn for a round are called its cohort. `ntkfl privacy` tries cohorts
# of all clients, of a half, and so on to a sixteenth of them, or of the shares that `--participation` gives. The
# command says which size of the cohort is best, and which other sizes may be as good. If fewer clients are drawn, a
# budget asks for less noise on the sum of the drawn clients' updates, since a client that is seldom drawn reveals
# little. But a mean over fewer clients has a larger share of this noise: at epsilon = 4, with 200 clients, the residual
# is .464 of the labels if all clients take part, and .878 if a tenth of them does. If the drawn clients are known, an
# update has a Gaussian distribution. Over all draws of clients, an update has a mixture of such distributions, and the
# bound on the length of Gaussian updates does not apply. So the clipping norm comes from simulation. It is the length
# of the longest update in 1375 simulated training runs. If one training run in a hundred had a longer update, the
# chance that none of 1375 runs has such an update would be one in a million ({doc}`../proofs/random_rounds`).
#
# `ntkfl privacy` and `random_rounds(noise=...)` refuse FedDyn with noise. The server of FedDyn sums up the
# displacements of all rounds with their noise, and nothing removes the noise again, so that the variance of the
# residual or of the memories grows without end. For SCAFFOLD with noise, `random_rounds` computes exact moments. But
# `ntkfl privacy` refuses SCAFFOLD too, since its clients have memories, and the effect of clipping on a memory is not
# computed.
#
# ## Steps that change by round, clients that take turns
#
# With noise, training with a large outer rate is fast and ends at a large loss. With a small outer rate it is slow and
# ends at a small loss. A schedule combines both: `eta_local` and `eta_global` take a list of step sizes, one for each
# round. The last entry holds for all later rounds. The next cell compares three outer rates: always 8, always 1, and a
# schedule of 8 for four rounds, 3 for twelve rounds and then 1:

# %%
setup = ntkfl.Setup(eta_local=0.05, local_steps=4)
rounds = np.unique(np.geomspace(1, 1000, 40).astype(int))
figure, panel = plt.subplots(figsize=(5, 3.4), layout="constrained")
for label, schedule in (("8", [8]), ("1", [1]), ("8, 3, 1", [8] * 4 + [3] * 12 + [1])):
    regime = ntkfl.random_rounds(problem, setup, None, "fedavg", noise=0.05, eta_global=schedule)
    panel.plot(rounds, regime.root_mean_square(rounds) ** 2 / problem.n, label=f"outer rate {label}")
panel.set(xscale="log", yscale="log", xlabel="rounds", ylabel="expected loss")
_ = panel.legend(fontsize="small")

# %% [markdown]
# The falling rate has less loss than the constant rate 8 from the fifth round on. The falling rate has less loss than
# the constant rate 1 until both reach the same final loss.
#
# Clients may also take turns instead of being drawn: `cohorts` names the clients of rounds 0, 1, and so on, and then
# begins again. The next two commands have two of the four clients in each round. In the first command the clients
# take turns, and in the second they are drawn:

# %%
# !ntkfl rate --data digits --n 24 --clients 4 --cohorts 0,1/2,3 --local-schedule 0.3,0.1

# %%
# !ntkfl rate --data digits --n 24 --clients 4 --participation 0.5 --local-schedule 0.3,0.1

# %% [markdown]
# Both losses fall to zero at almost the same rate. The limit of the server's step (`eta_global limit`) has a formula
# only if clients are drawn.
#
# ## One run is not the mean
#
# All of the above are means over the draws. How far from its mean is the loss of one run? `square_variance` computes
# the exact variance of $|y-f|^2$. This function goes through every possible round, so it is limited to some ten
# samples. `chance_above` bounds the chance that $|y-f|^2$ exceeds a given level. This function needs only the first
# two moments of the residual, so it can take as many samples as these moments can be computed for. `sampled_rounds`
# estimates all of these quantities, with errors, from independent runs. Here are the three functions on ten images,
# with two of four clients in each round and batches of two:

# %%
few, setup, drawn = ntkfl.data.digits(n=10, clients=4), ntkfl.Setup(eta_local=0.1), {"participation": 0.5}
regime = ntkfl.random_rounds(few, setup, None, "fedavg", batch_size=2, **drawn)
rounds, level = np.array([1, 10, 30, 60]), 2.0
runs = ntkfl.sampled_rounds(few, setup, rounds, None, "fedavg", runs=4000, batch_size=2, **drawn)
above = runs.chance_above(level)
print("round  E |y - f|^2  runs              deviation  runs    chance above 2  runs")
for i, t in enumerate(rounds):
    mean, spread = runs.mean_square, runs.square_variance
    print(
        f"{t:5d}  {regime.root_mean_square(t) ** 2:11.4f}  {mean.value[i]:.4f} ± {mean.error[i]:.4f}"
        f"   {regime.square_variance(t) ** 0.5:9.4f}  {spread.value[i] ** 0.5:.4f}"
        f"  at most {regime.chance_above(level, t):6.4f}  {max(above.lo[i], 0):.4f} to {above.hi[i]:.4f}"
    )

# %% [markdown]
# Apart from $H$, sampled runs need no matrix with an entry for each pair of samples. So they are fast enough for
# thousands of samples, for which exact moments take minutes:

# %%
many = ntkfl.data.digits(n=1500, clients=10)
runs = ntkfl.sampled_rounds(many, ntkfl.Setup(eta_local=0.01), [1, 20], None, "fedavg", batch_size=10, **drawn)
for value, error in zip(runs.mean_square.value / many.n, runs.mean_square.error / many.n, strict=True):
    print(f"expected loss {value:.4f} ± {error:.1g}")
