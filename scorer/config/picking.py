"""How targets of a pool are picked, and when one is spared."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.config.types import Duration, Ratio, Strict, at_least
from scorer.core.params import ALL_CHOICES, PickParams
from scorer.durations import format_duration

FEWEST_CHOICES = 2
DEFAULTS = PickParams()


def _choices(value: object) -> int:
    if value == "all":
        return ALL_CHOICES
    if not isinstance(value, int) or isinstance(value, bool) or value < FEWEST_CHOICES:
        rule = "must be all or an integer of at least 2"
        raise PydanticCustomError("choices", rule)
    return value


class CooldownConfig(Strict):
    """Shortest and longest cooldown in seconds, and from how many tokens a prompt is long."""

    min: Annotated[Duration, at_least("1s", "30s")] = 3.0
    max: Annotated[Duration, at_least("1s", "30s")] = 5.0
    long_prompt_tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] = DEFAULTS.long_prompt_tokens

    @model_validator(mode="after")
    def _min_is_shorter(self) -> Self:
        if self.min > self.max:
            raise PydanticCustomError(
                "order",
                "min must not be above max ({longest}), got {shortest}",
                {"longest": format_duration(self.max), "shortest": format_duration(self.min)},
            )
        return self


class PickConfig(Strict):
    """The rule of a pick.

    ``choices`` is how many of the cold targets are drawn, ``kv_guard`` the share of the KV
    cache that a pick may fill, ``panic_threshold`` the share of eligible targets below
    which the pool is in panic, ``lease_ttl`` the seconds after which a pick without any
    word counts as over.
    """

    choices: Annotated[int, BeforeValidator(_choices)] = DEFAULTS.choices
    kv_guard: Annotated[float, Field(gt=0, le=1)] = DEFAULTS.kv_guard
    panic_threshold: Ratio = 0.5
    lease_ttl: Annotated[Duration, at_least("10s", "24h")] = DEFAULTS.lease_ttl

    def params(self, cooldown: CooldownConfig) -> PickParams:
        """Return the parameters of the pool's picks."""
        return PickParams(
            choices=self.choices,
            kv_guard=self.kv_guard,
            long_prompt_tokens=cooldown.long_prompt_tokens,
            lease_ttl=self.lease_ttl,
        )
