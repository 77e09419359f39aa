"""Parts of queries that several panels share."""

from panels import STATES

POOL = 'job=~"$job", pool=~"$pool"'
KNOWN = f'{POOL}, pool!=""'
"""Without the pick requests whose pool is not known."""
TARGETS = f'{POOL}, target=~"$target"'
"""Of the variable ``target`` where it may be several."""
ONE_TARGET = f'{POOL}, target="$target"'
"""Where it is one: an address such as ``[fd00::2]:8000`` is no regular expression."""
REPLICAS = 'job=~"$job", instance=~"$instance"'
EACH = "{{pool}} / {{target}}"
RATE = "$__rate_interval"


def state_code(chosen: str) -> str:
    """Return the query for the number of each target's state."""
    return " + ".join(
        f'{number} * max by (pool, target) (scorer_target_state{{{chosen}, state="{name}"}})'
        for number, (name, _) in STATES.items()
        if number
    )


def quantile(share: float, by: str, metric: str, chosen: str) -> str:
    """Return the query for a quantile of a histogram by the labels ``by`` (none for all)."""
    labels = f"{by}, le" if by else "le"
    buckets = f"rate({metric}_bucket{{{chosen}}}[{RATE}])"
    return f"histogram_quantile({share}, sum by ({labels}) ({buckets}))"
