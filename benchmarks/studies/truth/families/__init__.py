"""Families of generated DAEs, a file each."""
