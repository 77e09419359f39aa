"""Relabelling rules, with the keys, defaults and checks of Prometheus."""

import re
import warnings
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.config.types import Strict

LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_TEMPLATE = re.compile(r"(?:[A-Za-z_]|\$\{\w+\}|\$\w)(?:\w|\$\{\w+\}|\$\w)*", re.ASCII)
"""Of what Prometheus allows; each text fits in one way only, so a long one takes no longer."""
_RE2_GROUP = re.compile(r"\(\?<(?![=!])")

REGEX, SEPARATOR, REPLACEMENT = "(.*)", ";", "$1"

Action = Literal[
    "replace", "keep", "drop", "keepequal", "dropequal", "hashmod", "labelmap", "labeldrop",
    "labelkeep", "lowercase", "uppercase",
]  # fmt: skip
_NEED_TARGET = ("replace", "hashmod", "lowercase", "uppercase", "keepequal", "dropequal")
_REGEX_ALONE = ("labeldrop", "labelkeep")
_LABELS_ALONE = ("keepequal", "dropequal")


def compiled(pattern: str) -> re.Pattern[str]:
    """Return an RE2 pattern as one of Python; ValueError when there is none that means the same.

    Character classes are those of ASCII and ``.`` matches a line feed, as in Prometheus.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(_RE2_GROUP.sub("(?P<", pattern), re.ASCII | re.DOTALL)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        rule = f"must be a regular expression ({error})"
        raise ValueError(rule) from None


def _pattern(text: str) -> str:
    compiled(text)
    return text


def _label_name(text: str) -> str:
    if not LABEL_NAME.fullmatch(text):
        rule = "must be a label name"
        raise ValueError(rule)
    return text


LabelName = Annotated[str, AfterValidator(_label_name)]


class RelabelConfig(Strict):
    """One rule; ``regex`` must match the whole of the joined ``source_labels``."""

    source_labels: Annotated[tuple[LabelName, ...], Field(strict=False)] = ()
    separator: str = SEPARATOR
    target_label: str = ""
    regex: Annotated[str, AfterValidator(_pattern)] = REGEX
    modulus: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    replacement: str = REPLACEMENT
    action: Action = "replace"

    @model_validator(mode="after")
    def _keys_fit_the_action(self) -> Self:
        for broken, rule in self._rules():
            if broken:
                raise PydanticCustomError("whole", "{rule}", {"rule": rule})
        return self

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        action, target = self.action, self.target_label
        given = self.model_fields_set - {"action"}
        named = LABEL_NAME.fullmatch(target) is not None
        made = _LABEL_TEMPLATE.fullmatch(target) is not None
        return (
            (action in _NEED_TARGET and not target, f"action {action} needs target_label"),
            (action == "hashmod" and not self.modulus, "action hashmod needs modulus"),
            (
                action == "replace" and not made,
                f"target_label must be a label name or make one, got {target}",
            ),
            (
                action in _NEED_TARGET and action != "replace" and not named,
                f"target_label must be a label name, got {target}",
            ),
            (
                action == "labelmap" and _LABEL_TEMPLATE.fullmatch(self.replacement) is None,
                f"replacement must make a label name, got {self.replacement}",
            ),
            (
                action in _LABELS_ALONE and bool(given - {"source_labels", "target_label"}),
                f"action {action} takes source_labels and target_label only",
            ),
            (
                action in _REGEX_ALONE and bool(given - {"regex"}),
                f"action {action} takes regex only",
            ),
        )
