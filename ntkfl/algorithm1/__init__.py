"""Algorithm 1 (FedAvg on a two-layer ReLU network) at a finite width, in several implementations.

`simulation.simulate` chooses one; all give the same trajectory up to rounding. Entries are
samples x neurons x K x T.

- `neurons`: all clients at once, every pre-activation held. With movements, or below 2^21 samples x neurons.
- `compiled_neurons`: its passes compiled. From 2^28 entries, where a client has at most 32 samples.
- `client_threads`: outputs only, groups of clients on the host's threads, two products a local step. Larger runs.
- `switch_tracking`: two products a round. The same from 2^30 entries, in rounds in which few neurons can switch.
- `client_groups`: outputs only, neurons shared by JAX devices.
- `reference`: plain loops in weight space, over floats, extended precision or balls. The second opinion.

`movements=`, `memory=`, `compiled=` and `devices=` of `simulate` overrule the sizes.
"""
