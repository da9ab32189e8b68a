"""`python -m gatewatch`."""

from gatewatch.cli import main

if __name__ == "__main__":
    main()
