"""The Flask application: ``/metrics``, the API and the status page.

Every view renders its answer whole from one snapshot.
"""

from functools import partial
from itertools import islice
from typing import Any

from flask import Flask, Response, request

from scorer.core.snapshot import Snapshot
from scorer.core.vocabulary import Verb
from scorer.http.compression import compressed
from scorer.http.counted import note_route
from scorer.http.explanation import explained_target
from scorer.http.order_pages import OrderPages
from scorer.http.orders import read_order, refusal
from scorer.http.page import status_page
from scorer.http.ports import Ports
from scorer.http.problems import Problem, wrong_method
from scorer.http.queries import check_format, refresh_seconds, shown_decisions
from scorer.http.rendering import html
from scorer.http.responses import add_errors, csv_file, failure, json_response, plain, success
from scorer.http.sd import groups
from scorer.http.selection import Selection, find, holders, select
from scorer.http.sorting import check_sort, sorted_selection
from scorer.http.status import add_status_routes
from scorer.http.target_page import target_page
from scorer.http.views import (
    cooldown_data,
    decision_data,
    order_data,
    pool_data,
    target_data,
)
from scorer.output_stats import Output

VERBS = frozenset(str(verb) for verb in Verb)


def create_flask(ports: Ports) -> Flask:
    """Return the WSGI application that renders everything but ``/pick`` and health."""
    app = Flask(__name__)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.url_map.merge_slashes = False
    routes = _Routes(ports)
    app.add_url_rule("/", view_func=routes.status)
    app.add_url_rule(
        "/targets/<path:target>", view_func=routes.target_status, methods=["GET", "POST"]
    )
    app.add_url_rule("/metrics", view_func=routes.metrics)
    app.add_url_rule("/api/v1/targets", view_func=routes.targets)
    app.add_url_rule("/api/v1/targets/<path:target>", view_func=routes.target)
    for verb in Verb:
        order = partial(routes.order, verb=verb)
        url = f"/api/v1/targets/<path:target>/{verb}"
        app.add_url_rule(url, endpoint=verb, view_func=order, methods=["POST"])
    app.add_url_rule("/api/v1/cooldowns", view_func=routes.cooldowns)
    app.add_url_rule("/api/v1/pools", view_func=routes.pools)
    app.add_url_rule("/api/v1/decisions", view_func=routes.decisions)
    app.add_url_rule("/api/v1/sd/<pool>", view_func=routes.sd)
    add_status_routes(app, ports, success)
    app.add_url_rule("/v3/discovery:endpoints", view_func=routes.envoy_eds, methods=["POST"])
    add_errors(app)
    app.after_request(note_route)
    app.after_request(compressed)
    return app


