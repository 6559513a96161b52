"""`ntkfl` and `python -m experiments`: the command line, whose handlers of signals stand before its imports."""

from experiments.early import interruption


def main() -> None:
    """Run the command that the arguments name."""
    interruption().install()
    from experiments.command_line import app

    app(prog_name="ntkfl")


if __name__ == "__main__":
    main()
