# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Which method, which steps?
#
# A federated method has a server step, a number of local steps $K$, and often a constant of its own. Usually these
# numbers are found by a grid search. For a wide network there is a better way. A method is **linear** in the weights
# if its steps only add, scale and remember gradients. Such a method has an exact limit at infinite width, and the
# number of rounds that it needs can be computed without training. The data here are 50 images of digits.
#
# ## One table
#
# `ntkfl fastest` tunes each linear method on the data, for several numbers of local steps, and counts the rounds
# until the residual is a millionth of its first value:

# %%
# !ntkfl fastest --data digits --n 50 --clients 4 --steps 1,5,20 2>/dev/null

# %% [markdown]
# - Each row is a method, and each column a number of local steps $K$. The fastest method is in the first row.
# - **vectors**: the number of vectors of the model's size that a client receives and sends in these rounds. SCAFFOLD
#   sends its control variates too, so that each of its rounds counts twice.
# - **tuned to**: the step sizes for which a search found the fewest rounds. These are `eta_local` (up to 95% of the
#   step at which a client alone diverges) and the method's own numbers. The search ensures that no tuned method is
#   slower than its special cases: tuned FedAvg is not slower than FedAvg with server rate 1, and tuned FedProx and
#   momentum are not slower than tuned FedAvg. Nothing more is promised: another choice may be still better.
# - **floor**: whatever the clients compute from their own data, a round is governed by a matrix $H P$, where $H$ is
#   the kernel and $P$ is block-diagonal over the clients. The condition number of $H P$ has a lower bound that
#   depends on the data and the partition only. The floor is the number of rounds that server momentum needs at that
#   condition number for the worst labels. Other labels may take fewer rounds. The floor shows how much could still be
#   gained. The floor is not a method.
#
# On these clients more local steps help little from $K = 5$ on. Momentum at the server helps, and costs no
# communication. `cyclic` lets the clients train in turn, each from the model of the client before. Cyclic training
# needs few rounds, but in each round the four clients have to wait for one another. The floor is for clients who
# train at the same time, and does not apply to `cyclic`.
#
# ## Clients with unlike data
#
# The left picture has the clients from above. In the right picture each class is split among the clients in shares
# that are drawn from a Dirichlet distribution with parameter 0.1:

# %%
import matplotlib.pyplot as plt

from ntkfl import data, fastest

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for panel, partition in zip(panels, ("iid", "dirichlet:0.1"), strict=True):
    answer = fastest(data.digits(n=50, clients=4, partition=partition, seed=0), local_steps=(1, 2, 5, 10, 20))
    for label in sorted({tuned.label for tuned in answer.tuned}):
        of = {tuned.local_steps: tuned.rounds for tuned in answer.tuned if tuned.label == label}
        panel.plot(list(of), list(of.values()), "o-", label=label)
    panel.axhline(answer.floor, color="black", linestyle=":", label="floor")
    panel.set(xscale="log", yscale="log", xlabel="local steps K", title=partition)
    panel.set_xticks(list(of), list(of))
    panel.minorticks_off()
panels[0].set_ylabel("rounds to a millionth of the residual")
ticks = [20, 50, 100, 200, 500, 1000, 2000, 5000]
panels[0].set_yticks(ticks, ticks)
legend = panels[1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))

# %% [markdown]
# With the heterogeneous clients of the right picture, FedAvg needs 2.5 to 3.3 times as many rounds as in the left
# picture if clients take two or more local steps, and more than six times as many if they take one. Momentum at the
# server needs 1.5 to 2.7 times as many. SCAFFOLD and FedDyn need at most 1.3 times as many, and with five or more local
# steps they need fewer rounds than in the left picture. With heterogeneous clients SCAFFOLD is the fastest of the
# methods whose clients train at the same time, as soon as clients take two or more local steps.
#
# ## One method, at steps of yours
#
# `ntkfl rate --method` takes the options of `ntkfl train`. The command says whether the rounds are stable, and prints
# the rate and the largest stable step:

# %%
# !ntkfl rate --data digits --n 50 --clients 4 --local-steps 5 --eta-local 0.5 --method fedavgm --option momentum=0.6

