# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # A first verdict
#
# This page takes you from an installed `ntkfl` to a verdict that you understand: one statement that holds, one that
# is violated as its paper prints it, and the commands that repeat both. It takes ten minutes, most of them reading.
# If the command is not there yet, see [Install](../install.md).
#
# ## What there is to check
#
# A **statement** is a numbered result of a paper: an equation, a lemma, a claim. It comes in up to three **forms**:
# as *stated* in print, as its proof has it (*proved*), and *repaired*, if one of these two fails. A form that is in no
# paper is *new*. The list shows the kind of each claim and, for each form, the outcome recorded in the catalogue.
# Brackets say how a form differs from what holds: a *misprint*, a matter of *reading* the text one way, an error of
# *substance*.

# %%
# !ntkfl list --paper averaging

# %% [markdown]
# (`ntkfl list` shows all papers.)
#
# ## One statement in full
#
# Lemma C.6 of FL-NTK says that the Gram matrix $H(0)$ of a wide network is close to its limit $H^\infty$ at infinite
# width:

# %%
# !ntkfl show fl-ntk/C.6

# %% [markdown]
# - **needs**, **needs also**: the hypotheses of all forms, or of one form. Each is tested on every *case*, which is a
#   network with its data. A case that does not meet the hypotheses is rejected, and counted.
# - **stated**, **new**: the formulas. The *left* side is always the measured quantity, and the *right* side the bound.
#   This bound may fail with probability δ.
# - **left is**: how the left side is measured. Here neurons are counted, and the limit has a closed form; nothing is
#   trained.
# - **mutants**: versions of the formula made wrong on purpose, which the checker must call violated. **necessity**:
#   cases that break the claim when a hypothesis is dropped.
#
# ## Check it
#
# `--trials 20` asks for twenty random networks in each family of cases. Without it there are more (here 200), and it
# takes longer.

# %%
# !ntkfl verify fl-ntk/C.6 --form new --trials 20

# %% [markdown]
# The first line is the answer. The other lines say what it rests on:
#
# - **cases**: twenty networks on 20 of scikit-learn's digits (8 x 8 pixels, centred, unit rows) and twenty on random
#   points of a sphere, drawn anew for each seed. All met the hypotheses, and on all 40 the left side was the smaller
#   one.
# - **left**, **right**: the two sides where they came closest, each with a bound on its error. A case *holds* only if
#   the left side is below the right one with both errors counted against it. It *touches* if the two agree to six
#   digits or more, as an exact bound does. Where the errors do not decide, it is *unresolved*, never a pass.
# - **tightness**: the largest left/right was 0.45, so the bound is within a factor of about two of the truth. A bound
#   that holds by ten orders of magnitude would show it here.
# - **worst case**: the case with that ratio, by family and seed.
# - **mutants**: both wrong formulas were called violated on these cases. So the check is able to fail.
# - **notes**: the formula may fail with probability 0.1. It never did. For such statements an exact binomial test
#   decides.
# - **replay**: the command that gives the same verdict again.
#
# The same in a picture, from Python: a verdict keeps both sides of its cases.

# %%
from IPython.display import SVG

import bounds
from experiments import as_bytes, drawn
from verification import verify

lemma = bounds.get("fl-ntk/C.6")
seen_by_form = {verdict.form: verdict.seen for verdict in verify(lemma, options=bounds.Options(trials=20))}
SVG(as_bytes(drawn(lemma, seen_by_form), "svg", "c6"))

# %% [markdown]
# Each point is a case: its **left** side, measured, upwards, and its **right** side, the bound, to the right. Bars are
# errors. A point in the shaded part, above the line *left = right*, would refute the lemma. **Tightness** is how near
# the nearest point comes to the line: within a factor of two for the new form. The stated form holds by a larger
# margin, since its bound is larger. `ntkfl show fl-ntk/C.6 --plot c6.png` draws this picture in one command, and the
# [gallery](../gallery.md) has a picture of every statement.
#
# "Holds" means that no violation was found in 40 tries. It is support, not a proof.
#
# ## One that is violated
#
# Lemma A.1 of the same paper is Bernstein's inequality for sums of bounded independent variables.

# %%
# !ntkfl verify fl-ntk/A.1

# %% [markdown]
# A machine read a scan of the paper as $\Pr[\sum_i X_i \le t]$ where Bernstein bounds
# $\Pr[\sum_i X_i \ge t]$. Every use of the lemma in the paper is of the right form, as the source line says. So the
# authors are not charged with it: the nature of the difference is *scan* ([How we read the papers](../how_we_read.md)).
# The form that the scan has is false all the same. Three things make its violation more than a number that came out
# too large:
#
# - **witness**: a stored case shows it: one variable, $\pm 1$ with equal chance, $t = 1$. The sum is always at most
#   1, so the left side is 1; the right side is 0.69. You can check that by hand.
# - **confirmed**: both sides are *balls*, intervals that are proved to contain the exact value, and they are
#   disjoint.
# - **recorded: violated**: the catalogue already has this outcome. The last line counts the verdicts that differ from
#   what is recorded. There are none, and the exit status is 0. A verdict that differs makes it 1.
#
# ## Find a violation without the stored case
#
# `attack` searches for a violation and never looks at the stored one. What it finds is shrunk to the simplest case
# that still violates, confirmed, and written to a file:

# %% tags=["timing"]
# !ntkfl attack fl-ntk/A.1 --form stated

# %%
# !ntkfl attack --replay counterexample_fl_ntk_a_1_stated.json

# %% [markdown]
# The file holds the case in exact numbers. Anyone who has it can check the violation again on another machine, and is
# told if the file was changed.
#
# ## Where to go next
#
# - `ntkfl verify` checks every statement, in a few minutes, and ends with a table, worst first.
# - [Check a theorem on your own data](check_a_theorem.ipynb).
# - [Bring your own theorem](bring_your_own_theorem.ipynb).
# - How a verdict is made, and where it may be wrong: [Verdicts](../verdicts.md).
