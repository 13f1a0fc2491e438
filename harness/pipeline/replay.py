"""Stage ``replay``: ask one arm every query of one data set, twice."""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from sys import intern
from threading import local
from typing import Final

import numpy as np

from harness.core import digest
from harness.core.batches import code_sha256, current
from harness.core.digest import of_files, of_json
from harness.core.engine import IMPORTED, Manifest, Searcher, TakesParams
from harness.core.errors import DatasetError, HarnessError, InvalidArm
from harness.core.files import held
from harness.core.printable import many
from harness.core.progress import progress
from harness.core.records import Query
from harness.core.run import Run, Status
from harness.corpus import trec
from harness.corpus.cells import EXAMPLES, examples
from harness.corpus.prepared import Prepared
from harness.pipeline import receipts
from harness.pipeline.index import Opener, opened, sources
from harness.pipeline.layout import Layout
from harness.pipeline.params import ReplayParams
from harness.replay.drive import PART, drive
from harness.replay.machine import Advance, Work, started, usable_cores
from harness_engines import registry
from harness_engines.registry import Arm


def remarks(run: Run) -> Iterator[str]:
    """Describe what a reader of means must know: repeated attempts, unanswered queries."""
    if run.retries:
        count = run.rate_limited
        limited = (
            f". The server limited the rate of {count} of them: set rate_per_s" if count else ""
        )
        yield (
            f"{run.arm}: {many(run.retries, 'attempt')} failed and were repeated; their time is in"
            f" the latencies{limited}"
        )
    failed = [at for at, status in enumerate(run.status) if status != Status.ANSWERED]
    if failed:
        at = next((at for at in failed if run.errors[at]), failed[0])
        why = f"{run.query_ids[at]}: {run.errors[at] or 'no error was noted'}"
        yield f"{run.arm}: {len(failed)} of {len(run)} queries have no answer; the first, {why}"


_kept = local()
"""Of each thread: which index it has open, and its searcher."""
PREFIX = 12
OF_ITSELF = "not reproduced on retry; possibly a timeout under load"
WORTH: Final = PART
"""Queries from which on a process pays for its start."""


def replay(
    layout: Layout, arm_name: str, cache: Path, params: ReplayParams, *, keep_parts: bool = False
) -> Run:
    """Write an arm's two runs; with ``keep_parts`` a second call asks only what is not answered."""
    arm = registry.load(arm_name, cache)
    with held(layout.parts(arm.name)):
        first = _replayed(layout, arm, cache, params)
        if not keep_parts:
            shutil.rmtree(layout.parts(arm.name), ignore_errors=True)
        return first


def _replayed(layout: Layout, arm: Arm, cache: Path, params: ReplayParams) -> Run:
    began = datetime.now(UTC)
    wanted = receipts.read_manifest(layout, arm.name)
    counted = receipts.index_files(layout, arm.name)
    queries = len(Prepared.open(layout.data).queries())
    once = params.model_copy(update={"aa": "all"})
    otherwise = params.model_copy(update={"seed": params.seed + 1})
    again_of = queries if params.aa == "all" else min(receipts.SAMPLE, queries)
    work = partial(_ask_alone, layout, str(arm.path), cache, otherwise)
    with ahead(arm, again_of, work) as wait:
        with progress(f"asking {arm.name}", queries) as advance:
            first = _ask(layout, arm, cache, once, advance)
        if not (first.status == Status.ANSWERED).any():
            raise InvalidArm(
                f"{arm.name}: not one of {len(first)} queries was answered;"
                f" the first error is: {next(filter(None, first.errors), 'none')}"
            )
        done = wait()
    told = progress(f"asking {arm.name} again", again_of)
    with nullcontext(lambda _: None) if done else told as advance:
        again = _ask(layout, arm, cache, otherwise, advance)
    receipts.check_same(layout, arm.name, wanted, receipts.read_manifest(layout, arm.name))
    first = receipts.record_run(layout, first, again)
    parts = (path for path in layout.parts(arm.name).rglob("*") if path.is_file())
    answered = (datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in parts)
    receipts.note_replayed(layout, arm.name, min((began, *answered)), index_sha256=counted)
    return first


def asked(queries: Sequence[Query], params: ReplayParams) -> Sequence[Query]:
    """Return the queries to ask, in their order: all, or a sample of them that the seed draws."""
    if params.aa == "all" or len(queries) <= receipts.SAMPLE:
        return queries
    places = sorted(random.Random(params.seed).sample(range(len(queries)), receipts.SAMPLE))
    return [queries[at] for at in places]


def _ask_alone(
    layout: Layout, arm: str, cache: Path, params: ReplayParams, advance: Advance
) -> None:
    """Do what ``_ask`` does, for the parts that it leaves."""
    _ask(layout, registry.load(arm, cache), cache, params, advance)


