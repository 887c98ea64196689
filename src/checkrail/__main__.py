"""`python -m checkrail` is the command."""

from checkrail.cli import main

if __name__ == "__main__":
    main()
