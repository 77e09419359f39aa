"""The classifier on answers of real engines and gateways, and on more of their kinds."""

import pytest

from scorer.core.classify import Classifier, Context
from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact
from tests.confusion import SAMPLES, judged, load, main, matrix, wanted

CLASSIFY = Classifier()
LINES = load(SAMPLES)
SEEN = Context(Fact.ANSWERED)
BUSY = (
    '{"error":{"message":"The engine is currently busy and cannot accept new requests.",'
    '"type":"Service Unavailable","code":503}}'
)

OTHERS = [
    # The request cannot be served by anybody.
    ("client_error", 503, {}, '{"message":"Using priority is disabled.","code":503}'),
    ("client_error", 429, {}, '{"message":"Request too large for m on tokens per min (TPM)"}'),
    ("client_error", 500, {}, '{"error":{"message":"no","type":"BadRequestError","code":400}}'),
    ("client_error", 500, {}, '{"object":"error","message":"no","param":null,"code":404}'),
    ("client_error", 200, {}, 'data: {"error":{"message":"maximum context length is 2048"}}\n\n'),
    ("client_error", 200, {}, '{"error_code":1,"text":"The request model name does not exist"}'),
    ("client_error", 200, {}, 'data:{"error":"Input validation error","error_type":"validation"}'),
    ("client_error", 400, {}, '{"message":"Input \'CUDA out of memory\' is no list","code":400}'),
    ("client_error", 422, {}, '{"error":"Input validation error: queue is full"}'),
    ("client_error", 413, {}, '{"error":"queue is full"}'),
    ("client_error", 404, {}, '{"message":"no Route matched with those values"}'),
    ("client_error", 501, {}, '{"error":{"message":"beam search is not supported"}}'),
    # Somebody's allowance is used up.
    ("client_rate_limit", 429, {}, '{"message":"API rate limit exceeded","request_id":"01"}'),
    ("client_rate_limit", 429, {}, '{"error":{"message":"Hit limit for api_key: 3ec1."}}'),
    ("client_rate_limit", 400, {}, '{"error":{"type":"budget_exceeded","code":"400"}}'),
    ("client_rate_limit", 503, {}, '{"error_msg":"rate limit exceeded"}'),
    ("client_rate_limit", 429, {"ratelimit-remaining": "0"}, ""),
    ("client_rate_limit", 429, {"anthropic-ratelimit-requests-remaining": "0"}, ""),
    ("client_rate_limit", 429, {"X-RateLimit-Remaining-Tokens": "0"}, BUSY),
    ("client_rate_limit", 429, {}, '{"error":{"message":"You exceeded your current quota"}}'),
    ("client_rate_limit", 429, {}, '{"error":"Rate limit exceeded: 5 per 1 minute"}'),
    ("client_rate_limit", 429, {}, "Error code: 429 - {'message': 'reached on requests per day'}"),
    ("client_rate_limit", 200, {"grpc-status": "14", "grpc-message": "rate limited"}, ""),
    # The gateway, not an engine.
    ("gateway_fault", 503, {"x-smg-error-code": "worker_overload_protection_shed"}, "overloaded"),
    ("gateway_fault", 503, {}, '{"error":{"message":"No available workers (all circuits open)"}}'),
    ("gateway_fault", 429, {}, '{"message":"Deployment has all max_parallel_requests slots"}'),
    ("gateway_fault", 429, {}, "inference gateway: ResourceExhausted - system saturated, dropped"),
    ("gateway_fault", 503, {}, "<html><body>No server is available to handle this request."),
    ("gateway_fault", 503, {}, '{"message":"failure to get a peer from the ring-balancer"}'),
    ("gateway_fault", 503, {}, '{"error":"No instances found for model demo"}'),
    # The engine is full.
    ("engine_saturated", 503, {}, "Request dropped due to backpressure (num_queued_requests=3)."),
    ("engine_saturated", 500, {}, '{"detail":"[request id: 7] Exceeds maximum queue size"}'),
    ("engine_saturated", 200, {}, 'data:{"error":"overloaded","http_status_code":422}\n\n'),
    ("engine_saturated", 429, {}, '{"message":"request queue is full","type":"BadRequestError"}'),
    ("engine_saturated", 429, {}, '{"type":"rate_limit_error","message":"is currently busy"}'),
    ("engine_saturated", 503, {}, '{"message":"ResourceExhausted: request limit reached (34/32)"}'),
    ("engine_saturated", 429, {}, '{"message":"Service tier capacity exceeded for this model."}'),
    ("engine_saturated", 503, {"x-envoy-upstream-service-time": "4"}, "The request queue is full."),
    ("engine_saturated", 503, {"x-ratelimit-remaining": "0"}, "The request queue is full."),
    ("engine_saturated", 503, {}, "KV cache exhausted"),
    ("engine_saturated", 503, {}, "engine saturated"),
    ("engine_saturated", 503, {}, r'{"m":"\u8be5\u6a21\u578b\u8bbf\u95ee\u91cf\u8fc7\u5927"}'),
    ("engine_saturated", 529, {}, ""),
    # The engine is broken.
    ("engine_fault", 400, {}, '{"message":"Executor worker died: CUDA out of memory","code":400}'),
    ("engine_fault", 200, {}, "torch.OutOfMemoryError: tried to allocate 2.0 GiB"),
    ("engine_fault", 200, {}, 'data: {"error":{"message":"deadline passed","code":504}}\n\n'),
    ("engine_fault", 200, {}, '{"error":{"message":"EngineCore process ended"}}'),
    ("engine_fault", 424, {}, '{"error":"Request failed during generation","error_type":"x"}'),
    ("engine_fault", 503, {}, "The deployment 'LLM' is unavailable because it failed to deploy."),
    ("engine_fault", 503, {}, "upstream connect error, reset reason: remote connection failure"),
    ("engine_fault", 502, {}, "<html><head><title>502 Bad Gateway</title></head>"),
    ("engine_fault", 504, {}, "<html><head><title>504 Gateway Time-out</title></head>"),
    ("engine_fault", 500, {"x-ratelimit-remaining": "0"}, "Internal Server Error"),
    ("engine_fault", 200, {"grpc-status": "14", "grpc-message": "unavailable"}, ""),
    # The engine is not there yet.
    ("loading", 503, {}, '{"object":"health.response","message":"Service is not ready."}'),
    ("loading", 503, {}, '{"error":"Model m is currently loading","estimated_time":20.0}'),
    # Nobody says.
    ("unknown", 429, {}, '{"detail":"Too Many Requests"}'),
    ("unknown", 200, {"grpc-status": "8"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    "sample", LINES, ids=lambda sample: f"{sample['system']} {sample['status']}"
)
def test_sample_is_judged_right(sample):
    """Every captured, source-backed and made-up answer is in its class."""
    assert judged(sample, CLASSIFY).outcome is wanted(sample)


@pytest.mark.parametrize(("outcome", "status", "headers", "body"), OTHERS)
def test_other_answers_of_the_same_kinds_are_judged_right(outcome, status, headers, body):
    """The rules are about kinds of answers, not about the samples."""
    assert CLASSIFY(status, headers, body, SEEN).outcome == outcome


def test_completion_about_errors_is_a_success():
    """What a model writes is no error, even if it writes JSON about queues that are full."""
    chunk = (
        r'data: {"choices":[{"delta":{"content":"\"error\": {\"message\": \"queue is full\"}"}}]}'
    )
    assert CLASSIFY(200, {}, f"{chunk}\n\ndata: [DONE]\n\n").outcome is OutcomeClass.SUCCESS


def test_null_error_in_a_completion_is_a_success():
    """Some APIs always have an error field."""
    body = '{"error": null, "choices": [{"message": {"content": "CUDA out of memory"}}]}'
    assert CLASSIFY(200, {}, body).outcome is OutcomeClass.SUCCESS


def test_error_beside_a_completion_is_judged_without_it():
    """The words of the completion before the error in the same object do not count."""
    body = '{"choices": [{"text": "the queue is full"}], "error": {"message": "boom"}}'
    assert CLASSIFY(200, {}, body).outcome is OutcomeClass.ENGINE_FAULT


def test_words_beyond_four_kib_do_not_count():
    """Only the beginning of a body is looked at."""
    body = "x" * 4096 + "The request queue is full."
    assert CLASSIFY(503, {}, body, SEEN).outcome is OutcomeClass.UNKNOWN


def test_words_at_the_end_of_four_kib_count():
    """A long text is searched as well as a short one."""
    body = "x " * 2000 + "The request queue is full."
    assert CLASSIFY(503, {}, body, SEEN).outcome is OutcomeClass.ENGINE_SATURATED


def test_confusion_command_says_that_all_are_right(capsys):
    """``python tests/confusion.py`` prints the matrix and the accuracy, and exits with 0."""
    assert main(SAMPLES) == 0
    assert capsys.readouterr().out.endswith("124 of 124 right (100.0%)\n")


def test_confusion_command_names_what_is_wrong(tmp_path, capsys):
    """A sample in the wrong class is named by line, and the exit code is 1."""
    path = tmp_path / "wrong.jsonl"
    path.write_text('{"system":"s","status":200,"headers":{},"body":"","class":"unknown"}\n')
    assert main(path) == 1
    assert "line 1: s 200: is unknown, taken for success (success)" in capsys.readouterr().out


def test_matrix_counts_pairs_of_classes():
    """Rows are what is, columns what it was taken for."""
    lines = matrix([(OutcomeClass.SUCCESS, OutcomeClass.UNKNOWN)] * 2)
    assert [line.split() for line in lines] == [["unknown"], ["success", "2"]]
