"""Reading a case of the shared vectors, as a picker in any language has to."""

from typing import Any

from scorer.core.feedback_mode import FeedbackMode
from scorer.core.load import TargetLoad
from scorer.core.params import ALL_CHOICES, PickParams
from scorer.core.pick import choose
from scorer.core.sample import Ask, Draws
from scorer.core.snapshot import PoolView
from scorer.core.table import PickTable, Row, room_of

NOW = 0.0
Case = dict[str, Any]


def replay(case: Case) -> tuple[Case | None, int]:
    """Return the choice that the rule comes to, and how many draws it took."""
    request, pool = case["request"], case["snapshot"]["pools"][0]
    tokens = request["prompt_tokens"] or pool["mean_prompt_tokens"]
    tried = frozenset(request["exclude"])
    ask = Ask(request["prompt_tokens"], tried, request["key"], request["lora"])
    draws = Draws(iter(case["draws"]).__next__)
    choice = choose(table_of(pool), ask, tokens, NOW, draws)
    if choice is None:
        return None, len(draws.taken)
    found = {
        "target": choice.row.target,
        "alternates": [row.target for row in choice.alternates],
        "reason": choice.reason,
        "relaxed": choice.relaxed,
        "panic": choice.panic,
    }
    return found, len(draws.taken)


def table_of(pool: Case) -> PickTable:
    """Return the table of a pool; the order of its targets is that of the samples."""
    choices = ALL_CHOICES if pool["choices"] == "all" else pool["choices"]
    params = PickParams(choices, pool["kv_guard"], pool["long_prompt_tokens"])
    view = PoolView(
        name=pool["pool"], models=(), targets=(), candidates=(), eligible=0, panic=pool["panic"],
        judged_at=NOW, scored=True, pick=params,
    )  # fmt: skip
    rows = [_row(each, pool["kv_guard"]) for each in pool["targets"] if each["candidate"]]
    others = [each for each in pool["targets"] if not each["candidate"] and not each["draining"]]
    return PickTable(view, rows, [_row(each, pool["kv_guard"]) for each in others])


def _row(target: Case, guard: float) -> Row:
    return Row(
        target=target["target"],
        url=target["url"],
        score=target["score"],
        health=target["health"],
        share=max(target["health"] / 100.0, 0.02),
        admit=target["admit"],
        cooling=target["cooling"],
        room=room_of(target["kv_cache"], target["kv_capacity"], guard),
        loras=frozenset(target["loras"]),
        load=_load(target),
    )


def _load(target: Case) -> TargetLoad:
    load = TargetLoad("chat", target["target"], {}, FeedbackMode())
    load.in_flight, load.resident = target["in_flight"], target["resident_tokens"]
    load.fresh = target["fresh_tokens"]
    load.strangers = target["outstanding"]
    load.use(target["prefill_rate"], told=False)
    return load
