"""The four kinds of failure inside search (section 9.1); none of them reaches a caller."""

from __future__ import annotations


class SearchError(Exception):
    """Base of the four; the service turns each into a fallback that explain names."""


class InvalidQuery(SearchError):
    """Nothing to search for: an empty text and no filter."""


class IndexNotReady(SearchError):
    """The index is missing, still being built, or broken."""


class EngineError(SearchError):
    """An engine failed while it searched."""


class FeatureUnavailable(SearchError):
    """A mode needs what is not there, such as a model."""
