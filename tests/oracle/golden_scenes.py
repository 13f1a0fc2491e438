"""The commands of each scenario, and a log of live comparisons that some of them read.

The log is drawn with one seed: two days and a half, bursts, robots, losses.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle import golden_thorns
from tests.source import ROOT

BEGAN_NS, DAY_NS = 1_794_873_600 * 1_000_000_000, 86_400 * 1_000_000_000
"""2026-11-17; the world of the goldens is at noon of the 20th."""
PAIRS, DAYS = 1600, 2.6
LOGS = ("log", "other-log")


def _side(of: random.Random, by: str, status: str, ms: float, hits: int) -> dict[str, Any]:
    answer = hashlib.sha256(str(of.randrange(200)).encode()).hexdigest()
    answered = status == "answered"
    return {
        "status": status, "elapsed_ns": int(ms * 1e6), "hits": hits if answered else 0,
        "duplicates": int(answered and of.random() < 0.01),
        "top": round(of.random(), 3) if answered and hits else None,
        "top_raw": round(10 * of.random(), 3) if answered and hits else None,
        "answer": answer if answered else "", "served_by": by if answered else "",
        "generation": "g1",
    }  # fmt: skip


def _pairs(
    of: random.Random, writer: str, control: str, candidate: str
) -> Iterator[Mapping[str, Any]]:
    for number in range(1, PAIRS + 1):
        if number % 211 == 0:
            continue  # lost
        at = BEGAN_NS + int(writer, 16) + int((number - 1) / PAIRS * DAYS * DAY_NS)
        bad = 700 < number < 730 or of.random() < 0.03
        outcome = "error" if bad else of.choices(
            ("exact", "overlap", "reorder", "timeout", "shed", "skipped", "stale", "shadow_empty"),
            (50, 30, 10, 2, 3, 2, 2, 1),
        )[0]  # fmt: skip
        ours = _side(of, control if number % 97 else "e1" * 32, "answered", of.uniform(3, 9), 10)
        status = {"error": "failed", "timeout": "timed_out"}.get(outcome, "answered")
        ms = 3000.0 if outcome == "timeout" else of.uniform(2, 12)
        by = candidate if number % 89 else "ab" * 32
        theirs = _side(of, by, status, ms, 0 if outcome == "shadow_empty" else 10)
        asked = outcome not in {"shed", "skipped"}
        overlap = {"exact": 1.0, "reorder": 1.0, "overlap": round(of.uniform(0.3, 0.9), 2)}
        query = hashlib.sha256(str(of.randrange(60) ** 2 // 60).encode()).hexdigest()[:32]
        client = hashlib.sha256(str(of.randrange(9)).encode()).hexdigest()[:32]
        none = 0.0 if outcome == "shadow_empty" else None
        yield {
            "format": 1, "number": number, "writer": writer, "at": at, "served": number * 2,
            "query": query, "slices": ["head"] if number % 3 == 0 else [], "outcome": outcome,
            "reason": "no room" if outcome == "shed" else "not asked" if not asked else "",
            "k": 10, "control": ours, "candidate": theirs if asked else None,
            "jaccard": overlap.get(outcome, none), "rbo": overlap.get(outcome, none),
            "client": client if number % 5 else "",
        }  # fmt: skip


def write_log(root: Path) -> str:
    """Write the logs of the two arms that were indexed, and name the command that reads them."""
    manifests = root / "b" / "work" / "build" / "thorns" / "manifests"
    by = [
        json.loads((manifests / f"{arm}.json").read_text("utf-8")).get("fingerprint", "")
        for arm in ("serving", "quick")
    ]
    for seed, name in enumerate(LOGS):
        folder = root / name
        folder.mkdir()
        (folder / "writer").write_text(f"{seed:012x}\n")
        lines = (
            json.dumps(one, separators=(",", ":"))
            for one in _pairs(random.Random(seed), f"{seed:012x}", *by)
        )
        (folder / "observations.000001.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return f"shadow traffic {' '.join(LOGS)} --from b --control serving --candidate quick"


Line = str | Callable[[Path], str]
Scene = tuple[Callable[[Path], None], Sequence[Line]]
TREC = " ".join(f"--trec-run {name}={name}.trec" for name in golden_thorns.RUNS)
ARMS = "serving.toml,quick.toml,flaky.toml,other.toml"
BEGUN = f"run --dataset thorns --forms {TREC} --policy thorns.toml --out a"
POLICIES = ("chain", "alone", "given", "larger", "large", "asked", "none")
POOL = "pool --from a --control ctl --candidate worse"
THORNS: Sequence[Line] = (
    BEGUN,
    *(f"gate --from a --policy {name}.toml" for name in POLICIES),
    f"{POOL} --measure nDCG@10 --size 40 --out pool.tsv",
    f"{POOL} --measure RR@10 --size 20 --order sample --out s",
    "convert thorns --format ltr --out ltr",
)
CHECKED: Sequence[Line] = (
    BEGUN,
    "verify --from a",
    "plan --from a --policy thorns.toml",
    "export --from a --control ctl --out exported",
    f"run --dataset thorns {TREC} --missing empty --control ctl --policy one.toml --out e",
    "measure a/runs/near.parquet --qrels e/work/build/thorns/data/qrels.trec --measures AP@5,RR@10",
)
TRAFFIC: Sequence[Line] = (
    "run --dataset thorns --arms foreign.toml --policy one.toml --control foreign --out f",
    f"run --dataset thorns --arms {ARMS} --race --policy timed.toml --out b",
    "load --from b --arm serving.toml --arm quick.toml --rate 60",
    "gate --from b --policy timed.toml",
    write_log,
    "gate --from b --policy traffic.toml",
    "shadow watch log --once --exit-code",
    "shadow report log --out shadow",
)
OWN: Mapping[str, Scene] = {
    "thorns": (golden_thorns.write, THORNS),
    "checked": (golden_thorns.write, CHECKED),
    "traffic": (golden_thorns.write, TRAFFIC),
}
SHARED = ROOT.parent / "shared" / "datasets"
LEXICAL = {
    "cosqa": "code.toml --until parity",
    "r-mailing-lists": "messages.toml --until shadow",
    "ubuntu-irc": "messages.toml --until shadow",
    "cranfield": "writing.toml --until planner",
    "scifact": "migration.toml --until shadow",
}
"""What else fits a set than ``pairwise.toml``, up to the first step that needs vectors."""


def scenes() -> Mapping[str, Scene]:
    """Give the commands of each scenario: our own, and one for each shared set that is here."""
    there = sorted(SHARED.glob("*/queries.jsonl*"))
    return {**OWN, **{f"set-{file.parent.name}": _shared(file.parent) for file in there}}


def _shared(folder: Path) -> Scene:
    split = "test" if (folder / "qrels" / "test.tsv").is_file() else "dev"
    run = f"run --dataset {folder} --split {split} --forms --log looks"
    policy, more = ROOT / "policy", LEXICAL.get(folder.name)
    lines = [f"{run} --out a --arms fts5,tantivy --control fts5 --policy {policy}/pairwise.toml"]
    lines += [f"{run} --out b --policy {policy}/{more}"] if more else []
    return (lambda _: None), lines