# %% [markdown]
# A method of your own, given by its file, may have a limit too. To find out, the training engine runs one round from
# every unit vector of the state, which is everything that the server and the clients store. These rounds give the
# linear map of a round, or show that there is none. Momentum in the clients' steps (`--momentum`) is treated in the
# same way. For a method that is known to have no linear limit, the command says why:

# %%
# !ntkfl rate --data digits --n 50 --method fedadam

# %% [markdown]
# In Python `kernel_regime` takes the method and its options. As for Algorithm 1, the result then has the outputs at
# any round, the predictions for new points, the spectrum, and the linear map of the whole state.

# %%
import ntkfl

problem = ntkfl.data.digits(n=50, clients=4)
setup = ntkfl.Setup(eta_local=0.5, local_steps=5)
for method, options in (("fedavg", {}), ("scaffold", {"server_rate": 2.0}), ("fedavgm", {"momentum": 0.6})):
    regime = ntkfl.kernel_regime(problem, setup, method=method, options=options)
    print(f"{method:9} rate {regime.rate:.4f}, {regime.rounds_to(1e-3):3} rounds to a thousandth")

# %% [markdown]
# ## When noise changes the answer
#
# Everything above is about full batches. Small batches add noise, and the noise grows with the server's step. So for
# a given number of rounds the best steps differ from the best steps for full batches. Often the best $K$ differs too.
# `ntkfl tune` searches for the server's rate and momentum (heavy ball or Nesterov's, as in DiLoCo) and `eta_local`
# with the least *expected* loss at the end of a budget. Here are twenty rounds on 30 images, with full batches and
# with batches of two:

# %% tags=["noise:0.1"]
from ntkfl.tuned_outer import Drawn, tune_outer

problem = data.digits(n=30, clients=4)
full, two = (
    {
        (tuned.local_steps, tuned.outer): tuned
        for tuned in tune_outer(problem, rounds=20, local_steps=(1, 4), drawn=drawn)
    }
    for drawn in (Drawn(), Drawn(batch_size=2))
)
for steps, outer in sorted(full):
    one, other = full[steps, outer], two[steps, outer]
    print(f"K = {steps}, {outer:8}  full batches {one.mean_square:.1e}   batches of two {other.mean_square:.1e}")

# %% [markdown]
# With full batches, the best choice with one local step leaves six times as much loss as the best choice with four.
# Heavy-ball momentum reduces the loss by a factor of thousands or more, with one local step and with four. With batches
# of two, the best choice with one local step leaves thousands of times as much loss as the best choice with four.
# Momentum then gains almost nothing with one step, and still a factor of twenty with four. (Four local steps compute
# four times as many gradients; `--samples` compares at equal numbers of gradients.) Step sizes that are tuned for full
# batches cannot be used with small batches:

# %%
import warnings

warnings.simplefilter("ignore")  # of steps that are not stable in the mean square
for steps in (1, 4):
    one = full[steps, "momentum"]
    setup = ntkfl.Setup(eta_local=one.eta_local, local_steps=steps)
    drawn = ntkfl.random_rounds(problem, setup, method=one.method, options=one.options, batch_size=2)
    left = drawn.root_mean_square(20) ** 2 / problem.n
    print(f"K = {steps}: {'above' if left > 1 else 'below'} the loss at the start with the steps for full batches")

# %% [markdown]
# So tune with the batches that you will train with. Noise changes the answer if a local step sees few of a client's
# samples and the server's step is long. The batches here are drawn independently of each other. Passes over shuffled
# samples have less noise ({doc}`random_rounds`).
#
# Are these settings ranked in the same order when networks are trained? The study `outer-ranking` takes three outer
# optimizers and two values of K, for 20 rounds on 200 images (5 clients, `shards:2`). The study tunes the steps of
# each of these six combinations twice, for batches of four and for full batches. With each of the twelve settings it
# trains two-layer networks, with batches of four. The steps tuned for full batches diverge, as predicted. The table
# has the steps tuned for batches of four. The losses of trained networks are geometric means over five networks, or
# over eight runs of the CNN:
#
# | outer | K | expected loss | width 4096 | width 16384 | `cnn:64`, expected | `cnn:64` |
# |---|---|---|---|---|---|---|
# | nesterov | 4 | .0073 | .0068 | .0064 | .294 | .165 |
# | momentum | 4 | .0089 | .0082 | .0076 | .341 | .198 |
# | average | 4 | .022 | .024 | .023 | .588 | .402 |
# | nesterov | 1 | .087 | .088 | .087 | .469 | .509 |
# | momentum | 1 | .091 | .088 | .087 | .548 | .539 |
# | average | 1 | .100 | .097 | .097 | .809 | .756 |

