"""The HTTP interface: ``/pick`` on the event loop, everything else through Flask."""
