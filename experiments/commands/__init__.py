"""The commands of the command line, a file for each; heavy imports are inside the commands that need them."""
