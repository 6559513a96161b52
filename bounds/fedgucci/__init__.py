"""The statements of FedGuCci and the connectivity results beyond it, one file a numbered result."""
