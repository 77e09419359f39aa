"""Writes the shared test vectors: ``python -m tests.vectors.generate``.

Each file holds cases of one branch of the rule: (snapshot, request, draws) → choice. An
implementation in another language reads them and must come to the same choices; the
rule itself is described in ``docs/picking.md``.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

from scorer.core.affinity import Ring, mixed, point
from tests.vectors.replay import Case, replay

FOLDER = Path(__file__).parent
SPARE_DRAWS = 6
"""Draws beyond those a choice takes: taking more is a mistake that shows."""


def target(number: int, **changes: object) -> Case:
    """Return an idle, healthy target."""
    name = f"10.0.{number // 250}.{number % 250 + 1}:8000"
    fields: Case = {
        "target": name, "url": f"http://{name}", "score": 100.0, "raw_score": 100.0,
        "health": 100.0, "admit": 1.0, "state": "healthy", "state_reason": "none",
        "eligible": True, "candidate": True, "draining": False, "cooling": False,
        "cooldown_until": None, "prefill_rate": 8000.0, "outstanding": 0.0, "in_flight": 0,
        "resident_tokens": 0, "fresh_tokens": 0, "kv_cache": None, "kv_capacity": None,
        "loras": [],
    }  # fmt: skip
    return fields | changes


def cold(number: int, health: float, **changes: object) -> Case:
    return target(number, score=health, raw_score=health, health=health, **changes)


def warming(number: int, share: float) -> Case:
    return target(
        number, score=100.0 * share, admit=share, state="warmup", state_reason="recovered"
    )


def out(number: int, **changes: object) -> Case:
    gone = {
        "eligible": False, "candidate": False, "score": 0.0, "health": 0.0,
        "state": "unreachable", "state_reason": "scrapes_failed",
    }  # fmt: skip
    return target(number, **(gone | changes))


def random_target(number: int, dice: random.Random) -> Case:
    """Return a target of a busy pool."""
    health = round(dice.uniform(20, 100), 2)
    in_flight = dice.randrange(30)
    return cold(
        number, health,
        outstanding=dice.choice([0.0, 0.0, round(dice.uniform(0, 60_000), 1)]),
        in_flight=in_flight, resident_tokens=in_flight * dice.randrange(1, 4000),
        prefill_rate=round(dice.uniform(2000, 20_000), 1),
        kv_cache=round(dice.random(), 3), kv_capacity=dice.choice([None, 400_000.0]),
        fresh_tokens=dice.randrange(20_000),
        cooling=dice.random() < 0.15,
        loras=dice.sample(["sql", "law", "chat"], dice.randrange(3)),
        admit=dice.choice([1.0, 1.0, 1.0, 0.4]),
    )  # fmt: skip


def pool(targets: list[Case], **changes: object) -> Case:
    """Return a pool of ``targets``."""
    fields: Case = {
        "pool": "chat", "models": [], "panic": False, "overloaded": False,
        "mean_prompt_tokens": 1000, "choices": 2, "kv_guard": 0.85, "long_prompt_tokens": 4096,
        "targets": targets,
    }  # fmt: skip
    return fields | changes


def case(name: str, draws: list[float], of: Case, **request: object) -> Case:
    """Return a case with the choice that the rule comes to."""
    asked: Case = {"prompt_tokens": 500, "exclude": [], "key": "", "lora": ""}
    snapshot = {"version": 1, "instance": "vectors", "at": "2030-01-01T00:00:00Z", "pools": [of]}
    made: Case = {
        "name": name, "snapshot": snapshot, "request": asked | request, "draws": draws,
    }  # fmt: skip
    made["choice"], made["draws_taken"] = replay(made)
    made["draws"] = draws[: made["draws_taken"] + SPARE_DRAWS]
    return made


def many(name: str, count: int, seed: int, of: Case, **request: object) -> Iterator[Case]:
    """Yield ``count`` cases of the same pool and request with different draws."""
    for number in range(count):
        dice = random.Random(1000 * seed + number)
        draws = [dice.random() for _ in range(80)]
        yield case(f"{name}, draws {number + 1}", draws, of, **request)


def draw_cases() -> Iterator[Case]:
    """Two of the cold ones: ties, near ties, clear cases, sizes of the pool."""
    low, high = [0.0] * 20, [1.0 - 2.0**-53] * 20
    for size in (0, 1, 2, 3, 8):
        of = pool([target(number) for number in range(size)])
        yield case(f"{size} equal targets, lowest draws", low, of)
        yield case(f"{size} equal targets, highest draws", high, of)
    for points in (0.0, 2.0, 10.0, 40.0):
        of = pool([cold(0, 90.0), cold(1, 90.0 - points)])
        yield from many(f"{points:g} points apart", 2, 1, of)
    yield from many("the second one better", 2, 2, pool([cold(0, 50.0), cold(1, 58.0)]))


def cost_cases() -> Iterator[Case]:
    """Costs of targets, and who is cold."""
    blocked = pool([target(0, outstanding=54_242.8), target(1), target(2)])
    yield from many("one blocked by a long prompt", 3, 3, blocked)
    edge = [
        target(0, outstanding=8000.0),
        target(1, outstanding=10_700.0),
        target(2, outstanding=10_900.0),
    ]
    yield from many("the edge of the cold set", 2, 4, pool(edge), prompt_tokens=1)
    fast = pool([target(0, prefill_rate=20_000.0), target(1, prefill_rate=2000.0)])
    yield case("a fast and a slow one", [0.9, 0.0, 0.99], fast, prompt_tokens=30_000)
    busy = pool([target(0, in_flight=200, resident_tokens=400_000), target(1)])
    yield case("decoding costs", [0.0, 0.0, 0.99], busy)
    for tokens in (18_000, 60_000):
        beside = pool([target(0, in_flight=90), target(1, in_flight=40, outstanding=9000.0)])
        yield from many(f"{tokens} tokens beside decoding", 2, 30, beside, prompt_tokens=tokens)
    yield case("no health at all", [0.0, 0.0, 0.5], pool([cold(0, 0.0), cold(1, 1.0)]))
    yield case("length not known", [0.5] * 9, pool([target(0), target(1)]), prompt_tokens=None)


def choices_cases() -> Iterator[Case]:
    """More choices, and all."""
    targets = [cold(number, 100.0 - 3 * number) for number in range(6)]
    yield from many("three choices", 3, 5, pool(targets, choices=3))
    yield from many("more choices than targets", 2, 6, pool(targets, choices=20))
    yield from many(
        "all choices",
        2,
        7,
        pool([target(0, outstanding=50.0), target(1), target(2)], choices="all"),
    )
    yield case(
        "all choices, one cheapest",
        [0.9] * 9,
        pool([target(0, in_flight=9), target(1)], choices="all"),
    )


def filter_cases() -> Iterator[Case]:
    """Cooldown, KV guard, warm-up, and what is dropped when nobody is left."""
    cooling = target(0, cooling=True, state="cooldown", state_reason="engine_saturated")
    yield from many(
        "long prompt beside a cooldown",
        2,
        8,
        pool([cooling, target(1), target(2)]),
        prompt_tokens=4096,
    )
    yield from many(
        "short prompt beside a cooldown", 2, 9, pool([cooling, target(1)]), prompt_tokens=4095
    )
    all_cool = pool([target(number, cooling=True) for number in range(3)])
    yield from many("everybody cooling", 2, 10, all_cool, prompt_tokens=9000)
    full = target(0, kv_cache=0.84, kv_capacity=100_000.0, fresh_tokens=600)
    yield case(
        "room for 400 tokens, 400 wanted", [0.1] * 9, pool([full, target(1)]), prompt_tokens=400
    )
    yield case(
        "room for 400 tokens, 401 wanted", [0.1] * 9, pool([full, target(1)]), prompt_tokens=401
    )
    unread = target(0, kv_capacity=100_000.0, fresh_tokens=600)
    for wanted in (84_400, 84_401):
        yield case(
            f"usage not known, {wanted} wanted of 84400",
            [0.1] * 9, pool([unread, target(1)]), prompt_tokens=wanted,
        )  # fmt: skip
    both = pool([full, target(1, cooling=True)])
    yield case("the guard goes before the cooldown", [0.1] * 9, both, prompt_tokens=5000)
    over = target(0, cooling=True, kv_cache=0.99, kv_capacity=100_000.0)
    yield case("cooling and full", [0.1] * 9, pool([over, warming(1, 0.0)]), prompt_tokens=5000)
    yield from many("one in warm-up", 4, 11, pool([warming(0, 0.5), target(1), target(2)]))
    yield from many("everybody in warm-up", 2, 12, pool([warming(0, 0.0), warming(1, 0.0)]))


def request_cases() -> Iterator[Case]:
    """Exclusions, hints, panic, and who is never picked."""
    five = [target(number) for number in range(5)]
    names = [each["target"] for each in five]
    yield from many("one tried", 2, 13, pool(five), exclude=names[:1])
    yield case("all tried", [0.1] * 9, pool(five), exclude=names)
    yield case("unknown one tried", [0.1] * 9, pool(five), exclude=["10.9.9.9:1", ""])
    last = pool([target(0), out(1), out(2, draining=True, state="draining")])
    yield case("candidates tried, one out of reach left", [0.1] * 9, last, exclude=names[:1])
    yield case("only a draining one left", [0.1] * 9, last, exclude=names[:2])
    panic = [
        out(0, candidate=True, health=5.0, score=5.0),
        out(1, candidate=True, health=20.0, score=20.0),
    ]
    yield from many("panic", 2, 14, pool(panic, panic=True))
    for number in range(4):
        yield case(f"key {number}", [0.3] * 9, pool(five), key=f"session-{number}")
    yield case("key, its target tried", [0.3] * 9, pool(five), key="session-0", exclude=names[:3])
    for each in five:
        busy = pool(
            [other | {"outstanding": 90_000.0} if other is each else other for other in five]
        )
        yield case(f"key, {each['target']} busy", [0.3] * 9, busy, key="session-0")
    yield case("key in letters beyond ASCII", [0.3] * 9, pool(five), key="sitzung-é-日本")
    runs = [target(0), target(1, loras=["sql"]), target(2, loras=["law", "sql"]), target(3)]
    yield from many("adapter", 3, 15, pool(runs), lora="sql")
    yield from many("adapter nobody runs", 2, 16, pool(runs), lora="other")
    yield case("adapter and key", [0.3] * 9, pool(runs), lora="sql", key="session-1")
    busy = [target(0), target(1, loras=["sql"], outstanding=60_000.0), target(2)]
    yield case("adapter on a busy target", [0.3] * 9, pool(busy), lora="sql")


def sample_cases() -> Iterator[Case]:
    """Pools of more than eight: where the runs start, replacements, hints."""
    for size in (9, 10, 24, 40):
        of = pool([target(number, in_flight=number % 7) for number in range(size)])
        yield from many(f"sample of {size}", 2, 20 + size, of)
        yield case(f"sample of {size}, highest draws", [1.0 - 2.0**-53] * 9, of)
        yield from many(f"sample of {size} with a key", 1, 21 + size, of, key="session-7")
    tried = [target(number)["target"] for number in range(0, 40, 2)]
    yield from many(
        "half of 40 tried", 2, 30, pool([target(number) for number in range(40)]), exclude=tried
    )
    full = [target(n, kv_cache=0.9 if n % 3 else 0.1, kv_capacity=100_000.0) for n in range(30)]
    yield from many("two thirds of 30 full", 2, 31, pool(full))
    everybody = [target(number, kv_cache=0.9, kv_capacity=100_000.0) for number in range(30)]
    yield from many("all 30 full", 2, 32, pool(everybody))
    runs = [target(number, loras=["sql"] if number % 10 == 3 else []) for number in range(45)]
    yield from many("five of 45 run the adapter", 2, 33, pool(runs), lora="sql")


def random_cases() -> Iterator[Case]:
    """Busy pools with a bit of everything."""
    for number in range(40):
        dice = random.Random(number)
        targets = [random_target(each, dice) for each in range(dice.choice([2, 3, 5, 8, 12, 30]))]
        of = pool(targets, choices=dice.choice([2, 2, 2, 3, "all"]))
        request: Case = {
            "prompt_tokens": dice.choice([None, 50, 700, 6000, 32_768]),
            "exclude": [each["target"] for each in targets if dice.random() < 0.1],
            "key": dice.choice(["", "", f"session-{number}"]),
            "lora": dice.choice(["", "", "sql"]),
        }
        yield case(f"random {number}", [dice.random() for _ in range(80)], of, **request)


FILES = {
    "draw": draw_cases, "cost": cost_cases, "choices": choices_cases, "filters": filter_cases,
    "request": request_cases, "sample": sample_cases, "random": random_cases,
}  # fmt: skip


def hashes() -> Case:
    """Return hashes of texts, of pairs, and which of some targets a key prefers."""
    texts = ["", "a", "session-1", "10.0.0.1:8000", "é", "日本", "x" * 300]
    names = [target(number)["target"] for number in range(40)]
    rings = []
    for size in (1, 2, 8, 9, 40):
        ring = Ring(names[:size])
        keys = [f"session-{number}" for number in range(12)]
        rings.append(
            {
                "targets": names[:size],
                "preferred": {key: names[ring.preferred(key) or 0] for key in keys},
            }
        )
    return {
        "points": {text: point(text) for text in texts},
        "mixed": [
            [one, other, mixed(one, other)]
            for one in (0, 1, 67_108_858)
            for other in (0, 5, 12_345_678)
        ],
        "rings": rings,
    }


def documents() -> dict[str, object]:
    """Return what each file holds, by name."""
    return {name: list(cases()) for name, cases in FILES.items()} | {"hashes": hashes()}


def text_of(document: object) -> str:
    """Return a document as it stands in its file: one case a line."""
    if isinstance(document, list):
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in document)
        return f"[\n{lines}\n]\n"
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write all files."""
    for name, document in documents().items():
        (FOLDER / f"{name}.json").write_text(text_of(document), encoding="utf-8")


if __name__ == "__main__":
    main()
