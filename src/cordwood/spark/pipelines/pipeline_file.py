"""A pipeline as a file: plain Python with a function `pipeline(spark)`.

    def pipeline(spark, bootstrap="127.0.0.1:9092"):
        return spark.readStream...start()

Its other parameters can be given values from outside, by their names.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.query import StreamingQuery

from cordwood.client.addresses import DEFAULT_BOOTSTRAP
from cordwood.spark.errors import SparkError

FUNCTION = "pipeline"
_TRUTH = {"true": True, "false": False}
# For parameters without a default.
_USUAL = {"bootstrap": DEFAULT_BOOTSTRAP}

Pipeline = Callable[..., StreamingQuery | Iterable[StreamingQuery] | None]
"""Called with a session; returns the queries that it has started, or None if it has none, or has finished its work."""


class BadPipeline(SparkError):
    """The file cannot be run; the text says what is missing."""


def load_pipeline(path: Path) -> Pipeline:
    """Raises `BadPipeline`, and the file's own exceptions."""
    if not path.is_file():
        raise BadPipeline(f"there is no file {path}")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadPipeline(f"{path} is not a Python file; a pipeline is a .py file")
    module = module_from_spec(spec)
    # As with `python FILE`: files beside it can be imported, and its own definitions are pickled by value for Spark's
    # workers, which could not import it by name.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BadPipeline(f"{error.filename}:{error.lineno}: {error.msg}") from error
    found = getattr(module, FUNCTION, None)
    if not callable(found):
        raise BadPipeline(f"{path} has no function {FUNCTION}(spark), which starts the queries")
    return found  # type: ignore[no-any-return]


def show_to_workers(path: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Lets workers on this machine import modules beside the file; call it before Spark is started."""
    folders = [str(path.resolve().parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))


def arguments_of(pipeline: Pipeline, given: Mapping[str, Any], offered: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `pipeline` besides the session: the given ones, which it must accept, and the offered ones, if
    it has a parameter of that name. Texts are converted to the type of the parameter's default. Raises
    `BadPipeline`."""
    # The first is for the session.
    own = list(inspect.signature(pipeline).parameters.values())[1:]
    parameters = {parameter.name: parameter for parameter in own}
    for name in given:
        if name not in parameters:
            raise BadPipeline(_unknown(name, list(parameters)))
    values = {name: value for name, value in offered.items() if name in parameters} | dict(given)
    for parameter in parameters.values():
        if parameter.default is parameter.empty and parameter.name in _USUAL:
            values.setdefault(parameter.name, _USUAL[parameter.name])
        if parameter.default is parameter.empty and parameter.name not in values:
            raise BadPipeline(f"{FUNCTION}() needs a value for {parameter.name}: --set {parameter.name}=VALUE")
    return {name: _value(parameters[name], value) for name, value in values.items()}


def _value(parameter: inspect.Parameter, text: Any) -> object:
    """Converts to the type of the default, if that is a number or a bool."""
    kind = type(parameter.default)
    if not isinstance(text, str):
        return text
    if kind is bool and text in _TRUTH:
        return _TRUTH[text]
    if kind is bool:
        raise BadPipeline(f"{parameter.name} is {text!r}; expected true or false")
    if kind not in (int, float):
        return text
    try:
        return kind(text)
    except ValueError:
        raise BadPipeline(f"{parameter.name} is {text!r}; expected a number, such as {parameter.default}") from None


def _unknown(name: str, known: list[str]) -> str:
    nearest = get_close_matches(name, known, n=1)
    if nearest:
        return f"{FUNCTION}() has no parameter {name}; did you mean {nearest[0]}?"
    return f"{FUNCTION}() has no parameter {name}; it has {', '.join(known) or 'none but the session'}"
