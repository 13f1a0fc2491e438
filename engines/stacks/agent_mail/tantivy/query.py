"""What a person typed, as a Tantivy query over the whole message and its identifiers.

Words are taken apart by ``engines.lexical.typed``, for which every text is a query, and
compiled without Tantivy's parser. There ``x*`` would silently become the word ``x`` there, and a
bare hyphen an error. So no syntax error is left to fall back from (decision 3 of the agent mail
stack: the text as a phrase, then OR of its words). Several words mean OR from the start. The words
of a clause are split once more, by the analyzer of the index, whose letters are not Python's. It
keeps the marks of Devanagari or Thai within a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import tantivy

from engines.lexical.analysis import LONGEST_TERM_BYTES
from engines.lexical.identifiers import identifiers
from engines.lexical.typed import Clause, Occur, exact_clauses, refusals, words_alone
from engines.stacks.agent_mail.tantivy.schema import WHOLE, Weights

OCCURS = {
    Occur.SHOULD: tantivy.Occur.Should,
    Occur.MUST: tantivy.Occur.Must,
    Occur.NOT: tantivy.Occur.MustNot,
}
_BEGUN = re.compile(r"[^\W_]+\*")


@dataclass(frozen=True, slots=True)
class Compiler:
    """Makes queries for one schema."""

    schema: tantivy.Schema
    analyzer: tantivy.TextAnalyzer
    weights: Weights

    def query(self, text: str) -> tantivy.Query | None:
        """Compile ``text``; None where it has no word that could be in a message."""
        alone = words_alone(text)
        if alone and text.isascii() and text.replace(" ", "").isalpha():
            return self._letters(alone)
        compiled = [
            (clause.occur, query)
            for clause in exact_clauses(text)
            if (query := self._clause(clause)) is not None
        ]
        if all(occur is Occur.NOT for occur, _ in compiled):
            return self._lacking(query for _, query in compiled) if refusals(text) else None
        if len(compiled) == 1:
            return compiled[0][1]
        return tantivy.Query.boolean_query([(OCCURS[occur], query) for occur, query in compiled])

    def _lacking(self, refused: Iterable[tantivy.Query]) -> tantivy.Query:
        """Ask for all that lacks what is refused, each with score 0."""
        whole = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)
        return tantivy.Query.boolean_query([
            (tantivy.Occur.Must, whole),
            *((tantivy.Occur.MustNot, query) for query in refused),
        ])

    def _letters(self, words: list[str]) -> tantivy.Query | None:
        """Ask for any of ``words`` of ASCII letters; most of what is typed, and quickly done."""
        term, should = tantivy.Query.term_query, tantivy.Occur.Should
        found = [
            term(self.schema, WHOLE, word.lower(), "freq")
            for word in words
            if len(word) < LONGEST_TERM_BYTES
        ]
        if len(found) == 1:
            return found[0]
        return tantivy.Query.boolean_query([(should, one) for one in found]) if found else None

    def _clause(self, clause: Clause) -> tantivy.Query | None:
        """Ask for a word or phrase in the message, or for a joined token whole.

        A word with a star at its end is the beginning of a word; that has no BM25, so subject and
        body are asked apart and their weights added up.
        """
        terms = self._terms(clause.text)
        if not terms:
            return None
        if not clause.quoted and _BEGUN.fullmatch(clause.text):
            subject = self._begun("subject", terms)
            subject = tantivy.Query.boost_query(subject, self.weights.subject)
            found = [subject, self._begun("body", terms)]
        else:
            found = [self._match(terms)]
        if not clause.quoted and not clause.text.isalpha():
            for token in dict.fromkeys(identifiers(clause.text)):
                whole = tantivy.Query.term_query(self.schema, "identifiers", token, "freq")
                found.append(whole)
        if len(found) == 1:
            return found[0]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in found])

    def _terms(self, text: str) -> list[tuple[int, str]]:
        """Split as the index does, with positions; a word of plain letters and digits is one."""
        if text.isascii() and text.isalnum() and len(text) < LONGEST_TERM_BYTES:
            return [(0, text.lower())]
        return [(token.position, token.text) for token in self.analyzer.pre_tokenize(text).tokens]

    def _match(self, terms: list[tuple[int, str]]) -> tantivy.Query:
        if len(terms) == 1:
            return tantivy.Query.term_query(self.schema, WHOLE, terms[0][1], "freq")
        return tantivy.Query.phrase_query(self.schema, WHOLE, list(terms))

    def _begun(self, field: str, terms: list[tuple[int, str]]) -> tantivy.Query:
        """Match any word that begins so, each for the same score whatever the word."""
        return tantivy.Query.fuzzy_term_query(
            self.schema, field, terms[-1][1], distance=0, prefix=True
        )
