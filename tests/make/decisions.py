"""What a written decision says of one gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def of_gate(file: Path, gate: str) -> Any:  # noqa: ANN401  what json gives back
    """Give the finding of one gate, of a decision with one data set and one step."""
    written = json.loads(file.read_text())
    (step,) = written["datasets"][0]["steps"]
    return next(found for found in step["findings"] if found["gate"] == gate)
