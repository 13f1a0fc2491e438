"""What a tool answers where its arguments cannot be meant: an error with a code, never a guess."""

from __future__ import annotations

from enum import StrEnum

from harness.core.errors import LONGEST
from harness.core.printable import between


class Code(StrEnum):
    """Kinds of refusal, for callers that branch on them."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    FORBIDDEN = "FORBIDDEN"
    FAILED = "FAILED"


class Refused(Exception):
    """The arguments contradict each other, cannot be read, or name what there is not.

    What was given may be quoted, and may be long: the middle of the message is left out then.
    """

    def __init__(self, problem: str, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(f"{code}: {between(problem, LONGEST)}")
        self.code = code
