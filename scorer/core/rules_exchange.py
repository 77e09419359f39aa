"""Rules about how an exchange ended, and about limits of the client or of the gateway.

They come before anything the body says: who hung up, and who made the answer. A limit
of the client's own key wins over every status and over words of saturation, because
gateways use the same statuses for both.
"""

import re

from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact, Rule, codes, found

SUCCEEDED = codes("2xx")
REFUSED = codes(429, 503)
FAILED = codes("5xx")
NOT_SERVED = codes(0, 429, "5xx")


def flags(*alternatives: str) -> re.Pattern[str]:
    """Return a search for HAProxy states (``^..``) or whole Envoy flags among several."""
    return re.compile(
        "|".join(each if each[0] == "^" else rf"(?:^|,){each}(?:,|$)" for each in alternatives)
    )


CLIENT_LEFT = flags("^[Cc][A-Z-](?:..)?$", "DC", "DR")
GATEWAY_ENDED = flags(
    "^[sS]Q", "^P[RCQTL-]", "^[RIKL][A-Z-](?:..)?$",
    "UH", "UO", "NR", "NC", "LH", "OM", "DO", "DF", "RLSE", "RFCF", "NFCF", "UAEX", "FI", "DI",
)  # fmt: skip
ENGINE_ENDED = flags(
    "^[sS][CHDTL-]", "^P[HD]", "^D[A-Z-]..$", "UF", "UC", "UT", "UR", "UPE", "SI", "DT"
)
NO_SERVER = flags("^S[C-]")

ENDED = (
    Rule(
        "client_left_after_token", OutcomeClass.SUCCESS,
        termination=CLIENT_LEFT, facts=Fact.FIRST_TOKEN, no_facts=Fact.STREAM_ERROR,
    ),
    Rule("client_left", OutcomeClass.CLIENT_ABORT, termination=CLIENT_LEFT),
    Rule(
        "client_left_after_token", OutcomeClass.SUCCESS, codes(499),
        facts=Fact.FIRST_TOKEN, no_facts=Fact.STREAM_ERROR,
    ),
    Rule("client_left", OutcomeClass.CLIENT_ABORT, codes(499), facts=Fact.WAITED),
    # An answer that says 499 was written by an engine to nobody: no wait to learn from.
    Rule("answered_client_closed", OutcomeClass.CLIENT_ERROR, codes(499), facts=Fact.ANSWERED),
    Rule("client_left", OutcomeClass.CLIENT_ABORT, codes(499)),
    Rule(
        "gateway_had_no_server", OutcomeClass.GATEWAY_FAULT,
        termination=NO_SERVER, facts=Fact.NO_UPSTREAM,
    ),
    Rule("gateway_rate_limit", OutcomeClass.CLIENT_RATE_LIMIT, termination=flags("RL")),
    Rule("gateway_ended", OutcomeClass.GATEWAY_FAULT, NOT_SERVED, termination=GATEWAY_ENDED),
    Rule("upstream_broke_off", OutcomeClass.ENGINE_FAULT, termination=ENGINE_ENDED),
    Rule(
        "gateway_gave_no_answer", OutcomeClass.GATEWAY_FAULT, codes(0), facts=Fact.NO_UPSTREAM
    ),
    Rule("no_answer", OutcomeClass.ENGINE_FAULT, codes(0)),
)  # fmt: skip

KEY_LIMIT = found(
    "rate_limit_exceeded", "quota", "budget", "billing", "api key", "api_key", "apikey",
    "trial key", "per min", "per second", "per hour", "per day", "/ min", "/min", "(tpm)",
    "(rpm)", "tpm limit", "rpm limit", "tokens per", "requests per", "organization", "your account",
    "your plan", "pricing tier", "rate limit of your", "your rate limit", "tenant",
    "账户", "账号", "您的",
    patterns=[r"code: 130[2-48]\b", r"per \d{1,4} (?:sec|min|hour|day)"],
)  # fmt: skip
"""Words about the limit of a key, an account or a tenant."""

RATE_WORDS = found(
    "rate limit exceeded", "rate limit reached", "rate-limit", "rate limited", "rate_limited",
    "ratelimited", "rate exceeded", "request rate", "throttled", "throttlingexception",
    "limit exceeded", "slow down", "速率限制", "过于频繁", "频率",
)  # fmt: skip
"""Words about a rate, which do not say whose."""

SATURATED = found(
    "queue is full", "queue full", "queue size", "queue limit", "currently busy", "overload",
    "backlog", "backpressure", "back pressure", "cache exhausted", "cache is exhausted",
    "cache is full", "cache full", "out of kv", "insufficient kv", "not enough kv", "saturated",
    "no slot", "no free slot", "no available slot", "at capacity", "over capacity",
    "capacity exceeded", "capacity reached", "nocapacity", "no capacity", "insufficient capacity",
    "capacity constraint", "workers are busy", "is busy", "are busy", "server busy", "too busy",
    "system busy", "waiting timeout", "request timeout expired", "timed out in queue",
    "queue timeout", "higher priority request", "too many concurrent", "too many pending",
    "too many queued", "too many waiting", "max concurrency", "maximum concurrency",
    "concurrency limit", "request limit reached", "resourceexhausted", "resource_exhausted",
    "访问量过大", "繁忙", "过载", "负载过高",
    patterns=[r"code: 1305\b"],
)  # fmt: skip
"""Words of an engine that is full."""

