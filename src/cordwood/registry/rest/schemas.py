"""/schemas, /contexts and information about the registry itself."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cordwood.registry.registry import Registry
from cordwood.registry.schemas.schema import SCHEMA_TYPES
from cordwood.registry.state.deletion import delete_context
from cordwood.registry.state.errors import RegistryError, schema_not_found
from cordwood.registry.state.records import Json, SchemaVersion
from cordwood.registry.state.subjects import DEFAULT_CONTEXT, parse_subject

from .requests import flag, id_of, parameter
from .responses import page, respond, schema_body, version_body
from .subjects import formatted_text


class SchemaRoutes:
    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version

    async def list_schemas(self, request: Request) -> Response:
        state = self._registry.state
        prefix = request.query_params.get("subjectPrefix", "")
        wanted = "" if prefix in ("", ":*:") else parse_subject(prefix).qualified
        names = {name: name for name in state.subjects if name.startswith(wanted)}
        if flag(request, "aliases"):
            # Under its own name, with the schemas of the subject that it stands for.
            names |= {
                name: alias
                for name, config in state.configs.items()
                if name is not None and name.startswith(wanted) and (alias := config.get("alias"))
            }
        found: list[Json] = []
        for name in sorted(names):
            versions = state.versions(names[name], with_deleted=flag(request, "deleted"))
            for version in versions[-1:] if flag(request, "latestOnly") else versions:
                body = version_body(version)
                found.append(body if names[name] == name else {**body, "subject": name})
        return respond(request, page(request, found))

    async def by_id(self, request: Request) -> Response:
        version = self._of_id(request)
        body: Json = schema_body(
            version, formatted_text(self._registry, version, request.query_params.get("format", ""))
        )
        # For old clients, whose request already identifies the schema.
        body = {"schema": body.pop("schema"), **body}
        if flag(request, "fetchMaxId"):
            context = parse_subject(version.subject).context
            body["maxId"] = self._registry.state.contexts[context].max_id
        if request.query_params.get("subject"):
            body |= {"subject": version.subject, "version": version.version}
        return respond(request, body)

    async def schema_of_id(self, request: Request) -> Response:
        """The schema alone, as text."""
        version = self._of_id(request)
        text = formatted_text(self._registry, version, request.query_params.get("format", ""))
        return Response(text or version.text, media_type="application/vnd.schemaregistry.v1+json")

    async def subjects_of_id(self, request: Request) -> Response:
        return respond(request, page(request, sorted({version.subject for version in self._holders(request)})))

    async def versions_of_id(self, request: Request) -> Response:
        found = [{"subject": each.subject, "version": each.version} for each in self._holders(request)]
        return respond(request, page(request, sorted(found, key=lambda each: (str(each["subject"]), each["version"]))))

    async def by_guid(self, request: Request) -> Response:
        version = self._of_guid(request)
        body = schema_body(version, formatted_text(self._registry, version, request.query_params.get("format", "")))
        return respond(request, {"schema": body.pop("schema"), **body})

    async def ids_of_guid(self, request: Request) -> Response:
        guid = parameter(request, "guid").lower()
        contexts = self._registry.state.contexts
        found = [
            {"context": name, "id": context.ids_by_guid[guid]}
            for name, context in contexts.items()
            if guid in context.ids_by_guid
        ]
        if not found:
            raise schema_not_found(guid[:50])
        return respond(request, page(request, found))

    async def types(self, request: Request) -> Response:
        return respond(request, list(SCHEMA_TYPES))

    # ---- contexts

    async def list_contexts(self, request: Request) -> Response:
        return respond(request, page(request, sorted(self._registry.state.contexts)))

    async def delete_context(self, request: Request) -> Response:
        context = parameter(request, "context")
        await self._registry.write(lambda state: (delete_context(state, context), None), is_idempotent=True)
        return Response(status_code=204)

    # ---- the registry itself

    async def cluster_id(self, request: Request) -> Response:
        scope = {
            "path": [],
            "clusters": {
                "kafka-cluster": await self._registry.cluster_id(),
                "schema-registry-cluster": self._registry.settings.group_id,
            },
        }
        return respond(request, {"scope": scope, "id": ""})

    async def server_version(self, request: Request) -> Response:
        return respond(request, {"version": self._version, "commitId": ""})

    async def root(self, request: Request) -> Response:
        return respond(request, {})

    async def exporters(self, request: Request) -> Response:
        if "name" in request.path_params or request.method != "GET":
            raise RegistryError(40450, "Exporters are not configured in this registry")
        return respond(request, [])

    # ---- helpers

    def _of_id(self, request: Request) -> SchemaVersion:
        return self._holders(request, of_any=True)[0]

    def _holders(self, request: Request, *, of_any: bool = False) -> list[SchemaVersion]:
        """Versions with an id. Deleted ones stay readable by id, because records contain it."""
        state, id_ = self._registry.state, id_of(request)
        subject = request.query_params.get("subject") or ""
        parsed = parse_subject(subject)
        found = state.of_id(parsed.context, id_)
        if not found and subject and parsed.context == DEFAULT_CONTEXT:
            # A subject may be in any context.
            for context in state.contexts:
                holders = [each for each in state.of_id(context, id_) if parse_subject(each.subject).name == subject]
                found = found or holders
        if subject and not parsed.is_context:
            found = [each for each in found if parse_subject(each.subject).name == parsed.name] or (
                found if of_any else []
            )
        with_deleted = of_any or flag(request, "deleted")
        live = [each for each in found if not each.is_deleted]
        chosen = (live or found) if of_any else [each for each in found if with_deleted or not each.is_deleted]
        if not found:
            raise schema_not_found(id_)
        return chosen

    def _of_guid(self, request: Request) -> SchemaVersion:
        guid = parameter(request, "guid").lower()
        state = self._registry.state
        for name, context in state.contexts.items():
            id_ = context.ids_by_guid.get(guid)
            if id_ is not None:
                return state.of_id(name, id_)[0]
        raise schema_not_found(guid[:50])
