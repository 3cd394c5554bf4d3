"""In the end every registry has all acknowledged schemas, without gaps in versions, and so does a reader of the topic
that reads uncommitted records, as Confluent's registry does."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def registered_schemas_are_kept(history: History) -> Iterator[Violation]:
    for name, contents in history.registry.final.items():
        for each in history.registry.registrations:
            found = contents.get(each.subject, {}).get(each.version)
            if found != (each.id, each.schema):
                yield Violation("a registered schema is kept", f"{name} has {found}: {each}")


def versions_have_no_gap(history: History) -> Iterator[Violation]:
    for name, contents in history.registry.final.items():
        for subject, versions in contents.items():
            if sorted(versions) != list(range(1, len(versions) + 1)):
                yield Violation("versions have no gap", f"{name}, {subject}: {sorted(versions)}")
            schemas = [schema for _, schema in versions.values()]
            if len(set(schemas)) < len(schemas):
                yield Violation("a subject has a schema once", f"{name}, {subject}: {dict(versions)}")


def registries_agree(history: History) -> Iterator[Violation]:
    (first, contents), *others = history.registry.final.items() or [("", {})]
    for name, other in others:
        for subject in sorted({*contents, *other}):
            if contents.get(subject) != other.get(subject):
                yield Violation(
                    "registries agree",
                    f"{subject}: {first} has {contents.get(subject)}, {name} has {other.get(subject)}",
                )