REMAINING = found(patterns=[r"rate-?limit-[a-z-]{0,20}remaining[\w-]{0,60}: (?:0|-\d)"])
"""A header that says that nothing remains of a limit."""

LIMITED = (
    Rule(
        "grpc_rate_limit", OutcomeClass.CLIENT_RATE_LIMIT, SUCCEEDED,
        head=found(patterns=[r"\ngrpc-message: [^\n]{0,80}rate.?limited"]),
    ),
    Rule(
        "request_too_large", OutcomeClass.CLIENT_ERROR, codes(429),
        text=found("request too large", "request is too large"),
    ),
    Rule(
        "rate_limit_header", OutcomeClass.CLIENT_RATE_LIMIT, codes(403, 429, 503),
        head=found(
            "\nrate_limit_type: ", "\nx-envoy-ratelimited: true",
            "\nx-smg-error-code: tenant_rate_limit",
        ),
    ),
    Rule(
        "nothing_remaining", OutcomeClass.CLIENT_RATE_LIMIT, codes(429),
        head=REMAINING,
    ),
    Rule(
        "nothing_remaining", OutcomeClass.CLIENT_RATE_LIMIT, codes(503),
        head=REMAINING, no_text=SATURATED,
    ),
    Rule(
        "limit_of_deployment", OutcomeClass.GATEWAY_FAULT, REFUSED,
        text=found("deployment over ", "max_parallel_requests slots"),
    ),
    Rule("key_limit_words", OutcomeClass.CLIENT_RATE_LIMIT, REFUSED | SUCCEEDED, text=KEY_LIMIT),
    # Any other 4xx may echo the prompt, so only a field of the answer counts there.
    Rule(
        "key_limit_code", OutcomeClass.CLIENT_RATE_LIMIT, codes("4xx"),
        text=found(
            *(
                f"{field}: {limit}"
                for field in ("code", "type")
                for limit in (
                    "rate_limit_exceeded", "tenant_rate_limit_exceeded", "insufficient_quota",
                    "quota_exceeded", "budget_exceeded",
                )
            )
        ),
    ),
)  # fmt: skip

_PARTS = "upstream|server|endpoint|backend|worker|instance|replica|pod|host"

NO_UPSTREAM_WORDS = found(
    "no healthy ", "no live ", "no models available", "no endpoints", "no server is available",
    "no deployments available", "reset reason: overflow", "{overflow", "concurrency limit",
    "envoy overloaded", "admission_queue", "admission queue", "admission slot", "scheduler_queue",
    "priority class", "inference error:", "inference gateway:", "flow control", "ring-balancer",
    "name resolution failed", "circuit breaker", "circuits open",
    patterns=[
        r"model \S{1,60} is temporarily unavailable",
        rf"no (?:available|ready|usable|active) (?:\w{{1,10}} )?(?:model|{_PARTS})",
        rf"no (?:{_PARTS})s? (?:\w{{1,10}} )?(?:available|found)",
    ],
)  # fmt: skip
"""Words of a gateway that found nobody to ask, or asks nobody for now."""

GATEWAYS = (
    Rule(
        "gateway_error_code", OutcomeClass.GATEWAY_FAULT, codes(408) | NOT_SERVED,
        head=found("\nx-smg-error-code: "),
        no_head=found("\nx-smg-routed-worker-id: ", "generation_failed", "failed_to_start"),
    ),
    Rule(
        "gateway_dropped", OutcomeClass.GATEWAY_FAULT, codes("4xx", "5xx"),
        head=found("\nx-llm-d-request-dropped-reason: "),
    ),
    Rule(
        "gateway_overloaded", OutcomeClass.GATEWAY_FAULT, NOT_SERVED,
        head=found("\nx-envoy-overloaded: true"),
        no_head=found("\nx-envoy-upstream-service-time: "),
    ),
    Rule("nobody_to_ask", OutcomeClass.GATEWAY_FAULT, NOT_SERVED, text=NO_UPSTREAM_WORDS),
    Rule(
        "gateway_page", OutcomeClass.GATEWAY_FAULT, codes(503),
        text=found("apisix.apache.org"),
    ),
    # sglang-router and vllm-router give up on their own queue with a 408 that has nothing
    # but the id they made for the request.
    Rule(
        "router_queue", OutcomeClass.GATEWAY_FAULT, codes(408), bare=True,
        head=found("\nx-request-id: chatcmpl-", "\nx-request-id: cmpl-", "\nx-request-id: gnt-"),
    ),
)  # fmt: skip
