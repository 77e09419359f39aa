"""The published snapshot as metric families.

Everything about targets and pools comes from one snapshot, read once at the start, so
a page never mixes two judgements and a departed target is gone from the next page.
What is not known has no sample.
"""

import math
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

from exporters.catalogue import METRICS
from scorer.clocks import Clocks
from scorer.core.cooldown import CooldownReason
from scorer.core.snapshot import CooldownView, PoolView, Snapshot, TargetView
from scorer.core.vocabulary import ScrapeFailure, SignalName, State
from scorer.daemon_stats import DaemonReading, DaemonStats
from scorer.feedback.stats import FeedbackStats
from scorer.histogram import HistogramReading
from scorer.http_stats import HttpStats
from scorer.inflight import InFlight, LoadReading
from scorer.output_stats import OutputStats
from scorer.pick_stats import NO_POOL, PickStats
from scorer.sources.discovery.stats import SdStats

Labels = dict[str, str]

MOST_NAMES, NAME_LENGTH = 8, 128
"""Model names of one target in a label, and the characters of each."""

SIGNAL_VALUES = {
    SignalName.TTFT: "scorer_target_ttft_seconds",
    SignalName.ERRORS: "scorer_target_error_ratio",
    SignalName.QUEUE: "scorer_target_requests_waiting",
    SignalName.KV_CACHE: "scorer_target_kv_cache_usage_ratio",
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where the collector reads from.

    ``picks`` are pick requests, ``stats`` the daemon's own counts, ``sd`` discovery's,
    ``served`` all HTTP requests, ``outputs`` what others pull.
    """

    snapshot: Callable[[], Snapshot]
    inflight: InFlight
    picks: PickStats
    stats: DaemonStats
    version: str
    revision: str = ""
    clocks: Clocks = field(default_factory=Clocks)
    sd: SdStats = field(default_factory=SdStats)
    feedback: FeedbackStats = field(default_factory=FeedbackStats)
    served: HttpStats = field(default_factory=HttpStats)
    outputs: OutputStats = field(default_factory=OutputStats)
    log_lines_dropped: Callable[[], int] = int


class StateCollector:
    """A ``prometheus_client`` collector of every metric in the catalogue."""

    def __init__(self, inputs: Inputs) -> None:
        """Collect from ``inputs``."""
        self._inputs = inputs

    def describe(self) -> Iterable[Family]:
        """Return every family without samples."""
        return _Page().families()

    def collect(self) -> Iterable[Family]:
        """Return every family, in the order of the catalogue."""
        page = _Page()
        snapshot = self._inputs.snapshot()
        for pool in snapshot.pools.values():
            self._add_pool(page, pool)
            for view in pool.targets:
                self._add_target(page, view)
        self._add_pick_requests(page, [*snapshot.pools, NO_POOL])
        self._add_feedback(page, snapshot)
        self._add_discovery(page, snapshot)
        self._add_served(page)
        self._add_daemon(page, self._inputs.stats.read(), snapshot)
        return page.families()

    def _add_target(self, page: "_Page", view: TargetView) -> None:
        labels = {"pool": view.pool, "target": view.target}
        unix = self._inputs.clocks.unix
        good_at = view.last_good_scrape_at
        add = page.add
        add("scorer_target_score", labels, view.score)
        if view.score is not None:
            for cause, points in view.points_lost.items():
                add("scorer_target_points_lost", {**labels, "signal": cause}, points)
        for state in State:
            add("scorer_target_state", {**labels, "state": state}, view.state == state)
        add("scorer_target_state_since_timestamp_seconds", labels, unix(view.state_since))
        add("scorer_target_weight_ratio", labels, view.weight)
        add("scorer_target_warmup_ratio", labels, view.warmup_ratio)
        for (before, after), count in view.transition_counts.items():
            change = {**labels, "from": before, "to": after}
            add("scorer_target_state_transitions_total", change, count)
        self._add_cooldowns(page, labels, view.cooldown)
        add("scorer_target_restarts_total", labels, view.restarts)
        add("scorer_target_confidence_ratio", labels, view.confidence)
        add("scorer_target_requests_running", labels, view.running)
        add("scorer_target_preemptions_total", labels, view.preemptions)
        add("scorer_target_metrics_frozen", labels, None if good_at is None else view.frozen)
        add("scorer_target_info", {**labels, **metadata(view)}, 1)
        add("scorer_target_up", labels, view.last_scrape.ok if view.last_scrape else None)
        success = 0.0 if good_at is None else unix(good_at)
        add("scorer_target_last_scrape_success_timestamp_seconds", labels, success)
        add("scorer_scrapes_total", labels, view.scrapes)
        for reason in ScrapeFailure:
            failures = view.scrape_failures.get(reason, 0)
            add("scorer_scrape_failures_total", {**labels, "reason": reason}, failures)
        _add_load(page, labels, self._load(view))
        _add_signals(page, labels, view)

    def _add_cooldowns(self, page: "_Page", labels: Labels, cooldown: CooldownView) -> None:
        for reason in CooldownReason:
            caused = {**labels, "reason": reason}
            page.add("scorer_target_cooldowns_total", caused, cooldown.entered.get(reason, 0))
            spent = cooldown.seconds.get(reason, 0.0)
            page.add("scorer_target_cooldown_seconds_total", caused, spent)
        end = 0.0 if cooldown.until is None else self._inputs.clocks.unix(cooldown.until)
        page.add("scorer_target_cooldown_end_timestamp_seconds", labels, end)

    def _load(self, view: TargetView) -> LoadReading:
        now = self._inputs.clocks.monotonic()
        return self._inputs.inflight.reading(view.pool, view.target, now)

    def _add_pool(self, page: "_Page", pool: PoolView) -> None:
        labels = {"pool": pool.name}
        states = [view.state for view in pool.targets]
        for state in State:
            page.add("scorer_pool_targets", {**labels, "state": state}, states.count(state))
        page.add("scorer_pool_eligible_targets", labels, pool.eligible)
        page.add("scorer_pool_panic", labels, pool.panic)
        for name, thresholds in (
            ("scorer_pool_score_threshold", pool.thresholds.score),
            ("scorer_pool_kv_cache_usage_threshold_ratio", pool.thresholds.kv_cache),
            ("scorer_pool_ttft_threshold_seconds", pool.thresholds.ttft),
        ):
            for severity, bound in thresholds.items():
                page.add(name, {**labels, "severity": severity}, bound)

    def _add_pick_requests(self, page: "_Page", pools: Iterable[str]) -> None:
        for pool in pools:
            labels = {"pool": pool}
            reading = self._inputs.picks.read(pool)
            page.add("scorer_pick_requests_total", labels, reading.requests)
            for reason, count in reading.failures.items():
                failed = {**labels, "reason": reason}
                page.add("scorer_pick_request_failures_total", failed, count)
            page.add_histogram("scorer_pick_duration_seconds", labels, reading.duration)

    def _add_feedback(self, page: "_Page", snapshot: Snapshot) -> None:
        stats = self._inputs.feedback
        for pool in snapshot.pools.values():
            for view in pool.targets:
                labels = {"pool": view.pool, "target": view.target}
                for outcome, count in stats.outcomes(view.pool, view.target).items():
                    page.add("scorer_feedback_total", {**labels, "outcome": outcome}, count)
        for reason, count in stats.rejected().items():
            page.add("scorer_feedback_rejected_total", {"reason": reason}, count)

    def _add_discovery(self, page: "_Page", snapshot: Snapshot) -> None:
        for (pool, mechanism), reading in self._inputs.sd.read().items():
            if pool not in snapshot.pools:
                continue
            labels = {"pool": pool, "mechanism": mechanism}
            page.add("scorer_sd_targets", labels, reading.targets)
            page.add("scorer_sd_refreshes_total", labels, reading.refreshes)
            page.add("scorer_sd_refresh_failures_total", labels, reading.failures)
            at = reading.last_success
            success = None if at is None else self._inputs.clocks.unix(at)
            page.add("scorer_sd_last_refresh_success_timestamp_seconds", labels, success)

    def _add_served(self, page: "_Page") -> None:
        reading = self._inputs.served.read()
        for (handler, method, status), count in reading.requests.items():
            served = {"handler": handler, "method": method, "code": str(status)}
            page.add("scorer_http_requests_total", served, count)
        for handler, duration in reading.durations.items():
            labels = {"handler": handler}
            page.add_histogram("scorer_http_request_duration_seconds", labels, duration)
        for output, count in self._inputs.outputs.read().items():
            page.add("scorer_output_requests_total", {"output": output}, count)

    def _add_daemon(self, page: "_Page", reading: DaemonReading, snapshot: Snapshot) -> None:
        for pool in snapshot.pools.values():
            labels = {"pool": pool.name}
            for view in pool.targets:
                missed = reading.missed.get((pool.name, view.target), 0)
                target = {**labels, "target": view.target}
                page.add("scorer_scrapes_missed_total", target, missed)
            if scrapes := reading.scrapes.get(pool.name):
                page.add_histogram("scorer_scrape_duration_seconds", labels, scrapes)
            if scorings := reading.scorings.get(pool.name):
                page.add_histogram("scorer_scoring_duration_seconds", labels, scorings)
            if (at := reading.last_scoring.get(pool.name)) is not None:
                last_run = self._inputs.clocks.unix(at)
                page.add("scorer_scoring_last_run_timestamp_seconds", labels, last_run)
        page.add("scorer_event_loop_lag_seconds", {}, reading.loop_lag)
        page.add("scorer_config_last_reload_successful", {}, reading.reload_ok)
        loaded = "scorer_config_last_reload_success_timestamp_seconds"
        page.add(loaded, {}, reading.reload_success_time)
        written = "scorer_state_file_last_write_success_timestamp_seconds"
        page.add(written, {}, reading.state_success_time)
        page.add("scorer_state_file_write_failures_total", {}, reading.state_failures)
        page.add("scorer_log_lines_dropped_total", {}, self._inputs.log_lines_dropped())
        build = {
            "version": self._inputs.version,
            "revision": self._inputs.revision,
            "python_version": platform.python_version(),
        }
        page.add("scorer_build_info", build, 1)


class _Page:
    """The families of one page by the name of their metric, without samples at first."""

    def __init__(self) -> None:
        self._families = {
            metric.name: Family(metric.family, metric.help, metric.type) for metric in METRICS
        }
        self._samples = {name: family.samples for name, family in self._families.items()}

    def families(self) -> Iterable[Family]:
        """Return the families in the order of the catalogue."""
        return self._families.values()

    def add(self, name: str, labels: Labels, value: float | None) -> None:
        """Add a sample; a value that is missing or not a number adds none."""
        if value is not None and math.isfinite(value):
            self._samples[name].append(Sample(name, labels, float(value)))

    def add_histogram(self, name: str, labels: Labels, reading: HistogramReading) -> None:
        """Add the samples of a histogram."""
        samples = self._samples[name]
        bounds = (*map(repr, reading.bounds), "+Inf")
        for bound, count in zip(bounds, reading.counts, strict=True):
            samples.append(Sample(f"{name}_bucket", {**labels, "le": bound}, count))
        samples.append(Sample(f"{name}_sum", labels, reading.sum))
        samples.append(Sample(f"{name}_count", labels, reading.count))


def metadata(view: TargetView) -> Labels:
    """Return what the engine says of itself; it is free text from another program."""
    return {
        "engine": view.engine,
        "engine_version": printable(view.engine_version),
        "model_name": printable(joined(view.model_names)),
    }


def joined(names: Sequence[str]) -> str:
    """Return the names with commas between them; what is left out leaves an ellipsis.

    A page may name as many models as it likes, and a label must stay small.
    """
    shown = [name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…" for name in names]
    return ",".join([*shown[:MOST_NAMES], "…"] if len(shown) > MOST_NAMES else shown)


def printable(text: str) -> str:
    """Return ``text`` with what UTF-8 cannot carry replaced, so that it cannot break the page."""
    return text.encode("utf-8", "replace").decode()


def _add_signals(page: _Page, labels: Labels, view: TargetView) -> None:
    for name, signal in view.signals.items():
        page.add(SIGNAL_VALUES[name], labels, signal.value)
        if view.mapping:
            available = {**labels, "signal": name}
            page.add("scorer_target_signal_available", available, signal.available)


def _add_load(page: _Page, labels: Labels, load: LoadReading) -> None:
    page.add("scorer_target_in_flight_requests", labels, load.in_flight)
    page.add("scorer_target_expected_wait_seconds", labels, load.wait)
    page.add("scorer_target_prefill_rate_tokens_per_second", labels, load.rate)
    page.add("scorer_picks_total", labels, load.picks)
    page.add("scorer_probes_total", labels, load.probes)
    page.add("scorer_leases_lost_total", labels, load.lost)
