"""A small project with thorns, and the commands of each scenario that are run in it.

Its queries have ties across the cut, lost answers, near duplicates, intents, no relevant document,
or too few; its arms fail, come late, show twice, or answer for another. Four arms are TREC runs and
four are engines whose times are exact. All is drawn with one seed.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.make import write_beir
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


HEAD, PREMISES = (HERE / "policy.toml").read_text("utf-8").removeprefix("[policy]\n").split("\n\n")


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
    texts = [
        (" ".join(of.choices(WORDS, k=4)), " ".join(of.choices(WORDS, k=30))) for _ in DOCUMENTS
    ]
    documents = [
        {"_id": one, "title": a, "text": b} for one, (a, b) in zip(DOCUMENTS, texts, strict=True)
    ]
    asked = queries(of)
    grades = judgements(of, asked)
    judged = ((q, doc, grade) for q, of_one in grades.items() for doc, grade in of_one.items())
    write_beir(data, documents, asked, judged)
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
        "one": policy("", few[0]),
        "timed": policy(f"{loose}\nattempts = 4", *timed),
        "traffic": policy("", ("serving", "quick", kept["traffic"])),
    }.items():
        (root / f"{name}.toml").write_text(text)
    (root / "policy").mkdir()
    for name in ("watch.toml", "accepted.toml"):
        (root / "policy" / name).write_text((ROOT / "policy" / name).read_text("utf-8"))


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
TREC = " ".join(f"--trec-run {name}={name}.trec" for name in RUNS)
RACED = "serving.toml,quick.toml,flaky.toml,other.toml"
BEGUN = f"run --dataset thorns --forms {TREC} --policy thorns.toml --out a"
POLICIES = ("chain", "alone", "given", "larger", "large", "none")
POOL = "pool --from a --control ctl --candidate worse"
THORNS: Sequence[Line] = (
    BEGUN,
    *(f"gate --from a --policy {name}.toml" for name in POLICIES),
    f"{POOL} --measure nDCG@10 --size 40 --out pool.tsv",
    f"{POOL} --measure RR@10 --size 20 --order sample --out s",
    "convert thorns --format rank-eval --out rank",
)
CHECKED: Sequence[Line] = (
    BEGUN,
    "verify --from a",
    "plan --from a --policy thorns.toml",
    "export --from a --control ctl --out exported",
    f"run --dataset thorns {TREC} --missing empty --control ctl --policy one.toml --out e",
)
TRAFFIC: Sequence[Line] = (
    "run --dataset thorns --arms foreign.toml --policy one.toml --control foreign --out f",
    f"run --dataset thorns --arms {RACED} --race --policy timed.toml --out b",
    "load --from b --arm serving.toml --arm quick.toml --rate 60",
    "gate --from b --policy timed.toml",
    write_log,
    "gate --from b --policy traffic.toml",
    "shadow report log --out shadow --exit-code",
)
OWN: Mapping[str, Scene] = {
    "thorns": (write, THORNS),
    "checked": (write, CHECKED),
    "traffic": (write, TRAFFIC),
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
    """Return the commands of each scenario: our own, and one for each shared set that is here."""
    there = sorted(SHARED.glob("*/queries.jsonl*"))
    return {**OWN, **{f"set-{file.parent.name}": _shared(file.parent) for file in there}}


def _shared(folder: Path) -> Scene:
    split = "test" if (folder / "qrels" / "test.tsv").is_file() else "dev"
    run = f"run --dataset {folder} --split {split} --forms --log looks"
    policy, more = ROOT / "policy", LEXICAL.get(folder.name)
    lines = [f"{run} --out a --arms fts5,tantivy --control fts5 --policy {policy}/pairwise.toml"]
    lines += [f"{run} --out b --policy {policy}/{more}"] if more else []
    return (lambda _: None), lines
