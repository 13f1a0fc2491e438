"""The commands of each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.oracle import golden_thorns, golden_traffic
from tests.source import ROOT

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
    golden_traffic.write_log,
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
