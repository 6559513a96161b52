"""Federated training in PyTorch: every method of the papers as four composable seams, batched over clients."""
