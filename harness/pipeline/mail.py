"""Message search over an arm's index: served, changed and followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import NamedTuple

from engines import registry as arms
from engines.contract import SearchError
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.arm import STORE, Mail, MailSearcher, params_of
from engines.stacks.agent_mail.contract import SearchMode, SearchQuery, SearchResponse
from engines.stacks.agent_mail.ingest import Ingest
from engines.stacks.agent_mail.live import Live
from engines.stacks.agent_mail.mcp_tools.results import Signal, diagnose
from engines.stacks.agent_mail.mcp_tools.search import Identity, Surface
from engines.stacks.agent_mail.mcp_tools.server import Switched, under
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.sqlite import schema, store
from engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness.core.digest import of_json
from harness.core.engine import Answer, Searcher
from harness.core.errors import BadFile, HarnessError, IndexNotReady
from harness.core.files import replacing_folder
from harness.core.folders import MAIL, claim
from harness.core.records import Document, Scalar
from harness.corpus import mbox
from harness.pipeline.layout import Layout
from harness.shadow.comparison import Comparison, ShadowLog
from harness.shadow.log import Between
from harness.shadow.pair import Generation, Served

ARM = "mail-tantivy"
PAUSE_S = 0.2
"""Between two looks at the journal."""


class Mailbox(NamedTuple):
    """What was indexed of mbox files, and what is odd about their mails."""

    documents: int
    notes: tuple[str, ...]


def _foreign(arm: arms.Arm) -> HarnessError:
    return HarnessError(f"{arm.path}: only arms of the stack mail serve here, such as {ARM}")


def in_mailbox(folder: Path) -> Layout:
    """Return where the index of a mailbox lies."""
    return Layout(folder, folder, folder)


def index_mailbox(files: Sequence[Path], folder: Path, arm: str, cache: Path) -> Mailbox:
    """Index mbox files, each as a project that is called like the file."""
    served = arms.load(arm, cache)
    if not isinstance(served.engine, Mail):
        raise _foreign(served)
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
    with served.open(folder) as searcher:
        words: object = None
        if isinstance(searcher, MailSearcher):
            words = searcher.service.tiers.lexical.get(FallbackTier.TANTIVY)
        if not isinstance(words, TantivyMailEngine):
            raise _foreign(served)
        health = words.health()
    if not health.ready:
        raise HarnessError(f"{folder}: Tantivy is not ready ({health.reason}). Index it again")
    with mail_box(layout, arm, cache) as box, box.store.writing() as db:
        schema.drop_index(db, schema.MESSAGES)
    return health.documents


@contextmanager
def mail_box(layout: Layout, arm: str, cache: Path) -> Iterator[Ingest]:
    """Open the messages of an arm's index for writing."""
    served = arms.load(arm, cache)
    if not isinstance(served.engine, Mail):
        raise _foreign(served)
    try:
        with ingest.opened(layout.index(served.name) / STORE) as box:
            yield box
    except SearchError as exc:
        raise IndexNotReady(f"{exc}. Build it again: harness stage index") from exc


def follow(
    layout: Layout, arm: str, cache: Path, told: Callable[[int], object], rounds: int | None = None
) -> None:
    """Keep the indexes of an arm up to its messages; ``told`` learns each new generation.

    ``rounds`` looks at the journal are taken; None goes on until interrupted.
    """
    served, last, left = arms.load(arm, cache), -1, rounds
    with served.open(layout.index(served.name)) as searcher:
        live = searcher.service.fresh if isinstance(searcher, MailSearcher) else None
        if not isinstance(live, Live):
            raise _foreign(served)
        while left is None or left > 0:
            try:
                reached = live.catch_up()
            except SearchError as exc:
                raise HarnessError(f"{layout.index(served.name)}: {exc}") from exc
            if reached != last:
                told(reached)
            last, left = reached, None if left is None else left - 1
            sleep(PAUSE_S)


