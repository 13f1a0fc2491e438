"""The four kinds of failure inside search; none of them reaches a caller.

They are those of specification 000, section 9.1; its ``IndexNotReady`` is ``IndexUnavailable``
here, for an arm without an index is another failure (``harness.core.errors``).
"""

from __future__ import annotations


class SearchError(Exception):
    """Base of the four; the service turns each into a fallback that explain names."""


class InvalidQuery(SearchError):
    """A query that says nothing, or a change of what is not there."""


class IndexUnavailable(SearchError):
    """The index is missing, still being built, or broken."""


class EngineError(SearchError):
    """An engine failed while it searched."""


class FeatureUnavailable(SearchError):
    """A mode needs what is not there, such as a model."""
