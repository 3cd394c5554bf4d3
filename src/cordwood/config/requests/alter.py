"""Decides AlterConfigs and IncrementalAlterConfigs: a resource's new settings, or the reason for refusing them.

Differences from Kafka 4.3, all of them refusals with a message where Kafka has none or accepts:
- an unknown broker key is refused; Kafka stores it for plugins, which Cordwood doesn't have;
- an operation that does not exist is INVALID_REQUEST for every resource; Kafka fails on it for all but brokers;
- messages of rules between keys come without Java's "requirement failed: " and the like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cordwood.config.broker import BrokerConfig, Settings
from cordwood.config.client_metrics import check_client_metrics
from cordwood.config.definition import Definition, ResourceType
from cordwood.config.definitions.broker import BROKER
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.errors import ConfigError, nearest
from cordwood.config.group import check_group
from cordwood.config.keys import definition_of, is_never_dynamic, is_per_broker, needs_listener_prefix
from cordwood.config.requests.changes import Altered, Change, Operation, Resource
from cordwood.config.topic import check_topic
from cordwood.config.validation.broker_rules import check_thread_counts
from cordwood.config.validation.protection import broken_promise, check_protection
from cordwood.config.validation.values import Type
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode


def alter_incrementally(
    broker: BrokerConfig,
    resource: Resource,
    current: Settings,
    changes: Sequence[Change],
    *,
    elr_enabled: bool = False,
) -> Altered | Refusal:
    """IncrementalAlterConfigs for one resource: all changes are made, or none.

    `current` is what was set for the resource so far. Loggers are not stored: see `loggers`. The caller checks that the
    resource exists. `elr_enabled`: eligible leader replicas (KIP-966) are in use.
    """
    try:
        _check_request(
            resource,
            [change.name for change in changes],
            [change.name for change in changes if change.value is None and change.operation != Operation.DELETE],
        )
        _check_name(broker, resource)
        wanted = {change.name: _apply(resource, change, current.get(change.name)) for change in changes}
        return _decide(broker, resource, current, wanted, removed=(), elr_enabled=elr_enabled)
    except ConfigError as error:
        return Refusal(error.code, error.message)


def replace_settings(
    broker: BrokerConfig,
    resource: Resource,
    current: Settings,
    settings: Sequence[tuple[str, str | None]],
    *,
    elr_enabled: bool = False,
) -> Altered | Refusal:
    """AlterConfigs for one resource: replaces all of its settings. Parameters as for `alter_incrementally`."""
    try:
        _check_request(resource, [name for name, _ in settings], [name for name, value in settings if value is None])
        _check_name(broker, resource)
        wanted = dict(settings)
        removed = [name for name in current if name not in wanted]
        return _decide(broker, resource, current, wanted, removed, elr_enabled=elr_enabled)
    except ConfigError as error:
        return Refusal(error.code, error.message)


def repeated(resources: Iterable[Resource]) -> set[Resource]:
    """Returns the resources that a request names more than once; each of them is answered with `REPEATED`."""
    return {resource for resource, times in Counter(resources).items() if times > 1}


REPEATED = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")

_STORED = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS)


def _bad_request(message: str) -> ConfigError:
    return ConfigError(message, ErrorCode.INVALID_REQUEST)


def is_of_another_broker(broker: BrokerConfig, resource: Resource) -> bool:
    """True for the configuration of one broker other than this one. That broker checks it, since it knows its own
    listeners and disks; the controller accepts it unchecked."""
    return resource.type == ResourceType.BROKER and resource.name.isdecimal() and int(resource.name) != broker.node_id


def _check_request(resource: Resource, names: list[str], nulls: list[str]) -> None:
    if len(set(names)) != len(names):
        raise _bad_request("Error due to duplicate config keys")
    if nulls:
        raise _bad_request(f"Null value not supported for : {', '.join(nulls)}")
    if resource.type not in _STORED:
        raise _bad_request(f"Unknown resource type {resource.type}")


def _check_name(broker: BrokerConfig, resource: Resource) -> None:
    match resource.type, resource.name:
        case ResourceType.TOPIC, "":
            raise _bad_request("Default topic resources are not allowed.")
        case ResourceType.GROUP, "":
            raise _bad_request("Default group resources are not allowed.")
        case ResourceType.CLIENT_METRICS, "":
            raise _bad_request("Subscription name can't be empty")
        case ResourceType.BROKER, name if name:
            try:
                asked_id = int(name)
            except ValueError:
                raise _bad_request(f"Node id must be an integer, but it is: {name}") from None
            if asked_id != broker.node_id:
                raise _bad_request(f"Unexpected broker id, expected {broker.node_id}, but received {name}")


def _apply(resource: Resource, change: Change, old: str | None) -> str | None:
    match change.operation:
        case Operation.SET:
            return change.value
        case Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT:
            definition = _list_definition(resource, change)
            text = old if old is not None else definition.default_spelling
            items = [item for item in _java_split(text or "") if item]
            for item in _java_split(change.value or ""):
                if change.operation == Operation.SUBTRACT:
                    if item in items:
                        items.remove(item)
                elif item not in items:
                    items.append(item)
            return ",".join(items)
        case _:
            raise _bad_request(f"Unknown operations type {change.operation}")


def _list_definition(resource: Resource, change: Change) -> Definition:
    """Returns the definition of a list key, which supports appending."""
    name, operation = change.name, Operation(change.operation).name
    if resource.type == ResourceType.BROKER:
        definition = definition_of(name)
        if definition is None:
            raise ConfigError(f"Unknown config name: {name}")
        if definition.type is not Type.LIST:
            raise ConfigError(f"Config value {operation.lower()} is not allowed for config key: {name}")
        return definition
    definition = {ResourceType.TOPIC: TOPIC, ResourceType.GROUP: GROUP}.get(ResourceType(resource.type), {}).get(name)
    if definition is None or definition.type is not Type.LIST:
        raise ConfigError(f"Can't {operation} to key {name} because its type is not LIST.")
    return definition


def _java_split(text: str) -> list[str]:
    """String.split(","): empty strings at the end are dropped, but an empty text is one empty string."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def _decide(
    broker: BrokerConfig,
    resource: Resource,
    current: Settings,
    wanted: dict[str, str | None],
    removed: Sequence[str],
    *,
    elr_enabled: bool,
) -> Altered:
    pairs = {**current, **wanted, **dict.fromkeys(removed)}
    settings = {name: value for name, value in pairs.items() if value is not None}
    _check_settings(broker, resource, current, settings)
    # Brokers reload files even where nothing changed, so their keys are always recorded (KAFKA-14136).
    always = resource.type == ResourceType.BROKER
    changed = tuple((name, value) for name, value in wanted.items() if always or value != current.get(name))
    records = (*changed, *((name, None) for name in removed))
    if elr_enabled and resource.type == ResourceType.BROKER:
        _check_min_isr(resource, records)
    return Altered(settings, records)


