"""YAML of plain values: no repeated keys, no aliases, no endless numbers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

LONGEST_NUMBER = 300
"""Characters; YAML 1.1 counts minutes and seconds too, in the square of their number."""
TAG = "tag:yaml.org,2002:"


def _short(loader: yaml.SafeLoader, node: ScalarNode) -> Any:  # noqa: ANN401  an int or a float
    if len(node.value) > LONGEST_NUMBER:
        problem = f"a number has {len(node.value)} digits; at most {LONGEST_NUMBER} are read"
        raise ConstructorError(None, None, problem, node.start_mark)
    return yaml.SafeLoader.yaml_constructors[node.tag](loader, node)


class Loader(yaml.SafeLoader):
    """A safe loader that refuses a key that comes twice, and aliases.

    A few aliases of aliases stand for more values than fit into memory.
    """

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        **yaml.SafeLoader.yaml_constructors,
        f"{TAG}int": _short,
        f"{TAG}float": _short,
    }

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ConstructorError(None, None, "an alias; write the value itself", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002  as above
        seen: set[object] = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, Hashable):
                if name in seen:
                    problem = f"the key {name!r} comes twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep=deep)
