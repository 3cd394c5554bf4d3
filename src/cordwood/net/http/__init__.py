"""HTTP/1.1 for ASGI apps, over the Network port.

server = HttpServer(network, clock)
address = await server.serve(app, "127.0.0.1", 9644)
…
await server.stop(grace_seconds=5)

| module | contents |
|---|---|
| `server` | listeners, the number of connections, a stop that finishes what is in flight |
| `connection` | one connection: reading, sending, timeouts, back-pressure |
| `exchange` | one request and its response, as an app sees them (ASGI's receive and send) |
| `protocol` | bytes to requests and responses to bytes, sans-IO; h11 does the parsing |
| `limits`, `asgi` | the limits of a peer's use; the types of ASGI |

Only a process that serves HTTP imports this package: h11 alone costs 30 ms of a node's start.
"""
