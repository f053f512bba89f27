"""The command line: ``oddsmith fit``, ``predict``, ``evaluate`` and so on. Heavy modules load on demand."""
