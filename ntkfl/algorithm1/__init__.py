"""Algorithm 1 (FedAvg on a two-layer ReLU network) at a finite width, in several implementations.

`simulation.simulate` chooses an implementation; all give the same trajectory up to rounding. A run has
samples x neurons x K x T entries.

- `neurons`: all clients at once, every pre-activation held. For runs with movements, or below 2^21 samples x neurons.
- `neurons.CompiledNeurons`: the same with compiled passes. From 2^28 entries, where a client has at most 32 samples.
- `client_threads`: outputs only, groups of clients on the host's threads, two products a local step. For larger runs.
- `switch_tracking`: two products a round. From 2^30 entries, in the rounds of `client_threads` in which few neurons
  can switch.
- `client_groups`: outputs only, neurons shared by JAX devices.
- `reference`: plain loops in weight space, over floats, extended precision or balls. An independent check.

`movements=`, `memory=`, `compiled=` and `devices=` of `simulate` overrule the sizes.
"""
