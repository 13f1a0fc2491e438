"""What tests of more than one folder make: runs, evidence, projects, servers, damaged files.

What one folder alone makes lies there.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

Rows = Iterable[Mapping[str, object]]
HEAD = "query-id\tcorpus-id\tscore\n"


def write_beir(
    folder: Path,
    documents: Rows,
    queries: Rows,
    judged: Iterable[tuple[str, str, int]],
    splits: Iterable[str] = ("test",),
) -> Path:
    """Write a collection in BEIR layout; return its folder."""
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
    for split in splits:
        (folder / "qrels" / f"{split}.tsv").write_text(HEAD + lines)
    return folder
