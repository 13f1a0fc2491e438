"""Clusters of queries that put one need in other words, and the files that keep them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from harness.core.errors import BadFile
from harness.core.records import Qrels, Query
from harness.core.scores import BY_TEXT, Clustering
from harness.core.store import Artifact, Json

VERSION = 1
WORD = re.compile(r"\w+")
TOKEN = re.compile(r"\w+(?:[._]+\w+)*[+#]*")
"""A word, or a name with its inner points: ``json.loads``, ``C++``, ``3.5``."""
GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")
SHORTENED = re.compile(r"n['\u2019]t\b")
POSSESSIVE = re.compile(r"['\u2019]s\b")
CONTENTLESS = (
    "a an the of to for in on at by with from as into and or",
    "is are was were be been being am do does did done can could should would will shall may",
    "might must have has had i me my we our you your he his she her it its",
    "they them their this that these those there here what which how",
    "please help show need want way ways steps step example examples using use used some any",
    "der die das ein eine und le la les un une et el los",
)
"""Articles, auxiliaries, pronouns and the like; ``when``, ``where`` and ``who`` are content."""
EMPTY = frozenset(word for words in CONTENTLESS for word in WORD.findall(words))
NEGATIVE = (
    "not no non never without cannot nor neither none",
    "nicht kein keine keinen ohne nie pas sans jamais sin nunca",
)
NEGATIONS = frozenset(word for words in NEGATIVE for word in WORD.findall(words))
SHORT = 3
"""Letters of the longest word that is never cut, and of the shortest stem."""
NAMED = re.compile(r"[\d._+#]")
VOWEL = re.compile(r"[aeiouy]")
SPELLINGS = (
    (re.compile(r"our(?=$|s$|ed$|ing$|al|ful|ite)"), "or"),
    (re.compile(r"(?<=[a-z]{3})([iy])[sz](?=e$|es$|ed$|er$|ers$|ing$|ation|ations)"), r"\1s"),
    (re.compile(r"^(cent|theat|met|fib|lit)re(?=$|s$)"), r"\1er"),
    (re.compile(r"^grey"), "gray"),
)


class Wording(NamedTuple):
    """The words of a text that carry its content."""

    words: frozenset[str]
    names: tuple[str, ...]
    """Numbers, models, identifiers and single letters, in their order."""
    negated: bool
    proper: frozenset[str]
    """Stems of words that begin with a capital letter where a sentence does not."""

    @property
    def signature(self) -> str:
        """What two texts of the same words have in common, whatever their capital letters."""
        return "\t".join((" ".join(sorted(self.words)), " ".join(self.names), "-" * self.negated))

    def like(self, other: Wording) -> float:
        """Jaccard of the words."""
        return len(self.words & other.words) / len(self.words | other.words)

    def parted(self, other: Wording) -> bool:
        """Return whether the two differ in a number, a name or a negation."""
        return (
            (self.names, self.negated) != (other.names, other.negated)
            or not self.proper <= other.words
            or not other.proper <= self.words
        )


def wording(text: str) -> Wording:
    """Read the words of a text; where none carries content, all of them do."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    plain = GROUPED.sub("", POSSESSIVE.sub("", SHORTENED.sub(" not", plain)))
    tokens = TOKEN.findall(plain)
    folded = [token.casefold() for token in tokens]
    names = tuple(
        word for word in folded if word not in EMPTY and (len(word) == 1 or NAMED.search(word))
    )
    stems = {
        stem(word)
        for word in folded
        if word not in EMPTY and word not in NEGATIONS and word not in names
    }
    proper = {
        stem(word)
        for token, word in zip(tokens[1:], folded[1:], strict=True)
        if token[0].isupper() and word not in EMPTY and word not in names
    }
    words = frozenset(stems.union(names)) or frozenset(folded) or frozenset([text.strip()])
    negated = not NEGATIONS.isdisjoint(folded)
    return Wording(words, names, negated, frozenset(proper))


