"""Sums over rows on a device, on PyTorch; imported only where rows lie on one, or are moved to one."""
