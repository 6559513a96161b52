"""`python -m experiments verify`: the command line from a checkout, without installing."""

from experiments.command_line import app

app(prog_name="ntkfl")
