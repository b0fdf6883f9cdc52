"""The studies, a file or a directory each; one that registers itself is found."""
