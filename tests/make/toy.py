"""A whole project with a small data set, and the stages run on it; for tests of the pipeline."""

import random
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.cli.project import Project
from harness.core.gate import StepDecision
from harness.pipeline.compare import compare
from harness.pipeline.evidence import pairs_of
from harness.pipeline.gate import gate
from harness.pipeline.imports import ImportTarget, import_beir
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.pipeline.params import Params
from harness.pipeline.prepare import prepare
from harness.pipeline.race import race
from harness.pipeline.replay import replay
from harness.pipeline.score import score
from harness.replay.machine import Advance, Work
from tests.make import write_beir
from tests.steady import steady

NAME = "toy"
ARMS = ("fts5", "tantivy", "hash-hybrid")
CONTROL, CANDIDATE = "fts5", "tantivy"
WORDS = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("lo", "ra", "ti")]
DOCUMENTS, QUERIES = 60, 40
ASKED = 3
"""Words of a query."""
NOTHING = "q99"
"""A query whose words are in no document: both arms rightly show nothing."""
TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PARAMS, HEAD, STEP, WHO, GOOD, ALIKE, RACED, SPACE = TEXTS.values()
"""Of the project, of its policy, whose parts tests join and change, and of what may be tuned."""
GATES = WHO + GOOD + ALIKE
FAILS = GATES.replace("floor = 0.6", "floor = 0.999")
UNSURE = GATES.replace("margin = 0.15", "margin = 0.15\nslice = 'identifier'")


def here(work: Work, advance: Advance) -> None:
    """Do the work of a fresh process in this one, where a test can reach it and its clock."""
    with steady():
        work(advance)


@dataclass(frozen=True)
class Toy:
    """A project in a folder of its own."""

    project: Project

    @property
    def root(self) -> Path:
        return self.project.root

    @property
    def layout(self) -> Layout:
        return self.project.layout(NAME)

    @property
    def params(self) -> Params:
        return self.project.params

    @property
    def cache(self) -> Path:
        return self.project.cache

    def measure(self, arms: Sequence[str] = ARMS, *, timed: bool = False) -> None:
        """Run the stages from ``prepare`` to ``compare``, and ``race``."""
        data, qrels = self.root / "datasets" / NAME, self.root / "qrels" / NAME
        prepare(data, qrels, self.layout.data)
        for arm in arms:
            index(self.layout, arm, self.cache)
            replay(self.layout, arm, self.cache, self.params.replay)
        self.judge_again(timed=timed)

    def judge_again(self, *, timed: bool = False) -> None:
        """Run ``score`` and ``compare``, and ``race``, on the runs that are there."""
        score(self.layout, self.params.arms, self.params.score)
        self.compare_again()
        if timed:
            self.race()

    def compare_again(self) -> None:
        """Run ``compare`` on the scores that are there."""
        policy = self.project.policy()
        pairs = tuple(dict.fromkeys(pairs_of(policy).values()))
        compare(self.layout, pairs, self.params.compare, policy.rules)

    def race(self) -> None:
        params = self.params
        arms = self.project.raced()
        race(self.layout, arms, self.cache, params.race, params.replay.time_limit_s, run=here)

    def decide(self, *, later_s: int = 0) -> StepDecision:
        """Run ``gate``, and give the decision of its one step; of some seconds later, if asked."""
        now = datetime.now(UTC) + timedelta(seconds=later_s)
        (decision,) = gate(self.layout, self.project.subject(NAME), now=now).decisions
        return decision

    def untimed(self) -> None:
        """Take away the gate that rests on a clock, and the race."""
        self.layout.race_receipt.unlink(missing_ok=True)
        self.policy(HEAD + STEP + GATES)

    def policy(self, text: str) -> None:
        (self.root / "policy" / "toy.toml").write_text(text)

    def copied(self, to: Path) -> "Toy":
        """Copy the whole project."""
        shutil.copytree(self.root, to)
        return Toy(Project(to))


def make(root: Path) -> Toy:
    """Write a project whose data set is imported and not yet prepared."""
    (root / "policy").mkdir(parents=True)
    (root / "params.yaml").write_text(PARAMS)
    (root / "policy" / "toy.toml").write_text(HEAD + STEP + GATES + RACED)
    (root / "policy" / "pairwise.toml").write_text(HEAD + STEP + GATES)
    write_data(root / "beir")
    to = NAME, root / "datasets", root / "qrels", "test"
    import_beir(root / "beir", ImportTarget(*to, "Toy", "made by a test", "CC0-1.0"))
    return Toy(Project(root))


def write_data(folder: Path) -> None:
    """Write documents of drawn words; a query is words of one document, which answers it."""
    rng = random.Random(5)
    texts = [rng.choices(WORDS, k=rng.randint(12, 30)) for _ in range(DOCUMENTS)]
    queries, judged = [], []
    for number in range(QUERIES):
        own = rng.randrange(DOCUMENTS)
        asked = rng.sample(sorted(set(texts[own])), ASKED)
        kind = "identifier" if number % 4 == 0 else "natural-language"
        query_id = f"q{number:02}"
        queries.append({"_id": query_id, "text": " ".join(asked), "slices": [kind]})
        for doc, words in enumerate(texts):
            shared = len(set(asked) & set(words))
            grade = 2 if doc == own else int(shared > 1)
            judged.append((query_id, f"d{doc:02}", grade))
    queries.append({"_id": NOTHING, "text": "xyzzy plugh", "slices": ["identifier"]})
    judged.append((NOTHING, "d00", 1))
    documents = [
        {"_id": f"d{doc:02}", "title": " ".join(words[:2]), "text": " ".join(words[2:])}
        for doc, words in enumerate(texts)
    ]
    write_beir(folder, documents, queries, judged)
