"""Targets behind EndpointSlices: listed once, then watched.

A watch goes on from the version it has seen; a server that no longer knows that version
(410 Gone) is asked for the whole list again, and so is one that failed.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import urllib3

from scorer.config.discovery import KubernetesSdConfig
from scorer.config.http_client import Authorization, HttpClientConfig, TlsConfig
from scorer.sources.discovery.answers import Answer, Failure
from scorer.sources.discovery.endpoints import Slice, endpoint_labels
from scorer.sources.http_client import HttpClient, Tls, UnusableFileError, context_of

WATCH_FOR = 60
"""Seconds after which a watch ends and the next begins, so that a lost connection shows."""
CONNECT_WITHIN, ANSWER_WITHIN = 5.0, 10.0
RETRY_FIRST, RETRY_LAST = 1.0, 30.0
"""Seconds to wait after the first failure, doubled with each that follows, up to the last."""
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
GONE = 410


class WatchError(Exception):
    """The API cannot be used; its text says why."""


class KubernetesSd:
    """Watches the EndpointSlices of one ``kubernetes_sd_configs`` entry."""

    def __init__(self, config: KubernetesSdConfig, watch_for: int = WATCH_FOR) -> None:
        selector = f" {config.label_selector}" if config.label_selector else ""
        self.name = f"namespace {config.namespace}{selector}"
        self._config = config
        self._watch_for = watch_for
        self._closed = threading.Event()
        self._watch: Any = None

    def close(self) -> None:
        """End the watch; its thread ends with it."""
        self._closed.set()
        if self._watch is not None:
            self._watch.stop()

    def watch(self, tell: Callable[[Answer], object]) -> None:
        """Call ``tell`` with each answer until closed."""
        wait = RETRY_FIRST
        while not self._closed.is_set():
            try:
                for slices in self._follow():
                    tell({self.name: endpoint_labels(slices, self._config.port)})
                    wait = RETRY_FIRST
            except Exception as error:  # noqa: BLE001 - whatever it is, the watch goes on
                tell({self.name: Failure(_explained(error))})
                self._closed.wait(wait)
                wait = min(2 * wait, RETRY_LAST)

    def _follow(self) -> Iterable[list[Slice]]:
        """Yield all slices at first, after each change, and whenever a watch ends well."""
        api, renew = self._connected()
        slices, version = self._listed(api)
        yield list(slices.values())
        while not self._closed.is_set():
            renew()
            began = time.monotonic()
            try:
                for event in self._events(api, version):
                    slice_ = event["raw_object"]
                    version = slice_["metadata"]["resourceVersion"]
                    if _changes(slices, event["type"], slice_):
                        yield list(slices.values())
            except Exception as error:
                if getattr(error, "status", None) != GONE:
                    raise
                renew()
                slices, version = self._listed(api)
            yield list(slices.values())
            if time.monotonic() - began < RETRY_FIRST:
                self._closed.wait(RETRY_FIRST)

    def _events(self, api: Any, version: str) -> Iterable[dict[str, Any]]:  # noqa: ANN401
        from kubernetes import watch  # noqa: PLC0415 - slow to import, and optional

        # As plain objects: a Service without endpoints has slices that its models refuse.
        self._watch = watch.Watch(return_type="object")
        events: Iterable[dict[str, Any]] = self._watch.stream(
            api.list_namespaced_endpoint_slice,
            self._config.namespace,
            label_selector=self._config.label_selector,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=self._watch_for,
            _request_timeout=(CONNECT_WITHIN, self._watch_for + ANSWER_WITHIN),
        )
        return events

    def _listed(self, api: Any) -> tuple[dict[str, Slice], str]:  # noqa: ANN401
        """Return all slices by name, and the version that the list shows."""
        response = api.list_namespaced_endpoint_slice(
            self._config.namespace,
            label_selector=self._config.label_selector,
            _request_timeout=(CONNECT_WITHIN, ANSWER_WITHIN),
            _preload_content=False,
        )
        if response.status != 200:
            raise WatchError(_said(response.status, response.reason, response.data))
        document = json.loads(response.data)
        slices = {each["metadata"]["name"]: each for each in document.get("items") or []}
        return slices, document["metadata"]["resourceVersion"]

    def _connected(self) -> tuple[Any, Callable[[], None]]:
        """Return the API, and a function that renews what its requests show and trust."""
        from kubernetes import client  # noqa: PLC0415 - slow to import, and optional

        server, identity = self._server()
        settings = client.Configuration()
        settings.host = server
        settings.proxy = None
        api_client = client.ApiClient(settings)
        identified = HttpClient(identity)

        def use(tls: Tls) -> None:
            # The client takes no context, and how strict its own is depends on the Python release.
            api_client.rest_client.pool_manager.clear()
            api_client.rest_client.pool_manager = urllib3.PoolManager(
                retries=False, ssl_context=tls.context, server_hostname=tls.server_name or None
            )

        def renew() -> None:
            header = identified.authorization()
            if header is not None:
                api_client.set_default_header("Authorization", header)
            tls = identified.changed_tls()
            if tls is not None:
                use(tls)

        use(identified.changed_tls() or Tls(context_of(identity.tls_config, ()), server_name=""))
        renew()
        return client.DiscoveryV1Api(api_client), renew

    def _server(self) -> tuple[str, HttpClientConfig]:
        """Return the server and who we are to it: as configured, or as the pod that we are."""
        if self._config.api_server is not None:
            return self._config.api_server, self._config.http_client()
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{key}") for key in ("HOST", "PORT"))
        if not host or not port:
            raise WatchError("not in a cluster: api_server must be given")
        identity = HttpClientConfig(
            authorization=Authorization(credentials_file=f"{SERVICE_ACCOUNT}/token"),
            tls_config=TlsConfig(ca_file=f"{SERVICE_ACCOUNT}/ca.crt"),
        )
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", identity


def _changes(slices: dict[str, Slice], kind: str, slice_: Slice) -> bool:
    """Apply an event; return whether it is a change rather than a mere sign of life."""
    if kind == "BOOKMARK":
        return False
    name = slice_["metadata"]["name"]
    if kind == "DELETED":
        slices.pop(name, None)
    else:
        slices[name] = slice_
    return True


def _explained(error: Exception) -> str:
    """Return why the API cannot be used, as one line without headers or certificates."""
    if isinstance(error, UnusableFileError):
        return error.failure.detail
    status = getattr(error, "status", None)
    if status:
        return _said(status, getattr(error, "reason", ""), getattr(error, "body", None))
    text = getattr(error, "reason", None) or error
    return f"{type(error).__name__}: {' '.join(str(text).split())[:200]}"


def _said(status: int, reason: str | None, body: bytes | str | None) -> str:
    """Return status and reason, and the server's own words when it has any."""
    try:
        message = json.loads(body or "")["message"]
    except (ValueError, KeyError, TypeError):
        message = ""
    return " ".join(f"status {status} {reason or ''} {message}".split())[:300]
