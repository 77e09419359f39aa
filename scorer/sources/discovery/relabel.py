"""Relabelling as Prometheus does it: each rule sees what the one before it left.

A label whose value is empty is a label that is not there. A regular expression must
match the whole of what it looks at.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from scorer.config.relabel import LABEL_NAME, RelabelConfig, compiled

Labels = dict[str, str]

_REFERENCE = re.compile(r"\$(?:\$|(?P<plain>\w+)|\{(?P<braced>\w+)\})", re.ASCII)


def relabel(labels: Mapping[str, str], rules: Sequence[RelabelConfig]) -> Labels | None:
    """Return the labels that ``rules`` make of ``labels``, None when one of them drops it."""
    result = {name: value for name, value in labels.items() if value}
    for rule in rules:
        source = rule.separator.join(result.get(name, "") for name in rule.source_labels)
        if not _ACTIONS[rule.action](result, rule, source, _regex(rule.regex)):
            return None
    return result


_regex = functools.lru_cache(maxsize=256)(compiled)


def expand(template: str, match: re.Match[str]) -> str:
    """Return ``template`` with ``$1``, ``${1}`` and ``${name}`` replaced by what they matched.

    A group that does not exist or did not match is empty; ``$$`` is a dollar sign.
    """

    def value(reference: re.Match[str]) -> str:
        name = reference["plain"] or reference["braced"]
        if name is None:
            return "$"
        group: int | str = int(name) if name.isdecimal() else name
        try:
            return match[group] or ""
        except IndexError:
            return ""

    return _REFERENCE.sub(value, template)


def _set(labels: Labels, name: str, value: str) -> None:
    if value:
        labels[name] = value
    else:
        labels.pop(name, None)


def _replace(labels: Labels, rule: RelabelConfig, source: str, regex: re.Pattern[str]) -> bool:
    if match := regex.fullmatch(source):
        name = expand(rule.target_label, match)
        if LABEL_NAME.fullmatch(name):
            _set(labels, name, expand(rule.replacement, match))
    return True


def _keep(_: Labels, __: RelabelConfig, source: str, regex: re.Pattern[str]) -> bool:
    return regex.fullmatch(source) is not None


def _drop(_: Labels, __: RelabelConfig, source: str, regex: re.Pattern[str]) -> bool:
    return regex.fullmatch(source) is None


def _keep_equal(labels: Labels, rule: RelabelConfig, source: str, _: re.Pattern[str]) -> bool:
    return labels.get(rule.target_label, "") == source


def _drop_equal(labels: Labels, rule: RelabelConfig, source: str, _: re.Pattern[str]) -> bool:
    return labels.get(rule.target_label, "") != source


def _lowercase(labels: Labels, rule: RelabelConfig, source: str, _: re.Pattern[str]) -> bool:
    _set(labels, rule.target_label, source.lower())
    return True


def _uppercase(labels: Labels, rule: RelabelConfig, source: str, _: re.Pattern[str]) -> bool:
    _set(labels, rule.target_label, source.upper())
    return True


def _hashmod(labels: Labels, rule: RelabelConfig, source: str, _: re.Pattern[str]) -> bool:
    """Set the shard that Prometheus computes: the last eight bytes of the MD5, modulo."""
    digest = hashlib.md5(source.encode("utf-8", "replace"), usedforsecurity=False).digest()
    shard = int.from_bytes(digest[8:], "big") % rule.modulus
    _set(labels, rule.target_label, str(shard))
    return True


def _labelmap(labels: Labels, rule: RelabelConfig, _: str, regex: re.Pattern[str]) -> bool:
    for name, value in list(labels.items()):
        if match := regex.fullmatch(name):
            _set(labels, expand(rule.replacement, match), value)
    return True


def _labeldrop(labels: Labels, _: RelabelConfig, __: str, regex: re.Pattern[str]) -> bool:
    for name in [name for name in labels if regex.fullmatch(name)]:
        del labels[name]
    return True


def _labelkeep(labels: Labels, _: RelabelConfig, __: str, regex: re.Pattern[str]) -> bool:
    for name in [name for name in labels if not regex.fullmatch(name)]:
        del labels[name]
    return True


_ACTIONS: dict[str, Callable[[Labels, RelabelConfig, str, re.Pattern[str]], bool]] = {
    "replace": _replace,
    "keep": _keep,
    "drop": _drop,
    "keepequal": _keep_equal,
    "dropequal": _drop_equal,
    "lowercase": _lowercase,
    "uppercase": _uppercase,
    "hashmod": _hashmod,
    "labelmap": _labelmap,
    "labeldrop": _labeldrop,
    "labelkeep": _labelkeep,
}
"""Each returns False to drop the target."""
