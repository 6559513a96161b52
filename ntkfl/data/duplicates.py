"""Samples that occur twice, which make the kernel singular, are dropped or merged into one."""

import warnings
from dataclasses import replace
from typing import Literal

import numpy as np

from ntkfl.gram.degeneracy import ParallelRows, equal_rows, said_groups
from ntkfl.problem import Problem

Duplicates = Literal["keep", "drop", "merge"]


def without_duplicates(problem: Problem, duplicates: Duplicates = "drop") -> Problem:
    """The problem with only the first of each set of equal rows, which keeps its client; a warning names the other
    rows.

    Args:
        problem: the problem; its x_test stays.
        duplicates: "drop": labels of equal rows must be equal. "merge": the row that stays gets the mean of the labels
            of its set. "keep": all rows stay. Default: drop.

    Raises:
        ParallelRows: "drop", and the labels of equal rows differ.
        ValueError: a client that is left without a sample; an unknown value of `duplicates`.
    """
    if duplicates not in ("keep", "drop", "merge"):
        raise ValueError(f"duplicates is {duplicates!r}; it must be 'keep', 'drop' or 'merge'")
    groups = () if duplicates == "keep" else equal_rows(problem.x)
    if not groups:
        return problem
    differing = tuple(rows for rows in groups if (problem.y[list(rows)] != problem.y[rows[0]]).any())
    if differing and duplicates == "drop":
        raise ParallelRows(
            differing,
            f"rows {said_groups(differing)} of x are the same and their labels differ; 'merge' in place of 'drop' "
            "gives the row that stays the mean of its labels",
        )
    y, kept = np.array(problem.y), np.ones(problem.n, bool)
    for rows in groups:
        y[rows[0]] = problem.y[list(rows)].mean(axis=0)
        kept[list(rows[1:])] = False
    count = problem.n - int(kept.sum())
    without = np.setdiff1d(problem.owner, problem.owner[kept])
    if len(without):
        raise ValueError(
            f"client {without[0]} owns no row that is not equal to an earlier one of another client; give the samples "
            "other owners, or a partition"
        )
    distinct = replace(problem, x=problem.x[kept], y=y[kept], owner=problem.owner[kept])
    labels = ", with the mean of their labels" if differing else ""
    warnings.warn(
        f"{count} of {problem.n} rows of {problem.name} are left out: of the equal rows {said_groups(groups)} "
        f"the first stays, with its client{labels}",
        stacklevel=3,
    )
    return distinct
