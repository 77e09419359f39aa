"""From label sets to targets: addresses, overrides, capacity, draining."""

from typing import Any

import pytest

from scorer.config.pool import PoolConfig
from scorer.discovered import DiscoveredTarget
from scorer.sources.discovery.resolve import Resolver, UnusableTargetError


def resolved(found: dict[str, str], **pool: Any) -> DiscoveredTarget | None:
    """Return the target that a pool makes of a label set."""
    static = [{"targets": []}]
    return Resolver(
        PoolConfig.model_validate({"name": "chat", "static_configs": static, **pool})
    ).resolve(found)


def target(address: str = "10.0.0.1:8000", /, **labels: str) -> DiscoveredTarget:
    found = resolved({"__address__": address, **labels})
    assert found is not None
    return found


def test_address_alone_is_a_target() -> None:
    """Without labels the metrics are on the same host and port."""
    found = target()
    assert (found.address.url, found.metrics_site()) == ("http://10.0.0.1:8000",) * 2
    assert (found.metrics_path, found.capacity, found.draining, found.labels) == (
        "",
        1.0,
        False,
        {},
    )


@pytest.mark.parametrize(
    ("address", "name", "url"),
    [
        ("[::1]:8000", "[::1]:8000", "http://[::1]:8000"),
        ("[FD00:0::2]:8000", "[fd00::2]:8000", "http://[fd00::2]:8000"),
        ("Engine-1.Example:8000", "engine-1.example:8000", "http://engine-1.example:8000"),
        ("https://10.0.0.1:8443", "10.0.0.1:8443", "https://10.0.0.1:8443"),
        ("10.0.0.1:8000/", "10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://10.0.0.1:8000/v1", "10.0.0.1:8000/v1", "http://10.0.0.1:8000/v1"),
    ],
)
def test_spellings_of_an_address(address: str, name: str, url: str) -> None:
    """A target has one name, whatever the spelling; a path goes into the URL of picks."""
    found = target(address)
    assert (found.address.name, found.address.url) == (name, url)


def test_metrics_are_not_below_the_path_of_an_address() -> None:
    """The path is that of requests; metrics are scraped from the host and port."""
    assert target("10.0.0.1:8000/v1").metrics_site() == "http://10.0.0.1:8000"


def test_pool_gives_the_scheme_and_a_label_another() -> None:
    """``__scheme__`` wins over the pool's scheme, which wins over http."""
    labels = {"__address__": "10.0.0.1:8000"}
    secure = resolved(labels, scheme="https")
    plain = resolved({**labels, "__scheme__": "http"}, scheme="https")
    assert secure is not None
    assert plain is not None
    assert (secure.address.scheme, plain.address.scheme) == ("https", "http")


def test_metrics_on_another_address_and_path() -> None:
    """``__metrics_address__`` and ``__metrics_path__`` say where the metrics are."""
    found = target(__metrics_address__="10.0.0.1:8002", __metrics_path__="prom")
    assert (found.address.name, found.metrics_site()) == ("10.0.0.1:8000", "http://10.0.0.1:8002")
    assert found.metrics_path == "/prom"


def test_metrics_may_have_another_scheme() -> None:
    """TLS for requests does not mean TLS for metrics."""
    found = target("https://10.0.0.1:8443", __metrics_address__="http://10.0.0.1:8002")
    assert (found.address.scheme, found.metrics_site()) == ("https", "http://10.0.0.1:8002")


@pytest.mark.parametrize(
    ("address", "pool", "site"),
    [
        ("10.0.0.1:8000", {"metrics_port": 8002}, "http://10.0.0.1:8002"),
        ("[::1]:8000/v1", {"metrics_port": 8002}, "http://[::1]:8002"),
        ("10.0.0.1:8000", {"engine": "triton"}, "http://10.0.0.1:8002"),
        ("10.0.0.1:8000", {"engine": "triton", "metrics_port": 0}, "http://10.0.0.1:8000"),
        ("10.0.0.1:8000", {"engine": "vllm"}, "http://10.0.0.1:8000"),
    ],
)
def test_pool_gives_the_port_of_metrics(address: str, pool: dict[str, Any], site: str) -> None:
    """By ``metrics_port``, or by the engine's own: Triton's is never that of its requests."""
    found = resolved({"__address__": address}, **pool)
    assert found is not None
    assert found.metrics_site() == site


def test_address_of_a_target_wins_over_the_port_of_the_pool() -> None:
    """What a target says of itself wins."""
    labels = {"__address__": "10.0.0.1:8000", "__metrics_address__": "10.0.0.9:9"}
    found = resolved(labels, metrics_port=8002)
    assert found is not None
    assert found.metrics_site() == "http://10.0.0.9:9"


def test_capacity_and_other_labels() -> None:
    """``capacity`` is a number and a label; labels that begin with ``__`` are not kept."""
    found = target(capacity="2.5", zone="a", __meta_x="y")
    assert found.capacity == 2.5
    assert found.labels == {"capacity": "2.5", "zone": "a"}


@pytest.mark.parametrize("capacity", ["fast", "0", "-1", "nan", "inf"])
def test_capacity_that_is_no_speed_is_none(capacity: str) -> None:
    """A target is not lost over its capacity."""
    assert target(capacity=capacity).capacity == 1.0


@pytest.mark.parametrize(("text", "draining"), [("true", True), ("True", True), ("false", False)])
def test_draining_is_a_label(text: str, draining: bool) -> None:
    """``__draining__: "true"`` says that a target is going away."""
    assert target(__draining__=text).draining == draining


def test_rule_may_add_the_port() -> None:
    """The port is required after the rules, not before them."""
    rule = {"source_labels": ["__address__"], "target_label": "__address__", "replacement": "$1:80"}
    found = resolved({"__address__": "10.0.0.1"}, relabel_configs=[rule])
    assert found is not None
    assert found.address.name == "10.0.0.1:80"


def test_rule_may_drop_a_target() -> None:
    """A dropped target is no failure."""
    rule = {"source_labels": ["zone"], "regex": "b", "action": "drop"}
    labels = {"__address__": "10.0.0.1:8000", "zone": "b"}
    assert resolved(labels, relabel_configs=[rule]) is None


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"__address__": "10.0.0.1"}, "__address__: must name the port, as host:port"),
        ({}, "__address__: must name a host"),
        ({"__address__": "::1:8000"}, "must put an IPv6 address in brackets"),
        ({"__address__": "a b:1"}, "must not contain blanks"),
        ({"__address__": "a:1/x,y"}, "must have a path of letters"),
        ({"__address__": 'a:1/"'}, "must have a path of letters"),
        ({"__address__": "a:1\n0"}, "must not contain blanks or control"),
        ({"__address__": "a:1/\ud800"}, "must not contain blanks or control"),
        ({"__address__": "ftp://a:1"}, "__scheme__: must be http or https, got 'ftp'"),
        ({"__address__": "a:1", "__scheme__": "x://y/"}, "__scheme__: must be http or https"),
        ({"__address__": "a:1", "__metrics_address__": "a"}, "__metrics_address__: must name the"),
    ],
)
def test_unusable_target_says_why(labels: dict[str, str], problem: str) -> None:
    """The message names the label, the rule and the value."""
    with pytest.raises(UnusableTargetError, match=problem):
        resolved(labels)
