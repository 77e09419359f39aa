"""The engines of a page that has several, each by itself.

Load is added up over them, so one that stands still beside one that moves is seen only
here.
"""

from collections.abc import Iterator, Mapping

from scorer.core.samples import NO_PARTS, Part
from scorer.mappings.engine import Mapping as EngineMapping
from scorer.mappings.rows import Rows
from scorer.sources.view import View


def parts_of(view: View, mapping: EngineMapping) -> Mapping[str, Part]:
    """Return the engines that the label ``parts`` tells apart; none where it tells one or none."""
    if mapping.parts is None:
        return NO_PARTS
    progress: dict[str, float] = {}
    for name, value in _values(view, mapping.progress, mapping.parts):
        progress[name] = progress.get(name, 0.0) + value
    if len(progress) < 2:
        return NO_PARTS
    signals = mapping.signals
    load = (*signals.running[:1], *signals.waiting[:1])
    working = {name for name, value in _values(view, load, mapping.parts) if value > 0.0}
    return {name: Part(name in working, total) for name, total in progress.items()}


def _values(view: View, sources: tuple[Rows, ...], label: str) -> Iterator[tuple[str, float]]:
    for source in sources:
        for row in view.chosen(source):
            if (name := row.labels.get(label)) is not None:
                yield name, row.value
