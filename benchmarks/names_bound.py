"""Whether ``hybrid`` harms names: the test that decision 168 fixed before a number was known.

    python3 run.py python benchmarks/names_bound.py FOLDER [FOLDER ...] --out out/names

Each FOLDER is a set that ``benchmarks/names_sets.py`` wrote. ``hybrid`` as it is shipped answers
each name, and so do the arms of words. Prints nDCG@10 of each arm, then ``hybrid`` less unstemmed
words and less the best arm of words, which is named after the fact by the names of each package.
Names that end alike (``merge``, ``DataFrame.merge``) are one intent, and are resampled together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from benchmarks.fusion import pooled
from benchmarks.legs import Collection, Leg
from harness import Inference, compare, score
from harness.core.qrels import Qrels
from harness.core.scores import Estimate

MEASURE = "nDCG@10"
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261124)
BOUND, NORMAL = -0.02, 1.96
"""What is allowed; standard errors of an interval's half width."""
SHOWN = 100
"""Hits asked for, as a replay does."""
NAME = "id:"
HYBRID, UNSTEMMED, BEST = "hybrid", "tantivy", "the best arm of words"
WORDS = (UNSTEMMED, "tantivy-stem", "fts5", "fts5-porter")
FORMS: Mapping[str, Callable[[str], bool]] = {
    "as code has it": lambda text: "." in text,
    "one word": lambda text: "." not in text and " " not in text,
    "several words": lambda text: " " in text,
}


@dataclass(frozen=True, eq=False)
class Names:
    """The names of a package, and what each arm shows for them."""

    collection: Collection

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Names by id."""
        return {q: text for q, text in self.collection.queries.items() if q.startswith(NAME)}

    @cached_property
    def runs(self) -> Mapping[str, Leg]:
        """Ranks, negative, by arm, query and document; kept, so that a second call is quick."""
        return {
            arm: self.collection.kept(f"names-{arm}", partial(self._asked, arm))
            for arm in (HYBRID, *WORDS)
        }

    def _asked(self, arm: str) -> Leg:
        with self.collection.opened(arm) as searcher:
            return {
                q: {
                    hit.doc_id: -float(rank)
                    for rank, hit in enumerate(searcher.search(text, SHOWN).hits)
                }
                for q, text in self.texts.items()
            }

    @cached_property
    def qrels(self) -> Qrels:
        """Judgements of the names."""
        return Qrels({q: self.collection.qrels.grades[q] for q in self.texts})

    @cached_property
    def means(self) -> Mapping[str, float]:
        """nDCG@10 by arm; a name without an answer counts 0."""
        found = {a: score(r, self.qrels, [MEASURE]).scores[MEASURE] for a, r in self.runs.items()}
        return {arm: float(of.values.sum()) / len(self.texts) for arm, of in found.items()}

    @cached_property
    def best(self) -> str:
        """The arm of words with the highest nDCG@10."""
        return max(WORDS, key=lambda arm: self.means[arm])

    def less(self, arm: str) -> Estimate:
        """Compare ``hybrid`` with an arm over all names of the package."""
        return less([self], {self: arm}, lambda _: True)


def less(
    every: Sequence[Names], before: Mapping[Names, str], form: Callable[[str], bool]
) -> Estimate:
    """Compare ``hybrid`` with an arm of each package over the names of a form, all together."""
    kept = [(one, q) for one in every for q, text in one.texts.items() if form(text)]
    keys = {(one, q): f"{one.collection.name}:{q}" for one, q in kept}
    intents = {
        key: f"{one.collection.name}:{q.rpartition('.')[2].lower()}"
        for (one, q), key in keys.items()
    }
    first, second = (
        {keys[one, q]: one.runs[arm(one)][q] for one, q in kept}
        for arm in (before.__getitem__, lambda _: HYBRID)
    )
    grades = Qrels({keys[one, q]: one.qrels.grades[q] for one, q in kept})
    return compare(first, second, grades, MEASURE, sure=SURE, intents=intents).estimate


def lines(every: Sequence[Names]) -> Iterator[str]:
    """Yield nDCG@10 of each arm, the differences by package and by form, and what is met."""
    arms = (HYBRID, *WORDS)
    yield f"| package | documents | names | {' | '.join(arms)} | less {UNSTEMMED} | less {BEST} |"
    yield "|---|" + "---|" * (len(arms) + 4)
    compared: dict[str, Mapping[Names, str]] = {
        UNSTEMMED: dict.fromkeys(every, UNSTEMMED),
        BEST: {one: one.best for one in every},
    }
    each = {side: [one.less(arms[one]) for one in every] for side, arms in compared.items()}
    for at, one in enumerate(every):
        means = " | ".join(f"{one.means[arm]:.4f}" for arm in arms)
        sides = [_cell(of[at].value, of[at].low, of[at].high) for of in each.values()]
        head = f"{one.collection.name} | {len(one.collection.documents)} | {len(one.texts)}"
        yield f"| {head} | {means} | {sides[0]} | {sides[1]} ({one.best}) |"
    for side, estimates in each.items():
        errors = [(of.high - of.low) / (2 * NORMAL) for of in estimates]
        mean = pooled([of.value for of in estimates], errors)
        whole = less(every, compared[side], lambda _: True)
        yield f"\nless {side}"
        asks = {
            f"mean over packages {_cell(*mean)}": mean[1] > BOUND,
            f"all names {_cell(whole.value, whole.low, whole.high)}": whole.low > BOUND,
            "each package": all(of.high > BOUND for of in estimates),
        }
        yield from (f"- {ask}: {'yes' if met else 'no'}" for ask, met in asks.items())
        for form, has in FORMS.items():
            of = less(every, compared[side], has)
            yield f"- {form}: {_cell(of.value, of.low, of.high)}, {of.n} names"
    yield ""


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"


def main() -> None:
    """Measure every folder and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if len(args.folders) < 2:  # noqa: PLR2004  a mean over one collection has no interval
        parser.error("give two collections or more")
    every = [Names(Collection(folder, "test", args.out)) for folder in args.folders]
    text = "\n".join(lines(every))
    (args.out / "names_bound.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
