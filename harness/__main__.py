"""``python -m harness`` is the command ``harness``."""

from __future__ import annotations

from harness.cli import main

main()
