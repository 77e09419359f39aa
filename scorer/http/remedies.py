"""What would raise a score, as sentences: what has to happen, or how long it still takes."""

from scorer.core.cooldown import FADE_HALF_LIFE
from scorer.core.explain import CapRow, Explanation
from scorer.core.remedies import Lever, Remedy
from scorer.core.vocabulary import Reason, SignalName
from scorer.http import words

WAYS_BACK = {
    Reason.CONNECTION_REFUSED: "until it accepts connections again: one good scrape, then warm-up",
    Reason.SCRAPES_FAILED: "until a scrape is good, then warm-up",
    Reason.ASLEEP: "until the engine wakes up, then warm-up",
    Reason.LOADING: "until the engine serves its model, then warm-up",
    Reason.ENGINE_DRAINING: "until the engine takes requests again, or restarts",
    Reason.FAILING: "until a request picked for it succeeds; probes try that",
    Reason.FROZEN: "until its progress counters move again; probes try that",
    Reason.STUCK: "until it answers a request; probes try that",
}
"""What ends each condition that caps a score."""
OTHERS = {
    Lever.QUEUE_AND_KV_CACHE: "queue and KV cache at their best, both: only the worse costs",
    Lever.SIGHT: "TTFT and queue can be read, and are at their best",
    Lever.FIRST_SCORE: "two good scrapes: only then can it be judged",
}


def remedy_text(remedy: Remedy, explanation: Explanation) -> str:
    """Return a remedy in words, without the points that it gives."""
    match remedy.lever:
        case Lever.TTFT | Lever.ERRORS | Lever.QUEUE | Lever.KV_CACHE:
            return _signal(remedy, SignalName(remedy.lever))
        case Lever.CAP:
            reason = str(remedy.reason or Lever.CAP)
            return f"{words.said({}, reason)}, {words.said(WAYS_BACK, reason)}"
        case Lever.COOLDOWN:
            return _cooldown(remedy)
        case Lever.SATURATION:
            ends = f", to a point in {words.left(remedy.seconds)}" if remedy.seconds else ""
            return f"saturation fades by half every {FADE_HALF_LIFE:g} s{ends}"
        case Lever.WARMUP:
            seconds = words.left(remedy.seconds or 0.0)
            return f"warm-up: {explanation.rise_limit:g} points a second, full in {seconds}"
        case Lever.DRAIN:
            return _draining(remedy)
    return words.said(OTHERS, remedy.lever)


def cap_text(cap: CapRow) -> str:
    """Return a cap in words: what is wrong, and the most that the target can score."""
    return f"{words.said(words.REASONS, cap.reason)}: at most {cap.limit:.0f}"


def _signal(remedy: Remedy, name: SignalName) -> str:
    title, shown = words.said(words.CAUSES, name), words.VALUES[name]
    if remedy.value is None:
        return f"{title} can be read, and is at its best"
    text = f"{title} from {shown(remedy.value)} to {shown(remedy.best or 0.0)}"
    return f"{text}: {remedy.seconds:g} s without a failure" if remedy.seconds else text


def _cooldown(remedy: Remedy) -> str:
    reason = words.said(words.REASONS, remedy.reason or "")
    ends = f" ends in {words.left(remedy.seconds)}" if remedy.seconds is not None else " ends"
    text = f"cooldown{ends} ({reason})"
    if remedy.points:
        return f"{text}, then the points come back by half every {FADE_HALF_LIFE:g} s"
    return text


def _draining(remedy: Remedy) -> str:
    if remedy.seconds is None:
        return "draining ends: discovery no longer says that it is going away"
    return f"draining by an operator ends in {words.left(remedy.seconds)}; it costs no points"
