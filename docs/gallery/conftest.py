"""The scripts here draw when they are imported: `make gallery` and tests/plots run them, collection does not."""

collect_ignore_glob = ["*.py"]
