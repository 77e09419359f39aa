"""Configuration: one YAML file into frozen models, strict, every error at once.

Unknown keys are errors, nothing is replaced by a default, and each error names the
path, the rule and the value (``pools[0].scrape_timeout: must be less than
scrape_interval (1s), got 2s``). How errors are found and worded is in
:mod:`scorer.config.errors`; the modules beside it say what the file means.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, PrivateAttr, ValidationError

from scorer.config.document import load_yaml, where_and_what
from scorer.config.engines import Mappings
from scorer.config.errors import ConfigError, problems_across, problems_of
from scorer.config.exporters import ExportersConfig
from scorer.config.feedback import FeedbackConfig
from scorer.config.files import (
    KeptFile,
    KeptPath,
    OptionalFilePath,
    read_file,
    unmatched,
    unwritable,
)
from scorer.config.gateways import Gateways, problems_of_gateways
from scorer.config.http_client import unverified
from scorer.config.pool import PoolConfig
from scorer.config.prometheus import PrometheusConfig, problems_without_prometheus
from scorer.config.types import (
    Deadline,
    FileMode,
    Interval,
    ListenAddress,
    SocketPath,
    Strict,
)
from scorer.discovered import Mechanism

PIPE_PATIENCE = 5.0
"""Seconds for which a configuration that comes through a pipe is waited for."""

_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


class GlobalConfig(Strict):
    """Defaults of every pool, in seconds, and where the daemon's memory survives a restart."""

    scrape_interval: Interval = 1.0
    scrape_timeout: Deadline = 0.8
    state_file: KeptPath = KeptFile()


class UnixSocketConfig(Strict):
    """Where the listener for this machine is, if anywhere, and who may connect to it."""

    path: SocketPath = ""
    mode: FileMode = 0o660


class WebConfig(Strict):
    """Where the listener is, its Unix socket, and the token that operators must know, if any."""

    listen_address: ListenAddress = "0.0.0.0:9808"
    unix_socket: UnixSocketConfig = UnixSocketConfig()
    admin_token_file: OptionalFilePath = ""


class Config(Strict):
    """The whole file."""

    global_: GlobalConfig = Field(default=GlobalConfig(), alias="global")
    web: WebConfig = WebConfig()
    mappings: Mappings = ()
    gateways: Gateways = ()
    prometheus: PrometheusConfig | None = None
    feedback: FeedbackConfig = FeedbackConfig()
    exporters: ExportersConfig = ExportersConfig()
    pools: Annotated[tuple[PoolConfig, ...], Field(strict=False, min_length=1)]
    _document: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def document(self) -> dict[str, Any]:
        """Return what the file has, as plain values."""
        return self._document

    def interval(self, pool: PoolConfig) -> float:
        """Return the seconds between two scrapes of a target of ``pool``."""
        return pool.scrape_interval or self.global_.scrape_interval

    def timeout(self, pool: PoolConfig) -> float:
        """Return the total deadline of a scrape in ``pool``, in seconds."""
        return pool.scrape_timeout or self.global_.scrape_timeout

    def warnings(self) -> list[str]:
        """Return what is allowed and probably not meant, one line each."""
        empty = [
            f"pools[{index}].static_configs: names no target"
            for index, pool in enumerate(self.pools)
            if pool.static_configs and not pool.static_targets()
        ]
        hidden = [
            f"pools[{index}].models: {both} is served by pool {earlier.name} too, "
            f"which comes first and gets its requests"
            for index, pool in enumerate(self.pools)
            for earlier in self.pools[:index]
            if (both := _served_by_both(earlier.models, pool.models))
        ]
        nameless = self._nameless_gateways()
        udp = self.feedback.warnings()
        files = [*unmatched(self), *unwritable(self)]
        return [*empty, *hidden, *nameless, *udp, *files, *unverified(self)]

    def _nameless_gateways(self) -> list[str]:
        """Return which gateways tell nothing, because their rows name no target."""
        found = []
        for index, gateway in enumerate(self.gateways):
            pools = [each for each in self.pools if gateway.pool in (None, each.name)]
            if gateway.pool_of_one and not (len(pools) == 1 and _may_be_one(pools[0])):
                found.append(
                    f"gateways[{index}]: {gateway.preset or gateway.name} names no instance, so it "
                    "can only serve a pool of one target: name that pool, or its TTFT is not used"
                )
        return found


def _may_be_one(pool: PoolConfig) -> bool:
    """Whether a pool has one target as far as the file tells."""
    dynamic = any(configs for kind, configs in pool.mechanisms() if kind is not Mechanism.STATIC)
    return len(set(pool.static_targets())) == 1 or dynamic


def _served_by_both(first: tuple[str, ...], second: tuple[str, ...]) -> str:
    """Return a model that two pools serve as far as their globs tell, or nothing."""
    if not first or not second:
        return "any model" if not first and not second else ", ".join(first or second)
    return ", ".join(model for model in second if any(fnmatchcase(model, glob) for glob in first))


def parse_config(text: str, folder: str | Path = "") -> Config:
    """Return the configuration that ``text`` holds; ConfigError lists every problem.

    Relative paths in it are relative to ``folder``.
    """
    document = load_yaml(text)
    across = [
        *problems_across(document),
        *problems_of_gateways(document),
        *problems_without_prometheus(document),
    ]
    try:
        config = Config.model_validate(document, context={"folder": folder})
    except ValidationError as error:
        raise ConfigError([*problems_of(error, Config), *across]) from None
    if across:
        raise ConfigError(across)
    _derive(config)
    config._document = document  # noqa: SLF001 - of the configuration that is being made
    return config


def _derive(config: Config) -> None:
    """Make once what is made of a configuration, so that a failure is one of reading it."""
    for pool in config.pools:
        pool.facts()
        pool.score_params()
        pool.known_mappings(config.mappings)
    for gateway in config.gateways:
        gateway.rules()
    config.feedback.own_rules()


def load_config(path: str | Path, patience: float = 0.0) -> Config:
    """Return the configuration in the file ``path``; ConfigError when it cannot be used.

    With ``patience`` it may come through a pipe, within so many seconds.
    """
    try:
        text = read_file(path, patience=patience).decode()
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError(["is not UTF-8 text"]) from None
    try:
        return parse_config(text, Path(path).parent)
    except yaml.YAMLError as error:
        raise ConfigError([f"is not valid YAML: {where_and_what(error)}"]) from None
    except _UNFORESEEN as error:  # a rule that does not foresee the value it is given
        raise ConfigError([f"cannot be understood: {type(error).__name__}: {error}"]) from None
