"""A query of the harness as arguments of the tools of specification 000, section 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engines.stacks.agent_mail.mcp_tools.dates import written
from harness.core.records import Scalar

SAME = {
    "importance": "importance",
    "direction": "direction",
    "agent_name": "agent_name",
    "thread_id": "thread_id",
    "sender_name": "sender",
    "recipient_name": "recipient",
    "ranking": "ranking",
}
"""Params that are texts, and the tools' names for them."""
TIMES = {"min_ts": "date_start", "max_ts": "date_end"}
WITHIN = {"project_id", "product_id", "ack_required", "min_score"}


class NotExpressible(Exception):
    """A param that the tools have no argument for; leaving it out would ask something else."""


class Call(NamedTuple):
    """Which tool is called, and with what beside limit and cursor."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asking:
    """How an arm asks its server."""

    tool: str
    product_tool: str
    """Tool for queries about a product; empty without one."""
    project_key: str
    """Sent where a query names no project."""
    project_slug: str
    product_name: str
    """Slug and name with ``{}`` for the number in ``project_id`` and ``product_id``."""
    mode: str
    """Sent where it is not empty."""

    def call(self, text: str, params: Mapping[str, Scalar]) -> Call:
        """Write a query as a call.

        Raises:
            NotExpressible: a param has no argument, or a value that none can carry.
        """
        given = {name: value for name, value in params.items() if value is not None}
        strange = sorted(set(given) - set(SAME) - set(TIMES) - WITHIN)
        if strange:
            raise NotExpressible(f"the tools have no argument for {strange[0]}")
        tool, arguments = self._within(given)
        arguments |= {"query": text, "explain": True}
        if self.mode:
            arguments["mode"] = self.mode
        arguments |= {SAME[name]: _word(name, given[name]) for name in SAME if name in given}
        arguments |= {TIMES[name]: _instant(name, given[name]) for name in TIMES if name in given}
        if "ack_required" in given:
            arguments["ack_required"] = bool(given["ack_required"])
        if "min_score" in given:
            arguments["min_score"] = given["min_score"]
        return Call(tool, arguments)

    def _within(self, given: Mapping[str, Scalar]) -> tuple[str, dict[str, Any]]:
        """Say where to search; a project goes before a product (section 7.2)."""
        if "project_id" in given:
            slug = _named("project_id", self.project_slug, given["project_id"])
            return self.tool, {"project_key": slug}
        if "product_id" in given:
            if not self.product_tool:
                raise NotExpressible("the arm names no product_tool for product_id")
            name = _named("product_id", self.product_name, given["product_id"])
            return self.product_tool, {"product_key": name}
        return self.tool, {"project_key": self.project_key}


def _named(param: str, form: str, value: Scalar) -> str:
    if not form:
        raise NotExpressible(f"the arm does not say how the server names a {param}")
    return form.replace("{}", str(value))


def _word(name: str, value: Scalar) -> str:
    if not str(value).strip():
        raise NotExpressible(f"{name} is empty, which the tools take for not given")
    return str(value)


def _instant(name: str, value: Scalar) -> str:
    try:
        return written(int(value or 0))
    except (ValueError, OverflowError) as exc:
        raise NotExpressible(f"{name} {value!r} is not an instant of the years 1 to 9999") from exc
