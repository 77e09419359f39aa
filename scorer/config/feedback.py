"""How feedback comes in, who may give it, and an operator's own rules for it."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scorer.config.files import OptionalFilePath
from scorer.config.types import Strict, parse_listen_address
from scorer.core.outcome import OutcomeClass
from scorer.core.patterns import compiled
from scorer.core.rules import Rule, codes, found

_CLASS = re.compile(r"[1-5]xx")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_STATUSES = "must be a status such as 503, a class such as 5xx, or a list of them"


def _listen(text: str) -> str:
    return parse_listen_address(text) if text else text


def _statuses(value: object) -> tuple[int, ...]:
    given = value if isinstance(value, list) else [value]
    if not given or not all(_is_status(each) for each in given):
        raise ValueError(_STATUSES)
    return tuple(sorted(codes(*given)))


def _is_status(value: object) -> bool:
    if isinstance(value, str):
        return _CLASS.fullmatch(value) is not None
    return type(value) is int and (value == 0 or 100 <= value <= 599)


def _header(text: str) -> str:
    name, _, value = text.partition(":")
    if not _HEADER.fullmatch(name) or len(value) > 256:
        rule = "must be a header's name, or 'name: text that its value contains'"
        raise ValueError(rule)
    return text


def _body_regex(text: str) -> str:
    compiled(text)
    return text


class UdpConfig(Strict):
    """Where log records of proxies are taken; nowhere when empty."""

    listen: Annotated[str, AfterValidator(_listen)] = ""


class MatchConfig(Strict):
    """What a rule looks at; everything that is given must hold."""

    status: Annotated[tuple[int, ...], BeforeValidator(_statuses)] = ()
    header: Annotated[str, AfterValidator(_header)] = ""
    body_regex: Annotated[str, AfterValidator(_body_regex)] = ""

    @model_validator(mode="after")
    def _not_empty(self) -> "MatchConfig":
        if not (self.status or self.header or self.body_regex):
            rule = "must name status, header or body_regex"
            raise ValueError(rule)
        return self


class RuleConfig(Strict):
    """An operator's own rule: outcomes that match it are of this class."""

    match: MatchConfig
    class_: Annotated[OutcomeClass, Field(strict=False, alias="class")]

    def rule(self, name: str) -> Rule:
        """Return the rule for the classifier."""
        header, _, value = self.match.header.lower().partition(":")
        line = rf"\n{re.escape(header)}: [^\n]{{0,256}}?{re.escape(value.strip())}"
        return Rule(
            name,
            self.class_,
            frozenset(self.match.status),
            head=found(patterns=[line]) if header else None,
            any_text=compiled(self.match.body_regex) if self.match.body_regex else None,
        )


class FeedbackConfig(Strict):
    """The whole section."""

    udp: UdpConfig = UdpConfig()
    token_file: OptionalFilePath = ""
    rules: Annotated[tuple[RuleConfig, ...], Field(strict=False)] = ()

    def warnings(self) -> list[str]:
        """Return what is allowed and probably not meant, one line each."""
        host = self.udp.listen.rpartition(":")[0].strip("[]")
        if self.token_file or host in ("", "localhost", "::1") or host.startswith("127."):
            return []
        risk = "anybody who can send a datagram there is believed"
        return [f"feedback.udp.listen: is not on loopback, and without token_file {risk}"]

    def own_rules(self) -> tuple[Rule, ...]:
        """Return the operator's rules in their order, named by their place."""
        return tuple(rule.rule(f"feedback.rules[{i}]") for i, rule in enumerate(self.rules))
