"""What pySDC's controllers are given: hooks, step sizes, events, invariants, checkpoints, transfer."""
