"""Subjects by the beginning of a word, while it is being typed (ADR-003, D5).

Every word of a subject is indexed with all its beginnings of 2 to 21 characters. So a beginning
is found as any term is, with no walk over the words that share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tantivy

SHORTEST, LONGEST = 2, 21
"""Characters of a beginning that is indexed; of a longer one, the first 21 are looked for."""


def grams(words: Iterable[str]) -> tuple[str, ...]:
    """List the beginnings of ``words``, each once, in the order met."""
    return tuple(
        dict.fromkeys([
            word[:length]
            for word in words
            for length in range(SHORTEST, min(len(word), LONGEST) + 1)
        ])
    )


def compiled(schema: tantivy.Schema, words: Sequence[str]) -> tantivy.Query | None:
    """Ask for subjects in which a word begins with the last of ``words`` and the others stand.

    None where nothing can be looked for: no word, or a last word of one character.
    """
    if not words or len(words[-1]) < SHORTEST:
        return None
    begun = tantivy.Query.term_query(schema, "subject_prefix", words[-1][:LONGEST], "basic")
    whole = [tantivy.Query.term_query(schema, "subject", word, "freq") for word in words[:-1]]
    if not whole:
        return begun
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in (begun, *whole)])