def normalised(text: str) -> str:
    """Leave the words of a text, caseless; the whole text where it has none."""
    return " ".join(WORD.findall(text.casefold())) or text.strip()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Take the inflection off an English word: plurals, -ed and -ing; its meaning stays."""
    for spelling, one in SPELLINGS:
        word = spelling.sub(one, word)
    if len(word) <= SHORT or not word.isascii():
        return word
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= SHORT and VOWEL.search(rest) and rest[-1] != "e":
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            word = rest[:-1] if doubled else rest
            break
    word = word.removesuffix("e") if len(word) > SHORT else word
    return word[:-1] + "i" if word.endswith("y") and len(word) > SHORT else word


LEAST_JUDGED = Fraction(4, 5)
"""Jaccard from which on the relevant documents of two queries are nearly the same."""
LEAST_WORDS = {False: Fraction(1, 3), True: Fraction(1, 2)}
"""Jaccard of words with content beside that; the greater one where one document is all there is."""
FEW = 32
"""Queries of a document that are all compared with each other."""
METHOD = {
    "format": 3,
    "wording": VERSION,
    "least_judged": float(LEAST_JUDGED),
    "least_words": [round(float(least), 4) for least in LEAST_WORDS.values()],
}

Codes = NDArray[np.int64]
Pairs = Iterable[tuple[int, int]]
Key = tuple[str, str]


class _Need(NamedTuple):
    """The queries of one wording."""

    wording: Wording
    judged: set[frozenset[str]]


def stars(
    texts: Sequence[str], judged: Sequence[frozenset[str]] | None = None, pairs: Pairs = ()
) -> Codes:
    """Return for each text the place of the first one of its cluster, shape (texts,).

    ``judged`` are the relevant documents of each text, none where they are unknown; ``pairs`` are
    places of texts that a model found alike. Wordings with fewer words come first. Each joins the
    cluster whose first one it is most like by its words, or opens its own.
    """
    numbers: dict[str, int] = {}
    needs: list[_Need] = []
    of: list[int] = []
    for at, text in enumerate(texts):
        words = wording(text)
        number = numbers.setdefault(words.signature, len(needs))
        of.append(number)
        if number == len(needs):
            needs.append(_Need(words, set()))
        known = needs[number].wording  # it keeps the capital letters that every text has
        words = known._replace(proper=known.proper & words.proper)
        needs[number] = needs[number]._replace(wording=words)
        if judged is not None and judged[at]:
            needs[number].judged.add(judged[at])
    signs = list(numbers)
    ordered = sorted(range(len(needs)), key=lambda it: (len(needs[it].wording.words), signs[it]))
    place = [0] * len(needs)
    for at, number in enumerate(ordered):
        place[number] = at
    near = defaultdict[int, set[int]](set)
    for one, other in pairs:
        a, b = place[of[one]], place[of[other]]
        near[a].add(b)
        near[b].add(a)
    leaders = _leaders([needs[number] for number in ordered], near)
    first: dict[int, int] = {}
    return np.array(
        [first.setdefault(leaders[place[number]], at) for at, number in enumerate(of)],
        dtype=np.int64,
    )


def _leaders(needs: Sequence[_Need], near: dict[int, set[int]]) -> list[int]:
    """Return the place of each need's leader (prefix filter: Chaudhuri et al., ICDE 2006)."""
    documents = Counter(doc for need in needs for docs in need.judged for doc in docs)
    words = Counter(word for need in needs if need.judged for word in need.wording.words)
    known: dict[Key, list[int]] = {}
    leaders: list[int] = []
    for at, need in enumerate(needs):
        keys = set(_keys(need, documents, words))
        others = {other for key in keys for other in known.get(key, ())}
        alike = [other for other in others if _judged_alike(need, needs[other])]
        alike += [
            other
            for other in near.get(at, ())
            if other < at
            and leaders[other] == other
            and not need.wording.parted(needs[other].wording)
        ]
        leader = min(alike, key=lambda it: (-need.wording.like(needs[it].wording), it), default=at)
        leaders.append(leader)
        if leader == at:
            for key in keys:
                known.setdefault(key, []).append(at)
    return leaders


