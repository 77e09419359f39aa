"""The whole interface behind a real uvicorn, in a thread."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn

from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.pick import PickEndpoint
from scorer.http.ports import Ports
from scorer.http.protocol import connections_for


@contextlib.contextmanager
def serving(given: Ports) -> Iterator[int]:
    """Serve the interface on a free port of loopback and yield the port."""
    endpoint = PickEndpoint(given)
    config = uvicorn.Config(
        build_asgi(given, create_flask(given), endpoint), http=connections_for(endpoint),
        ws="none", lifespan="off", log_config=None, access_log=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            server.force_exit = server.should_exit = True
            thread.join()
