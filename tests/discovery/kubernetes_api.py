"""A fake of the Kubernetes API: EndpointSlices of a namespace, listed and watched over HTTP."""

import json
import queue
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.system.conftest import free_port

PATH = "/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices"


def endpoint(address: str, pod: str = "", **conditions: bool) -> dict[str, Any]:
    """Return an endpoint with its pod and conditions; ready unless told otherwise."""
    found: dict[str, Any] = {
        "addresses": [address],
        "conditions": {"ready": True, "serving": True, "terminating": False, **conditions},
        "nodeName": "node-1",
        "zone": "zone-a",
    }
    if pod:
        found["targetRef"] = {"kind": "Pod", "name": pod, "uid": f"uid-{pod}", "namespace": "llm"}
    return found


def slice_of(name: str, *endpoints: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an EndpointSlice with port 8000 named http."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "llm",
            "labels": {"app": "vllm", "kubernetes.io/service-name": "chat"},
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        **more,
    }


class KubernetesApi:
    """Lists and watches the slices that a test puts into it; every change has a version."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.version = 10
        self.slices: dict[str, dict[str, Any]] = {}
        self.refusal: tuple[int, str] | None = None
        self.oldest = 0
        self.lists: list[dict[str, list[str]]] = []
        self.watches: list[dict[str, list[str]]] = []
        self.authorizations: list[str | None] = []
        self.certificates: list[str] = []
        self.watching = threading.Semaphore(0)
        self._events: list[tuple[int, dict[str, Any]]] = []
        self._streams: list[queue.Queue[bytes | None]] = []
        self._lock = threading.Lock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.authorizations.append(self.headers.get("Authorization"))
                if isinstance(self.connection, ssl.SSLSocket):
                    shown = self.connection.getpeercert() or {}
                    api.certificates += [name for _, name in shown.get("subjectAltName", ())]
                url = urlsplit(self.path)
                query = parse_qs(url.query)
                if url.path != PATH:
                    api.send_status(self, 404, "NotFound", f"no such path: {url.path}")
                elif api.refusal:
                    api.send_status(self, api.refusal[0], "Forbidden", api.refusal[1])
                elif query.get("watch", [""])[0].lower() == "true":
                    api.send_watch(self, query)
                else:
                    api.send_list(self, query)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self._server.daemon_threads = True
        if context is not None:
            # The handshake belongs to the connection's own thread: one that fails harms no other.
            self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def put(self, kind: str, found: dict[str, Any]) -> None:
        """Apply a change (ADDED, MODIFIED or DELETED) and tell whoever watches."""
        with self._lock:
            self.version += 1
            name = found["metadata"]["name"]
            found = {
                **found,
                "metadata": {**found["metadata"], "resourceVersion": str(self.version)},
            }
            if kind == "DELETED":
                self.slices.pop(name)
            else:
                self.slices[name] = found
            self._events.append((self.version, {"type": kind, "object": found}))
            self._tell(self._events[-1][1])

    def bookmark(self) -> None:
        """Tell whoever watches the version of the moment."""
        with self._lock:
            self.version += 1
            metadata = {"resourceVersion": str(self.version), "creationTimestamp": None}
            self._tell({"type": "BOOKMARK", "object": {"metadata": metadata}})

    def end_watches(self) -> None:
        """End every watch, as the API does when its time is over."""
        with self._lock:
            for stream in self._streams:
                stream.put(None)
            self._streams.clear()

    def forget(self) -> None:
        """Know nothing older than the version of the moment: older watches are Gone."""
        self.oldest = self.version

    def _tell(self, event: dict[str, Any]) -> None:
        for stream in self._streams:
            stream.put(json.dumps(event).encode() + b"\n")

    def send_status(
        self, handler: BaseHTTPRequestHandler, code: int, reason: str, message: str
    ) -> None:
        """Answer with a Status object."""
        body = json.dumps(
            {"kind": "Status", "code": code, "reason": reason, "message": message}
        ).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def send_list(self, handler: BaseHTTPRequestHandler, query: dict[str, list[str]]) -> None:
        """Answer with all slices."""
        with self._lock:
            self.lists.append(query)
            body = json.dumps(
                {
                    "kind": "EndpointSliceList",
                    "apiVersion": "discovery.k8s.io/v1",
                    "metadata": {"resourceVersion": str(self.version)},
                    "items": list(self.slices.values()),
                }
            ).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def send_watch(self, handler: BaseHTTPRequestHandler, query: dict[str, list[str]]) -> None:
        """Send events as they happen until the watch is ended."""
        since = int(query["resourceVersion"][0])
        stream: queue.Queue[bytes | None] = queue.Queue()
        with self._lock:
            self.watches.append(query)
            if since < self.oldest:
                gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                stream.put(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                stream.put(None)
            else:
                for version, event in self._events:
                    if version > since:
                        stream.put(json.dumps(event).encode() + b"\n")
                self._streams.append(stream)
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.flush()
        self.watching.release()
        while (line := stream.get()) is not None:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Stop; later connections are refused."""
        self.end_watches()
        self._server.shutdown()
        self._server.server_close()
