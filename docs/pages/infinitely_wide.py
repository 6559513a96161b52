# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # All of Fashion-MNIST, infinitely wide
#
# `ntkfl.kernel_regime` decomposes the Gram matrix $H$ of the samples. The decomposition takes 68 $n^2$ bytes: 245 GB
# for the 60,000 training images of Fashion-MNIST. A round of a linear method needs less: products of $H$ with the
# residuals, and the blocks of $H$ that belong to single clients. `ntkfl limit` stores the lower triangle of $H$ in
# blocks of fixed size, called tiles, and computes the rounds by products with these tiles.
#
# ## One command
#
# The example has 600 images, so that the page runs in seconds:

# %% tags=["noise:0.5"]
# !ntkfl limit --data fashion-mnist --n 600 --test 300 --clients 20 --partition dirichlet:0.3 --method fedavg --rounds 100 2>/dev/null

# %% [markdown]
# - **|r| / |y|**: the norm of the residual divided by the norm of the labels, with a proved bound of the error. The
#   error comes from the rounded entries of the tiles, from rounding in products, and from the clients' computed
#   eigenvectors, in all rounds up to the printed round ({doc}`../proofs/linear_methods`, *Errors of tiles*).
# - **accuracies**: the accuracies of the infinitely wide network. They depend on neither a width nor a seed. Each
#   accuracy is printed as an interval. If the error bound leaves the class of a sample open, the sample counts as
#   right at one end of the interval and as wrong at the other. In round 0 all outputs are 0, and all classes are
#   open.
# - For plain averaging (`fl-ntk`, `fedavg`, `fedprox`, `fednova`) many rounds take few products. The reason is that
#   the powers of a round's linear map are approximated by short Chebyshev series. 1000 rounds take some hundred
#   products.
#
# ## Other methods
#
# Methods with a memory, such as server momentum and control variates, are computed round by round. Their errors are
# bounded too (*Errors of methods that remember*, on the same page of proofs), but the bounds are looser, since an
# error may grow for some rounds before it falls. `--state run.npz` stores such a run, with the step limits and error
# bounds that were computed before its first round. If the program is killed, the same command continues the run. The
# next cell computes five methods with the same local step on the same images:

# %%
import matplotlib.pyplot as plt

from ntkfl import data
from ntkfl.limit_curves import limit_curves

problem = data.fashion_mnist(600, target="one-hot", clients=20, partition="dirichlet:0.3", test=300)
methods = {
    "fedavg": {},
    "fedprox": {"mu": 1.0},
    "fedavgm": {"momentum": 0.9},
    "scaffold": {},
    "feddyn": {"alpha": 5.0},
}
rounds = [1, 2, 5, 10, 20, 50, 100]
figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for method, options in methods.items():
    curves = limit_curves(problem, rounds, method=method, options=options)
    panels[0].plot(rounds, [point.residual.value for point in curves.points], "o-", label=method)
    panels[1].plot(rounds, [point.test.value for point in curves.points], "o-", label=method)
panels[0].set(xscale="log", yscale="log", xlabel="round", ylabel="|r| / |y|")
panels[1].set(xscale="log", xlabel="round", ylabel="test accuracy")
panels[0].legend(fontsize="small")
plt.show()

