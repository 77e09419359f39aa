"""One configured source of targets: what it last answered well, part by part.

A part that fails keeps its last good answer. An answer whose every target is unusable is
a failure too: rather old targets than none.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from scorer.discovered import DiscoveredTarget
from scorer.sources.discovery.answers import Answer, Asked, Failure, LabelSets, Provider
from scorer.sources.discovery.resolve import Resolver, UnusableTargetError
from scorer.sources.discovery.stats import Key, SdStats

logger = structlog.stdlib.get_logger(__name__)


@dataclass(slots=True)
class _Part:
    """A good answer, the targets in it, and why others in it are none."""

    answer: LabelSets
    targets: list[DiscoveredTarget] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)


class Feed:
    """The memory of one source; ``changed`` is called without a lock when its targets change.

    ``key`` and ``number`` are its place in ``stats``. ``answered`` says whether every part
    of it has once answered well.
    """

    def __init__(
        self,
        key: Key,
        number: int,
        provider: Provider,
        resolver: Resolver,
        stats: SdStats,
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self.key, self.number = key, number
        self.provider = provider
        self.answered = False
        self._resolver = resolver
        self._stats = stats
        self._clock = clock
        self._changed = changed
        self._lock = threading.Lock()
        self._parts: dict[str, _Part] = {}
        self._trouble = ""
        self._reported: set[str] = set()
        self._due = clock()
        self._closed = False

    @property
    def targets(self) -> list[DiscoveredTarget]:
        """The targets of every part, in order; one may be there twice."""
        with self._lock:
            return [target for part in self._parts.values() for target in part.targets]

    def use(self, resolver: Resolver) -> None:
        """Look at the known answers again, after other rules."""
        with self._lock:
            self._resolver = resolver
            self._parts = {name: self._resolved(part.answer) for name, part in self._parts.items()}

    def close(self) -> None:
        """Ask no more, and take no answer that is still under way."""
        self._closed = True
        self.provider.close()

    def look(self, provider: Asked) -> None:
        """Ask ``provider`` if it is time to."""
        if self._clock() < self._due:
            return
        failing = self.take(_asked(provider))
        wait = provider.retry if failing else provider.interval
        # Whoever calls does so every `retry` seconds at most: half of that is no time at all.
        self._due = self._clock() + wait - min(provider.retry, provider.interval) / 2

    def take(self, answer: Answer, *, quietly: bool = False) -> bool:
        """Remember an answer; return whether any part of it failed.

        ``quietly`` leaves it to the caller to tell that targets changed.
        """
        if self._closed:
            return False
        with self._lock:
            before, had_answered = self._parts, self.answered
            failures = self._merge(answer)
            self.answered = self.answered or answer.keys() <= self._parts.keys()
            targets = sum(len(part.answer) for part in self._parts.values())
            changed = self.answered != had_answered or not self._same(before)
        self._stats.refreshed(
            self.key, self.number, targets=targets, at=self._clock(), failures=len(failures)
        )
        self._report(failures)
        if changed and not quietly:
            self._changed()
        return bool(failures)

    def _same(self, before: dict[str, _Part]) -> bool:
        """Whether the parts are those of ``before``, in the same order."""
        return list(before) == list(self._parts) and all(
            before[name] is part for name, part in self._parts.items()
        )

    def _merge(self, answer: Answer) -> dict[str, str]:
        """Keep what is good of an answer; return why the rest is not, by part."""
        failures = {}
        parts = {}
        for name, given in answer.items():
            known = self._parts.get(name)
            if isinstance(given, Failure):
                failures[name] = given.reason
            elif known is None or known.answer != given:
                part = self._resolved(given)
                if part.unusable and len(part.unusable) == len(given):
                    failures[name] = f"every target is unusable; {part.unusable[0]}"
                else:
                    known = part
            if known is not None:
                parts[name] = known
        self._parts = parts
        return failures

    def _resolved(self, answer: LabelSets) -> _Part:
        part = _Part(answer)
        for labels in answer:
            try:
                target = self._resolver.resolve(labels)
            except UnusableTargetError as error:
                part.unusable.append(str(error))
            else:
                if target is not None:
                    part.targets.append(target)
        return part

    def _report(self, failures: dict[str, str]) -> None:
        """Write one line when the source starts or stops failing, one per unusable target."""
        pool, mechanism = self.key
        facts = {"pool": pool, "mechanism": str(mechanism), "from": self.provider.name}
        if failures and not self._trouble:
            name, reason = next(iter(failures.items()))
            logger.warning("Discovery fails", **facts, part=name, reason=reason)
        elif self._trouble and not failures:
            logger.info("Discovery works again", **facts)
        self._trouble = next(iter(failures.values()), "")
        unusable = {text for part in self._parts.values() for text in part.unusable}
        for text in sorted(unusable - self._reported):
            logger.warning("Target left out", **facts, reason=text)
        self._reported = unusable


def _asked(provider: Asked) -> Answer:
    """Return the answer; an exception nobody expects is a failure too."""
    try:
        return provider.ask()
    except Exception as error:
        logger.exception("Discovery failed unexpectedly")
        return {"": Failure(f"unexpected {type(error).__name__}: {error}")}
