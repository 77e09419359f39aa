"""Counts of the daemon's own work."""

import threading

from scorer.daemon_stats import DaemonStats


def test_scrapes_by_pool():
    """Durations of scrapes are kept apart by pool."""
    stats = DaemonStats()
    stats.scrape_done("chat", 0.012)
    stats.scrape_done("chat", 0.5)
    stats.scrape_done("embed", 0.012)
    scrapes = stats.read().scrapes
    assert (scrapes["chat"].count, scrapes["chat"].sum, scrapes["embed"].count) == (2, 0.512, 1)


def test_missed_scrapes_by_target():
    """Missed scrapes are kept apart by pool and target."""
    stats = DaemonStats()
    stats.scrape_missed("chat", "a:1")
    stats.scrape_missed("chat", "a:1")
    stats.scrape_missed("embed", "a:1")
    assert stats.read().missed == {("chat", "a:1"): 2, ("embed", "a:1"): 1}


def test_scoring_passes():
    """A scoring pass leaves its duration and its time."""
    stats = DaemonStats()
    stats.scoring_done("chat", 0.0004, 1000.0)
    stats.scoring_done("chat", 0.0006, 1001.0)
    reading = stats.read()
    assert (reading.scorings["chat"].count, reading.last_scoring) == (2, {"chat": 1001.0})


def test_nothing_is_known_before_the_first_load():
    """Before a load there is neither success nor time."""
    reading = DaemonStats().read()
    assert (reading.reload_ok, reading.reload_success_time) == (None, None)


def test_departed_pools_and_targets_are_forgotten():
    """``keep`` drops every pool and target that is not named."""
    stats = DaemonStats()
    for pool in ("chat", "gone"):
        stats.scrape_done(pool, 0.1)
        stats.scoring_done(pool, 0.1, 1.0)
        stats.scrape_missed(pool, "a:1")
    stats.scrape_missed("chat", "b:2")
    stats.keep({"chat"}, {("chat", "a:1")})
    reading = stats.read()
    assert set(reading.scrapes) == set(reading.scorings) == set(reading.last_scoring) == {"chat"}
    assert set(reading.missed) == {("chat", "a:1")}


def test_no_count_is_lost_between_threads():
    """Four threads counting at once lose nothing."""
    stats = DaemonStats()

    def work():
        for _ in range(2000):
            stats.scrape_done("chat", 0.01)
            stats.scrape_missed("chat", "a:1")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading = stats.read()
    assert (reading.scrapes["chat"].count, reading.missed["chat", "a:1"]) == (8000, 8000)
