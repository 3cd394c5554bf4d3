"""/config and /mode: of the registry, of a context, of a subject."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cordwood.registry.registry import Registry
from cordwood.registry.state.errors import RegistryError
from cordwood.registry.state.records import Json
from cordwood.registry.state.scope import DEFAULT_CONFIG, config_in_scope, key_of, mode_in_scope
from cordwood.registry.state.settings import delete_config, delete_mode, update_config, update_mode
from cordwood.registry.state.subjects import DEFAULT_CONTEXT, Subject

from .requests import body_of, flag, subject_of
from .responses import respond

_EVERYTHING = Subject(DEFAULT_CONTEXT, "")


class SettingRoutes:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def get_config(self, request: Request) -> Response:
        subject, state = _subject(request), self._registry.state
        if subject is None:
            return respond(request, config_in_scope(state, _EVERYTHING))
        own = state.configs.get(key_of(subject))
        if flag(request, "defaultToGlobal"):
            return respond(request, config_in_scope(state, subject))
        if own is None:
            raise RegistryError(
                40408, f"Subject '{subject.qualified}' does not have subject-level compatibility configured"
            )
        return respond(request, {name: value for name, value in own.items() if name != "subject"})

    async def put_config(self, request: Request) -> Response:
        subject = _subject(request)
        body = await body_of(request)
        merged: Json = await self._registry.write(lambda state: update_config(state, subject, body), is_idempotent=True)
        shown = {name: merged[name] for name in merged if name != "compatibilityLevel"}
        if "compatibilityLevel" in merged:
            shown = {"compatibility": merged["compatibilityLevel"], **shown}
        return respond(request, shown)

    async def delete_config(self, request: Request) -> Response:
        subject = _subject(request)
        was: Json = await self._registry.write(lambda state: delete_config(state, subject), is_idempotent=False)
        return respond(request, DEFAULT_CONFIG | was)

    async def get_mode(self, request: Request) -> Response:
        subject, state = _subject(request), self._registry.state
        if subject is None:
            return respond(request, {"mode": mode_in_scope(state, _EVERYTHING)})
        own = state.modes.get(key_of(subject))
        if flag(request, "defaultToGlobal"):
            own = mode_in_scope(state, subject)
        if own is None:
            raise RegistryError(40409, f"Subject '{subject.qualified}' does not have subject-level mode configured")
        return respond(request, {"mode": own})

    async def put_mode(self, request: Request) -> Response:
        subject = _subject(request)
        body = await body_of(request)
        force = flag(request, "force")
        mode = body.get("mode")
        await self._registry.write(
            lambda state: (update_mode(state, subject, mode, force=force), None), is_idempotent=True
        )
        return respond(request, {"mode": str(mode).upper()})

    async def delete_mode(self, request: Request) -> Response:
        subject = _subject(request)
        was = await self._registry.write(lambda state: delete_mode(state, subject), is_idempotent=False)
        return respond(request, {"mode": was})


def _subject(request: Request) -> Subject | None:
    return subject_of(request) if "subject" in request.path_params else None
