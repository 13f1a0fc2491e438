"""What every answer owes: known ids, one order, and sameness in another process."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from threading import Barrier

from harness.check.subject import (
    EQUAL,
    EQUAL_TEXT,
    Check,
    CheckSubject,
    NotChecked,
    QueryOutcome,
    ShownHits,
    Violations,
    ask,
    promise_in,
    quoted,
    raised,
    shown,
)
from harness.core.engine import Hit, Searcher
from harness.core.printable import many, one_line
from harness_engines import registry

EMPTY: Mapping[str, str] = {
    "empty": "",
    "a space": " ",
    "NUL": "\0",
    "half a surrogate pair": "\ud800",
}
"""Texts of which nothing is left to search for."""
HOSTILE: Mapping[str, str] = {
    "white space": " \t\n\u00a0\u2003",
    "one quote": '"',
    "three quotes": '"""',
    "open quote": '"water rises',
    "empty phrase": '""',
    "operators alone": "AND OR NOT",
    "operators around a word": "NOT AND water OR",
    "operators one after another": "NOT NOT NOT not",
    "query language": "a:b^~*",
    "a column": "title:water",
    "a function": "NEAR(water sea, 5)",
    "brackets": "((((water",
    "a range": "[a TO z] {1 TO *}",
    "SQL": "'; DROP TABLE search; --",
    "NUL within": "water\0sea",
    "emoji": "😀",
    "joined emoji": "👩\u200d👩\u200d👧\u200d👦",
    "CJK": "東京",
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd",
    "combining marks": "\u0301\u0301 e\u0301",
    "a word newer than SQLite": "\U0001e900\U0001e901",
    "half a surrogate pair in words": "water \udfff sea",
    "punctuation": "!?.,;:-_/\\|@#$%^&*()[]{}<>~`",
    "a minus": "-",
    "a plus": "+",
    "minus and a word": "-water",
    "minus and a phrase": '-"water rises" +',
    "plus and a quote": '+"',
    "both signs": "+-water -+sea",
    "a wildcard": "wat*",
    "a number": "-1e309 0x7f NaN inf",
}
FEWER = (1, 2, 5)
MORE = (1, 10**4, 10**9)
"""Hits asked for beyond the number of documents."""


RETURN = "Let search return Answer(hits, self.manifest.fingerprint) with a tuple of Hit"
BY_BEST = "Order by (-score, doc_id) and cut after that: harness_engines.ranking.by_best does both"
SANITISE = "Quote or remove what your parser reads as syntax before it sees the text"
SETS = (
    "Order by (-score, doc_id). Keep no state between queries, and draw nothing at random"
    " without a fixed seed"
)
ANSWER_CHECKS: list[Check] = []
"""In their order; the later ones run the same queries again, elsewhere."""
promise = partial(promise_in, ANSWER_CHECKS)


def every_answer(one: QueryOutcome, subject: CheckSubject) -> Iterator[str]:
    """Yield what is wrong with one answer, by all that every answer owes."""
    if one.error:
        yield f"{one}: {one.error}"
    of_hits = (_ids(one.hits, subject.known), _scores(one.hits), _order(one.hits), _by_id(one.hits))
    for wrong in chain.from_iterable(of_hits):
        yield f"{one}: {wrong}"
    yield from _identity(one, subject)


@promise("answers", "Every query gets an Answer.", RETURN)
def errors(subject: CheckSubject) -> Iterator[str]:
    """Yield each query that raised, with its error."""
    for one in subject.asked:
        if one.error:
            yield f"{one}: {one.error}"


@promise(
    "finds",
    "A query with words of a document finds something.",
    "Check that build writes every document and that search reads what build wrote",
)
def _finds(subject: CheckSubject) -> Iterator[str]:
    if not any(one.hits for one in subject.answered()):
        yield f"none of {len(subject.asked)} queries with words of the documents has a hit"


@promise(
    "identity",
    "Each answer carries the fingerprint of the index that is open.",
    "Give self.manifest.fingerprint as served_by, and raise instead of falling back",
)
def _identities(subject: CheckSubject) -> Iterator[str]:
    for one in subject.answered():
        yield from _identity(one, subject)


def _identity(one: QueryOutcome, subject: CheckSubject) -> Iterator[str]:
    own = subject.built.fingerprint
    if one.answer and one.answer.served_by != own:
        yield f"{one}: served by {one.answer.served_by[:12]!r}, the index is {own[:12]!r}"


def _ids(hits: Iterable[Hit], known: frozenset[str]) -> Iterator[str]:
    for doc_id, times in Counter(hit.doc_id for hit in hits).items():
        if doc_id not in known:
            yield f"{doc_id!r} is the id of no document"
        if times > 1:
            yield f"{doc_id!r} is shown {times} times"


def _scores(hits: Iterable[Hit]) -> Iterator[str]:
    for hit in hits:
        if not (0.0 <= hit.score <= 1.0 and math.isfinite(hit.raw_score)):
            yield f"{hit.doc_id!r} has the score {hit.score!r} (raw {hit.raw_score!r})"


