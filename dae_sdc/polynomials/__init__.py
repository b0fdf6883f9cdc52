"""All solutions of polynomial systems, by continuation along paths of homotopies."""
