"""What the id of a pick says, and prompts whose length is not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.pick_ids import Named, read, tag_of
from scorer.core.prompts import DEFAULT_TOKENS, KNOWN, Prompts


def test_id_names_target_and_size_of_the_prompt() -> None:
    """Version 1, class of 512 to 1,023 tokens, tag, and what makes it unique."""
    tag = tag_of("chat", "a:1")
    assert read(f"1k{tag}unique-1f") == Named(tag, 768)


@given(st.text(max_size=40))
def test_no_text_breaks_reading(text: str) -> None:
    """Whatever a gateway sends as an id, it is read or it is not one of ours."""
    named = read(text)
    assert named is None or len(named.tag) == 8


@pytest.mark.parametrize("text", ["", "1", "2k" + "x" * 12, "1k" + "x" * 8, "1?" + "x" * 12])
def test_other_ids_are_nobodys(text: str) -> None:
    """Another version, too short, or no work class."""
    assert read(text) is None


def test_tags_tell_pools_apart() -> None:
    """The same address in two pools is two targets, wherever the names are cut."""
    assert len({tag_of("chat", "a:1"), tag_of("code", "a:1"), tag_of("cha", "ta:1")}) == 3


def test_unknown_prompt_counts_a_thousand_tokens_at_first() -> None:
    """Nothing is known yet."""
    assert Prompts().length(None) == DEFAULT_TOKENS == 1000


def test_unknown_prompt_counts_the_mean_of_the_known() -> None:
    """One of 100 and one of 400 tokens make 250; unknown ones do not change it."""
    prompts = Prompts()
    assert [prompts.length(each) for each in (100, 400, None, None)] == [100, 400, 250, 250]


def test_only_the_last_known_prompts_count() -> None:
    """After 500 short ones a long one is forgotten."""
    prompts = Prompts()
    prompts.length(1_000_000)
    for _ in range(KNOWN):
        prompts.length(10)
    assert prompts.mean == 10
