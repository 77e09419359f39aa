"""Options of the command line: every one is an environment variable too.

``--web.listen-address`` is ``SCORER_WEB_LISTEN_ADDRESS``, ``--url`` is ``SCORER_URL``.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from scorer import client
from scorer.config.types import parse_listen_address
from scorer.durations import format_duration, parse_duration

DEMO_ADDRESS = "127.0.0.1:9808"
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 0.001, 3600.0

Command = Callable[..., None]
Decorator = Callable[[Command], Command]


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


class Rate(click.FloatRange):
    """A number within bounds; click takes nan for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Return the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def _timeout(text: str) -> float:
    seconds = parse_duration(text)
    if not SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT:
        low, high = format_duration(SHORTEST_TIMEOUT), format_duration(LONGEST_TIMEOUT)
        raise ValueError(f"must be at least {low} and at most {high}")
    return seconds


def _interval(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < 1.0:
        raise ValueError("must be at least 1s")
    return seconds


ADDRESS = Checked("address", parse_listen_address)
DURATION = Checked("duration", parse_duration)
TIMEOUT = Checked("duration", _timeout)
INTERVAL = Checked("duration", _interval)
PATH = click.Path(path_type=Path)


def variable(flag: str) -> str:
    """Return the environment variable of a flag."""
    return "SCORER_" + flag.lstrip("-").replace(".", "_").replace("-", "_").upper()


def option(flag: str, *more: str, **how: Any) -> Decorator:  # noqa: ANN401 - as click has them
    """Return a click option that its environment variable can set too."""
    return click.option(flag, *more, envvar=variable(flag), show_envvar=True, **how)


def output_option(*forms: str, what: str) -> Decorator:
    """Return the option of what a command prints: a table unless asked otherwise."""
    return option(
        "--output", "-o", "output", default="table", show_default=True,
        type=click.Choice(["table", *forms]), help=f"How {what} is printed.",
    )  # fmt: skip


config_file_option = functools.partial(option, "--config.file", "path", type=PATH)
web_file_option = option(
    "--web.config.file", "web_path", type=PATH,
    help="TLS and basic auth of the listener, in the format of Prometheus' exporters.",
)  # fmt: skip


def of_a_daemon(what: str) -> Callable[[Command], Command]:
    """Give a command that prints ``what`` the options of those that ask a running daemon.

    They reach it as ``access``.
    """
    options = [
        option(
            "--url",
            default=f"http://{DEMO_ADDRESS}",
            show_default=True,
            help="Where the daemon is, or unix:/path of its socket.",
        ),
        option("--token-file", type=PATH, help="File with the token of web.admin_token_file."),
        option("--user", help="Name for basic auth."),
        option("--password-file", type=PATH, help="File with the password for basic auth."),
        option("--ca-file", type=PATH, help="Certificates to trust instead of the system's."),
        option("--cert-file", type=PATH, help="Client certificate; may hold the key too."),
        option("--key-file", type=PATH, help="Key of the client certificate."),
        output_option("json", what=what),
    ]

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401 - as click has them
            names = client.Access.__dataclass_fields__
            access = client.Access(**{name: given.pop(name) for name in names})
            command(access=access, **given)

        made: Command = run
        for each in reversed(options):
            made = each(made)
        return made

    return decorated


def of_an_order(command: Command) -> Command:
    """Give a command what every order has: a target, a pool, and why."""
    target = click.argument("target")
    pool = option("--pool", help="In this pool only; otherwise in every one that has it.")
    reason = option("--reason", help="Why; shown to others and logged.")
    return target(pool(reason(of_a_daemon("the answer")(command))))


def for_a_while(text: str) -> Decorator:
    """Give a command the option of how long something lasts."""
    return option("--duration", help=text)
