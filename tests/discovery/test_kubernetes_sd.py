"""Targets behind EndpointSlices, from a small HTTP fake of the Kubernetes API."""

import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scorer.config.discovery import KubernetesSdConfig
from scorer.sources.discovery import kubernetes_sd
from scorer.sources.discovery.answers import Answer, Failure
from scorer.sources.discovery.kubernetes_sd import KubernetesSd
from tests.discovery.conftest import COMPANY_CA, Authority, company_server
from tests.discovery.kubernetes_api import KubernetesApi, endpoint, slice_of

pytestmark = pytest.mark.system


@pytest.fixture
def served() -> Iterator[Callable[..., KubernetesApi]]:
    """Return a function that starts an API with one slice of one endpoint."""
    started: list[KubernetesApi] = []

    def start(context: ssl.SSLContext | None = None) -> KubernetesApi:
        started.append(KubernetesApi(context))
        started[-1].put("ADDED", slice_of("chat-1", endpoint("10.0.0.1", "engine-1")))
        return started[-1]

    yield start
    for each in started:
        each.close()


Served = Callable[..., KubernetesApi]


@pytest.fixture
def api(served: Served) -> KubernetesApi:
    """Return an API over plain HTTP."""
    return served()


class Watch:
    """A provider in its thread, and the answers that it gave."""

    def __init__(self, api: KubernetesApi, **config: Any) -> None:
        self.api = api
        given = {"namespace": "llm", "port": 8000, "api_server": api.url, **config}
        self.provider = KubernetesSd(KubernetesSdConfig.model_validate(given))
        self._answers: queue.Queue[Answer] = queue.Queue()
        self._thread = threading.Thread(
            target=self.provider.watch, args=(self._answers.put,), daemon=True
        )
        self._thread.start()

    def next(self) -> list[str] | str:
        """Return the addresses of the next answer, or why there are none."""
        [found] = self._answers.get(timeout=20).values()
        if isinstance(found, Failure):
            return found.reason
        return [labels["__address__"] for labels in found]

    def until(self, wanted: list[str]) -> list[list[str] | str]:
        """Return the answers up to the one that is wanted."""
        seen = [self.next()]
        while seen[-1] != wanted:
            seen.append(self.next())
        return seen

    def ended(self) -> bool:
        """Close, and say whether the thread has ended."""
        self.provider.close()
        self._thread.join(0.05)
        return not self._thread.is_alive()


@pytest.fixture
def watch(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Watch]]:
    """Return a function that starts a watch which retries soon; each must end when closed."""
    monkeypatch.setattr(kubernetes_sd, "RETRY_FIRST", 0.05)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    started: list[Watch] = []

    def start(server: KubernetesApi = api, **config: Any) -> Watch:
        started.append(Watch(server, **config))
        return started[-1]

    yield start
    for each in started:
        # A watch that begins just as it is closed notices when its stream ends.
        while not each.ended():
            each.api.end_watches()


Start = Callable[..., Watch]


def watching(api: KubernetesApi) -> None:
    """Wait until a watch has begun."""
    assert api.watching.acquire(timeout=20)


def test_list_then_watch(api: KubernetesApi, watch: Start) -> None:
    """What is there at first is listed, what changes is told as it happens."""
    found = watch(label_selector="app=vllm")
    assert found.next() == ["10.0.0.1:8000"]
    watching(api)
    api.put("ADDED", slice_of("chat-2", endpoint("10.0.0.2", "engine-2")))
    assert found.next() == ["10.0.0.1:8000", "10.0.0.2:8000"]
    api.put("MODIFIED", slice_of("chat-1"))
    assert found.next() == ["10.0.0.2:8000"]
    api.put("DELETED", slice_of("chat-2"))
    assert found.next() == []


def test_requests_say_what_is_wanted(api: KubernetesApi, watch: Start) -> None:
    """The selector goes with both, the watch goes on from the version that was listed."""
    watch(label_selector="app=vllm").next()
    watching(api)
    [listed], [watched] = api.lists, api.watches
    assert listed["labelSelector"] == watched["labelSelector"] == ["app=vllm"]
    assert watched["resourceVersion"] == ["11"]
    assert watched["allowWatchBookmarks"][0].lower() == "true"
    assert watched["timeoutSeconds"] == ["60"]


def test_watch_that_ends_goes_on_where_it_was(api: KubernetesApi, watch: Start) -> None:
    """A watch whose time is over is taken up again; what happened in between is not lost."""
    found = watch()
    found.next()
    watching(api)
    api.end_watches()
    api.put("ADDED", slice_of("chat-2", endpoint("10.0.0.2", "engine-2")))
    assert found.until(["10.0.0.1:8000", "10.0.0.2:8000"])
    assert (len(api.lists), api.watches[-1]["resourceVersion"]) == (1, ["11"])


def test_bookmark_moves_the_version_on(api: KubernetesApi, watch: Start) -> None:
    """After a bookmark the next watch begins at its version."""
    found = watch()
    found.next()
    watching(api)
    api.bookmark()
    api.end_watches()
    watching(api)
    assert api.watches[-1]["resourceVersion"] == ["12"]