# %%
expected = [0.0073, 0.0089, 0.022, 0.087, 0.091, 0.100]
trained = {
    "width 4096": (expected, [0.0068, 0.0082, 0.024, 0.088, 0.088, 0.097]),
    "width 16384": (expected, [0.0064, 0.0076, 0.023, 0.087, 0.087, 0.097]),
    "cnn:64": ([0.294, 0.341, 0.588, 0.469, 0.548, 0.809], [0.165, 0.198, 0.402, 0.509, 0.539, 0.756]),
}
figure, panel = plt.subplots(figsize=(5, 4), layout="constrained")
for (label, (predicted, seen)), marker in zip(trained.items(), "o+^", strict=True):
    panel.plot(predicted, seen, marker, label=label, fillstyle="none")
panel.plot([0.005, 0.8], [0.005, 0.8], ":", color="black", linewidth=1, label="as predicted")
panel.set(xscale="log", yscale="log", xlabel="expected loss after 20 rounds", ylabel="loss of trained networks")
_ = panel.legend(fontsize="small")

# %% [markdown]
# Each point is one outer optimizer with one K of the table. If the points of one kind of network rise from left to
# right, networks rank the settings as predicted.
#
# The twelve settings form 66 pairs. At width 4096, 36 pairs differ by more than the error of the means (at the level
# 99% for all pairs together). At width 16384, 37 pairs do. All of these pairs are ordered as predicted, and Kendall's
# tau over all pairs is .97 at both widths. The steps that are predicted to be best cost no more rounds than the steps
# that train best (the difference is 0 ± 1 of 20 rounds). Geometric means were chosen after a first look at plain
# means, in which diverging steps hide the other differences: only 8 and 5 pairs differed clearly there, all of them
# as predicted. In many of the 36 and 37 pairs one setting diverges and the other does not.
#
# A small network with convolutions (`cnn:64`) is predicted by its own kernel at the start. The losses of this network
# follow the prediction less well: with K = 4 the network learns faster than its kernel says (Nesterov .165 for an
# expected .294). Its ranking follows the prediction: in eight runs of each of the twelve settings 14 of 66 pairs
# differ clearly, all of these are ordered as predicted, and tau is .85. (In a first run, with K = 4 alone, 9 pairs
# differed clearly, and 8 of them were ordered as predicted.) Averaging with K = 4 ends below Nesterov and momentum
# with K = 1, against the prediction, but the differences are within the error. The steps that are predicted to be
# best also train best, and cost no extra round in 20. The steps tuned for full batches end at losses of .57 to 1.9
# with one local step, where 1.2 to 53 were expected.
#
# ## What this does not say
#
# - The computation is about squared loss. Except in the section on noise, it is about full batches, and about all
#   clients in every round. `ntkfl rate` gives the exact mean square if clients or batches are sampled
#   (`--participation`, `--batch-size`), and takes clients with different numbers of steps (`--client-steps`);
#   `ntkfl.kernel_regime(loss=...)` has other convex losses.
# - The computation is exact at infinite width. The distance of a network of width $m$ from its limit is about
#   $m^{-1/2}$ under every method, and larger in late rounds (`ntkfl study run method-limits --out DIR`). `ntkfl
#   fastest --train 16384` trains a network of that width with the best steps of each method, and names the pairs of
#   methods that training puts in the order opposite to the prediction. The predictions are worst for steps that are
#   tuned to the edge of stability: FedAvg's server step and heavy-ball momentum. A network takes fewer rounds than
#   predicted if the largest eigenvalue of its kernel falls during training. A network takes more rounds than
#   predicted if its slow modes are not the slow modes of the limit: FedAvg on Dirichlet clients, with the steps whose
#   predicted rate is smallest, took 435 rounds to .001, where 244 were predicted. Methods whose predictions are a few
#   rounds apart may change places.
# - The computation is about the training residual. The fastest method is not the method that generalises best.
#
# Where to go next: [will this network converge](will_it_converge.ipynb), or [train federated
# methods](train_and_compare.ipynb).
