"""Query sets from logs: counts, strata, samples, first pools and drift."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field

from harness.core import digest
from harness.core.errors import BadFile, HarnessError
from harness.core.files import json_text
from harness.core.folders import changing, check_new, completed
from harness.core.printable import many, one_line
from harness.core.records import Document, Drawn, Qrels, Query
from harness.core.store import Json, StrictModel
from harness.corpus import beir, judgements, prepared
from harness.corpus.clusters import near_duplicates, normalised, stars
from harness.corpus.judgements import SNIPPET, TITLE, JudgingPair, Pool
from harness.corpus.prepared import form
from harness.logs.querylog import (
    FORMATS,
    LIMITS,
    Cleaner,
    Fields,
    Left,
    LogEntry,
    LogLine,
    QueryRequests,
    format_of,
    lines,
    masked,
    plain,
)
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.pipeline.params import ReplayParams
from harness.pipeline.replay import replay
from harness.report.rounding import snippet
from harness.shadow import log
from harness.shadow.record import Divergence, Observation, query_key

SHADOW = "shadow"
FORMAT = 1
"""Of the card of a sample."""


@dataclass(slots=True)
class LogCounts:
    """What a log held."""

    format: str
    queries: dict[str, QueryRequests] = field(default_factory=dict)
    """By key."""
    lines: int = 0
    requests: int = 0
    foreign: int = 0
    sessions: int = 0
    left: Counter[Left] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    """Requests with personal data of each kind."""
    untold: int = 0
    """Requests of a shadow log whose text it does not keep, because both arms agreed."""


def count(path: Path, kind: str, fields: Fields) -> LogCounts:
    """Clean, mask and count every line of a log."""
    counts = LogCounts(SHADOW if path.is_dir() else format_of(path, kind))
    cleaner, first_broken = Cleaner(), 0
    for line in _shadow(path, counts) if path.is_dir() else lines(path, counts.format, fields):
        counts.lines += 1
        counts.foreign += line.foreign
        if why := _taken(line.entry, cleaner, counts):
            counts.left[why] += 1
        if why is Left.BROKEN:
            first_broken = first_broken or line.number
    counts.sessions = cleaner.sessions
    _check(path, counts, first_broken)
    return counts


def _taken(entry: LogEntry | Left, cleaner: Cleaner, counts: LogCounts) -> Left | None:
    """Count one entry; return why where it does not count."""
    if isinstance(entry, Left):
        return entry
    entry = entry._replace(text=plain(entry.text))
    if why := cleaner.left(entry):
        return why
    text, kinds = masked(entry.text)
    counts.requests += 1
    counts.masked.update(kinds)
    key = normalised(text)
    known = counts.queries.get(key) or QueryRequests(key, text, masked=bool(kinds))
    counts.queries[key] = known.more(entry.results)
    return None


def _shadow(folder: Path, counts: LogCounts) -> Iterator[LogLine]:
    """Read the requests of a shadow log; the text of one is that of a divergence of its key."""
    texts = {query_key(d.text, d.params): d.text for d in log.records(folder, Divergence)}
    seen: Iterable[Observation] = log.records(folder, Observation)
    for one in seen:
        text = texts.get(one.query)
        if text is None:
            counts.untold += 1
            continue
        results = one.control.hits if one.control else None
        yield LogLine(one.number, LogEntry(text, results))


def _check(path: Path, counts: LogCounts, first_broken: int) -> None:
    broken = counts.left[Left.BROKEN]
    if 2 * broken > counts.lines:
        raise BadFile(
            path,
            f"{broken} of {counts.lines} lines are not of the format {counts.format}",
            f"Name its format: --format with one of {', '.join(FORMATS)}.",
            first_broken,
        )
    if not counts.requests:
        why = "; ".join(f"{many(n, 'line')}: {left}" for left, n in counts.left.most_common(2))
        raise BadFile(
            path,
            f"none of its {many(counts.lines, 'line')} has a query ({why or 'it is empty'})",
            "Name where the query stands: --text NAME.",
        )


def first_pool(
    layout: Layout,
    documents: Sequence[Document],
    queries: Sequence[Query],
    *,
    arms: Iterable[str],
    cache: Path,
    params: ReplayParams,
    depth: int,
    largest: int,
    path: Path,
) -> Pool:
    """Write the first ``depth`` documents of each arm for each query into ``path``."""
    completed(path, within=(path.parent,))
    for file in (path, judgements.texts_path(path)):
        check_new(file)
    name = layout.root.name
    prepared.write(layout.data, name, "test", documents, queries, Qrels({}))
    shown: dict[str, set[str]] = {query.query_id: set() for query in queries}
    for arm in arms:
        index(layout, arm, cache)
        for row in replay(layout, arm, cache, params).rows():
            shown[row.query_id].update(hit.doc_id for hit in row.hits[:depth])
    known = {document.doc_id: document for document in documents}
    pairs = [
        pair_of(query, known[doc_id], largest)
        for query in queries
        for doc_id in drawn_order(shown[query.query_id], params.seed, query.query_id)
    ]
    pool = Pool(tuple(pairs), (None,) * len(pairs))
    judgements.begin(path, pool)
    return pool


def drawn_order(doc_ids: set[str], seed: int, query_id: str) -> list[str]:
    """Shuffle the documents of a query, so that their order tells no judge who showed them."""
    found = sorted(doc_ids)
    Random(f"{seed} {query_id}").shuffle(found)
    return found


def pair_of(query: Query, document: Document, largest: int) -> JudgingPair:
    """Return a pair with what people must see to judge it, from 0 to ``largest``."""
    return JudgingPair(
        query_id=query.query_id,
        doc_id=document.doc_id,
        query=one_line(query.text),
        title=one_line(document.title, TITLE),
        snippet=snippet(document.text, query.text, SNIPPET),
        narrows=0.0,
        scale=tuple(range(largest + 1)),
    )


CLASSES = ("head", "torso", "tail")
CLUSTERED = 3_000
"""Most frequent queries among which near duplicates are found; rarer ones stand alone."""
FEWEST = 2
"""Of a stratum: the variance of one is unknown."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """One part of the log."""

    queries: int
    requests: int
    sampled: int

    @property
    def inclusion(self) -> float:
        """Probability that a query of it is in the sample."""
        return self.sampled / self.queries


class SampleCard(StrictModel):
    """What is read again of the card of a sample."""

    model_config = ConfigDict(extra="ignore")

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    strata: dict[str, Stratum]
    queries_sha256: str


CARDS = Json[SampleCard]("a sample's card", SampleCard, remedy="Draw the sample again.")
TOLD = 2
"""Slashes in the name of a stratum of a log that tells the number of results."""
Strata = Mapping[str, Sequence[QueryRequests]]
"""Queries by the name of their stratum, the most frequent first."""


def classified(every: Iterable[QueryRequests]) -> Strata:
    """Place queries by frequency, form, and whether results were found where the log tells.

    Near duplicates stand together, where their requests together place them.
    """
    ranked = sorted(every, key=lambda one: (-one.requests, one.key))
    total, told = sum(one.requests for one in ranked), any(one.known for one in ranked)
    near: dict[int, list[QueryRequests]] = {}
    frequent = ranked[:CLUSTERED]
    for one, first in zip(frequent, stars([one.key for one in frequent]).tolist(), strict=True):
        near.setdefault(first, []).append(one)
    groups = [(sum(one.requests for one in group), group) for group in near.values()]
    groups.sort(key=lambda each: (-each[0], each[1][0].key))
    groups += [(one.requests, [one]) for one in ranked[CLUSTERED:]]
    found: dict[str, list[QueryRequests]] = {}
    passed = 0
    for requests, group in groups:
        place = CLASSES[min(2, 3 * passed // total)]
        for one in group:
            shape = (form(one.text) or "form-none").removeprefix("form-")
            zero = ["zero-result" if one.finds_nothing else "results"] if told else []
            found.setdefault("/".join([place, shape, *zero]), []).append(one)
        passed += requests
    return found


def strata(every: Strata, size: int) -> Mapping[str, Stratum]:
    """Count each stratum, and share ``size`` queries among them by their requests.

    The next query goes to the stratum with the most requests per sampled query.
    """
    queries = {name: len(every[name]) for name in sorted(every)}
    requests = {name: sum(one.requests for one in every[name]) for name in queries}
    shares = {name: min(FEWEST, count) for name, count in queries.items()}
    if size < (least := sum(shares.values())):
        raise HarnessError(
            f"{len(shares)} strata need {many(least, 'query')} at least, {size} were"
            " wanted; raise --size"
        )
    for _ in range(min(size, sum(queries.values())) - least):
        open_ = [name for name in queries if shares[name] < queries[name]]
        shares[min(open_, key=lambda name: (-requests[name] / shares[name], name))] += 1
    return {name: Stratum(queries[name], requests[name], shares[name]) for name in queries}


def drawn(every: Strata, of: Mapping[str, Stratum], seed: int) -> tuple[Query, ...]:
    """Draw the sample: of each stratum the queries whose keyed digests are smallest."""

    def mark(found: QueryRequests) -> bytes:
        return hashlib.blake2b(found.key.encode(), digest_size=8, key=str(seed).encode()).digest()

    sample = [
        (found, name)
        for name, stratum in of.items()
        for found in heapq.nsmallest(stratum.sampled, every[name], key=mark)
    ]
    sample.sort(key=lambda one: (-one[0].requests, one[0].key))
    return tuple(_query(found, name, of[name]) for found, name in sample)


def query_id(key: str) -> str:
    """Name a query by its words, the same in every log."""
    return f"log-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"


def _query(counted: QueryRequests, name: str, of: Stratum) -> Query:
    place, shape, *zero = name.split("/")
    slices = [f"traffic-{place}", f"form-{shape}"]
    slices += ["zero-result"] if zero == ["zero-result"] else []
    slices += ["masked"] if counted.masked else []
    return Query(
        query_id(counted.key),
        counted.text,
        tuple(slices),
        drawn=Drawn(name, of.inclusion, counted.requests),
    )


def beside(path: Path) -> Path:
    """Where the card of a sample lies."""
    return path.with_name(f"{path.name}.card.json")


class LogSample(NamedTuple):
    """A sample of a log, and what it is of."""

    counts: LogCounts
    strata: Mapping[str, Stratum]
    queries: tuple[Query, ...]


def from_log(path: Path, to: Path, *, kind: str, fields: Fields, size: int, seed: int) -> LogSample:
    """Write a sample of at most ``size`` queries into ``to``, and its card beside it."""
    completed(to, within=(to.parent,))
    for file in (to, beside(to)):
        check_new(file, reads=[path])
    counts = count(path, kind, fields)
    every = classified(counts.queries.values())
    parts = strata(every, size)
    sample = LogSample(counts, parts, drawn(every, parts, seed))
    with changing(to, within=(to.parent,), what="queries from-log") as change:
        for file in (to, beside(to)):
            check_new(file)
        change.write(beside(to), json_text(_card(path, sample, seed)))
        change.write(to, beir.queries_text(sample.queries))
    return sample


class Drift(NamedTuple):
    """Shares of requests by form, and by whether results were found where both logs tell."""

    then: Mapping[str, float]
    now: Mapping[str, float]
    requests: int
    """Of the later log."""
    carried: float
    """Estimated share of them whose query the earlier log has too."""

    @property
    def distance(self) -> float:
        """Total variation: the share of requests that would have to be of another kind."""
        kinds = self.then.keys() | self.now.keys()
        return sum(abs(self.then.get(k, 0) - self.now.get(k, 0)) for k in kinds) / 2


def drift(sample: Path, later: Path, *, kind: str, fields: Fields) -> Drift:
    """Compare a later log with the card of a sample.

    What of the later requests the earlier log has too is a Horvitz-Thompson estimate: the sampled
    queries' later requests, each over its inclusion probability.
    """
    card, queries = CARDS.read(beside(sample)), list(beir.queries(sample))
    if digest.of_queries(queries) != card.queries_sha256:
        raise BadFile(sample, "it was changed since its card was written", CARDS.remedy)
    counts = count(later, kind, fields)
    every = classified(counts.queries.values()).items()
    now = {name: sum(one.requests for one in each) for name, each in every}
    carried = sum(
        counts.queries[key].requests / query.drawn.inclusion
        for query in queries
        if query.drawn and (key := normalised(query.text)) in counts.queries
    )
    then = {name: stratum.requests for name, stratum in card.strata.items()}
    both_tell = all(name.count("/") == TOLD for name in (*then, *now))
    parts = TOLD + 1 if both_tell else TOLD
    return Drift(
        _shares(then, parts),
        _shares(now, parts),
        counts.requests,
        min(1.0, carried / counts.requests),
    )


def _shares(requests: Mapping[str, int], parts: int) -> dict[str, float]:
    """Add up over the classes of frequency, which are thirds of every log."""
    found: Counter[str] = Counter()
    for name, number in requests.items():
        found["/".join(name.split("/")[1:parts])] += number
    return {kind: number / found.total() for kind, number in sorted(found.items())}


def _card(path: Path, sample: LogSample, seed: int) -> Mapping[str, Any]:
    """Describe what a sample is of, and how it was drawn."""
    counts = sample.counts
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return {
        "format": FORMAT,
        "log": path.name,
        "log_sha256": digest.of_files(files),
        "log_format": counts.format,
        "seed": seed,
        "lines": counts.lines,
        "requests": counts.requests,
        "sessions": counts.sessions,
        "foreign_lines": counts.foreign,
        "untold_requests": counts.untold,
        "left_out": dict(counts.left),
        "masked": dict(counts.masked),
        "mask_limits": LIMITS,
        "strata": {name: asdict(stratum) for name, stratum in sample.strata.items()},
        "near_duplicates": sum(map(len, near_duplicates(sample.queries))),
        "queries_sha256": digest.of_queries(sample.queries),
    }
