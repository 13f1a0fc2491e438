"""The commands of each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.oracle import golden_thorns, golden_traffic

Line = str | Callable[[Path], str]
Scene = tuple[Callable[[Path], None], Sequence[Line]]
TREC = " ".join(f"--trec-run {name}={name}.trec" for name in golden_thorns.RUNS)
ARMS = "serving.toml,quick.toml,flaky.toml,other.toml"
BEGUN = f"run --dataset thorns --forms {TREC} --policy thorns.toml --out a"
POLICIES = ("chain", "alone", "given", "larger", "large", "asked", "none")
THORNS: Sequence[Line] = (
    BEGUN,
    *(f"decide --out a --policy {name}.toml" for name in POLICIES),
    "pool --run a --control ctl --candidate worse --measure nDCG@10 --size 40 --out pool.tsv",
    "pool --run a --control ctl --candidate worse --measure RR@10 --size 20 --order sample --out s",
    "convert thorns --to ltr --out ltr",
    "--help",
)
CHECKED: Sequence[Line] = (
    BEGUN,
    "verify --out a",
    "plan --out a --policy thorns.toml",
    "export --out a --control ctl --to exported",
    f"run --dataset thorns {TREC} --missing empty --control ctl --policy one.toml --out e",
    "measure a/runs/near.parquet --qrels e/work/build/thorns/data/qrels.trec --measures AP@5,RR@10",
)
TRAFFIC: Sequence[Line] = (
    "run --dataset thorns --arms foreign.toml --policy one.toml --control foreign --out f",
    f"run --dataset thorns --arms {ARMS} --race --policy timed.toml --out b",
    "load --out b --arm serving.toml --arm quick.toml --rate 60",
    "decide --out b --policy timed.toml",
    golden_traffic.write_log,
    "decide --out b --policy traffic.toml",
    "shadow watch log --once --exit-code",
    "shadow report log --out shadow",
)
SCENES: Mapping[str, Scene] = {
    "thorns": (golden_thorns.write, THORNS),
    "checked": (golden_thorns.write, CHECKED),
    "traffic": (golden_thorns.write, TRAFFIC),
}
