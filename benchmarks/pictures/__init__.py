"""Pictures of what studies have found."""
