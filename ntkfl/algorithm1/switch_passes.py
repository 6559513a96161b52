"""The compiled passes of `switch_tracking` over neurons and samples; each works on an array that is in cache."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ntkfl.compiled_once import compiled_once, machine_code

LANES = 128  # number of neurons in a chunk, whose patterns are two words of bits
# A word with a single bit is multiplied by a de Bruijn sequence; the upper six bits of the product tell the bit's
# place.
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
PLACES = np.zeros(64, np.int64)
PLACES[[(int(DE_BRUIJN) << place) % 2**64 >> 58 for place in range(64)]] = np.arange(64)


def near_entry(dtype: str) -> np.dtype:
    """The dtype of an entry: a neuron and a sample on which the neuron may switch within the round.

    client, neuron: the numbers of the sample's client and of the neuron.
    sample: the number of the sample within the client.
    start: the pre-activation when the round starts.
    safe: the neuron cannot switch before the reach of the sample exceeds this number. The reach bounds how far the
        sample's pre-activations have moved since the round began (`switch_tracking`).
    extra: the neuron's coefficient minus the coefficient of a neuron that does not switch.
    shift: a sum over the neuron's entries within the client. The sum times the neuron's sign is the amount that the
        `extra` of these entries add to the pre-activation.
    next: the neuron's next entry within the client; the last entry names the first.
    switched: whether the pattern differs from the pattern at the start.
    """
    numbers = [(name, dtype) for name in ("start", "safe", "extra", "shift")]
    places = [(name, "i4") for name in ("client", "sample", "neuron", "next")]
    return np.dtype([*places, *numbers, ("switched", "?")], align=True)


class Passes(NamedTuple):
    """Compiled functions, which release the interpreter's lock. z is (samples, LANES), of samples from `first` on.

    - look(z, signs, reach, frozen, words, first, sums): adds sum_r s_r relu(z_ir) to `sums`. Unless `frozen`, sets the
      bits `words` (2, n) of the active neurons, which are those with z >= 0. A NaN counts as active, so that it shows
      in the outputs. Returns the number of pairs with |z| < reach, or 0 if `frozen`. A neuron of sign 0 is skipped.
    - gather(z, signs, reach, first, neuron, samples, heads, at, entries): writes the pairs with |z| < reach to
      `entries`, from position `at` on. `neuron` is the number of the chunk's first neuron. A lane is a neuron's
      place in the chunk. `heads` (LANES,) keeps for each lane the position of one entry of the last client for which
      the lane has an entry; it is -1 while the lane has none. The samples of a client must follow one another.
    - spread(words, first, coefficients, signs, out): sets `out` (samples, LANES) to q_i s_r where the bit says active,
      and to 0 elsewhere. The q_i are the coefficients.
    - step(entries, words, signs, grams, pull, coefficients, reach, sums): makes a local step of the entries. It adds to
      `sums` the difference that switching makes: the sums over the neurons minus the sums if no neuron switched.
    - correct(entries, signs, neuron, x, total): adds the change of the weights by the `extra` of the entries to `total`
      (chunks, d, LANES). The first neuron of `total` has the number `neuron`.
    """

    look: Callable[..., int]
    gather: Callable[..., None]
    spread: Callable[..., None]
    step: Callable[..., None]
    correct: Callable[..., None]


@compiled_once
def passes(dtype: str) -> Passes:
    """Compile the passes, which takes some two seconds for each dtype, or read machine code that was kept."""
    from numba import from_dtype, types

    zero, one = np.dtype(dtype).type(0), np.uint64(1)
    number = from_dtype(np.dtype(dtype))
    row, table, cube = number[::1], number[:, ::1], number[:, :, ::1]
    words_type, entries_type = types.uint64[:, ::1], from_dtype(near_entry(dtype))[::1]
    index = types.int64

    @machine_code(index(table, row, row, types.boolean, words_type, index, row), fastmath={"contract", "reassoc"})
    def look(z, signs, reach, frozen, words, first, sums):
        near = 0
        for i in range(len(z)):
            limit, total = reach[first + i], zero
            for half in range(2):
                at, sign = z[i, 64 * half : 64 * half + 64], signs[64 * half : 64 * half + 64]
                if frozen:
                    word = words[half, first + i]
                    for r in range(64):
                        signed = at[r] * sign[r]
                        total += signed if word & (one << np.uint64(r)) else zero
                else:
                    word = np.uint64(0)
                    for r in range(64):
                        active, signed = not (at[r] < zero), at[r] * sign[r]
                        word |= np.uint64(active and sign[r] != zero) << np.uint64(r)
                        total += signed if active else zero
                        near += abs(at[r]) < limit * abs(sign[r])
                    words[half, first + i] = word
            sums[first + i] += total
        return near

    @machine_code(types.void(table, row, row, index, index, index, types.int32[::1], index, entries_type))
    def gather(z, signs, reach, first, neuron, samples, heads, at, entries):
        for i in range(len(z)):
            limit, client, sample = reach[first + i], (first + i) // samples, (first + i) % samples
            for half in range(2):
                row, sign, near = z[i, 64 * half : 64 * half + 64], signs[64 * half : 64 * half + 64], np.uint64(0)
                for r in range(64):
                    near |= np.uint64(abs(row[r]) < limit * abs(sign[r])) << np.uint64(r)
                while near:
                    lowest = near & (~near + one)
                    near ^= lowest
                    r = PLACES[(lowest * DE_BRUIJN) >> np.uint64(58)]
                    entry, lane = entries[at], 64 * half + r
                    head = heads[lane]
                    entry.client, entry.sample, entry.neuron = client, sample, neuron + lane
                    entry.start, entry.safe = row[r], abs(row[r])
                    entry.extra = entry.shift = zero
                    entry.switched = False
                    if head < 0 or entries[head].client != client:
                        heads[lane] = entry.next = at
                    else:
                        entry.next, entries[head].next = entries[head].next, at
                    at += 1

    @machine_code(types.void(words_type, index, row, row, table), fastmath={"contract"})
    def spread(words, first, coefficients, signs, out):
        for i in range(len(out)):
            q = coefficients[first + i]
            for half in range(2):
                word, to, sign = words[half, first + i], out[i, 64 * half :], signs[64 * half :]
                for r in range(64):
                    value = q * sign[r]
                    to[r] = value if word & (one << np.uint64(r)) else zero

    @machine_code(
        types.void(entries_type, types.uint64[:, :, ::1], row, cube, table, table, table, table),
        fastmath={"contract", "reassoc"},
    )
    def step(entries, words, signs, grams, pull, coefficients, reach, sums):
        # Rows such as grams[c, i] are not taken out of their arrays; each number is read by all its indices. With rows
        # the step would take longer, since references to the rows would be counted.
        samples = grams.shape[1]
        for e in range(len(entries)):
            entry = entries[e]
            c, i = entry.client, entry.sample
            # compared with a neuron that keeps its pattern, the neuron that switched lacks `pull` if it was active at
            # the start, and has an additional `pull` if it was inactive
            if entry.switched:
                more = -pull[c, i] if entry.start >= zero else pull[c, i]
                entry.extra += more
                other = e
                while True:
                    near = entries[other]
                    near.shift += more * grams[c, i, near.sample]
                    other = near.next
                    if other == e:
                        break
            extra = entry.extra
            if extra != zero:
                word, bit = entry.neuron >> 6, one << np.uint64(entry.neuron & 63)
                for j in range(samples):
                    added = grams[c, i, j] * extra
                    sums[c, j] += added if words[word, c, j] & bit else zero
        for e in range(len(entries)):
            entry = entries[e]
            c, i = entry.client, entry.sample
            if reach[c, i] < entry.safe and not entry.switched:
                continue
            word, bit, total = entry.neuron >> 6, one << np.uint64(entry.neuron & 63), zero
            for j in range(samples):
                added = grams[c, i, j] * coefficients[c, j]
                total += added if words[word, c, j] & bit else zero
            sign = signs[entry.neuron]
            now = entry.start + sign * (total + entry.shift)
            entry.safe = abs(now) + reach[c, i]
            entry.switched = (now >= zero) != (entry.start >= zero)
            if entry.switched:  # in the sum, s z becomes 0, or 0 becomes s z
                sums[c, i] += sign * abs(now)

    @machine_code(types.void(entries_type, row, index, cube, cube))
    def correct(entries, signs, neuron, x, total):
        for e in range(len(entries)):
            entry = entries[e]
            if entry.extra != zero:
                r = entry.neuron - neuron
                more, to = signs[entry.neuron] * entry.extra, total[r // LANES]
                sample = x[entry.client, entry.sample]
                for k in range(len(sample)):
                    to[k, r % LANES] += more * sample[k]

    return Passes(look, gather, spread, step, correct)
