"""From a tool's arguments to the query that the service gets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from engines.stacks.agent_mail.contract.directory import Names
from engines.stacks.agent_mail.contract.query import (
    Direction,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from engines.stacks.agent_mail.mcp_tools import dates, hints
from engines.stacks.agent_mail.mcp_tools.arguments import (
    EVERY_PROJECT,
    Arguments,
    InProduct,
    InProject,
)
from engines.stacks.agent_mail.mcp_tools.hints import Field, Hint, Slip, Typed
from engines.stacks.agent_mail.mcp_tools.refused import Code, Refused
from engines.stacks.agent_mail.mcp_tools.results import DidYouMean, HintApplied, QueryAssistance


class Question(NamedTuple):
    """What the service gets, and what a caller is told of how the text was read."""

    query: SearchQuery
    assistance: QueryAssistance | None
    slips: tuple[Slip, ...]


@dataclass(frozen=True, slots=True)
class Facets:
    """Filters that a hint may set too; None is unset."""

    project_id: int | None = None
    sender_name: str | None = None
    thread_id: str | None = None
    importance: tuple[Importance, ...] | None = None
    min_ts: int | None = None
    max_ts: int | None = None

    @property
    def contradict(self) -> bool:
        """Whether the time range begins after its end."""
        return self.min_ts is not None and self.max_ts is not None and self.min_ts > self.max_ts


FACET_OF = {
    Field.PROJECT: "project_id",
    Field.FROM: "sender_name",
    Field.THREAD: "thread_id",
    Field.IMPORTANCE: "importance",
    Field.AFTER: "min_ts",
    Field.BEFORE: "max_ts",
}


def question(args: Arguments, directory: Names, mode: SearchMode) -> Question:
    """Write the query; ``mode`` is requested where the arguments name none.

    Raises:
        Refused: a value cannot be read, two contradict each other, or the project is unknown
            or product.
        SearchError: the directory cannot be read.
    """
    product_id, facets = _where(args, directory)
    facets = replace(
        facets,
        sender_name=args.sender or None,
        thread_id=args.thread_id or None,
        importance=_read("importance", args.importance, levels),
        min_ts=_read("date_start", args.date_start, dates.earliest),
        max_ts=_read("date_end", args.date_end, dates.latest),
    )
    if facets.contradict:
        raise Refused(f"date_start {args.date_start} is after date_end {args.date_end}")
    if args.direction and not args.agent_name:
        raise Refused("direction is that of an agent; give agent_name too")
    if args.offset and args.cursor:
        raise Refused("offset and cursor both say where to begin; give one")
    within = None if product_id is None else directory.projects_of_product(product_id)
    reader = _Reader(directory, within, facets)
    typed = hints.read(args.query, reader.takes)
    facets = reader.facets
    query = SearchQuery(
        typed.text,
        mode=_read("mode", args.mode, _one_of(SearchMode)) or mode,
        project_id=facets.project_id,
        product_id=product_id,
        importance=facets.importance or (),
        direction=_read("direction", args.direction, _one_of(Direction)),
        agent_name=args.agent_name or None,
        thread_id=facets.thread_id,
        ack_required=args.ack_required,
        time_range=TimeRange(facets.min_ts, facets.max_ts),
        sender_name=facets.sender_name,
        recipient_name=args.recipient or None,
        min_score=args.min_score,
        ranking=_read("ranking", args.ranking, _one_of(RankingMode)) or RankingMode.RELEVANCE,
        limit=args.limit,
        cursor=args.cursor or None,
        explain=args.explain,
    )
    return Question(query, _assistance(typed, reader.applied), typed.slips)


class _Reader:
    """Takes hints where they can be read, and remembers which of them count.

    No text is an error: a value that cannot be read leaves the hint standing as words. A parameter,
    or an earlier hint, goes before a hint that says something else.
    """

    def __init__(self, directory: Names, within: Collection[int] | None, facets: Facets) -> None:
        self.facets = facets
        self.applied: list[bool] = []
        self._directory = directory
        self._within = within

    def takes(self, hint: Hint) -> bool:
        try:
            value = self._value(hint)
        except (Refused, ValueError):
            return False
        name = FACET_OF[hint.field]
        is_set = getattr(self.facets, name)
        with_it = replace(self.facets, **{name: value})
        counts = is_set in {None, value} and not with_it.contradict
        if counts:
            self.facets = with_it
        self.applied.append(counts)
        return True

    def _value(self, hint: Hint) -> Any:  # noqa: ANN401  what the facet of the hint holds
        match hint.field:
            case Field.PROJECT:
                return project_called(hint.value, self._directory, self._within)
            case Field.IMPORTANCE:
                return levels(hint.value)
            case Field.AFTER:
                return dates.earliest(hint.value)
            case Field.BEFORE:
                return dates.latest(hint.value)
            case Field.FROM | Field.THREAD:
                return hint.value


def levels(text: str) -> tuple[Importance, ...]:
    """Read levels of importance with commas between, each once.

    Raises:
        ValueError: one is unknown.
    """
    read = _one_of(Importance)
    return tuple(dict.fromkeys(read(level) for level in text.split(",") if level.strip()))


def _where(args: Arguments, directory: Names) -> tuple[int | None, Facets]:
    """Look the product and the project up; one of them is None, or both."""
    if isinstance(args, InProduct):
        product_id = directory.product_called(args.product_key)
        if product_id is None:
            raise Refused(f"no product {args.product_key!r}", Code.NOT_FOUND)
        if not args.project:
            return product_id, Facets()
        within = directory.projects_of_product(product_id)
        return product_id, Facets(project_called(args.project, directory, within))
    key = args.project_key if isinstance(args, InProject) else EVERY_PROJECT
    return None, Facets(None if key == EVERY_PROJECT else project_called(key, directory))


def project_called(slug: str, directory: Names, within: Collection[int] | None = None) -> int:
    """Give the number of a project; ``within`` are those that it may be one of.

    Raises:
        Refused: there is none, or another one.
    """
    found = directory.project_called(slug)
    if found is None:
        raise Refused(f"no project {slug!r}", Code.NOT_FOUND)
    if within is not None and found not in within:
        raise Refused(f"the project {slug!r} is not one of the product", Code.NOT_FOUND)
    return found


Value = TypeVar("Value")
Word = TypeVar("Word", bound=StrEnum)


def _read(name: str, text: str, how: Callable[[str], Value]) -> Value | None:
    """Read a parameter; None where it is absent."""
    if not text.strip():
        return None
    try:
        return how(text)
    except ValueError as exc:
        raise Refused(f"{name}: {exc}") from exc


def _one_of(kind: type[Word]) -> Callable[[str], Word]:
    def read(text: str) -> Word:
        known = {word.value: word for word in kind}
        found = known.get(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return found

    return read


def _assistance(typed: Typed, applied: Collection[bool]) -> QueryAssistance | None:
    if not typed.taken and not typed.slips:
        return None
    return QueryAssistance(
        text=typed.text,
        hints=[
            HintApplied(field=hint.field.value, value=hint.value, typed=hint.typed, applied=counts)
            for hint, counts in zip(typed.taken, applied, strict=True)
        ],
        did_you_mean=[DidYouMean(typed=slip.typed, suggestion=slip.meant) for slip in typed.slips],
    )
