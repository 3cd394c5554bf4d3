"""A node's handling of features, ACLs and quotas that its cluster has but that are not served."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cordwood.broker.start.log_dirs import CannotStart
from cordwood.metadata.features import KRAFT_VERSION, SUPPORTED, TOLERATED
from cordwood.shard.decision import Decision
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from cordwood.wire.messages.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.schema import MetadataRecord
from tests.broker.admin_node import ask, run, running

# A feature promises clients these requests.
REQUESTS = {"group.version": 68, "share.version": 76, "streams.version": 88, "transaction.version": 24}


async def store(directory: Path, *records: MetadataRecord) -> None:
    """In the metadata, as another release or Kafka would have done."""
    async with running(directory) as (node, _, _):
        await node.controller.decide(lambda _: Decision(None, list(records)))


async def advertised(directory: Path) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    async with running(directory) as (node, network, _):
        return await ask(node, network, request)


def test_only_features_whose_requests_are_served_are_advertised(tmp_path: Path) -> None:
    answer = run(advertised(tmp_path))
    supported = {feature.name for feature in answer.supported_features}
    assert supported == set(SUPPORTED)
    assert {feature.name for feature in answer.finalized_features} == supported
    served = {api.api_key for api in answer.api_keys}
    assert {name: key in served for name, key in REQUESTS.items()} == {name: name in supported for name in REQUESTS}


@pytest.mark.parametrize("name", TOLERATED)
def test_a_finalized_feature_that_is_not_served_is_kept_and_not_advertised(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        await store(tmp_path, FeatureLevelRecord(name=name, feature_level=1))
        answer = await advertised(tmp_path)
        assert {feature.name for feature in answer.finalized_features} == {*SUPPORTED, KRAFT_VERSION}
        assert name not in {feature.name for feature in answer.supported_features}
        async with running(tmp_path) as (node, _, _):
            assert node.broker.image.features[name] == 1

    run(main())


@pytest.mark.parametrize(
    ("name", "level", "supported"),
    [("share.version", 2, "0 to 1"), ("group.version", 2, "0 to 1"), ("new", 1, "0 to 0")],
)
def test_metadata_of_a_newer_release_is_refused(name: str, level: int, supported: str, tmp_path: Path) -> None:
    async def main() -> None:
        await store(tmp_path, FeatureLevelRecord(name=name, feature_level=level))
        said = rf"newer release: {name} is finalized at level {level}, and this release supports {supported}"
        with pytest.raises(CannotStart, match=said):
            async with running(tmp_path):
                pass

    run(main())


def test_acls_and_quotas_that_are_not_enforced_are_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    acl = AccessControlEntryRecord(
        id=bytes(16),
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    entity = [EntityData(entity_type="user", entity_name="a")]
    quota = ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0, remove=False)

    async def main() -> None:
        await store(tmp_path, acl, quota)
        assert "not enforced" not in caplog.text
        async with running(tmp_path):
            pass

    run(main())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(warning.startswith("The metadata has 1 ACLs, and they are not enforced") for warning in warnings)
    assert any(warning.startswith("The metadata has quotas of 1 users") for warning in warnings)
