"""The command dae-sdc with the problem "decay" of this directory."""

from __future__ import annotations

import sys

import faulty  # noqa: F401

from dae_sdc import cli

if __name__ == "__main__":
    sys.exit(cli.main())
