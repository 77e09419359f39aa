"""Why a text is no JSON, in words for whoever wrote it.

Python's own words name settings of its interpreter, and its limits by other names.
"""


def why(error: Exception) -> str:
    """Return what a decoder of JSON found wrong, of any exception that it raises."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8"
    if type(error) is ValueError:
        return "a number has too many digits"
    return str(error)