def _check_settings(broker: BrokerConfig, resource: Resource, current: Settings, settings: Settings) -> None:
    match resource.type:
        case ResourceType.TOPIC:
            check_topic(broker, settings)
        case ResourceType.GROUP:
            check_group(broker, settings)
        case ResourceType.CLIENT_METRICS:
            check_client_metrics(settings)
        case _:
            _check_known(settings, current)
            for_all = resource.name == ""
            # An invalid stored setting must not block other changes.
            added = {name: text for name, text in settings.items() if current.get(name) != text}
            try:
                _check_dynamic(added, for_all=for_all)
                default = settings if for_all else broker.dynamic_default
                own = broker.dynamic_broker if for_all else settings
                after = broker.with_dynamic(default, own)
                check_thread_counts(broker, after)
                check_protection(after, before=broker)
            except ConfigError as error:
                # Kafka answers this for every invalid broker configuration (KAFKA-13609).
                raise _bad_request(error.message) from None


def _check_known(settings: Settings, current: Settings) -> None:
    for name, text in settings.items():
        if definition_of(name) is None and name not in current:
            near = nearest(name, BROKER)
            hint = broken_promise(name, text) or (f"did you mean {near}?" if near else None)
            raise ConfigError(f"Unknown config name: {name}" + (f"; {hint}" if hint else ""))


def _check_dynamic(settings: Settings, *, for_all: bool) -> None:
    _refuse_all(filter(is_never_dynamic, settings), "Cannot update these configs dynamically")
    _refuse_all(
        filter(needs_listener_prefix, settings),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    for name, text in settings.items():
        definition = definition_of(name)
        if definition is not None:
            definition.read(text)
        promise = broken_promise(name, text)
        if promise:
            raise ConfigError(f"{name} cannot be set: {promise} (see docs/security.md)")
    if for_all:
        _refuse_all(
            filter(is_per_broker, settings),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _refuse_all(names: Iterable[str], message: str) -> None:
    listed = ", ".join(names)
    if listed:
        raise ConfigError(f"{message}: [{listed}]")


def _check_min_isr(resource: Resource, records: Sequence[tuple[str, str | None]]) -> None:
    """Leader eligibility depends on it: with KIP-966 all brokers must use the same value."""
    for name, value in records:
        if name != "min.insync.replicas":
            continue
        if resource.name:
            raise ConfigError("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
        if value is None:
            raise ConfigError("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
