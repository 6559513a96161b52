"""The idx format of the MNIST family: a magic number, the sizes as big-endian 32-bit integers, then unsigned bytes."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from ntkfl.messages import number_of

UNSIGNED_BYTE = 0x08  # the only element type that the family uses


def read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """The array of unsigned bytes in an idx file, plain or (suffix .gz) compressed, with its declared shape.

    Raises:
        ValueError: a damaged gzip stream, another magic number, a size of zero, or fewer or more bytes than declared.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        raise ValueError(f"{path} is not a whole gzip file: {error}") from error
    header = 4 * (1 + dimensions)
    if len(data) < header:
        raise ValueError(f"{path} is truncated: {len(data)} bytes, where the idx header alone takes {header}")
    magic, expected = int.from_bytes(data[:4], "big"), UNSIGNED_BYTE << 8 | dimensions
    if magic != expected:
        raise ValueError(
            f"{path} starts with the magic number 0x{magic:08x}; an idx file of unsigned bytes with "
            f"{number_of(dimensions, 'dimension')} starts with 0x{expected:08x}"
        )
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", count=dimensions, offset=4))
    if 0 in shape:
        raise ValueError(f"{path} declares the shape {shape}; every size must be at least 1")
    if len(data) - header != math.prod(shape):
        state = "is truncated" if len(data) - header < math.prod(shape) else "has bytes left over"
        raise ValueError(f"{path} {state}: {len(data) - header} bytes of data, {math.prod(shape)} for shape {shape}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
