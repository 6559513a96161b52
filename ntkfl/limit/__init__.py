"""Training at infinite width in closed form, and the first order by which a finite width differs from it."""
