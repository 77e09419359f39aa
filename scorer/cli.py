"""Command line: arguments, messages, exit codes.

Exit codes: 0 clean stop, 1 runtime error, 2 bad usage or configuration; ``doctor``
also uses 1 for a page that cannot be read and 3 for one with signals missing.
"""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TextIO
from urllib.parse import quote

import click

from scorer import client, logs
from scorer.arguments import (
    ADDRESS,
    DEMO_ADDRESS,
    DURATION,
    INTERVAL,
    PATH,
    TIMEOUT,
    Rate,
    config_file_option,
    for_a_while,
    of_a_daemon,
    of_an_order,
    option,
    output_option,
    web_file_option,
)
from scorer.build import version_text
from scorer.config import PIPE_PATIENCE, Config, load_config
from scorer.config.errors import ConfigError
from scorer.config.files import unreadable
from scorer.core.vocabulary import Verb
from scorer.daemon import Daemon
from scorer.demo.run import run_demo
from scorer.doctor import NothingNamedError, run_configured, run_doctor
from scorer.explaining import as_text
from scorer.http.tls import WebFileKeeper
from scorer.http.words import ENDS, REASONS
from scorer.listening import ListenError, listen, listen_agent, listen_udp, listen_unix
from scorer.serving import FileWatch, serve

RUNTIME_ERROR, BAD_USAGE = 1, 2
DOCTOR_TIMEOUT = 5.0


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=version_text())
def main() -> None:
    """Score LLM inference targets and pick the one to send the next request to."""
    _fill_standard_streams()


@main.command()
@config_file_option(default="scorer.yml", show_default=True, help="Configuration file.")
@option("--config.check", "check", is_flag=True, help="Check the files, as check-config, and end.")
@option("--config.auto-reload", "auto", is_flag=True, help="Reload when the file has changed.")
@option(
    "--config.auto-reload-interval", "every", default="30s", show_default=True, type=INTERVAL,
    help="How often to look whether it has.",
)  # fmt: skip
@web_file_option
@option(
    "--web.listen-address", "address", type=ADDRESS,
    help="Where to listen, instead of web.listen_address of the file.",
)  # fmt: skip
@option("--web.enable-lifecycle", "lifecycle", is_flag=True, help="Take POST /-/reload.")
@option(
    "--log.level", "level", default="info", show_default=True, type=click.Choice(logs.LEVELS),
    help="Lines of this level and above.",
)  # fmt: skip
@option(
    "--log.format", "form", default="logfmt", show_default=True,
    type=click.Choice(["logfmt", "json"]), help="How log lines look.",
)  # fmt: skip
def run(path: Path, web_path: Path | None, **flags: Any) -> None:  # noqa: ANN401 - as click has them
    """Run the daemon until SIGTERM; SIGHUP reloads the configuration."""
    if flags["check"]:
        _check(path, web_path)
        return
    logs.configure(flags["level"], flags["form"])
    logs.take_over()
    watch = FileWatch(path, flags["every"]) if flags["auto"] else None
    config = _loaded(path)
    web = _web(web_path)
    try:
        sock = listen(flags["address"] or config.web.listen_address)
        udp = listen_udp(config.feedback.udp.listen)
        agent = listen_agent(config.exporters.haproxy_agent.listen)
        unix = listen_unix(config.web.unix_socket.path, config.web.unix_socket.mode)
    except ListenError as error:
        _fail(str(error), RUNTIME_ERROR)
    serve(Daemon(config, path, lifecycle=flags["lifecycle"]), sock, udp, agent, web, watch, unix)


@main.command("check-config")
@click.argument("path", metavar="FILE", type=PATH)
@web_file_option
def check_config(path: Path, web_path: Path | None) -> None:
    """Check a configuration file: every problem with path, rule and value."""
    _check(path, web_path)


def _check(path: Path, web_path: Path | None) -> None:
    config = _loaded(path)
    _web(web_path)
    if problems := list(unreadable(config)):
        _refuse(path, problems)
    count = sum(len(pool.static_targets()) for pool in config.pools)
    found = _many(count, "target")
    if any(pool.discovers() for pool in config.pools):
        found += " and those that discovery finds"
    with _printing():
        for warning in config.warnings():
            click.echo(f"WARNING: {path}: {warning}")
        click.echo(f"SUCCESS: {path}: {_many(len(config.pools), 'pool')}, {found}")
        if web_path is not None:
            click.echo(f"SUCCESS: {web_path}")


@main.command()
@click.argument("pages", metavar="[URL-FILE-OR-FOLDER]...", nargs=-1)
@config_file_option(
    help="Read as the daemon would with this file: its targets and gateways, or those given."
)
@option("--pool", default="", help="With --config.file: this pool only.")
@output_option("json", "csv", what="the diagnosis")
@option(
    "--timeout", show_default="5s, or the file's", type=TIMEOUT,
    help="Total deadline of each scrape.",
)  # fmt: skip
def doctor(
    pages: tuple[str, ...], path: Path | None, pool: str, output: str, timeout: float | None
) -> None:
    """Scrape engines or gateways once and say what can be read, and what not and why.

    Exit code 0: readable, 1: not, 3: readable with signals missing.
    """
    if path is None:
        if not pages or pool:
            raise click.UsageError(
                "needs a URL, a file or a folder" if not pool else "--pool needs --config.file"
            )
        with _printing():
            sys.exit(run_doctor(pages, output, DOCTOR_TIMEOUT if timeout is None else timeout))
    config = _loaded(path)
    names = [each.name for each in config.pools]
    if pool and pool not in names:
        raise click.UsageError(f"--pool must be one of {', '.join(names)}, got {pool}")
    if pages and not pool:
        if len(names) > 1:
            raise click.UsageError("targets need --pool beside them, because the file has several")
        pool = names[0]
    try:
        with _printing():
            sys.exit(run_configured(config, pool, pages, output, timeout))
    except NothingNamedError as error:
        raise click.UsageError(f"{path} {error}") from None


