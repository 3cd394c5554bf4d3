"""The packages of the extra `registry`, which read schemas and values."""

from __future__ import annotations

from importlib.util import find_spec

_PACKAGES = ("fastavro", "google.protobuf", "jsonschema_rs")


class PackagesMissing(ImportError):
    """The text says what to install."""


def require_packages(user: str) -> None:
    """Raises `PackagesMissing` for `user` unless all are installed."""
    for package in _PACKAGES:
        if not _is_installed(package):
            raise PackagesMissing(f"{user} needs {package}, which is not installed: pip install 'cordwood[registry]'")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        # There is no package around it either.
        return False
