# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Property-test your kernel
#
# You have written a kernel function, for example the neural tangent kernel of your network, from a formula on paper.
# Is it symmetric, positive definite where it should be, invariant under rotations? And is it really the limit of your
# network? `verification.kernels.check` searches for data sets on which one of these properties fails. It shows the
# smallest such data set that it finds.
#
# ## A kernel from the textbook
#
# Train both layers of $f(x) = m^{-1/2} \sum_r a_r \max(w_r^\top x, 0)$. The kernel in the limit of infinite width is,
# with $\theta$ the angle between $x$ and $z$,
#
# $$k(x, z) = \frac{|x| |z|}{2 \pi} \bigl(\sin\theta + 2 (\pi - \theta) \cos\theta\bigr).$$
#
# A kernel is a function that returns an (n, n') array for rows `x` (n, d) and `z` (n', d). If `z` is not given, `x`
# takes its place.

# %% tags=["timing"]
import numpy as np

from verification.kernels import check


def angle(x, z):
    unit_x = x / np.linalg.norm(x, axis=1, keepdims=True)
    unit_z = z / np.linalg.norm(z, axis=1, keepdims=True)
    return np.arccos(np.clip(unit_x @ unit_z.T, -1, 1))


def both_layers(x, z=None):
    z = x if z is None else z
    theta = angle(x, z)
    sizes = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(z, axis=1)
    return sizes * (np.sin(theta) + 2 * (np.pi - theta) * np.cos(theta)) / (2 * np.pi)


print(check(both_layers, examples=50))

# %% [markdown]
# The formula is right, and yet one property does not hold. The rows and columns of the table mean:
#
# - *finite output*, *symmetric*, *transposes* ($k(x, z) = k(z, x)^\top$) and *consistent* ($k(x, x)$ is $k(x)$) must
#   hold for every function that is called a kernel function here. *positive semi-definite* must hold for every
#   kernel.
# - *strictly positive where claimed* and *singular elsewhere*: for ReLU networks the smallest eigenvalue of $k(x)$ must
#   be positive, unless two rows are parallel (one row is the other row times a positive number). If two rows are
#   parallel, this eigenvalue must be 0. There is one exception: data with several pairs of opposite rows $x$, $-x$. If
#   the directions $x$ of these pairs are linearly dependent, and no two rows are parallel, the smallest eigenvalue is 0
#   with two layers of weights, and positive with three. `check(kernel, depth=2)` claims that this eigenvalue is then 0,
#   and `depth=3` claims that it is then positive. Without `depth` neither is claimed.
# - *rotation invariant*: $k(xQ, zQ) = k(x, z)$. *homogeneous*: $k(cx, z) = c\,k(x, z)$ for $c > 0$.
# - *worst* is the value that came closest to failing. *allowed* says where this value must lie.
#
# The counterexample consists of two rows $10^{-8}$ radians apart. Their dot product is 1 in floats, so `arccos`
# returns 0. So this kernel function treats the two rows as equal, and its Gram matrix is singular. The smallest
# eigenvalue should be about $1.6 \cdot 10^{-9}$. If you invert this matrix, or take its smallest eigenvalue as a
# convergence rate, you get noise. Near 1 `arccos` loses half of all digits. The remedy is to compute the angle from
# lengths:


# %% tags=["timing"]
def angle(x, z):
    unit_x = (x / np.linalg.norm(x, axis=1, keepdims=True))[:, None]
    unit_z = z / np.linalg.norm(z, axis=1, keepdims=True)
    return 2 * np.arctan2(np.linalg.norm(unit_x - unit_z, axis=2), np.linalg.norm(unit_x + unit_z, axis=2))


report = check(both_layers, examples=50)
print(report)

# %% [markdown]
# If your rows are never that close, you can instead tell `check` the smallest angle between two rows:
# `check(both_layers, smallest_angle=1e-6)`.
#
# ## A broken kernel
#
# A common mistake is to take a formula for unit rows, and not to divide by the norms of the rows.


# %%
def careless(x, z=None):
    z = x if z is None else z
    theta = np.arccos(np.clip(x @ z.T, -1, 1))
    return (np.sin(theta) + 2 * (np.pi - theta) * np.cos(theta)) / (2 * np.pi)


report = check(careless, smallest_angle=1e-6, examples=50)
print(report["homogeneous"].counterexample)
print("broken:", report.broken)

