"""What every answer owes: known ids, one order, and sameness in another process."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from itertools import pairwise
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
    quoted,
    raised,
    shown,
)
from harness.core.engine import Searcher
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


RETURN = (
    "Let search return Answer(hits, self.manifest.fingerprint) with a tuple of Hit. Over HTTP,"
    " correct the key of the file that the message names"
)
BY_BEST = "Order by (-score, doc_id) and cut after that: harness_engines.ranking.by_best does both"
SANITISE = (
    "Quote or remove what your parser reads as syntax before it sees the text. Over HTTP, let body"
    " or query send the text as a quoted value"
)
SETS = (
    "Order by (-score, doc_id). Keep no state between queries, and draw nothing at random"
    " without a fixed seed"
)
CHECKS: list[Check] = []
"""In their order; the later ones run the same queries again, elsewhere."""
OfAnswer = Callable[[QueryOutcome, CheckSubject], Iterator[str]]
OF_ANSWERS: list[OfAnswer] = []
"""What is owed by every answer alone."""


def promise(
    name: str, promise: str, hint: str, **needs: bool
) -> Callable[[Violations], Violations]:
    """Declare a check, by the function that yields each violation."""

    def added(violations: Violations) -> Violations:
        CHECKS.append(Check(name, promise, hint, violations, **needs))
        return violations

    return added


def of_answer(name: str, said: str, hint: str, **needs: bool) -> Callable[[OfAnswer], OfAnswer]:
    """Declare a check of single answers, by the function that yields what is wrong with one."""

    def added(wrong: OfAnswer) -> OfAnswer:
        OF_ANSWERS.append(wrong)

        @promise(name, said, hint, **needs)
        def _violations(subject: CheckSubject) -> Iterator[str]:
            for one in subject.answered():
                yield from (f"{one}: {problem}" for problem in wrong(one, subject))

        return wrong

    return added


def every_answer(one: QueryOutcome, subject: CheckSubject) -> Iterator[str]:
    """Yield what is wrong with one answer, by all that every answer owes."""
    if one.error:
        yield f"{one}: {one.error}"
    for wrong in OF_ANSWERS:
        yield from (f"{one}: {problem}" for problem in wrong(one, subject))


@promise("answers", "Every query gets an Answer.", RETURN, over_http=True)
def _errors(subject: CheckSubject) -> Iterator[str]:
    for one in subject.asked:
        if one.error:
            yield f"{one}: {one.error}"


@promise(
    "finds",
    "A query with words of a document finds something.",
    "Check that build writes every document and that search reads what build wrote. Over HTTP,"
    " compare url, query and body with a request that finds something",
    over_http=True,
)
def _finds(subject: CheckSubject) -> Iterator[str]:
    if any(one.hits for one in subject.answered()):
        return
    none = f"none of {len(subject.asked)} queries"
    if not subject.documents:
        raise NotChecked(f"{none} of the harness has a hit: name the server's data with --dataset")
    yield f"{none} with words of the documents has a hit"


@of_answer(
    "identity",
    "Each answer carries the fingerprint of the index that is open.",
    "Give self.manifest.fingerprint as served_by, and raise instead of falling back",
    over_http=True,
)
def _identity(one: QueryOutcome, subject: CheckSubject) -> Iterator[str]:
    own = subject.built.fingerprint
    if one.answer and one.answer.served_by != own:
        yield f"served by {one.answer.served_by[:12]!r}, the index is {own[:12]!r}"


@of_answer(
    "ids",
    "Each hit is a document of the corpus and is shown once.",
    "Give the doc_id of the document, and keep its best part where it has several. Over HTTP, let"
    " the server collapse parts of a document into one hit",
    over_http=True,
)
def _ids(one: QueryOutcome, subject: CheckSubject) -> Iterator[str]:
    """Yield strange and repeated ids; over HTTP an arm's file says which ids it takes."""
    for doc_id, times in Counter(hit.doc_id for hit in one.hits).items():
        if doc_id not in subject.known and not subject.over_http:
            yield f"{doc_id!r} is the id of no document"
        if times > 1:
            yield f"{doc_id!r} is shown {times} times"


@of_answer(
    "scores",
    "Scores are finite and between 0 and 1.",
    "Divide by the best score of the query: harness_engines.ranking.by_best does it",
)
def _scores(one: QueryOutcome, _: CheckSubject) -> Iterator[str]:
    for hit in one.hits:
        if not (0.0 <= hit.score <= 1.0 and math.isfinite(hit.raw_score)):
            yield f"{hit.doc_id!r} has the score {hit.score!r} (raw {hit.raw_score!r})"


@of_answer("order", "The highest score comes first.", BY_BEST)
def _order(one: QueryOutcome, _: CheckSubject) -> Iterator[str]:
    for before, after in pairwise(one.hits):
        if before.score < after.score:
            yield f"{after.doc_id!r} ({after.score:.6g}) stands below {before.score:.6g}"


@of_answer("ties", "Equal scores are ordered by document id.", BY_BEST)
def _ties(one: QueryOutcome, _: CheckSubject) -> Iterator[str]:
    for before, after in pairwise(one.hits):
        if before.score == after.score and before.doc_id > after.doc_id:
            yield f"{before.doc_id!r} stands before {after.doc_id!r}, with equal scores"


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


@promise(
    "k",
    "A shorter list is the beginning of a longer one, and never longer than k.",
    f'{BY_BEST}. Over HTTP, put "${{k}}" where the server reads the number of hits',
    over_http=True,
)
def _k(subject: CheckSubject) -> Iterator[str]:
    for most in subject.answered():
        shown = [hit.doc_id for hit in most.hits]
        for k in FEWER:
            few = ask(subject.searcher, most.text, k)
            found = [hit.doc_id for hit in few.hits]
            if few.error or found != shown[:k]:
                seen = few.error or f"shows {found}"
                yield f"{few}: {seen}, the first of k = {most.k} are {shown[:k]}"


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


@promise("hostile text", "No text is an error.", SANITISE, over_http=True)
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


@promise("repetitions", "The same query gets the same answer each time.", SETS, over_http=True)
def _repetitions(subject: CheckSubject) -> Iterator[str]:
    before = subject.answered()
    for time in range(2, TIMES + 1):
        again = _asked(subject.searcher, before[:: -1 if time % 2 else 1])
        yield from _differences(before, again, f"at repetition {time}")


@promise(
    "threads",
    "Several threads, each with an index opened for itself, get the same answers.",
    "Write all that ranking rests on into the index folder, and share nothing that changes between"
    " searchers: give each open its own connection",
    over_http=True,
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
    over_http=True,
)
def _processes(subject: CheckSubject) -> Iterator[str]:
    """Open the same index in an interpreter with other hashes, and compare its answers."""
    before = subject.answered()
    if subject.arm is None:
        raise NotChecked("needs the engine's TOML file, to open it in another process")
    given = {
        "arm": subject.arm.name,
        "cache": str(subject.arm.cache),
        "index": str(subject.index),
        "queries": [(one.text, one.k) for one in before],
    }
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(  # noqa: S603  this interpreter, and code of this module
        [sys.executable, "-c", CODE], input=json.dumps(given), capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "271828"},
        check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        yield f"the other process failed: {one_line(last, SAID)}"
        return
    for one, (error, hits) in zip(before, json.loads(done.stdout.splitlines()[-1]), strict=True):
        seen = [(doc_id, score) for doc_id, score in hits]
        if error or seen != shown(one.hits):
            yield f"{one}: {error or difference(shown(one.hits), seen)}, in another process"
