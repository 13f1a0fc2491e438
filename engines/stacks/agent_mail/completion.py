"""Subjects while they are typed: messages that a caller may see, by the beginning of a word."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from engines.contract.errors import FeatureUnavailable
from engines.lexical.typed import normalise
from engines.stacks.agent_mail.contract.lifecycle import Candidates, Message
from engines.stacks.agent_mail.contract.query import Filters
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.bounded import bounded
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, unrestricted
from engines.stacks.agent_mail.service import MailSearch


@runtime_checkable
class Completes(Protocol):
    """An engine that has the beginnings of words in its index."""

    def typeahead(self, prefix: str, filters: Filters, k: int) -> Candidates:
        """Give at most ``k`` messages in whose subject a word begins so, best first."""
        ...


def beginning(
    service: MailSearch, prefix: str, project_id: int | None, most: int, scope: Scope | None = None
) -> tuple[Message, ...]:
    """Give messages that ``scope`` shows whole, in whose subject a word begins so.

    ``project_id`` None is every project. The shortest subjects come first, equal ones by id.

    Raises:
        FeatureUnavailable: Tantivy is not installed, or the switch has turned it off.
        SearchError: its index, or the messages, cannot be read.
    """
    if service.view is None and scope is not None and not scope.audited:
        narrowed = service.within(service.view_of(scope))
        return beginning(narrowed, prefix, project_id, most)
    engine = service.tiers.lexical.get(FallbackTier.TANTIVY)
    if not isinstance(engine, Completes) or service.switch is KillSwitch.FTS5:
        raise FeatureUnavailable("beginnings of subjects are in the index of Tantivy alone")
    seen_as = service.view.scope if service.view else scope or unrestricted()
    with faults.known():
        typed = bounded(normalise(prefix)).text
        found = engine.typeahead(typed, Filters(project_id=project_id), most)
        ids = [candidate.message_id for candidate in found]
        messages = service.hydrate(ids)
    there = (messages[message_id] for message_id in ids if message_id in messages)
    return tuple(one for one in there if seen_as.sees(one) is Visibility.ALLOW)
