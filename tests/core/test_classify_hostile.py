"""No answer can make the classifier raise, and none can make it slow."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.classify import RULES, Classifier, Context, Verdict
from scorer.core.evidence import BODY_LIMIT, HEADER_LIMIT, error_part, grams, plain, read_evidence
from scorer.core.outcome import OutcomeClass
from scorer.core.patterns import ways
from scorer.core.rules import codes, found

CLASSIFY = Classifier()
CONDITIONS = [
    condition
    for rule in RULES
    for condition in (rule.text, rule.also, rule.no_text, rule.head, rule.no_head)
    if condition
]
PATTERNS = sorted({pattern.pattern for each in CONDITIONS for pattern in each.patterns})
BUILT_IN_WAYS = 6000
"""Ways to match from one place that a built-in expression may have; most have under 100."""

DEEP = "[" * 100_000
CORPUS = {
    "empty": b"",
    "nul": b"\x00" * 5000,
    "not UTF-8": b"\xff\xfe\xfa\x80" * 1000,
    "UTF-16": "The request queue is full.".encode("utf-16"),
    "BOM only": "\ufeff" * 10,
    "cut in a character": "忙".encode()[:2],
    "deep arrays": DEEP,
    "deep objects": '{"a":' * 2000,
    "backslashes": "\\" * 5000,
    "half an escape": r"\u12" * 1000,
    "surrogates": r"\ud800\udfff\ud800" * 500,
    "raw surrogates": "\ud800" * 5000,
    "quotes": '"' * 5000,
    "colons": " : " * 2000,
    "error marks": '"error": ' * 800,
    "error marks with blanks": '"error"        :' * 400,
    "finish reasons": '"finish_reason"        :        "abor' * 150,
    "events": "event:        erro\n" * 300,
    "NaN": '{"code": NaN, "x": Infinity, "y": 1e999999}',
    "huge number": "9" * 100_000,
    "duplicate keys": '{"code":400,"code":500}',
    "words cut short": "the queue is ful " * 400,
    "rate headers": "x-ratelimit-remainin" * 300,
    "models": "model " * 1000,
    "model and one word": "model " + "x" * 5000,
    "nobody": "no available " * 500,
    "growing in lower case": "İ" * 5000,
    "not a string in sight": "💥" * 5000,
    "every word but its last letter": " ".join(
        word[:-1] for each in CONDITIONS for word in each.words
    ),
}


@pytest.mark.parametrize("status", [0, 200, 400, 408, 429, 500, 503, 529])
@pytest.mark.parametrize("body", CORPUS.values(), ids=CORPUS)
def test_corpus_raises_nothing(body, status):
    """Every body has a class under every kind of status, as body and as header value."""
    value = body if isinstance(body, str) else body.decode("latin-1")
    for headers in ({}, {"x-ratelimit-remaining": value}):
        assert isinstance(CLASSIFY(status, headers, body), Verdict)


@given(
    st.one_of(st.just(0), st.integers(100, 599)),
    st.dictionaries(st.text(), st.text(), max_size=5),
    st.one_of(st.text(), st.binary()),
    st.text(max_size=6),
)
def test_any_answer_has_a_class(status, headers, body, termination):
    """Any text, any bytes, any headers, any flags."""
    verdict = CLASSIFY(status, headers, body, Context(termination=termination))
    assert verdict.outcome in OutcomeClass


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON, st.sampled_from([200, 429, 500, 503]), st.integers(0, 400))
def test_any_json_cut_anywhere_has_a_class(value, status, cut):
    """Any nesting, also truncated in the middle of an escape."""
    assert CLASSIFY(status, {}, json.dumps(value)[:cut]).outcome in OutcomeClass


@given(JSON, st.integers(0, 3))
def test_words_are_found_however_deep_they_stand(value, depth):
    """Saturation words are seen inside any JSON, and inside JSON inside strings."""
    text = json.dumps({"error": {"message": "The request queue is full.", "detail": value}})
    for _ in range(depth):
        text = json.dumps({"error": {"message": text}})
    if len(text) <= BODY_LIMIT:
        assert "queue is full" in read_evidence(503, {}, text).text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_built_in_expressions_repeat_nothing_without_bound(pattern):
    """What an expression can try from one place does not depend on the length of the text."""
    assert ways(pattern) <= BUILT_IN_WAYS
    assert not re.search(r"(?<!\\)[*+]|,\}", pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_built_in_expressions_begin_with_letters(pattern):
    """A literal beginning is searched for at the speed of a word."""
    assert re.match(r"(\\n)?[a-z]{2}", pattern)


def test_words_are_lower_case():
    """They are looked for in lower-case text."""
    words = [word for each in CONDITIONS for word in each.words]
    assert words == [word.lower() for word in words]


@given(st.text("abcqueisful ", min_size=260, max_size=600))
def test_index_never_hides_a_word(text):
    """A long text is found to have the same words as without its index."""
    condition = found("queue is full", "a b", "cab", "useful")
    assert condition.within(text, grams(text)) == condition.within(text)


def test_what_is_kept_is_bounded():
    """A body and headers of any size leave a few KiB."""
    evidence = read_evidence(503, {f"x-{n}": "y" * 10_000 for n in range(500)}, "z" * 1_000_000)
    assert len(evidence.body) <= BODY_LIMIT
    assert len(evidence.text) <= BODY_LIMIT
    assert len(evidence.head) <= HEADER_LIMIT


def test_fields_read_alike_in_every_spelling():
    """JSON, a Python dict, a cut-off string and an escaped document give the same fields."""
    document = '{"error": {"code": 503, "message": "busy"}}'
    python = str(json.loads(document))
    texts = {plain(text) for text in (document, python, document[:-2], document.replace(": ", ":"))}
    assert texts == {"error: code: 503, message: busy"} | {plain(document.replace(": ", ":"))}
    assert "code: 503" in plain(json.dumps(document))


def test_error_part_starts_at_the_line_of_the_error():
    """Events before the error event are completions."""
    stream = 'data: {"choices":[{"text":"a"}]}\n\ndata: {"error": {"message": "b"}}\n'
    assert error_part(stream) == 'data: {"error": {"message": "b"}}\n'


def test_verdicts_on_many_contexts_are_not_kept_for_ever():
    """Made-up termination flags cannot fill memory."""
    classify = Classifier()
    for number in range(10_000):
        classify(200, {}, "", Context(termination=f"x{number}"))
    assert len(classify._plain) <= 4096


def test_statuses_of_a_class_are_a_hundred():
    """``5xx`` means 500 to 599."""
    assert codes("5xx", 429) == frozenset(range(500, 600)) | {429}