def _order(hits: Iterable[Hit]) -> Iterator[str]:
    for before, after in pairwise(hits):
        if before.score < after.score:
            yield f"{after.doc_id!r} ({after.score:.6g}) stands below {before.score:.6g}"


def _by_id(hits: Iterable[Hit]) -> Iterator[str]:
    for before, after in pairwise(hits):
        if before.score == after.score and before.doc_id > after.doc_id:
            yield f"{before.doc_id!r} stands before {after.doc_id!r}, with equal scores"


def _each(wrong: Callable[[Sequence[Hit], frozenset[str]], Iterator[str]]) -> Violations:
    """Yield what is wrong with the hits of each answer that can be read, with its query."""

    def violations(subject: CheckSubject) -> Iterator[str]:
        for one in subject.answered():
            yield from (f"{one}: {said}" for said in wrong(one.hits, subject.known))

    return violations


_each_id = promise(
    "ids",
    "Each hit is a document of the corpus and is shown once.",
    "Give the doc_id of the document, and keep its best part where it has several",
)(_each(_ids))
_each_score = promise(
    "scores",
    "Scores are finite and between 0 and 1.",
    "Divide by the best score of the query: harness_engines.ranking.by_best does it",
)(_each(lambda hits, _: _scores(hits)))
_each_order = promise("order", "The highest score comes first.", BY_BEST)(
    _each(lambda hits, _: _order(hits))
)
_each_tie = promise("ties", "Equal scores are ordered by document id.", BY_BEST)(
    _each(lambda hits, _: _by_id(hits))
)


@promise(
    "equal documents",
    "Documents with the same text come by id, also where the list is cut between them.",
    BY_BEST,
    own_documents=True,
)
def _equal_documents(subject: CheckSubject) -> Iterator[str]:
    for k in (len(EQUAL), 1):
        one = ask(subject.searcher, EQUAL_TEXT, k)
        found = tuple(hit.doc_id for hit in one.hits)
        if found != EQUAL[:k]:
            yield f"{one}: shows {list(found)} instead of {list(EQUAL[:k])}"


@promise("k", "A shorter list is the beginning of a longer one, and never longer than k.", BY_BEST)
def _k(subject: CheckSubject) -> Iterator[str]:
    for most in subject.answered():
        for k in FEWER:
            few, wanted = ask(subject.searcher, most.text, k), _named(most, k)
            if few.error or _named(few) != wanted:
                seen = few.error or f"shows {_named(few)}"
                yield f"{few}: {seen}, the first of k = {most.k} are {wanted}"


def _named(one: QueryOutcome, k: int | None = None) -> list[str]:
    return [hit.doc_id for hit in one.hits[:k]]


@promise(
    "more than all",
    "k may be larger than the number of documents.",
    "Limit k to the number of documents before you allocate or search",
)
def _more(subject: CheckSubject) -> Iterator[str]:
    text = subject.answered()[0].text
    for k in MORE:
        yield from every_answer(ask(subject.searcher, text, len(subject.documents) + k), subject)


@promise(
    "empty text",
    "A text without a character to search for finds nothing.",
    "Return Answer((), self.manifest.fingerprint) where nothing is left of the text",
)
def _empty(subject: CheckSubject) -> Iterator[str]:
    for name, text in EMPTY.items():
        one = ask(subject.searcher, text, 10)
        yield from every_answer(one, subject)
        if one.hits:
            yield f"{name}, {quoted(text)}: shows {many(len(one.hits), 'document')}"


@promise("hostile text", "No text is an error.", SANITISE)
def _hostile(subject: CheckSubject) -> Iterator[str]:
    for name, text in HOSTILE.items():
        for wrong in every_answer(ask(subject.searcher, text, 5), subject):
            yield f"{name}: {wrong}"


@promise(
    "long text",
    "No length is an error.",
    "Search for the first words only where your engine has a limit",
)
def _long(subject: CheckSubject) -> Iterator[str]:
    for name, text in long(subject.long_words).items():
        for wrong in every_answer(ask(subject.searcher, text, 5), subject):
            yield f"{name}, {len(text):,} characters: {wrong}"


def long(words: int) -> Mapping[str, str]:
    """Write texts of that many words, or of about a hundred characters for each."""
    many = [f"word{at}" for at in range(words)]
    return {
        "words": " ".join(many),
        "a phrase": '"' + " ".join(many) + '"',
        "words joined": "-".join(many),
        "required words": "+" + " +".join(many),
        "excluded words": "-" + " -".join(many),
        "one word": "x" * (100 * words),
        "quotes": '"' * (100 * words),
        "plus signs": "+" * (100 * words),
        "text": "the water rises twice a day " * (4 * words),
    }


TIMES = 3
THREADS = 3
TOGETHER_S = 60.0
"""How long the threads wait for each other to open the index."""


