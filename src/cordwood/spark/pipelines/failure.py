"""Summarises a query's failure in one sentence: without Java's stack trace, Spark's error classes and its plan."""

import re

# Spark wraps the useful message in these.
_FRAME = re.compile(r"^\[[A-Z_.]+\] (Query \[[^]]*\] terminated with exception: )?")
# A plan follows after a semicolon.
_STATE = re.compile(r"\s*SQLSTATE: \w+(;.*)?", re.DOTALL)
_TAILS = ("\n=== Streaming Query ===", "\nJVM stacktrace:", "\nDriver stacktrace:", "\n\tat ")
_CALL = re.compile(r"^An error occurred while calling .*\n: [\w.$]+: ")
# Wrappers end with a colon and leave the rest to their cause.
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+?)(?=\n\tat |\Z)", re.MULTILINE | re.DOTALL)
_OUR_OWN = re.compile(r"\bcordwood\.[\w.]+: (?P<text>.+)")
_TRACEBACK = "Traceback (most recent call last):"


def sentence(error: BaseException) -> str:
    whole = str(error) or type(error).__name__
    text = _without_trace(whole)
    if text.endswith(":") and (causes := _CAUSE.findall(whole)):
        text = causes[-1]
    text = _STATE.sub("", text).strip()
    own = _OUR_OWN.search(text)
    if own is not None:
        return own["text"].strip()
    if _TRACEBACK in text:
        # The last line that is not indented is the error itself.
        lines = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line.strip() and line[0] not in " \t"]
        return " ".join(lines[-1:]) or text.splitlines()[0]
    text = _CALL.sub("", text)
    while (shorter := _FRAME.sub("", text)) != text:
        text = shorter
    return " ".join(text.split("\n\n")[0].split())


def _without_trace(text: str) -> str:
    for tail in _TAILS:
        text = text.partition(tail)[0]
    return text.strip()
