"""The families of cases on which a form is checked. With a user's data, these are families made of the data."""

from dataclasses import replace

from bounds import Form, Options, Statement
from bounds.case import AnyFamily


def families(statement: Statement, form: Form, options: Options) -> tuple[tuple[AnyFamily, ...], bool]:
    """The families of one form, and whether they are made of the user's data.

    With a user's data only families made of these data are kept, so that the verdict is about the data. A form that has
    no such families is checked on its own cases.
    """
    chosen = statement.families_of(form, options)
    if options.data is None:
        return chosen, False
    others = set(statement.families_of(form, without_data(options)))
    users = tuple(family for family in chosen if family not in others)
    return (users, True) if users else (chosen, False)


def without_data(options: Options) -> Options:
    """The same options, without the data and the options about the data."""
    return replace(options, data=None, unit=False, n=None, clients=None, partition=None)
