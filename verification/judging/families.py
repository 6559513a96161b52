"""The families of cases that a form is checked on; with the user's data, those that are made of them."""

from dataclasses import replace

from bounds import Form, Options, Statement
from bounds.family import AnyFamily


def families(statement: Statement, form: Form, options: Options) -> tuple[tuple[AnyFamily, ...], bool]:
    """The families of one form, and whether they are of the user's data.

    With the user's data the families that would be there without them are left out: the verdict is about the data.
    Where none is made of them, the form is about cases of its own, and is checked on these.
    """
    chosen = statement.families_of(form, options)
    if options.data is None:
        return chosen, False
    others = set(statement.families_of(form, without_data(options)))
    users = tuple(family for family in chosen if family not in others)
    return (users, True) if users else (chosen, False)


def without_data(options: Options) -> Options:
    """The same choices, without the data and what is said of them."""
    return replace(options, data=None, unit=False, n=None, clients=None, partition=None)
