"""The command line, `ntkfl` or `python -m ntkfl`; it sets its signal handlers before it imports the rest."""

import gc
from importlib import import_module

from ntkfl import interruption
from ntkfl.imports import refuse_other_folders

# The thresholds of Python's garbage collector. With Python's own thresholds the collector takes a tenth of the time in
# which statements are checked.
COLLECTIONS = (50_000, 20, 100)


def main() -> None:
    """Run the command that the arguments name."""
    interruption.install()
    gc.set_threshold(*COLLECTIONS)
    try:
        refuse_other_folders("bounds", "verification", "experiments")
    except ImportError as error:
        raise SystemExit(f"Error: {error}") from None
    import_module("experiments.command_line").app(prog_name="ntkfl")


if __name__ == "__main__":
    main()
