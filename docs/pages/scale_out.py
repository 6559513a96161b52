# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Scale out: more processes, machines, devices, and less memory
#
# Nothing here changes a result. Cells of a study have the same bits on any worker of one kind of machine. A run on
# several devices differs from a run on one by rounding; a Gram matrix counted on several devices is the same to the
# bit. Everything with an output was run on one machine; what needs other machines is shown as commands only.
#
# ## The cores of this machine
#
# | command | workers |
# |---|---|
# | `ntkfl verify --processes N` | one process a core by default; the verdicts are those of one process |
# | `ntkfl study run NAME --processes N` | one process a core by default, with one thread each |
# | `ntkfl train ... --at-once N` | clients trained together; by default as many as fit |
#
# ## A study on a Dask cluster
#
# Run `pip install 'ntkfl[cluster]'` on every machine, with the same checkout, Python and packages. Then start a
# scheduler on one machine, as many workers as you like on each machine (also later), and the run from anywhere:
#
# ```
# dask scheduler --port 8786
# dask worker tcp://HOST:8786 --nworkers -1 --nthreads 1
# ntkfl study run convergence --scheduler tcp://HOST:8786 --out runs/convergence
# ```
#
# Here a scheduler and two workers run on this machine, the workers without the process that would restart each of them:

# %%
import socket
import subprocess

with socket.socket() as free:  # a port that nobody has
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]


