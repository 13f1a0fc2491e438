"""Subjects while they are typed: the arguments of the tool, the lookup, and what it gives back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from engines.contract import FeatureUnavailable
from engines.lexical.terms import normalise
from engines.stacks.agent_mail.contract import Candidates, Filters, Message
from engines.stacks.agent_mail.mcp_tools.results import ResultModel
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch, bounded
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, unrestricted
from engines.stacks.agent_mail.service import MailSearch

SUBJECTS_DEFAULT, MAX_SUBJECTS = 10, 50


class Beginning(BaseModel):
    """Parameters of ``complete_subject``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project_key: str = Field(
        description="Slug of the project to search, or * for all that the caller may see."
    )
    prefix: str = Field(
        description="What was typed so far. The last word may be a beginning, of two characters or"
        " more; words before it stand in the subject."
    )
    limit: int = Field(
        SUBJECTS_DEFAULT, ge=1, le=MAX_SUBJECTS, description="Subjects at most, 1 to 50."
    )


class SubjectShown(ResultModel):
    """The subject of a message."""

    id: int
    subject: str


class SubjectsFound(ResultModel):
    """Subjects in which a word begins so, the shortest first."""

    subjects: list[SubjectShown]
    reason: str | None = Field(default=None, description="Why none could be looked up.")

    def written(self) -> dict[str, Any]:
        """Write what is there; a part that is absent has no key."""
        return self.model_dump(mode="json", exclude_none=True)


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
