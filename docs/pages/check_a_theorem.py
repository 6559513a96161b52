# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Check a theorem on your own data
#
# Does a bound hold on *my* samples, split among *my* clients, with *my* step size? And how tight is it there? To
# answer this you need a file with the data, and one command.
#
# ## The file
#
# The file is a `.csv` whose first line names its columns. The column `y` is the label. The column `owner` is the client
# of each row, and it may be left out. Every other column is a feature. The file may also be a `.npz` with the arrays
# `x`, `y` and, if you like, `owner`. The network has one output, so a label is one number.
#
# The example has 24 images of the digits 3 and 8 from scikit-learn, held by three clients:

# %%
import csv

import numpy as np
from sklearn.datasets import load_digits

images, classes = load_digits(return_X_y=True)
chosen = np.flatnonzero(np.isin(classes, (3, 8)))[:24]
with open("mine.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow([*(f"pixel{i}" for i in range(64)), "y", "owner"])
    for i in chosen:
        rows.writerow([*images[i], 1 if classes[i] == 8 else -1, i % 3])

# %% [markdown]
# `owner` holds names of clients, or whole numbers from 0 on. Every client must have at least one row. Without this
# column the rows are dealt out at random to four clients. Options such as `--clients 6 --partition dirichlet:0.3`
# deal them in another way.
#
# ## A first look
#
# Which of the statements say something about these data? `ntkfl check` evaluates each statement about data on one
# network. (A statement may have several forms, such as the formula as it is printed and a repaired formula. The command
# leaves out forms that are known to fail, and statements about certificates and about deep networks.
# Identities are looked at only if too few bounds say much.) The ten statements that say most are tested on five
# networks. Statements are tested with one common step size. If the hypotheses of a statement ask for a smaller step,
# that statement is tested with a step that meets them. One screen shows the ten statements, first those whose bounds
# are closest to the measured values:

# %% tags=["timing"]
# !ntkfl check mine.csv --unit

# %% [markdown]
# - **outcome**: the result, and on how many of five networks the statement was tested.
# - **left/right**: the largest ratio of the left side to the bound. A ratio near 1 means that the bound says much.
# - **step**: the step with which the statement was tested, if it needs a smaller step than the others.
#
# `ntkfl applies --data mine.csv --unit` lists the statements about data, each with the hypotheses that are not met.
# `ntkfl verify fl-ntk --data mine.csv --unit` checks a whole paper in the same way. Before it runs, it names the
# statements that cannot be tested.
#
# ## The command
#
# Lemma B.12 of FL-NTK bounds how far any neuron moves during training. The catalogue has three forms of this lemma: as
# stated, as proved, and *repaired* (changed so that it holds). The next command checks the repaired form. The lemma
# asks for small steps, so the command sets a small `--eta-local`.

# %%
# !ntkfl verify fl-ntk/B.12 --form repaired --data mine.csv --eta-local 0.02 --width 1024 --rounds 50 --trials 5

# %% [markdown]
# Nothing was tested, and the first line of the verdict says why: the lemma is about rows of norm 1, but the pixels of
# `mine.csv` go up to 16. The last line says what to do. The exit status is 1, because nothing was tested at all.
#
# `--unit` divides every row by its norm. Nothing is rescaled unless you ask for it. `--eta-local auto` takes the
# largest step that the hypotheses allow, and says which hypothesis limits the step.

# %%
# !ntkfl verify fl-ntk/B.12 --form repaired --data mine.csv --unit --eta-local auto --width 1024 --rounds 50 --trials 5

# %% [markdown]
# - **cases**: the data are the same in every trial, and each seed draws a new network. Five networks were trained for
#   50 rounds of two local steps on three clients. `--local-steps`, `--eta-global` and `--sigma` (the size of the
#   initial weights) change these runs.
# - **margins**: how far the admitted cases were from breaking a hypothesis.
# - **tightness**: no neuron moved farther than 0.0006 of what the lemma allows. The bound is true here, but loose,
#   because it is proportional to 1/λ, and with 24 images of two digits the smallest eigenvalue λ is small.
# - **mutants**: the command also tries wrong versions of the lemma's formula, called mutants. None of them was called
#   violated, since the bound is so loose on these data that the wrong versions hold as well. So this verdict says only
#   that the lemma holds on your data. The built-in cases show that the checker can tell the lemma from wrong formulas
#   (`ntkfl verify fl-ntk/B.12`).
# - **needed?**: for each hypothesis, whether a case is known that breaks the claim when this hypothesis is dropped.
#
# ## Several statements, and files
#
# With more than one statement, `verify` prints a table that begins with the worst outcomes. `--json` saves
# everything.

# %%
# !ntkfl verify fl-ntk/Eq5 fl-ntk/C.6 --data mine.csv --unit --width 1024 --rounds 20 --trials 20 --json verdicts.json

# %% [markdown]
# Eq5 asks for steps smaller than the default of 0.3, so all 20 runs were rejected and Eq5 was not tested. The last
# line names a step that meets the hypotheses. With `--strict` an untested form makes the exit status 1. If a form
# holds on your data, but a stored case of the catalogue violates it, it has the remark *fails elsewhere*. C.6 may
# fail with a small probability. In 20 trials it never failed. Twenty trials without a failure exclude failure
# probabilities above 16.9% but no smaller probabilities, so the outcome is *not refuted*.
#
# Exit status, with `--data`:
#
# | status | meaning |
# |---:|---|
# | 0 | no form that is recorded to hold was violated, and something was tested |
# | 1 | a form that is recorded to hold was violated (a finding, or an error of this program), or nothing could be tested |
# | 2 | bad input, in one line |
# | 3 | a form of your own statement was violated, and the statement records this form as open (not settled) |
# | 130, 143 | stopped by Ctrl-C, by SIGTERM; what was counted until then is reported |
#
# Some statements are not about data, for example Bernstein's inequality. Such a statement is checked on its own
# cases, and a note says that your data were not used.
#
# Errors in a file or an option are reported before any work is done:

# %%
# !ntkfl verify fl-ntk/C.6 --data mine.csv --partition dirichlet:zero

# %% [markdown]
# ## A report to pass on
#
# The next command writes a folder of web pages that load nothing from elsewhere. Open `report/index.html`.

# %%
# !ntkfl report --verdicts verdicts.json --out report

# %% [markdown]
# With `--markdown FILE`, `verify` writes one file instead of a folder. `ntkfl report --compare old.json new.json`
# says what changed between two saved sets of verdicts.
#
# ## The same from Python
#
# `Options` has the options of the command line. An option that is left out keeps the statement's default.

# %%
import bounds
from verification import verify

options = bounds.Options(data="mine.csv", unit=True, width=1024, trials=20)
(verdict,) = verify(bounds.get("fl-ntk/C.6"), options, bounds.Form.NEW)
print(verdict.outcome, verdict.tightness, verdict.as_recorded)
print(f"left {verdict.lhs.value:.3f}, right {verdict.rhs.value:.3f}")

# %% [markdown]
# `print(verdict)` prints the full page, and `verdict.to_json()` returns what `--json` saves. The cases of a verdict
# can be drawn. The picture shows the left side of each case against the bound, both with their errors, and how often
# the bound failed.

# %%
from IPython.display import SVG

from experiments import as_bytes, drawn

lemma = bounds.get("fl-ntk/C.6")
SVG(as_bytes(drawn(lemma, {verdict.form: verdict.seen}), "svg", "mine"))

# %% [markdown]
# The bound is the same in every case, since it depends on your data only. What varies is the network. All points are
# on the side of the line where the lemma holds.
#
# The formula can also be evaluated on your own numbers, without data, and solved for one of its symbols. At which width
# does C.6 begin to say that $H(0)$ is within 0.01 of its limit?

# %%
from bounds.symbols import delta, m, n

numbers = {n: 24, delta: 0.1}
print("at width 4096:", *lemma.evaluate(numbers | {m: 4096}, bounds.Form.STATED))
print("width for 0.01:", [f"{width:.3g}" for width in lemma.solve_for(m, 0.01, numbers, bounds.Form.STATED)])

# %% [markdown]
# ## Limits
#
# - A verdict on your data is a verdict on those samples with the networks that were drawn. `--seed 100` draws other
#   networks.
# - Left sides that are measured in training runs have a measured error (the difference between two orders of
#   summation), not a proven error. See [Verdicts](../verdicts.md).
# - The theorems are about full participation, full-batch local steps and the squared loss. `ntkfl train` does other
#   kinds of training, but gives no verdicts.
#
# Where to go next: [bring your own theorem](bring_your_own_theorem.ipynb), or ask [whether your network will
# converge](will_it_converge.ipynb).
