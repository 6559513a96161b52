"""The statements on model averaging (IMA), one file a numbered result."""
