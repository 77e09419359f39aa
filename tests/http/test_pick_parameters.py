"""``/pick``: which parameters decide, where they come from, what is refused."""

import pytest

from scorer.core.prompts import MOST_TOKENS
from scorer.core.sample import Ask
from scorer.http.parameters import Format, PickRequest, Refused, accepted, understood

TRIED = frozenset({"a:1", "b:2"})


def asked(query=b"", headers=(), path="/pick"):
    """Return what a request asks for."""
    return understood(query, headers, bare=path == "/pick")


def refusal(query):
    """Return the message of a malformed request."""
    result = asked(query)
    assert isinstance(result, Refused)
    assert result.status == 400
    return result.message


def test_no_parameter_asks_for_anything():
    """A bare request asks for any target, as JSON."""
    assert asked() == PickRequest("", "", Format.JSON, Ask())


def test_query_parameters():
    """Every parameter that decides is read from the query."""
    query = b"model=m&pool=p&exclude=a:1,b:2&format=text&prompt_tokens=9&key=k&lora=l"
    assert asked(query) == PickRequest("m", "p", Format.TEXT, Ask(9, TRIED, "k", "l"))


def test_header_parameters():
    """Every parameter that decides is read from a header."""
    headers = [
        (b"x-scorer-model", b"m"),
        (b"x-scorer-pool", b"p"),
        (b"x-scorer-exclude", b"a:1, b:2"),
        (b"x-scorer-format", b"text"),
        (b"x-scorer-prompt-tokens", b"9"),
        (b"x-scorer-key", b"k"),
        (b"x-scorer-lora", b"l"),
    ]
    assert asked(headers=headers) == PickRequest("m", "p", Format.TEXT, Ask(9, TRIED, "k", "l"))


def test_escapes_are_decoded():
    """A percent escape, a plus and UTF-8 mean what they mean in any query."""
    assert asked(b"model=org%2Fllama+%C3%A9&exclude=%5B%3A%3A1%5D%3A8000") == PickRequest(
        "org/llama é", ask=Ask(exclude=frozenset({"[::1]:8000"}))
    )


def test_raw_brackets_are_understood():
    """An IPv6 target may stand in the query as it is."""
    assert asked(b"exclude=[::1]:8000").ask.exclude == {"[::1]:8000"}


@pytest.mark.parametrize("query", [b"pool=a&pool=b", b"pool=a&pool=b&x=%20", b"pool=&pool=a"])
def test_first_value_counts(query):
    """Of a parameter given twice the first that is not empty counts."""
    assert asked(query).pool == "a"


def test_empty_value_is_absent():
    """A proxy's unset variable asks for nothing."""
    query = b"model=&pool=&prompt_tokens=&prompt_bytes=&exclude=&format="
    assert asked(query) == PickRequest()


def test_unknown_parameter_is_ignored():
    """A client's own query, which ext_authz passes on, changes nothing."""
    assert asked(b"api-version=2024-02-01&stream&=&&a=b=c") == PickRequest()


def test_query_wins_on_pick():
    """Behind a proxy's subrequest the headers are its client's, the query its own."""
    assert asked(b"pool=query", [(b"x-scorer-pool", b"header")]).pool == "query"


def test_headers_win_below_pick():
    """Behind ext_authz the query is the client's, the headers the operator's."""
    path = "/pick/v1/chat/completions"
    assert asked(b"pool=query", [(b"x-scorer-pool", b"header")], path).pool == "header"


@pytest.mark.parametrize("name", ["prompt_tokens", "prompt_bytes"])
@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "1e3", "1_000", "²", "0x10", "inf"])
def test_prompt_length_must_be_a_count(name, value):
    """A length that is no whole number is refused with its name, the rule and the value."""
    message = refusal(f"{name}={value}".encode())
    assert message == f'{name}: must be a non-negative integer, got "{value}"'


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        (b"prompt_tokens=32768", 32768),
        (b"prompt_bytes=4096", 1024),
        (b"prompt_bytes=1", 1),
        (b"prompt_tokens=7&prompt_bytes=4096", 7),
        (b"prompt_tokens=0&prompt_bytes=4096", 1024),
        (b"prompt_tokens=0", None),
        (b"prompt_tokens=00012", 12),
        (b"prompt_tokens=" + b"0" * 40 + b"12", 12),
        (b"prompt_tokens=" + b"9" * 5000, MOST_TOKENS),
    ],
)
def test_prompt_length(query, tokens):
    """Tokens win over bytes, of which a quarter counts; 0 is not known; size is bounded."""
    assert asked(query).ask.tokens == tokens


def test_prompt_length_in_a_header_is_checked():
    """A header is held to the same rule as the query."""
    result = asked(headers=[(b"x-scorer-prompt-tokens", b"many")])
    assert isinstance(result, Refused)


def test_unknown_format_is_named():
    """A format that does not exist is refused with those that do."""
    assert refusal(b"format=xml") == 'format: must be one of json, headers, text, got "xml"'


def test_long_value_is_cut_in_the_message():
    """An error does not send a client's ten kilobytes back."""
    assert len(refusal(b"format=" + b"x" * 10_000)) < 200


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*/*", Format.JSON),
        ("application/json", Format.JSON),
        ("text/plain", Format.TEXT),
        ("Text/Plain; charset=utf-8", Format.TEXT),
        ("text/*, application/json;q=0.9", Format.TEXT),
        ("text/plain;q=0", Format.JSON),
        ("text/plain;q=nonsense", Format.JSON),
        ("text/plain;q=nan", Format.JSON),
        ("image/png", Format.JSON),
        (",;,=", Format.JSON),
    ],
)
def test_accept(accept, form):
    """An Accept header chooses the form; nonsense falls to JSON."""
    assert accepted(accept) is form