class _Routes:
    """The views; each method answers one route."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._orders = OrderPages(ports)

    def metrics(self) -> Response:
        accept, names = request.headers.get("Accept", ""), request.args.getlist("name[]")
        headers, body = self._ports.exposition(accept, names)
        return Response(body, headers=list(headers))

    def targets(self) -> Response:
        selection = self._select(self._ports.snapshot())
        if isinstance(selection, Problem):
            return failure(selection)
        return success([target for pool in self._pools(selection) for target in pool["targets"]])

    def target(self, target: str) -> Response:
        view = find(self._ports.snapshot(), target, request.args.get("pool", ""))
        if isinstance(view, Problem):
            # A target whose path ends so would have been found.
            if view.status == 404 and target.rpartition("/")[2] in VERBS:
                return failure(wrong_method(request.path, request.method, ["POST"]))
            return failure(view)
        return success(explained_target(view, self._ports))

    def target_status(self, target: str) -> Response:
        if request.method == "POST":
            return self._orders.take(target)
        if "order" in request.args:
            return self._orders.ask(target)
        as_json = request.args.get("format") == "json"
        view = find(self._ports.snapshot(), target, request.args.get("pool", ""))
        if isinstance(view, Problem):
            return failure(view) if as_json else plain(view)
        if as_json:
            return success(explained_target(view, self._ports))
        asked = request.args.get("refresh", "")
        refresh = refresh_seconds(asked)
        if isinstance(refresh, Problem):
            return plain(refresh)
        page = target_page(view, asked, self._ports)
        return html("target.html", page, self._ports.version, refresh)

    def order(self, target: str, verb: Verb) -> Response:
        """Carry out an order in every pool that has the target, or in the one of ``pool``."""
        operators, clocks = self._ports.operators, self._ports.clocks
        peer, names = request.remote_addr, request.headers.keys()
        problem = refusal(operators.trust, peer, request.headers.get("Authorization", ""), names)
        if problem is not None:
            return failure(problem)
        request.environ["wsgi.input_terminated"] = True  # a2wsgi ends a body without a length
        order = read_order(verb, request.mimetype, request.stream)
        if isinstance(order, Problem):
            return failure(order)
        pools = holders(self._ports.snapshot(), target, request.args.get("pool", ""))
        if isinstance(pools, Problem):
            return failure(pools)
        views = operators.carry_out(order, target, pools, peer)
        return success([order_data(view, verb, clocks) for view in views])

    def cooldowns(self) -> Response:
        selection = self._select(self._ports.snapshot())
        if isinstance(selection, Problem):
            return failure(selection)
        views = [view for _, targets in selection.pools for view in targets]
        clocks = self._ports.clocks
        return success([cooldown_data(view, clocks) for view in views if view.cooldown.active])

    def decisions(self) -> Response:
        asked = request.args.get("limit", "")
        limit = shown_decisions(asked)
        if isinstance(limit, Problem):
            return failure(limit)
        latest = self._ports.decisions.latest(
            pool=request.args.get("pool", ""), target=request.args.get("target", "")
        )
        return success([decision_data(each, self._ports.clocks) for each in islice(latest, limit)])

    def pools(self) -> Response:
        pools = self._ports.snapshot().pools.values()
        return success([pool_data(pool, self._ports.clocks) for pool in pools])

    def sd(self, pool: str) -> Response:
        listed = self._ports.listed(pool)
        if listed is None:
            return failure(Problem(404, "not_found", f'pool: no such pool, got "{pool}"'))
        self._ports.outputs.answered(Output.HTTP_SD)
        return json_response(groups(pool, listed))

    def envoy_eds(self) -> Response:
        """Tell an Envoy the endpoints of the pools that it asks for."""
        if request.mimetype != "application/json":
            got = request.mimetype or "none"
            problem = f"Content-Type: must be application/json, got {got}"
            return plain(Problem(415, "unsupported_media_type", problem))
        request.environ["wsgi.input_terminated"] = True  # a2wsgi ends a body without a length
        status, body = self._ports.envoy_eds(request.stream.read())
        if status >= 400:
            return plain(Problem(status, "envoy_eds", body))
        self._ports.outputs.answered(Output.ENVOY_EDS)
        return Response(body, status, content_type="application/json")

    def status(self) -> Response:
        args = request.args
        form, sort, asked = (args.get(name, "") for name in ("format", "sort", "refresh"))
        refuse = failure if form == "json" else plain
        snapshot = self._ports.snapshot()
        selection = self._select(snapshot, args.get("search", ""))
        if isinstance(selection, Problem):
            return refuse(selection)
        if problem := check_sort(sort) or check_format(form):
            return refuse(problem)
        if form:
            pools = self._pools(sorted_selection(selection, sort, self._ports.inflight))
            return success(pools) if form == "json" else csv_file(pools)
        refresh = refresh_seconds(asked)
        if isinstance(refresh, Problem):
            return plain(refresh)
        page = status_page(snapshot, selection, sort, asked, self._ports)
        return html("status.html", page, self._ports.version, refresh)

    def _select(self, snapshot: Snapshot, search: str = "") -> Selection | Problem:
        pool, state = request.args.get("pool", ""), request.args.get("state", "")
        return select(snapshot, pool, state, search)

    def _pools(self, selection: Selection) -> list[dict[str, Any]]:
        return [
            pool_data(pool, self._ports.clocks)
            | {"targets": [target_data(view, self._ports) for view in targets]}
            for pool, targets in selection.pools
        ]
