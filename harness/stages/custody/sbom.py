"""Every package that is installed, with its version and licence: a bill of materials."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from harness.core.formats import json_file

FORMAT, FORMAT_VERSION = "CycloneDX", "1.6"
OURS = "search-harness"
LONGEST = 64
"""A field longer than this holds a licence's text, not its name."""
NOT_STATED = "not stated"
CLASSIFIER = "License :: "
VAGUE = frozenset({"", "UNKNOWN", "LICENSE", "Dual License", "OSI Approved"})


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """One installed distribution."""

    name: str
    version: str
    licence: str
    """As its metadata states it: an SPDX expression where there is one, else a name."""

    @property
    def purl(self) -> str:
        """Package URL (purl specification): lower case, one dash for runs of ``-_.``."""
        return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"


def installed() -> tuple[Component, ...]:
    """List what is installed beside the project, by name, each once."""
    found = {one.name.lower(): one for one in _components(distributions())}
    return tuple(found[name] for name in sorted(found) if name != OURS)


def cyclonedx(components: Iterable[Component]) -> dict[str, Any]:
    """Give the bill as CycloneDX 1.6 writes it in JSON; the same packages give the same bytes."""
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{FORMAT_VERSION}.schema.json",
        "bomFormat": FORMAT,
        "specVersion": FORMAT_VERSION,
        "version": 1,
        "metadata": {"component": {"type": "application", "name": OURS}},
        "components": [
            {
                "type": "library",
                "bom-ref": one.purl,
                "name": one.name,
                "version": one.version,
                "purl": one.purl,
                "licenses": [{"license": {"name": one.licence}}],
            }
            for one in components
        ],
    }


def is_bill(file: Path) -> bool:
    """Tell whether a file is a bill that ``cyclonedx`` gave, so that a new one may replace it."""
    try:
        about = json_file(file)
        return bool(about["bomFormat"] == FORMAT and about["metadata"]["component"]["name"] == OURS)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _components(found: Iterable[Distribution]) -> Iterator[Component]:
    for one in found:
        yield Component(one.name, one.version, _licence(one))


def _licence(of: Distribution) -> str:
    """Read the licence: the expression, the classifiers, then the field, if it names one."""
    about = of.metadata
    if expression := about.get_all("License-Expression"):
        return str(expression[0])
    classified = (
        one.removeprefix(CLASSIFIER).removeprefix("OSI Approved").removeprefix(" :: ")
        for one in about.get_all("Classifier") or ()
        if one.startswith(CLASSIFIER)
    )
    names = [name for name in classified if name not in VAGUE]
    if names:
        return " OR ".join(sorted(names)) if len(names) > 1 else names[0]
    field = str((about.get_all("License") or [""])[0]).strip().partition("\n")[0]
    return field if field not in VAGUE and len(field) <= LONGEST else NOT_STATED
