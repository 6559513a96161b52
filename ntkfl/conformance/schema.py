"""The JSON Schema of `case.json`."""

from typing import Any

from ntkfl.conformance.case import FORMAT
from ntkfl.conformance.problems import SHAPES

_NUMBERS = {"type": "array", "items": {"type": "number"}}
_COUNT = {"type": "integer", "minimum": 0}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


STEP = _object(
    samples={"type": "array", "items": _COUNT, "minItems": 1, "description": "rows of x and y, in this order"},
    draws=_NUMBERS | {"description": "numbers uniform in [0, 1) that the step may use"},
    ends_pass={"type": "boolean", "description": "whether a pass over the client's samples ends with this step"},
)
ROUND = _object(
    rate={"type": "number", "minimum": 0, "description": "the local learning rate"},
    clients={
        "type": "array",
        "items": _object(client=_COUNT, steps={"type": "array", "items": STEP}),
        "description": "the cohort, ascending, with each client's local steps",
    },
)
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A case of the conformance kit for federated methods",
    **_object(
        format={"const": FORMAT},
        name={"type": "string"},
        method={"type": "string"},
        options={"type": "object", "description": "all options of the method, defaults included"},
        limit={"type": "string", "description": "what must hold exactly; empty in cases that are no limit"},
        model={"enum": list(SHAPES)},
        loss={"enum": ["mean", "sum"], "description": "over the samples of a batch"},
        clients={"type": "integer", "minimum": 1, "description": "how many there are"},
        local=_object(
            momentum={"type": "number", "minimum": 0},
            weight_decay={"type": "number", "minimum": 0},
            clip={"type": ["number", "null"], "description": "largest norm of a gradient"},
        ),
        tensors={"type": "array", "items": {"type": "string"}, "description": "of the model, in the order of vectors"},
        rounds={"type": "array", "items": ROUND, "minItems": 1},
    ),
}
