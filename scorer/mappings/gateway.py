"""What a gateway preset is: data that says where a gateway counts TTFT, and of whom.

A gateway's page tells of many targets. A row names its target by a label, or by a
label that another family translates; ``pool_of_one`` presets name none at all and can
only serve a pool with one target.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.mappings.rows import Condition, Data, Family, HistogramSource, Label, Rows


def _regex(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"must be a regular expression ({error})") from None
    if groups < 1:
        raise ValueError("must have a group around what names the target")
    return text


TargetRegex = Annotated[str, AfterValidator(_regex)]
"""A regular expression whose first group, or groups ``host`` and ``port``, name a target."""


class Translation(Data):
    """Rows of ``family`` that tell for a value of ``label`` what stands in ``value``."""

    family: Family
    label: Label
    value: Label


class TargetNames(Data):
    """How a row names its target: by ``label``, translated by ``join``, cut by ``regex``.

    ``pool_label`` holds the name of the pool where the gateway knows it.
    """

    label: Label
    pool_label: Label | None = None
    join: Translation | None = None
    regex: TargetRegex | None = None


class RequestCounter(Rows):
    """Counted requests: their HTTP status is in ``status_label``, or all have ``status``.

    ``target_label`` names the target where it is not the label of the histogram.
    """

    status_label: Label | None = None
    status: Annotated[int, Field(ge=0, le=599)] | None = None
    target_label: Label | None = None

    @model_validator(mode="after")
    def _has_a_status(self) -> Self:
        if (self.status_label is None) == (self.status is None):
            raise PydanticCustomError("status", "must have either status_label or status")
        return self


class GatewayPreset(Data):
    """What one gateway's page means; it is recognised when any of ``detect`` holds."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]
    title: str = ""
    detect: tuple[Condition, ...] = ()
    ttft: tuple[HistogramSource, ...] = ()
    target: TargetNames | None = None
    requests: tuple[RequestCounter, ...] = ()

    @property
    def pool_of_one(self) -> bool:
        """Whether its rows name no target."""
        return self.target is None

    def _families(self) -> Iterator[str]:
        for part in (*self.detect, *self.ttft, *self.requests):
            yield from part.families()
        if self.target is not None and self.target.join is not None:
            yield self.target.join.family

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all families and series that the preset looks at."""
        return frozenset(self._families())