def _ask(layout: Layout, arm: Arm, cache: Path, params: ReplayParams, advance: Advance) -> Run:
    data = Prepared.open(layout.data)
    queries = asked(data.queries(), params)
    receipts.check_corpus(layout, arm.name, receipts.read_manifest(layout, arm.name), data)
    parts = layout.parts(arm.name) / str(params.seed)
    try:
        with opened(layout, arm) as searcher:
            run = drive(
                arm.name,
                searcher,
                queries,
                k=params.k,
                time_limit_s=params.time_limit_s,
                seed=params.seed,
                parts=parts,
                code_sha256=of_json([code_sha256(), of_files(sources(arm))]),
                advance=advance,
                opener=KeptOpen(Opener.of(layout, arm, cache)) if arm.shared else None,
            )
            check_served(run, searcher, queries)
            return run
    except InvalidArm:
        shutil.rmtree(parts, ignore_errors=True)
        raise


@contextmanager
def ahead(arm: Arm, queries: int, work: Work) -> Iterator[Callable[[], bool]]:
    """Begin ``work`` in a process of its own, where the arm allows it and a processor is free."""
    free = usable_cores() > 1 and current() is None
    if not (arm.shared and queries >= WORTH and free):
        yield lambda: False
        return
    with started(work) as follow:

        def wait() -> bool:
            try:
                with progress(f"asking {arm.name} again", queries) as advance:
                    follow(advance)
            except HarnessError:
                return False
            return True

        yield wait


def check_served(run: Run, searcher: Searcher, queries: Sequence[Query]) -> None:
    """Check the fingerprint of each answer: an engine that fell back has not run (stacks, 18)."""
    own = searcher.manifest.fingerprint
    strange = [
        (query_id, who)
        for query_id, who, status in zip(run.query_ids, run.served_by, run.status, strict=True)
        if status == Status.ANSWERED and who != own
    ]
    if not strange:
        return
    query_id, who = strange[0]
    first = next(query for query in queries if query.query_id == query_id)
    raise InvalidArm(
        f"{run.arm}: {len(strange)} of {len(run)} answers were served by another engine than its"
        f" own, the first, of {query_id}, by {who[:PREFIX] or 'an unknown one'}:"
        f" {_why(searcher, first) or OF_ITSELF}. Nothing is scored. Fix that, build the index again"
        f" (harness stage index), and replay"
    )


def _why(searcher: Searcher, query: Query) -> str:
    """Ask once more, for the note."""
    try:
        if query.params and isinstance(searcher, TakesParams):
            return searcher.search_with(query.text, 1, query.params).note
        return searcher.search(query.text, 1).note
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        return f"{type(exc).__name__}: {exc}"


@dataclass(frozen=True, slots=True)
class KeptOpen:
    """Opens an arm in another process; each of its threads keeps the last one open."""

    opener: Opener

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        """Return the open index."""
        if getattr(_kept, "of", None) != self:
            if hasattr(_kept, "until"):
                _kept.until.close()
            _kept.__dict__.clear()
            with ExitStack() as until:
                _kept.searcher = until.enter_context(self.opener())
                _kept.of, _kept.until = self, until.pop_all()
        yield _kept.searcher


def import_run(
    layout: Layout, arm: str, file: Path, *, missing: trec.MissingQuery = trec.MissingQuery.LOST
) -> tuple[Run, tuple[str, ...]]:
    """Write the file's rankings as the run of ``arm``; describe what it lacks or has too much.

    A query without a line is what ``missing`` says. Queries of another split are left out, and so
    are those of no split where the file answers every query: else they may be the missing ones.
    The second run is the first, so such an arm cannot race. Its age counts from now.
    """
    data = Prepared.open(layout.data)
    asked = [query.query_id for query in data.queries()]
    read = trec.read_run(file, arm, asked, missing=missing)
    manifest = Manifest(
        engine=IMPORTED,
        version=f"sha256 {digest.of_file(file)}",
        documents=data.manifest.documents,
        corpus_sha256=data.manifest.corpus_sha256,
        settings_sha256=digest.of_json({"missing": missing}),
    )
    without = [q for q, shown in zip(read.query_ids, read.lengths, strict=True) if not shown]
    others = set(read.query_ids[len(asked) :]) - data.ids().elsewhere
    name = data.manifest.name
    if others and without:
        raise DatasetError(
            f"{file}: has {many(len(others), 'query')} that {name} does not have (for example"
            f" {examples(others, without)}) and no line for {len(without)} of {len(asked)} that it"
            " has. Write ids as the data set does, or take such lines out"
        )
    corpus = {document.doc_id for document in data.documents()}
    if strange := set(read.vocabulary) - corpus:
        raise DatasetError(
            f"{file}: shows {many(len(strange), 'document')} that {name} does not"
            f" have (for example {examples(strange, corpus)}); give a run over this corpus"
        )
    run = read.only(asked)
    served_by = np.where(run.status == Status.ANSWERED, manifest.fingerprint, "").tolist()
    run = replace(run, served_by=tuple(map(intern, served_by)))
    layout.write(Layout.manifest, manifest, arm)
    run = receipts.record_run(layout, run)
    receipts.note_replayed(layout, arm, datetime.now(UTC))
    odd = []
    if count := run.count(Status.NOT_ASKED):
        odd.append(
            f"{count:,} of {len(run):,} queries have no line: they are lost, and count against"
            " every candidate; where the engine found nothing for them, say --missing empty"
        )
    if others:
        odd.append(
            f"{many(len(others), 'query is')} not in the data set and left out, for example"
            f" {', '.join(sorted(others)[:EXAMPLES])}"
        )
    return run, tuple(odd)
