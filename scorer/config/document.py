"""The text of a configuration file as plain values: YAML, within bounds.

A few lines of YAML can mean more values than any memory holds, nested deeper than any
stack: what is read is counted with its aliases written out, before anything is made of it.
"""

from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from scorer.config.errors import ConfigError, shown

MOST_VALUES = 100_000
DEEPEST = 50
LONGEST_NUMBER = 40
"""Characters; sums of longer ones take long, and no setting needs them."""

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What pyyaml raises for a scalar that is not what its tag says, such as 2024-13-45."""


class _Loader(yaml.SafeLoader):
    """SafeLoader within bounds that refuses a key given twice; YAML lets the last one win."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; a ComposerError when the document is out of bounds."""
        alias = self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._depth += 1
        if self._depth > DEEPEST:
            raise ComposerError(None, None, f"is nested more than {DEEPEST} levels deep", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return node
        if not alias:
            self._sizes[id(node)] = self._size(node)
        elif id(node) not in self._sizes:
            raise ComposerError(None, None, "is an alias of what it stands in", mark)
        if self._sizes[id(node)] > MOST_VALUES:
            problem = f"holds more than {MOST_VALUES} values, with aliases written out"
            raise ComposerError(None, None, problem, mark)
        return node

    def _size(self, node: yaml.Node) -> int:
        """Return how many values a node means; those of its parts are known."""
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        else:
            parts = node.value if isinstance(node, yaml.SequenceNode) else []
        return 1 + sum(self._sizes[id(part)] for part in parts)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - pyyaml's signature
        """Return the value of a node; a ConstructorError when it has none."""
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            problem = f"is a number of more than {LONGEST_NUMBER} characters"
            raise ConstructorError(None, None, problem, node.start_mark)
        try:
            if isinstance(node.value, str):
                node.value.encode()  # "\\ud800" is a string of Python, and no text
            return super().construct_object(node, deep)
        except _UNREADABLE as error:
            kind = node.tag.rpartition(":")[2]
            problem = f"{shown(node.value)} is no {kind} ({error})"
            raise ConstructorError(None, None, problem, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - pyyaml's signature
        """Return the mapping; a ConstructorError names a key given twice."""
        seen = set()
        for key_node, _ in node.value if node.id == "mapping" else []:  # not so for !!map [a]
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                problem = f"the key {shown(key)!r} is given twice"
                raise ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key if isinstance(key, str) else None)
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> dict[str, Any]:
    """Return the mapping in ``text``; YAMLError or ConfigError when there is none."""
    document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    if document is None:
        raise ConfigError(["is empty"])
    if not isinstance(document, dict):
        raise ConfigError([f"must be a mapping, got {shown(document)}"])
    return document


def where_and_what(error: yaml.YAMLError) -> str:
    """Return what is wrong with a text that is no YAML, with line and column where known."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())