# %% [markdown]
# A sample of one number shows the error: $k(2, 2)$ is 1, and should be 4. On unit rows all properties hold, so tests
# on normalised data do not find this error. The printed arrays can be pasted into a test.
#
# ## Is it the limit of your network?
#
# All of the above holds for many kernels. To test that your kernel is the limit of *your* network, pass the kernel of
# the network at finite width as `finite`: a function of the rows, the width and a seed. The distance of this finite
# kernel from your kernel must fall as width$^{-1/2}$, and the mean of each of its entries over the seeds must tend to
# the entry of your kernel.


# %%
def at_width(x, width, seed):
    """J J^T of both layers, the output weights +-1."""
    before = x @ np.random.default_rng(seed).standard_normal((width, x.shape[1])).T
    active, hidden = (before > 0).astype(float), np.maximum(before, 0)
    return (x @ x.T * (active @ active.T) + hidden @ hidden.T) / width


report = check(both_layers, depth=2, finite=at_width, examples=20)
print(report["concentrates"])
print(report["limit of networks"])


# %%
def half_forgotten(x, width, seed):
    before = x @ np.random.default_rng(seed).standard_normal((width, x.shape[1])).T
    active, hidden = (before > 0).astype(float), np.maximum(before, 0)
    return (x @ x.T * (active @ active.T) + hidden @ hidden.T / 2) / width


report = check(both_layers, depth=2, finite=half_forgotten, examples=20)
print(report["concentrates"])
print(report["limit of networks"])

# %% [markdown]
# The error does not fall with the width, because the limit of these networks is another kernel. The comparison of
# single entries needs no tolerance from you: its intervals come from the spread over the seeds, and their level is
# 99.9% for all entries together. The report also says how large an error in an entry would have been detected. More
# `networks` or larger `widths` detect smaller errors. If you have another function for the same kernel,
# `check(kernel, against=other)` compares the two functions entry by entry.
#
# ## Other kernels
#
# The defaults fit ReLU networks. For another kernel, say which properties it should have. The next kernel, a
# polynomial, is homogeneous of degree 2, and we claim nothing about its positivity.


# %%
def quadratic(x, z=None):
    z = x if z is None else z
    return (x @ z.T) ** 2


print(check(quadratic, homogeneous=2, strictly_positive=None, examples=50))

# %% [markdown]
# `homogeneous=None` and `rotation_invariant=False` leave out the row of that property. As `strictly_positive` you can
# pass a function of your own. Your function takes the data `x`, and returns whether the kernel must be strictly
# positive on these data.
#
# ## In your own tests
#
# `check(kernel).ok` is a test in one line. For properties of your own, `bounds.strategies` has the Hypothesis
# strategies that `check` draws from: `unit_data`, `nearly_parallel`, `antipodal_families`, `labels`, `partitions`,
# `problems`, `setups`. The strategies draw directions from small integers, so that Hypothesis shrinks examples to
# simple examples such as (1, 0).

# %%
# %%writefile test_my_kernel.py
import numpy as np
from hypothesis import given, settings

from bounds.strategies import nearly_parallel, problems, unit_data
from ntkfl.gram import infinite  # put your kernel here


@given(x=nearly_parallel(angle=(1e-11, 0.1)))
def test_rows_that_differ_have_features_that_differ(x):
    """|phi(x_0) - phi(x_1)|^2, positive however close the rows are."""
    k = infinite(x)
    assert k[0, 0] + k[1, 1] - 2 * k[0, 1] > 0


@settings(deadline=None)
@given(problem=problems(x=unit_data(n=(2, 6))))
def test_a_step_below_the_limit_never_raises_the_residual(problem):
    """y - eta k y is no longer than y when eta is at most 2 / lambda_max."""
    k = infinite(problem.x)
    after = problem.y - k @ problem.y / np.linalg.eigvalsh(k)[-1]
    assert np.linalg.norm(after) <= np.linalg.norm(problem.y) * (1 + 1e-12)


# %% tags=["timing"]
# !pytest -q -p no:cacheprovider test_my_kernel.py

# %% [markdown]
# ## Limits
#
# - Sampling supports a property but does not prove it. A counterexample refutes the property, to within `rounding`
#   (1e-7 by default).
# - All data that are drawn have up to six rows in up to five dimensions. The rows have norm 1, and are rescaled only
#   for a property that needs other norms.
# - Only symmetric positive semi-definite kernels can be checked.
#
# Where to go next: [how wide is wide enough](how_wide.ipynb) measures how fast a network reaches its kernel, and
# [bring your own theorem](bring_your_own_theorem.ipynb) checks a bound on a kernel.
