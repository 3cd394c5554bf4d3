"""A registry answers any request with one of Confluent's codes, and continues.

`make fuzz-registry` sends 100,000 requests; the suite sends some.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections import Counter
from random import Random
from typing import Any

import cordwood.testing
from cordwood.net.http.asgi import App
from cordwood.registry.registry import Registry, RegistrySettings, reaching
from cordwood.registry.rest.app import registry_app
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from tests.registry.fuzzed_requests import FuzzedRequest, fuzzed_request

REQUESTS = int(os.environ.get("CORDWOOD_FUZZ_REQUESTS", "1500"))
SEED = int(os.environ.get("CORDWOOD_FUZZ_SEED", "1"))
STATUSES = {200, 204, 400, 404, 405, 406, 409, 415, 422}
# After so many, the registry is asked to leave modes and settings behind which it takes nothing any more.
RESET_EVERY = 200


async def ask(app: App, request: FuzzedRequest) -> tuple[int, bytes]:
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("ascii", "replace"),
        "query_string": request.query.encode("ascii", "replace"),
        "headers": [(b"content-type", request.content_type.encode("latin-1"))],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8081),
    }
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body += message.get("body", b"")

    await app(scope, receive, send)
    return status, body


def problem(request: FuzzedRequest, status: int, body: bytes) -> str | None:
    """None: the answer is one of Confluent's."""
    if status not in STATUSES:
        return f"status {status}: {body[:300]!r}"
    if status < 400 or request.method == "HEAD":
        return None
    told = json.loads(body)
    code = told["error_code"]
    if code // (1 if code < 1000 else 100) != status or not isinstance(told["message"], str):
        return f"status {status} with {told}"
    return None


async def fuzz(bootstrap: str) -> None:
    registry = Registry(RegistrySettings(reaching(bootstrap)), network=SocketNetwork(), clock=SystemClock())
    await registry.start()
    app = registry_app(registry)
    source = Random(SEED)
    counts: Counter[int] = Counter()
    problems: list[str] = []
    slowest = (0.0, "")
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    try:
        for number in range(REQUESTS):
            if number % RESET_EVERY == 0:
                for path in ("/mode", "/config", "/mode/a", "/mode/:.x:", "/config/a"):
                    await ask(app, FuzzedRequest("DELETE", path, "", "application/json", b""))
            request = fuzzed_request(source)
            begun_s = time.thread_time()
            status, body = await ask(app, request)
            slowest = max(
                slowest, (time.thread_time() - begun_s, f"{request.method} {request.path[:60]} {request.body[:100]!r}")
            )
            counts[status] += 1
            if (found := problem(request, status, body)) is not None:
                shown = request._replace(body=request.body[:300], path=request.path[:200])
                problems.append(f"{shown}: {found}")
        assert (await ask(app, FuzzedRequest("GET", "/subjects", "", "", b"")))[0] == 200
    finally:
        await registry.stop()
    grown_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - before_mb
    print(
        f"{REQUESTS:,} requests: {dict(sorted(counts.items()))}; memory grew by {grown_mb} MB; the slowest took "
        f"{slowest[0]:.2f} s of CPU: {slowest[1]}"
    )
    assert not problems, f"{len(problems)} problems, the first:\n" + "\n".join(problems[:20])
    assert {200, 400, 404, 405, 415, 422} <= counts.keys()


def test_registry_answers_whatever_it_is_asked() -> None:
    with cordwood.testing.node() as node:
        asyncio.run(fuzz(node.bootstrap))
