"""``python -m harness.collections.agent_mail FOLDER``: the overlap of prepared data, by slice."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.collections.agent_mail.overlap import measure, table
from harness.corpus.prepared import Prepared


def main() -> None:
    """Print the table."""
    data = Prepared.open(Path(sys.argv[1]))
    sys.stdout.write(table(measure(data.documents(), data.queries(), data.qrels())))


if __name__ == "__main__":
    main()
