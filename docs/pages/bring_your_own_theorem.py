# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Bring your own theorem
#
# You have a bound of your own, or one from a paper that is not in the catalogue. Write it into one Python file, and
# the bound is checked like all others: on real images and synthetic data, in rigorous arithmetic, with a search for
# counterexamples. Nothing needs to be registered, and no file of this project is touched.
#
# The claim of this page is small. Let $H(0)$ be the Gram matrix of the two-layer ReLU network at initialisation,
#
# $$H(0)_{ij} = x_i^\top x_j \, \frac{1}{m} \sum_{r=1}^m [w_r^\top x_i \ge 0] \, [w_r^\top x_j \ge 0].$$
#
# The largest eigenvalue of $H(0)$ limits the step size, so a bound that needs no eigenvalues would be handy:
#
# > **Claim.** If the rows have norm 1, then $\lambda_{\max}(H(0)) \le n/2$.
# >
# > *Argument.* An eigenvalue is at most the trace. A Gaussian neuron is active on half of the samples, so each diagonal
# > entry of $H(0)$ is $1/2$, and the trace is $n/2$.
#
# ## The smallest file
#
# A statement is an object with four parts. The first is the right side, a sympy formula. The second says how the left
# side is measured on a *case*, which is a network with its data. The third says what a case must satisfy. The fourth
# names the families of cases on which the statement is tested.

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
# - `id` is `paper/label`. The name of the paper can be any name that the catalogue does not use. `kind` decides the
#   comparison: upper, lower, equality, two-sided, probability, rate and so on.
# - A **hypothesis** computes a number, its margin. A case meets the hypothesis when the margin is at least 0. (A
#   function that returns `True` or `False` is refused, because Python's `False` equals 0 and would pass.)
# - `stated` is a `Claim`: the formula **as stated**. Later you may add a `proved` and a `repaired` claim. Each of these
#   claims is called a *form* of the statement. `recorded` is the outcome that you expect. If you leave it out, the
#   claim is expected to hold. `OPEN` means that the question is not settled. If an open form is violated, the exit
#   status of `verify` is 3.
# - `constants` gives the formula's symbols their values on a case. `measure` gives the left side as an `Estimate`, a
#   value with an error. The two functions must share nothing but the case. If they shared code, an error in that code
#   could cancel in the comparison.
# - `families` names **families of cases**. `initial_network_families` returns networks at initialisation, on the
#   built-in digits and on random points of a sphere, or on your data. For statements about training, use
#   `federated_families` of `bounds.federated_run`, whose cases are runs of FedAvg.
#
# ## Is it true on real data?

# %%
# !ntkfl verify my_theorem.py --trials 30

# %% [markdown]
# The claim holds in 60 of 60 trials, with a factor of three to spare. Many papers would print a figure of this and go
# on. But sampling proves nothing: the trials are networks of 4096 neurons on generic points, where the share of
# active neurons is close to its expectation on every sample. So if a form of your own holds in all its cases,
# `verify` then searches for a counterexample for about ten seconds of processor time. Here the search finds a
# counterexample, and the claim is *violated, broken by search*. The exit status is 3, because the form is recorded as
# open. `--no-attack` leaves the search out.
#
# ## Attack it
#
# `verify` does not write the counterexample to a file. `ntkfl attack` does, and it searches for longer, by default
# for a minute. It draws small cases from wide ranges (few points, nearly equal points, one neuron), and changes them
# step by step to bring them closer to a violation. It stops at the first violation, and then looks for a simpler case
# that still violates the claim.

# %% tags=["timing"]
# !ntkfl attack my_theorem.py

# %% [markdown]
# The counterexample has one sample and one neuron that is active on it, so that $H(0) = 1 > 1/2$. Now the gap in the
# argument is plain. A neuron is active on half of the samples **in the mean**, but the neurons that were drawn may be
# active on all of them. The exit status is 1, since this form was not recorded as violated. The counterexample is
# confirmed in ball arithmetic, which gives an interval that contains the exact value of each side. The violation can
# be computed again from the file:

# %%
# !ntkfl attack my_theorem.py --replay counterexample_mine_largest_eigenvalue_stated.json

# %% [markdown]
# ## Repair it
#
# A share of active neurons is at most 1, so the trace is at most $n$: $\lambda_{\max}(H(0)) \le n$ is true. The full
# file keeps the false form and says what is wrong with it. Four parts are new. They show how much the verdict is worth:
#
# - `witness`: for a form recorded as violated, a case that violates it.
# - `necessity`: a case that breaks the claim when one hypothesis is dropped. Here the case has a row of norm 2.
# - `mutants`: formulas made wrong on purpose. The checker must call them violated, on the same cases.
# - `CLUSTERS`: a family of cases made for this statement. On generic data $n$ is a loose bound, so that a wrong formula
#   such as $\sqrt n$ would hold too. Points close together bring the left side near $n/2$. A `Family` has a name, a
#   function that makes a case from a seed, a strategy of the library Hypothesis for `attack`, and a number of seeds.

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
# - There are 90 cases. None was rejected, and none violates the form. The largest left/right, about .6, belongs to a
#   cluster: there the left side is more than half of the bound.
# - Both mutants were called violated. Without `CLUSTERS` neither would be, and the verdict would say *weakly tested*.
# - `needed?`: dropping the hypothesis breaks the claim, and the stored case shows it.
# - `search`: the search that follows the cases found no counterexample.
# - `replay` is the command that gives this verdict again. The line above `replay` gives the checksum of the file, so
#   that a verdict on an older version of the file can be recognised.
#
# The first verdict shows the stated form violated in two ways: by the stored case, and by a good part of the
# clusters. The outcome is the recorded outcome, so the exit status is 0. If an outcome differs from the recorded
# outcome, the status is 1. So this command can run in your continuous integration.
#
# `show` gives the page that a reader of your paper would want:

# %%
# !ntkfl show my_theorem.py

# %% [markdown]
# ## From Python
#
# The file is an ordinary module. `bounds.load` returns its statements, which work like the statements of the
# catalogue. The function `verify` only runs the cases. `verification.search.attack_held(verdicts)` then searches for
# counterexamples.

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
# - The verdict *holds* means that no drawn case violates the statement, with the errors of both sides taken into
#   account, and that a short search found no counterexample. The verdict *holds* is no proof. The false claim above
#   held in 60 trials, too.
# - The file is code, and it is run. Do not run a file that you have not read. If one of its functions fails, the
#   check of that statement ends as *unresolved*, and the verdict shows the error and the line.
# - The left side is only as good as its error. Return the `Estimate` that a function of this project gives, or say
#   how an error of your own was obtained. A left side whose error is given too small can make a true statement look
#   violated.
#
# Where to go next: [check a theorem on your own data](check_a_theorem.ipynb), or copy a statement of a kind like yours.
# `ntkfl list` names all statements. Their files lie in `bounds/`, one for each topic. For example,
# `bounds/fl_ntk/initial_kernel.py` has statements that may fail with a small probability, and
# `bounds/fl_ntk/lazy_neurons.py` has a statement about every round of a training run.
