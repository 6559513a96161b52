"""The kit as a folder: cases and reference trajectories in JSON and npz, for adapters in any language."""

import json
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from ntkfl import interruption
from ntkfl.conformance.comparing import MARGIN, TOLERANCE
from ntkfl.conformance.conformance_case import FORMAT
from ntkfl.conformance.kit_cases import cases
from ntkfl.conformance.plan import SHAPES
from ntkfl.version import VERSION

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
        clients={"type": "integer", "minimum": 1, "description": "number of clients"},
        local=_object(
            momentum={"type": "number", "minimum": 0},
            weight_decay={"type": "number", "minimum": 0},
            clip={"type": ["number", "null"], "description": "largest norm of a gradient"},
        ),
        tensors={
            "type": "array",
            "items": {"type": "string"},
            "description": "tensors of the model, in the order of vectors",
        },
        rounds={"type": "array", "items": ROUND, "minItems": 1},
    ),
}


INDEX, SCHEMA_FILE, EXPECTED, README = "kit.json", "case.schema.json", "expected.npz", "README.md"
TEXT = f"""# A conformance kit for federated methods

Every folder METHOD/CASE has

* `case.json`, as `{SCHEMA_FILE}` describes it;
* `case.npz`: x, y, owner (the client of each sample), start/NAME (the tensors of the first model) and, where the method
  adds noise, noise (a standard normal vector a round, parameters in the order of `tensors`);
* `{EXPECTED}`: for every tensor of the model, under its name, its values after rounds 1, 2, ... (for `lora` those of
  `weight`), and the vectors that the method keeps, parameters in the order of `tensors`. An array whose name begins
  with `client_` has a row for each client.

All real numbers are float64, and no file has pickles. `{INDEX}` lists the cases.

Models, with the loss of a sample:

* `line`: w.x, (w.x - y)^2 / 2.
* `logistic`: head.weight x + head.bias, cross-entropy of the softmax with class y.
* `lora`: weight x, the same cross-entropy, weight = base.weight + lora_B lora_A; base.weight is not trained. The
  factors are not unique, so that only `weight` is compared.
* `network`: head.weight tanh(body.0.weight x + body.0.bias) + head.bias, the same cross-entropy.

A local step takes the gradient g of the batch's loss (a mean or a sum, as `loss` says), adds what the method adds,
clips g to the norm `clip`, and adds `weight_decay` w. Then v <- `momentum` v + g, with v = 0 when the round begins, and
w <- w - rate v. `diloco-adamw` takes steps of AdamW instead, on the clipped g, with decoupled weight decay rate
`weight_decay` w; each client keeps its moments and its count of steps from round to round.

An implementation agrees with a case where no number is off by more than {TOLERANCE:g} times the largest number of its
round, or times 1 if that is larger. In float32 the limit is {MARGIN} times the sum of two errors: the largest error of
the reference in any round so far, when it is run in float32, and float32's rounding (1.2e-7) times the same largest
number. What `limit` says holds exactly.
"""


def write(out: Path, methods: Collection[str] | None = None) -> int:
    """Write the kit, or its part for some methods, into a new or empty folder; return the number of cases.

    Args:
        out: a new or empty folder.
        methods: names; None: all.

    Raises:
        ValueError: an unknown method. OSError: the folder is not empty, or cannot be written.
    """
    chosen = cases(methods)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OSError(f"{out} is there and not an empty folder; name a new one")
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        for case in chosen:
            interruption.check()
            case.case.write(part / case.case.name)
            np.savez(part / case.case.name / EXPECTED, allow_pickle=False, **case.expected)
        listed = [
            {
                "case": case.case.name,
                "method": case.case.method,
                "limit": case.case.document["limit"],
                "required": list(case.required),
            }
            for case in chosen
        ]
        index = {"ntkfl": VERSION, "tolerance": TOLERANCE, "cases": listed}
        for name, content in ((INDEX, index), (SCHEMA_FILE, SCHEMA)):
            (part / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        (part / README).write_text(TEXT, encoding="utf-8")
        part.chmod(0o755)
        os.replace(part, out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return len(chosen)
