"""The picture of sixty thousand images is drawn from the numbers that are stored beside it."""

import importlib.util
import json
from pathlib import Path

from experiments.pictures import as_bytes, themed

DOCS = Path(__file__).parents[2] / "docs"


def drawing():
    spec = importlib.util.spec_from_file_location("sixty_thousand", DOCS / "sixty_thousand.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_that_of_the_numbers():
    curves = json.loads((DOCS / "sixty_thousand.json").read_text(encoding="utf-8"))
    picture = themed(as_bytes(drawing().drawn(curves), "svg", "sixty-thousand"))
    assert picture == (DOCS / "sixty_thousand.svg").read_bytes()
    curves[0]["test"][0] += 0.01
    assert themed(as_bytes(drawing().drawn(curves), "svg", "sixty-thousand")) != picture
