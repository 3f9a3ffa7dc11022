"""`python -m attnproof` is `attnproof`."""

from attnproof.cli import main

if __name__ == "__main__":
    main()