# %% [markdown]
# Steps may change with the round: `--local-schedule 0.02,0.01`, `--server-schedule` and `--steps-schedule` list them,
# as `eta_local=`, `eta_global=` and `local_steps=` do in Python. The last entry of a list holds for all rounds that
# follow. The errors are then bounded too (*Errors where steps change*, and *Errors of methods that remember where
# steps change*).
#
# The methods in the picture share only the local step, and none of them is tuned. `ntkfl fastest` tunes methods
# ({doc}`which_method`). With `--tiles auto` the command decomposes no matrix. It then tunes averaging and server
# momentum in the Krylov space of the labels: the space of the labels' products with the first powers of a round's
# matrix. The next numbers are for 4000 images, 100 clients, `dirichlet:0.3` and 5 local steps. After 100 rounds of
# FedAvg at server rate 1 the norm of the residual is .479 of the norm of the labels. For short, FedAvg leaves .479 of
# the labels. With the best server rate it leaves .399. The best momentum (.93, with server rate 5.2) leaves .050.
# These three numbers come from rounds that were run. For SCAFFOLD and FedDyn the Krylov space gives no such shortcut.
# Every setting is run on 1000 of the images, and the best setting is then tuned on all images. With a budget of 100
# rounds SCAFFOLD then leaves .366 (server rate 3.4) and FedDyn .129 (alpha .055). The search and the tuning took 129
# s of processor for SCAFFOLD (with two products a round) and 80 s for FedDyn. The command is:
#
#     ntkfl fastest --data fashion-mnist --n 4000 --clients 100 --partition dirichlet:0.3 --steps 5 --budget 100 \
#         --tiles auto
#
# ## Ten thousand images
#
# The data are 10,000 images drawn from all 70,000, on 100 clients, `dirichlet:0.3`, with 10,000 other images to test
# on. There are 5 local steps with `eta_local` .0294. The tiles are stored in float64. With the data they take some 2
# GB:
#
# ![Residual and test accuracy over the rounds: FedAvg, momentum at the server, SCAFFOLD](../infinitely_wide.svg)
#
# | | test accuracy after round 1 | 10 | 100 | 200 | 1000 | processor time |
# |---|---|---|---|---|---|---|
# | FedAvg | .693 | .763 | .836 | .850 | .868 | 47 s for 1000 rounds |
# | momentum .9 at the server | .693 | .799 | .869 | .876 | | 50 s for 200 rounds |
# | SCAFFOLD | .691 | .748 | .829 | .845 | | 82 s for 200 rounds |
#
# The errors of FedAvg's accuracies are proved to be at most .0001 up to round 300, and at most .0017 after 1000
# rounds. Momentum at the server reaches in 100 rounds the accuracy that FedAvg reaches in 1000.
#
# The next table has the processor seconds of a round of each method, at the same sizes. The tiles are float32, the
# labels have ten columns, and one thread computes. Each number is the mean of ten rounds, and includes the error
# bounds. Before the first round, the tiles took 2.6 s to compute and the clients' blocks .2 s. The memory was .75 GB
# in all. In wall-clock time, beside some fifteen other programs on two cores, the tiles took 67 s and a round 2.1 to
# 2.5 s. A round of cyclic training, in which clients train one after the other, took 34 s.
#
# | FedAvg | FedProx | FedNova | momentum | Nesterov | SCAFFOLD | FedDyn | cyclic |
# |---|---|---|---|---|---|---|---|
# | .070 | .095 | .090 | .100 | .093 | .107 | .097 | 1.8 |
#
# With 60,000 images, two label shards for each client and two threads, the work before the first round (samples,
# tiles, clients' blocks, bounds) took some 250 s of processor. One round of each of FedAvg, SCAFFOLD, FedDyn and
# momentum, computed together, took 9.7 s.
#
# How large are the errors, compared with their bounds? The next table is for the same data, with 5000 of the other
# images to test on. Four methods ran together, once with float64 tiles and once with float32 tiles (76 and 77 s of
# processor for 100 rounds, on a loaded machine). The column "apart" has the distance between the training residuals
# of these two runs, divided by $|y|$. The error with float32 tiles is at most this distance plus the error bound of
# the run with float64 tiles:
#
# | | round | apart | bound with float32 | float64's bound | error of the test accuracy at most, float32 | float64 |
# |---|---|---|---|---|---|---|
# | FedAvg | 1 | 4.1e-10 | 1.4e-5 | 1.8e-8 | 0 | 0 |
# | | 10 | 3.3e-9 | 7.4e-5 | 1.1e-7 | .0006 | 0 |
# | | 100 | 2.7e-8 | 4.1e-4 | 5.4e-7 | .0016 | 0 |
# | momentum .9 at the server | 1 | 4.1e-10 | 4.2e-6 | 5.8e-9 | .0002 | 0 |
# | | 10 | 1.3e-8 | 4.5e-5 | 4.3e-8 | 0 | 0 |
# | | 100 | 1.8e-7 | 1.7e-3 | 2.9e-7 | .0032 | 0 |
# | SCAFFOLD | 1 | 2.8e-10 | 5.8e-7 | 7.0e-10 | 0 | 0 |
# | | 10 | 2.6e-9 | 1.9e-5 | 2.5e-8 | .0002 | 0 |
# | | 100 | 2.0e-8 | 1.6e-4 | 2.1e-7 | .0002 | 0 |
# | FedDyn, alpha 6 | 1 | 4.0e-10 | 1.3e-6 | 1.7e-9 | 0 | 0 |
# | | 10 | 2.9e-9 | 4.4e-6 | 3.9e-9 | 0 | 0 |
# | | 100 | 2.3e-8 | 6.3e-5 | 6.0e-9 | .0002 | 0 |
#
# The bounds with float32 are 1,500 to 34,000 times the distance, since they allow for rounding errors that all have the
# same direction. A run of FedAvg alone, whose 100 rounds are computed as one series, took 10 s of processor with either
# kind of tiles, and .97 GB with float32 or 1.2 GB with float64. All accuracies of float32 and float64 agree. FedDyn
# reaches .828 after 100 rounds, SCAFFOLD .825, FedAvg .834, momentum .869.
#
# At this size the rounds can also be computed with the whole matrix in float64, without tiles. The next table
# compares the results of tiles with these rounds. The table has three kinds of columns "off". The first is the
# distance of the training residuals, divided by $|y|$. The second is the largest error of an entry of the residuals.
# The third is the error of the weights' movement $|U(t)-U(0)|_F$, divided by this movement. The column after each of
# these columns has the bound that the computation with tiles states. `docs/limit_costs.py` measures the rows. A
# method took 42 to 70 s of processor and 1.2 GB, including the rounds with the whole matrix:
#
# | | round | float32: residual off | bound | an entry off | bound | movement off | bound | float64: residual off | bound |
# |---|---|---|---|---|---|---|---|---|---|
# | FedAvg | 1 | 4.1e-10 | 1.4e-5 | 1.2e-9 | 6.3e-5 | 5.9e-12 | 2.4e-6 | 2.5e-16 | 1.8e-8 |
# | | 10 | 3.3e-9 | 7.4e-5 | 1.1e-8 | 2.9e-4 | 2.9e-11 | 4.7e-5 | 2.5e-16 | 1.1e-7 |
# | | 100 | 2.7e-8 | 4.1e-4 | 8.9e-8 | 1.9e-3 | 3.4e-10 | 1.3e-4 | 1.9e-14 | 5.4e-7 |
# | SCAFFOLD | 1 | 2.8e-10 | 5.8e-7 | 9.1e-10 | 8.1e-6 | 1.5e-11 | 1.8e-6 | 6.2e-17 | 6.9e-10 |
# | | 10 | 2.6e-9 | 1.9e-5 | 7.5e-9 | 1.0e-4 | 2.8e-11 | 1.2e-5 | 1.9e-16 | 2.5e-8 |
# | | 100 | 2.0e-8 | 1.6e-4 | 7.2e-8 | 8.6e-4 | 4.3e-10 | 5.7e-5 | 2.6e-16 | 2.1e-7 |
# | momentum .9 at the server | 1 | 4.1e-10 | 4.2e-6 | 1.2e-9 | 1.9e-5 | 5.9e-12 | 1.0e-5 | 7.9e-17 | 5.8e-9 |
# | | 10 | 1.3e-8 | 4.5e-5 | 4.2e-8 | 4.1e-4 | 8.9e-11 | 1.8e-5 | 2.9e-16 | 4.3e-8 |
# | | 100 | 1.8e-7 | 1.7e-3 | 6.0e-7 | 8.4e-3 | 1.5e-9 | 2.7e-4 | 6.2e-16 | 2.9e-7 |
#
# No error is above its bound. The residuals with float64 tiles are within 2e-14 of the residuals with the whole
# matrix. The rounds with the whole matrix have rounding errors too, which are not bounded here. The bounds of the
# movement are 120,000 to 1.7 million times its error, because roundings of single entries cancel in a sum over all
# entries.
#
# Another run of FedAvg with float32 tiles had 5000 images and 2500 classes, which were drawn at random, with two
# images each. `left_estimate` computes what is left of the residual after a round, in a weighted norm, without
# running the rounds. For rounds 1, 2 and 3 its values with tiles differ from the values that the whole matrix gives
# by at most 1.0e-9; the stated bound is 4.9e-5. `left_estimate` took 36 s of processor, with all eigenvectors of a
# round. `rounds_to` took 9.5 s, and gave the right number of rounds (3). The memory was 1.9 GB in all, including the
# whole matrix for the comparison.
#
# ## Sixty thousand images
#
# All of Fashion-MNIST is 60,000 images to train on and 10,000 to test on. The tiles take 16.4 GB, or 8.9 GB in
# float32. Before the computation starts, `ntkfl limit` says whether the tiles fit into memory. The command for FedAvg
# with 100 clients, `dirichlet:0.3`, 5 local steps and `eta_local` .00398 is:
#
#     ntkfl limit --data fashion-mnist --n 60000 --test 10000 --clients 100 --partition dirichlet:0.3 \
#         --method fedavg --tiles float32 --rounds 10000
#
# | round | 1 | 10 | 100 | 1000 | 10,000 |
# |---|---|---|---|---|---|
# | what is left of the labels | .877 | .663 | .538 | .452 | .328 |
# | its error is at most | 4e-6 | 3e-5 | 2e-4 | 2e-3 | 2e-2 |
# | training accuracy | .685 | .756 | .835 | .890 | .959 |
# | test accuracy | .685 | .752 | .831 | .876 | .901 |
#
# One run with 464 products gave the numbers of all five rounds, in 2385 s of processor and with 9.7 GB. The error
# bound allows for the worst case of 1.8 billion entries that are rounded to float32. It proves the test accuracy to
# .0001 up to round 10 and to .011 at round 100. From round 1000 on it proves nothing about the test accuracy. (A
# later run of 100 rounds, below, proves it to .0009 at round 100.) The real effect of float32 is far smaller: at
# 10,000 images float32 and float64 tiles give the same accuracies over 10,000 rounds, and residuals within 1.2e-8 of
# each other.
#
# ![Residual, training and test accuracy over the rounds at 60,000 images, by partition and method](../sixty_thousand.svg)
#
# The picture has all measurements at this size (`docs/sixty_thousand.json`, drawn by `docs/sixty_thousand.py`). The
# program proves smaller error bounds now than when these runs were made, for methods with a memory (*Errors of
# methods that remember where steps change*) and for FedAvg (*Errors of tiles*, *Many rounds at once*). The runs of
# 100 rounds in the tables were made again with the smaller bounds. The columns "before" have the bounds of the first
# runs. Some of these bounds were kept with one digit. The values of the new runs agree with those of the first runs
# in all digits that were kept. One run of three methods (`dirichlet:0.3`, `eta_local` .00398) took 31 minutes of
# wall-clock time beside twenty to thirty other programs on two cores:
#
# | | test accuracy after round 1 | 10 | 46 | 100 | left of the labels after 10 | after 100 | its error is at most | before | error of the accuracy at most | before |
# |---|---|---|---|---|---|---|---|---|---|---|
# | FedAvg | .685 | .752 | .808 | .831 | .663 | .538 | 1.8e-4 | 2e-4 | .0009 | .011 |
# | momentum .9 at the server | .685 | .797 | .864 | .876 | .634 | .454 | 1.2e-3 | 5e-3 | .0021 | |
# | SCAFFOLD | .680 | .738 | .797 | .824 | .668 | .542 | 1.3e-4 | 1.5e-3 | .0004 | .0061 |
#
# The last four columns are about round 100. FedAvg takes 1000 rounds to reach momentum's .876.
#
# `ntkfl fastest --tiles` tunes steps in the labels' Krylov space. For 100 rounds with `dirichlet:0.3` and the same
# `eta_local`, it predicts that FedAvg leaves .494 with server rate 3.17, and that momentum .956 leaves .324 with
# server rate 5.98. The search took 219 s of processor and about as long in wall-clock time, beside one other program,
# with the tiles read from a file. For FedAvg with server rate 1 the prediction is .538, as in the table. The
# predictions have no proved error. Then the rounds themselves were run with these steps, both methods in one run.
# This run was stopped once and continued. The part after the stop took 756 s of processor, 13 minutes of wall-clock
# time beside one other program, and 9.8 GB:
#
# | method | steps | predicted | left of the labels after 100 rounds | its error is at most | test accuracy | its error is at most |
# |---|---|---|---|---|---|---|---|
# | FedAvg | server rate 3.17 | .494 | .4942 | 4e-4 | .857 | .0063 |
# | momentum | momentum .956, server rate 5.98 | .324 | .3239 | .15 | .902 | .31 |
#
# The simple bound of the largest eigenvalue of a round's matrix is a sum: the largest eigenvalue of each client's
# block of this matrix, added over all clients. At these server rates the sum is above 2, and therefore no error bound
# follows from it. The error bounds come from a second run, with a sharper bound of the largest eigenvalue
# ({doc}`../proofs/linear_methods`, *Rounds without a matrix*). Its values agree with the values of the first run in
# all digits that were kept. The second run took 17 minutes of wall-clock time beside some fifteen other programs,
# 1300 s of processor and 10.0 GB, with the tiles from a file. More than half of this time was spent before the first
# round, on the step limits and the bound of the largest eigenvalue. For momentum the bound of the residual's error
# proves little after 100 rounds. After 10 rounds this bound is .0013, and the test accuracy is proved to .0023.
#
# The next table is for 4000 images on 100 clients, again with server rates at which the sum of the clients' largest
# eigenvalues proves nothing. One run of 100 rounds has three methods, 10,000 other images to test on, and float32
# tiles. The run took 16 s of processor:
#
# | method | steps | left of the labels | its error is at most | test accuracy | error of the accuracy at most |
# |---|---|---|---|---|---|
# | FedAvg | server rate 2.6 | .4448 | 3.0e-4 | .838 | .0012 |
# | momentum | momentum .93, server rate 5.2 | .0925 | 1.7e-2 | .860 | .029 |
# | SCAFFOLD | server rate 2.6 | .4491 | 4.7e-4 | .835 | .0013 |
#
# With float64 tiles the three residuals are proved to 2.2e-8, 7.9e-7 and 5.8e-8, and the accuracies exactly.
#
# Momentum's bound is large because errors of the memory are kept for $1/(1-.93)$ rounds, and are all counted as if
# they had the same direction. SCAFFOLD's errors have proved bounds nearly up to the largest stable server rate. For
# these 4000 images the bounds exist at server rate 4.5, which is .98 of the largest stable rate. For 2000 images on
# 20 clients they exist at 2.8, where the largest stable rate is 3.2.
#
# For SCAFFOLD and FedDyn `fastest` searches on 1000 of the images, with the same share of the images of each client.
# It then tunes the best setting on all images. The next table has the best settings for 1000 to 9000 images and a
# budget of 100 rounds. `eta_local` is the same share of its limit in every row. The table took 231 s of processor on
# a loaded machine:
#
# | images | SCAFFOLD's server rate | leaves | FedDyn's alpha | leaves |
# |---|---|---|---|---|
# | 1003 | 5.55 | .206 | .050 | .063 |
# | 3004 | 3.75 | .389 | .069 | .145 |
# | 9002 | 3.75 | .460 | .087 | .276 |
#
# More images are harder to fit in the same number of rounds, and steps that suit few images are too long for more
# images. At 60,000 images there was no search. One run had six settings. Five of them have server rates and values of
# alpha that continue the columns of the table. The sixth is FedDyn with alpha 5. The run took 1556 s of processor, 33
# minutes of wall-clock time beside some ten other programs, and 11.0 GB. FedDyn's residual still falls when alpha grows
# from .13 to .2:
#
# | method | steps | left of the labels after 100 rounds | its error is at most | test accuracy | error of the accuracy at most | before |
# |---|---|---|---|---|---|---|
# | SCAFFOLD | server rate 3.17 | .4992 | 4.3e-4 | .851 | .0013 | none proved |
# | SCAFFOLD | server rate 3.75 | .4932 | 8.7e-4 | .855 | .0023 | none proved |
# | FedDyn | alpha .09 | .4343 | 6.9e-3 | .890 | .014 | .098 |
# | FedDyn | alpha .13 | .4316 | 6.8e-3 | .890 | .014 | .096 |
# | FedDyn | alpha .2 | .4276 | 6.5e-3 | .890 | .012 | .091 |
#
# FedDyn with alpha 5 leaves more of the labels, and its error bounds are smaller:
#
# | | test accuracy after round 1 | 10 | 46 | 100 | left of the labels after 10 | after 100 | its error is at most | before | error of the accuracy at most | before |
# |---|---|---|---|---|---|---|---|---|---|---|
# | FedDyn, alpha 5 | .680 | .793 | .858 | .873 | .591 | .460 | 6.1e-4 | 1.3e-3 | .0010 | .022 |
#
# SCAFFOLD ends near FedAvg (table below the picture), at .542 of the labels against .538. FedDyn with alpha 5 ends
# near momentum, at .460 against .454. After round 1 FedDyn leaves .827, SCAFFOLD .897 and FedAvg .877.
#
# Values of alpha between .2 and 5 were not run at this size. With 10,000 of the images, ten settings were run in two
# runs (89 s of processor, `eta_local` .0294). FedDyn then leaves .287 at alpha .03, .277 at .05, .272 at .09, .278 at
# .13, .297 at .2, .366 at .5 and .417 at 1, each proved to .007. With 10,000 images a client has a sixth of the
# images that it has with 60,000, and its eigenvalues are about a sixth as large. So alpha .09 at 10,000 images
# corresponds to about .5 at 60,000.
#
# With similar clients (`--partition iid --rounds 100`, `eta_local` .0217 for all) four methods in one run took 1044 s
# of processor, 16 minutes of wall-clock time beside some fifteen other programs on two cores, and 10.6 GB. The file
# with the tiles existed already:
#
# | | test accuracy after round 1 | 10 | 100 | left of the labels after 100 | its error is at most | before | error of the accuracy at most | before |
# |---|---|---|---|---|---|---|---|---|
# | FedAvg | .712 | .802 | .863 | .481 | 2.1e-4 | 2e-4 | .0006 | .0065 |
# | SCAFFOLD | .712 | .803 | .863 | .480 | 8e-4 | 4e-3 | .0012 | .028 |
# | FedDyn, alpha 5 | .710 | .824 | .873 | .458 | 1.2e-3 | 1e-3 | .0019 | .035 |
# | momentum .9 at the server | .712 | .838 | .894 | .384 | 6e-3 | 9e-3 | .010 | .12 |
#
# With similar clients the numbers of SCAFFOLD and FedAvg differ by at most .0011. FedDyn and momentum move farther in
# a round. With `dirichlet:0.3` FedAvg's longest step is a fifth of the longest step here, because the largest client
# limits the step. So 100 rounds reduce the residual less.
#
# With two label shards for each client (`--partition shards:2`, `eta_local` .00760) 1000 rounds of FedAvg took 165
# products, 771 s of processor and 9.2 GB, and 47 minutes of wall-clock time beside a dozen other programs on two
# cores:
#
# | round | 1 | 10 | 100 | 1000 |
# |---|---|---|---|---|
# | what is left of the labels | .878 | .671 | .543 | .452 |
# | its error is at most | 1.5e-6 | 8.6e-6 | 9.1e-5 | 7.9e-4 |
# | training accuracy | .709 | .775 | .847 | .900 |
# | test accuracy | .706 | .773 | .843 | .883 |
#
# The test accuracy is proved exactly at round 1, and to .0002 at round 10, .0005 at round 100 and .0067 at round 1000.
#
# On the same clients, at the same `eta_local`, four methods in one run took 791 s of processor, 16 minutes of
# wall-clock time beside some five other programs on two cores, and 10.3 GB. The file with the tiles existed already:
#
# | | test accuracy after round 1 | 10 | 46 | 100 | left of the labels after 10 | after 100 | its error is at most | before | error of the accuracy at most | before |
# |---|---|---|---|---|---|---|---|---|---|---|
# | FedAvg | .706 | .773 | .821 | .843 | .671 | .543 | 6.3e-5 | 6.4e-5 | .0004 | .0014 |
# | SCAFFOLD | .706 | .761 | .819 | .840 | .625 | .518 | 2.2e-4 | 2.0e-3 | .0008 | .0091 |
# | FedDyn, alpha 5 | .706 | .809 | .859 | .873 | .569 | .459 | 8.5e-4 | 1.5e-3 | .0020 | .030 |
# | momentum .9 at the server | .706 | .808 | .869 | .883 | .617 | .454 | 1.2e-3 | 3.1e-3 | .0025 | .029 |
#
# Here SCAFFOLD differs from FedAvg. It leaves less of the labels, .518 against .543, and yet its test accuracy is
# lower, .8399 against .8426. The same holds at round 10. The error bounds prove both differences at both rounds.
#
# `--memmap FILE` keeps the tiles in a file, for tiles that do not fit into memory. The option was tried with 20,000
# images, whose tiles (.88 GB) were still in the system's cache. A round of SCAFFOLD took .34 s from the file and .38
# s from memory, on one core of two. The residual after six rounds had the same norm in both cases. Reading the file
# took 2.8 s, and computing the tiles 9 to 12 s. When a file is opened, one row in 256 is compared with the kernel. In
# each slab of consecutive rows, the row with the largest entry off the diagonal is compared too (with 12,000 images
# this took .36 s of processor, where computing the tiles took 4.2 s). A change of other rows on the disk is not
# detected. The file may be larger than the memory. Products then take as long as reading the file from the disk. A
# file larger than the memory was tried with a process that was allowed to use 750 MB (by a memory control group of
# Linux, page cache included). For 20,000 samples this process refused in advance to hold the tiles in memory, with
# the message "n up to 13396 would fit". With `--memmap` the process built the tiles in a file of 880 MB. Each product
# then read 810 MB from the disk and took 1.0 s of processor and 7 s of wall-clock time, beside fifteen other
# programs.
#
# With `--device cuda` a GPU holds and multiplies the tiles. **This option has never run on a GPU**, because none was
# at hand. The script `docs/tiles_on_a_device.py` of the repository ran with the CPU as the device (`python
# docs/tiles_on_a_device.py cpu 600 2000 --rounds 20`). The products and the rounds of three methods differed from the
# products and rounds of one process by at most .0004 of the proved bounds. The script needs numpy, scipy, numba,
# PyTorch, jaxtyping and python-flint, but no JAX.
#
# Several methods in one command share the tiles, and need only one product in each round:
#
#     ntkfl limit --n 60000 --test 10000 --clients 100 --tiles float32 --rounds 100 --state run.npz \
#         --method fedavg --method scaffold --method fedavgm:momentum=0.9,server_rate=3.7
#
# A product reads the tiles once, whatever its number of columns: with 6144 images ten columns took .039 s of
# processor, and fifty columns, for five methods, took .115 s. The methods share the computation of the tiles, the
# kernel of the test images, and the memory of the tiles.
#
# The next table has the time and memory of each method when it runs alone, with 100 clients, `dirichlet:0.3`, 5 local
# steps and float32 tiles in a file. The times are processor time and wall-clock time in seconds. For both kinds of
# time, the table has the time until the first round (clients' blocks, limits of the steps, error bounds), and the
# time of ten rounds with their error bounds. The first row of each size is the computation of the tiles. The memory
# is the peak of the process, including the pages of the file. The load is the load average of the machine at the end.
# No other large program ran on the two cores. FedAvg with a tuned server rate needs a search for its step limit,
# which takes 61 products at 20,000 images. The tuned rate is the rate with the smallest residual after 100 rounds.
# This rate is found by a computation in the Krylov space of 40 products, among rates in steps of .05. At 20,000
# images FedAvg with this rate leaves .472 of the labels, against .516 at rate 1. The largest stable rate is 2.642.
# `docs/limit_costs.py` measures rows again:
#
# | images | | processor: until the first round | ten rounds | clock: until the first round | ten rounds | memory | load |
# |---|---|---|---|---|---|---|---|
# | 20,000 | the tiles | 7.55 | | 5.06 | | 1.4 GB | 1 |
# | 20,000 | FedAvg | 2.27 | 5.09 | 1.36 | 2.8 | 1.2 GB | 1 |
# | 20,000 | SCAFFOLD | 2.48 | 5.53 | 1.47 | 3.01 | 1.2 GB | 2 |
# | 20,000 | FedDyn, alpha 5 | 2.31 | 5.29 | 1.36 | 2.93 | 1.2 GB | 1 |
# | 20,000 | momentum .9 at the server | 2.39 | 5.13 | 1.4 | 2.83 | 1.2 GB | 2 |
# | 20,000 | FedAvg, server rate 2.6 | 32.9 | 4.96 | 18.8 | 2.68 | 1.2 GB | 2 |
# | 60,000 | the tiles | 66.8 | | 39 | | 8.5 GB | 2 |
# | 60,000 | FedAvg | 17.1 | 37.8 | 9.72 | 19.8 | 8.6 GB | 2 |
# | 60,000 | SCAFFOLD | 16.1 | 39.8 | 9.09 | 21.1 | 8.6 GB | 2 |
# | 60,000 | FedDyn, alpha 5 | 14.3 | 34.7 | 8.18 | 18 | 8.6 GB | 2 |
# | 60,000 | momentum .9 at the server | 14.8 | 34.9 | 8.51 | 18.1 | 8.6 GB | 2 |
# | 60,000 | FedAvg, server rate 3.17 | 310 | 37 | 171 | 19.5 | 8.6 GB | 2 |
#
# ## Several machines
#
# With `--scheduler` the workers of a Dask cluster hold the tiles. {doc}`scale_out` has the commands that start a
# cluster, and its TLS options. In Python the call is `kernel_regime(..., matrix_free=True, cluster=client)`; the
# command is:
#
#     ntkfl limit --n 60000 --test 10000 --clients 100 --method scaffold --state run.npz --scheduler tcp://HOST:8786
#
# - Each worker has consecutive rows of the lower triangle, and all workers have nearly the same number of entries. In
#   a product the workers take turns once: each adds its share to the sum of the workers before it. The sum has the
#   same order as in one process, so that the numbers have the same bits on any number of workers. A single process
#   gives the same bits too if it has as many BLAS threads as a worker (by default 1). Otherwise entries differ by
#   rounding, about 2e-16.
# - Before the work begins, the needed memory is compared with the memory that a worker may hold before Dask writes to
#   the disk, and with the memory of its machine.
# - If a worker dies, others compute its rows again. On a machine of another kind rows may get other bits. Such rows
#   are refused, since error bounds rest on one matrix. If no worker or no scheduler is left, the run ends with a
#   message that says so. The file given by `--state` has the rounds up to then, and the same command continues from
#   them, on a cluster or without one.
# - The clients' blocks and the predictions are computed in the process that started the run, not by the workers.
#
# The next table has processor seconds for 6000 images, 100 clients, float32 tiles and 30 rounds, on two workers of this
# machine under load:
#
# | | one process | on the cluster: the process that asks | each worker, imports included | largest difference |
# |---|---|---|---|---|
# | FedAvg | 5.0 | 4.5 | 5.0, 5.0 | 0 |
# | SCAFFOLD | 4.3 | 5.4 | 7.1, 6.9 | 0 |
#
# For a matrix of this size a cluster gains nothing. A cluster is meant for tiles that do not fit on one machine.
#
# With 20,000 images, `dirichlet:0.3` and float32 tiles, FedAvg, SCAFFOLD and momentum .9 were run for 20 rounds, on
# two workers and in one process with one BLAS thread. The residuals and coefficients have the same bits: the largest
# difference is 0 in all eleven rounds that were kept, and the written files of curves are equal.
#
# With all 60,000 images, 100 clients of two label shards and float32 tiles, three rounds of SCAFFOLD and momentum .9
# in one run took 9 minutes of wall-clock time, on two workers of this machine with a thread each, beside some ten
# other programs on two cores. The results were compared with the rounds of one process above (`python
# docs/sixty_thousand.py apart`). SCAFFOLD's residuals and coefficients have the same bits. Momentum's residuals
# differ by at most 2.8e-16, because the one process multiplied forty columns at a time, and this run twenty. The
# workers took 75 and 78 s of processor, most of it for the tiles, and 4.7 and 4.8 GB. The process that started the
# run took 28 s and 2.7 GB, with its samples and imports, and the scheduler took .5 GB. No message from a worker is as
# large as the tiles of 2048 rows. With 20,000 images, whose tiles take .86 GB, the process that started the run took
# 1.1 GB, the scheduler .23 GB, and the workers .94 and .88 GB and 13 s of processor each.
#
# ## A million images
#
# Tiles and products grow with $n^2$, and the amount of data that is sent grows with $n$. The next cell counts 4 bytes
# for each entry of the lower triangle (`whole`), and 12 bytes for each entry of the 2048 rows that are computed at a
# time (`slab`). With 50 workers and ten columns:

# %%
n, d, columns, workers, products = 10**6, 784, 10, 50, 464
times = (n / 60_000) ** 2  # the work of 60,000 images, whose build and products took 2385 s of processor
whole, slab = (
    4 * n * n / 2,
    12 * n * 2048,
)  # bytes of the lower triangle in float32; of 2048 rows while they are computed
print(f"tiles: {whole / 1e12:.1f} TB in float32, {whole / workers / 1e9:.0f} GB a worker,", end=" ")
print(f"which needs {(slab + 16 * n * d) / 1e9:.0f} GB more while it computes them")
print(f"samples: {8 * n * d / 1e9:.1f} GB, to each worker once: {8 * n * d * workers / 1e9:.0f} GB sent")
print(f"a product: {8 * n * columns * workers / 1e9:.1f} GB to the workers,", end=" ")
ends = sum(n * (k / workers) ** 0.5 for k in range(1, workers + 1))  # rows that the k-th worker's sum has
print(f"{8 * columns * ends / 1e9:.1f} GB from worker to worker, one after the other:", end=" ")
print(f"{8 * columns * ends / 1.25e9:.1f} s at 10 Gbit/s")
print(f"10,000 rounds of FedAvg: {products} products, {2385 * times / 3600:.0f} hours of processor,", end=" ")
print(f"{8 * columns * (n * workers + ends) * products / 1e12:.1f} TB sent")