@main.command()
@click.argument("target")
@option("--pool", default="", help="The pool, when several have the target.")
@of_a_daemon("the explanation")
def explain(target: str, pool: str, access: client.Access, output: str) -> None:
    """Say why a target of a running daemon has its score, and what would raise it."""
    path = f"/api/v1/targets/{quote(target, safe='/:')}"
    try:
        data = client.ask("GET", access, path, params={"pool": pool} if pool else {})
    except client.ClientError as error:
        _fail(str(error), RUNTIME_ERROR)
    click.echo(json.dumps(data, indent=2) if output == "json" else as_text(data))


@main.command()
@option(
    "--web.listen-address", "address", default=DEMO_ADDRESS, show_default=True, type=ADDRESS,
    help="Where the daemon listens.",
)  # fmt: skip
@option(
    "--engines", default=4, show_default=True, type=click.IntRange(2, 32),
    help="Emulated engines in the pool.",
)  # fmt: skip
@option(
    "--rate", default=10.0, show_default=True, type=Rate(0.1, 200),
    help="Requests per second of the load.",
)  # fmt: skip
@option("--duration", type=DURATION, help="Stop by itself after this long.")
def demo(address: str, engines: int, rate: float, duration: float | None) -> None:
    """Run emulated engines, a load on them, and the daemon: no configuration needed."""
    sys.exit(run_demo(listen=address, duration=duration, rate=rate, engines=engines))


@main.command()
@of_an_order
@for_a_while("For how long, 1s to 30d; otherwise until it is taken back.")
def drain(target: str, **options: Any) -> None:  # noqa: ANN401 - as click has them
    """Take a target out: it gets no pick until the drain ends."""
    _order(Verb.DRAIN, target, **options)


@main.command()
@of_an_order
def undrain(target: str, **options: Any) -> None:  # noqa: ANN401 - as click has them
    """Take a drain back."""
    _order(Verb.UNDRAIN, target, **options)


@main.command()
@of_an_order
@for_a_while("For how long, 1s to 1h; otherwise 30s.")
def cooldown(target: str, **options: Any) -> None:  # noqa: ANN401 - as click has them
    """Keep long prompts away from a target for a while."""
    _order(Verb.COOLDOWN, target, **options)


@main.command("end-cooldown")
@of_an_order
def end_cooldown(target: str, **options: Any) -> None:  # noqa: ANN401 - as click has them
    """End every cooldown of a target."""
    _order(Verb.END_COOLDOWN, target, **options)


def _order(
    verb: Verb,
    target: str,
    *,
    output: str,
    pool: str | None,
    access: client.Access,
    **said: str | None,
) -> None:
    """Give an order; print what then applies, or one line that says why not, and exit with 1."""
    body = {key: value for key, value in said.items() if value is not None}
    try:
        answer = client.order(verb, target, body, pool=pool, access=access)
    except client.ClientError as error:
        _fail(str(error), RUNTIME_ERROR)
    if output == "json":
        click.echo(json.dumps(answer))
        return
    for each in answer:
        why = REASONS.get(each["state_reason"], "")
        until = f", {ENDS.get(verb, 'until')} {each['until']}" if each["until"] else ""
        click.echo(
            f"{each['target']} of pool {each['pool']}: "
            f"{each['state']}{f' ({why})' if why else ''}{until}"
        )


def _fill_standard_streams() -> None:
    """Let no socket become standard input, output or error where one of them is closed.

    What cannot be printed as it is, such as bytes of a file's name, is printed escaped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


@contextlib.contextmanager
def _printing() -> Iterator[None]:
    """End with one line where nothing can be printed, and quietly where the reader left."""
    try:
        yield
    except OSError as error:
        # The interpreter would try once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:
            _fail(f"cannot write to standard output: {error.strerror}", RUNTIME_ERROR)
        sys.exit(RUNTIME_ERROR)


def _loaded(path: Path) -> Config:
    """Return the configuration in a file, or print every problem and exit with 2."""
    try:
        return load_config(path, PIPE_PATIENCE)
    except ConfigError as error:
        _refuse(path, error.problems)


def _web(path: Path | None) -> WebFileKeeper:
    """Return TLS and basic auth as a file says, or print every problem and exit with 2."""
    try:
        return WebFileKeeper(path)
    except ConfigError as error:
        _refuse(path or Path(), error.problems)


def _refuse(path: Path, problems: Sequence[str]) -> NoReturn:
    with contextlib.suppress(OSError):
        for problem in problems:
            click.echo(f"FAILED: {path}: {problem}", err=True)
    sys.exit(BAD_USAGE)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _fail(message: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):
        click.echo(f"scorer: {message}", err=True)
    sys.exit(code)
