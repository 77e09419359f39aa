"""Inbound I/O: fetching pages, and mappings (data) that say what their families mean.

Everything here returns samples or a failure with a reason from a closed set; what
they are worth is decided in :mod:`scorer.core`.
"""
