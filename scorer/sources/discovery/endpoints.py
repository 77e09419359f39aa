"""EndpointSlices as label sets: who of a Service can be sent requests, and who is leaving.

An endpoint that is ready is a target; one that is not ready and still serves is draining;
any other is none. A pod that stands in several slices, of IPv4 and of IPv6 or of two
Services, is one target.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.sources.discovery.answers import LabelSets
from scorer.sources.discovery.groups import ADDRESS
from scorer.sources.discovery.resolve import DRAINING

META = "__meta_kubernetes_"
FAMILIES = ("IPv4", "IPv6", "FQDN")
"""In order of preference."""

Slice = Mapping[str, Any]
"""An ``EndpointSlice`` of ``discovery.k8s.io/v1`` as JSON says it."""


def endpoint_labels(slices: Iterable[Slice], port: int | str) -> LabelSets:
    """Return a label set per endpoint; ``port`` is a number, or the name of a slice's port."""
    best: dict[str, tuple[tuple[bool, int], dict[str, str]]] = {}
    for each in slices:
        number = port if isinstance(port, int) else _port_named(each, port)
        for endpoint in each.get("endpoints") or []:
            labels = _labels(each, endpoint, number)
            if labels is None:
                continue
            rank = DRAINING in labels, _family(each)
            known = best.get(who := _who(endpoint))
            if known is None or rank < known[0]:
                best[who] = rank, labels
    return tuple(sorted((labels for _, labels in best.values()), key=lambda each: each[ADDRESS]))


def _labels(each: Slice, endpoint: Slice, port: int | None) -> dict[str, str] | None:
    addresses = endpoint.get("addresses") or []
    conditions = endpoint.get("conditions") or {}
    ready = conditions.get("ready") is not False
    serving = conditions.get("serving", ready)
    if not addresses or port is None or not (ready or serving):
        return None
    host = addresses[0]
    reference = endpoint.get("targetRef") or {}
    metadata = each.get("metadata") or {}
    labels = {
        ADDRESS: f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        f"{META}namespace": metadata.get("namespace", ""),
        f"{META}endpointslice_name": metadata.get("name", ""),
        f"{META}endpointslice_port": str(port),
        f"{META}endpointslice_address_target_kind": reference.get("kind", ""),
        f"{META}endpointslice_address_target_name": reference.get("name", ""),
        f"{META}endpointslice_endpoint_conditions_ready": _said(ready),
        f"{META}endpointslice_endpoint_conditions_serving": _said(serving),
        f"{META}endpointslice_endpoint_conditions_terminating": _said(
            conditions.get("terminating")
        ),
        f"{META}endpointslice_endpoint_node_name": endpoint.get("nodeName") or "",
        f"{META}endpointslice_endpoint_zone": endpoint.get("zone") or "",
        f"{META}pod_name": reference.get("name", "") if reference.get("kind") == "Pod" else "",
    }
    for name, value in (metadata.get("labels") or {}).items():
        labels[f"{META}endpointslice_label_{_label_name(name)}"] = value
    if not ready:
        labels[DRAINING] = "true"
    return {name: value for name, value in labels.items() if value}


def _port_named(each: Slice, name: str) -> int | None:
    ports = (port for port in each.get("ports") or [] if port.get("name") == name)
    found: int | None = next((port.get("port") for port in ports), None)
    return found


def _family(each: Slice) -> int:
    family = each.get("addressType", "")
    return FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)


def _who(endpoint: Slice) -> str:
    """Return what tells an endpoint from others: its pod, or failing that its address."""
    reference = endpoint.get("targetRef") or {}
    who: str = reference.get("uid") or reference.get("name") or endpoint["addresses"][0]
    return who


def _said(condition: object) -> str:
    return "" if condition is None else str(bool(condition)).lower()


def _label_name(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
