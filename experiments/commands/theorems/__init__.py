"""Commands that check, attack, list, show and begin statements, and apply them to data."""
