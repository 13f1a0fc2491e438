"""What message search adds to the engines under it: Markdown tables.

    python3 run.py python benchmarks/mail_search.py --messages 100000 --queries 100

All ways take turns within a round, in an order that moves on by one each time; each runs twice and
its second time counts, so that none pays for what another left in caches. So the service has read
the messages before, and remembers them; beside it stands one that remembers nothing. A question's
time is the median of its rounds, or the least under ``--take least``, which says what is computed
where other programs disturb most rounds; a column is a percentile over questions. Each answer of
ours is compared with that of the engine under it before anything is timed. ``--clock cpu`` counts
what this thread computed, which other programs on the machine disturb little; nothing that is timed
here uses another thread.
"""

import argparse
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, thread_time_ns

import numpy as np
import tantivy
from numpy.typing import NDArray

from benchmarks.mail_corpus import (
    OF_WORDS,
    WEIGHTS,
    Ratio,
    beginnings,
    filled,
    messages,
    questions,
    silent,
    tantivy_over,
)
from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail.contract import (
    Filters,
    MailEngine,
    Message,
    RankingMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.pipeline.pages import Tiers
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite import store
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, match_expression
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, Remembered
from harness_engines.stacks.agent_mail.tantivy import index as tantivy_index
from harness_engines.stacks.agent_mail.tantivy.engine import Compiler, TantivyMailEngine
from harness_engines.stacks.agent_mail.tantivy.index import OpenIndex

TYPED, UPDATED = 10, 1_000
ALONE, IDS, PARSED = "Tantivy: search alone", "Tantivy: search, ids", "Tantivy: parse, search, ids"
STACK, SERVICE = "stack over Tantivy", "service over Tantivy"
ANEW, SELECT = "service that remembers nothing", "SQLite: SELECT of its messages"
NAIVE, FTS5 = "FTS5: ORDER BY rank", "stack over FTS5"
FTS5_SERVICE = "service over FTS5"
TERM, TYPEAHEAD = "Tantivy: single term", "typeahead"

TAKES: Mapping[str, Callable[..., NDArray[np.float64]]] = {"median": np.median, "least": np.min}
CLOCKS: Mapping[str, Callable[[], int]] = {"wall": perf_counter_ns, "cpu": thread_time_ns}
Way = Callable[[str], object]
Taken = Mapping[str, NDArray[np.float64]]


def bounds(k: int) -> tuple[Ratio, ...]:
    """List what is compared where ``k`` hits are asked for."""
    few = k == TYPED
    most, of_service = ("at most 1.5", "at most 2.5") if few else ("at most 1.3", "at most 6")
    return (
        Ratio("stack over a search with ids", STACK, IDS, most),
        Ratio("stack over a search alone", STACK, ALONE, ""),
        Ratio("stack over parse, search, ids", STACK, PARSED, ""),
        Ratio("whole service over a search with ids", SERVICE, IDS, of_service),
        Ratio("service that remembers nothing over a search with ids", ANEW, IDS, ""),
        Ratio("the SELECT of its messages over a search with ids", SELECT, IDS, ""),
        Ratio("stack over naive FTS5", FTS5, NAIVE, "at most 0.68"),
        Ratio("whole service over naive FTS5", FTS5_SERVICE, NAIVE, ""),
    )


def by_tantivy(engine: TantivyMailEngine, texts: Sequence[str], k: int) -> dict[str, Way]:
    """Ask Tantivy itself: a query that is ready, with and without ids, and one that is parsed."""
    now: OpenIndex = tantivy_index.opened(engine.root, None)
    schema, searcher = now.folder.schema, now.searcher
    compiler = Compiler(schema, analyzer("none"), OF_WORDS)
    ready = {text: query for text in texts if (query := compiler.query(text)) is not None}
    boosts = {"text": 1.0, "identifiers": 1.0}

    def ids(query: tantivy.Query) -> object:
        hits = searcher.search(query, k, count=False).hits
        return searcher.fast_field_values("message_id", [address for _, address in hits])

    def parsed(text: str) -> object:
        return ids(now.folder.parse_query_lenient(text, list(boosts), boosts)[0])

    for text, query in ready.items():
        scores = [score for score, _ in searcher.search(query, k).hits]
        ours = engine.search(text, Filters(), RankingMode.RELEVANCE, k).candidates
        if [score for _, score in ours] != scores:
            raise SystemExit(f"{text!r}: the stack's scores are not Tantivy's")
    return {
        ALONE: lambda text: searcher.search(ready[text], k, count=False).hits,
        IDS: lambda text: ids(ready[text]),
        PARSED: parsed,
    }


def by_fts5(path: Path, engine: Fts5Engine, texts: Sequence[str], k: int) -> dict[str, Way]:
    """Ask FTS5 as its manual does, for the same expression."""
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    one = "SELECT rowid, rank FROM messages_fts WHERE messages_fts MATCH ?"
    naive = f"{one} ORDER BY rank LIMIT ?"
    weighted = f"{one} AND rank MATCH 'bm25{WEIGHTS}' ORDER BY rank LIMIT ?"
    asked = {text: match_expression(text).expression for text in texts}
    for text, expression in asked.items():
        scores = [-score for _, score in db.execute(weighted, (expression, k))]
        ours = engine.search(text, Filters(), RankingMode.RELEVANCE, k).candidates
        if [score for _, score in ours] != scores:
            raise SystemExit(f"{text!r}: the stack's scores are not FTS5's")
    return {NAIVE: lambda text: db.execute(naive, (asked[text], k)).fetchall()}


def selected(opened: MessageStore, engine: TantivyMailEngine, texts: Sequence[str], k: int) -> Way:
    """Read the messages of an answer by one statement: the least that it costs to read them."""
    sql = f"{store.READ} WHERE m.id IN (SELECT value FROM json_each(?))"  # noqa: S608  our own text

    def ids(text: str) -> str:
        found = engine.search(text, Filters(), RankingMode.RELEVANCE, k).candidates
        return json.dumps([message_id for message_id, _ in found])

    ready = {text: ids(text) for text in texts}
    return lambda text: opened.ask(sql, (ready[text],))


def service(
    opened: MessageStore, lexical: Mapping[FallbackTier, MailEngine], switch: KillSwitch
) -> MailSearch:
    """Put the service together as the stack does."""
    return MailSearch(
        Tiers(lexical, None, None, opened.sent),
        Remembered(opened).hydrate,
        opened.projects_of_product,
        switch,
        silent,
    )


@contextmanager
def ways(folder: Path, texts: Sequence[str], k: int) -> Iterator[dict[str, Way]]:
    """Return all that is timed for ``k`` hits."""
    path = folder / "messages.db"
    with ExitStack() as opens:
        opened = opens.enter_context(store.opened(path))
        tantivy_engine, fts5 = (
            tantivy_over(folder / "tantivy", opened),
            Fts5Engine(opened, OF_WORDS),
        )
        by_words = service(opened, {FallbackTier.TANTIVY: tantivy_engine}, KillSwitch.TANTIVY)
        served = {
            SERVICE: by_words,
            ANEW: replace(by_words, hydrate=opened.hydrate),
            FTS5_SERVICE: service(opened, {FallbackTier.FTS5: fts5}, KillSwitch.FTS5),
        }
        engines: dict[str, MailEngine] = {STACK: tantivy_engine, FTS5: fts5}

        def stack(engine: MailEngine) -> Way:
            return lambda text: engine.search(text, Filters(), RankingMode.RELEVANCE, k)

        def whole(of: MailSearch) -> Way:
            return lambda text: of.search(SearchQuery(text, limit=k, explain=True))

        yield {
            **by_tantivy(tantivy_engine, texts, k),
            **by_fts5(path, fts5, texts, k),
            SELECT: selected(opened, tantivy_engine, texts, k),
            **{name: stack(engine) for name, engine in engines.items()},
            **{name: whole(of) for name, of in served.items()},
        }


def typing(folder: Path, opened: MessageStore) -> dict[str, Way]:
    """Complete the beginning of a word, and ask Tantivy for that one term."""
    engine = tantivy_over(folder / "tantivy", opened)
    now = tantivy_index.opened(engine.root, None)

    def term(text: str) -> object:
        query = tantivy.Query.term_query(now.folder.schema, "subject_prefix", text, "basic")
        hits = now.searcher.search(query, TYPED).hits
        return now.searcher.fast_field_values("message_id", [address for _, address in hits])

    return {TERM: term, TYPEAHEAD: lambda text: engine.typeahead(text, Filters(), TYPED)}


@dataclass(frozen=True, slots=True)
class Timing:
    """How ways are timed."""

    rounds: int
    clock: Callable[[], int]
    take: Callable[..., NDArray[np.float64]]
    """Of the rounds of a text."""


def timed(found: Mapping[str, Way], texts: Sequence[str], timing: Timing) -> Taken:
    """Milliseconds by way, shape (texts,)."""
    rounds, clock = timing.rounds, timing.clock
    names = list(found)
    taken = {name: np.empty((rounds, len(texts))) for name in names}
    for turn in range(rounds):
        for at, text in enumerate(texts):
            for step in range(len(names)):
                name = names[(turn + at + step) % len(names)]
                found[name](text)
                start = clock()
                found[name](text)
                taken[name][turn, at] = (clock() - start) / 1e6
    return {name: timing.take(column, axis=0) for name, column in taken.items()}


def rows(where: str, taken: Taken) -> Iterator[str]:
    """One line a way."""
    for name, column in taken.items():
        p50, p95, p99 = np.percentile(column, [50, 95, 99])
        yield f"| {where} | {name} | {p50:.3f} | {p95:.3f} | {p99:.3f} |"


def changed(folder: Path, of: Sequence[Message]) -> None:
    """Write messages all over the index anew, so that it no longer lies in their order."""
    with store.opened(folder / "messages.db") as opened:
        some = of[:: len(of) // UPDATED][:UPDATED]
        changes = {message.message_id: message for message in some}
        tantivy_over(folder / "tantivy", opened).update_incremental(changes)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Message search against the engines under it.")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--queries", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5, help="At least 5.")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--take", choices=TAKES, default="median", help="Of the rounds.")
    asked = parser.parse_args()
    if asked.rounds < 5:  # noqa: PLR2004  as the help says
        parser.error("a median of fewer than 5 says little")
    made = messages(asked.messages)
    timing = Timing(asked.rounds, CLOCKS[asked.clock], TAKES[asked.take])
    texts, typed = questions(made, asked.queries), beginnings(made, 10 * asked.queries)
    times, ratios = list[str](), list[str]()
    typeahead = Ratio("typeahead over a single term", TYPEAHEAD, TERM, "at most 2", 99)
    with TemporaryDirectory() as name:
        folder = Path(name)
        filled(folder / "messages.db", made)
        with store.opened(folder / "messages.db") as opened:
            tantivy_over(folder / "tantivy", opened).rebuild()
        for after in ("", f", {UPDATED} rewritten"):
            if after:
                changed(folder, made)
            with store.opened(folder / "messages.db") as opened:
                taken = timed(typing(folder, opened), typed, timing)
            times += rows(f"typed{after}", taken)
            ratios.append(typeahead.row(f"typed{after}", taken))
            for k in (TYPED, 1_000):
                with ways(folder, texts, k) as found:
                    shown = {n: way for n, way in found.items() if not after or "FTS5" not in n}
                    taken = timed(shown, texts, timing)
                times += rows(f"{k:,} hits{after}", taken)
                ratios += [
                    r.row(f"{k:,} hits{after}", taken)
                    for r in bounds(k)
                    if {r.above, r.below} <= set(taken)
                ]
    print(f"Clock: {asked.clock}, {asked.take} of {asked.rounds} rounds.\n")  # noqa: T201  the output
    head = ["| asked | way | p50 ms | p95 ms | p99 ms |", "|---|---|---|---|---|"]
    then = [
        "",
        "| asked | ratio | of | whole | median of each | target |",
        "|---|---|---|---|---|---|",
    ]
    print(*chain(head, times, then, ratios), sep="\n")  # noqa: T201  the output


if __name__ == "__main__":
    main()
