"""Class densities of the generative models."""
