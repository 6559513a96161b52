# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # How wide is wide enough?
#
# The theory of FL-NTK describes federated training of an infinitely wide network. Your network has $m$ hidden
# neurons. How far is your network from the limit, and how fast does the distance fall with $m$? There are three
# answers: the width that the theorem asks for, the measurements of a study over widths, and the same study on your
# own data.
#
# ## What the theorem asks for
#
# Theorem B.3 promises convergence from some width on. `ntkfl requirements` evaluates this width. The next command
# evaluates the width for 50 real images. With `--data mine.csv` the command takes your data.

# %%
# !ntkfl requirements --data digits --n 50

# %% [markdown]
# Nobody can train such a network. The statement is true, and it says nothing about your network. (For one given
# network there is a [certificate](will_it_converge), which needs some thousands of neurons.) So measure.
#
# ## A study over widths
#
# A study answers one question by a grid of runs, and compares each answer with theory. `ntkfl study list` names all
# studies. With the name of a study, the command shows the question and its source. It also lists an option for each
# axis of the grid, with the axis's default values.

# %%
# !ntkfl study list width-scaling

# %% [markdown]
# Each point of this grid is called a cell. A cell trains one network by FedAvg on six points of the sphere, and
# computes its infinite-width limit from the same initial residual. Before running anything, ask how long the study
# takes:

# %%
# !ntkfl study run width-scaling --out width --dry-run

# %% [markdown]
# You may stop a run at any time, by Ctrl-C or by switching the machine off, because every cell is stored in a file of
# its own. Here a program starts the run with one process, and sends it the signal of Ctrl-C as soon as some cells are
# stored.

# %% tags=["timing"]
import signal
import subprocess
import time
from pathlib import Path

command = ["ntkfl", "study", "run", "width-scaling", "--out", "width"]
run = subprocess.Popen([*command, "--processes", "1"], stderr=subprocess.PIPE, text=True)
while len(list(Path("width").glob("cells/*"))) < 12 and run.poll() is None:
    time.sleep(0.1)
run.send_signal(signal.SIGINT)
print("\n".join(run.communicate()[1].splitlines()[-2:]))

# %% tags=["timing"]
# !ntkfl study status width

# %% [markdown]
# The same command continues the run, here with a process for each core. The results agree bit for bit with the
# results of a run that was not stopped. `--plot` draws the figures. (Progress goes to standard error, which this page
# leaves out.)

# %%
# !ntkfl study run width-scaling --out width --plot 2>/dev/null

# %% [markdown]
# The list of answers begins with the worst outcome. Each exponent is a slope in the log-log plot. Its interval covers
# the noise over seeds. It also covers the change when the smallest widths are dropped, since a power law holds only in
# the limit. An interval wider than ±0.2 decides nothing, and the answer is *unresolved*. A power law may have a second
# term, which falls faster with the width. A stated power outside the measured interval is *violated* only if noise and
# such a second term cannot explain the measured slope (at the level 99.9%). At the smallest width this second term may
# be as large as the first. One answer is violated, *as recorded*: the printed Eq (18) leaves out a part that does not
# fall with the width when clients take several local steps (see the [findings](../findings)). The claims that hold say
# that the movement of every single neuron falls like $m^{-1/2}$, that the movement of all neurons together does not
# fall, and that outputs approach the limit like $m^{-1/2}$. So **one more correct digit needs a hundred times the
# width.**

# %%
from IPython.display import SVG

SVG("width/charts/width-scaling.svg")

# %% [markdown]
# Points are measured, with 99% intervals, and dashed lines are theory. Every figure is also saved as `.png`, and its
# numbers as `.csv`. The second figure, `width-exponents`, shows all exponents with their intervals beside theory.
#
# ## The numbers behind it
#
# The folder holds `results.nc`, a NetCDF file that many tools can read. Its axes and variables have descriptions:

# %%
import numpy as np
import xarray

cells = xarray.open_dataset("width/results.nc")
print(dict(cells.sizes))
print(cells.prediction.long_name)
error = np.sqrt((cells.prediction**2).mean("seed"))
for width in (64, 1024, 16384):
    print(f"m = {width:6d}: {float(error.sel(width=width)):.4f}")

# %% [markdown]
# The error of the widest network and the exponent give the width for your own tolerance. This width is an
# extrapolation along a measured power law, not a theorem:

# %%
tolerance = 0.001
print(f"error {tolerance} at m = {16384 * (float(error.sel(width=16384)) / tolerance) ** 2:.1e}")

# %% [markdown]
# Would a smaller grid have been enough? `summarise` draws the study's conclusions from any part of the cells. With four
# widths and five seeds almost every answer is *unresolved*:

# %%
from collections import Counter

from experiments import studies

