"""A small project with thorns, and the commands that are run in it.

Its queries have ties across the cut, lost answers, near duplicates, intents, no relevant document,
or too few; its arms fail, come late, show twice, or answer for another. Four arms are TREC runs and
four are engines whose times are exact. All is drawn with one seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.source import ROOT

WORDS = [f"word{at}" for at in range(300)]
DOCUMENTS = [f"d{at}" for at in range(400)]
QUERIES = 220
HERE = Path(__file__).with_name("thorns")


Grades = dict[str, dict[str, int]]
Step = tuple[str, str, str]
"""Control, candidate, and a line a gate: its name, its rule, its settings."""


def policy(head: str, *steps: Step) -> str:
    """Write a policy; ``head`` has settings that take the place of the usual ones."""
    own = {line.partition(" =")[0] for line in head.splitlines()}
    usual = [line for line in HEAD.splitlines() if line.partition(" =")[0] not in own]
    text = "\n".join(["[policy]", *usual, head, "" if "[" in head else PREMISES])
    for control, candidate, gates in steps:
        ends = f'control = "{control}"\ncandidate = "{candidate}"\ntaken = false\n'
        text += f'\n[[step]]\nname = "to {candidate}"\n{ends}'
        for line in gates.strip().splitlines():
            name, rule, *settings = line.split("; ")
            told = "".join(f"{one}\n" for one in settings)
            text += f'\n[[step.gate]]\nname = "{name}"\nrule = "{rule}"\n{told}'
    return text


HEAD = """\
name = "thorns"
version = 1
seed = 7
confidence = 0.8
resamples = 1000
power = 0.8
evidence_days = 14
attempts = 10
largest_cluster = 0.001
"""
PREMISES = """\
[policy.premises]
drawn = "made by code"
needs = "each was drawn by itself"
judges = "none were asked"
starts = "time stands still"
slowest = "one in twenty-nine is slow"
"""


def gates() -> dict[str, str]:
    """Read the gates, by heading."""
    parts = (HERE / "gates.txt").read_text("utf-8").split("\n[")[1:]
    return {name: body for name, _, body in (part.partition("]\n") for part in parts)}


ARMS = {
    "serving": "think_ms = 4.0; swaps = 0; seed = 1",
    "quick": "think_ms = 2.5; swaps = 4; seed = 2; empty = 41",
    "flaky": "think_ms = 6.0; swaps = 12; seed = 3; fails = 9; late = 31; doubled = 7",
    "other": "think_ms = 4.1; swaps = 1; seed = 4",
    "foreign": "think_ms = 4.1; swaps = 1; seed = 4; foreign = 23",
}


def queries(of: random.Random) -> list[dict[str, Any]]:
    """Draw queries: names, words, sentences, near duplicates, shouts; a few of one intent."""
    found: list[dict[str, Any]] = []
    for at in range(QUERIES):
        base = " ".join(of.sample(WORDS, 4))
        text = [
            f"mod_{at}.func{at}()",
            base,
            f"how do I find the {base} in my {of.choice(WORDS)}?",
            f"{found[-3]['text']} please" if at > 10 else base,
            base.upper(),
        ][at % 5]
        slices = ["odd"] if at % 2 else ["even", "rare"] if at % 26 == 0 else ["even"]
        intent = {"intent": f"need {at // 50}"} if at % 12 == 1 else {}
        found.append({"_id": f"q{at}", "text": text, "slices": slices, **intent})
    return found


def judgements(of: random.Random, asked: Sequence[Mapping[str, Any]]) -> Grades:
    """Grade fourteen documents of each query; of every seventeenth none is relevant."""
    found: Grades = {}
    for at, query in enumerate(asked):
        few = of.sample(DOCUMENTS, 2 if at % 23 == 5 else 14)
        grades = [0 if at % 17 == 0 else 3 if n == 0 else 2 if n < 3 else n < 6 for n in range(14)]
        found[query["_id"]] = {doc: int(grade) for doc, grade in zip(few, grades, strict=False)}
    return found


def ranked(at: int, grades: Mapping[str, int], unjudged: float) -> list[str]:
    """Rank what is judged best first, with unjudged documents between."""
    of = random.Random(at)
    rest = [doc for doc in DOCUMENTS if doc not in grades]
    of.shuffle(rest)
    found: list[str] = []
    for doc in [*sorted(grades, key=lambda doc: (-grades[doc], doc)), *rest[:90]]:
        if of.random() < unjudged:
            found.append(rest[90 + len(found) % 200])
        found.append(doc)
    return list(dict.fromkeys(found))[:100]


@dataclass(frozen=True)
class Faults:
    """What is wrong with a run: every so many queries tie in fours, are lost, have three hits."""

    seed: int
    swaps: int
    ties: int
    lost: int
    short: int
    unjudged: float


def trec(name: str, faults: Faults, lists: Sequence[tuple[str, list[str]]]) -> str:
    """Write a run."""
    of, lines = random.Random(faults.seed), []
    for at, (query_id, best) in enumerate(lists):
        if faults.lost and at % faults.lost == 0:
            continue
        found = list(best)
        for _ in range(faults.swaps):
            one = of.randrange(min(20, len(found) - 1))
            found[one], found[one + 1] = found[one + 1], found[one]
        short, ties = (every and at % every == 0 for every in (faults.short, faults.ties))
        for rank, doc in enumerate(found[:3] if short else found):
            score = 100 - (rank // 4 * 4 if ties else rank)
            lines.append(f"{query_id} Q0 {doc} {rank + 1} {score} {name}\n")
    return "".join(lines)


RUNS = {
    "ctl": Faults(seed=1, swaps=6, ties=0, lost=0, short=0, unjudged=0.002),
    "near": Faults(seed=1, swaps=8, ties=9, lost=0, short=0, unjudged=0.004),
    "worse": Faults(seed=2, swaps=30, ties=4, lost=37, short=11, unjudged=0.25),
    "gone": Faults(seed=3, swaps=6, ties=0, lost=8, short=7, unjudged=0.03),
}


def write(root: Path) -> None:
    """Write the project: data, runs, arms, policies."""
    of, data = random.Random(3), root / "thorns"
    (data / "qrels").mkdir(parents=True)
    texts = [
        (" ".join(of.choices(WORDS, k=4)), " ".join(of.choices(WORDS, k=30))) for _ in DOCUMENTS
    ]
    documents = [
        {"_id": one, "title": a, "text": b} for one, (a, b) in zip(DOCUMENTS, texts, strict=True)
    ]
    asked = queries(of)
    for name, rows in (("corpus", documents), ("queries", asked)):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    grades = judgements(of, asked)
    lines = [f"{q}\t{d}\t{g}\n" for q, of_one in grades.items() for d, g in of_one.items()]
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    for name, faults in RUNS.items():
        lists = [(q, ranked(n, own, faults.unjudged)) for n, (q, own) in enumerate(grades.items())]
        (root / f"{name}.trec").write_text(trec(name, faults, lists))
    table = {q["text"]: ranked(n, grades[q["_id"]], 0.05)[:60] for n, q in enumerate(asked)}
    (root / "answers.json").write_text(json.dumps(table))
    for name, settings in ARMS.items():
        told = f'answers = "{root / "answers.json"}"\n' + settings.replace("; ", "\n")
        head = f'summary = "{name}"\nstack = "recorded_engine.py"\n[settings]\n'
        (root / f"{name}.toml").write_text(head + told + "\n")
    for name in ("recorded_engine.py", "params.yaml"):
        (root / name).write_text((HERE / name).read_text("utf-8"))
    kept = gates()
    few = [("ctl", name, kept["few"]) for name in RUNS if name != "ctl"]
    all_of = kept["few"] + kept["quality"]
    whole = [("ctl", "near", all_of), ("ctl", "worse", all_of), few[2]]
    timed = [("serving", name, kept["timed"]) for name in ("quick", "flaky", "other")]
    loose = "chained = false"
    for name, text in {
        "thorns": policy(loose, *whole),
        "chain": policy("", *few),
        "alone": policy(f'clusters = "none"\n{loose}', *few[:2]),
        "given": policy(f'clusters = "given"\n{loose}', *few),
        "large": policy("largest_cluster = 0.02", few[0]),
        "larger": policy("largest_cluster = 0.01\nconfidence = 0.9\nattempts = 2", few[0]),
        "asked": policy('declared = "no log"\nattempts = 1\n[policy.evidence]\nk = 100', few[0]),
        "one": policy("", few[0]),
        "timed": policy(f"{loose}\nattempts = 4", *timed),
        "traffic": policy("", ("serving", "quick", kept["traffic"])),
    }.items():
        (root / f"{name}.toml").write_text(text)
    (root / "policy").mkdir()
    for name in ("watch.toml", "accepted.toml"):
        (root / "policy" / name).write_text((ROOT / "policy" / name).read_text("utf-8"))
