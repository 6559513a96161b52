"""Algorithm 1 (FedAvg on a two-layer ReLU network) at a finite width, in several implementations.

`simulation.simulate` chooses an implementation by the size of the run. All implementations give the same trajectory up
to rounding. The number of entries of a run is samples x neurons x K x T.

- `neurons`: all clients at once, with every pre-activation in memory. For runs that record movements (distances of the
  weights from their start), and for runs below 2^21 samples x neurons.
- `neurons.CompiledNeurons`: the same with compiled passes. From 2^28 entries on, if a client has at most 32 samples.
- `client_threads`: groups of clients on the host's threads, with two matrix products in each local step. It records
  outputs only. For larger runs.
- `switch_tracking`: two matrix products in each round. From 2^30 entries on, in those rounds of `client_threads` in
  which few neurons can become active or inactive.
- `client_groups`: the neurons are shared by JAX devices. It records outputs only.
- `reference`: plain loops in weight space, over floats, extended precision or ball arithmetic (numbers with proved
  error bounds). It is an independent check.

`movements=`, `memory=`, `compiled=` and `devices=` of `simulate` overrule the choice by size.
"""
