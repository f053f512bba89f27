"""A self-contained report page on a fitted model: description, uncertainty, costs, and a signature field."""

from oddsmith.report.document import make_report, write_report

__all__ = ["make_report", "write_report"]
