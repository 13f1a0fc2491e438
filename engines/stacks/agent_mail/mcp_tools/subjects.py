"""Subjects while they are typed: the arguments of the tool, and what it gives back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engines.stacks.agent_mail.mcp_tools.results import ResultModel

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
