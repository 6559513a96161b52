"""Linear connectivity of two-layer ReLU networks: exact barriers, groups, planes, and what averaging models does."""
