"""Emulated engines that say in their answers which of them answered.

Engine number k serves the model ``engine k``; the last one takes twice as long for
everything, so that an even spread is not the right one. Prints the ports, one a line and
then an empty line, and serves until killed.
"""

import asyncio
from dataclasses import fields

import uvloop

from scorer.demo.cost import A100_8B, CostModel
from scorer.demo.run import LIMITS
from scorer.demo.server import EngineServer

ENGINES = 4
SLOWER = 2.0


def slowed(cost: CostModel, factor: float) -> CostModel:
    """Return a cost model whose steps take ``factor`` times as long."""
    return CostModel(*(factor * getattr(cost, field.name) for field in fields(cost)))


def names() -> list[str]:
    """Return the names of the engines; the last one is slow."""
    return [f"engine {number}" for number in range(1, ENGINES + 1)]


async def serve() -> None:
    """Listen, say where, and serve."""
    for number, name in enumerate(names(), 1):
        cost = slowed(A100_8B, SLOWER) if number == ENGINES else A100_8B
        server = EngineServer(name, cost, LIMITS)
        await server.start()
        print(server.address.rpartition(":")[2], flush=True)
    print(flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
