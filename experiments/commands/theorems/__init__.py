"""Commands that check, attack, list and show statements, apply them to data, and write the file of a new one."""