# %% [markdown]
# The hours are extrapolated from our two cores. Nothing was run at that size. Methods with a memory take a product
# for each round. In the process that starts the run, the blocks of 100 clients with 10,000 images each would take 80
# GB. The blocks of 10,000 clients with 100 images each would take .8 GB. So at this size `ntkfl limit` is only for
# many small clients.
#
# ## How far an approximation is from the truth
#
# `kernel_regime` takes a kernel of low rank as it takes any kernel, and the rounds with such a kernel can be compared
# with the exact limit. *Nystrom* replaces $k(x, z)$ by $k(x, L) k(L, L)^{-1} k(L, z)$ with some of the samples as
# landmarks $L$. Here scikit-learn computes this kernel. *Random features* give the kernel of a network with few
# neurons at its start, with $d$ features for each neuron, where $d$ is the dimension of the inputs. The value of this
# kernel at two inputs is the inputs' inner product times the share of neurons that are active on both inputs. The
# next cell compares both approximations with the exact kernel on 600 images:

# %% tags=["noise:0.5"]
import numpy as np
from sklearn.kernel_approximation import Nystroem

import ntkfl
from ntkfl import gram


def nystroem(x, landmarks):
    """The kernel whose features are those of scikit-learn, with some of the samples as landmarks."""
    chosen = x[np.random.default_rng(0).permutation(len(x))[:landmarks]]
    fitted = Nystroem(kernel="precomputed", n_components=landmarks, random_state=0).fit(gram.infinite(chosen))

    def features(z):
        return fitted.transform(gram.infinite(z, chosen))

    return lambda a, b: features(a) @ features(a if b is None else b).T


