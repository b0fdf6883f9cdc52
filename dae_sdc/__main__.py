"""``python -m dae_sdc``: the command ``dae-sdc``."""

from __future__ import annotations

import sys

from dae_sdc.cli import main

if __name__ == "__main__":
    sys.exit(main())
