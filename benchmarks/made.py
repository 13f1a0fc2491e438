"""The messages of ``datasets/agent-mail``, for scripts that need more of them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "datasets" / "agent-mail"))

from agent_mail.changes import base

__all__ = ["base"]
