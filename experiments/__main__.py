"""`python -m experiments`, which is `ntkfl`."""

from ntkfl.__main__ import main

if __name__ == "__main__":
    main()
