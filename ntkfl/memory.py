"""Memory is checked before work starts, and work that needs more than this process can still take is refused."""

import os
import resource
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NEGLIGIBLE = 2**25  # this many bytes are free on every machine where this program starts, and need no check
UNITS = "B", "kB", "MB", "GB", "TB", "PB", "EB"
V1 = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
V2 = "memory.max", "memory.current", "inactive_file"


class TooLittleMemory(ValueError, MemoryError):
    """Work that needs more memory than there is; the message gives both numbers, and what would fit."""


def require(what: str, needs: Callable[..., float], limit: float | None = None, hint: str = "", **sizes: int) -> None:
    """Refuse work that does not fit the memory.

    `needs` gives the number of bytes for these sizes; it must grow with each size. If `limit` is None, the limit is the
    memory that this process can still take.

    Raises:
        TooLittleMemory: the work needs more than the limit. The message gives both numbers, and says for each size how
            large it may be if the other sizes stay the same.
    """
    needed = needs(**sizes)
    limit = left_for(needed) if limit is None else limit
    if needed <= limit:
        return
    message = f"{what} takes {shown(needed)} of memory and {shown(limit)} are available"
    raise TooLittleMemory("; ".join([message, *would_fit(needs, limit, sizes), *([hint] if hint else [])]))


def would_fit(needs: Callable[..., float], limit: float, sizes: Mapping[str, int]) -> list[str]:
    """A list with one sentence, which says for each size how large it may be if the other sizes stay the same.

    The list is empty if no smaller size fits.
    """

    def fit(name: str) -> int:
        return largest(lambda size: needs(**{**sizes, name: size}), sizes[name], limit)

    remedies = [f"{name.replace('_', ' ')} up to {most}" for name in sizes if (most := fit(name))]
    return [f"{' or '.join(remedies)} would fit"] if remedies else []


def largest(needs: Callable[[int], float], below: int, limit: float) -> int:
    """The largest size below `below` that needs no more than the limit; 0 if there is none.

    `needs` gives the number of bytes for a size; it must grow with the size.
    """
    return bisect_right(range(1, below), limit, key=needs)


def shown(count: float) -> str:
    """A number of bytes in three digits, with its unit."""
    power = 0
    while count >= 999.5 and power < len(UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.3g} {UNITS[power]}"


def left_for(needed: float) -> float:
    """`available()`, or inf if `needed` is negligible; the call takes a tenth of a millisecond."""
    return available() if needed > NEGLIGIBLE else float("inf")


def available() -> float:
    """The number of bytes that this process can still take.

    The result is the minimum over the machine, the control groups and the address space. If the system does not report
    free memory, as outside Linux, the whole memory of the machine counts.
    """
    return min(_of_machine(), _of_address_space(), *_of_groups(), float("inf"))


def _of_machine() -> float:
    with suppress(OSError, ValueError, IndexError):
        for line in (PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (OSError, ValueError):
        return float("inf")


def _of_address_space() -> float:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return float("inf")
    used = 0
    with suppress(OSError, ValueError, IndexError):
        used = int((PROC / "self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return max(0.0, float(limit - used))


def _of_groups() -> Iterator[float]:
    """Yields the bytes that are left to the process's control group (cgroup, version 1 or 2), and to each of its parent
    groups.

    Page cache counts as free.
    """
    with suppress(OSError):
        for line in (PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _left(GROUPS, path, *V2)
            elif "memory" in controllers.split(","):
                yield from _left(GROUPS / "memory", path, *V1)


def _left(mount: Path, path: str, limit: str, used: str, cache: str) -> Iterator[float]:
    inner = mount / path.strip("/")
    for group in (inner, *inner.parents):  # in a container the path may be the host's, whose folders do not exist here
        if group == mount or mount in group.parents:
            with suppress(OSError, ValueError):
                most = int((group / limit).read_text())  # "max" means that there is no limit, and is no integer
                freed = dict(line.split() for line in (group / "memory.stat").read_text().splitlines()).get(cache, 0)
                yield max(0.0, float(most - int((group / used).read_text()) + int(freed)))
