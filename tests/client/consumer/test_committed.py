"""Fetching committed offsets."""

import pytest

from cordwood.client.errors import (
    BadAnswer,
    BrokerError,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.client.committing import P0, P1, Stage, play


@pytest.mark.parametrize("version", range(1, 11))
def test_committed_offsets_are_fetched_in_every_version(version: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.stored["t", 0] = (7, "so far", 3)
        found = await stage.commits.committed([P0, P1])
        assert found == {P0: OffsetAndMetadata(7, "so far", 3 if version >= 5 else None), P1: None}
        (request,) = stage.broker.seen_of(OffsetFetchRequest)
        assert request.require_stable == (version >= 7)

    play(scene, versions={OffsetFetchRequest.api_key: version})


def test_a_partition_missing_from_the_coordinators_response_is_not_one_without_an_offset() -> None:
    """That would be read again from its beginning."""

    async def scene(stage: Stage) -> None:
        silent = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")])
        stage.broker.answers[OffsetFetchRequest.api_key] = lambda request, version: silent
        with pytest.raises(BadAnswer, match="is missing t-1"):
            await stage.commits.committed([P1])

    play(scene)


def test_no_partition_needs_no_request() -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.commits.committed([]) == {}
        assert stage.broker.seen_of(OffsetFetchRequest) == []

    play(scene)


@pytest.mark.parametrize("version", [7, 10])
@pytest.mark.parametrize(
    "code", [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_offsets_that_are_not_certain_yet_are_waited_for(code: int, version: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.stored["t", 0] = (7, "", -1)
        stage.refusals = [code] * 3
        assert await stage.commits.committed([P0]) == {P0: OffsetAndMetadata(7)}

    play(scene, versions={OffsetFetchRequest.api_key: version})


def test_an_offset_fetch_in_a_kip_848_group_names_the_member_and_retries_with_a_new_epoch() -> None:
    async def scene(stage: Stage) -> None:
        stage.refusals = [ErrorCode.STALE_MEMBER_EPOCH]
        await stage.commits.committed([P0])
        groups = [request.groups[0] for request in stage.broker.seen_of(OffsetFetchRequest)]
        assert [(group.member_id, group.member_epoch) for group in groups] == [("m", 5), ("m", 5)]

    play(scene, group_protocol="consumer")


def test_unauthorized_queries_are_refused() -> None:
    async def scene(stage: Stage) -> None:
        stage.refusals = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        with pytest.raises(BrokerError, match="group g"):
            await stage.commits.committed([P0])

    play(scene)
