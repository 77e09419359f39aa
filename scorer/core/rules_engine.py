"""Rules about what an engine says of itself, and what is left when nobody says anything.

The order settles what shares its words: a dead engine before a full one, because a CUDA
message may mention capacity; a full one before a mistake of the client, because engines
wrap both in the same envelope.
"""

from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact, Rule, codes, found
from scorer.core.rules_exchange import FAILED, RATE_WORDS, REFUSED, SATURATED, SUCCEEDED

ERRED = FAILED | SUCCEEDED
"""Statuses whose body may tell another story; of a 2xx only an error counts as body."""

DEAD = found(
    "cuda", "out of memory", "outofmemory", "enginecore", "enginedead", "engine dead",
    "engine is dead", "engine died", "engine process", "nccl", "cublas", "cudnn", "hip error",
    "illegal memory access", "device-side assert", "worker died", "actor died",
    "executor is shut", "segmentation fault", "background loop has errored", "sigkill",
)  # fmt: skip
"""Words of an engine that is broken."""

BROKEN = (
    Rule(
        "engine_broken_as_400", OutcomeClass.ENGINE_FAULT, codes(400), text=DEAD,
        # A 400 about the request may quote the prompt, whatever the prompt is about.
        no_text=found("valid", "input", "prompt", "pars", "field", "schema", "must be"),
    ),
    Rule("engine_broken", OutcomeClass.ENGINE_FAULT, codes(424, 429) | ERRED, text=DEAD),
    Rule(
        "engine_draining", OutcomeClass.ENGINE_FAULT, ERRED,
        text=found(
            "awaiting shutdown", "after shutdown", "shutting down", "is draining",
            "being terminated",
        ),
    ),
)  # fmt: skip

CLIENTS = (
    Rule(
        "too_long", OutcomeClass.CLIENT_ERROR, codes(429) | ERRED,
        text=found(
            "context length", "context_length", "context window", "context size",
            "maximum context", "exceed_context", "max_model_len", "max_num_tokens", "max_seq_len",
            "prompt is too long", "prompt too long", "input is too long", "input too long",
            "longer than the model", "too many tokens", "over the limit of",
        ),
    ),
    Rule(
        "bad_json", OutcomeClass.CLIENT_ERROR, ERRED,
        text=found("json.exception", "parse error at", "jsondecodeerror", "invalid json"),
    ),
    Rule(
        "priority_refused", OutcomeClass.CLIENT_ERROR, ERRED,
        text=found("without a priority", "priority is disabled"),
    ),
)  # fmt: skip

LOADING = (
    Rule(
        "loading", OutcomeClass.LOADING, codes(503),
        text=found(
            "loading model", "is loading", "currently loading", "still loading", "being loaded",
            "not loaded", "not ready", "isnt ready", "not yet ready", "sleeping", "wake up",
            "wake it up", "warming up", "starting up", "is starting", "initializ", "initialis",
            "is currently scaling", "正在加载",
        ),
    ),
)  # fmt: skip

FULL = (
    Rule(
        "rate_or_saturation", OutcomeClass.UNKNOWN, codes(429), text=SATURATED, also=RATE_WORDS
    ),
    Rule("status_529", OutcomeClass.ENGINE_SATURATED, codes(529)),
    Rule("saturation_words", OutcomeClass.ENGINE_SATURATED, codes(429) | ERRED, text=SATURATED),
    Rule(
        "rate_words", OutcomeClass.CLIENT_RATE_LIMIT, REFUSED | SUCCEEDED,
        text=found(*RATE_WORDS.words, "rate_limit_error"),
    ),
    # LiteLLM keeps the words of an API provider's limit and loses those of an engine, whose
    # errors have another shape: an upstream that said something unreadable is an engine.
    Rule(
        "unreadable_engine_429", OutcomeClass.ENGINE_SATURATED, codes(429),
        text=found("error code: 429"),
        head=found(patterns=[r"\nllm_provider-content-length: [1-9]"]),
    ),
    Rule(
        "limiter_page", OutcomeClass.CLIENT_RATE_LIMIT, codes(429),
        text=found("<html", "<!doctype html"),
    ),
    Rule("refused_without_reason", OutcomeClass.UNKNOWN, codes(429)),
)  # fmt: skip

DISGUISED = (
    Rule(
        "client_error_inside", OutcomeClass.CLIENT_ERROR, ERRED,
        text=found(
            "badrequesterror", "invalid_request_error", "notfounderror", "authenticationerror",
            "validation error", "type: validation", "model name does not exist",
            patterns=[
                r"code: (?:40[0-7]|41[0-8]|42[0-36]|431|451)\b",
                r"status: (?:40[0-7]|41[0-8]|42[0-36]|431|451)\b",
                r"model (?:\S{1,60} )?(?:is )?(?:not found|does not exist)",
            ],
        ),
    ),
)  # fmt: skip

