"""The daemon's state in the formats of other programs."""
