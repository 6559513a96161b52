# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # All of Fashion-MNIST, infinitely wide
#
# `ntkfl.kernel_regime` decomposes the Gram matrix $H$ of the samples, which takes 68 $n^2$ bytes: 245 GB for the 60,000
# training images of Fashion-MNIST. A round of a linear method needs less: products with $H$ and the blocks of $H$ that
# belong to single clients. `ntkfl limit` keeps $H$ in tiles, the lower triangle alone, and runs the rounds by products.
#
# ## One command
#
# Here with 600 images, so that the page runs in seconds:

# %% tags=["noise:0.5"]
# !ntkfl limit --data fashion-mnist --n 600 --test 300 --clients 20 --partition dirichlet:0.3 --method fedavg --rounds 100 2>/dev/null

# %% [markdown]
# - **|r| / |y|**: what is left of the labels, with a proved bound of what tiles, rounding and the clients' eigenvectors
#   have done to it in all these rounds ({doc}`../proofs/linear_methods`, *Errors of tiles*).
# - **accuracies**: of the infinitely wide network, which has neither a width nor a seed. Where the error bound leaves the
#   class of a sample open, the interval counts it both ways. In round 0 all outputs are 0, and all classes are open.
# - For plain averaging (`fl-ntk`, `fedavg`, `fedprox`, `fednova`) many rounds take few products, because the powers of
#   a round's map are short Chebyshev series of it: 1000 rounds some hundred.
#
# ## Other methods
#
# Methods that remember something run round by round. Their errors are bounded too (*Errors of methods that remember*, on
# the same page of proofs); the bounds are looser, as an error may grow for some rounds before it falls. `--state run.npz`
# keeps such a run: after a kill the same command goes on. The same images, by five methods at the same local step:

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
# Only the local step is the same, not the work: nothing here is tuned. `ntkfl fastest` tunes ({doc}`which_method`); with
# `--tiles auto` it decomposes nothing, and tunes averaging and momentum at the server in the labels' Krylov space. With
# 4000 images, 100 clients, `dirichlet:0.3` and 5 local steps, .479 of the labels is left after 100 rounds of FedAvg at
# server rate 1, .399 with the best server rate, .050 with the best momentum (.93, server rate 5.2). The rounds were run
# for these numbers.
#
# ## Ten thousand images
#
# 10,000 images drawn from all 70,000, 100 clients, `dirichlet:0.3`, 5 local steps, `eta_local` .0294, tested on 10,000
# others; float64 tiles, some 2 GB with the data:
#
# ![Residual and test accuracy over the rounds: FedAvg, momentum at the server, SCAFFOLD](../infinitely_wide.png)
#
# | | test accuracy after round 1 | 10 | 100 | 200 | 1000 | processor time |
# |---|---|---|---|---|---|---|
# | FedAvg | .693 | .763 | .836 | .850 | .868 | 47 s for 1000 rounds |
# | momentum .9 at the server | .693 | .799 | .869 | .876 | | 50 s for 200 rounds |
# | SCAFFOLD | .691 | .748 | .829 | .845 | | 82 s for 200 rounds |
#
# FedAvg's accuracies are proved: they are off by at most .0017 after 1000 rounds, .0001 up to 300. Momentum at the server
# reaches in 100 rounds what FedAvg reaches in 1000.
#
# ## Sixty thousand images
#
# 60,000 images and 10,000 others to test on are all of them. The tiles take 16.4 GB, or 8.9 GB in float32; `ntkfl limit`
# says before the work whether that fits. FedAvg with 100 clients, `dirichlet:0.3`, 5 local steps, `eta_local` .00398:
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
# All five rounds came out of one run of 464 products, which took 2385 s of processor and 9.7 GB. The bound allows for the
# worst of 1.8 billion entries that are rounded to float32: it proves the test accuracy to .0001 up to round 10 and to .011
# at round 100, and says nothing of it from round 1000 on. What float32 really does is far less: at 10,000 images float32
# and float64 tiles give the same accuracies over 10,000 rounds, and residuals within 1.2e-8 of each other.
#
# Momentum .9 at the server, 100 rounds one by one, took 654 s of processor and 9.7 GB: test accuracy .685 after round 1,
# .797 after 10, .876 after 100, where .454 of the labels is left, proved to .005. FedAvg takes 1000 rounds to .876.
#
# `--memmap FILE` keeps the tiles in a file where memory does not hold them. A million images would take 2 TB in float32,
# and the build and every product 280 times the work of 60,000 images. Two cores are too few for that, and ntkfl has no
# approximation for that size.
#
# ## Networks of finite width
#
# The study `image-limits` trains networks with ten readouts on 2000 of the images (20 clients, `dirichlet:0.3`, 2 local
# steps, 4 rounds, 2000 others to test on), and runs the limit of the same method beside them; one network a point:
#
# ![Distance from the limit over the width: outputs and test accuracy, three methods](../image_limits.png)
#
# From width 256 to 4096 the outputs' distance from the limit, over $|y|$, falls from .088 to .023 for FedAvg, from .173 to
# .046 for momentum .9 and from .094 to .026 for SCAFFOLD; $m^{-1/2}$ would be a quarter. Momentum is twice as far off: it
# moves the weights farther. From width 512 on the test accuracy is within .004 of the limit's. In ten pairs of networks
# of one width, trained by two methods, the limits' accuracies differ by .01 or more: the networks stand in the order of
# their limits in all ten. More rounds, more images and larger networks were not run, nor was the exponent judged, which
# takes four seeds (`ntkfl study run image-limits`).
#
# ## What is not known
#
# The smallest eigenvalue of a round decides its rate in the long run, and at these sizes it is lost in rounding. Then
# `rate` is NaN, and `rate_estimate` an interval that ends at 1:

# %% tags=["noise:0.5"]
import ntkfl

regime = ntkfl.kernel_regime(
    problem, ntkfl.Setup(eta_local=0.05, local_steps=5), method="fedavg", matrix_free="float32"
)
smallest, largest = regime.outermost
print("rate:", regime.rate)
print("largest eigenvalue of a round:", largest)
print("server rates below", round(regime.step_limits.eta_global, 2), "let nothing grow")

# %% [markdown]
# How much is left after very many rounds, and how many it takes to a given residual, is enclosed all the same, by
# quadrature with 60 products and no round ({doc}`../proofs/linear_methods`, *What is left by quadrature*). The norm is
# $(r' P r)^{1/2}$, with $P$ the clients' response, in which no round lengthens the residual. What float32 does to the
# tiles is counted once a round, so that float64 says more:

# %%
exact = ntkfl.kernel_regime(problem, regime.setup, method="fedavg", matrix_free="float64")
for tiled in (exact, regime):
    left = tiled.left_estimate([100, 1000])
    between = [f"{low:.3f} to {high:.3f}" for low, high in zip(left.lo, left.hi, strict=True)]
    print(f"{tiled.tiles.dtype} tiles: after 100 rounds {between[0]}, after 1000 {between[1]} is left")
print("rounds to a tenth of |r|, at least and at most:", exact.rounds_between(0.1))

# %% [markdown]
# It answers the other questions of a regime: `outputs`, `residual`, `predict` (the kernel with new points is never there
# as a whole), `movement`, `step_limits`, `rounds_to`. `matrix_free="auto"` decomposes where that fits the memory.
