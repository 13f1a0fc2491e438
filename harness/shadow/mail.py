"""Message search compared with Tantivy while it is served (``SEARCH_ENGINE=shadow``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.core.digest import of_json
from harness.core.engine import Answer, Searcher
from harness.pipeline.mail import foreign
from harness.shadow.comparison import LiveComparison, ShadowLog
from harness.shadow.log import Between
from harness.shadow.pair import Generation, ServedQuery
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.arm import Mail, MailSearcher, params_of
from harness_engines.stacks.agent_mail.contract import SearchMode, SearchQuery, SearchResponse
from harness_engines.stacks.agent_mail.mcp_tools.arguments import Signal, diagnose
from harness_engines.stacks.agent_mail.mcp_tools.server import ServedIndex
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch


class MailObserver:
    """Offers what the service serves to a comparison (``agent_mail.observer.ShadowObserver``)."""

    def __init__(self, control: MailSearcher, comparison: LiveComparison) -> None:
        self._control, self._comparison = control, comparison
        self._generation = Generation(control)

    def served(self, query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        """Offer one query with its filters, and the answer as documents."""
        diagnostics = diagnose(search_response)
        signals = diagnostics.signals if diagnostics else []
        failed = Signal.SEARCH_FAILED.value in signals
        generation = self._generation()
        self._comparison.offer(
            ServedQuery(
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
    """Run Tantivy over the same index in the shadow of what ``searcher`` serves."""
    opens = partial(candidate, str(arm.path), index, cache)
    between = Between(
        *(f"{arm.name} ({switch.value})" for switch in (KillSwitch.FTS5, KillSwitch.TANTIVY))
    )
    with log.compared(opens, between=between) as comparison:
        yield MailObserver(_as(searcher, arm, KillSwitch.FTS5), comparison)


@contextmanager
def candidate(arm_path: str, index: Path, cache: Path) -> Iterator[Searcher]:
    """Open the arm as it is under SEARCH_ENGINE=tantivy, asked for words alone."""
    arm = arms.load(arm_path, cache)
    with arm.open(index) as searcher:
        if not isinstance(searcher, MailSearcher):
            raise foreign(arm)
        yield _as(searcher, arm, KillSwitch.TANTIVY)


def _as(searcher: MailSearcher, arm: arms.Arm, switch: KillSwitch) -> MailSearcher:
    if not isinstance(arm.engine, Mail):
        raise foreign(arm)
    settings = {**arm.engine.settings.model_dump(), "mode": SearchMode.LEXICAL.value}
    identity = ServedIndex(arm.name, searcher.manifest).under(settings, switch)
    return replace(
        searcher,
        service=replace(searcher.service, switch=switch, observer=None),
        manifest=identity.manifest,
        mode=SearchMode.LEXICAL,
    )
