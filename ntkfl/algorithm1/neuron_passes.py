"""The compiled passes of `CompiledNeurons` over the neurons.

Importing this module compiles the passes, which takes some three seconds, or reads machine code that was kept. The
passes are not defined within another function; `ntkfl.compiled_once.machine_code` gives the reason. Their arguments are
fields of `CompiledNeurons`.
"""

import numpy as np

from ntkfl.compiled_once import machine_code

LANES = 64

CHUNKS, CHUNK, ROW = "float64[:,:,::1]", "float64[:,::1]", "float64[::1]"


@machine_code(f"{ROW}({CHUNK})")
def summed_up(rows):
    """The sum of each row, with its lanes added in order."""
    sums = np.zeros(len(rows))
    for i in range(len(rows)):
        for r in range(LANES):
            sums[i] += rows[i, r]
    return sums


@machine_code(f"float64({ROW})")
def largest(values):
    """The largest value, or NaN if there is one."""
    most = values[0]
    for r in range(1, LANES):
        most = values[r] if (values[r] > most) | (values[r] != values[r]) else most  # a NaN is kept
    return most


@machine_code(
    f"Tuple(({ROW}, float64, float64, int64))({CHUNKS}, {CHUNKS}, {CHUNKS}, {CHUNK}, boolean, boolean, {CHUNKS}, "
    f"{CHUNK})"
)
def begin(z0, c, gc, signs, frozen, lengths, z, moved):
    """Set z to z0 + gc, where gc is G C of `Neurons`, and return the fields of `Seen`.

    `moved` becomes each neuron's squared distance from its start, or 0 if `lengths` is False.
    """
    flips, sums, farthest, total = 0, np.zeros((z0.shape[1], LANES)), np.zeros(LANES), np.zeros((1, LANES))
    for q in range(z0.shape[0]):
        for r in range(LANES):
            moved[q, r] = 0.0
        for i in range(z0.shape[1]):
            for r in range(LANES):
                value = z0[q, i, r] + gc[q, i, r]
                z[q, i, r] = value
                # a NaN counts as active, so that it shows in the outputs
                off = z0[q, i, r] < 0.0 if frozen else value < 0.0
                sums[i, r] += (0.0 if off else value) * signs[q, r]
            if lengths:
                for r in range(LANES):
                    moved[q, r] += c[q, i, r] * gc[q, i, r]
            if lengths and not frozen:
                for r in range(LANES):
                    flips += (z[q, i, r] >= 0.0) != (z0[q, i, r] >= 0.0)
        for r in range(LANES):
            far = moved[q, r]
            total[0, r] += far
            farthest[r] = far if (far > farthest[r]) | (far != far) else farthest[r]
    return summed_up(sums), largest(farthest), summed_up(total)[0], flips


@machine_code(
    f"Tuple(({ROW}, float64))({CHUNKS}, {CHUNKS}, {CHUNK}, boolean, boolean, {CHUNK}, {CHUNKS}, {ROW}, boolean, "
    f"{CHUNKS}, {CHUNKS})",
)
def step(z0, gc, signs, frozen, lengths, moved, gram, pull, first, z, summed):
    """Make a local step, which sets z and `summed`; return the sums (N c,) and the largest squared distance."""
    work, gained = np.empty(LANES), np.empty(LANES)
    sums, farthest = np.zeros((z0.shape[1], LANES)), np.zeros(LANES)
    clients, samples = gram.shape[0], gram.shape[1]
    for q in range(z0.shape[0]):
        for i in range(z0.shape[1]):
            p = pull[i]
            for r in range(LANES):
                on = z0[q, i, r] >= 0.0 if frozen else z[q, i, r] >= 0.0
                summed[q, i, r] = (0.0 if first else summed[q, i, r]) + (p if on else 0.0)
        for client in range(clients):
            for r in range(LANES):
                gained[r] = 0.0
            for a in range(samples):
                i = client * samples + a
                for r in range(LANES):
                    work[r] = 0.0
                # four at a time, so that `work` is read and written less often
                for b in range(0, samples - samples % 4, 4):
                    j, row = client * samples + b, gram[client, a]
                    g0, g1, g2, g3 = row[b], row[b + 1], row[b + 2], row[b + 3]
                    for r in range(LANES):
                        two = work[r] + g0 * summed[q, j, r] + g1 * summed[q, j + 1, r]
                        work[r] = two + g2 * summed[q, j + 2, r] + g3 * summed[q, j + 3, r]
                for b in range(samples - samples % 4, samples):
                    g, j = gram[client, a, b], client * samples + b
                    for r in range(LANES):
                        work[r] += g * summed[q, j, r]
                for r in range(LANES):
                    value = z0[q, i, r] + gc[q, i, r] + work[r] * signs[q, r]
                    z[q, i, r] = value
                    off = z0[q, i, r] < 0.0 if frozen else value < 0.0
                    sums[i, r] += (0.0 if off else value) * signs[q, r]
                if lengths:  # |u + v|^2 = |u|^2 + v.(2u + v)
                    for r in range(LANES):
                        gained[r] += summed[q, i, r] * (2.0 * gc[q, i, r] + work[r] * signs[q, r])
            if lengths:
                for r in range(LANES):
                    far = moved[q, r] + gained[r] * signs[q, r]
                    farthest[r] = far if (far > farthest[r]) | (far != far) else farthest[r]
    return summed_up(sums), largest(farthest)


@machine_code(f"float64({CHUNK}, boolean, float64, {CHUNKS}, {CHUNKS}, {CHUNKS}, {CHUNKS})")
def end(signs, lengths, share, work, summed, c, gc):
    """Add the changes of a round to c and gc; return the largest squared length of a neuron's summed change."""
    length, longest = np.empty(LANES), np.zeros(LANES)
    for q in range(c.shape[0]):
        for r in range(LANES):
            length[r] = 0.0
        for i in range(c.shape[1]):
            for r in range(LANES):
                c[q, i, r] += share * signs[q, r] * summed[q, i, r]
                gc[q, i, r] += share * signs[q, r] * work[q, i, r]
            if lengths:
                for r in range(LANES):
                    length[r] += summed[q, i, r] * work[q, i, r]
        for r in range(LANES):
            squared = length[r] * abs(signs[q, r])  # 0 for a neuron that only fills up the last chunk
            longest[r] = squared if (squared > longest[r]) | (squared != squared) else longest[r]
    return largest(longest)