def random_features(x, neurons):
    """The kernel of random neurons: the samples' inner product times the share of neurons that both activate."""
    weights = np.random.default_rng(0).standard_normal((x.shape[1], neurons))

    def kernel(a, b):
        b = a if b is None else b
        active, too = ((z @ weights > 0).astype(float) for z in (a, b))
        return (a @ b.T) * (active @ too.T) / neurons

    return kernel


def against_the_limit(problem, kernels, rounds=(1, 10, 100)):
    """Distance of the outputs from the exact limit, over |y|, and test accuracy, after these rounds of FedAvg."""
    step = ntkfl.kernel_regime(problem, ntkfl.Setup(eta_local=1e-9), matrix_free=True).step_limits.eta_local / 2
    exact = None
    for name, kernel in {"exact": None, **kernels}.items():
        limit = ntkfl.kernel_regime(
            problem, ntkfl.Setup(eta_local=step, local_steps=5), kernel, "fedavg", matrix_free="float32"
        )
        outputs, tested = limit.outputs(rounds), limit.predict(problem.x_test, rounds)
        exact = outputs if exact is None else exact
        off = np.linalg.norm(outputs - exact, axis=(1, 2)) / np.linalg.norm(problem.y)
        right = (tested.argmax(axis=2) == problem.y_test.argmax(axis=1)).mean(axis=1)
        print(f"{name:>15}  off by {off.round(3)}  accuracy {right.round(3)}")


