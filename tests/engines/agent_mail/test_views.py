"""``views``, ``pipeline.view`` and ``pipeline.filling``: what is kept of a viewer's copy."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.contract import EngineError, FeatureUnavailable, IndexUnavailable, InvalidQuery
from engines.stacks.agent_mail import views
from engines.stacks.agent_mail.contract import SearchQuery
from engines.stacks.agent_mail.pipeline.scope import viewer
from engines.stacks.agent_mail.views import View, nothing, plain
from harness.core.files import place
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail import changing
from tests.make.mail.messages import some_mail


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Whole]:
    build(tmp_path, some_mail(8, 30).messages)
    with whole(tmp_path) as opened:
        yield opened


def view(mail: Whole, agent: str) -> View:
    return mail.service.view_of(viewer(agent, frozenset(), frozenset()))


def test_equal_scopes_share_a_view_and_the_oldest_go(
    mail: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    first = view(mail, "AmberFox")
    assert view(mail, "AmberFox") is first
    for other in ("TealOtter", "Zoë"):
        view(mail, other)
    assert view(mail, "AmberFox") is not first


def test_a_view_that_is_not_kept_leaves_no_file(
    mail: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = view(mail, "AmberFox")
    (folder,) = place().iterdir()
    assert place().stat().st_mode & 0o077 == 0
    del made
    changing.delete(mail.store, mail.ids(SearchQuery("", project_id=1))[0])
    kept = view(mail, "AmberFox")
    gc.collect()
    (left,) = place().iterdir()
    assert left != folder
    assert kept.documents < 30


def test_a_scope_without_views_sees_nothing(mail: Whole) -> None:
    scope = viewer("AmberFox", frozenset({1}), frozenset())
    blind = nothing(scope)
    assert (blind.documents, blind.hydrate([1]), blind.projects_of(1)) == (0, {}, frozenset())
    assert blind.names.project_called("harbour") is blind.names.product_called("product-1") is None
    found = mail.service.within(blind).search(SearchQuery("review"))
    assert (found.hits, found.explain.engine) == ((), "like")


@pytest.mark.parametrize("kind", [FeatureUnavailable, IndexUnavailable, EngineError])
def test_a_viewer_reads_the_kind_of_a_failure_alone(kind: type[FeatureUnavailable]) -> None:
    assert "secret" not in plain(kind("/srv/secret"))
    assert plain(InvalidQuery("no text")) == "no text"
