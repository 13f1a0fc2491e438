"""Message search over an arm's index: served, changed and followed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import NamedTuple, cast

from harness.core.errors import BadFile, HarnessError, IndexNotReady
from harness.core.files import replacing_folder
from harness.core.folders import MAIL, claim
from harness.core.records import Document, Scalar
from harness.corpus import mbox
from harness.pipeline.layout import Layout
from harness_engines import registry as arms
from harness_engines.contract import SearchError
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.arm import STORE, Mail, MailSearcher
from harness_engines.stacks.agent_mail.live import LiveIndexes
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.service import Observer
from harness_engines.stacks.agent_mail.sqlite import schema, store
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine

ARM = "mail-tantivy"
PAUSE_S = 0.2


Observed = Callable[[MailSearcher, arms.Arm, Path, Path], AbstractContextManager[Observer]]
"""Opens what is told of each answer of a searcher: of an arm, its index and the cache."""


class Mailbox(NamedTuple):
    """What was indexed of mbox files, and what is odd about their mails."""

    documents: int
    notes: tuple[str, ...]


def engine_of(arm: arms.Arm) -> Mail:
    """Return the engine of an arm of the stack mail; another arm is refused."""
    if not isinstance(arm.engine, Mail):
        raise HarnessError(f"{arm.path}: only arms of the stack mail serve here, such as {ARM}")
    return arm.engine


@contextmanager
def opened(arm: arms.Arm, index: Path) -> Iterator[MailSearcher]:
    """Open an index of an arm of the stack mail."""
    engine_of(arm)
    with arm.open(index) as searcher:
        yield cast("MailSearcher", searcher)


def in_mailbox(folder: Path) -> Layout:
    """Return where the index of a mailbox lies."""
    return Layout(folder, folder, folder)


def index_mailbox(files: Sequence[Path], folder: Path, arm: str, cache: Path) -> Mailbox:
    """Index mbox files, each as a project that is called like the file."""
    served = arms.load(arm, cache)
    engine_of(served)
    documents: list[Document] = []
    notes: list[str] = []
    for number, path in enumerate(files, start=1):
        if path.stem in {one.stem for one in files[: number - 1]}:
            raise BadFile(path, "has the name of another file here", "Rename one of the two")
        read = mbox.read(path)
        of: dict[str, Scalar] = {"project_id": number, "project_slug": path.stem}
        documents += (
            replace(one, doc_id=f"{path.stem}/{one.doc_id}", metadata={**one.metadata, **of})
            for one in read.documents
        )
        notes += (f"{path}: mail {one.number}: {one.problem}" for one in read.notes)
    claim(folder, MAIL, reads=files)
    with replacing_folder(in_mailbox(folder).index(served.name)) as place:
        made = served.build(documents, place)
    return Mailbox(made.documents, tuple(notes))


def drop_fts5(layout: Layout, arm: str, cache: Path) -> int:
    """Remove FTS5 from the messages of an index, and count those that Tantivy holds."""
    served = arms.load(arm, cache)
    folder = layout.index(served.name)
    with opened(served, folder) as searcher:
        words = cast("TantivyMailEngine", searcher.service.tiers.lexical[FallbackTier.TANTIVY])
        health = words.health()
    if not health.ready:
        raise HarnessError(f"{folder}: Tantivy is not ready ({health.reason}). Index it again")
    with mail_box(layout, arm, cache) as box, box.store.writing() as db:
        schema.drop_index(db, schema.MESSAGES)
    return health.documents


@contextmanager
def mail_box(layout: Layout, arm: str, cache: Path) -> Iterator[ingest.Ingest]:
    """Open the messages of an arm's index for writing."""
    served = arms.load(arm, cache)
    engine_of(served)
    try:
        with ingest.opened(layout.index(served.name) / STORE) as box:
            yield box
    except SearchError as exc:
        raise IndexNotReady(f"{exc}. Build it again: harness stage index") from exc


def follow(layout: Layout, arm: str, cache: Path, told: Callable[[int], object]) -> None:
    """Keep the indexes of an arm up to its messages; ``told`` learns each new generation."""
    served, last = arms.load(arm, cache), -1
    index = layout.index(served.name)
    with opened(served, index) as searcher:
        live = cast("LiveIndexes", searcher.service.fresh)
        while True:
            try:
                reached = live.catch_up()
            except SearchError as exc:
                raise HarnessError(f"{index}: {exc}") from exc
            if reached != last:
                told(reached)
            last = reached
            sleep(PAUSE_S)


@contextmanager
def mail_service(
    layout: Layout,
    arm: str,
    cache: Path,
    switch: Callable[[], KillSwitch | None],
    observed: Observed | None = None,
    *,
    budget_ms: float = 0.0,
) -> Iterator[Surface]:
    """Open the arm's index; ``switch`` is called at every query, None leaves the arm's own.

    A query may take ``budget_ms``, or the arm's own budget where that is shorter; 0 means none.
    With ``observed``, what is served under the switch ``shadow`` is offered to an observer.
    """
    served = arms.load(arm, cache)
    index, settings = layout.index(served.name), engine_of(served).settings.model_dump()
    with ExitStack() as until_closed:
        searcher = until_closed.enter_context(opened(served, index))
        directory = until_closed.enter_context(store.opened(index / STORE))
        own_ms = searcher.service.budget_ms
        shorter_ms = min(filter(None, (own_ms, budget_ms)), default=0.0)
        observer = None
        if observed is not None:
            watching = observed(searcher, served, index, cache)
            observer = until_closed.enter_context(watching)
        service = replace(searcher.service, budget_ms=shorter_ms, observer=observer)
        made, mode = searcher.manifest, searcher.mode
        yield Surface(service, directory, served.name, made, mode, settings, switch)