against_the_limit(
    problem,
    {f"{m} landmarks": nystroem(problem.x, m) for m in (30, 100, 300)}
    | {f"{m} neurons": random_features(problem.x, m) for m in (4, 64, 1024)},
)

# %% [markdown]
# The next table has the same comparison with 10,000 images of 100 clients, tested on 5000 other images:
#
# | kernel | outputs off after round 1 | 10 | 100 | test accuracy after 1 | 10 | 100 | processor time |
# |---|---|---|---|---|---|---|---|
# | exact | | | | .696 | .762 | .834 | 14 s |
# | Nystrom, 30 landmarks | .055 | .180 | .304 | .629 | .692 | .735 | 11 s |
# | 100 | .015 | .071 | .184 | .666 | .723 | .778 | 12 s |
# | 300 | .005 | .028 | .100 | .683 | .747 | .802 | 15 s |
# | 1000 | .002 | .009 | .046 | .693 | .757 | .820 | 25 s |
# | 3000 | .001 | .003 | .020 | .695 | .761 | .830 | 70 s |
# | random features, 16 neurons (12,544 features) | .061 | .137 | .164 | .682 | .755 | .815 | 15 s |
# | 256 neurons (200,704 features) | .014 | .035 | .061 | .693 | .762 | .829 | 16 s |
#
# - The distances are between all training outputs with the approximate and with the exact kernel, divided by $|y|$.
#   They grow with the rounds: few landmarks leave out the directions that are learnt late.
# - Nystrom with 3000 landmarks, .3 of the images, is off by .02 after 100 rounds, and its accuracy by .004 (20 of
#   5000 images). With 100 landmarks the accuracy is .056 too low, so the curve of that kernel is not the curve of the
#   infinitely wide network.
# - Each neuron has 784 random features. With the same number of features, random features give outputs that are
#   farther off than Nystrom's. Yet with 256 neurons, whose outputs are off by .061, the accuracy is nearer to the
#   exact accuracy than with 1000 landmarks, whose outputs are off by .046. The table has one draw of landmarks and
#   one draw of neurons.
# - If the outputs matter, take Nystrom, and state its number of landmarks.
#
# In practice approximations would be used at sizes such as 60,000 images. The next table compares them there with ten
# exact rounds of FedAvg (100 clients, iid, 5 local steps, `eta_local` .0217; `docs/sixty_thousand.py kernels`, 254 s
# of processor for these kernels). The table has the distance divided by $|y|$, and the largest difference among all
# 600,000 outputs:
#
# | kernel | off after round 1 | 10 | largest, 1 | 10 | training accuracy, 1 | 10 | test accuracy, 1 | 10 |
# |---|---|---|---|---|---|---|---|---|
# | exact | | | | | .717 | .806 | .712 | .802 |
# | Nystrom, 100 landmarks | .049 | .128 | .15 | .44 | .684 | .758 | .685 | .758 |
# | 300 | .016 | .064 | .06 | .24 | .702 | .779 | .697 | .777 |
# | 1000 | .005 | .022 | .02 | .09 | .713 | .796 | .707 | .793 |
# | 3000 | .002 | .007 | .004 | .03 | .716 | .802 | .711 | .798 |
#
# With the same number of landmarks the outputs are two to three times as far off as with 10,000 images. The clients
# and steps differ too. So an error at a smaller size does not predict the error at a larger size. After ten rounds
# 3000 landmarks give .994 of the test images the same class as the exact kernel, and the test accuracy is .004 too
# low.
#
# Random features at 60,000 images are compared with FedAvg on clients with two label shards each (`eta_local` .00760;
# one draw of each kernel). `docs/sixty_thousand.py` of the repository computes the rows of the next table from a
# stored run. It computed the rows of the table above in the same way, from a run with `--partition iid --rounds 10`:
#
#     ntkfl limit --data fashion-mnist --n 60000 --test 10000 --clients 100 --partition shards:2 \
#         --method fedavg --tiles float32 --rounds 32 --state run.npz
#     python docs/sixty_thousand.py kernels run.npz shards:2 "4 neurons" "3136 directions" "1000 landmarks"
#
# | kernel | off after round 1 | 10 | 32 | largest, 1 | 10 | 32 | training accuracy, 1 | 10 | 32 | test accuracy, 1 | 10 | 32 | processor time, loaded |
# |---|---|---|---|---|---|---|---|---|---|---|---|
# | exact | | | | | | | .709 | .775 | .814 | .706 | .773 | .811 | |
# | 1 neuron (784 features) | .178 | .417 | .485 | .23 | .83 | 1.13 | .450 | .504 | .524 | .440 | .492 | .513 | 46 s |
# | 4 neurons (3136 features) | .117 | .272 | .301 | .21 | .80 | 1.07 | .648 | .694 | .723 | .644 | .689 | .720 | 142 s |
# | 3136 features of a neuron and a direction each | .013 | .042 | .059 | .02 | .10 | .13 | .709 | .775 | .813 | .707 | .769 | .808 | 160 s |
# | Nystrom, 300 landmarks | .005 | .027 | .054 | .02 | .11 | .21 | .696 | .754 | .787 | .695 | .750 | .784 | 29 s |
# | Nystrom, 1000 landmarks | .001 | .009 | .019 | .01 | .04 | .08 | .704 | .768 | .803 | .703 | .765 | .801 | 62 s |
#
# Nystrom's kernel with 300 landmarks gives outputs nearer to the exact outputs than ten times as many random features
# do. Its test accuracy after ten rounds is .022 too low. Each random feature can also have a neuron $w$ and a
# direction $v$ of its own: the feature is $1[w'x>0]\,v'x$, with $v$ drawn from the distribution of $w$. With such
# features the outputs are farther off than with 300 landmarks, but the accuracy is only .003 too low. Do not take all
# 784 features of each neuron, because then the same number of features comes from few neurons.
#
# - When the times of this table were measured, the kernels were stored in tiles. But a kernel of type
#   `gram.Features`, as `gram.nystroem` and `ntkfl limit --landmarks 3000` give it, needs no tiles: its $m$ features
#   take $8 n m$ bytes, and a product takes $4 n m$ operations for each column. At 60,000 images of 100 clients (iid)
#   30 rounds of FedAvg took 116 s of processor and 3.4 GB with 3000 landmarks, and 43 s with 1000 landmarks. The
#   features of a million images and 3000 landmarks would take 24 GB. The error bounds cover rounding, but not the
#   distance of this kernel from the exact one.
#
# ## Networks of finite width
#
# The study `image-limits` trains networks with ten readouts, and compares every round with the limit of the same
# method. `dirichlet:0.3` splits the images among clients: one client for every hundred images, and at most 100
# clients. Clients take 5 local steps. As above, `eta_local` is half of the step at which a client alone diverges. A
# network is off its limit for two reasons: its kernel at the start is not the kernel of infinite width, and its
# kernel moves during training. To tell the two reasons apart, the study also trains the linearisation of each network
# around its first weights, by the same steps. The kernel of a linearisation does not move. So the distance of the
# linearisation from the limit is due to the first kernel alone. It is called *the first kernel's part* below. The
# distance of the network from its linearisation is due to the movement of the kernel, and is called *the moving
# kernel's part*. All distances are between outputs on all training images, divided by $|y|$:
#
# ![Distances from the limit and from the linearisation, and test accuracy, over the rounds](../image_limits.svg)
#
# The table has means over the networks after rounds 1, 10 and 32, or after the last round where networks were trained
# for fewer rounds:
#
# | images | method | width | networks | rounds | off the limit | linearisation off the limit | network off its linearisation |
# |---|---|---|---|---|---|---|---|
# | 2,000 | FedAvg | 256 | 2 | 320 | .062, .112, .126 | .063, .117, .132 | .011, .045, .063 |
# | 2,000 | FedAvg | 1024 | 2 | 32 | .032, .059, .075 | .032, .061, .078 | .004, .018, .032 |
# | 2,000 | FedAvg | 4096 | 1 | 32 | .015, .029, .039 | .015, .030, .041 | .002, .007, .013 |
# | 2,000 | FedAvg | 16384 | 1 | 5 | .008, .013 | .008, .013 | .001, .002 |
# | 2,000 | momentum .9 | 256 | 2 | 320 | .062, .239, .211 | .063, .246, .217 | .011, .116, .115 |
# | 2,000 | momentum .9 | 1024 | 2 | 32 | .032, .136, .148 | .032, .140, .157 | .004, .056, .097 |
# | 2,000 | momentum .9 | 4096 | 1 | 32 | .015, .069, .089 | .015, .071, .096 | .002, .022, .059 |
# | 2,000 | SCAFFOLD | 256 | 2 | 32 | .055, .120, .132 | .056, .125, .139 | .009, .046, .065 |
# | 2,000 | SCAFFOLD | 1024 | 2 | 32 | .029, .064, .076 | .029, .065, .080 | .003, .018, .031 |
# | 10,000 | FedAvg | 1024 | 2 | 32 | .026, .055, .068 | .026, .056, .070 | .003, .014, .024 |
# | 10,000 | FedAvg | 16384 | 1 | 10 | .007, .014 | .007, .014 | .000, .002 |
# | 10,000 | momentum .9 | 1024 | 2 | 32 | .026, .123, .132 | .026, .126, .137 | .003, .042, .067 |
# | 10,000 | SCAFFOLD | 1024 | 2 | 32 | .023, .060, .071 | .023, .060, .073 | .002, .015, .024 |
# | 60,000 | FedAvg | 1024 | 2 | 7 | .025, .051 | .025, .052 | .002, .011 |
# | 60,000 | FedAvg | 4096 | 2 | 3 | .012, .020 | .012, .020 | .001, .002 |
# | 60,000 | FedAvg | 16384 | 1 | 3 | .006, .010 | .006, .010 | .000, .001 |
# | 60,000 | momentum .9 | 1024 | 2 | 5 | .025, .097 | .025, .099 | .002, .028 |
# | 60,000 | momentum .9 | 4096 | 1 | 5 | .012, .048 | .012, .048 | .001, .010 |
# | 60,000 | SCAFFOLD | 1024 | 2 | 5 | .022, .050 | .022, .051 | .002, .009 |
# | 60,000 | SCAFFOLD | 4096 | 1 | 5 | .010, .024 | .010, .024 | .001, .003 |
#
# - The first kernel causes most of the distance. Up to round 32, and with 256 neurons up to round 320, no network of
#   the tables is farther from its linearisation than the linearisation is from the limit.
# - Yet training leaves the kernel regime, little by little. Under FedAvg with 1024 neurons, the moving kernel's part
#   of the distance is an eighth of the first kernel's part after round 1, .30 of it after 10 and .41 after 32. Under
#   momentum, which moves the weights farther, the moving kernel's part is .62 of the first kernel's part after round
#   32. With 256 neurons this ratio levels off. For a network trained for 320 rounds of FedAvg it is .47 at round 32,
#   .55 at round 100 and .58 at the end. With momentum it is .53, .58 and .58.
# - From 256 to 1024 neurons, the distance from the limit falls by the factor .55 at round 1 and by .6 to .7 at round
#   32. By the law $m^{-1/2}$ the factor would be a half. The moving kernel's part falls by the factor .37 at round 1.
#   At round 32 it falls by a half under FedAvg and SCAFFOLD, and only by the factor .84 under momentum.
# - With 256, 1024, 4096 and 16384 neurons the distance from the limit after 5 rounds of FedAvg is .102, .052, .026
#   and .013. It is halved each time, as $m^{-1/2}$ is. The moving kernel's part is .034, .013, .0046 and .0016, each
#   time .36 of the part before. So the moving kernel's share of the distance falls with the width, from .32 to .13.
#   (16384 neurons were trained in float32, for 5 rounds, in 110 s of processor.)
# - Up to round 32 a network is nearer to the limit than its linearisation is, because the movement of the kernel
#   makes up for a part of the first kernel's error.
#
# | images | method | width | test accuracy of the networks | of their linearisations | of the limit |
# |---|---|---|---|---|---|
# | 2,000 | FedAvg | 256 | .658 to .669, .748 to .761, .792 to .797 | .662, .751, .797 | .664, .755, .805 |
# | 2,000 | FedAvg | 1024 | .660 to .674, .757, .801 to .805 | .667, .757, .804 | .664, .755, .805 |
# | 2,000 | FedAvg | 4096 | .669, .755, .801 | .667, .756, .801 | .664, .755, .805 |
# | 2,000 | FedAvg | 16384 | .666, .735 | .667, .735 | .664, .734 |
# | 2,000 | momentum .9 | 256 | .658 to .669, .787 to .797, .821 to .824 | .662, .793, .820 | .664, .799, .836 |
# | 2,000 | momentum .9 | 1024 | .660 to .674, .795 to .800, .830 to .833 | .667, .797, .834 | .664, .799, .836 |
# | 2,000 | momentum .9 | 4096 | .669, .796, .837 | .667, .799, .834 | .664, .799, .836 |
# | 2,000 | SCAFFOLD | 256 | .650 to .661, .752, .788 to .791 | .654, .749, .790 | .667, .755, .806 |
# | 2,000 | SCAFFOLD | 1024 | .659 to .661, .753 to .755, .804 to .806 | .661, .752, .803 | .667, .755, .806 |
# | 10,000 | FedAvg | 1024 | .686 to .694, .760 to .763, .802 to .803 | .690, .762, .804 | .693, .762, .803 |
# | 10,000 | FedAvg | 16384 | .693, .763 | .693, .762 | .693, .762 |
# | 10,000 | momentum .9 | 1024 | .686 to .694, .795 to .800, .848 to .849 | .690, .797, .846 | .693, .799, .852 |
# | 10,000 | SCAFFOLD | 1024 | .683 to .688, .746 to .749, .793 to .794 | .686, .748, .793 | .691, .748, .793 |
# | 60,000 | FedAvg | 1024 | .668 to .685, .735 | .676, .735 | .685, .740 |
# | 60,000 | FedAvg | 4096 | .682 to .684, .708 | .682, .708 | .685, .708 |
# | 60,000 | FedAvg | 16384 | .684, .710 | .684, .709 | .685, .708 |
# | 60,000 | momentum .9 | 1024 | .668 to .685, .746 to .750 | .676, .748 | .685, .749 |
# | 60,000 | momentum .9 | 4096 | .682, .747 | .681, .747 | .685, .749 |
# | 60,000 | SCAFFOLD | 1024 | .669 to .678, .706 to .711 | .674, .708 | .680, .711 |
# | 60,000 | SCAFFOLD | 4096 | .679, .710 | .679, .710 | .680, .711 |
#
# At the rounds of this table, on 2,000 and 10,000 images, the test accuracies of networks with 1024 neurons are
# within .01 of the limit's, and those with 256 neurons within .02. On 60,000 images one of two networks of 1024
# neurons is farther below the limit at first: by .017 after round 1 of FedAvg, and by .016 after round 2 of momentum.
# After round 7 of FedAvg it is .005 below. Two networks of one width are up to .018 apart.
#
# Networks rank the methods as their limits do: if the test accuracies of two limits differ by .01 or more after one
# of these rounds, the networks of each width and seed are in the same order. On 2,000 images this was seen for FedAvg
# and momentum with up to 4096 neurons and for SCAFFOLD with up to 1024; on 10,000 images it was seen for all three
# methods with 1024. On 10,000 images two seeds of each method give 40 such pairs in nine rounds, all in the limits'
# order. After 32 rounds the limits of FedAvg, momentum and SCAFFOLD have test accuracies .803, .852 and .793, the
# networks .802 to .803, .848 to .849 and .793 to .794. On 60,000 images two networks of 1024 neurons under each
# method were trained for five rounds. They give ten such pairs, all in the limits' order. After round 5 the limits
# have .725, .749 and .711, and the networks .721 and .729, .746 and .750, .706 and .711. One network of 4096 neurons
# under each method (under FedAvg for three rounds) gives three more such pairs, all in the limits' order.
#
# With more images a network of a given width is not farther from its limit. With 1024 neurons the distance after 7
# rounds of FedAvg is .056, .052 and .051 for 2,000, 10,000 and 60,000 images, on 20, 100 and 100 clients. On 10,000
# images, sixteen times as many neurons divide the distance after 10 rounds by 4.0, as $m^{-1/2}$ does, and the moving
# kernel's part by 7.9. Test accuracies are then within .002 of the limit's. In float32, the network of 1024 neurons
# on all 60,000 images took 694 s of processor for 7 rounds. Half of this time was spent on the tiles of the limit.
# The network of 16384 neurons on 10,000 images took 430 s for 10 rounds.
#
# With all 60,000 images, wider networks were trained for three rounds, since a round of 16384 neurons and of their
# linearisation takes some 350 s of processor. After round 3 the distance from the limit is .0424, .0196 and .0101
# with 1024, 4096 and 16384 neurons. It is about halved each time, as $m^{-1/2}$ is. The moving kernel's part is
# .0066, .0024 and .0008. It falls nearly like $m^{-3/4}$. The test accuracies of the networks are .703, .708 and
# .710, and the test accuracy of the limit is .708. These networks have one seed. With another seed, networks of 1024
# and 4096 neurons are .0402 and .0205 off after round 3, and the moving kernel's part is .0066 and .0023.
#
# Under momentum, networks of 1024 neurons on all images are .099 and .095 off the limit after round 5, twice as far
# as under FedAvg (.048 and .047). These networks are three times as far off their linearisation as under FedAvg, .028
# and .027 against .009. Under SCAFFOLD the networks are .051 and .049 off. With 4096 neurons the distance is half as
# large, .048 under momentum and .024 under SCAFFOLD. The moving kernel's part falls faster, from .028 to .010 and
# from .009 to .003.
#
# The following processor times are for a network together with its limit. With 1024 neurons they are 205 s for
# FedAvg's second network, 210 and 211 s under SCAFFOLD, and 338 and 282 s under momentum, where the 338 s include
# most of the time for the tiles. With 4096 neurons they are 300 s for FedAvg's second network, 436 s under momentum,
# with the tiles, and 457 s under SCAFFOLD. The memory was 9.6 to 10.0 GB with the pages of the tiles' file.
#
# There are two controls. The first compares two networks of the same width with different first weights. Their outputs
# $y_a$ and $y_b$ differ from the limit $y_\infty$ by $y_a - y_\infty$ and $y_b - y_\infty$. The inner product of these
# two differences, divided by the mean of the networks' squared distances from $y_\infty$, is called the share of the
# squared distance that both networks have. This share is 0 on average if the differences are pure chance:
#
# | images | method | width | two networks apart | share of the squared distance that both have |
# |---|---|---|---|---|
# | 2,000 | FedAvg | 256 | .093, .155, .172 | -.10, .04, .07 |
# | 2,000 | momentum .9 | 256 | .093, .336, .240 | -.10, .02, .36 |
#
# The share of -.10 shows how large such a share can be by chance. FedAvg's shares are no larger. Under momentum,
# networks of 256 neurons have a third of the squared distance in common at round 32. In the second control the steps
# are a hundredth as long. The distances in the next table are divided by the movement of the limit:
#
# | images | method | width | step | round | moved | off the limit | linearisation off the limit | network off its linearisation |
# |---|---|---|---|---|---|---|---|---|
# | 2,000 | FedAvg | 256 | 1 | 1 | .319 | .195 | .198 | .036 |
# | 2,000 | FedAvg | 256 | 1 | 32 | .766 | .165 | .173 | .083 |
# | 2,000 | FedAvg | 256 | 0.01 | 1 | .007 | .323 | .324 | .006 |
# | 2,000 | FedAvg | 256 | 0.01 | 32 | .185 | .273 | .274 | .027 |
#
# A round of such short steps moves the limit by .007, and the network is off by a third of this movement. This third
# is the error of the first kernel. The moving kernel's part is .006 of the movement. This part depends on how far
# training has gone: it is .027 of the movement after 32 rounds of short steps, and .036 after one round of long
# steps.
#
# `docs/image_limits.py` of the repository measures rows of these tables and keeps them:
#
#     python docs/image_limits.py --measure "fedavg 10000 1 4096 0" "fedavg 2000 1 1024 0,1"
#
# ## What is not known
#
# In the long run the smallest eigenvalue of $HP$ decides the rate, where the block-diagonal matrix $P$ is the
# response of the clients to their residuals. At these sizes this eigenvalue is lost in rounding. Then `rate` is NaN,
# and `rate_estimate` is an interval that ends at 1:

