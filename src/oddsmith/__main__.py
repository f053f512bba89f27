"""``python -m oddsmith``: the command line, where the command itself is not on the path."""

from oddsmith.cli.app import main

if __name__ == "__main__":
    main()