@contextmanager
def mail_service(
    layout: Layout,
    arm: str,
    cache: Path,
    switch: Callable[[], KillSwitch | None],
    shadow: ShadowLog | None = None,
    *,
    budget_ms: float = 0.0,
) -> Iterator[Switched]:
    """Open the arm's index; ``switch`` is called at every query, None leaves the arm's own.

    A query may take ``budget_ms``, or the arm's own budget where that is shorter; 0 means none.
    With ``shadow``, what is served under the switch ``shadow`` is compared and written down.
    """
    served = arms.load(arm, cache)
    index = layout.index(served.name)
    with ExitStack() as until_closed:
        searcher = until_closed.enter_context(served.open(index))
        if not (isinstance(searcher, MailSearcher) and isinstance(served.engine, Mail)):
            raise _foreign(served)
        directory = until_closed.enter_context(store.opened(index / STORE))
        service = searcher.service
        service = replace(service, budget_ms=_shorter(service.budget_ms, budget_ms))
        if shadow is not None:
            observer = watched(searcher, served, index, cache, shadow)
            service = replace(service, observer=until_closed.enter_context(observer))
        identity = Identity(served.name, searcher.manifest)
        surface = Surface(service, directory, identity, searcher.mode)
        yield Switched(surface, served.engine.settings.model_dump(), switch)


def _shorter(one_ms: float, other_ms: float) -> float:
    """Return the shorter of two budgets; 0 means none."""
    return min(filter(None, (one_ms, other_ms)), default=0.0)


class MailObserver:
    """Offers what the service serves to a comparison (``agent_mail.observer.ShadowObserver``)."""

    def __init__(self, control: MailSearcher, comparison: Comparison) -> None:
        self._control, self._comparison = control, comparison
        self._generation = Generation(control)

    def served(self, query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        """Offer one query with its filters, and the answer as documents.

        The mode is not among them: under this switch every mode is served by FTS5.
        """
        diagnostics = diagnose(search_response)
        signals = diagnostics.signals if diagnostics else []
        failed = Signal.SEARCH_FAILED.value in signals
        generation = self._generation()
        self._comparison.offer(
            Served(
                text=query.text,
                k=query.effective_limit,
                params=params_of(query),
                answer=None if failed else self._answer(search_response),
                error=diagnostics.reason if diagnostics and failed else "",
                elapsed_ns=elapsed_ns,
                generation=generation,
            ),
            self._generation,
        )

    def _answer(self, search_response: SearchResponse) -> Answer:
        """Sign with the arm's fingerprint what FTS5 itself answered, in whichever mode."""
        who = self._control.manifest.fingerprint
        if (
            search_response.fell_back
            or search_response.explain.used_like_fallback
            or search_response.unread
        ):
            who = of_json([
                who,
                search_response.served_by,
                search_response.explain.method,
                search_response.unread,
            ])
        return Answer(self._control.hits_of(search_response), who, search_response.explain.note)


@contextmanager
def watched(
    searcher: MailSearcher, arm: arms.Arm, index: Path, cache: Path, log: ShadowLog
) -> Iterator[MailObserver]:
    """Run Tantivy over the same index in the shadow of what ``searcher`` serves.

    The log names the arms as they are alone, under ``fts5`` and ``tantivy``, so that it can be
    compared with a replay of them.
    """
    opens = partial(candidate, str(arm.path), index, cache)
    between = Between(
        *(f"{arm.name} ({switch.value})" for switch in (KillSwitch.FTS5, KillSwitch.TANTIVY))
    )
    with log.compared(opens, between=between, process=True) as comparison:
        yield MailObserver(_as(searcher, arm, KillSwitch.FTS5), comparison)


@contextmanager
def candidate(arm_path: str, index: Path, cache: Path) -> Iterator[Searcher]:
    """Open the arm as it is under SEARCH_ENGINE=tantivy, asked for words alone."""
    arm = arms.load(arm_path, cache)
    with arm.open(index) as searcher:
        if not isinstance(searcher, MailSearcher):
            raise _foreign(arm)
        yield _as(searcher, arm, KillSwitch.TANTIVY)


def _as(searcher: MailSearcher, arm: arms.Arm, switch: KillSwitch) -> MailSearcher:
    """Return the searcher under a value of the switch, with the fingerprint of such an arm."""
    if not isinstance(arm.engine, Mail):
        raise _foreign(arm)
    settings = {**arm.engine.settings.model_dump(), "mode": SearchMode.LEXICAL.value}
    identity = under(Identity(arm.name, searcher.manifest), settings, switch)
    return replace(
        searcher,
        service=replace(searcher.service, switch=switch, observer=None),
        manifest=identity.manifest,
        mode=SearchMode.LEXICAL,
    )