@promise("repetitions", "The same query gets the same answer each time.", SETS)
def _repetitions(subject: CheckSubject) -> Iterator[str]:
    before = subject.answered()
    for time in range(2, TIMES + 1):
        again = _asked(subject.searcher, before[:: -1 if time % 2 else 1])
        yield from _differences(before, again, f"at repetition {time}")


@promise(
    "opened again",
    "An index that is opened again answers the same.",
    "Write all that ranking rests on into the index folder",
)
def _opened_again(subject: CheckSubject) -> Iterator[str]:
    before = subject.answered()
    with subject.engine.open(subject.index) as searcher:
        yield from _differences(before, _asked(searcher, before), "opened again")


@promise(
    "threads",
    "Several threads, each with an index opened for itself, get the same answers.",
    "Share nothing that changes between searchers: give each open its own connection",
)
def _threads(subject: CheckSubject) -> Iterator[str]:
    """Open the index in each thread, as ``harness load`` does, and query at once."""
    before = subject.answered()
    ready = Barrier(THREADS)

    def work(turn: int) -> tuple[tuple[QueryOutcome, ...], str]:
        with ExitStack() as opened:
            try:
                searcher = opened.enter_context(subject.engine.open(subject.index))
                ready.wait(TOGETHER_S)
            except BaseException as exc:  # noqa: BLE001  an exit on a thread is a failure too
                ready.abort()
                return (), raised(exc)
            return _asked(searcher, [*before[turn:], *before[:turn]]), ""

    with ThreadPoolExecutor(THREADS) as pool:
        for turn, (again, error) in enumerate(pool.map(work, range(THREADS)), start=1):
            if error:
                yield f"on thread {turn} of {THREADS} the index cannot be opened: {error}"
            else:
                yield from _differences(before, again, f"on thread {turn} of {THREADS}")


def _asked(searcher: Searcher, queries: Sequence[QueryOutcome]) -> tuple[QueryOutcome, ...]:
    return tuple(ask(searcher, one.text, one.k) for one in queries)


def _differences(
    before: Sequence[QueryOutcome], after: Sequence[QueryOutcome], when: str
) -> Iterator[str]:
    """Yield what differs from the answers before; those after may stand in another order."""
    known = {one.text: one for one in before}
    for one in after:
        was = known[one.text]
        if one.error:
            yield f"{one}: {one.error}, {when}"
        elif shown(one.hits) != shown(was.hits):
            yield f"{one}: {difference(shown(was.hits), shown(one.hits))}, {when}"
        elif one.answer and was.answer and one.answer.served_by != was.answer.served_by:
            yield f"{one}: another index answers, {when}"


def difference(was: ShownHits, now: ShownHits) -> str:
    """Name the first hit that differs."""
    for rank, ((old_id, old), (new_id, new)) in enumerate(zip(was, now, strict=False), start=1):
        if old_id != new_id:
            return f"{new_id!r} instead of {old_id!r} at rank {rank}"
        if old != new:
            return f"{old_id!r} scores {new!r} instead of {old!r}"
    return f"{many(len(now), 'hit')} instead of {len(was)}"


CODE = "from harness.check.answers import answer; answer()"
PATIENCE_S = 600.0
"""How long the other process may take."""
SEED = "271828"
"""Of the hashes of the other process; this one draws its own."""
SAID = 300
"""Characters of what a process said that failed."""


def answer() -> None:
    """Open an index and run queries, as the JSON on the standard input says."""
    given = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        arm = registry.load(given["arm"], Path(given["cache"]))
        with arm.open(Path(given["index"])) as searcher:
            answers = [ask(searcher, text, k) for text, k in given["queries"]]
    found = [(one.error, shown(one.hits)) for one in answers]
    sys.stdout.write(f"\n{json.dumps(found)}\n")


@promise(
    "processes",
    "Another process that opens the index gets the same answers.",
    "Sort what comes out of a set before you rank it: the order of a set differs by process",
    by_name=True,
)
def _processes(subject: CheckSubject) -> Iterator[str]:
    """Open the same index in another interpreter, and compare its answers."""
    before = subject.answered()
    if subject.arm is None:
        raise NotChecked("needs the engine's TOML file, to open it in another process")
    given = {
        "arm": subject.arm.name,
        "cache": str(subject.arm.cache),
        "index": str(subject.index),
        "queries": [(one.text, one.k) for one in before],
    }
    done = _run(json.dumps(given))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        yield f"the other process failed: {one_line(last, SAID)}"
        return
    for one, (error, hits) in zip(before, json.loads(done.stdout.splitlines()[-1]), strict=True):
        seen = [(doc_id, score) for doc_id, score in hits]
        if error or seen != shown(one.hits):
            yield f"{one}: {error or difference(shown(one.hits), seen)}, in another process"


def _run(given: str) -> subprocess.CompletedProcess[str]:
    """Start an interpreter that finds the modules that this one finds, with other hashes."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONHASHSEED": SEED,
    }
    return subprocess.run(  # noqa: S603  this interpreter, and code of this module
        [sys.executable, "-c", CODE],
        input=given, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
