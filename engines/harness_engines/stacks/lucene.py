"""Lucene as an arm: one segment, documents in byte order of their ids, BM25."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal

import jpype
from pydantic import Field

from harness.core.engine import Answer, Engine, Manifest
from harness.core.errors import InvalidArm, ModelNotReady
from harness.core.printable import one_line
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import FileEngine
from harness_engines.lexical.grammar import ClauseGroup, note_nothing, note_refusals, parse
from harness_engines.lexical.query import Weighed
from harness_engines.lexical.terms import Clause, Occur
from harness_engines.ranking import by_best

OPTIONS = ("-Xrs", "-Xss4m", "-XX:+UseSerialGC")
"""Signals stay Python's; deep queries fit; no threads beside those that search."""
QUOTED = 300
_starting = Lock()

Classes = Callable[[str], Any]
"""Gives a class of Lucene by its name without ``org.apache.lucene.``."""


def jars_in(folder: Path) -> list[Path]:
    """Find Lucene's jars, one version of each."""
    found = []
    for name in ("lucene-core", "lucene-analyzers-common"):
        here = [path for path in folder.glob(f"{name}*.jar") if path.name[len(name)] in ".-"]
        exact = sorted(path for path in here if path.name[len(name) + 1 :][:1].isdigit())
        if len(exact) != 1:
            problem = f"has {len(exact)} versions of {name}" if exact else f"lacks {name}"
            raise ModelNotReady(
                f"{folder}: {problem}. Install Lucene 8 (apt install liblucene8-java), or name"
                " its folder with jars"
            )
        found += exact
    return found


def lucene(folder: Path) -> Classes:
    """Start Java with the jars of ``folder``."""
    path = [str(jar) for jar in jars_in(folder)]
    with _starting:
        if not jpype.isJVMStarted():
            try:
                jpype.startJVM(*OPTIONS, classpath=path, convertStrings=False, interrupt=False)
            except (OSError, ValueError, RuntimeError) as exc:
                raise ModelNotReady(
                    f"Java cannot be started ({one_line(str(exc), QUOTED)}). Install it: apt"
                    " install openjdk-17-jre-headless"
                ) from exc
        loaded = str(jpype.JClass("java.lang.System").getProperty("java.class.path"))
    if loaded.split(":")[: len(path)] != path:
        raise InvalidArm(
            f"this process has Lucene of other jars ({one_line(loaded, QUOTED)}). Judge one"
            " version in a run"
        )
    return lambda name: jpype.JClass(f"org.apache.lucene.{name}")


RULES = "clauses over fields, 2"
"""Version of what stands here; another one ranks otherwise."""
IDS = "ids.json"
"""Ids in the order of Lucene's own numbers."""
_APART = re.compile(r"[\W_]+")
"""Between words, as in a query: so read_csv is two words for Lucene too."""


@dataclass(frozen=True, slots=True)
class Lucene(FileEngine["LuceneSearcher"]):
    ENGINE: ClassVar = "lucene"
    settings: LuceneSettings
    classes: Classes

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.settings.model_dump(exclude={"jars"})

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return f"Lucene {self.classes('util.Version').LATEST}, {RULES}"

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        """Index with one thread; merges keep the order, so a document's number is its place."""
        found = sorted((one.doc_id, one.title, one.text) for one in documents)
        contract.write_ids(index / IDS, [doc_id for doc_id, _, _ in found])
        config = self.classes("index.IndexWriterConfig")(self._analyzer())
        config.setSimilarity(self._similarity())
        config.setMergePolicy(self.classes("index.LogDocMergePolicy")())
        config.setMergeScheduler(self.classes("index.SerialMergeScheduler")())
        config.setRAMBufferSizeMB(64.0)
        config.setUseCompoundFile(False)
        field, no = self.classes("document.TextField"), self.classes("document.Field$Store").NO
        one_document = self.classes("document.Document")
        folder = self._directory(index)
        try:
            writer = self.classes("index.IndexWriter")(folder, config)
            for _, title, text in found:
                made = one_document()
                for name, parts in self.settings.indexed(title, text).items():
                    for part in parts:
                        made.add(field(name, _APART.sub(" ", part), no))
                writer.addDocument(made)
            writer.forceMerge(1)
            writer.close()
        finally:
            folder.close()

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[LuceneSearcher]:
        ids = contract.read_ids(index / IDS)
        with contract.reading(index, jpype.JException):
            folder = self._directory(index)
            reader = self.classes("index.DirectoryReader").open(folder)
        try:
            contract.check_count(index, made, len(ids))
            contract.check_count(index, made, int(reader.numDocs()))
            searcher = self.classes("search.IndexSearcher")(reader)
            searcher.setSimilarity(self._similarity())
            making = QueryMaker(self.classes, self._analyzer(), self.settings)
            yield LuceneSearcher(searcher, making, ids, made)
        finally:
            reader.close()
            folder.close()

    def _directory(self, index: Path) -> Any:  # noqa: ANN401  a Java object
        paths = jpype.JClass("java.nio.file.Paths")
        lock = self.classes("store.NoLockFactory").INSTANCE
        return self.classes("store.NIOFSDirectory")(paths.get(str(index)), lock)

    def _analyzer(self) -> Any:  # noqa: ANN401
        if self.settings.analyzer == "english":
            return self.classes("analysis.en.EnglishAnalyzer")()
        return self.classes("analysis.standard.StandardAnalyzer")()

    def _similarity(self) -> Any:  # noqa: ANN401
        return self.classes("search.similarities.BM25Similarity")(self.settings.k1, self.settings.b)