few = cells.sel(width=[64, 128, 256, 512], seed=range(5))
print(Counter(answer.outcome.value for answer in studies.find("width-scaling").summarise(few)))

# %% [markdown]
# ## The same on your data: a study of your own
#
# A study is one file that defines a variable `STUDY`. The next file asks the question of this page about 50 real
# images: how far are the outputs of the trained network from the kernel regime, in the worst round? To ask this
# question about your data, put `ntkfl.data.load("mine.csv")` in place of the digits.

# %%
# %%writefile digits_width.py
"""How far are the outputs of a finite network from the kernel regime, on real images?"""

import numpy as np

import ntkfl
from experiments import Axis, Quantity, Study, answers

PROBLEM = ntkfl.data.digits(n=50)


def measure(point):
    """One network beside its limit; no two cells have neurons in common, so they may be averaged."""
    seed = 10_000 * point["seed"] + point["width"]
    setup = ntkfl.Setup(width=point["width"], rounds=60, seed=seed)
    run = ntkfl.simulate(PROBLEM, setup, movements=False)
    limit = ntkfl.kernel_regime(PROBLEM, setup).trajectory(initial_outputs=run.outputs[0])
    gaps = np.sqrt(((run.outputs - limit.outputs) ** 2).mean(axis=1))
    return {"gap": float(gaps.max())}


def summarise(cells):
    """One claim, held against theory."""
    sizes, gaps = cells.width.to_numpy(), answers.along(cells.gap, "width")
    return (answers.exponent("largest gap ~ m^(-1/2)", "fl-ntk/W-outputs", -0.5, sizes, gaps),)


STUDY = Study(
    name="digits-width",
    question="How far are the outputs of a finite network from the kernel regime, on real images?",
    source="FL-NTK, section 3.2",
    axes=(
        Axis("width", (64, 128, 256, 512, 1024, 2048), "hidden neurons m", option="widths"),
        Axis("seed", tuple(range(16)), "of the network"),
    ),
    quantities=(Quantity("gap", "largest over the rounds of the RMS over samples of y_m - y_inf"),),
    measure=measure,
    summarise=summarise,
    seconds=lambda point: 0.005 + 3.5e-5 * point["width"],
)

# %%
# !ntkfl study run digits_width.py --out mine 2>/dev/null

# %%
import matplotlib.pyplot as plt

gap = np.sqrt((xarray.open_dataset("mine/results.nc").gap ** 2).mean("seed"))
figure, axes = plt.subplots(figsize=(4, 3))
axes.loglog(gap.width, gap, "o-", label="measured")
axes.loglog(gap.width, float(gap[-1]) * (gap.width / gap.width[-1]) ** -0.5, "--", label="$m^{-1/2}$")
axes.set_xlabel("width $m$")
axes.set_ylabel("RMS gap to the limit")
axes.legend()
print(f"gap at m = 2048: {float(gap[-1]):.4f}; gap 0.01 at m = {2048 * (float(gap[-1]) / 0.01) ** 2:.0f}")

# %% [markdown]
# Labels are ±1, so a gap of 0.01 is one percent. Such a gap needs some thousands of neurons, whereas the theorem asks
# for 1.4e19. For these data and these step sizes, some thousands of neurons are the practical answer to the question.
#
# The file's path can be given wherever a study's name can: `ntkfl study list digits_width.py`, `--dry-run`,
# `--scheduler`. The function `seconds` in the file estimates the time of a cell. `--dry-run` adds these times up. A
# run that is expected to take less than 3 seconds, like the run above, starts no processes. A study may also define
# `charts`, its figures, and `megabytes`, the memory of a cell. `experiments/studies/questions/generalisation.py` is a
# complete example.
#
# ## What is guaranteed, and what is not
#
# * Every cell is a file, written completely or not at all. The name of this file is a hash of the cell's inputs, of
#   the code and of the versions of the libraries. If you change the code, the cells are measured again. The hash
#   includes your own modules that the study's file imports. It does not include data files that the study reads, so
#   write the checksum of such files into the study's file.
# * A damaged cell is reported and measured again. A cell that fails leaves its traceback in `failures/`, and the
#   other cells continue. `ntkfl study status width` says which cells failed and why.
# * Several runs may use the same folder, even at the same time.
# * Cells of a longer run are measured in one process for each core, with one thread each. [Scale out](scale_out)
#   shows how to use several machines.
# * An exponent holds for the widths and the data it was measured on. Its interval covers only noise, dropped widths and
#   one next-order term.
#
# Where next: `ntkfl exponents --data mine.csv` measures all exponents of the catalogue on your data, with
# coefficients. `ntkfl report --studies width --out report` makes a page of the study. `ntkfl study list` names the
# other studies.
