"""What is known of a pool's engines: their kind, where their page is, mappings for it."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.addresses import MAX_PORT
from scorer.config.prometheus import PoolQueries
from scorer.config.types import Strict
from scorer.core.vocabulary import Engine
from scorer.mappings.engine import Mapping
from scorer.mappings.shipped import built, engine_mappings

EngineName = Literal[
    "auto",
    "vllm",
    "tensorrt_llm",
    "triton",
    "sglang",
    "tgi",
    "llamacpp",
    "lmdeploy",
    "nim",
    "other",
]
AUTO = get_args(EngineName)[0]
METRICS_PORTS = {Engine.TRITON: 8002}
"""Ports of engines that never have their page on the port that takes requests."""


def _built(value: Any) -> Any:  # noqa: ANN401 - whatever stands in the file
    if not isinstance(value, dict):
        return value
    try:
        return built(value)
    except ValueError as error:
        raise PydanticCustomError("whole", "{rule}", {"rule": str(error)}) from None


Mappings = Annotated[tuple[Annotated[Mapping, BeforeValidator(_built)], ...], Field(strict=False)]
"""Mappings of the user's own, in the schema of those that ship."""


class EngineConfig(Strict):
    """The keys of a pool that say what its targets' pages are like.

    ``metrics_path`` empty means where the engine has its page. ``mappings`` are tried
    before those that ship, which have the orders from 100 on. ``source`` says who
    scrapes, and ``prometheus`` how it is asked. ``metrics_port`` 0 means the target's own
    port, and None the one that the engine has its page on.
    """

    engine: EngineName = "auto"
    metrics_port: Annotated[int, Field(ge=0, le=MAX_PORT)] | None = None
    metrics_path: Annotated[str, Field(pattern=r'^(/[!"$->@-~]*)?$')] = ""
    mappings: Mappings = ()
    source: Literal["scrape", "prometheus"] = "scrape"
    prometheus: PoolQueries = PoolQueries()

    @model_validator(mode="after")
    def _queries_are_known(self) -> Self:
        if self.source == "prometheus" and self.engine == AUTO:
            raise PydanticCustomError(
                "whole", "source prometheus needs engine to name one, not auto"
            )
        return self

    @property
    def only_engine(self) -> Engine | None:
        """The engine that the pool is restricted to, None for any."""
        return None if self.engine == AUTO else Engine(self.engine)

    @property
    def port_of_metrics(self) -> int:
        """The port on which targets have their page, 0 for their own."""
        if self.metrics_port is not None:
            return self.metrics_port
        return 0 if self.only_engine is None else METRICS_PORTS.get(self.only_engine, 0)

    def known_mappings(self, shared: tuple[Mapping, ...] = ()) -> tuple[Mapping, ...]:
        """Return all mappings in the order in which they are tried; ``shared`` are every pool's."""
        found = (*self.mappings, *shared, *engine_mappings())
        return tuple(sorted(found, key=lambda mapping: mapping.order))
