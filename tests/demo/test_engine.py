import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.demo.cost import A100_8B
from scorer.demo.engine import Engine, Limits

FOREVER = 1e6


def engine(**limits) -> Engine:
    """Return an idle engine at second 0."""
    return Engine(A100_8B, Limits(**limits), now=0.0)


def first_tokens(made) -> dict[str, float]:
    """Return when each request got its first token."""
    return {step.request_id: step.at for step in made if step.generated == 1}


def finished(made) -> list[str]:
    """Return the requests that got their last token, in order."""
    return [step.request_id for step in made if step.done]


def test_a_request_gets_every_token_in_order():
    """Tokens are numbered 1 to the asked length and the last one says so."""
    subject = engine()
    subject.submit("a", prompt=100, output=5, now=0.0)
    made = subject.advance(FOREVER)
    assert [(step.generated, step.done) for step in made] == [
        (1, False),
        (2, False),
        (3, False),
        (4, False),
        (5, True),
    ]


def test_an_idle_engine_has_nothing_due():
    """Without requests there is no step to wait for."""
    assert engine().due is None


def test_a_long_prompt_delays_the_short_one_behind_it():
    """A greeting behind a 16K document waits for most of its prefill (about 2 s)."""
    alone, behind = engine(), engine()
    alone.submit("short", 50, 1, now=0.0)
    behind.submit("long", 16_000, 1, now=0.0)
    behind.submit("short", 50, 1, now=0.0)
    waited = first_tokens(behind.advance(FOREVER))["short"]
    assert waited > 50 * first_tokens(alone.advance(FOREVER))["short"]


def test_requests_beyond_the_sequence_limit_wait():
    """With two sequences the third request is waiting."""
    subject = engine(sequences=2)
    for name in "abc":
        subject.submit(name, 100, 50, now=0.0)
    subject.advance(0.1)
    assert (subject.running, subject.waiting) == (2, 1)


def test_a_prompt_that_does_not_fit_the_free_kv_waits():
    """A second document waits while the first holds most of the KV cache."""
    subject = engine(kv_blocks=1000)
    subject.submit("first", 12_000, 200, now=0.0)
    subject.advance(2.0)
    subject.submit("second", 12_000, 200, now=2.0)
    subject.advance(2.5)
    assert (subject.running, subject.waiting) == (1, 1)


def test_a_waiting_document_is_served_once_kv_is_free():
    """Both documents finish, the second after the first."""
    subject = engine(kv_blocks=1000)
    subject.submit("first", 12_000, 200, now=0.0)
    subject.submit("second", 12_000, 200, now=0.0)
    assert finished(subject.advance(FOREVER)) == ["first", "second"]


def test_the_queue_is_first_come_first_served():
    """A short prompt that would fit does not overtake a long one that does not."""
    subject = engine(kv_blocks=1000)
    for name, prompt in (("big", 12_000), ("blocked", 12_000), ("small", 50)):
        subject.submit(name, prompt, 100, now=0.0)
    made = first_tokens(subject.advance(FOREVER))
    assert made["blocked"] <= made["small"]


def test_kv_usage_counts_whole_blocks():
    """17 tokens hold two blocks of 16."""
    subject = engine(kv_blocks=100)
    subject.submit("a", 17, 5, now=0.0)
    assert subject.kv_usage == pytest.approx(0.02)


def test_when_kv_is_full_the_newest_request_is_preempted():
    """Two requests outgrow the cache together: the second one is put back."""
    subject = engine(kv_blocks=20)
    subject.submit("old", 150, 150, now=0.0)
    subject.submit("new", 140, 150, now=0.0)
    made = subject.advance(FOREVER)
    assert (subject.tally.preemptions > 0, finished(made)) == (True, ["old", "new"])


def test_a_preempted_request_does_not_repeat_tokens():
    """Its tokens are numbered without a gap or a repetition across the preemption."""
    subject = engine(kv_blocks=20)
    subject.submit("old", 150, 150, now=0.0)
    subject.submit("new", 140, 150, now=0.0)
    made = subject.advance(FOREVER)
    assert [s.generated for s in made if s.request_id == "new"] == list(range(1, 151))


def test_ttft_is_counted_from_arrival():
    """The histogram's sum is the time from submission to first token, queue included."""
    subject = engine(sequences=1)
    subject.submit("a", 100, 50, now=0.0)
    subject.submit("b", 100, 1, now=0.0)
    made = first_tokens(subject.advance(FOREVER))
    assert subject.tally.ttft.sum == pytest.approx(made["a"] + made["b"])


def test_prompt_and_generation_tokens_are_counted():
    """One served request counts its prompt once and each generated token."""
    subject = engine()
    subject.submit("a", 5000, 7, now=0.0)
    subject.advance(FOREVER)
    assert (subject.tally.prompt_tokens, subject.tally.generation_tokens) == (5000, 7)


def test_an_aborted_request_frees_its_kv():
    """After an abort nothing is resident."""
    subject = engine()
    subject.submit("a", 5000, 700, now=0.0)
    subject.advance(1.0)
    subject.abort("a", now=1.0)
    assert (subject.running, subject.kv_usage, subject.tally.aborted) == (0, 0.0, 1)


def test_an_aborted_request_gets_no_more_tokens():
    """The step that was under way when it was aborted gives it nothing."""
    subject = engine()
    subject.submit("a", 100, 50, now=0.0)
    subject.abort("a", now=0.0)
    assert subject.advance(FOREVER) == []


def test_a_request_larger_than_the_cache_is_refused():
    """It could never be served, so it must not wait for ever."""
    with pytest.raises(ValueError, match=r"2000 \+ 1 tokens cannot be served"):
        engine(kv_blocks=100).submit("a", 2000, 1, now=0.0)


def test_a_restart_loses_requests_and_names_them():
    """Running and waiting requests are gone and their streams can be broken."""
    subject = engine(sequences=1)
    subject.submit("a", 100, 500, now=0.0)
    subject.submit("b", 100, 500, now=0.0)
    subject.advance(0.5)
    lost = subject.restart(now=0.5)
    assert (lost, subject.running, subject.waiting) == (["a", "b"], 0, 0)


def test_a_restart_resets_counters_and_moves_the_start_time():
    """What a scraper can tell a restart from: counters go back, start time moves."""
    subject = engine()
    subject.submit("a", 100, 5, now=0.0)
    subject.advance(5.0)
    subject.restart(now=5.0)
    assert (subject.tally.generation_tokens, subject.started_at) == (0, 5.0)


@given(
    requests=st.lists(
        st.tuples(st.integers(1, 1500), st.integers(1, 60), st.floats(0, 5, allow_nan=False)),
        min_size=1,
        max_size=12,
    ),
    kv_blocks=st.integers(100, 200),
    sequences=st.integers(1, 8),
)
def test_every_accepted_request_finishes_exactly_once(requests, kv_blocks, sequences):
    """Whatever arrives: nothing is lost, nothing is left, and all KV is free at the end."""
    subject = engine(kv_blocks=kv_blocks, sequences=sequences)
    for number, (prompt, output, at) in enumerate(sorted(requests, key=lambda r: r[2])):
        subject.submit(str(number), prompt, output, now=at)
        assert 0.0 <= subject.kv_usage <= 1.0
    made = finished(subject.advance(FOREVER))
    assert sorted(made, key=int) == [str(number) for number in range(len(requests))]
    assert (subject.running, subject.waiting, subject.kv_usage) == (0, 0, 0.0)
