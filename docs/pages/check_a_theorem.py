# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Check a theorem on your own data
#
# Does a bound hold on *my* samples, split among *my* clients, with *my* step size? And how tight is it there? You
# need a file with the data, and one command.
#
# ## The file
#
# The file is a `.csv` whose first line names its columns: `y` is the label, `owner` (if you have it) the client of each
# row, and every other column is a feature. Or it is a `.npz` with arrays `x`, `y` and, if you have it, `owner`. The
# network has one output, so a label is one number.
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
# `owner` holds names of clients, or whole numbers from 0 on, every client having at least one row. Without the column,
# the rows are dealt out at random to four clients; `--clients 6 --partition dirichlet:0.3` deals them otherwise.
#
# ## A first look
#
# Which of the statements say something here? `ntkfl check` looks at every statement about data, each with a smaller
# step if its hypotheses ask for one, and shows on one screen the statements that say most:

# %% tags=["timing"]
# !ntkfl check mine.csv --unit

# %% [markdown]
# - **outcome**: on how many of five networks the statement was tested, and what came out.
# - **left/right**: how much of the bound the left side takes, at most; near 1 the bound says much.
# - **step**: the statement's own step, if it asks for a smaller one than the others.
#
# `ntkfl applies --data mine.csv --unit` lists all statements, each with the hypotheses that it misses. `ntkfl verify
# fl-ntk --data mine.csv --unit` checks a whole paper in the same way: it names what cannot be tested before it runs the
# rest.
#
# ## The command
#
# Lemma B.12 of FL-NTK bounds how far any neuron moves during training. It asks for small steps, so we take small
# ones.

# %%
# !ntkfl verify fl-ntk/B.12 --form repaired --data mine.csv --eta-local 0.02 --width 1024 --rounds 50 --trials 5

# %% [markdown]
# Nothing was tested, and the first line says so and why: the lemma is about rows of norm 1, and the pixels of
# `mine.csv` go up to 16. The last line says what to do, and the exit status is 1: nothing was tested at all.
#
# `--unit` divides every row by its norm. Nothing is rescaled unless you ask for it. `--eta-local auto` takes the
# largest step that the hypotheses allow, and says which one limits it.

# %%
# !ntkfl verify fl-ntk/B.12 --form repaired --data mine.csv --unit --eta-local auto --width 1024 --rounds 50 --trials 5

# %% [markdown]
# - **cases**: the data are the same in every trial; the seed draws a new network. Five networks were trained for 50
#   rounds of two local steps on three clients. `--local-steps`, `--eta-global` and `--sigma` change the other numbers.
# - **margins**: how far the admitted cases were from breaking a hypothesis.
# - **tightness**: no neuron moved farther than 0.0006 of what the lemma allows. The bound is true and loose here:
#   with 24 images of two digits the smallest eigenvalue λ is small, and the bound has 1/λ.
# - **mutants**: none killed. The bound is so loose on these data that wrong formulas hold as well. The verdict is
#   about the lemma on your data. The built-in cases show that the checker can tell the lemma from wrong formulas
#   (`ntkfl verify fl-ntk/B.12`).
# - **needed?**: whether a case is known that breaks the claim without this hypothesis.
#
# ## Several statements, and files
#
# With more than one statement there is a table, worst first. `--json` saves everything.

# %%
# !ntkfl verify fl-ntk/Eq5 fl-ntk/C.6 --data mine.csv --unit --width 1024 --rounds 20 --trials 20 --json verdicts.json

# %% [markdown]
# Eq5 asks for steps smaller than the default of 0.3, so all 20 runs were rejected and it was not tested; the last
# line names a step that passes. With `--strict` an untested form makes the exit status 1. A form that holds on your
# data, but that a stored case of the catalogue breaks, has the remark *fails elsewhere*. C.6 may fail with a small
# probability. In 20 trials it never failed, which excludes failure probabilities above 16.9% but no smaller ones: *not
# refuted*.
#
# Exit status, with `--data`:
#
# | status | meaning |
# |---:|---|
# | 0 | no form that is recorded to hold was violated, and something was tested |
# | 1 | such a form was violated (a finding, or an error of this program), or nothing could be tested |
# | 2 | bad input, in one line |
# | 3 | a form of yours that is recorded open was violated |
# | 130, 143 | stopped by Ctrl-C, by SIGTERM; what was counted until then is reported |
#
# A statement may not be about data at all (Bernstein's inequality is not). Then it is checked on its own cases, and a
# note says that yours were not used.
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
# `--markdown FILE` of `verify` writes one file instead. `ntkfl report --compare old.json new.json` says what changed.
#
# ## The same from Python
#
# `Options` has the options of the command line; what is left out keeps the statement's default.

# %%
import bounds
from verification import verify

options = bounds.Options(data="mine.csv", unit=True, width=1024, trials=20)
(verdict,) = verify(bounds.get("fl-ntk/C.6"), options, bounds.Form.NEW)
print(verdict.outcome, verdict.tightness, verdict.as_recorded)
print(f"left {verdict.lhs.value:.3f}, right {verdict.rhs.value:.3f}")

# %% [markdown]
# `print(verdict)` gives the full page, and `verdict.to_json()` what `--json` saves. The cases of a verdict can be
# drawn: left side against bound, each with its error, and how often the bound failed.

# %%
from IPython.display import SVG

from experiments import as_bytes, drawn

lemma = bounds.get("fl-ntk/C.6")
SVG(as_bytes(drawn(lemma, {verdict.form: verdict.seen}), "svg", "mine"))

# %% [markdown]
# The bound is the same in every case, since it depends on your data only; what varies is the network. All points are
# on the side of the line that agrees with the lemma.
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
# - A verdict on your data is a verdict on those samples with the networks that were drawn. Other seeds: `--seed 100`.
# - Left sides of training runs carry a measured error (two orders of summation), not a proven one. See
#   [Verdicts](../verdicts.md).
# - The theorems are about full participation, full-batch local steps and the squared loss. For other training there
#   is `ntkfl train`, which has no verdicts.
#
# Where to go next: [bring your own theorem](bring_your_own_theorem.ipynb), or ask [whether your network will
# converge](will_it_converge.ipynb).
