"""An import that replaces a data set: the old one or the new one, wherever it is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import DatasetError
from harness.core.folders import cut_off
from harness.corpus import card
from harness.pipeline.imports import Target, check_free, import_beir
from harness.pipeline.prepare import prepare
from tests.make.killed import killed

DIES = """
from harness.core import files
from harness.core import folders as journal
from harness.pipeline import imports as importing
step = {step}

def counted(module, name):
    call = getattr(module, name)
    def run(*args, **more):
        global step
        if not step:
            os.kill(os.getpid(), signal.SIGKILL)
        step -= 1
        done = call(*args, **more)
        if not step:
            os.kill(os.getpid(), signal.SIGKILL)
        step -= 1
        return done
    setattr(module, name, run)

counted(journal, "write_json")
counted(journal, "write_text")
counted(journal, "remove")
counted(files, "swapped")
root = Path({root!r})
to = importing.Target("mine", root / "datasets", root / "qrels", split="test", force=True)
importing.import_beir(root / "new", to)
print("done", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def beir(folder: Path, documents: int) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": f"d{n}", "text": f"words {n}"}) for n in range(documents)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "words"}\n')
    judged = "".join(f"q\td{n}\t1\n" for n in range(documents))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


@pytest.mark.slow
def test_a_kill_leaves_the_old_one_or_the_new_one(
    tmp_path: Path, draws: Callable[[int, int], int]
) -> None:
    beir(tmp_path / "new", 5)
    seen, said = set(), ""
    for step in sorted({*range(0, 12, draws(4, 1)), 11}):
        root = tmp_path / str(step)
        root.mkdir()
        (root / "new").symlink_to(tmp_path / "new")
        places = root / "datasets", root / "qrels"
        import_beir(beir(root / "old", 3), Target("mine", *places, split="test"))
        said = killed(DIES.format(step=step, root=str(root)))
        data, qrels = root / "datasets" / "mine", root / "qrels" / "mine"
        prepare(data, qrels, root / "build")
        found = card.read(data)
        assert found.documents == found.judgements
        assert not cut_off(data)
        seen.add(found.documents)
        import_beir(root / "new", Target("mine", *places, split="test", force=True))
        prepare(data, qrels, root / "build")
        assert card.read(data).documents == 5
    assert seen == {3, 5}
    assert said == "done\n"


def test_what_an_import_wrote_may_be_replaced(tmp_path: Path) -> None:
    places = tmp_path / "datasets", tmp_path / "qrels"
    folder, judged = places[0] / "mine", places[1] / "mine" / "test.qrels"
    check_free(folder, judged, force=False)
    import_beir(beir(tmp_path / "old", 3), Target("mine", *places, split="test"))
    check_free(folder, judged, force=True)
    (folder / "corpus.jsonl").rename(folder / "corpus.jsonl.gz")
    check_free(folder, judged, force=True)
    (folder / "corpus.jsonl").mkdir()
    with pytest.raises(DatasetError, match="was not written by an import"):
        check_free(folder, judged, force=True)
