"""`cordwood schema`: register, read, check, compare, delete, export and import schemas of a registry."""

import difflib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_UNREACHABLE, Access, fail, run_alone
from cordwood.cli.schemas.access import registry_client
from cordwood.cli.terminal.output import print_json, print_table
from cordwood.registry.client import RegisteredSchema, RegistryClient, RegistryRefused
from cordwood.registry.schemas.compatibility import Level, violations
from cordwood.registry.schemas.schema import InvalidSchema, Reference
from cordwood.runtime.blocking_http import Unreachable

app = typer.Typer(
    help="Register, read, check, compare and delete schemas of a schema registry.",
    no_args_is_help=True,
    add_completion=False,
)

Url = Annotated[
    str,
    typer.Option(
        "--registry",
        metavar="URL",
        envvar="CORDWOOD_REGISTRY",
        help="URL of the registry; several are separated by commas.",
    ),
]
User = Annotated[
    str | None, typer.Option(metavar="USER:PASSWORD", envvar="CORDWOOD_REGISTRY_USER", help="Basic authentication.")
]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A subject, such as orders-value.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The schema: .avsc, .json or .proto; - is stdin.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="AVRO, JSON or PROTOBUF; default: by the file's name.")
]
References = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SUBJECT:VERSION", help="A schema that this one refers to by NAME; may be repeated."),
]
DEFAULT_URL = "http://127.0.0.1:8081"


