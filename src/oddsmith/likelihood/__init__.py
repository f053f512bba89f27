"""The fit of a likelihood: problem, coordinates, objective, separation."""
