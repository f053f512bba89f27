"""Fits over sites that send sums and no rows."""
