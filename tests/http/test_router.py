"""Which pool a request goes to, and what is remembered of it."""

import pytest

from scorer.http.parameters import PickRequest, Refused
from scorer.http.router import REMEMBERED_MODELS, Router
from scorer.pick_stats import PickFailure
from tests.http.builders import pool, snapshot, target

CHAT = pool(target(), models=("llama-*", "mistral-7b"))
EMBED = pool(target(pool="embed"), name="embed", models=("bge-?",))
ANY = pool(target(pool="any"), name="any")
BOTH = snapshot(CHAT, EMBED)


@pytest.mark.parametrize(
    ("model", "name"),
    [("llama-3.1-70b", "chat"), ("mistral-7b", "chat"), ("bge-m", "embed"), ("llama-", "chat")],
)
def test_model_names_the_pool(model, name):
    """The first pool whose globs match serves the model."""
    assert Router().resolve(BOTH, PickRequest(model=model)).name == name


@pytest.mark.parametrize("model", ["gpt-4", "Llama-3", "bge-m3", "bge", "[", "*"])
def test_model_served_by_nobody_is_404(model):
    """Globs match whole names, case and all; anything else is unknown."""
    refusal = Router().resolve(BOTH, PickRequest(model=model))
    assert (refusal.status, refusal.reason) == (404, PickFailure.UNKNOWN_MODEL)


def test_pool_without_models_serves_any():
    """A pool that lists no models takes every model that no pool before it serves."""
    router, pools = Router(), snapshot(CHAT, ANY)
    names = [router.resolve(pools, PickRequest(model=model)).name for model in ("llama-3", "gpt-4")]
    assert names == ["chat", "any"]


def test_first_pool_in_order_wins():
    """Of two pools that serve a model the first in the file gets it."""
    other = pool(target(pool="other"), name="other", models=("llama-*",))
    assert Router().resolve(snapshot(other, CHAT), PickRequest(model="llama-3")).name == "other"


def test_named_pool_is_taken_at_its_word():
    """A request that names a pool gets it, whatever model it names."""
    assert Router().resolve(BOTH, PickRequest(model="llama-3", pool="embed")).name == "embed"


def test_unknown_pool_is_404():
    """A pool that does not exist is named in the answer."""
    refusal = Router().resolve(BOTH, PickRequest(pool="imagined"))
    assert (refusal.status, refusal.message) == (404, 'pool: no such pool, got "imagined"')


def test_only_pool_needs_no_name():
    """With one pool there is nothing to choose."""
    assert Router().resolve(snapshot(CHAT), PickRequest()).name == "chat"


def test_several_pools_need_a_name():
    """With several pools a request that names neither pool nor model is refused."""
    refusal = Router().resolve(BOTH, PickRequest())
    assert refusal.status == 400
    expected = "pool: must be given, or model, as there are several pools (chat, embed)"
    assert refusal.message == expected


def test_reload_is_seen():
    """A model moves with the globs of the next snapshot."""
    router = Router()
    assert isinstance(router.resolve(BOTH, PickRequest(model="gpt-4")), Refused)
    changed = snapshot(pool(target(), models=("gpt-*",)), EMBED, version=2)
    assert router.resolve(changed, PickRequest(model="gpt-4")).name == "chat"


def test_snapshot_with_the_same_globs_keeps_what_is_known():
    """A new judgement does not make every model be matched again."""
    router = Router()
    router.pool_of(BOTH, "llama-3")
    router.pool_of(snapshot(CHAT, EMBED, version=2), "mistral-7b")
    assert set(router._pools) == {"llama-3", "mistral-7b"}


def test_known_model_is_not_matched_again():
    """A model asked for twice is matched once."""
    router = Router()
    first = router.pool_of(BOTH, "llama-3")
    router._globs = ()
    assert router.pool_of(BOTH, "llama-3") == first == "chat"


def test_made_up_models_are_bounded():
    """A flood of unknown models does not grow memory."""
    router = Router()
    for number in range(3 * REMEMBERED_MODELS):
        router.pool_of(BOTH, f"made-up-{number}")
    assert len(router._pools) <= REMEMBERED_MODELS


def test_long_models_are_not_remembered():
    """A name of ten kilobytes is matched and forgotten."""
    router = Router()
    assert router.pool_of(BOTH, "llama-" + "x" * 10_000) == "chat"
    assert not router._pools
