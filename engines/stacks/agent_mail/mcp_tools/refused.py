"""What a tool answers where its arguments cannot be meant: an error with a code, never a guess."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Kinds of refusal, for callers that branch on them."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    FORBIDDEN = "FORBIDDEN"
    FAILED = "FAILED"


class Refused(Exception):
    """The arguments contradict each other, cannot be read, or name what there is not."""

    def __init__(self, problem: str, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(f"{code}: {problem}")
        self.code = code
