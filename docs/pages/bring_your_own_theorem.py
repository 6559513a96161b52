# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Bring your own theorem
#
# You have a bound of your own, or one from a paper that is not in the catalogue. One Python file is enough to have it
# checked like all others: on real images and synthetic data, in rigorous arithmetic, with a search for
# counterexamples. Nothing needs to be registered, and no file of this project is touched.
#
# The claim of this page is small. Let $H(0)$ be the Gram matrix of the two-layer ReLU network at initialisation,
#
# $$H(0)_{ij} = x_i^\top x_j \, \frac{1}{m} \sum_{r=1}^m [w_r^\top x_i \ge 0] \, [w_r^\top x_j \ge 0].$$
#
# Its largest eigenvalue limits the step size, so a bound that needs no eigenvalues would be handy:
#
# > **Claim.** If the rows have norm 1, then $\lambda_{\max}(H(0)) \le n/2$.
# >
# > *Argument.* An eigenvalue is at most the trace. A Gaussian neuron is active on half of the samples, so each diagonal
# > entry of $H(0)$ is $1/2$, and the trace is $n/2$.
#
# ## The smallest file
#
# A statement is an object with four parts: the right side (a sympy formula), how the left side is measured on a case
# (a network with its data), what a case must satisfy, and on which families of cases to try it.

# %%
# %%writefile my_theorem.py
"""How large an eigenvalue of H(0) can be, from the number of samples alone."""

from bounds import Claim, Hypothesis, Kind, Outcome, Source, Statement
from bounds.initial_network import initial_network_families
from bounds.symbols import n
from ntkfl import gram

UNIT_ROWS = Hypothesis("unit-rows", "|x_i| = 1 to 1e-12", lambda case: 1e-12 - case.problem.unit_deviation)

STATEMENTS = (
    Statement(
        id="mine/largest-eigenvalue",
        title="Largest eigenvalue of H(0)",
        kind=Kind.UPPER,
        source=Source("my notes", "page 3"),
        hypotheses=(UNIT_ROWS,),
        stated=Claim(n / 2, recorded=Outcome.OPEN),
        constants=lambda case: {n: case.problem.n},
        measure=lambda case: gram.largest_eigenvalue(case.initial_gram),
        says_left="lambda_max(H(0)), certified",
        families=initial_network_families,
    ),
)

# %% [markdown]
# - `id` is `paper/label`, with any name of a paper that is not taken. `kind` decides the comparison: upper, lower,
#   equality, two-sided, probability, rate and so on.
# - A **hypothesis** is a margin: a case meets it when the number is at least 0. (A function that returns `True` or
#   `False` is refused, since `False` counts as 0.)
# - `stated` is a `Claim`, the formula **as stated**; later there may be a `proved` and a `repaired` one. `recorded` is
#   the outcome that you expect: that it holds, unless you say otherwise. `OPEN` means: not settled. If an open form is
#   violated, the exit status of `verify` is 3.
# - `constants` gives the formula's symbols their values on a case. `measure` gives the left side as an `Estimate`, a
#   value with an error. The two must share nothing but the case; otherwise the comparison tests itself.
# - `families` names **families of cases**. `initial_network_families` are networks at initialisation on the built-in digits
#   and on random points of a sphere, or on your data. For statements about training use `federated_families` of
#   `bounds.federated_run`, whose cases are runs of FedAvg.
#
# ## Is it true on real data?

# %%
# !ntkfl verify my_theorem.py --trials 30

# %% [markdown]
# It holds in 60 of 60 trials, with a factor of three to spare. Many papers would print a figure of this and go on.
# But sampling proves nothing: the trials are networks of 4096 neurons on generic points, where averages are close to
# their means. So if a form of your own held in its cases, `verify` then searches for a counterexample, for about ten
# seconds of processor time. Here it finds one, and the claim is *violated, broken by search*. The exit status is 3,
# since the form is recorded open. `--no-attack` leaves the search out.
#
# ## Attack it
#
# `verify` writes no file of what it finds. `ntkfl attack` does, and it may search for longer, by default for a
# minute. It draws small cases of wide ranges (few points, nearly equal points, one neuron), climbs towards a violation,
# stops at the first violation, and shrinks that case.

# %% tags=["timing"]
# !ntkfl attack my_theorem.py

# %% [markdown]
# One sample and one neuron that is active on it: $H(0) = 1 > 1/2$. Now the gap in the argument is plain: a neuron is
# active on half of the samples **in the mean**; the neurons that were drawn may be active on all. The exit status is
# 1, since this form was not recorded as violated. The counterexample is confirmed in ball arithmetic (an enclosure of
# each side, not a rounded number), and the file replays it:

# %%
# !ntkfl attack my_theorem.py --replay counterexample_mine_largest_eigenvalue_stated.json

# %% [markdown]
# ## Repair it
#
# A share of active neurons is at most 1, so the trace is at most $n$: $\lambda_{\max}(H(0)) \le n$ is true. The full
# file keeps the false form, says what is wrong with it, and makes the checker earn its verdict:
#
# - `witness`: for a form recorded as violated, the case that shows it.
# - `necessity`: a case that breaks the claim when one hypothesis is dropped. Here: a row of norm 2.
# - `mutants`: formulas made wrong on purpose. The checker must call them violated, on the same cases.
# - `CLUSTERS`: a family of cases made for this statement. On generic data $n$ is a loose bound, and a wrong formula
#   such as $\sqrt n$ would pass. Points close together bring the left side near $n/2$. A `Family` has a name, the case
#   of a seed, a strategy of the library Hypothesis for `attack`, and a number of seeds.

