# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Scale out: more processes, machines, devices, and less memory
#
# Nothing on this page changes a result by more than rounding. The cells of a study (its single runs) give the same bits
# on all workers, if the machines are of one kind. A Gram matrix that is counted on several devices has the same bits as
# on one device. A training run on several devices differs from a run on one device by rounding. All outputs on this
# page come from one machine. What needs other machines is shown as commands only.
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
# scheduler on one machine, and as many workers as you like on each machine, now or later. The run can be started from
# any machine:
#
# ```
# dask scheduler --port 8786
# dask worker tcp://HOST:8786 --nworkers -1 --nthreads 1
# ntkfl study run convergence --scheduler tcp://HOST:8786 --out runs/convergence
# ```
#
# In this example a scheduler and two workers run on this machine. For each worker Dask usually starts a second process,
# which restarts the worker if it dies. The option `--no-nanny` leaves out this second process:

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
# The workers receive the study's name, the cell's parameters and the version of the code. For a study of your own
# they receive the path of its file instead of a name, and each machine needs the same file at this path. The workers
# send the numbers back and store nothing. A worker with other code is refused. If a worker dies, its cells go to
# other workers. Here the processes of this machine compute the same cells:

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
# **Security.** Whoever can connect to Dask's port can run any code on that machine, since Dask unpickles the
# messages. Open the port to your own machines only, or give scheduler and workers the same `--tls-ca-file`,
# `--tls-cert` and `--tls-key`, and give the run `--scheduler tls://HOST:8786 --tls-ca CA.pem --tls-cert CERT.pem
# --tls-key KEY.pem`.
#
# With `ntkfl limit --scheduler tcp://HOST:8786` the same workers hold the rows of a large Gram matrix
# ({doc}`infinitely_wide`).
#
# `ntkfl bench study-cells` measures the overhead per cell and per process.
#
# ## A Gram matrix larger than memory
#
# `gram.initial` never holds the whole network: neurons are drawn, counted in packed bits and discarded, at any width.
# `gram.infinite` computes its matrix tile by tile and can write it into an array of yours. This array may lie on the
# disk, so that the matrix may be larger than memory. The next cell writes the matrix of all 1797 digits to the disk:

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
# By default `simulate` records how every neuron moves, which costs memory and time. With `movements=False` it does
# not record these movements. Then a large run computes its clients in groups, so that temporary arrays stay small,
# and it may use float32:

# %%
problem = ntkfl.data.digits(n=300, clients=30)
setup = ntkfl.Setup(width=2**13, rounds=5)
double = ntkfl.simulate(problem, setup, movements=False)
single = ntkfl.simulate(problem, setup, movements=False, dtype="float32")
print(f"residual norm {double.residual_norm[0]:.2f} -> {double.residual_norm[-1]:.2f}")
print(f"float32 is off by less than 1e-4: {np.abs(single.outputs - double.outputs).max() < 1e-4}")

# %% [markdown]
# Verdicts use float64. Float32 is for a quick look. `memory=` takes the number of bytes that the run may use on each
# device, beside its results. The groups of clients are made small enough to fit. A run that cannot fit is refused
# before it starts.
#
# ## Several JAX devices
#
# With `devices=` the neurons are divided among the devices. In every local step the devices exchange the outputs of
# one group of clients, but no weights. `gram.initial` takes `devices=` too: each device counts its own neurons, and
# the counts are added once at the end. On a machine without several devices, JAX can present the processor as several
# devices. The tests and the next example use such devices. The example has four of them. The number of devices is
# fixed when JAX starts, so the example is a program of its own.

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
# **The authors never ran this on a GPU**, because they had none when they wrote it. This section says how it should
# work. Tests that need a GPU are skipped where there is none.
#
# * Training needs a CUDA build of PyTorch. Then use `ntkfl train ... --device cuda` (or `cuda:1`). All methods run on
#   the device, also with `--dtype float64`. More clients are trained together than on a processor.
# * The same training engine can compute the left sides of theorems: `ntkfl verify fl-ntk/B.12 --device cuda`. The
#   verdict names the device. Right sides are still computed in ball arithmetic on the processor. If you have a GPU,
#   the test `tests/experiments/test_verify_on_a_device.py` compares its verdicts with the simulator's; please tell us
#   the result.
# * `simulate` on GPUs needs a CUDA build of JAX, and `devices=jax.devices("gpu")`. The program asks JAX for matrix
#   products in full precision (some GPUs would otherwise multiply with ten bits).
# * `gram.initial` on GPUs needs the same build of JAX and the same `devices=`. With `devices=` the function
#   multiplies the activation patterns as matrices of 8-bit integers. Such products are exact. If rounding in float64
#   leaves open whether a neuron is active on a sample, this neuron is counted on the processor. Where the devices are
#   processors, this way of counting is slower than packed bits.
#
# If the named device does not exist, the option is refused with a message of one line, before anything is computed.
# `ntkfl doctor` says which devices were found.
#
# ## Several hosts
#
# For one run over the devices of several hosts, start the same program with the same arguments on each host. Each
# host gets the whole trajectory. Here two processes of this machine play two hosts with two devices each. (On real
# hosts, give the address of the first host. On clusters with a scheduler `jax.distributed.initialize()` finds the
# address by itself.)

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
# With several hosts `keep=`, which stores the weights of chosen rounds, does not gather the weights from the hosts.
#
# A study needs no run over several hosts. Its cells are independent of each other, so give the study a Dask cluster.
#
# Where next: [Performance](../performance) compares the times with the times of other libraries, and `ntkfl bench`
# measures the times on your machine.
