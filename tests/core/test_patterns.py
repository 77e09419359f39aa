"""Expressions of operators: which are refused because they could be slow."""

import pytest

from scorer.core.patterns import compiled, ways


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$", "(a|aa)*b", "(?:x*)*", ".*foo.*bar", r"\d+\s*\w+", "(a{1,500}){1,500}",
        "(?:(?:a?){20}){20}", "((a*)b?){3}",
    ],
)  # fmt: skip
def test_expression_that_could_be_slow_is_refused(text):
    """Repetitions of repetitions, and several without bound."""
    with pytest.raises(ValueError, match="must not repeat what repeats itself"):
        compiled(text)


@pytest.mark.parametrize(
    "text",
    ["queue is full", "queue.*full", "^x[0-9]{1,5}(?:a|b|c)$", "(?=foo)bar", "(x)?(?(1)a|b)"],
)
def test_ordinary_expression_is_taken(text):
    """Literals, one unbounded repetition, bounded ones, alternatives, look-aheads."""
    assert compiled(text).pattern == text


@pytest.mark.parametrize("text", ["(", "[a", "*", "(?P<x", "a{2,1}", "(" * 5000])
def test_what_is_no_expression_is_refused(text):
    """With the reason."""
    with pytest.raises(ValueError, match="must be a regular expression"):
        compiled(text)


def test_case_is_ignored():
    """Bodies come in capitals, too."""
    assert compiled("Queue").search("THE QUEUE")


def test_ways_multiply_in_a_row_and_add_up_in_alternatives():
    """The bound that refusals rest on."""
    assert ways("a{0,4}b{0,9}") == 50
    assert ways("a{0,4}|xyz?") == 5 + 2