def test_version_that_is_gone_means_a_new_list(api: KubernetesApi, watch: Start) -> None:
    """410 Gone is no failure: everything is listed anew, and watched from there."""
    found = watch()
    found.next()
    watching(api)
    api.end_watches()
    api.put("MODIFIED", slice_of("chat-1", endpoint("10.0.0.9", "engine-9")))
    api.forget()
    seen = found.until(["10.0.0.9:8000"])
    assert all(isinstance(answer, list) for answer in seen)
    assert len(api.lists) == 2


def test_refusal_is_a_failure_with_the_words_of_the_server(
    api: KubernetesApi, watch: Start
) -> None:
    """A missing role says which one, and the watch begins once it is there."""
    api.refusal = 403, 'endpointslices is forbidden: User "x" cannot list resource'
    found = watch()
    reason = found.next()
    assert reason == (
        'status 403 Forbidden endpointslices is forbidden: User "x" cannot list resource'
    )
    api.refusal = None
    found.until(["10.0.0.1:8000"])


def test_server_that_is_down_is_a_failure(api: KubernetesApi, watch: Start) -> None:
    """A refused connection is told as one."""
    api.close()
    assert "refused" in watch().next()


def test_token_is_read_again(api: KubernetesApi, watch: Start, tmp_path: Path) -> None:
    """A service account's token is rotated while we watch."""
    token = tmp_path / "token"
    token.write_text("first")
    found = watch(authorization={"credentials_file": str(token)})
    found.next()
    watching(api)
    token.write_text("second")
    api.end_watches()
    watching(api)
    assert api.authorizations == ["Bearer first", "Bearer first", "Bearer second"]


def test_missing_token_names_its_file(watch: Start, tmp_path: Path) -> None:
    """The failure says which file, as for a scrape."""
    found = watch(authorization={"credentials_file": str(tmp_path / "none")})
    assert found.next() == (
        f"credentials_file {tmp_path}/none cannot be read: No such file or directory"
    )


def test_slices_without_endpoints_are_read(api: KubernetesApi, watch: Start) -> None:
    """The API writes null where a Service has no endpoint."""
    found = watch()
    found.next()
    watching(api)
    api.put("MODIFIED", slice_of("chat-1", endpoints=None))
    assert found.next() == []


def test_outside_a_cluster_the_server_must_be_named(
    api: KubernetesApi, watch: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a server and without a cluster around it there is nobody to ask."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "api_server must be given" in watch(api_server=None).next()


def test_inside_a_cluster_the_service_account_is_used(
    api: KubernetesApi, watch: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Server, token and CA are those that a pod finds in itself."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(kubernetes_sd, "SERVICE_ACCOUNT", str(tmp_path))
    config = KubernetesSdConfig.model_validate({"namespace": "llm", "port": 1})
    server, identity = KubernetesSd(config)._server()
    assert server == "https://[fd00::1]:443"
    assert identity.authorization is not None
    assert identity.authorization.credentials_file == f"{tmp_path}/token"
    assert identity.tls_config.ca_file == f"{tmp_path}/ca.crt"


def test_authority_without_key_identifiers_is_trusted(served: Served, watch: Start) -> None:
    """Clusters have such authorities, which strict checks of newer Python releases refuse."""
    found = watch(served(company_server()), tls_config={"ca_file": str(COMPANY_CA)})
    assert found.next() == ["10.0.0.1:8000"]


def test_certificate_of_the_server_may_be_the_ca_file(
    served: Served, watch: Start, authority: Authority
) -> None:
    """A server's own certificate is enough, whoever has signed it."""
    certificate, key = authority.issued("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    found = watch(served(context), tls_config={"ca_file": str(certificate)})
    assert found.next() == ["10.0.0.1:8000"]


def test_unknown_authority_and_other_name_are_refused(
    served: Served, watch: Start, authority: Authority
) -> None:
    """Without a CA file only public authorities are trusted; the name must be the server's."""
    server = served(authority.server("kubernetes.test"))
    assert "unable to get local issuer certificate" in watch(server).next()
    trusted = {"ca_file": str(authority.file)}
    assert "not valid for '127.0.0.1'" in watch(server, tls_config=trusted).next()
    named = {**trusted, "server_name": "kubernetes.test"}
    assert watch(server, tls_config=named).next() == ["10.0.0.1:8000"]
    assert watch(server, tls_config={"insecure_skip_verify": True}).next() == ["10.0.0.1:8000"]


def test_missing_ca_file_is_named(served: Served, watch: Start, tmp_path: Path) -> None:
    """The failure says which file, as for a scrape."""
    found = watch(served(company_server()), tls_config={"ca_file": str(tmp_path / "none")})
    assert found.next() == f"ca_file {tmp_path}/none cannot be read: No such file or directory"


def test_client_certificate_is_read_again(
    served: Served, watch: Start, authority: Authority, tmp_path: Path
) -> None:
    """A certificate that is replaced while we watch is shown from the next watch on."""
    server = served(authority.server("127.0.0.1", clients=True))
    shown = tmp_path / "client.pem", tmp_path / "client.key"

    def show(name: str) -> None:
        for source, file in zip(authority.client(name), shown, strict=True):
            file.write_bytes(source.read_bytes())

    show("first")
    tls = {"ca_file": str(authority.file), "cert_file": str(shown[0]), "key_file": str(shown[1])}
    watch(server, tls_config=tls).next()
    watching(server)
    show("second")
    server.end_watches()
    watching(server)
    assert server.certificates == [
        "first@example.org", "first@example.org", "second@example.org",
    ]  # fmt: skip
