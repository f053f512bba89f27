"""Federated fits: sites send sums, never rows."""
