"""`cordwood schema`: register, read, check, compare, delete, export and import schemas of a registry."""

import difflib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_UNREACHABLE, fail
from cordwood.cli.terminal.output import print_json, print_table
from cordwood.registry.client import RegisteredSchema, RegistryClient, RegistryRefused
from cordwood.registry.schemas.compatibility import Level, violations
from cordwood.registry.schemas.schema import InvalidSchema
from cordwood.runtime.blocking_http import Unreachable

app = typer.Typer(
    help="Register, read, check, compare and delete schemas of a schema registry.",
    no_args_is_help=True,
    add_completion=False,
)

Url = Annotated[
    str,
    typer.Option(
        "--registry", metavar="URL", envvar="CORDWOOD_REGISTRY", help="The registry; several with commas between."
    ),
]
User = Annotated[
    str | None, typer.Option(metavar="USER:PASSWORD", envvar="CORDWOOD_REGISTRY_USER", help="Basic authentication.")
]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A subject, as orders-value.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The schema: .avsc, .json or .proto; - is stdin.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="AVRO, JSON or PROTOBUF; else by the file's name.")
]
DEFAULT_URL = "http://127.0.0.1:8081"


@app.command(epilog="Examples:\n\ncordwood schema register orders-value order.avsc")
def register(subject: Subject, file: File, schema_type: Type = None, url: Url = DEFAULT_URL, user: User = None) -> None:
    """Register a schema, and print its id."""
    text, kind = _read(file, schema_type)
    registered = _run(url, user, lambda client: client.register(subject, text, kind))
    print_table(("id", "version", "guid"), [(registered.id, registered.version, registered.guid)])


