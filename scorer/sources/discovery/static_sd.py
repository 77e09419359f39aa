"""Targets written in the configuration itself."""

from scorer.config.discovery import StaticConfig
from scorer.sources.discovery.answers import Answer
from scorer.sources.discovery.groups import ADDRESS


class StaticSd:
    """The targets of one ``static_configs`` entry: one answer that never changes."""

    name = "configuration file"

    def __init__(self, config: StaticConfig) -> None:
        self.answer: Answer = {
            "": tuple({**config.labels, ADDRESS: target} for target in config.targets)
        }

    def close(self) -> None:
        """Hold nothing."""
