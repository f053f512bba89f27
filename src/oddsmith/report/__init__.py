"""One self-contained page on a fitted model: what it is, how sure it is, what it costs, and where to sign."""

from oddsmith.report.document import make_report, write_report

__all__ = ["make_report", "write_report"]