@app.command(epilog="Examples:\n\ncordwood schema get orders-value\n\ncordwood schema get orders-value --version 3")
def get(
    subject: Subject,
    version: Annotated[str, typer.Option(metavar="N", help="A version.")] = "latest",
    as_json: Annotated[bool, typer.Option("--json", help="Print all that the registry tells.")] = False,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Print a schema."""
    found = _run(url, user, lambda client: client.ask("GET", f"{_path(subject)}/versions/{quote(version, safe='')}"))
    if as_json:
        print_json(found)
    else:
        print(_pretty(found["schema"]))


@app.command("list", epilog="Examples:\n\ncordwood schema list\n\ncordwood schema list --deleted")
def list_subjects(
    deleted: Annotated[bool, typer.Option("--deleted", help="Also subjects that are softly deleted.")] = False,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """List all subjects."""
    found = _run(url, user, lambda client: client.ask("GET", f"/subjects?deleted={str(deleted).lower()}"))
    print_table(("subject",), [(each,) for each in found])


@app.command(epilog="Examples:\n\ncordwood schema versions orders-value")
def versions(subject: Subject, url: Url = DEFAULT_URL, user: User = None) -> None:
    """List the versions of a subject."""
    found = _run(url, user, lambda client: list(_versions(client, subject)))
    print_table(
        ("version", "id", "type", "guid"),
        [(each["version"], each["id"], each.get("schemaType", "AVRO"), each.get("guid")) for each in found],
    )


@app.command(epilog="Examples:\n\ncordwood schema check orders-value order.avsc")
def check(subject: Subject, file: File, schema_type: Type = None, url: Url = DEFAULT_URL, user: User = None) -> None:
    """Check whether a schema may be the next version of a subject; exit with 1 if not."""
    text, kind = _read(file, schema_type)
    path = f"/compatibility{_path(subject)}/versions?verbose=true"
    body = {"schema": text, "schemaType": kind}
    verdict = _run(url, user, lambda client: client.ask("POST", path, body))
    print("compatible" if verdict["is_compatible"] else "incompatible")
    for message in verdict.get("messages") or ():
        print(message)
    if not verdict["is_compatible"]:
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog="Examples:\n\ncordwood schema diff orders-value 1 2")
def diff(
    subject: Subject,
    old: Annotated[int, typer.Argument(metavar="OLD", help="A version.")],
    new: Annotated[int, typer.Argument(metavar="NEW", help="Another one.")],
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Compare two versions of a subject, with the verdict of each compatibility level."""

    def read(client: RegistryClient) -> tuple[RegisteredSchema, RegisteredSchema]:
        one, other = (client.ask("GET", f"{_path(subject)}/versions/{number}")["id"] for number in (old, new))
        return client.by_id(one, subject), client.by_id(other, subject)

    before, after = _run(url, user, read)
    lines = difflib.unified_diff(
        _pretty(before.schema.canonical).splitlines(),
        _pretty(after.schema.canonical).splitlines(),
        f"version {old}",
        f"version {new}",
        lineterm="",
    )
    for line in lines:
        print(line)
    rows = []
    for level in (Level.BACKWARD, Level.FORWARD, Level.FULL):
        found = violations(level, after.schema, [before.schema])
        rows.append((level.value, "incompatible" if found else "compatible", "; ".join(found)))
    print_table(("level", "verdict", "reasons"), rows, title="Compatibility")


@app.command(
    epilog="Examples:\n\ncordwood schema delete orders-value --version 2\n\ncordwood schema delete old --permanent"
)
def delete(
    subject: Subject,
    version: Annotated[str | None, typer.Option(metavar="N", help="One version; else the whole subject.")] = None,
    permanent: Annotated[bool, typer.Option("--permanent", help="For good; it has to be deleted before.")] = False,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Delete a subject, or one of its versions: softly, so that its records stay readable, or for good."""
    path = _path(subject) if version is None else f"{_path(subject)}/versions/{quote(version, safe='')}"
    gone = _run(url, user, lambda client: client.ask("DELETE", f"{path}?permanent={str(permanent).lower()}"))
    print_table(("deleted version",), [(each,) for each in (gone if isinstance(gone, list) else [gone])])


@app.command(epilog="Examples:\n\ncordwood schema config\n\ncordwood schema config orders-value --level FULL")
def config(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="A subject; else all.")] = None,
    level: Annotated[str | None, typer.Option(metavar="LEVEL", help="Set the compatibility level.")] = None,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Show the configuration of a subject, or of all, and set its compatibility level."""
    path = "/config" if subject is None else f"/config/{quote(subject, safe='')}"
    if level is not None:
        _run(url, user, lambda client: client.ask("PUT", path, {"compatibility": level}))
    print_json(_run(url, user, lambda client: client.ask("GET", f"{path}?defaultToGlobal=true")))


@app.command(epilog="Examples:\n\ncordwood schema mode\n\ncordwood schema mode orders-value --set READONLY")
def mode(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="A subject; else all.")] = None,
    to: Annotated[str | None, typer.Option("--set", metavar="MODE", help="READWRITE, READONLY or IMPORT.")] = None,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Show and set the mode of a subject, or of all."""
    path = "/mode" if subject is None else f"/mode/{quote(subject, safe='')}"
    if to is not None:
        _run(url, user, lambda client: client.ask("PUT", path, {"mode": to}))
    print(_run(url, user, lambda client: client.ask("GET", f"{path}?defaultToGlobal=true"))["mode"])


@app.command("export", epilog="Examples:\n\ncordwood schema export > schemas.jsonl")
def export_schemas(url: Url = DEFAULT_URL, user: User = None) -> None:
    """Print all versions of all subjects, as lines of JSON, in the order of their ids."""
    found = _run(url, user, lambda client: client.ask("GET", "/schemas?subjectPrefix=:*:"))
    for each in sorted(found, key=lambda version: (version["id"], version["version"])):
        print(json.dumps(each, ensure_ascii=False))


@app.command("import", epilog="Examples:\n\ncordwood schema import schemas.jsonl")
def import_schemas(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` printed; - is stdin.")],
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Register exported versions with the ids and versions that they had."""
    found = [json.loads(line) for line in _text(file).splitlines() if line.strip()]

    def load(client: RegistryClient) -> None:
        for each in found:
            subject = each["subject"]
            client.ask("PUT", f"/mode/{quote(subject, safe='')}?force=true", {"mode": "IMPORT"})
            try:
                client.ask("POST", f"{_path(subject)}/versions", each)
            finally:
                client.ask("DELETE", f"/mode/{quote(subject, safe='')}")

    _run(url, user, load)
    print(f"imported {len(found)} versions")


def _versions(client: RegistryClient, subject: str) -> Iterator[Any]:
    for number in client.ask("GET", f"{_path(subject)}/versions"):
        yield client.ask("GET", f"{_path(subject)}/versions/{number}")


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        # Protobuf.
        return text.rstrip()


def _read(file: Path, schema_type: str | None) -> tuple[str, str]:
    by_name = {".proto": "PROTOBUF", ".json": "JSON"}.get(file.suffix, "AVRO")
    return _text(file), by_name if schema_type is None else schema_type.upper()


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: {error}", EXIT_BAD_INPUT)


def _run(url: str, user: str | None, work: Callable[[RegistryClient], Any]) -> Any:
    name, _, password = (user or "").partition(":")
    try:
        return work(RegistryClient(url, user=name or None, password=password))
    except Unreachable as error:
        fail(
            f"no registry answers at {error} (is one running there? cordwood up --registry-port 8081)", EXIT_UNREACHABLE
        )
    except (RegistryRefused, InvalidSchema) as error:
        fail(str(error), EXIT_FAILED)
    except ValueError as error:
        fail(str(error), EXIT_BAD_INPUT)
