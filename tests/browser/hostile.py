"""Text of strangers that wants to be more than text, put wherever a value of ours is text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

MEGABYTE = "x" * 1_000_000
SCRIPT = "window.executed = true"
TEXTS = (
    f"<script>{SCRIPT}</script>",
    f"</script><script>{SCRIPT}</script>",
    f"</style><script>{SCRIPT}</script><style>",
    f"</title></svg><img src=x onerror='{SCRIPT}'>",
    f'" autofocus onfocus="{SCRIPT}" x="',
    f"<!-- <script> {SCRIPT} // --><details open ontoggle='{SCRIPT}'>",
    f"javascript:{SCRIPT}",
    "rtl \u202edetcerroc\u202c \u2066\u200f mark \u05e9\u05dc\u05d5\u05dd",
    "nul \x00 bell \x07 escape \x1b[31m surrogate \ud800 \udfff",
    "{{ 7 * 7 }} {% raw %} ${x} \u2028 ]]> &lt;b&gt; --> \\u003c",
    "word " * 3_000,
)
ALL = " ".join(TEXTS)
Change = Callable[[str], str]


def everywhere(value: Any, change: Change, keep: tuple[type, ...]) -> Any:  # noqa: ANN401  any value of ours
    """Give ``value`` with every text in it changed; values of the types ``keep`` stay."""
    if isinstance(value, (Enum, *keep)):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            everywhere(key, change, keep): everywhere(item, change, keep)
            for key, item in value.items()
        }
    if isinstance(value, tuple):
        changed = [everywhere(item, change, keep) for item in value]
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{
                field.name: everywhere(getattr(value, field.name), change, keep)
                for field in fields(value)
                if field.init
            },
        )
    return value
