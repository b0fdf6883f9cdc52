"""What several studies measure with: clocks, steps that are repeated, processes of their own."""
