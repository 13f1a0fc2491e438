"""What an OpenAI-compatible endpoint is sent, and what its answer says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness.core.formats import json_of
from harness.core.printable import one_line
from harness.core.reading import Malformed
from harness.corpus.cells import grades
from harness.stages.judging.machine.protocol import Seen

CLOSE = 0.05
"""How far from 1 the probabilities may add up; models round them."""
QUOTED = 120
"""Characters of an answer, or of what it says of a grade, that are repeated."""
NOTE = 500
FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)[^\n`]*\n(.*?)\n[ \t]*(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE
)
"""Code in an answer: many endpoints pass over ``response_format``."""


class Reply(NamedTuple):
    """A valid answer."""

    probabilities: tuple[float, ...]
    model: str
    note: str


class Usage(NamedTuple):
    """Tokens that an answer says it took."""

    sent: int
    answered: int


def request(model: str, instructions: str, seen: Seen, max_tokens: int) -> dict[str, Any]:
    """Give the body of a request.

    The instructions are the system message, and never hold a word of a query or document. Those
    are values of one JSON object in the user message: data that cannot end early.
    """
    data = {"grades": seen.scale, "query": seen.query, "title": seen.title, "text": seen.text}
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": instructions},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ],
        "temperature": 0,
        "max_tokens": max_tokens,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "relevance", "strict": True, "schema": schema(seen.scale)},
        },
    }


def schema(scale: Sequence[int]) -> dict[str, Any]:
    """Give the JSON schema of an answer."""
    grades = [str(grade) for grade in scale]
    return {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "probabilities": {
                "type": "object",
                "properties": {grade: {"type": "number"} for grade in grades},
                "required": grades,
                "additionalProperties": False,
            },
        },
        "required": ["reason", "probabilities"],
        "additionalProperties": False,
    }


def usage(body: object) -> Usage | None:
    """Read how many tokens were taken; None where it is not said."""
    said = body.get("usage") if isinstance(body, Mapping) else None
    if not isinstance(said, Mapping):
        return None
    sent, answered = said.get("prompt_tokens"), said.get("completion_tokens")
    if type(sent) is not int or type(answered) is not int or min(sent, answered) < 0:
        return None
    return Usage(sent, answered)


def read(body: object, scale: Sequence[int]) -> Reply:
    """Read an answer.

    Raises:
        Malformed: it is not a completion, or what it holds is not an answer in the schema.
    """
    choice = _first(body)
    if choice.get("finish_reason") == "length":
        raise Malformed("the answer is cut off at max_tokens")
    message = choice.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, str) or not content.strip():
        raise Malformed("the answer is empty")
    try:
        said = json_of(_unfenced(content))
    except Malformed as exc:
        raise Malformed(f"the answer is not JSON: {one_line(content, QUOTED)}") from exc
    found = said.get("probabilities") if isinstance(said, Mapping) else None
    model = body.get("model") if isinstance(body, Mapping) else None
    if not isinstance(model, str) or not model:
        raise Malformed("the answer does not name its model")
    reason = said.get("reason") if isinstance(said, Mapping) else None
    note = one_line(reason, NOTE) if isinstance(reason, str) else ""
    return Reply(_probabilities(found, scale), one_line(model, QUOTED), note)


def _unfenced(content: str) -> str:
    """Give what stands in the one code fence of an answer; the whole answer where it has none."""
    fenced = FENCE.findall(content)
    return fenced[0] if len(fenced) == 1 and not content.lstrip().startswith("{") else content


def _first(body: object) -> Mapping[str, Any]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise Malformed("it is not a chat completion: its choices are missing")
    return choices[0]


def _probabilities(found: object, scale: Sequence[int]) -> tuple[float, ...]:
    if not isinstance(found, Mapping):
        raise Malformed("the answer has no probabilities")
    by_grade = {grades.whole(name): value for name, value in found.items()}
    if len(by_grade) != len(found) or by_grade.keys() != set(scale):
        said, wanted = (", ".join(sorted(map(str, each))) for each in (found, scale))
        raise Malformed(f"the answer has the grades {one_line(said, QUOTED)}, not {wanted}")
    values = [by_grade[grade] for grade in scale]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one <= 1:
            raise Malformed(f"{one_line(str(one), QUOTED)} is not a probability")
    total = math.fsum(values)
    if abs(total - 1) > CLOSE:
        raise Malformed(f"the probabilities add up to {total:g}, not to 1")
    return tuple(float(one) / total for one in values)
