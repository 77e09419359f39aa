"""Envoy's endpoint discovery by REST: a pool is a cluster, its targets are endpoints.

The weight of a target becomes ``load_balancing_weight`` (1-100), its state the health that
Envoy reads. Envoy drops what it had for an update that is empty, so only what is known is
told: an answer other than 200 leaves Envoy with its last endpoints. The version is a digest
of the endpoints, the same in every replica and after a restart, and an Envoy that has it
already gets 304 and nothing to take in.
"""

import hashlib
import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import structlog

from scorer.core.snapshot import PoolView, Snapshot, TargetView
from scorer.core.vocabulary import State

TYPE_URL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
DEEPEST_WEIGHT = 1
"""Envoy refuses a weight of 0; the health of an endpoint keeps requests away."""
FULL_WEIGHT = 100
VERSION_LENGTH = 16
SHOWN = 64
"""Characters of a bad value that an error message repeats."""

_TEXTS = ("version_info", "type_url", "response_nonce")
_OBJECTS = ("node", "error_detail")
_CAMEL = {
    "versionInfo": "version_info",
    "typeUrl": "type_url",
    "resourceNames": "resource_names",
    "responseNonce": "response_nonce",
    "errorDetail": "error_detail",
}
"""Protobuf's JSON writes names in either way; Envoy writes them with underscores."""

logger = structlog.stdlib.get_logger(__name__)


class Reply(NamedTuple):
    """An answer: ``body`` is JSON for 200, empty for 304, else a sentence."""

    status: int
    body: str = ""


Endpoints = Callable[[bytes], Reply]
"""``(body of a DiscoveryRequest) -> answer``; may be called from several threads."""


class RequestError(ValueError):
    """A request that cannot be answered; the message names the field, the rule and the value."""


class Discovery:
    """Answers discovery requests from the published snapshot."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        ready: Callable[[], str | None],
        enabled: Callable[[], bool],
    ) -> None:
        """Serve what ``snapshot`` returns, once ``ready`` returns None and if ``enabled``."""
        self._snapshot = snapshot
        self._ready = ready
        self._enabled = enabled
        self._left_out: dict[str, tuple[str, ...]] = {}
        self._nack = ""

    def __call__(self, body: bytes) -> Reply:
        """Return the answer to a request with this body."""
        if not self._enabled():
            return Reply(403, "exporters.envoy_eds.enabled is false in the configuration.")
        try:
            request = read_request(body)
        except RequestError as error:
            return Reply(400, str(error))
        self._note_nack(request.get("error_detail"))
        # Targets that are not found yet are not gone: Envoy is to keep what it has.
        if problem := self._ready():
            return Reply(503, problem)
        return self._answer(request)

    def _answer(self, request: Mapping[str, Any]) -> Reply:
        pools = self._snapshot().pools
        resources = []
        for name in dict.fromkeys(request["resource_names"]):
            pool = pools.get(name)
            if pool is None:
                return Reply(404, _message("resource_names", "must name pools", name))
            told = assignment(pool)
            self._note_left_out(pool)
            if pool.targets and not told["endpoints"][0]["lb_endpoints"]:
                return Reply(422, f"pool {name}: no target has an IP address and no path.")
            resources.append(told)
        return self._versioned(resources, request.get("version_info", ""))

    @staticmethod
    def _versioned(resources: list[dict[str, Any]], known: str) -> Reply:
        text = json.dumps(resources, separators=(",", ":"))
        version = hashlib.sha256(text.encode()).hexdigest()[:VERSION_LENGTH]
        if version == known:
            return Reply(304)
        head = json.dumps({"version_info": version, "type_url": TYPE_URL, "nonce": version})
        return Reply(200, f'{head[:-1]},"resources":{text}}}')

    def _note_left_out(self, pool: PoolView) -> None:
        """Say once which targets Envoy cannot be told of, for each change of who they are."""
        names = tuple(view.target for view in pool.targets if address_of(view) is None)
        if names == self._left_out.get(pool.name, ()):
            return
        self._left_out[pool.name] = names
        if names:
            logger.warning(
                "Targets left out of what Envoy is told",
                pool=pool.name,
                targets=", ".join(names),
                why="Envoy takes endpoints by IP address and without a path",
            )

    def _note_nack(self, detail: Mapping[str, Any] | None) -> None:
        """Say once what Envoy did not take."""
        said = "" if detail is None else str(detail.get("message", ""))[:500]
        if said and said != self._nack:
            logger.warning("Envoy refused its endpoints", error=said)
        self._nack = said or self._nack


def read_request(body: bytes) -> dict[str, Any]:
    """Return the fields of a DiscoveryRequest; RequestError says what is wrong with it."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError("the body must be a DiscoveryRequest in JSON") from None
    if not isinstance(raw, dict):
        raise RequestError(_message("the body", "must be a DiscoveryRequest in JSON", raw))
    fields: dict[str, Any] = {}
    for given, value in raw.items():
        name = str(_CAMEL.get(given, given))
        if name in fields:
            raise RequestError(f"{name}: must be given once")
        if value is not None:  # protobuf's JSON writes null for a field that is not set
            fields[name] = value
    _check(fields)
    return fields


def _check(fields: dict[str, Any]) -> None:
    for name in _TEXTS:
        if not isinstance(fields.get(name, ""), str):
            raise RequestError(_message(name, "must be a string", fields[name]))
    for name in _OBJECTS:
        if not isinstance(fields.get(name, {}), dict):
            raise RequestError(_message(name, "must be an object", fields[name]))
    if fields.get("type_url") not in (None, "", TYPE_URL):
        raise RequestError(_message("type_url", f"must be {TYPE_URL}", fields["type_url"]))
    names = fields.get("resource_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RequestError(_message("resource_names", "must be a list of strings", names))
    if not names:
        raise RequestError("resource_names: must name at least one pool")


def _message(field: str, rule: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return f'{field}: {rule}, got "{shown}"'


def assignment(pool: PoolView) -> dict[str, Any]:
    """Return the ClusterLoadAssignment of a pool: the targets that Envoy can be told of."""
    endpoints = [
        _endpoint(view, address)
        for view in pool.targets
        if (address := address_of(view)) is not None
    ]
    return {
        "@type": TYPE_URL,
        "cluster_name": pool.name,
        "endpoints": [{"lb_endpoints": endpoints}],
    }


def address_of(view: TargetView) -> tuple[str, int] | None:
    """Return IP address and port of a target; None for a host name, or one with a path."""
    host, _, port = view.target.rpartition(":")
    if not port.isdecimal():
        return None
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        return None


def _endpoint(view: TargetView, address: tuple[str, int]) -> dict[str, Any]:
    host, port = address
    return {
        "endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}},
        "health_status": health_status(view),
        "load_balancing_weight": load_balancing_weight(view),
    }


def health_status(view: TargetView) -> str:
    """Return Envoy's word for whether a target takes requests.

    A target that was not judged yet is UNKNOWN, which Envoy sends requests to. One that only
    single requests can bring back stays HEALTHY, at the lowest weight: they are the way back.
    """
    if view.state is State.DRAINING:
        return "DRAINING"
    if view.score is None:
        return "UNKNOWN"
    return "HEALTHY" if view.eligible or view.probe_only else "UNHEALTHY"


def load_balancing_weight(view: TargetView) -> int:
    """Return the weight of a target, 1 to 100; in full before it was judged."""
    weight = 1.0 if view.score is None else view.weight
    return max(DEEPEST_WEIGHT, round(FULL_WEIGHT * weight))
