"""Every reader of files that strangers may have written, by a name, and a file that it reads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from engines import registry as arms
from engines.contract import manifest
from engines.stacks.agent_mail.mcp_tools import callers
from engines.stacks.agent_mail.switch_file import value_in
from harness.core import formats
from harness.core.durable import journal
from harness.core.engine import Hit
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.corpus import (
    beir,
    card,
    jsonl,
    labels,
    mbox,
    pool,
    runs,
    score_table,
    topics,
    trec,
)
from harness.corpus.exchange import ltr, opensearch, quepid, rank_eval
from harness.corpus.querylog import formats as querylog
from harness.policy import pins
from harness.policy.load import load_policy
from harness.replay.load import arrivals
from harness.report.trends import history
from harness.shadow.clicks import log as clicks
from harness.shadow.log import streams
from harness.shadow.log.record import Degradation
from harness.stages import params
from harness.stages.custody.dvc_lock import check_recorded
from harness.stages.judging.machine import settings as judges
from harness.stages.load import files as load_files
from harness.stages.migrate import ledger as migrate_ledger
from harness.stages.race import times as race_times
from harness.stages.score.means import read_means
from harness.stages.shadow import files as shadow_files
from harness.stages.tune import space
from tests.make.desk import OVERLAP
from tests.make.toy import PARAMS
from tests.source import ROOT

Read = Callable[[Path], object]


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _within(name: str, read: Callable[[Path], object]) -> Read:
    """Read a folder in which the file has the name that is looked for."""

    def renamed(path: Path) -> object:
        at = path.with_name(name)
        path.rename(at)
        return read(at.parent)

    return renamed


def _changed(folder: Path) -> None:
    with journal.changing(folder / "thing", within=[folder / "in"], what="nothing"):
        pass


def _pool(path: Path) -> object:
    pool.beside(path).write_text(_PAIR)
    return pool.read(path)


def _pairs(path: Path) -> object:
    path.rename(path.with_name("p.jsonl"))
    path.with_name("p").write_text("q 0 d ?\n")
    return pool.read(path.with_name("p"))


_PAIR = json.dumps({
    "doc_id": "d", "narrows": 0.5, "query": "q", "query_id": "q", "scale": [0, 1], "snippet": "s",
    "title": "t",
}) + "\n"  # fmt: skip
_CLICKED = """\
{"id": "1", "at": "2026-01-01T00:00:00+00:00", "session": "1", "query": "a", "arms": ["a", "b"], \
"documents": ["d"], "teams": [0]}
{"id": "1", "document": "d"}
"""
_SPACE = """\
[search]
measure = "nDCG@10"
folds = 2
seed = 7
confidence = 0.95
resamples = 1000
[space]
any = [1, 2]
"""
_TRIAL = '{"format":1,"number":1,"writer":"w","at":1,"arm":"shadow","kind":"fault","cause":"c"}\n'


def _written(write: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory() as folder:
        write(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _scores(path: Path) -> None:
    found = Scores("RR", ("q", "r"), np.array([1.0, 0.25]), {"no hits": ("s",)})
    score_table.write_scores(path, ("arm",), {("arm",): {"RR": found}})


def _times(path: Path) -> None:
    calls = [[0], ["a"], ["q"], [0], [0], [5], [0], [5], [0]]
    table = pa.table([pa.array(one) for one in calls], race_times.COLUMNS.names)
    part = race_times.Part(table.cast(race_times.COLUMNS), {"began_at": "2026-01-01"})
    race_times.write_times(path, [part], ["q"], "0")


def _run(path: Path) -> None:
    rows = [Row("q", Status.ANSWERED, (Hit("d", 1.0, 2.0),)), Row("r", Status.ANSWERED)]
    runs.write_run(Run.of("arm", rows), path)


_SEEDS: dict[str, tuple[Read, str]] = {
    "documents": (lambda p: list(jsonl.documents(p)), '{"_id": "1", "text": "a", "m": [1.5]}\n'),
    "queries": (lambda p: list(jsonl.queries(p)), '{"query_id": "1", "text": "a", "params": {}}\n'),
    "trec qrels": (trec.qrels, "q 0 d 1\nq 0 e 0\n"),
    "trec run": (lambda p: trec.read_run(p, "arm"), "q Q0 d 1 2.5 tag\nq Q0 e 2 -1e3 tag\n"),
    "beir qrels": (beir.qrels, "query-id\tcorpus-id\tscore\nq\td\t1\n"),
    "topics": (topics.tagged, "<top>\n<num> Number: 1\n<title> words\n</top>\n"),
    "topic table": (topics.table, "1\twords\n"),
    "mbox": (mbox.read, "From a\nSubject: =?utf-8?q?=C3=A9?=\nContent-Type: text/html\n\n<p>a\n"),
    "quepid": (quepid.read, 'query,docid,rating\n"a, b",d,1\n'),
    "rank-eval": (
        rank_eval.read,
        '{"requests": [{"id": "q", "params": {"q": "a"}, "ratings": [{"_id": "d", "rating": 1}]}]}',
    ),
    "judgement list": (
        opensearch.read,
        '{"judgmentRatings": [{"query": "a", "ratings": [{"docId": "d", "rating": "1.0"}]}]}',
    ),
    "ltr": (ltr.read, "# qid:1: words\n3 qid:1 # d\n"),
    "card": (_within(card.FILE, card.read), _text("datasets/python-docs/card.toml")),
    "policy": (load_policy, _text("policy/pairwise.toml")),
    "accepted": (
        shadow_files.read_suppressions,
        '[[accepted]]\nclass = "tie_order"\nreason = "r"\n',
    ),
    "watched": (shadow_files.read_bounds, _text("policy/watch.toml")),
    "arm": (lambda p: arms.load(str(p), p.parent), _text("engines/arms/fts5.toml")),
    "params": (params.read, PARAMS),
    "dvc.lock": (_within("dvc.lock", lambda p: check_recorded(p, "toy")), "stages:\n  a@toy: {}\n"),
    "ledger": (_within(migrate_ledger.FILE, migrate_ledger.read), '{"format": 1, "entries": []}'),
    "journal": (_within(".thing.journal", _changed), '{"what": "", "files": [["in/a", "", "b"]]}'),
    "switch": (value_in, "# a comment\nSEARCH_ENGINE=fts5\n"),
    "pool": (_pool, "q 0 d 1\n"),
    "pairs": (_pairs, _PAIR),
    "history": (history.read, '{"format": 1, "dataset": "toy"}\n'),
    "load": (load_files.read_history, '{"format": 1}\n'),
    "pins": (_within("p.pins.json", lambda p: pins.read(p / "p.toml")), "{}"),
    "arrivals": (lambda p: arrivals.recorded(p, [Query("q", "a")]), '{"at_s":1,"query_id":"q"}\n'),
    "manifest": (_within(manifest.FILE, manifest.read), '{"engine": "fts5", "documents": 1}'),
    "stream": (
        _within("degradations.000001.jsonl", lambda p: list(streams.records(p, Degradation))),
        _TRIAL,
    ),
    "labels": (
        labels.read,
        '{"query_id": "q", "doc_id": "d", "grade": 1, "kind": "machine", "by": "grader"}\n',
    ),
    "clicks": (
        _within(clicks.FILE, clicks.read),
        _CLICKED,
    ),
    "query log": (
        lambda p: list(querylog.lines(p, "jsonl", querylog.Fields())),
        '{"query": "a", "results": 3}\n',
    ),
    "judge": (judges.read, OVERLAP),
    "space": (
        space.read,
        _SPACE,
    ),
    "viewers": (callers.read, f'[viewers.ada]\nagent = "ada"\ntoken_sha256 = "{"0" * 64}"\n'),
    "shadow settings": (shadow_files.read_settings, _text("policy/shadow.toml")),
    "reading": (shadow_files.read_reading, _text("examples/shadow/http.toml")),
    "means": (read_means, '{"fts5": {"RR": {"mean": 0.5, "low": 0.1, "high": 0.9, "queries": 2}}}'),
    "json": (formats.json_file, '{"a": [1, 2.5e3, null, "\\u00e9"]}'),
    "toml": (formats.toml_file, "a = 1\n[b.c]\nd = [1.5, 'e', 2026-01-01]\n"),
    "yaml": (formats.yaml_file, "a: 1\nb: {c: [1.5, e, 2026-01-01]}\n"),
}
READERS: dict[str, tuple[Read, bytes]] = {
    **{name: (read, text.encode()) for name, (read, text) in _SEEDS.items()},
    "packed documents": (lambda p: list(jsonl.documents(p)), gzip.compress(b'{"_id": "1"}\n')),
    "run": (runs.read_run, _written(_run)),
    "scores": (lambda p: score_table.read_scores(p, ("arm",)), _written(_scores)),
    "times": (race_times.read_times, _written(_times)),
}
"""What reads a file, and may rename it; and the text of a file that it reads."""
