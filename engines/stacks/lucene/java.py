"""The Java machine of this process with Lucene's classes, started when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from harness.core.errors import InvalidArm, ModelNotReady
from harness.core.printable import one_line

JARS = ("lucene-core", "lucene-analyzers-common")
OPTIONS = ("-Xrs", "-Xss4m", "-XX:+UseSerialGC")
"""Signals stay Python's; deep queries fit; no threads beside those that search."""
QUOTED = 300
_starting = Lock()

Classes = Callable[[str], Any]
"""Gives a class of Lucene by its name without ``org.apache.lucene.``."""


def jars_in(folder: Path) -> list[Path]:
    """Find Lucene's jars, one version of each.

    Raises:
        ModelNotReady: one is missing, or the folder has several versions.
    """
    found = []
    for name in JARS:
        here = [path for path in folder.glob(f"{name}*.jar") if path.name[len(name)] in ".-"]
        exact = sorted(path for path in here if path.name[len(name) + 1 :][:1].isdigit())
        if len(exact) != 1:
            problem = f"has {len(exact)} versions of {name}" if exact else f"lacks {name}"
            raise ModelNotReady(
                f"{folder}: {problem}. Install Lucene 8 (apt install liblucene8-java), or name"
                " its folder with jars"
            )
        found += exact
    return found


def lucene(folder: Path) -> Classes:
    """Start Java with the jars of ``folder``.

    Raises:
        ModelNotReady: Java or a jar is missing; InvalidArm: this process has other jars already.
    """
    import jpype

    path = [str(jar) for jar in jars_in(folder)]
    with _starting:
        if not jpype.isJVMStarted():
            try:
                jpype.startJVM(*OPTIONS, classpath=path, convertStrings=False, interrupt=False)
            except (OSError, ValueError, RuntimeError) as exc:
                raise ModelNotReady(
                    f"Java cannot be started ({one_line(str(exc), QUOTED)}). Install it: apt"
                    " install openjdk-17-jre-headless"
                ) from exc
        loaded = str(jpype.JClass("java.lang.System").getProperty("java.class.path"))
    if loaded.split(":")[: len(path)] != path:
        raise InvalidArm(
            f"this process has Lucene of other jars ({one_line(loaded, QUOTED)}). Judge one"
            " version in a run"
        )
    return lambda name: jpype.JClass(f"org.apache.lucene.{name}")
