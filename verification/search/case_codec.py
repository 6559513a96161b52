"""Cases as JSON.

Every float is written in hexadecimal, every value has the name of its class, and nothing is pickled.
"""

import importlib
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bounds.listing import extensions_of_statements
from ntkfl.algorithm1.reference import BALL, DOUBLE, EXTENDED, Arithmetic

# A file may name values of these packages, and of the user's modules that define statements.
PACKAGES = ("bounds.", "ntkfl.")
FRACTION = re.compile(r"-?[0-9]+(/[0-9]+)?")
ARITHMETICS = {arithmetic.name: arithmetic for arithmetic in (BALL, DOUBLE, EXTENDED)}
DTYPES = {"float64": float, "int64": np.int64, "bool": bool}


def encode(value: Any) -> Any:
    """A case, or part of a case, as JSON.

    Raises:
        TypeError: a part that is neither plain data (numbers, strings, arrays, tuples, named tuples) nor a dataclass of
            this project or of the module that defines the statement.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, Arithmetic):
        return {"arithmetic": value.name}
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"named": _name(value), "parts": [encode(part) for part in value]}
    if isinstance(value, tuple):
        return {"tuple": [encode(part) for part in value]}
    if is_dataclass(value) and _ours(type(value).__module__):
        content = {f.name: encode(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"value": _name(value), "fields": content}
    raise TypeError(f"a {type(value).__name__} cannot be kept in a file; a case is made of plain data")


def decode(content: Any) -> Any:
    """The case, or the part of a case, that was encoded, with the same bits.

    Raises:
        ValueError: the content is not one that `encode` writes, or it names a class that this project does not have, or
            a class refuses its values.
    """
    if not isinstance(content, dict):
        if content is None or isinstance(content, bool | str | int):
            return content
        raise ValueError(f"{content!r} stands where a value is expected; floats are written {{'float': '0x1.8p+1'}}")
    match content:
        case {"float": str(text)}:
            return _float(text)
        case {"fraction": str(text)}:
            # without this test, Fraction would also accept "1e999999999" and compute it for hours
            if not FRACTION.fullmatch(text):
                raise ValueError(f"the fraction {text!r:.40} is not written with whole numbers, like 3/4")
            return Fraction(text)
        case {"arithmetic": str(name)}:
            if name not in ARITHMETICS:
                raise ValueError(f"the arithmetic {name!r} is none of {', '.join(ARITHMETICS)}")
            return ARITHMETICS[name]
        case {"array": str(dtype), "shape": list(shape), "data": list(data)}:
            return _decode_array(dtype, shape, data)
        case {"tuple": list(parts)}:
            return tuple(decode(part) for part in parts)
        case {"named": str(name), "parts": list(parts)}:
            return _decode_named(name, parts)
        case {"value": str(name), "fields": dict(parts)}:
            return _decode_value(name, parts)
    raise ValueError(f"an entry with the keys {sorted(content)} is no part of a case")


def _encode_array(array: np.ndarray) -> dict:
    if str(array.dtype) not in DTYPES:
        raise TypeError(f"an array of {array.dtype} cannot be kept in a file; use {', '.join(DTYPES)}")
    flat = array.ravel().tolist()
    data = [entry.hex() if isinstance(entry, float) else entry for entry in flat]
    return {"array": str(array.dtype), "shape": list(array.shape), "data": data}


def _decode_array(dtype: str, shape: list, data: list) -> np.ndarray:
    if dtype not in DTYPES:
        raise ValueError(f"an array of {dtype!r} is none of {', '.join(DTYPES)}")
    entries = [_float(entry) for entry in data] if dtype == "float64" else data
    kind = {"int64": int, "bool": bool, "float64": float}[dtype]
    wrong = [entry for entry in entries if type(entry) is not kind]
    if wrong:
        raise ValueError(f"an array of {dtype} holds {wrong[0]!r}")
    if len(entries) != int(np.prod(shape)):
        raise ValueError(f"an array of shape {shape} holds {len(entries)} entries")
    return np.array(entries, dtype=DTYPES[dtype]).reshape(shape)


def _float(text: Any) -> float:
    if not (isinstance(text, str) and "x" in text.lower()) and text not in ("inf", "-inf"):
        raise ValueError(f"the number {text!r} is not written in hexadecimal, like 0x1.8p+1")
    return float.fromhex(text)


def _decode_named(name: str, parts: list) -> Any:
    kind: Any = _class(name)
    # Only named tuples are made: the call of another class might start a program.
    if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise ValueError(f"{name} is not a class of named tuples")
    return kind(*(decode(part) for part in parts))


def _decode_value(name: str, parts: dict) -> Any:
    kind: Any = _class(name)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(f"{name} is not a class of cases")
    expected = {f.name for f in fields(kind) if f.init}
    # If a file lacks a field that has a default, the field was added after the file was written.
    needed = {f.name for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING}
    if odd := sorted((set(parts) - expected) | (needed - set(parts))):
        raise ValueError(f"{name} has the fields {sorted(expected)}; the file differs in {', '.join(odd)}")
    values = {field: decode(part) for field, part in parts.items()}
    build: Callable[..., Any] = kind
    return build(**values)


def _name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _ours(module: str) -> bool:
    """Whether values of the module with this name can be stored.

    The user's modules of statements must be loaded before the call.
    """
    return module.startswith(PACKAGES) or any(module == e.module.__name__ for e in extensions_of_statements())


def _class(name: str) -> Any:
    module, _, kind = name.partition(":")
    if not _ours(module):
        raise ValueError(f"{name} is no class of this project; a case names classes of bounds and ntkfl only")
    try:
        where = _module(module, kind)
        member = getattr(where, kind)
    except (ImportError, AttributeError):
        raise ValueError(f"there is no {name}; the file was written by another version, or changed") from None
    # refuses a name that the module only imports
    if not isinstance(member, type) or member.__module__ != where.__name__:
        raise ValueError(f"{name} is not a class of that module")
    return member


def _module(name: str, kind: str) -> ModuleType:
    """The module `name`.

    If there is no such module any more, another module of the same package is returned: the only one with a class
    `kind`.

    Raises:
        ImportError: no module of this project has such a class, or more than one has.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = importlib.import_module(name.partition(".")[0])
        begins, root = re.compile(rf"^class {re.escape(kind)}\b", re.MULTILINE), Path(str(package.__file__)).parent
        files = [path for path in root.rglob("*.py") if begins.search(path.read_text(encoding="utf-8"))]
        if len(files) != 1:
            raise
        return importlib.import_module(".".join((package.__name__, *files[0].relative_to(root).with_suffix("").parts)))
