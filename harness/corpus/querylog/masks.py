"""Personal data and secrets in queries, each replaced by a word that names its kind.

A rule is a pattern, and for numbers with a check digit that digit. What no pattern tells is not
found: names of people, postal addresses, dates of birth, account numbers without a check digit.
Long words of letters and digits are masked although they may be harmless, such as a commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

LIMITS = (
    "names of people, postal addresses and dates of birth are not found",
    "account numbers without a check digit are not found",
    "words of 20 letters and digits or more are masked, also where they are harmless",
)
LUHN_DIGITS = range(13, 20)
PHONE_DIGITS = range(9, 16)
IBAN_REST = 97


class Mask(NamedTuple):
    """One kind of personal data."""

    kind: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool]


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace what the rules find; give the text and the kinds that were found."""
    found: list[str] = []
    for mask in MASKS:
        text = mask.pattern.sub(partial(_replaced, mask, found), text)
    return text, tuple(dict.fromkeys(found))


def _replaced(mask: Mask, found: list[str], hit: re.Match[str]) -> str:
    if not mask.check(hit[0]):
        return hit[0]
    found.append(mask.kind)
    return f"<{mask.kind}>"


def _always(_: str) -> bool:
    return True


def _digits(text: str) -> list[int]:
    return [int(sign) for sign in text if sign in "0123456789"]


def is_card(text: str) -> bool:
    """Tell whether the digits have the length and the check digit of a payment card (Luhn)."""
    digits = _digits(text)
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    total = sum(digits[-1::-2]) + sum(doubled)
    return len(digits) in LUHN_DIGITS and total % 10 == 0 and len(set(digits)) > 1


def is_iban(text: str) -> bool:
    """Tell whether the check digits of a bank account number are right (ISO 13616)."""
    plain = "".join(text.split()).upper()
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(sign, 36)) for sign in moved)) % IBAN_REST == 1


def is_phone(text: str) -> bool:
    """Tell whether a number has as many digits as telephone numbers with an area code."""
    return len(_digits(text)) in PHONE_DIGITS


def is_mixed(text: str) -> bool:
    """Tell whether a long word has letters and at least two digits, as keys and tokens do."""
    return sum(map(str.isdigit, text)) > 1 and any(map(str.isalpha, text))


def is_address(text: str) -> bool:
    """Tell whether four numbers are those of an internet address."""
    return all(int(part) < 256 for part in text.split("."))  # noqa: PLR2004  a byte


NAMES_OF_SECRETS = (
    r"(?:api[_-]?key|access[_-]?key|(?:access|refresh|auth|id)?[_-]?token|secret|client[_-]secret"
    r"|passw(?:or)?d|pwd|signature|session[_-]?id)"
)
RULES = (
    ("secret", rf"(?i)\b\w*{NAMES_OF_SECRETS}\s*[=:]\s*[^\s&;,]+|\bbearer\s+\S{{8,}}", _always),
    ("secret", r"(?<=://)[^\s/@:]+:[^\s/@]+(?=@)", _always),
    ("secret", r"\b(?:ghp_|gho_|xox[abp]-|sk[-_]|pk[-_]|AKIA|eyJ)[\w.-]{12,}", _always),
    ("email", r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+", _always),
    ("account", r"\b[A-Za-z]{2}\d\d(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b", is_iban),
    ("card", r"\b\d(?:[ -]?\d){12,18}\b", is_card),
    ("address", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])", is_address),
    ("address", r"(?i)(?<![\w:])(?:[\da-f]{1,4}:){3,7}(?::?[\da-f]{1,4}){1,4}(?![\w:])", _always),
    ("phone", r"(?<![\w.])(?:\+|00)\d(?:[ ./()-]{0,2}\d){7,14}(?!\w)", is_phone),
    (
        "phone",
        r"(?<![\w.])(?<!\d[ -])\(?0?\d{2,4}\)?[ /.-]\d{3,4}[ .-]?\d{3,5}(?!\w|[ .-]?\d)",
        is_phone,
    ),
    ("token", r"(?<![\w-])[A-Za-z\d][\w-]{18,}[A-Za-z\d](?![\w-])", is_mixed),
)
"""In their order: what an earlier rule has masked, a later one does not see."""
MASKS = tuple(Mask(kind, re.compile(pattern), check) for kind, pattern, check in RULES)
