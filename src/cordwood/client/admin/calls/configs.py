"""Configurations."""

from collections.abc import Collection, Mapping

from cordwood.client.admin import configs
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType
from cordwood.client.admin.results import values


class ConfigCalls(Connected):
    async def describe_configs(
        self,
        resources: Collection[ConfigResource],
        names: Collection[str] | None = None,
        *,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """Entries of each resource, sorted: all, or those of `names`."""
        client = await self._connected()
        return values(await configs.describe_configs(client, resources, names, documentation=documentation))

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Collection[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Changes single entries; all of a resource's changes or none."""
        client = await self._connected()
        values(await configs.incremental_alter_configs(client, changes, validate_only=validate_only))

    async def alter_configs(
        self, replacements: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> None:
        """Puts these in the place of all that was set: what is not named goes back to its default."""
        client = await self._connected()
        values(await configs.alter_configs(client, replacements, validate_only=validate_only))

    async def list_config_resources(self, types: Collection[ConfigResourceType] = ()) -> list[ConfigResource]:
        """What has a configuration, of these types or of all (Kafka 4.1+; before, client metrics alone)."""
        return await configs.list_config_resources(await self._connected(), types)
