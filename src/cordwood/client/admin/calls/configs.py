"""Configurations."""

from collections.abc import Collection, Mapping
from typing import TypeVar

from cordwood.client.admin import configs
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType
from cordwood.client.admin.results import values
from cordwood.client.arguments import ConfigValue, by_name, mapping_of, names_of, values_of

V = TypeVar("V")


class ConfigCalls(Connected):
    async def describe_configs(
        self,
        resources: Collection[ConfigResource],
        names: Collection[str] | None = None,
        *,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """Returns the entries of each resource, sorted: all, or those in `names`."""
        chosen = values_of(resources, ConfigResource, "resources")
        keys = None if names is None else names_of(names, "names")
        client = await self._connected()
        return values(await configs.describe_configs(client, chosen, keys, documentation=documentation))

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Collection[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Changes single entries; either all of a resource's changes are made, or none."""
        checked = {
            resource: values_of(each, ConfigChange, f"changes of {resource}")
            for resource, each in _by_resource(changes, "changes").items()
        }
        client = await self._connected()
        values(await configs.incremental_alter_configs(client, checked, validate_only=validate_only))

    async def alter_configs(
        self, replacements: Mapping[ConfigResource, Mapping[str, ConfigValue | None]], *, validate_only: bool = False
    ) -> None:
        """Replaces all settings of each resource: settings that are not given return to their defaults."""
        checked = {
            resource: by_name(each, f"the configuration of {resource}", "values")
            for resource, each in _by_resource(replacements, "replacements").items()
        }
        client = await self._connected()
        values(await configs.alter_configs(client, checked, validate_only=validate_only))

    async def list_config_resources(self, types: Collection[ConfigResourceType] = ()) -> list[ConfigResource]:
        """Returns the resources that have a configuration, of these types or of all (Kafka 4.1+; before, client metrics
        only)."""
        chosen = values_of(types, ConfigResourceType, "types")
        return await configs.list_config_resources(await self._connected(), chosen)


def _by_resource(given: Mapping[ConfigResource, V], what: str) -> Mapping[ConfigResource, V]:
    values_of(list(mapping_of(given, what, "ConfigResource")), ConfigResource, what)
    return given
