"""Live comparisons that tests need not wait for."""

import pytest

from harness.shadow import comparison, receiver, worker


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no other pair and after no loss, and ask one control after the other."""
    monkeypatch.setattr(comparison, "LINGER_S", 0.001)
    monkeypatch.setattr(worker, "BACKOFF_MS", (1e-6, 1e-6))
    monkeypatch.setattr(receiver, "WORKERS", 1)
