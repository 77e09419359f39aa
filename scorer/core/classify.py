"""The classifier: whose fault was it. Pure, and total: every input has one class.

The rules are one ordered table; the first that matches decides. Order: how the exchange
ended, limits of the client, answers of the gateway itself, a broken engine, mistakes of
the client, a loading engine, a full one, and what the status alone says.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scorer.core.evidence import NOTHING, Evidence, read_evidence
from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact, Rule
from scorer.core.rules_engine import (
    BROKEN,
    CLIENTS,
    DISGUISED,
    FULL,
    LEFT_OVER,
    LOADING,
    SUCCESSES,
)
from scorer.core.rules_exchange import ENDED, GATEWAYS, LIMITED

RULES = (
    *ENDED, *LIMITED, *GATEWAYS, *BROKEN, *CLIENTS, *LOADING, *FULL, *DISGUISED, *SUCCESSES,
    *LEFT_OVER,
)  # fmt: skip
"""The built-in table."""

REMEMBERED = 4096
"""Verdicts on answers without headers and body that are remembered."""


class Verdict(NamedTuple):
    """The class of an outcome, the rule that decided, and the share of a failure it is."""

    outcome: OutcomeClass
    reason: str
    weight: float


class Context(NamedTuple):
    """What is known of a request besides its answer.

    ``termination`` is HAProxy's termination state or Envoy's response flags. ``waited``
    is how long the request took, ``patience`` how long a first token may take, seconds.
    """

    facts: int = 0
    termination: str = ""
    waited: float | None = None
    patience: float = 2.0


PLAIN = Context()


class Classifier:
    """The table of rules, with an operator's own rules tried first."""

    def __init__(self, own: Iterable[Rule] = ()) -> None:
        """Use ``own`` rules before the built-in ones."""
        self._rules = (*own, *RULES)
        self._by_status: dict[tuple[int, bool], tuple[Rule, ...]] = {}
        self._plain: dict[tuple[int, int, str], Verdict] = {}

    def __call__(
        self,
        status: int,
        headers: Mapping[str, str],
        body: str | bytes,
        context: Context = PLAIN,
    ) -> Verdict:
        """Return the verdict on an answer; ``status`` 0 means that there was none."""
        evidence = read_evidence(status, headers, body)
        facts = facts_of(context.facts, context.waited, context.patience)
        if evidence is not NOTHING:
            return self._first(status, evidence, facts, context.termination)
        return self.plain(status, facts, context.termination)

    def plain(self, status: int, facts: int, termination: str = "") -> Verdict:
        """Return the verdict on an answer without headers and body; ``facts`` are all of them."""
        key = (status, facts, termination)
        verdict = self._plain.get(key)
        if verdict is None:
            verdict = self._first(status, NOTHING, facts, termination)
            if len(self._plain) >= REMEMBERED:
                self._plain.clear()
            self._plain[key] = verdict
        return verdict

    def _first(self, status: int, evidence: Evidence, facts: int, termination: str) -> Verdict:
        for rule in self._about(status, said=bool(evidence.body)):
            if rule.matches(evidence, facts, termination):
                return Verdict(rule.outcome, rule.name, rule.weight)
        return Verdict(OutcomeClass.UNKNOWN, "no_rule", 1.0)

    def _about(self, status: int, *, said: bool) -> tuple[Rule, ...]:
        """Return the rules that a status can match, without those for a body when it has none."""
        rules = self._by_status.get((status, said))
        if rules is None:
            rules = tuple(
                rule
                for rule in self._rules
                if (not rule.statuses or status in rule.statuses)
                and (said or not (rule.text or rule.any_text))
            )
            self._by_status[status, said] = rules
        return rules


def facts_of(facts: int, waited: float | None, patience: float) -> int:
    """Return ``facts`` and what follows from how long the request took; see :class:`Context`."""
    if waited is None:
        return facts
    return facts | (Fact.WAITED | Fact.WAITED_LONG if waited >= patience else Fact.WAITED)
