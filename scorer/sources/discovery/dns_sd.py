"""Targets that DNS names resolve to: SRV records with their ports, or A and AAAA with ours.

A name that exists without such records is an empty answer. Everything else that is no
record is a failure, a name that does not exist (NXDOMAIN) included: a zone that was
loaded wrongly must not empty a pool.
"""

import time
from collections.abc import Callable

import dns.exception
import dns.name
import dns.nameserver
import dns.rdata
import dns.resolver
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from dns.rdtypes.IN.SRV import SRV

from scorer.config.discovery import DnsSdConfig, parse_nameserver
from scorer.sources.discovery.answers import Answer, Failure, LabelSets
from scorer.sources.discovery.groups import ADDRESS

RETRY = 10.0
"""Seconds until a name that failed is asked for again, if that is sooner than the interval."""
DEADLINE = 0.8
"""Share of the time until the next refresh, that all names together may take."""
LONGEST = 5.0
"""Seconds that one name may take, all servers and search domains included."""
NO_TIME = Failure("other names took all the time there is for a refresh")
NAME = "__meta_dns_name"
SRV_TARGET = "__meta_dns_srv_record_target"
SRV_PORT = "__meta_dns_srv_record_port"


class DnsSd:
    """Resolves the names of one ``dns_sd_configs`` entry."""

    def __init__(
        self,
        config: DnsSdConfig,
        longest: float = LONGEST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"{config.type} {', '.join(config.names)}"
        self.interval = config.refresh_interval
        self.retry = min(RETRY, self.interval)
        self._config = config
        self._longest = longest
        self._clock = clock

    def ask(self) -> Answer:
        """Return the targets of each name."""
        try:
            resolver = self._resolver()
        except (dns.exception.DNSException, OSError) as error:
            failure = Failure(f"no name server is known: {error}")
            return dict.fromkeys(self._config.names, failure)
        until = self._clock() + DEADLINE * self.retry
        answer: dict[str, LabelSets | Failure] = {}
        for name in self._config.names:
            left = min(self._longest, until - self._clock())
            answer[name] = self._resolved(resolver, name, left) if left > 0 else NO_TIME
        return answer

    def close(self) -> None:
        """Hold nothing."""

    def _resolver(self) -> dns.resolver.Resolver:
        """Return a resolver; the system's configuration is read each time, it may change."""
        configured = [parse_nameserver(text) for text in self._config.nameservers]
        resolver = dns.resolver.Resolver(configure=not configured)
        if configured:
            resolver.nameservers = [
                dns.nameserver.Do53Nameserver(address, port) for address, port in configured
            ]
        return resolver

    def _resolved(
        self, resolver: dns.resolver.Resolver, name: str, seconds: float
    ) -> LabelSets | Failure:
        resolver.timeout = seconds / 2  # of one server, so that another one gets its turn
        try:
            answer = resolver.resolve(
                name,
                self._config.type,
                search=not self._config.nameservers,
                raise_on_no_answer=False,
                lifetime=seconds,
            )
        except dns.resolver.NXDOMAIN:
            return Failure(f"{name} does not exist (NXDOMAIN)")
        except dns.resolver.LifetimeTimeout:
            return Failure(f"no answer for {name} within {seconds:.3g}s")
        except (dns.exception.DNSException, OSError) as error:
            return Failure(f"{name} cannot be resolved: {' '.join(str(error).split())[:200]}")
        found = [self._labels(name, record) for record in answer.rrset or ()]
        return tuple(sorted(filter(None, found), key=_address))

    def _labels(self, name: str, record: dns.rdata.Rdata) -> dict[str, str]:
        """Return the labels of a record, none for one that says that nothing is there."""
        labels = {NAME: name}
        if isinstance(record, SRV):
            if record.target == dns.name.root:
                return {}
            host, port = record.target.to_text(omit_final_dot=True), record.port
            labels |= {SRV_TARGET: record.target.to_text(), SRV_PORT: str(port)}
        elif isinstance(record, A | AAAA):
            host, port = record.address, self._config.port or 0
        else:
            return {}
        host = f"[{host}]" if ":" in host else host
        return {ADDRESS: f"{host}:{port}", **labels}


def _address(labels: dict[str, str]) -> str:
    return labels[ADDRESS]
