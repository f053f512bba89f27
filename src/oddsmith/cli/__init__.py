"""The command line: ``oddsmith fit``, ``predict``, ``evaluate`` and so on. Heavy things load when they are needed."""
