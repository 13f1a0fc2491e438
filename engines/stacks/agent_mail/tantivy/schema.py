"""The schema of ADR-003 (D5): what Tantivy keeps of a message, and the hash that versions it.

Two fields differ from the page. ``ack_required`` is signed, since tantivy-py types every integer
as signed and an unsigned field then loses whole batches and deletes nothing. It has no
``product_id``. A product is a set of projects, so a query for a product is one for its
projects (``Filters.product_projects``). A project that moves to another product needs no message
indexed again.

Three fields are added. ``recipients`` is for the filter of the same name. ``identifiers`` holds
joined tokens such as ``br-2tnl`` whole, which ``subject`` and ``body`` hold in parts (decision 1 of
the agent mail stack). ``text`` is the subject several times and then the body, so that one BM25
over the whole message weighs words as FTS5 does (docs/decisions/0003). Weights are counts in the
index throughout: a factor on a field's own BM25 would not level off as counts do. ``subject`` and
``body`` stay indexed for beginnings of words.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import tantivy

from engines.lexical.analysis import analyzer
from engines.lexical.identifiers import identifiers
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.contract.query import Importance
from engines.stacks.agent_mail.tantivy.typeahead import grams
from harness.core.digest import of_json

ANALYZER = "am_normalize"
"""Split on all but letters and digits, lower-case, drop terms of 256 bytes and more."""
NUMBERS = ("message_id", "project_id", "created_ts", "ack_required")
TEXTS = ("subject", "body")
WHOLE = "text"
"""The message as BM25 sees it. Each time the subject is there is a value of its own, so no phrase
reaches from one into the next."""
NAMES = ("sender_name", "thread_id", "importance", "recipients")
"""Matched whole and as they are written."""
TERMS = ("identifiers", "subject_prefix")
"""Computed here, one term a value."""

_SAMPLE = Message(
    message_id=-7,
    project_id=3,
    subject="Re: br-2tnl, the Straße of read_csv/3.1 — 東京 e\u0301",
    body="See engines/lexical/typed.py, foo.bar::baz, a@b.c, 9428bc6 and " + 300 * "x",
    sender_name="RedFox",
    recipients=("BlueLake", "GreenHill"),
    thread_id="TKT-12",
    importance=Importance.HIGH,
    ack_required=True,
    created_ts=1_700_000_000_000_000,
)


@dataclass(frozen=True, slots=True)
class Weights:
    """How often the index holds what is in a message, where it holds the body once."""

    subject: int
    identifiers: int


def schema() -> tantivy.Schema:
    """Build the schema."""
    builder = tantivy.SchemaBuilder()
    for name in NUMBERS:
        builder.add_integer_field(name, stored=True, indexed=True, fast=True)
    for name in TEXTS:
        builder.add_text_field(name, stored=True, tokenizer_name=ANALYZER)
    for name in NAMES:
        builder.add_text_field(
            name,
            stored=True,
            fast=name == "thread_id",
            tokenizer_name="raw",
            index_option="basic",
        )
    builder.add_text_field(WHOLE, tokenizer_name=ANALYZER)
    builder.add_text_field("identifiers", tokenizer_name="raw", index_option="freq")
    builder.add_text_field("subject_prefix", tokenizer_name="raw", index_option="basic")
    return builder.build()


def fields(message: Message, weights: Weights) -> dict[str, Any]:
    """Give the value of every field of the schema for one message.

    A name that Tantivy does not know is dropped without a word, so the two must agree.
    """
    return {
        "message_id": message.message_id,
        "project_id": message.project_id,
        "created_ts": message.created_ts,
        "ack_required": int(message.ack_required),
        "subject": message.subject,
        "body": message.body,
        WHOLE: [message.subject] * weights.subject + [message.body],
        "sender_name": message.sender_name,
        "thread_id": message.thread_id,
        "importance": message.importance.value,
        "recipients": list(message.recipients),
        "identifiers": list(identifiers(f"{message.subject}\n{message.body}"))
        * weights.identifiers,
        "subject_prefix": list(grams(analyzer("none").analyze(message.subject))),
    }


def document(message: Message, of: tantivy.Schema, weights: Weights) -> tantivy.Document:
    """Make the document of ``message``, its values typed by the schema.

    Raises:
        ValueError: a value does not fit its field.
    """
    return tantivy.Document.from_dict(fields(message, weights), of)


def schema_hash(weights: Weights) -> str:
    """Digest of the fields, of what a sample message becomes in them, and of Tantivy's version.

    A changed rule of taking text apart changes the sample's terms, so an index that was written
    by other rules is seen as well as one of other fields.
    """
    sample = fields(_SAMPLE, weights)
    words = {name: analyzer("none").analyze(sample[name]) for name in TEXTS}
    kinds = {"numbers": NUMBERS, "texts": (*TEXTS, WHOLE), "names": NAMES, "terms": TERMS}
    return of_json([kinds, sample, words, version("tantivy")])
