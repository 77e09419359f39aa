"""Command line: arguments, messages, exit codes.

Exit codes: 0 clean stop, 1 runtime error, 2 bad usage or configuration; ``doctor``
also uses 1 for a page that cannot be read and 3 for one with signals missing.
"""

import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from scorer import __version__, logs
from scorer.config import Config, load_config
from scorer.config.errors import ConfigError
from scorer.config.files import unreadable
from scorer.config.types import parse_listen_address
from scorer.daemon import Daemon
from scorer.demo.run import run_demo
from scorer.doctor import run_doctor
from scorer.durations import parse_duration
from scorer.serving import ListenError, listen, listen_udp, serve

RUNTIME_ERROR, BAD_USAGE = 1, 2
VERSION = f"scorer, version {__version__} (Python {platform.python_version()})"
DEMO_ADDRESS = "127.0.0.1:9808"


class Checked(click.ParamType[Any]):
    """A value that a function of ours accepts or refuses with a ValueError."""

    def __init__(self, name: str, check: Callable[[str], Any]) -> None:
        """Check values with ``check``; ``name`` is what help texts call them."""
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Return what the check makes of the value."""
        try:
            return self._check(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


ADDRESS = Checked("address", parse_listen_address)
DURATION = Checked("duration", parse_duration)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=VERSION)
def main() -> None:
    """Score LLM inference targets and pick the one to send the next request to."""


@main.command()
@click.option(
    "--config.file", "path", default="scorer.yml", show_default=True,
    envvar="SCORER_CONFIG_FILE", show_envvar=True, type=click.Path(path_type=Path),
    help="Configuration file.",
)  # fmt: skip
@click.option(
    "--web.listen-address", "address", type=ADDRESS,
    envvar="SCORER_WEB_LISTEN_ADDRESS", show_envvar=True,
    help="Where to listen, instead of web.listen_address of the file.",
)  # fmt: skip
@click.option(
    "--log.level", "level", default="info", show_default=True, type=click.Choice(logs.LEVELS),
    envvar="SCORER_LOG_LEVEL", show_envvar=True, help="Lines of this level and above.",
)  # fmt: skip
@click.option(
    "--log.format", "form", default="logfmt", show_default=True,
    type=click.Choice(["logfmt", "json"]), envvar="SCORER_LOG_FORMAT", show_envvar=True,
    help="How log lines look.",
)  # fmt: skip
def run(path: Path, address: str | None, level: str, form: logs.Format) -> None:
    """Run the daemon until SIGTERM; SIGHUP reloads the configuration."""
    logs.configure(level, form)
    logs.take_over()
    config = _loaded(path)
    try:
        sock = listen(address or config.web.listen_address)
        udp = listen_udp(config.feedback.udp.listen)
    except ListenError as error:
        _fail(str(error), RUNTIME_ERROR)
    serve(Daemon(config, path), sock, udp)


@main.command("check-config")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
def check_config(path: Path) -> None:
    """Check a configuration file: every problem with path, rule and value."""
    config = _loaded(path)
    if problems := list(unreadable(config)):
        _refuse(path, problems)
    count = sum(len(pool.static_targets()) for pool in config.pools)
    for warning in config.warnings():
        click.echo(f"WARNING: {path}: {warning}")
    found = _many(count, "target")
    if any(pool.discovers() for pool in config.pools):
        found += " and those that discovery finds"
    click.echo(f"SUCCESS: {path}: {_many(len(config.pools), 'pool')}, {found}")


@main.command()
@click.argument("pages", metavar="URL-OR-FILE...", nargs=-1, required=True)
@click.option(
    "-o", "output", default="table", show_default=True, type=click.Choice(["table", "json"]),
    help="How the diagnosis is printed.",
)  # fmt: skip
@click.option(
    "--timeout", default="5s", show_default=True, type=DURATION,
    help="Total deadline of each scrape.",
)  # fmt: skip
def doctor(pages: tuple[str, ...], output: str, timeout: float) -> None:
    """Scrape an engine once and say what can be read from it, and what not and why.

    Exit code 0: readable, 1: not, 3: readable with signals missing.
    """
    sys.exit(run_doctor(list(pages), output, timeout))


@main.command()
@click.option(
    "--web.listen-address", "address", default=DEMO_ADDRESS, show_default=True, type=ADDRESS,
    envvar="SCORER_WEB_LISTEN_ADDRESS", show_envvar=True, help="Where the daemon listens.",
)  # fmt: skip
@click.option("--engines", default=4, show_default=True, type=click.IntRange(2, 32))
@click.option(
    "--rate", default=10.0, show_default=True, type=click.FloatRange(0.1, 200),
    help="Requests per second of the load.",
)  # fmt: skip
@click.option("--duration", type=DURATION, help="Stop by itself after this long.")
def demo(address: str, engines: int, rate: float, duration: float | None) -> None:
    """Run emulated engines, a load on them, and the daemon: no configuration needed."""
    sys.exit(run_demo(listen=address, duration=duration, rate=rate, engines=engines))


def _loaded(path: Path) -> Config:
    """Return the configuration in a file, or print every problem and exit with 2."""
    try:
        return load_config(path)
    except ConfigError as error:
        _refuse(path, error.problems)


def _refuse(path: Path, problems: Sequence[str]) -> NoReturn:
    for problem in problems:
        click.echo(f"FAILED: {path}: {problem}", err=True)
    sys.exit(BAD_USAGE)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"scorer: {message}", err=True)
    sys.exit(code)
