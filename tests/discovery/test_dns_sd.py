"""Targets that a real DNS server resolves names to."""

import socket
from pathlib import Path
from typing import Any

import dns.resolver
import pytest

from scorer.config.discovery import DnsSdConfig
from scorer.sources.discovery.answers import Failure
from scorer.sources.discovery.dns_sd import DnsSd
from tests.waited import Waited

pytestmark = pytest.mark.system


def ask(nameserver: str, *names: str, longest: float = 5.0, **more: Any) -> dict[str, Any]:
    """Return the addresses of each name, or why there are none."""
    config = {"names": list(names), "nameservers": [nameserver], **more}
    answer = DnsSd(DnsSdConfig.model_validate(config), longest).ask()
    return {
        name: found.reason
        if isinstance(found, Failure)
        else [labels["__address__"] for labels in found]
        for name, found in answer.items()
    }


def test_srv_records_have_their_own_ports(nameserver: str) -> None:
    """Host and port of each record, in a stable order."""
    assert ask(nameserver, "_vllm._tcp.llm.test") == {
        "_vllm._tcp.llm.test": ["engine-1.llm.test:8000", "engine-2.llm.test:8001"]
    }


def test_labels_of_a_srv_record(nameserver: str) -> None:
    """As Prometheus names them."""
    config = DnsSdConfig(names=("_vllm._tcp.llm.test",), nameservers=(nameserver,))
    [found] = DnsSd(config).ask().values()
    assert not isinstance(found, Failure)
    assert found[0] == {
        "__address__": "engine-1.llm.test:8000",
        "__meta_dns_name": "_vllm._tcp.llm.test",
        "__meta_dns_srv_record_target": "engine-1.llm.test.",
        "__meta_dns_srv_record_port": "8000",
    }


def test_srv_record_that_says_there_is_nothing(nameserver: str) -> None:
    """A target of ``.`` means that the service is decidedly not there: an empty answer."""
    assert ask(nameserver, "_none._tcp.llm.test") == {"_none._tcp.llm.test": []}


def test_a_records_take_the_port_of_the_configuration(nameserver: str) -> None:
    """Every address of the name is a target."""
    assert ask(nameserver, "pool.llm.test", type="A", port=8000) == {
        "pool.llm.test": ["10.0.0.1:8000", "10.0.0.2:8000"]
    }


def test_aaaa_records_are_in_brackets(nameserver: str) -> None:
    """An IPv6 address with a port is one that can be used."""
    assert ask(nameserver, "engine-1.llm.test", type="AAAA", port=8000) == {
        "engine-1.llm.test": ["[fd00::1]:8000"]
    }


def test_name_without_such_records_is_an_empty_answer(nameserver: str) -> None:
    """The name is there and has no address of that kind."""
    assert ask(nameserver, "only4.llm.test", type="AAAA", port=1) == {"only4.llm.test": []}


def test_name_that_does_not_exist_is_a_failure(nameserver: str) -> None:
    """NXDOMAIN is no answer, and costs the other names nothing."""
    assert ask(nameserver, "no.llm.test", "only4.llm.test", type="A", port=1) == {
        "no.llm.test": "no.llm.test does not exist (NXDOMAIN)",
        "only4.llm.test": ["10.0.0.4:1"],
    }


def test_refusal_of_the_server_is_a_failure(nameserver: str) -> None:
    """A server that knows nobody to ask says REFUSED."""
    [reason] = ask(nameserver, "example.org", type="A", port=1).values()
    assert reason.startswith("example.org cannot be resolved: ")


def test_long_answer_comes_whole(nameserver: str) -> None:
    """An answer that does not fit into a datagram is asked for again over TCP."""
    [found] = ask(nameserver, "many.llm.test", type="A", port=1).values()
    assert len(found) == 600


def test_silent_server_is_given_up() -> None:
    """A server that says nothing is a failure within the deadline."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waited = Waited()
        found = ask(address, "a.test", type="A", port=1, longest=0.3)
    assert found == {"a.test": "no answer for a.test within 0.3s"}
    assert waited.seconds < 3.0


def test_silent_server_does_not_hold_up_the_next_refresh() -> None:
    """All names together have a deadline, however many of them are not answered."""
    names = [f"name-{number}.test" for number in range(10)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waited = Waited()
        found = ask(address, *names, type="A", port=1, longest=0.3, refresh_interval="1s")
    assert waited.seconds < 1.5
    assert found[names[-1]] == "other names took all the time there is for a refresh"


def test_system_resolver_is_used_by_default(
    nameserver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name servers and search domains come from resolv.conf, read for every refresh."""
    address, _, port = nameserver.rpartition(":")
    resolv = tmp_path / "resolv.conf"
    resolv.write_text(f"nameserver {address}\nsearch llm.test\n")

    class Configured(dns.resolver.Resolver):
        def __init__(self, *, configure: bool) -> None:
            super().__init__(filename=str(resolv), configure=configure)
            self.port = int(port)

    monkeypatch.setattr(dns.resolver, "Resolver", Configured)
    found = DnsSd(DnsSdConfig(names=("only4",), type="A", port=8000))
    assert [[labels["__address__"] for labels in each] for each in found.ask().values()] == [
        ["10.0.0.4:8000"]
    ]
    resolv.write_text("")
    [failure] = found.ask().values()
    assert isinstance(failure, Failure)
