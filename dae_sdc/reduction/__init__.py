"""Index reduction: from equations of any index to a system of index 1 or 0 with its invariants."""
