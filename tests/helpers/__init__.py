"""What several test files use: nothing here is a test."""
