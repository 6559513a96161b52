"""`python -m experiments` runs the command `ntkfl`."""

from ntkfl.__main__ import main

if __name__ == "__main__":
    main()
