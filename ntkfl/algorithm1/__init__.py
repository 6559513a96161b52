"""Algorithm 1 (FedAvg on a two-layer ReLU network) at a finite width, in several implementations.

`simulation.simulate` chooses an implementation by the size of the run. All implementations give the same trajectory up
to rounding. The number of entries of a run is samples x neurons x K x T.

- `neurons` trains all clients at once, with every pre-activation in memory. It is chosen for runs that record movements
  (distances of the weights from their start), and for runs below 2^21 samples x neurons.
- `neurons.CompiledNeurons` does the work of `neurons` in compiled passes. It is chosen from 2^28 entries on, if a
  client has at most 32 samples.
- `client_threads` trains groups of clients on the host's threads, with two matrix products in each local step. It
  records outputs only, and is chosen for larger runs.
- `switch_tracking` takes two matrix products in each round. It is chosen from 2^30 entries on, in those rounds of
  `client_threads` in which few neurons can become active or inactive.
- `client_groups` distributes the neurons over JAX devices, and records outputs only.
- `reference` has plain loops in weight space, in floats, in extended precision or in ball arithmetic (numbers with
  proved error bounds), and serves as an independent check.

`movements=`, `memory=`, `compiled=` and `devices=` of `simulate` overrule the choice by size.
"""
