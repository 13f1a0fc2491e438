"""Python in a process of its own, that may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import harness

HEAD = "import os, signal, sys, time\nfrom pathlib import Path\n"


def started(code: str, *, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start ``code`` with what it needs to find the harness."""
    env = {**os.environ, "PYTHONPATH": str(Path(harness.__path__[0]).parent)}
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + dedent(code)],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(code: str) -> str:
    """Run ``code`` that kills itself, and give what it printed before."""
    process = started(code)
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    return said
