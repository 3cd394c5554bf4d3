"""Errors of the REST API, with Confluent's codes: the first three digits are the HTTP status."""

from __future__ import annotations


class RegistryError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: object = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if which is None else f"Schema {which} not found")


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, message)


def invalid_version(version: object) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)
