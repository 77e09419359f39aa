"""A pool of emulated engines under load: what ``scorer demo`` shows without a GPU.

``engine`` emulates continuous batching on a virtual clock, ``server`` puts it behind
HTTP with a vLLM metrics page, ``client`` loads the pool through ``/pick`` and
``run`` ties them to a real daemon. Nothing here is used by ``scorer run``.
"""
