"""From what a user has (arrays, sparse matrices, tables) to checked numeric rows, class codes and weights."""
