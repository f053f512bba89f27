"""``python -m oddsmith.cli`` is the command ``oddsmith``."""

from oddsmith.cli.app import main

if __name__ == "__main__":
    main()
