"""`python -m slalom` is the command `slalom`."""

from slalom.cli import main

if __name__ == "__main__":
    main()