@app.command(
    epilog="Examples:\n\ncordwood schema register orders-value order.avsc\n\n"
    "cordwood schema register orders-value order.avsc --reference shop.Customer=customers-value:2"
)
def register(
    subject: Subject,
    file: File,
    schema_type: Type = None,
    reference: References = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Ignore differences without meaning.")] = False,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Register a schema, and print its id."""
    text, kind = _read(file, schema_type)
    references = _references(reference)
    registered = _run(url, user, lambda client: client.register(subject, text, kind, references, normalize=normalize))
    print_table(("id", "version", "guid"), [(registered.id, registered.version, registered.guid)])


@app.command(epilog="Examples:\n\ncordwood schema get orders-value\n\ncordwood schema get orders-value --version 3")
def get(
    subject: Subject,
    version: Annotated[str, typer.Option(metavar="N", help="A version.")] = "latest",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that the registry returns.")] = False,
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


@app.command(
    epilog="Examples:\n\ncordwood schema check orders-value order.avsc\n\n"
    "cordwood schema check orders-value order.avsc --against-data orders --bootstrap localhost:9092"
)
def check(
    subject: Subject,
    file: File,
    schema_type: Type = None,
    reference: References = None,
    against_data: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Check that the schema can read all stored records of this topic."),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="With --against-data: keys instead of values.")] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="With --against-data: bootstrap brokers."),
    ] = None,
    client_config: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --against-data: a client's properties.")
    ] = None,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Check whether a schema may be the next version of a subject; exit with 1 if not.

    With --against-data it reads the topic instead, and names the first record that the schema cannot read: its
    partition, offset and field."""
    text, kind = _read(file, schema_type)
    references = _references(reference)
    if against_data is not None:
        access = Access(bootstrap=bootstrap, client_config=client_config)
        _check_data(access, url, user, against_data, (text, kind, references), is_key=keys)
        return
    path = f"/compatibility{_path(subject)}/versions?verbose=true"
    body = {"schema": text, "schemaType": kind, "references": [each._asdict() for each in references]}
    verdict = _run(url, user, lambda client: client.ask("POST", path, body))
    print("compatible" if verdict["is_compatible"] else "incompatible")
    for message in verdict.get("messages") or ():
        print(message)
    if not verdict["is_compatible"]:
        raise typer.Exit(EXIT_FAILED)


def _check_data(
    access: Access, url: str, user: str | None, topic: str, given: tuple[str, str, Sequence[Reference]], *, is_key: bool
) -> None:
    from cordwood.cli.schemas.data import Findings, check_stored_records
    from cordwood.client.consumer.consumer import Consumer
    from cordwood.client.consumer.settings import ConsumerSettings
    from cordwood.runtime.sockets import SocketNetwork

    def work(client: RegistryClient) -> Findings:
        schema = client.parsed(*given)

        async def main() -> Findings:
            settings = access.settings_of(ConsumerSettings, allow_auto_create_topics=False)
            async with Consumer(settings=settings, network=SocketNetwork()) as consumer:
                return await check_stored_records(consumer, client, topic, schema, is_key=is_key)

        return run_alone(main)

    findings = _run(url, user, work)
    if findings.first is not None:
        print("unreadable")
        print(findings.first)
        raise typer.Exit(EXIT_FAILED)
    print(f"readable: all of {findings.read_count} records")


@app.command(epilog="Examples:\n\ncordwood schema diff orders-value 1 2")
def diff(
    subject: Subject,
    old: Annotated[int, typer.Argument(metavar="OLD", help="A version.")],
    new: Annotated[int, typer.Argument(metavar="NEW", help="Another version.")],
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Compare two versions of a subject, with the verdict of each compatibility level."""

    def of_version(client: RegistryClient, number: int) -> RegisteredSchema:
        return client.by_id(client.ask("GET", f"{_path(subject)}/versions/{number}")["id"], subject)

    def read(client: RegistryClient) -> tuple[RegisteredSchema, RegisteredSchema, list[RegisteredSchema]]:
        earlier = [number for number in client.ask("GET", f"{_path(subject)}/versions") if number < new]
        return of_version(client, old), of_version(client, new), [of_version(client, number) for number in earlier]

    before, after, earlier = _run(url, user, read)
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
    for level in Level:
        if level is Level.NONE:
            continue
        # The plain levels compare these two; the transitive ones compare the new version with all before it.
        others = [each.schema for each in earlier] if level.is_transitive else [before.schema]
        found = violations(level, after.schema, others)
        rows.append((level.value, "incompatible" if found else "compatible", "; ".join(found)))
    print_table(("level", "verdict", "reasons"), rows, title="Compatibility")


@app.command(
    epilog="Examples:\n\ncordwood schema delete orders-value --version 2\n\ncordwood schema delete old --permanent"
)
def delete(
    subject: Subject,
    version: Annotated[str | None, typer.Option(metavar="N", help="One version; else the whole subject.")] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Delete permanently; the version must be softly deleted first.")
    ] = False,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Delete a subject, or one of its versions: softly, so that its records stay readable, or for good."""
    path = _path(subject) if version is None else f"{_path(subject)}/versions/{quote(version, safe='')}"
    gone = _run(url, user, lambda client: client.ask("DELETE", f"{path}?permanent={str(permanent).lower()}"))
    print_table(("deleted version",), [(each,) for each in (gone if isinstance(gone, list) else [gone])])


@app.command(
    epilog="Examples:\n\ncordwood schema config\n\ncordwood schema config orders-value --level FULL\n\n"
    "cordwood schema config orders-value --group major --normalize\n\n"
    'cordwood schema config orders-value --set \'defaultMetadata={"properties": {"owner": "shop"}}\'\n\n'
    "cordwood schema config orders-value --unset compatibilityGroup"
)
def config(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="A subject; else all.")] = None,
    level: Annotated[str | None, typer.Option(metavar="LEVEL", help="Set the compatibility level.")] = None,
    group: Annotated[
        str | None, typer.Option(metavar="PROPERTY", help="Compare only versions with the same value of this property.")
    ] = None,
    normalize: Annotated[bool | None, typer.Option(help="Normalize schemas before they are registered.")] = None,
    alias: Annotated[str | None, typer.Option(metavar="SUBJECT", help="Make this subject an alias of another.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=JSON", help="Another setting, by its name in the REST API; may be repeated."
        ),
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Reset a setting; may be repeated.")] = None,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Show or change the configuration of a subject, or the global one."""
    path = "/config" if subject is None else f"/config/{quote(subject, safe='')}"
    named = {"compatibility": level, "compatibilityGroup": group, "normalize": normalize, "alias": alias}
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for text in settings or ():
        name, equals, value = text.partition("=")
        try:
            changes[name] = json.loads(value)
        except ValueError:
            # A single word is the level.
            changes[name] = value
        if not equals:
            fail(f"--set {text}: expected NAME=JSON", EXIT_BAD_INPUT)
    changes |= dict.fromkeys(unset or ())
    if changes:
        _run(url, user, lambda client: client.ask("PUT", path, changes))
    print_json(_run(url, user, lambda client: client.ask("GET", f"{path}?defaultToGlobal=true")))


@app.command(epilog="Examples:\n\ncordwood schema mode\n\ncordwood schema mode orders-value --set READONLY")
def mode(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="A subject; else all.")] = None,
    to: Annotated[str | None, typer.Option("--set", metavar="MODE", help="READWRITE, READONLY or IMPORT.")] = None,
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Show or set the mode of a subject, or the global one."""
    path = "/mode" if subject is None else f"/mode/{quote(subject, safe='')}"
    if to is not None:
        _run(url, user, lambda client: client.ask("PUT", path, {"mode": to}))
    print(_run(url, user, lambda client: client.ask("GET", f"{path}?defaultToGlobal=true"))["mode"])


@app.command("export", epilog="Examples:\n\ncordwood schema export > schemas.jsonl")
def export_schemas(url: Url = DEFAULT_URL, user: User = None) -> None:
    """Print all versions (including deleted ones), configurations and modes as lines of JSON."""
    from cordwood.cli.schemas.archive import exported

    for line in _run(url, user, lambda client: list(exported(client))):
        print(json.dumps(line, ensure_ascii=False))


@app.command("import", epilog="Examples:\n\ncordwood schema import schemas.jsonl")
def import_schemas(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Output of `export`; - is stdin.")],
    url: Url = DEFAULT_URL,
    user: User = None,
) -> None:
    """Register exported versions with their original ids and version numbers, and set configurations and modes."""
    from cordwood.cli.schemas.archive import imported

    lines = [json.loads(line) for line in _text(file).splitlines() if line.strip()]
    print(f"imported {_run(url, user, lambda client: imported(client, lines))} versions")


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


def _references(texts: Sequence[str] | None) -> list[Reference]:
    found = []
    for text in texts or ():
        name, _, referred = text.partition("=")
        subject, _, version = referred.rpartition(":")
        if not name or not subject or not version.isdecimal():
            fail(f"--reference {text}: expected NAME=SUBJECT:VERSION", EXIT_BAD_INPUT)
        found.append(Reference(name, subject, int(version)))
    return found


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: {getattr(error, 'strerror', None) or error}", EXIT_BAD_INPUT)


def _run(url: str, user: str | None, work: Callable[[RegistryClient], Any]) -> Any:
    try:
        return work(registry_client(url, user))
    except Unreachable as error:
        fail(
            f"no registry answers at {error} (is one running there? cordwood up --registry-port 8081)", EXIT_UNREACHABLE
        )
    except (RegistryRefused, InvalidSchema) as error:
        fail(str(error), EXIT_FAILED)
    except ValueError as error:
        fail(str(error), EXIT_BAD_INPUT)
