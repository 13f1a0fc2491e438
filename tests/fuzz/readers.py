"""Every reader of files that strangers may have written, by a name, and a file that it reads."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from harness.clicks import credit as clicks
from harness.core import folders, formats
from harness.core.engine import Hit
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.corpus import beir, card, exchange, judgements, mbox, runs, trec
from harness.judge import machine
from harness.load import trial as load_trial
from harness.logs import querylog
from harness.migrate import ledger
from harness.pipeline import params, race
from harness.pipeline.receipts import check_recorded
from harness.policy import validity
from harness.policy.load import load_policy
from harness.report import trends
from harness.shadow import log, settings
from harness.shadow.record import Degradation
from harness.tune import stage as tuning
from harness_engines import contract
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.pipeline import scope
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from tests.make.desk import ENDPOINT
from tests.make.toy import PARAMS, SPACE
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
    with folders.changing(folder / "thing", within=[folder / "in"], what="nothing"):
        pass


def _pool(path: Path) -> object:
    judgements.texts_path(path).write_text(_PAIR)
    return judgements.read_pool(path)


def _pairs(path: Path) -> object:
    path.rename(path.with_name("p.jsonl"))
    path.with_name("p").write_text("q 0 d ?\n")
    return judgements.read_pool(path.with_name("p"))


_PAIR = json.dumps({
    "doc_id": "d", "narrows": 0.5, "query": "q", "query_id": "q", "scale": [0, 1], "snippet": "s",
    "title": "t",
}) + "\n"  # fmt: skip
_CLICKED = """\
{"id": "1", "at": "2026-01-01T00:00:00+00:00", "session": "1", "query": "a", "arms": ["a", "b"], \
"documents": ["d"], "teams": [0]}
{"id": "1", "document": "d"}
"""
_RANK_EVAL = """\
{"requests": [{"id": "q", "params": {"q": "a"}, "ratings": [{"_id": "d", "rating": 1}]}]}"""
_LABEL = '{"query_id": "q", "doc_id": "d", "grade": 1, "kind": "machine", "by": "grader"}\n'
_STREAM = "degradations.000001.jsonl"
_TRIAL = '{"format":1,"number":1,"writer":"w","at":1,"arm":"shadow","kind":"fault","cause":"c"}\n'


def _written(write: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory() as folder:
        write(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _scores(path: Path) -> None:
    found = Scores("RR", ("q", "r"), np.array([1.0, 0.25]), {"no hits": ("s",)})
    runs.ARM_SCORES.write(path, {("arm",): {"RR": found}})


def _times(path: Path) -> None:
    calls = [[0], ["a"], ["q"], [0], [0], [5], [0], [5], [0]]
    table = pa.table([pa.array(one) for one in calls], race.COLUMNS.names)
    part = race.ProcessPart(table.cast(race.COLUMNS), {"began_at": "2026-01-01"})
    race.write_times(path, [part], ["q"], "0")


def _run(path: Path) -> None:
    rows = [Row("q", Status.ANSWERED, (Hit("d", 1.0, 2.0),)), Row("r", Status.ANSWERED)]
    runs.write_run(Run.of("arm", rows), path)


_SEEDS: dict[str, tuple[Read, str]] = {
    "documents": (lambda p: list(beir.documents(p)), '{"_id": "1", "text": "a", "m": [1.5]}\n'),
    "queries": (lambda p: list(beir.queries(p)), '{"query_id": "1", "text": "a", "params": {}}\n'),
    "trec qrels": (trec.qrels, "q 0 d 1\nq 0 e 0\n"),
    "trec run": (lambda p: trec.read_run(p, "arm"), "q Q0 d 1 2.5 tag\nq Q0 e 2 -1e3 tag\n"),
    "beir qrels": (beir.qrels, "query-id\tcorpus-id\tscore\nq\td\t1\n"),
    "topics": (trec.tagged, "<top>\n<num> Number: 1\n<title> words\n</top>\n"),
    "topic table": (trec.table, "1\twords\n"),
    "mbox": (mbox.read, "From a\nSubject: =?utf-8?q?=C3=A9?=\nContent-Type: text/html\n\n<p>a\n"),
    "quepid": (exchange.read_quepid, 'query,docid,rating\n"a, b",d,1\n'),
    "rank-eval": (exchange.read_rank_eval, _RANK_EVAL),
    "card": (_within(card.FILE, card.read), _text("datasets/python-docs/card.toml")),
    "policy": (load_policy, _text("policy/pairwise.toml")),
    "accepted": (settings.read_suppressions, '[[accepted]]\nclass = "tie_order"\nreason = "r"\n'),
    "watched": (settings.read_bounds, _text("policy/watch.toml")),
    "arm": (lambda p: arms.load(str(p), p.parent), _text("engines/harness_engines/arms/fts5.toml")),
    "params": (params.read, PARAMS),
    "dvc.lock": (_within("dvc.lock", lambda p: check_recorded(p, "toy")), "stages:\n  a@toy: {}\n"),
    "ledger": (_within(ledger.LEDGER_FILE, ledger.read), '{"format": 1, "entries": []}'),
    "journal": (_within(".thing.journal", _changed), '{"what": "", "files": [["in/a", "", "b"]]}'),
    "switch": (value_in, "# a comment\nSEARCH_ENGINE=fts5\n"),
    "pool": (_pool, "q 0 d 1\n"),
    "pairs": (_pairs, _PAIR),
    "history": (trends.read, '{"format": 1, "dataset": "toy"}\n'),
    "load": (load_trial.TRIALS.read, '{"format": 1}\n'),
    "pins": (_within("p.pins.json", lambda p: validity.read_pins(p / "p.toml")), "{}"),
    "manifest": (_within(contract.FILE, contract.read), '{"engine": "fts5", "documents": 1}'),
    "stream": (_within(_STREAM, lambda p: list(log.records(p, Degradation))), _TRIAL),
    "labels": (judgements.read_labels, _LABEL),
    "clicks": (_within(clicks.FILE, clicks.read), _CLICKED),
    "query log": (
        lambda p: list(querylog.lines(p, "jsonl", querylog.Fields())),
        '{"query": "a", "results": 3}\n',
    ),
    "judge": (machine.JUDGES.read, ENDPOINT),
    "space": (tuning.read, SPACE),
    "viewers": (
        scope.read_callers,
        f'[viewers.ada]\nagent = "ada"\ntoken_sha256 = "{"0" * 64}"\n',
    ),
    "shadow settings": (settings.read_settings, _text("policy/shadow.toml")),
    "reading": (settings.read_reading, _text("examples/shadow/http.toml")),
    "means": (
        runs.MEANS.read,
        '{"fts5": {"RR": {"mean": 0.5, "low": 0.1, "high": 0.9, "queries": 2}}}',
    ),
    "json": (formats.json_file, '{"a": [1, 2.5e3, null, "\\u00e9"]}'),
    "toml": (formats.toml_file, "a = 1\n[b.c]\nd = [1.5, 'e', 2026-01-01]\n"),
    "yaml": (formats.yaml_file, "a: 1\nb: {c: [1.5, e, 2026-01-01]}\n"),
}
READERS: dict[str, tuple[Read, bytes]] = {
    **{name: (read, text.encode()) for name, (read, text) in _SEEDS.items()},
    "packed documents": (lambda p: list(beir.documents(p)), gzip.compress(b'{"_id": "1"}\n')),
    "run": (runs.read_run, _written(_run)),
    "scores": (runs.ARM_SCORES.read, _written(_scores)),
    "times": (race.read_times, _written(_times)),
}
"""What reads a file, and may rename it; and the text of a file that it reads."""
