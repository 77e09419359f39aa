"""What metric families mean: one data file per engine generation and per gateway.

Differences between engines and between gateways are data. The files are checked
strictly: a misspelt key is an error, not a signal that is silently missing.
"""
