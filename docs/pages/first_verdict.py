# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # A first verdict
#
# This page takes you from an installed `ntkfl` to a verdict that you understand. The page shows one statement that
# holds, and one statement that is false in the form that a machine read in a scan of its paper. It also shows the
# commands that compute both verdicts again. It takes ten minutes, most of them reading. If the command `ntkfl` is not
# installed yet, see [Install](../install.md).
#
# ## What there is to check
#
# A **statement** is a numbered result of a paper: an equation, a lemma, a claim. It comes in up to three **forms**:
# as *stated* in print, as its proof has it (*proved*), and *repaired*, if one of these two fails. A form that is in
# no paper is *new*. The list shows the kind of each claim and, for each form, the outcome recorded in the catalogue.
# Round brackets after a violated form say how it differs from what holds: by a *misprint*, by one way of *reading*
# the text, or in *substance*. Square brackets give the kind of evidence.

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
#   network with its data. A case that does not meet the hypotheses is rejected. The verdict gives the number of
#   rejected cases.
# - **stated**, **new**: the formulas. The *left* side is always the measured quantity, and the *right* side is the
#   bound. The inequality may fail with probability δ.
# - **left is**: how the left side is measured. Here neurons are counted, and the limit has a closed form; nothing is
#   trained.
# - **mutants**: versions of the formula made wrong on purpose, which the checker must call violated. **necessity**:
#   cases that break the claim when a hypothesis is dropped.
#
# ## Check it
#
# `--trials 20` asks for twenty random networks in each family of cases. Without this option more networks are drawn
# (here 200), and the check takes longer.

# %%
# !ntkfl verify fl-ntk/C.6 --form new --trials 20

# %% [markdown]
# The first line is the answer. The other lines say what the answer rests on:
#
# - **cases**: twenty networks on 20 of scikit-learn's digits (8 x 8 pixels, centred, unit rows), and twenty networks
#   on random points of a sphere, which are drawn anew for each seed. All 40 cases met the hypotheses, and in all 40
#   the left side was smaller than the right side.
# - **left**, **right**: the two sides of the case in which they came closest, each with a bound on its error. A case
#   *holds* only if the left side is below the right side even if both errors are counted against the claim. It
#   *touches* if the two sides agree to six digits or more, as they do where a bound is attained. If the errors leave
#   open which side is smaller, the case is *unresolved*, and it never counts as a pass.
# - **tightness**: the largest left/right was 0.45, so the bound is within a factor of about two of the truth. For a
#   bound that is ten orders of magnitude too large this ratio would be about 1e-10.
# - **worst case**: the family and the seed of the case with the largest left/right.
# - **mutants**: both wrong formulas were called violated on these cases. So the check can tell the formula from wrong
#   formulas.
# - **notes**: the formula may fail with probability 0.1. In these 40 trials the formula never failed. For statements
#   that may fail, an exact binomial test decides whether the number of failures is too large.
# - **replay**: the command that gives the same verdict again.
#
# A verdict keeps both sides of its cases, so these cases can be drawn as a picture from Python:

# %%
from IPython.display import SVG

import bounds
from experiments import as_bytes, drawn
from verification import verify

lemma = bounds.get("fl-ntk/C.6")
seen_by_form = {verdict.form: verdict.seen for verdict in verify(lemma, options=bounds.Options(trials=20))}
SVG(as_bytes(drawn(lemma, seen_by_form), "svg", "c6"))

# %% [markdown]
# Each point is a case. The vertical axis is the **left** side, which is measured. The horizontal axis is the
# **right** side, which is the bound. Bars are errors. A point in the shaded part, above the line *left = right*,
# would refute the lemma. **Tightness** says how near the nearest point comes to this line. For the new form the two
# sides of that point differ by a factor of about two. The stated form holds by a larger margin, since its bound is
# larger. `ntkfl show fl-ntk/C.6 --plot c6.png` draws this picture in one command, and the [gallery](../gallery.md)
# has a picture of every statement.
#
# "Holds" means that no violation was found in 40 trials. The 40 trials support the lemma, but are no proof.
#
# ## One that is violated
#
# Lemma A.1 of the same paper is Bernstein's inequality for sums of bounded independent variables.

# %%
# !ntkfl verify fl-ntk/A.1

# %% [markdown]
# Bernstein bounds $\Pr[\sum_i X_i \ge t]$. A machine that read a scan of the paper found $\Pr[\sum_i X_i \le t]$
# instead. Every use of the lemma in the paper is of the right form, as the source line says. So the error is not
# attributed to the authors: the catalogue records that the form differs by its *scan* ([How we read the
# papers](../how_we_read.md)). The formula in the scan is false all the same. Three lines of the verdict show that its
# violation is no numerical accident:
#
# - **witness**: a stored case violates the formula. It has one variable, which is $\pm 1$ with equal chance, and $t =
#   1$. The sum is always at most 1, so the left side is 1. The right side is 0.69. You can check both by hand.
# - **confirmed**: both sides are *balls*, intervals that are proved to contain the exact value, and they are
#   disjoint.
# - **recorded: violated**: the catalogue already has this outcome. The last line counts the verdicts that differ from
#   what is recorded. No verdict differs here, so the exit status is 0. If a verdict differed, the exit status would be
#   1.
#
# ## Find a violation without the stored case
#
# `attack` searches for a violation and never looks at the stored case. It shrinks the case that it finds to a case
# that is as simple as possible and still violates the statement. This case is confirmed and written to a file:

# %% tags=["timing"]
# !ntkfl attack fl-ntk/A.1 --form stated

# %%
# !ntkfl attack --replay counterexample_fl_ntk_a_1_stated.json

# %% [markdown]
# The file holds the case in exact numbers. Anyone who has the file can check the violation again on another machine.
# If the file was changed, the command that checks it says so.
#
# ## Where to go next
#
# - `ntkfl verify` checks every statement in a few minutes. It ends with a table that begins with the worst outcomes.
# - [Check a theorem on your own data](check_a_theorem.ipynb).
# - [Bring your own theorem](bring_your_own_theorem.ipynb).
# - How a verdict is made, and where it may be wrong: [Verdicts](../verdicts.md).