@dataclass(frozen=True, slots=True, eq=False)
class LuceneSearcher:
    searcher: Any
    making: QueryMaker
    ids: tuple[str, ...]
    manifest: Manifest

    def search(self, text: str, k: int) -> Answer:
        asked = self.making.query(parse(text))
        if asked is None:
            why = note_nothing(text, has_stop_words=self.making.has_stop_words)
            return Answer((), self.manifest.fingerprint, why)
        if not self.ids:
            return Answer((), self.manifest.fingerprint)
        found = self.searcher.search(asked, min(k, len(self.ids))).scoreDocs
        hits = by_best(((self.ids[one.doc], float(one.score)) for one in found), k)
        return Answer(hits, self.manifest.fingerprint, note_refusals(text))


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  nothing is kept
    """Make the engine from an arm's settings."""
    given = LuceneSettings.model_validate(settings)
    return Lucene(given, lucene(Path(given.jars)))


class QueryMaker:
    """Makes queries for one analyzer."""

    def __init__(self, classes: Classes, analyzer: Any, settings: LuceneSettings) -> None:  # noqa: ANN401  a Java object
        self._builder = classes("util.QueryBuilder")(analyzer)
        self._boolean = classes("search.BooleanQuery$Builder")
        self._boost = classes("search.BoostQuery")
        self._everything = classes("search.MatchAllDocsQuery")()
        self._begun, self._term = classes("search.PrefixQuery"), classes("index.Term")
        occur = classes("search.BooleanClause$Occur")
        self._occur = {
            Occur.SHOULD: occur.SHOULD, Occur.MUST: occur.MUST, Occur.NOT: occur.MUST_NOT,
        }  # fmt: skip
        self._weights = settings.weights
        self.has_stop_words = settings.analyzer == "english"
        classes("search.BooleanQuery").setMaxClauseCount(10_000)

    def query(self, tree: ClauseGroup) -> Any | None:  # noqa: ANN401  a Java object
        """Make a query of a tree; None where no word is left to search for."""
        whole, kinds = self._boolean(), set()
        for part in tree.parts:
            one = self._clause(part) if isinstance(part, Clause) else self.query(part)
            if one is not None:
                whole.add(one, self._occur[part.occur])
                kinds.add(part.occur)
        if kinds == {Occur.NOT}:
            if any(part.occur is not Occur.NOT for part in tree.parts):
                return None
            whole.add(self._boost(self._everything, 0.0), self._occur[Occur.MUST])
        return whole.build() if kinds else None

    def _clause(self, clause: Clause) -> Any | None:  # noqa: ANN401
        text, found = " ".join(clause.words), []
        for field, weight in self._weights.items():
            if not weight:
                continue
            if clause.begun:
                start = self._term(field, clause.words[0].lower())
                found.append((self._begun(start), weight))
                continue
            if len(clause.words) > 1:
                found.append((self._builder.createPhraseQuery(field, text), weight))
            if len(clause.words) == 1 or not clause.quoted:
                found.append((self._builder.createBooleanQuery(field, text), weight))
        some = self._boolean()
        there = [(query, weight) for query, weight in found if query is not None]
        for query, weight in there:
            some.add(self._boost(query, weight), self._occur[Occur.SHOULD])
        return some.build() if there else None


class LuceneSettings(Weighed):
    """Which Lucene, how texts become words, and how they are ranked."""

    jars: str = "/usr/share/java"
    analyzer: Literal["standard", "english"] = "standard"
    k1: float = Field(default=1.2, ge=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)
    bm25_over: Literal["document", "fields"] = "document"
    title_weight: float = Field(default=2.0, ge=0, le=100)
    text_weight: float = Field(default=1.0, gt=0, le=100)
