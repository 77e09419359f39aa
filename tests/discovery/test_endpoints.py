"""EndpointSlices: who is a target, who is draining, and under which address."""

from typing import Any

import pytest

from scorer.sources.discovery.endpoints import endpoint_labels
from tests.discovery.kubernetes_api import endpoint, slice_of


def addresses(*slices: dict[str, Any], port: int | str = 8000) -> list[str]:
    return [labels["__address__"] for labels in endpoint_labels(slices, port)]


def test_labels_are_those_of_prometheus() -> None:
    """Names as Prometheus gives them in the endpointslice role."""
    [labels] = endpoint_labels([slice_of("chat-abc", endpoint("10.0.0.1", "engine-1"))], "http")
    assert labels == {
        "__address__": "10.0.0.1:8000",
        "__meta_kubernetes_namespace": "llm",
        "__meta_kubernetes_endpointslice_name": "chat-abc",
        "__meta_kubernetes_endpointslice_port": "8000",
        "__meta_kubernetes_endpointslice_address_target_kind": "Pod",
        "__meta_kubernetes_endpointslice_address_target_name": "engine-1",
        "__meta_kubernetes_endpointslice_endpoint_conditions_ready": "true",
        "__meta_kubernetes_endpointslice_endpoint_conditions_serving": "true",
        "__meta_kubernetes_endpointslice_endpoint_conditions_terminating": "false",
        "__meta_kubernetes_endpointslice_endpoint_node_name": "node-1",
        "__meta_kubernetes_endpointslice_endpoint_zone": "zone-a",
        "__meta_kubernetes_endpointslice_label_app": "vllm",
        "__meta_kubernetes_endpointslice_label_kubernetes_io_service_name": "chat",
        "__meta_kubernetes_pod_name": "engine-1",
    }


@pytest.mark.parametrize(
    ("conditions", "draining"),
    [
        ({"ready": True, "serving": True}, False),
        ({"ready": False, "serving": True}, True),
        ({"ready": False, "serving": True, "terminating": True}, True),
        ({"ready": False, "serving": False}, None),
        ({"ready": False}, None),
        ({}, False),
    ],
)
def test_conditions(conditions: dict[str, bool], draining: bool | None) -> None:
    """Ready is a target, serving alone is draining, neither is none; unsaid means ready."""
    one = {**endpoint("10.0.0.1"), "conditions": conditions}
    found = endpoint_labels([slice_of("s", one)], 8000)
    assert [labels.get("__draining__") == "true" for labels in found] == (
        [] if draining is None else [draining]
    )


def test_ipv6_addresses_are_in_brackets() -> None:
    """An IPv6 address with a port is one that can be used."""
    assert addresses(slice_of("s", endpoint("fd00::1"), addressType="IPv6")) == ["[fd00::1]:8000"]


def test_pod_with_two_addresses_is_one_target() -> None:
    """In a dual-stack cluster a pod stands in two slices; the IPv4 one counts."""
    four = slice_of("four", endpoint("10.0.0.1", "engine-1"))
    six = slice_of("six", endpoint("fd00::1", "engine-1"), addressType="IPv6")
    assert addresses(six, four) == addresses(four, six) == ["10.0.0.1:8000"]


def test_pod_that_one_slice_calls_ready_is_ready() -> None:
    """While an endpoint moves between slices it may be in both; ready wins."""
    old = slice_of("old", endpoint("10.0.0.1", "engine-1", ready=False))
    new = slice_of("new", endpoint("10.0.0.1", "engine-1"))
    [labels] = endpoint_labels([old, new], 8000)
    assert "__draining__" not in labels


def test_port_by_number_or_by_name() -> None:
    """A number is taken as it is, a name is looked up in the slice."""
    one = slice_of("s", endpoint("10.0.0.1"))
    assert addresses(one, port=9000) == ["10.0.0.1:9000"]
    assert addresses(one, port="http") == ["10.0.0.1:8000"]
    assert addresses(one, port="metrics") == []


@pytest.mark.parametrize("hole", ["endpoints", "ports"])
def test_slice_with_nothing_in_it(hole: str) -> None:
    """The API writes null for an empty list."""
    assert addresses(slice_of("s", **{hole: None}), port="http") == []