SUCCESSES = (
    Rule(
        "grpc_client_error", OutcomeClass.CLIENT_ERROR, SUCCEEDED,
        head=found(patterns=[r"\ngrpc-status: (?:3|5|6|7|9|11|16)(?:\n|$)"]),
    ),
    Rule(
        "grpc_cancelled", OutcomeClass.CLIENT_ABORT, SUCCEEDED,
        head=found(patterns=[r"\ngrpc-status: 1(?:\n|$)"]),
    ),
    Rule(
        "grpc_exhausted", OutcomeClass.UNKNOWN, SUCCEEDED,
        head=found(patterns=[r"\ngrpc-status: 8(?:\n|$)"]),
    ),
    Rule(
        "grpc_error", OutcomeClass.ENGINE_FAULT, SUCCEEDED,
        head=found(patterns=[r"\ngrpc-status: [1-9]"]),
    ),
    Rule("error_inside_2xx", OutcomeClass.ENGINE_FAULT, SUCCEEDED, bare=False),
    Rule("stream_error", OutcomeClass.ENGINE_FAULT, SUCCEEDED, facts=Fact.STREAM_ERROR),
    Rule(
        "stream_without_token", OutcomeClass.ENGINE_FAULT, SUCCEEDED,
        facts=Fact.NO_TOKEN, no_facts=Fact.FIRST_TOKEN,
    ),
    Rule("success", OutcomeClass.SUCCESS, SUCCEEDED),
)  # fmt: skip

LEFT_OVER = (
    Rule("informational", OutcomeClass.UNKNOWN, codes("1xx")),
    Rule("redirect", OutcomeClass.CLIENT_ERROR, codes("3xx")),
    Rule(
        "slow_client", OutcomeClass.CLIENT_ABORT, codes(408), facts=Fact.NO_UPSTREAM
    ),
    Rule("upstream_timeout", OutcomeClass.ENGINE_FAULT, codes(408), facts=Fact.WAITED_LONG),
    Rule("impatient_client", OutcomeClass.CLIENT_ABORT, codes(408), facts=Fact.WAITED),
    Rule(
        "upstream_timeout", OutcomeClass.ENGINE_FAULT, codes(408),
        text=found("timed out", "timeout"),
    ),
    Rule("impatient_client", OutcomeClass.CLIENT_ABORT, codes(408)),
    # Every engine says what is wrong with a request. A 400 that has neither header nor body
    # is Triton's readiness answer.
    Rule(
        "not_ready", OutcomeClass.LOADING, codes(400), bare=True,
        facts=Fact.ANSWERED, no_head=found("\n"),
    ),
    Rule("failed_dependency", OutcomeClass.ENGINE_FAULT, codes(424)),
    Rule("client_error", OutcomeClass.CLIENT_ERROR, codes("4xx")),
    Rule("not_implemented", OutcomeClass.CLIENT_ERROR, codes(501, 505)),
    Rule("gateway_by_itself", OutcomeClass.GATEWAY_FAULT, FAILED, facts=Fact.NO_UPSTREAM),
    # Dynamo relays a worker's 500 without its words, also for a prompt that is too long.
    Rule(
        "relayed_500", OutcomeClass.UNKNOWN, codes(500), text=found("backend_status: 5")
    ),
    Rule(
        "ran_out_of_time", OutcomeClass.UNKNOWN, codes(503),
        text=found("running timeout", "deadline exceeded"),
    ),
    Rule(
        "upstream_unreachable", OutcomeClass.ENGINE_FAULT, codes(503),
        text=found(
            "connect error", "connection error", "connection refused", "connection reset",
            "connection termination", "connection failure", "connect timeout", "failed to deploy",
            "unhealthy",
        ),
    ),
    Rule(
        "upstream_503", OutcomeClass.ENGINE_FAULT, codes(503), facts=Fact.UPSTREAM, weight=0.5
    ),
    Rule(
        "upstream_503", OutcomeClass.ENGINE_FAULT, codes(503), weight=0.5,
        head=found("\nx-envoy-upstream-service-time: ", "\nx-smg-routed-worker-id: "),
    ),
    Rule(
        "bare_503", OutcomeClass.ENGINE_FAULT, codes(503), weight=0.5, bare=True,
        no_head=found("\nretry-after: "),
    ),
    Rule("refused_without_reason", OutcomeClass.UNKNOWN, codes(503)),
    Rule("server_error", OutcomeClass.ENGINE_FAULT, FAILED),
)  # fmt: skip