def _judged_alike(one: _Need, other: _Need) -> bool:
    """Return whether two have nearly the same relevant documents, and words that are alike."""
    if one.wording.parted(other.wording):
        return False
    like = one.wording.like(other.wording)
    return any(
        len(a & b) / len(a | b) >= float(LEAST_JUDGED)
        and like >= float(LEAST_WORDS[len(a & b) == 1])
        for a in one.judged
        for b in other.judged
    )


def _keys(need: _Need, documents: Counter[str], words: Counter[str]) -> Iterator[Key]:
    """Yield a rare document alone where few queries have it, and else with each rare word."""
    for docs in need.judged:
        for doc in _rarest(docs, documents, LEAST_JUDGED):
            if documents[doc] <= FEW:
                yield doc, ""
            else:
                own = _rarest(need.wording.words, words, LEAST_WORDS[False])
                yield from ((doc, word) for word in own)


def _rarest(items: frozenset[str], counts: Counter[str], least: Fraction) -> list[str]:
    """Return the rarest of a set, one of which every set with Jaccard ``least`` to it has too."""
    ordered = sorted(items, key=lambda item: (counts[item], item))
    shared = -(-len(items) * least.numerator // least.denominator)
    return ordered[: len(items) - shared + 1]


SIMILAR = "similar.json"
SIMILAR_HINT = "Run: harness stage prepare --similar"
LEAST_COSINE = 0.85
"""Cosine, rounded, from which on two queries are alike; docs/decisions/0018 has the evidence."""
DIGITS = 2
ROWS = 1_024


@dataclass(frozen=True, slots=True)
class Similar:
    """Pairs of query ids with their rounded cosine, and how they were found."""

    model: str
    """Name and digests; ``none`` where no model was used."""
    least_cosine: float
    queries_sha256: str
    pairs: tuple[tuple[str, str, float], ...]

    @classmethod
    def between(
        cls, ids: Sequence[str], vectors: NDArray[np.float32], model: str, queries_sha256: str
    ) -> Similar:
        """Compare unit vectors, shape (queries, dimension), each with every later one."""
        pairs: list[tuple[str, str, float]] = []
        for start in range(0, len(vectors), ROWS):
            cosines = np.round(vectors[start : start + ROWS] @ vectors[start:].T, DIGITS)
            found = np.argwhere(np.triu(cosines, 1) >= np.float32(LEAST_COSINE)).tolist()
            for row, column in found:
                cosine = round(float(cosines[row, column]), DIGITS)
                pairs.append((ids[start + row], ids[start + column], cosine))
        return cls(model, LEAST_COSINE, queries_sha256, tuple(pairs))


NONE = Similar("none", LEAST_COSINE, "", ())
SIMILAR_FILE: Artifact[Similar] = Json("pairs of queries", Similar, remedy=SIMILAR_HINT)


def read_similar(dataset: Path, queries_sha256: str) -> Similar:
    """Read the pairs that are kept beside a data set's card; none where no file is there."""
    path = dataset / SIMILAR
    if not path.exists():
        return NONE
    found = SIMILAR_FILE.read(path)
    if found.queries_sha256 != queries_sha256:
        raise BadFile(path, "its pairs are of other queries", SIMILAR_HINT)
    return found


CLUSTERS = "clusters.json"
CLUSTER_HINT = "Run: harness stage prepare"
Groups = Sequence[Sequence[str]]
"""Query ids of each cluster of two or more, in the order of the query set."""


class DataSha256(NamedTuple):
    """What clusters were found in."""

    queries_sha256: str
    qrels_sha256: str


def near_duplicates(
    queries: Iterable[Query], qrels: Qrels | None = None, similar: Similar = NONE
) -> Groups:
    """Group the queries that have no intent; those alike in no group are left out."""
    unnamed = [query for query in queries if query.intent is None]
    alike = _alike(unnamed, qrels, similar)
    return [[query.query_id for query in star] for star in alike if len(star) > 1]


def _alike(
    queries: Sequence[Query], qrels: Qrels | None, similar: Similar
) -> Iterable[list[Query]]:
    """Group queries by their texts, relevant documents and cosines."""
    grades = qrels.grades if qrels else {}
    judged = [
        frozenset(doc for doc, grade in grades.get(query.query_id, {}).items() if grade > 0)
        for query in queries
    ]
    place = {query.query_id: at for at, query in enumerate(queries)}
    pairs = [(place[a], place[b]) for a, b, _ in similar.pairs if a in place and b in place]
    found: dict[int, list[Query]] = {}
    firsts = stars([query.text for query in queries], judged, pairs).tolist()
    for query, first in zip(queries, firsts, strict=True):
        found.setdefault(first, []).append(query)
    return found.values()


def parted(
    queries: Iterable[Query], qrels: Qrels | None = None, similar: Similar = NONE
) -> Sequence[str]:
    """Name the queries with an intent that are one need with one of another cluster."""
    known, found = list(queries), set[str]()
    cluster = of_queries(known, near_duplicates(known, qrels, similar))
    for star in _alike(known, qrels, similar):
        if len({cluster.get(query.query_id, query.query_id) for query in star}) > 1:
            found.update(query.query_id for query in star if query.intent is not None)
    return [query.query_id for query in known if query.query_id in found]


@dataclass(frozen=True, slots=True)
class QueryClusters:
    """What was found in a query set, of which data, and how."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    method: Mapping[str, object]
    queries_sha256: str
    qrels_sha256: str
    similar: Similar
    near_duplicates: Groups
    parted: Sequence[str]
    """Ids of queries of one need that intents part (``parted``)."""


CLUSTER_FILE: Artifact[QueryClusters] = Json(
    "clusters of queries", QueryClusters, remedy=CLUSTER_HINT
)


def write(
    path: Path, queries: Sequence[Query], qrels: Qrels, sha256: DataSha256, similar: Similar
) -> None:
    """Write the clusters of a query set, those that intents part, and how they were found."""
    of = queries, qrels, similar
    found = QueryClusters(METHOD, *sha256, similar, near_duplicates(*of), parted(*of))
    CLUSTER_FILE.write(path, found)


def read_clusters(path: Path, sha256: DataSha256) -> QueryClusters:
    """Read what ``write`` wrote of these queries and judgements."""
    found = CLUSTER_FILE.read(path)
    if (found.method, found.queries_sha256, found.qrels_sha256) != (METHOD, *sha256):
        raise BadFile(path, "the clusters are of other queries or of another method", CLUSTER_HINT)
    return found


def of_queries(
    queries: Iterable[Query], near: Groups, how: Clustering = BY_TEXT
) -> Mapping[str, str]:
    """Name the cluster of each query that depends on another one; equal texts are one query."""
    if how == "none":
        return {}
    known = list(queries)
    found = {q.query_id: f"intent {q.intent}" for q in known if q.intent is not None}
    if how == BY_TEXT:
        found |= {query_id: f"like {ids[0]}" for ids in near for query_id in ids}
        _join_equal_texts(known, found)
    return found


def _join_equal_texts(queries: Sequence[Query], found: dict[str, str]) -> None:
    """Join equal texts in one cluster; that of an intent takes in the cluster of its twins."""
    owner: dict[str, str] = {}
    taken: dict[str, str] = {}
    for query in queries:
        if query.intent is not None:
            label = found[query.query_id]
            owner[query.text] = min(label, owner.get(query.text, label))
    for query in queries:
        if query.intent is None and query.text in owner and query.query_id in found:
            label, new = found[query.query_id], owner[query.text]
            taken[label] = min(new, taken.get(label, new))
    for query in queries:
        new = owner.get(query.text) or taken.get(found.get(query.query_id, ""), "")
        if new:
            found[query.query_id] = new
