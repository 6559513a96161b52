"""The linear map of a method's round in the kernel regime, from the method's module or by differentiating the round."""

from collections.abc import Mapping
from typing import Any

from ntkfl.imports import naming_the_extra
from ntkfl.limit.linear_round import Blocks, LinearRound
from ntkfl.training.methods import build, catalogue, module_of
from ntkfl.training.objectives import HalfSquares


def linear_round(name: str, blocks: Blocks, momentum: float, options: Mapping[str, Any]) -> LinearRound:
    """A round of a method, on full batches of all clients and the sum of squares, as an exact linear map.

    A method's module may define the map, as `linear(method, blocks) -> LinearRound`, or give in NOT_LINEAR the reason
    why there is no such map. For any other method the engine's round is differentiated.

    The engine's round is also differentiated if the local steps have a momentum, which begins anew in every round.

    Raises:
        ValueError: as `ntkfl.training.methods.build`; a momentum outside [0, 1); the method has no linear map, and the
            message says why.
    """
    module = module_of(name)
    if hasattr(module, "NOT_LINEAR"):
        there = ", ".join(known for known, other in catalogue().items() if not hasattr(other, "NOT_LINEAR"))
        raise ValueError(
            f"{module.NAME} has no exact linear limit: {module.NOT_LINEAR}. The methods that have one are {there}"
        )
    method = build(name, HalfSquares("sum"), **options)
    if hasattr(module, "linear") and not momentum:
        return module.linear(method, blocks)
    with naming_the_extra(f"the round of {name} is differentiated"):
        from ntkfl.training.engine.differentiated_round import differentiated
    return differentiated(method, blocks, momentum)


def state_vectors(name: str, blocks: Blocks, momentum: float, options: Mapping[str, Any]) -> int:
    """The number of vectors of weights in the state, if `linear_round` differentiates the engine's round; else 0.

    Raises:
        ValueError: as `linear_round`.
    """
    if hasattr(module_of(name), "linear") and not momentum:
        return 0
    with naming_the_extra(f"the round of {name} is differentiated"):
        from ntkfl.training.engine.differentiated_round import EngineRound
    return EngineRound(build(name, HalfSquares("sum"), **options), blocks, momentum).parts
