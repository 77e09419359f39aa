"""Health scorer and picker for LLM inference pools behind a gateway."""

__version__ = "0.1.0"