# %%
# %%writefile my_theorem.py
"""How large an eigenvalue of H(0) can be, from the number of samples alone."""

import numpy as np
import sympy as sp

from bounds import Claim, Family, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.initial_network import InitialNetwork, initial_network_families, initial_networks
from bounds.mutants import power, scaled
from bounds.symbols import n
from ntkfl import Problem, Weights, gram, initialisation

UNIT_ROWS = Hypothesis("unit-rows", "|x_i| = 1 to 1e-12", lambda case: 1e-12 - case.problem.unit_deviation)


def cluster(seed):
    """Twenty unit rows close together: 64 neurons see nearly one point, and one eigenvalue takes nearly the trace."""
    rng = np.random.default_rng(seed)
    x = np.eye(8)[0] + 0.02 * rng.standard_normal((20, 8))
    problem = Problem(x, np.ones(20), name="cluster").unit()
    return InitialNetwork(problem, initialisation.draw(64, 8, seed), sigma=1.0, radius=0.1)


CLUSTERS = Family("a cluster of points", cluster, initial_networks(), trials=30)


def one_neuron(length):
    """One sample of this length, and one neuron that is active on it: H(0) = length^2."""
    problem = Problem(np.array([[length]]), np.ones(1))
    return InitialNetwork(problem, Weights(np.ones((1, 1)), np.ones(1)), sigma=1.0, radius=0.1)


STATEMENTS = (
    Statement(
        id="mine/largest-eigenvalue",
        title="Largest eigenvalue of H(0)",
        kind=Kind.UPPER,
        source=Source("my notes", "page 3"),
        note="the trace is n/2 in the mean; of the neurons drawn it is at most n",
        hypotheses=(UNIT_ROWS,),
        stated=Claim(
            n / 2,
            recorded=Outcome.VIOLATED,
            nature=Nature.PROOF_GAP,
            witness=lambda: one_neuron(1.0),
            consequence="a step chosen from it may be unstable",
        ),
        repaired=Claim(n),
        necessity={"unit-rows": lambda: one_neuron(2.0)},
        constants=lambda case: {n: case.problem.n},
        measure=lambda case: gram.largest_eigenvalue(case.initial_gram),
        says_left="lambda_max(H(0)), certified",
        families=lambda options: (*initial_network_families(options), CLUSTERS.with_trials(options.trials)),
        mutants=(scaled(sp.Rational(1, 3)), power(n, sp.Rational(1, 2))),
    ),
)

# %%
# !ntkfl verify my_theorem.py --trials 30

# %% [markdown]
# Read the second verdict from the top:
#
# - 90 cases, none rejected, none violated. The largest left/right, about .6, is on a cluster: there the left side is
#   more than half of the bound.
# - Both mutants are killed. Without `CLUSTERS` both would survive, and the verdict would say *weakly tested*.
# - `needed?`: dropping the hypothesis breaks the claim, and the stored case shows it.
# - `search`: the search after the cases found no counterexample.
# - `replay` is the command that gives this verdict again. The line above it names the file by its checksum, so that
#   an old verdict is not mistaken for one of the file as it is now.
#
# The first verdict shows the stated form violated in two ways: by the stored case, and by a good part of the
# clusters. Its outcome is the recorded one, so the exit status is 0. If an outcome differs from the recorded one, the
# status is 1; so this command can run in your continuous integration.
#
# `show` gives the page that a reader of your paper would want:

# %%
# !ntkfl show my_theorem.py

# %% [markdown]
# ## From Python
#
# The file is an ordinary module; `bounds.load` returns its statements, which work like those of the catalogue.
# The function `verify` only runs the cases; `verification.search.attack_held(verdicts)` is the search after them.

# %%
import bounds
from bounds.symbols import n
from verification import verify

(statement,) = bounds.load("my_theorem.py")
for verdict in verify(statement, options=bounds.Options(trials=20, n=10, width=512)):
    print(verdict.form, verdict.outcome, verdict.tightness)
print("for 50 samples:", *statement.evaluate({n: 50}))

# %% [markdown]
# ## Limits
#
# - A verdict *holds* means: no violation on the cases that were drawn, with the error of both sides taken into
#   account, and no counterexample in a short search. It is no proof. The false claim above held in 60 trials, too.
# - The file is code, and it is run. Do not run a file that you have not read. If one of its functions fails, its check
#   ends as *unresolved*, with the error and the line.
# - The left side is only as good as its error. Return what a function of this project gives (`Estimate`), or say how
#   an error of your own was obtained. A right answer with an error that is too small makes a false alarm.
#
# Where to go next: [check a theorem on your own data](check_a_theorem.ipynb), or copy a statement of a kind like
# yours. `ntkfl list` names them all; their files lie in `bounds/`, one for each topic.
# `bounds/fl_ntk/initial_kernel.py` has statements that may fail with a small probability,
# `bounds/fl_ntk/lazy_neurons.py` one about every round of a training run.
