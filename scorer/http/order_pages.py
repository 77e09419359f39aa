"""Orders from the status page: a page that asks, and the answer to its form.

The page says what an order does and takes the token; sending it is the confirmation. The token
travels in the body of the form alone, so it is in no address, cookie, log or page, and whoever
does not know it can make nobody's browser give an order. Without a configured token no order is
taken here: a browser on this machine may be led by any page.
"""

from dataclasses import dataclass

from flask import Response, request

from scorer.core.orders import Order
from scorer.core.vocabulary import Verb
from scorer.http import words
from scorer.http.feedback import CHALLENGE
from scorer.http.orders import LIMITS, LONGEST_REASON, Form, order_of, read_form, refused
from scorer.http.page import Row, row, summary
from scorer.http.ports import Ports
from scorer.http.problems import Problem
from scorer.http.rendering import html
from scorer.http.selection import find, holders
from scorer.http.target_page import address, way_up

NO_TOKEN = Problem(
    403,
    "forbidden",
    "without web.admin_token_file, orders are given from the command line only",
)
VERBS = {str(verb): verb for verb in Verb}


@dataclass(frozen=True, slots=True)
class OrderPage:
    """The page of one order; without a ``row`` it has no form, as the order cannot be given.

    ``pool`` is the one it is for, "" for all of ``pools``, which have the target. ``problem``
    says why the order was not carried out; ``wrong`` is the field that is to blame. The token
    is not kept.
    """

    time: str
    root: str
    target: str
    title: str
    back_href: str
    problem: str
    wrong: str
    verb: str = ""
    text: str = ""
    limits: str = ""
    action: str = ""
    pool: str = ""
    pools: tuple[str, ...] = ()
    duration: str = ""
    reason: str = ""
    longest_reason: int = LONGEST_REASON
    row: Row | None = None
    standing: str = ""


class OrderPages:
    """The views: :meth:`ask` shows the form of an order, :meth:`take` answers it."""

    def __init__(self, ports: Ports) -> None:
        """Show what ``ports`` publishes, and hand orders to its operators."""
        self._ports = ports

    def ask(self, target: str) -> Response:
        """Show the page of the order in ``?order=``, for the pool in ``?pool=``."""
        form = Form(request.args.get("order", ""), request.args.get("pool", ""))
        if not self._ports.operators.trust.wants_token:
            return self._page(target, form, NO_TOKEN)
        return self._page(target, form, check_verb(form.order))

    def take(self, target: str) -> Response:
        """Carry out the order of a form, and lead back to the target; or say what is wrong."""
        operators, peer = self._ports.operators, request.remote_addr
        trust = operators.trust  # Asked twice, so kept: a reload may take the token away meanwhile.
        if not trust.wants_token:
            return self._page(target, Form(), NO_TOKEN)
        request.environ["wsgi.input_terminated"] = True  # a2wsgi ends a body without a length
        form = read_form(request.mimetype, request.stream)
        if isinstance(form, Problem):
            return self._page(target, Form(), form)
        order = refused(trust.refusal(peer, form.token)) or read(form)
        if isinstance(order, Problem):
            return self._page(target, form, order)
        pools = holders(self._ports.snapshot(), target, form.pool)
        if isinstance(pools, Problem):
            return self._page(target, form, pools)
        views = operators.carry_out(order, target, pools, peer)
        pool = form.pool or next((view.pool for view in views), "")
        headers = {"Location": address(target, {"pool": pool}), "Cache-Control": "no-store"}
        return Response(status=303, headers=headers)

    def _page(self, target: str, form: Form, problem: Problem | None) -> Response:
        page = order_page(target, form, problem, self._ports)
        if isinstance(page, Problem):
            problem = page
            page = refusing(target, problem, self._ports)
        status = 200 if problem is None else problem.status
        response = html("order.html", page, self._ports.version, status=status)
        if status == 401:
            response.headers["WWW-Authenticate"] = CHALLENGE
        return response


def check_verb(order: str) -> Problem | None:
    """Return what is wrong with the name of an order, None when nothing is."""
    if order in VERBS:
        return None
    return Problem(400, "bad_data", f'order: must be one of {", ".join(Verb)}, got "{order[:60]}"')


def read(form: Form) -> Order | Problem:
    """Return the order of a form, or what is wrong with it."""
    return check_verb(form.order) or order_of(VERBS[form.order], form.said)


def order_page(
    target: str, form: Form, problem: Problem | None, ports: Ports
) -> OrderPage | Problem:
    """Return the page with the form of an order, or why there is none: ``problem`` first."""
    if problem is not None and (form.order not in VERBS or problem.status == 403):
        return problem
    snapshot, verb = ports.snapshot(), VERBS[form.order]
    pools = holders(snapshot, target, "")
    if isinstance(pools, Problem):
        return problem or pools
    view = find(snapshot, target, form.pool or pools[0])
    if isinstance(view, Problem):
        return problem or view
    in_flight = ports.inflight.reading(view.pool, target, ports.clocks.monotonic()).in_flight
    return OrderPage(
        time=ports.clocks.rfc3339(ports.clocks.monotonic()),
        root=way_up(target),
        target=target,
        title=words.ORDERS[verb],
        back_href=address(target, {"pool": view.pool}),
        problem="" if problem is None else problem.message,
        wrong=to_blame(problem),
        verb=verb,
        text=words.ORDER_TEXTS[verb],
        limits=limits(verb),
        action=address(target, {}),
        pool=form.pool,
        pools=tuple(pools),
        duration=form.said.get("duration", ""),
        reason=form.said.get("reason", ""),
        row=row(view, ports),
        standing=f"{words.count(in_flight)} in flight; pool {view.pool} has "
        + summary(snapshot.pools[view.pool]),
    )


def refusing(target: str, problem: Problem, ports: Ports) -> OrderPage:
    """Return a page that says why there is no form."""
    return OrderPage(
        time=ports.clocks.rfc3339(ports.clocks.monotonic()),
        root=way_up(target),
        target=target,
        title="Order",
        back_href=address(target, {}),
        problem=problem.message,
        wrong="",
    )


def to_blame(problem: Problem | None) -> str:
    """Return the name of the field that a problem is about, "" when it is about none."""
    if problem is None:
        return ""
    if problem.status == 401:
        return "token"
    return problem.message.partition(":")[0]


def limits(verb: Verb) -> str:
    """Return what the field of the duration takes, "" for an order without one."""
    if verb not in LIMITS:
        return ""
    least, most = LIMITS[verb]
    return f"such as 10m, from {least} to {most}; {words.UNSAID[verb]}"