def start(*words):
    """A program of Dask's, in the background."""
    return subprocess.Popen(["dask", *words, "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


address = f"tcp://127.0.0.1:{port}"
cluster = [start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--idle-timeout", "10 minutes")]
cluster += [start("worker", address, "--nthreads", "1", "--no-nanny", "--death-timeout", "60") for _ in range(2)]

# %%
# !ntkfl study run drift --widths 128,256 --seeds 2 --scheduler {address} --out there 2>/dev/null

# %% [markdown]
# Workers are sent the study's name (for your own study its path, where each machine needs the same file), the cell's
# parameters and the version of the code; they send the numbers back and store nothing. A worker with other code is
# refused. If one dies, its cells go to others. Here the processes of this machine compute the same cells:

# %%
# !ntkfl study run drift --widths 128,256 --seeds 2 --out here 2>/dev/null | tail -1

# %%
import xarray

there, here = (xarray.open_dataset(f"{folder}/results.nc") for folder in ("there", "here"))
print(f"{there.attrs['cells']} cells, the same bits: {there.equals(here)}")

# %%
for process in reversed(cluster):
    process.terminate()
    process.wait()

# %% [markdown]
# **Security.** Whoever reaches Dask's port can run any code there, since its messages are unpickled. Open the port to
# your own machines only, or give scheduler and workers the same `--tls-ca-file`, `--tls-cert` and `--tls-key`, and
# the run `--scheduler tls://HOST:8786 --tls-ca CA.pem --tls-cert CERT.pem --tls-key KEY.pem`.
#
# With `ntkfl limit --scheduler tcp://HOST:8786` the same workers hold the rows of a large Gram matrix
# ({doc}`infinitely_wide`).
#
# `ntkfl bench study-cells` measures the overhead per cell and per process.
#
# ## A Gram matrix larger than memory
#
# `gram.initial` never holds the whole network: neurons are drawn, counted in packed bits and discarded, at any width.
# `gram.infinite` works tile by tile and writes into an array of yours, so that the disk may hold a matrix larger than
# memory. Here are all 1797 digits:

# %%
import numpy as np

import ntkfl

x = ntkfl.data.digits(n=1797).x
on_disk = np.memmap("gram.dat", dtype=np.float64, mode="w+", shape=(len(x), len(x)))
ntkfl.gram.infinite(x, out=on_disk)
print(f"{on_disk.nbytes / 2**20:.0f} MiB on disk, as in memory: {np.array_equal(on_disk, ntkfl.gram.infinite(x))}")

# %% [markdown]
# ## Long and wide runs of Algorithm 1
#
# By default `simulate` records how every neuron moves, which costs memory and time. Without that, a large run takes
# clients in groups, so that temporary arrays stay small, and may use float32:

# %%
problem = ntkfl.data.digits(n=300, clients=30)
setup = ntkfl.Setup(width=2**13, rounds=5)
double = ntkfl.simulate(problem, setup, movements=False)
single = ntkfl.simulate(problem, setup, movements=False, dtype="float32")
print(f"residual norm {double.residual_norm[0]:.2f} -> {double.residual_norm[-1]:.2f}")
print(f"float32 is off by less than 1e-4: {np.abs(single.outputs - double.outputs).max() < 1e-4}")

# %% [markdown]
# Verdicts use float64. Float32 is for a quick look. `memory=` takes the bytes that the run may use on each device,
# beside its results; groups of clients are made to fit, and a run that cannot fit is refused before it starts.
#
# ## Several JAX devices
#
# `devices=` shares out the neurons. In every local step the devices exchange the outputs of one group of clients, and
# no weights. `gram.initial` takes `devices=` too: each device counts its own neurons, and the counts are added once.
# Without several devices, JAX can pretend to have them, which is how this is tested: here are four on the processor.
# The number of devices is fixed when JAX starts, so this is a program of its own.

# %%
# %%writefile shared.py
import jax
import numpy as np

import ntkfl

problem = ntkfl.data.digits(n=300, clients=30)
setup = ntkfl.Setup(width=2**11, rounds=5)
alone = ntkfl.simulate(problem, setup, movements=False)
shared = ntkfl.simulate(problem, setup, movements=False, devices=jax.devices())
print(f"{len(jax.devices())} devices, {setup.width // len(jax.devices())} neurons each")
print("outputs agree to 1e-10:", bool(np.abs(shared.outputs - alone.outputs).max() < 1e-10))
counted = ntkfl.gram.initial(problem.x, setup.width, seed=0, devices=jax.devices())
print("H(0) the same bits:", np.array_equal(counted, ntkfl.gram.initial(problem.x, setup.width, seed=0)))

# %%
# !XLA_FLAGS=--xla_force_host_platform_device_count=4 python shared.py

# %% [markdown]
# ## GPUs
#
# **This was never run on a GPU by its authors**: none was there when it was written. This section says how it should
# work; tests that need a device are skipped without one.
#
# * Training: a CUDA build of PyTorch, then `ntkfl train ... --device cuda` (or `cuda:1`). All methods run on the
#   device; `--dtype float64` too. More clients are trained together than on a processor.
# * Left sides of theorems from the same engine: `ntkfl verify fl-ntk/B.12 --device cuda`. The verdict says which device
#   it is from; right sides stay ball arithmetic on the processor. If you have a GPU, the test
#   `tests/experiments/test_verify_on_a_device.py` compares its verdicts with the simulator's; please tell us the
#   result.
# * `simulate` on GPUs: a CUDA build of JAX, and `devices=jax.devices("gpu")`. Products are asked for in full
#   precision (some GPUs would multiply with ten bits otherwise).
# * `gram.initial` on GPUs needs the same. It multiplies patterns as 8-bit integers, which is exact; a neuron with a
#   sign that float64 leaves open is counted on the processor. It is slower than packed bits where the devices are
#   processors.
#
# Without a device the choice is refused in one line, before anything is computed. `ntkfl doctor` says what was found.
#
# ## Several hosts
#
# One run over the devices of several hosts is the same program on each of them, with the same arguments; each gets
# the whole trajectory. Here two processes of this machine play two hosts with two devices each. (On real hosts, give
# the address of the first host. On clusters with a scheduler JAX finds it by itself: `jax.distributed.initialize()`.)

# %%
# %%writefile hosts.py
import sys

import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")  # processors need it; GPUs bring their own
jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))

import numpy as np

import ntkfl  # after JAX knows its hosts

problem = ntkfl.data.digits(n=300, clients=30)
setup = ntkfl.Setup(width=2**11, rounds=5)
run = ntkfl.simulate(problem, setup, movements=False, devices=jax.devices())
print(f"host {jax.process_index()}: {len(jax.local_devices())} of {len(jax.devices())} devices are its own")
alone = ntkfl.simulate(problem, setup, movements=False)
print("outputs agree to 1e-10:", bool(np.abs(run.outputs - alone.outputs).max() < 1e-10))

# %%
import os
import sys

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
devices = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
hosts = [
    subprocess.Popen(
        [sys.executable, "hosts.py", address, str(number)],
        env=devices,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    for number in range(2)
]
for host in hosts:
    print("\n".join(host.communicate()[0].splitlines()[-2:]))

# %% [markdown]
# With several hosts the weights of chosen rounds (`keep=`) are not gathered.
#
# A study needs none of this: its cells are independent, so give it a Dask cluster.
#
# Where next: [Performance](../performance) has the times beside other libraries, and `ntkfl bench` measures yours.
