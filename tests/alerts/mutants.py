"""What a careless edit could take out of an alert rule, one thing at a time."""

import copy
import re
from collections.abc import Iterator
from typing import Any

Rule = dict[str, Any]

AGGREGATION = re.compile(r"\b(?:max|avg|sum|group) (?:by|without) \([^)]*\) ")
OVER_TIME = re.compile(r"\b(?:max|min|avg)_over_time(\([^()]*)\[\w+\]")
LAST_CLAUSE = re.compile(r"^(?:and|unless) on .*\Z", re.MULTILINE | re.DOTALL)
SEVERITY = {"critical": "warning", "warning": "critical"}


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Yield what is wrong with it, and the rule with that one thing wrong."""
    for key in ("for", "keep_firing_for"):
        if key in rule:
            yield f"no {key}", {name: value for name, value in rule.items() if name != key}
    for what, expression in _expressions(rule["expr"]):
        mutant = copy.deepcopy(rule)
        mutant["expr"] = expression
        yield what, mutant


def _expressions(expression: str) -> Iterator[tuple[str, str]]:
    for number, found in enumerate(AGGREGATION.finditer(expression), 1):
        yield f"no {found[0].split(' (')[0]} ({number})", _without(expression, found, "")
    for number, found in enumerate(OVER_TIME.finditer(expression), 1):
        what = found[0].partition("(")[0]
        yield f"no {what} ({number})", _without(expression, found, found[1])
    for found in LAST_CLAUSE.finditer(expression):
        yield "no last clause", _without(expression, found, "")
    for found in re.finditer(r'severity="(\w+)"', expression):
        other = f'severity="{SEVERITY[found[1]]}"'
        yield "threshold of the other severity", _without(expression, found, other)


def _without(expression: str, found: re.Match[str], instead: str) -> str:
    return expression[: found.start()] + instead + expression[found.end() :]
