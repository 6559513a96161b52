"""Commands about the statements: checked, attacked, listed, shown, applied to data, begun."""
