"""The ASGI app: routes, errors, forwarding to the registry that writes."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cordwood import __version__
from cordwood.net.http.asgi import App, Receive, Scope, Send
from cordwood.registry.errors import TopicReplaced
from cordwood.registry.registry import Registry
from cordwood.registry.state.errors import RegistryError

from .authentication import Credentials, is_authenticated
from .forwarding import Handler, forwarding
from .read_cache import ReadCache
from .responses import content_type, error_response
from .schemas import SchemaRoutes
from .settings import SettingRoutes
from .subjects import SubjectRoutes

_log = logging.getLogger(__name__)


def registry_app(registry: Registry, credentials: Credentials | None = None) -> App:
    """`credentials`: those of basic authentication; None accepts every client."""
    app = Starlette(routes=_routes(registry, credentials), exception_handlers={HTTPException: _http_error})
    app.router.redirect_slashes = False

    async def encoded_paths(scope: Scope, receive: Receive, send: Send) -> None:
        # Routes match the path as it was sent, so that a subject may have a slash in it (%2F).
        if scope["type"] == "http":
            path = scope["raw_path"].decode("ascii")
            # As Confluent's: /subjects/ is /subjects. A redirect would contain the Host header of the request.
            scope = {**scope, "path": path.removesuffix("/") or "/"}
        await app(scope, receive, send)

    return ReadCache(encoded_paths, registry.replica)


def _routes(registry: Registry, credentials: Credentials | None) -> list[Route]:
    subjects, schemas = SubjectRoutes(registry), SchemaRoutes(registry, __version__)
    settings = SettingRoutes(registry)
    reads: list[tuple[str, str, Handler]] = [
        ("GET", "/", schemas.root),
        ("GET", "/subjects", subjects.list_subjects),
        ("POST", "/subjects/{subject}", subjects.look_up),
        ("GET", "/subjects/{subject}/versions", subjects.list_versions),
        ("GET", "/subjects/{subject}/versions/{version}", subjects.get_version),
        ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.get_version_schema),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.referenced_by),
        ("GET", "/subjects/{subject}/metadata", subjects.get_metadata),
        ("POST", "/compatibility/subjects/{subject}/versions", subjects.check_all),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", subjects.check_version),
        ("GET", "/schemas", schemas.list_schemas),
        ("GET", "/schemas/types", schemas.types),
        ("GET", "/schemas/ids/{id}", schemas.by_id),
        ("GET", "/schemas/ids/{id}/schema", schemas.schema_of_id),
        ("GET", "/schemas/ids/{id}/subjects", schemas.subjects_of_id),
        ("GET", "/schemas/ids/{id}/versions", schemas.versions_of_id),
        ("GET", "/schemas/guids/{guid}", schemas.by_guid),
        ("GET", "/schemas/guids/{guid}/ids", schemas.ids_of_guid),
        ("GET", "/contexts", schemas.list_contexts),
        ("GET", "/config", settings.get_config),
        ("GET", "/config/{subject}", settings.get_config),
        ("GET", "/mode", settings.get_mode),
        ("GET", "/mode/{subject}", settings.get_mode),
        ("GET", "/v1/metadata/id", schemas.cluster_id),
        ("GET", "/v1/metadata/version", schemas.server_version),
        *((method, "/exporters", schemas.exporters) for method in ("GET", "POST")),
        *((method, "/exporters/{name}", schemas.exporters) for method in ("GET", "PUT", "DELETE")),
        *((method, "/exporters/{name}/{what}", schemas.exporters) for method in ("GET", "PUT")),
    ]
    writes: list[tuple[str, str, Handler]] = [
        ("POST", "/subjects/{subject}/versions", subjects.register),
        ("DELETE", "/subjects/{subject}/versions/{version}", subjects.delete_version),
        ("DELETE", "/subjects/{subject}", subjects.delete_subject),
        ("DELETE", "/contexts/{context}", schemas.delete_context),
        ("PUT", "/config", settings.put_config),
        ("PUT", "/config/{subject}", settings.put_config),
        ("DELETE", "/config", settings.delete_config),
        ("DELETE", "/config/{subject}", settings.delete_config),
        ("PUT", "/mode", settings.put_mode),
        ("PUT", "/mode/{subject}", settings.put_mode),
        ("DELETE", "/mode", settings.delete_mode),
        ("DELETE", "/mode/{subject}", settings.delete_mode),
    ]
    by_path: dict[str, dict[str, Handler]] = {}
    for method, path, handler in reads:
        by_path.setdefault(path, {})[method] = handler
    for method, path, handler in writes:
        by_path.setdefault(path, {})[method] = forwarding(registry, handler)
    return [
        Route(path, _guarded(by_method, credentials), methods=list(by_method)) for path, by_method in by_path.items()
    ]


def _guarded(by_method: dict[str, Handler], credentials: Credentials | None) -> Handler:
    async def handle(request: Request) -> Response:
        if credentials is not None and not is_authenticated(request, credentials):
            response = error_response(RegistryError(401, "Unauthorized"))
            response.headers["www-authenticate"] = 'Basic realm="SchemaRegistry"'
            return response
        try:
            content_type(request)
            method = "GET" if request.method == "HEAD" else request.method
            return await by_method[method](request)
        except RegistryError as error:
            return error_response(error)
        except TopicReplaced as error:
            return error_response(RegistryError(50001, str(error)))
        except Exception:  # noqa: BLE001  # it costs this request only, and the log has it
            _log.exception("Bug: %s %s failed", request.method, request.url.path)
            return error_response(RegistryError(50001, "Error in the registry: its log has the details"))

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(RegistryError(error.status_code, f"HTTP {error.status_code} {error.detail}"))
