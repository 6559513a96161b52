"""Values of declared types from JSON.

Content of another type is refused, with a message that names its place in the file, its value and the right type.
"""

import math
import sys
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import numpy as np

NOT_FINITE = {str(number): number for number in (math.inf, -math.inf, math.nan)}
WORDS: dict[Any, str] = {str: "a text", bool: "true or false"}


def read_as(kind: Any, content: Any, name: str) -> Any:
    """The value of this type that `strict_json` wrote; `name` is its place in the file, for messages.

    A dataclass that has a method `from_json` is read by that method. Whole numbers are counts, so none may be negative.

    Raises:
        ValueError: the content is of another type, or is incomplete.
    """
    if kind is Any:
        return content
    parts = get_args(kind)
    if isinstance(kind, UnionType):
        (kind,) = (part for part in parts if part is not NoneType)
        return None if content is None else read_as(kind, content, name)
    if hasattr(kind, "from_json") and name:
        return kind.from_json(content, name)
    if get_origin(kind) is tuple:
        return tuple(read_as(parts[0], part, f"{name}[{at}]") for at, part in enumerate(_of(list, content, name)))
    if get_origin(kind) is dict:
        return {key: read_as(parts[1], part, f"{name}.{key}") for key, part in _of(dict, content, name).items()}
    if is_dataclass(kind):
        return cast(Any, kind)(**read_fields(kind, content, name))
    if issubclass(kind, StrEnum):
        if content not in list(kind):
            raise refused(name, content, "one of " + ", ".join(repr(word.value) for word in kind))
        return kind(content)
    if kind is float:
        number = NOT_FINITE.get(content, content) if isinstance(content, str) else content
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise refused(name, content, 'a number, or "inf", "-inf", "nan"')
        if isinstance(number, int) and abs(number) > sys.float_info.max:
            raise refused(name, content, "a number within float64")
        return float(number)
    if kind is int:
        if isinstance(content, bool) or not isinstance(content, int) or content < 0:
            raise refused(name, content, "a whole number of at least 0")
        return content
    return _of(kind, content, name)


def refused(name: str, content: Any, right: str) -> ValueError:
    """The error that names a place in a file, the value there, and what would be right in that place."""
    return ValueError(f"{name!r} is {content!r:.60}; here it is {right}: verify again")


def strict_json(content: Any) -> Any:
    """The same content in the types of strict JSON.

    A dataclass that has a method `to_json` is written by that method.
    """
    if hasattr(content, "to_json"):
        return content.to_json()
    if is_dataclass(content):
        return {part.name: strict_json(getattr(content, part.name)) for part in fields(content)}
    if isinstance(content, dict):
        return {str(name): strict_json(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [strict_json(part) for part in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, StrEnum):
        return content.value
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content


def _of(kind: type, content: Any, name: str) -> Any:
    if not isinstance(content, kind):
        raise refused(name, content, WORDS.get(kind, "a list" if kind is list else "an object"))
    return content


def read_fields(kind: Any, content: Any, name: str) -> dict[str, Any]:
    """The values of a dataclass's fields, taken from a dictionary. Other entries of the dictionary are left out."""
    declared, place = {part.name: part for part in fields(kind)}, f"{name}." if name else ""
    if not isinstance(content, dict):
        raise refused(name or "the content", content, f"an object with {', '.join(declared)}")
    needed = {part.name for part in declared.values() if part.default is part.default_factory is MISSING}
    if missing := sorted(needed - content.keys()):
        raise ValueError(f"{name or 'the content'} has no {', '.join(missing)}: verify again")
    types = _types(kind)
    return {part: read_as(types[part], content[part], place + part) for part in declared if part in content}


_types = cache(get_type_hints)
