"""``/api/v1/sd/<pool>``: a pool's targets in the format of Prometheus' ``http_sd_configs``.

One group per target, its address that of its metrics, so that Prometheus scrapes the
engines themselves with no rule; ``pool`` and ``target`` are the labels that our own series
carry, so that both join.
"""

from collections.abc import Sequence

from scorer.discovered import ListedTarget


def groups(pool: str, listed: Sequence[ListedTarget]) -> list[dict[str, object]]:
    """Return the target groups of ``pool``, one per target."""
    return [_group(pool, target) for target in listed]


def _group(pool: str, listed: ListedTarget) -> dict[str, object]:
    scheme, _, netloc = listed.metrics_site.partition("://")
    labels = {
        **listed.labels,
        "pool": pool,
        "target": listed.target,
        "__scheme__": scheme,
        "__metrics_path__": listed.metrics_path,
    }
    return {
        "targets": [netloc],
        "labels": {name: value for name, value in labels.items() if value},
    }
