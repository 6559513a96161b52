# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Keep your theorem checked
#
# A bound in a paper changes from draft to draft. Put the bound into a file beside the text, and let your continuous
# integration search for counterexamples at every push, just as continuous integration runs the tests of a program at
# every push. If a counterexample is found, the job fails, and keeps a small file with which the violation can be
# computed again on any machine.
#
# The file here claims that no eigenvalue of the Gram matrix of a two-layer ReLU network exceeds $n/2$.
# [Bring your own theorem](bring_your_own_theorem.ipynb) explains its parts.

# %%
# %%writefile my_lemma.py
from bounds import Claim, Hypothesis, Kind, Source, Statement
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
        stated=Claim(n / 2),
        constants=lambda case: {n: case.problem.n},
        measure=lambda case: gram.largest_eigenvalue(case.initial_gram),
        says_left="lambda_max(H(0)), certified",
        families=initial_network_families,
    ),
)

# %% [markdown]
# ## One line for any CI
#
# `--budget` is the processor time for each form. The exit status is 0 if no counterexample was found, 1 if one was
# found, 2 if the file cannot be read, and 4 if no case met the hypotheses, so that nothing was tested.

# %% tags=["timing"]
# !ntkfl attack my_lemma.py --budget 60s 2>/dev/null; echo "exit status $?"

# %% [markdown]
# The claim is false: one sample and one neuron break it. With this file and the file of the counterexample anyone can
# compute the violation again:

# %%
# !ntkfl attack my_lemma.py --replay counterexample_mine_largest_eigenvalue_stated.json

# %% [markdown]
# The next lines are for GitHub Actions. They keep the replay file if the job fails:
#
# ```yaml
#       - run: ntkfl attack my_lemma.py --budget 60s
#       - if: failure()
#         uses: actions/upload-artifact@v4
#         with: {name: counterexamples, path: "counterexample_*.json"}
# ```
#
# A search that finds nothing proves nothing. With the same `--seed` the same cases are searched at every push. To
# search other cases at each push, give the number of the build: `--seed ${{ github.run_number }}`.
#
# ## Three lines for pytest
#
# No plugin is needed: the test fails if the exit status is not 0, and pytest then shows the counterexample.

# %%
# %%writefile test_my_lemma.py
import subprocess


def test_no_counterexample_is_found():
    subprocess.run(["ntkfl", "attack", "my_lemma.py", "--budget", "60s"], check=True)


# %% tags=["timing"]
# !python -m pytest -q --no-header --tb=no -p no:cacheprovider -rN test_my_lemma.py
