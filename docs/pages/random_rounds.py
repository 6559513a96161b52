# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Batches, orders, outer rates, privacy
#
# Rounds are random: clients are drawn, batches too, and private training adds noise. Where the model is linear in its
# weights, as a wide network nearly is, the mean and the covariance of the outputs are known exactly in every round. No
# run is averaged here: every curve is one computation. The data are 24 images of digits on 4 clients with squared loss.
#
# ## Shuffled passes against independent batches
#
# Most training shuffles a client's samples and goes through them once. A batch that is drawn independently of the
# others may take a sample twice and miss another. Here are two local passes in batches of one, and as many independent
# steps:

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
# At the smaller step they hardly differ; at the larger one shuffled passes leave a tenth of the loss that independent
# batches leave after 300 rounds. To the first order in the step, a pass does the same in every order of the samples. So
# the variance of a pass falls with the fourth power of the step, and that of independent batches with the second. The
# computation goes through all sets of samples that a pass may have taken so far, which limits it to clients of some
# twelve samples.
#
# ## The best outer rate
#
# The server may go further than the mean of its clients' models. Which outer rate leaves the least loss after twenty
# rounds? For each number of local steps, at one `eta_local`, the expected loss is computed on a grid of outer rates:

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
# At K = 1 with full batches the best rate is at the end of the grid: it is 64 or more. The more local steps, the less
# is left for the server. Batches lower the best rate at K = 1; noise on the weights lowers it everywhere, to 2 to 4.
#
# After one round the answer is a formula. Let $r$ be the residual, $d$ the clients' mean displacement, $b=E\,r'Hd$ and
# $a=E|Hd|^2$, the only one of the two that noise changes. A rate above 1 helps exactly if $b>a$, and $b/a$ is best
# (`fl-ntk/outer-rate`). In the long run a round multiplies the loss by a factor that is convex in the rate, so that its
# slope at 1 decides (`fl-ntk/outer-rate-convex`). {doc}`../proofs/random_rounds` has both proofs.
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
