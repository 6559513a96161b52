"""Miniatures: small runs that answer a question of a table or a figure of the papers.

Each miniature has a file of its own.
"""

from functools import cache

from experiments.miniatures.miniature import Miniature
from ntkfl.extensions import modules_of


@cache
def catalogue() -> dict[str, Miniature]:
    """The miniatures by name, from every module of this package that has a MINIATURE."""
    miniatures = [module.MINIATURE for module in modules_of(__name__) if hasattr(module, "MINIATURE")]
    return {miniature.name: miniature for miniature in miniatures}
