"""Tiles that a device of torch holds and multiplies; their entries are computed by this machine's processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.gram.tiles import (
    STORED,
    TILE,
    UNIT,
    Kernel,
    Tiles,
    Value,
    entries_above,
    entries_below,
    filler,
    slab_rows,
    stored_kernel_error,
    tiles_bytes,
    tiles_room,
)
from ntkfl.memory import left_for, require
from ntkfl.problem import finite_array

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceTiles(Tiles):
    """A matrix like `Tiles`, with its slabs on a device; its products are those of `Tiles` up to their rounding.

    Products are summed in float64 on the device. Clients' blocks and the other vectors of a run stay with this process.
    """

    slabs: tuple[torch.Tensor, ...]  # type: ignore[assignment]

    @classmethod
    def on(
        cls, device: torch.device, kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str = "float64"
    ) -> DeviceTiles:
        """The kernel of all pairs of samples.

        Raises:
            ValueError: too little memory on the device or here; as `Tiles.of`.
        """
        import torch

        x, slabs = finite_array("x", x), []
        require("a slab of tiles", lambda n: tiles_room(n, dtype), n=len(x))
        require(f"the tiles on {device}", lambda n: device_bytes(n, dtype), room_on(device, len(x), dtype), n=len(x))
        fill = filler(kernel, x, dtype)
        for start, end in slab_rows(len(x)):
            interruption.check()
            slab = np.empty((end - start, end), dtype)
            fill(slab, start, end)
            slabs.append(torch.from_numpy(slab).to(device))
        return cls(slabs=tuple(slabs), rounding=STORED[dtype], of_kernel=stored_kernel_error(kernel, x, dtype))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored entries."""
        return np.dtype(str(self.slabs[0].dtype).removeprefix("torch."))

    @property
    def product_rounding(self) -> float:
        """A bound of |fl(H v) - H v|_F over |v|_F, for sums in any order."""
        return 1.01 * (len(self) + len(self) / TILE + 4) * UNIT * self.norm

    @property
    def work(self) -> float:
        """Products are not computed by this machine's cores."""
        return 0.0

    def of_slabs(self, function: Callable[..., Value], *arguments: object) -> Iterator[Value]:
        """The values of a function of each slab and these arguments, in the slabs' order; each slab is copied here."""
        for slab in self.slabs:
            interruption.check()
            yield function(slab.cpu().numpy(), *arguments)

    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        import torch

        factor = torch.from_numpy(np.ascontiguousarray(v, float)).to(self.slabs[0].device)
        product = torch.zeros_like(factor)
        for (start, end), slab in zip(self.rows, self.slabs, strict=True):
            for first in range(0, end - start, TILE):
                interruption.check()
                part = slab[first : first + TILE].to(torch.float64)
                top = start + first
                product[top : top + len(part)] += part @ factor[:end]
                if start:
                    product[:start] += part[:, :start].T @ factor[top : top + len(part)]
        return product.cpu().numpy()

    def __getitem__(self, at: np.ndarray | tuple[np.ndarray, ...]) -> Float[np.ndarray, "p q"]:
        import torch

        def entries(slab: torch.Tensor, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            lines = slab[torch.from_numpy(rows).to(slab.device)]
            return lines[:, torch.from_numpy(columns).to(slab.device)].cpu().numpy()

        rows, columns = (np.ravel(part) for part in (at if isinstance(at, tuple) else (at, np.arange(len(self)))))
        block = np.empty((len(rows), len(columns)))
        for (start, end), slab in zip(self.rows, self.slabs, strict=True):
            interruption.check()
            own, before = entries_below(start, end, rows, columns)
            block[np.ix_(own, before)] = entries(slab, rows[own] - start, columns[before])
            over, mirrored = entries_above(start, end, rows, columns)
            block[np.ix_(over, mirrored)] = entries(slab, columns[mirrored] - start, rows[over]).T
        return block


def device_bytes(n: int, dtype: str) -> float:
    """Bytes on the device: of the tiles, and of some rows in float64 while they are multiplied."""
    return tiles_bytes(n, dtype) - tiles_room(n, dtype) + 8 * n * min(TILE, n)


def room_on(device: torch.device, n: int, dtype: str) -> float:
    """Bytes that are free on the device."""
    import torch

    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return left_for(device_bytes(n, dtype))
