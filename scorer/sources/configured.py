"""What a configuration says of one target or gateway, as what is read.

The daemon and the doctor both read so, and the one sees what the other does.
"""

from collections.abc import Callable, Iterator

from scorer.config import Config
from scorer.config.gateways import GatewayConfig
from scorer.config.pool import PoolConfig
from scorer.config.prometheus import PrometheusConfig
from scorer.core.vocabulary import Engine
from scorer.discovered import DiscoveredTarget
from scorer.sources.discovery.groups import ADDRESS, LabelSet
from scorer.sources.discovery.resolve import Resolver, UnusableTargetError
from scorer.sources.fetch import Fetcher
from scorer.sources.gateway import ReadPage, page_reader, series_reader
from scorer.sources.places import ScrapeTarget
from scorer.sources.prometheus import PoolQuestion, PrometheusSource
from scorer.sources.prometheus_api import PrometheusApi


def scrape_target(found: DiscoveredTarget, pool: PoolConfig, config: Config) -> ScrapeTarget:
    """Return how a target of ``pool`` is scraped: where, as whom, how long, read by what."""
    return ScrapeTarget(
        site=found.metrics_site(),
        timeout=config.timeout(pool),
        path=found.metrics_path or pool.metrics_path,
        client=pool.http_client(),
        paced=pool.scrape_interval is None and pool.scrape_timeout is None,
        models=pool.models,
        engine=pool.only_engine,
        mappings=pool.known_mappings(config.mappings),
    )


def pool_question(pool: PoolConfig, config: Config, server: PrometheusConfig) -> PoolQuestion:
    """Return what Prometheus is asked for a pool whose source it is."""
    queries = pool.prometheus
    return PoolQuestion(
        engine=pool.only_engine or Engine.OTHER,
        mappings=pool.known_mappings(config.mappings),
        models=pool.models,
        selector=queries.selector,
        own=server.queries_of(queries),
        instance_label=queries.instance_label,
        max_age=queries.max_age,
    )


def pool_source(question: PoolQuestion, server: PrometheusConfig) -> PrometheusSource:
    """Return what asks a Prometheus server."""
    api = PrometheusApi(server.url, server.timeout, server.http_client())
    return PrometheusSource(api, question)


def static_label_sets(pool: PoolConfig) -> Iterator[LabelSet]:
    """Yield the labels of each target that is written in the file."""
    for static in pool.static_configs:
        for target in static.targets:
            yield {**static.labels, ADDRESS: target}


def resolved(labels: LabelSet, pool: PoolConfig) -> DiscoveredTarget:
    """Return the target that a label set names in ``pool``; UnusableTargetError when none."""
    found = Resolver(pool).resolve(labels)
    if found is None:
        raise UnusableTargetError("relabel_configs of the pool drop it")
    return found


def gateway_reader(gateway: GatewayConfig, config: Config) -> tuple[ReadPage, Callable[[], None]]:
    """Return how a gateway is read, from its page or from Prometheus, and what closes it."""
    rules, server = gateway.rules(), config.prometheus
    if gateway.metrics_url or server is None:
        timeout = gateway.scrape_timeout or config.global_.scrape_timeout
        fetcher = Fetcher(gateway.metrics_url or "", timeout, client=gateway.http_client())
        return page_reader(fetcher, rules), fetcher.close
    api = PrometheusApi(server.url, server.timeout, server.http_client())
    return series_reader(api, server.timeout, rules, gateway.selector), api.close
