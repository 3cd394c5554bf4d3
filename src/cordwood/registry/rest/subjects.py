"""/subjects and /compatibility."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cordwood.registry.registry import Registry
from cordwood.registry.schemas.parsing import is_descriptor
from cordwood.registry.schemas.schema import PROTOBUF, InvalidSchema
from cordwood.registry.state.deletion import delete_subject, delete_version
from cordwood.registry.state.errors import (
    RegistryError,
    invalid_schema,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from cordwood.registry.state.records import Record, SchemaVersion
from cordwood.registry.state.registration import Submitted, incompatible_with_previous, look_up, register
from cordwood.registry.state.schemas import find_version
from cordwood.registry.state.scope import config_in_scope
from cordwood.registry.state.state import State
from cordwood.registry.state.subjects import Subject, parse_subject

from .requests import body_of, flag, parameter, subject_of, submitted, version_of
from .responses import page, respond, version_body


class SubjectRoutes:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    # ---- reading

    async def list_subjects(self, request: Request) -> Response:
        state = self._registry.state
        prefix = request.query_params.get("subjectPrefix", ":*:")
        only_deleted = flag(request, "deletedOnly")
        with_deleted = flag(request, "deleted") or only_deleted
        wanted = "" if prefix == ":*:" else parse_subject(prefix).qualified
        found = []
        for name in sorted(state.subjects):
            if not name.startswith(wanted) or (prefix == "" and name.startswith(":.")):
                continue
            is_live = bool(state.versions(name))
            if (is_live and not only_deleted) or (not is_live and with_deleted):
                found.append(name)
        return respond(request, page(request, found))

    async def list_versions(self, request: Request) -> Response:
        subject = self._aliased(subject_of(request))
        only_deleted = flag(request, "deletedOnly")
        with_deleted = flag(request, "deleted") or only_deleted
        versions = self._registry.state.versions(subject.qualified, with_deleted=with_deleted)
        found = [version.version for version in versions if version.is_deleted or not only_deleted]
        if not found:
            raise subject_not_found(subject.qualified)
        return respond(request, page(request, found))

    async def get_version(self, request: Request) -> Response:
        version = self._version(request)
        return respond(request, version_body(version, self._text(request, version)))

    async def get_version_schema(self, request: Request) -> Response:
        """The schema alone, as text."""
        version = self._version(request)
        return Response(
            self._text(request, version) or version.text, media_type="application/vnd.schemaregistry.v1+json"
        )

    async def referenced_by(self, request: Request) -> Response:
        version = self._version(request)
        state = self._registry.state
        keys = state.referrers.get((version.subject, version.version), set())
        versions = [state.subjects[subject][number] for subject, number in keys]
        with_deleted = flag(request, "deleted")
        return respond(
            request, page(request, sorted({each.id for each in versions if with_deleted or not each.is_deleted}))
        )

    async def get_metadata(self, request: Request) -> Response:
        """/subjects/{subject}/metadata?key=…&value=…: the latest version whose properties have all of these."""
        subject = self._aliased(subject_of(request))
        wanted = list(zip(request.query_params.getlist("key"), request.query_params.getlist("value"), strict=False))
        versions = self._registry.state.versions(subject.qualified, with_deleted=flag(request, "deleted"))
        if not versions:
            raise subject_not_found(subject.qualified)
        for version in reversed(versions):
            properties = (version.metadata or {}).get("properties") or {}
            if all(properties.get(key) == value for key, value in wanted):
                return respond(request, version_body(version, self._text(request, version)))
        raise schema_not_found()

    async def look_up(self, request: Request) -> Response:
        subject = self._aliased(subject_of(request))
        body = await body_of(request)
        state = self._registry.state
        if not state.versions(subject.qualified, with_deleted=flag(request, "deleted")):
            raise subject_not_found(subject.qualified)
        given = submitted(body)
        found = look_up(
            state,
            self._registry.parsed,
            subject,
            given,
            normalize=flag(request, "normalize"),
            with_deleted=flag(request, "deleted"),
        )
        if found is None:
            raise schema_not_found()
        return respond(request, version_body(found, self._answered_text(request, given, found)))

    # ---- writing

    async def register(self, request: Request) -> Response:
        subject = self._aliased(subject_of(request))
        given = submitted(await body_of(request))
        normalize, force = flag(request, "normalize"), flag(request, "force")
        parsed = self._registry.parsed

        def decide(state: State) -> tuple[list[Record], SchemaVersion]:
            decided = register(state, parsed, subject, given, normalize=normalize, force=force)
            return list(decided.records), decided.version

        # Any registry can answer for schemas that are already registered.
        records, version = decide(self._registry.state)
        if records:
            version = await self._registry.write(decide, is_idempotent=True)
        body = version_body(version, self._answered_text(request, given, version))
        del body["subject"]
        return respond(request, body)

    async def delete_version(self, request: Request) -> Response:
        subject = subject_of(request)
        wanted = version_of(parameter(request, "version"))
        permanent = flag(request, "permanent")
        deleted = await self._registry.write(
            lambda state: delete_version(state, subject, wanted, permanent=permanent), is_idempotent=False
        )
        return respond(request, deleted[0])

    async def delete_subject(self, request: Request) -> Response:
        subject = subject_of(request)
        permanent = flag(request, "permanent")
        deleted = await self._registry.write(
            lambda state: delete_subject(state, subject, permanent=permanent), is_idempotent=False
        )
        return respond(request, deleted)

    # ---- compatibility

    async def check_version(self, request: Request) -> Response:
        subject = self._aliased(subject_of(request))
        wanted = version_of(parameter(request, "version"))
        given = submitted(await body_of(request))
        versions = self._registry.state.versions(subject.qualified)
        if not versions and wanted is not None:
            raise subject_not_found(subject.qualified)
        chosen = versions[-1:] if wanted is None else [each for each in versions if each.version == wanted]
        if wanted is not None and not chosen:
            raise version_not_found(wanted)
        return self._verdict(request, subject, given, chosen)

    async def check_all(self, request: Request) -> Response:
        subject = self._aliased(subject_of(request))
        given = submitted(await body_of(request))
        return self._verdict(request, subject, given, self._registry.state.versions(subject.qualified))

    def _verdict(self, request: Request, subject: Subject, given: Submitted, previous: list[SchemaVersion]) -> Response:
        state, parsed = self._registry.state, self._registry.parsed
        config = config_in_scope(state, subject)
        try:
            schema = parsed.parsed(state, subject, given.schema_type, given.text, given.references, validate=True)
            if flag(request, "normalize") or config.get("normalize"):
                schema = schema.normalized()
        except InvalidSchema as error:
            raise invalid_schema(f"Invalid schema: {error}") from None
        problems = incompatible_with_previous(state, parsed, config, given, schema, previous)
        body: dict[str, object] = {"is_compatible": not problems}
        if flag(request, "verbose"):
            body["messages"] = problems
        return respond(request, body)

    # ---- helpers

    def _aliased(self, subject: Subject) -> Subject:
        alias = self._registry.state.configs.get(subject.qualified, {}).get("alias")
        return parse_subject(alias) if alias else subject

    def _version(self, request: Request) -> SchemaVersion:
        subject = self._aliased(subject_of(request))
        wanted = version_of(parameter(request, "version"))
        state = self._registry.state
        with_deleted = flag(request, "deleted")
        known = state.versions(subject.qualified, with_deleted=with_deleted)
        if not known:
            raise subject_not_found(subject.qualified)
        if wanted is None:
            return known[-1]
        found = find_version(state, subject, wanted)
        if found is None or (found.is_deleted and not with_deleted):
            raise version_not_found(wanted)
        return found

    def _answered_text(self, request: Request, given: Submitted, version: SchemaVersion) -> str | None:
        """A client that sends Protobuf as a descriptor gets it back as one: Confluent's Python client keeps the answer,
        and reads it as a descriptor later."""
        how = "" if given.schema_type != PROTOBUF or not is_descriptor(given.text) else "serialized"
        return formatted_text(self._registry, version, request.query_params.get("format", how))

    def _text(self, request: Request, version: SchemaVersion) -> str | None:
        return formatted_text(self._registry, version, request.query_params.get("format", ""))


def formatted_text(registry: Registry, version: SchemaVersion, how: str) -> str | None:
    """None: as it is stored."""
    if not how or how == "default":
        return None
    try:
        return registry.parsed.of(registry.state, version).formatted(how)
    except InvalidSchema as error:
        raise RegistryError(50001, f"The stored schema cannot be read: {error}") from None
