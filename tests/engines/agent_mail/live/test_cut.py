"""A file that is cut short while it is served: the answer says so, and the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.stacks.agent_mail import arm as mail
from tests.make.mail.live_index import built, served
from tests.source import ROOT

pytestmark = pytest.mark.slow


def cut_and_ask(folder: Path, mode: str) -> None:
    """Search, cut the files that this mode reads to nothing, and search again."""
    index = folder / "index"
    with served(folder, mode=mode) as searcher:
        before = searcher.search("review", 5)
        assert before.served_by == searcher.manifest.fingerprint
        tantivy = (index / mail.TANTIVY / "index").glob("*.*")
        mapped = [one for one in tantivy if one.suffix in {".idx", ".term", ".store", ".fast"}]
        for path in [*mapped, index / mail.VECTORS]:
            os.truncate(path, 64)
        after = searcher.search("review", 5)
        assert {hit.doc_id for hit in after.hits} == {hit.doc_id for hit in before.hits}
        assert after.served_by != searcher.manifest.fingerprint
        assert "answered by fts5" in after.note


@pytest.mark.parametrize("mode", ["lexical", "semantic", "hybrid"])
def test_a_file_that_is_cut_short_is_an_error_and_no_signal(tmp_path: Path, mode: str) -> None:
    built(tmp_path, mode=mode)
    code = (
        "import sys; from pathlib import Path; from tests.engines.agent_mail.live import test_cut"
    )
    ask = f"{code}; test_cut.cut_and_ask(Path(sys.argv[1]), sys.argv[2])"
    words = [sys.executable, "-c", ask, str(tmp_path), mode]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
