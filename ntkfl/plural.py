"""A count with its noun, for messages."""


def number_of(count: int, noun: str) -> str:
    """ "1 case", "2 cases": the noun in the singular is given, and its plural takes an s."""
    return f"{count} {noun}{'s' * (count != 1)}"