# %% tags=["noise:0.5"]
regime = ntkfl.kernel_regime(
    problem, ntkfl.Setup(eta_local=0.05, local_steps=5), method="fedavg", matrix_free="float32"
)
smallest, largest = regime.outermost
print("rate:", regime.rate)
print("largest eigenvalue of a round:", largest)
print("server rates below", round(regime.step_limits.eta_global, 2), "let nothing grow")

# %% [markdown]
# Still, quadrature with 60 products gives lower and upper bounds of the residual after very many rounds, and of the
# number of rounds to a given residual. No round is run ({doc}`../proofs/linear_methods`, *What is left by
# quadrature*). The residual is measured by $(r' P r)^{1/2}$, which no round increases. The bounds count the rounding
# of the tiles once for every round, so that float64 tiles give narrower intervals than float32 tiles:

# %%
exact = ntkfl.kernel_regime(problem, regime.setup, method="fedavg", matrix_free="float64")
for tiled in (exact, regime):
    left = tiled.left_estimate([100, 1000])
    between = [f"{low:.3f} to {high:.3f}" for low, high in zip(left.lo, left.hi, strict=True)]
    print(f"{tiled.tiles.dtype} tiles: after 100 rounds {between[0]}, after 1000 {between[1]} is left")
print("rounds to a tenth of |r|, at least and at most:", exact.rounds_between(0.1))

# %% [markdown]
# The regime also has the methods `outputs`, `residual`, `predict` (which never stores the whole kernel between new
# points and samples), `movement`, `step_limits` and `rounds_to`. The results of `residual_estimate`,
# `predict_estimate` and `movement_estimate` have proved error bounds. `matrix_free="auto"` decomposes $H$ if that
# fits the memory.
