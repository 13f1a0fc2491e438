"""What the explorer's page holds, unpacked as a browser does."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

DATA = re.compile(r'<script type="application/gzip" id="(values|hits)-(\d+)">([^<]*)</script>')


def unpacked(packed: str) -> Any:  # noqa: ANN401  whatever was packed
    """Undo ``pack``."""
    return json.loads(gzip.decompress(base64.b64decode(packed, validate=True)))


def data_of(page: str) -> dict[str, Any]:
    """Give both parts of every data set, as ``values-0``, ``hits-0``, ..."""
    return {f"{kind}-{number}": unpacked(data) for kind, number, data in DATA.findall(page)}
