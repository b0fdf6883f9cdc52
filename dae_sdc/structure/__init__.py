"""Structural analysis of DAEs: offsets, index, blocks, stages, and repair where it fails."""
