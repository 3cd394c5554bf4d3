"""Admin calls find coordinators, and follow them when they move."""

import asyncio
from dataclasses import replace

import pytest

from cordwood.client.admin.groups import delete_groups
from cordwood.client.errors import GaveUp
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.client.scripted_broker import IMPATIENT, ScriptedBroker, client_of, scripted_brokers
from tests.client.scripted_coordinators import Coordinators, run

PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def answers_deletes(broker: ScriptedBroker, coordinators: Coordinators, *errors: int) -> None:
    """With these errors first, and then as the coordinator of a group, or not."""
    left = list(errors)

    def delete(request: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse:
        def code(name: str) -> int:
            here = coordinators.of.get(name, coordinators.default) == broker.id
            return ErrorCode.NONE if here else ErrorCode.NOT_COORDINATOR

        error = left.pop(0) if left else None
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=name, error_code=code(name) if error is None else error)
                for name in request.groups_names
            ]
        )

    broker.answers[DeleteGroupsRequest.api_key] = delete


def test_coordinators_are_looked_up_together_and_asked_separately() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            coordinators = Coordinators(brokers)
            coordinators.of = {"a": 1, "b": 2, "c": 2}
            for broker in brokers:
                answers_deletes(broker, coordinators)
            async with await client_of(brokers[0].address) as client:
                assert await delete_groups(client, ["a", "b", "c"]) == {"a": None, "b": None, "c": None}
            (asked,) = [request for broker in brokers for request in broker.seen_of(FindCoordinatorRequest)]
            assert asked.coordinator_keys == ["a", "b", "c"]
            deletes = [broker.seen_of(DeleteGroupsRequest) for broker in brokers]
            assert [[request.groups_names for request in seen] for seen in deletes] == [[["a"]], [["b", "c"]]]

    run(main())


def test_many_groups_are_requested_in_portions() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            answers_deletes(brokers[0], Coordinators(brokers))
            names = [f"g{number}" for number in range(250)]
            async with await client_of(brokers[0].address) as client:
                assert list(await delete_groups(client, names)) == names
            sizes = [len(request.groups_names) for request in brokers[0].seen_of(DeleteGroupsRequest)]
            assert sizes == [100, 100, 50]

    run(main())


def test_an_older_broker_is_asked_for_one_coordinator_at_a_time() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            brokers[0].max_versions[FindCoordinatorRequest.api_key] = 3
            answers_deletes(brokers[0], Coordinators(brokers))
            async with await client_of(brokers[0].address) as client:
                assert await delete_groups(client, ["a", "b"]) == {"a": None, "b": None}
            assert [request.key for request in brokers[0].seen_of(FindCoordinatorRequest)] == ["a", "b"]

    run(main())


@pytest.mark.parametrize("error", PASSING)
def test_an_unavailable_coordinator_is_looked_up_again(error: ErrorCode) -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            coordinators = Coordinators(brokers)
            coordinators.errors = [error, error]
            answers_deletes(brokers[0], coordinators)
            async with await client_of(brokers[0].address) as client:
                assert await delete_groups(client, ["a"]) == {"a": None}

    run(main())


@pytest.mark.parametrize("error", PASSING)
def test_a_coordinator_that_cannot_answer_yet_is_asked_again(error: ErrorCode) -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            answers_deletes(brokers[0], Coordinators(brokers), error, error)
            async with await client_of(brokers[0].address) as client:
                assert await delete_groups(client, ["a"]) == {"a": None}
            assert len(brokers[0].seen_of(DeleteGroupsRequest)) == 3

    run(main())


def test_answered_keys_are_not_requested_again() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            coordinators = Coordinators(brokers)
            coordinators.of = {"a": 1, "b": 2}
            answers_deletes(brokers[0], coordinators)
            answers_deletes(brokers[1], coordinators, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            async with await client_of(brokers[0].address) as client:
                assert await delete_groups(client, ["a", "b"]) == {"a": None, "b": None}
            assert [len(broker.seen_of(DeleteGroupsRequest)) for broker in brokers] == [1, 2]

    run(main())


def test_a_group_that_has_moved_is_followed_to_its_new_coordinator() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            coordinators = Coordinators(brokers)

            def moves(request: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse:
                coordinators.default = 2
                return DeleteGroupsResponse(results=[DeletableGroupResult(group_id="a", error_code=16)])

            brokers[0].answers[DeleteGroupsRequest.api_key] = moves
            answers_deletes(brokers[1], coordinators)
            async with await client_of(brokers[0].address) as client:
                assert await delete_groups(client, ["a"]) == {"a": None}
            assert len(brokers[1].seen_of(DeleteGroupsRequest)) == 1

    run(main())


def test_an_error_that_will_not_pass_is_that_of_one_group() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[DeleteGroupsRequest.api_key] = lambda request, version: DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id="a", error_code=ErrorCode.NON_EMPTY_GROUP),
                    DeletableGroupResult(group_id="b"),
                ]
            )
            async with await client_of(brokers[0].address) as client:
                results = await delete_groups(client, ["a", "b"])
            assert results["b"] is None
            assert str(results["a"]) == "group a: the group has members (NON_EMPTY_GROUP)"

    run(main())


def test_waiting_for_a_coordinator_has_an_end() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            Coordinators(brokers).errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 10_000
            settings = replace(IMPATIENT, default_api_timeout_ms=50)
            async with await client_of(brokers[0].address, settings=settings) as client:
                with pytest.raises(GaveUp, match="it has no coordinator"):
                    await delete_groups(client, ["a"])

    run(main())


def test_a_coordinator_that_is_not_among_the_brokers_yet_is_waited_for() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            coordinators = Coordinators(brokers, default=2)
            for broker in brokers:
                answers_deletes(broker, coordinators)
            started = brokers.pop()
            async with await client_of(brokers[0].address) as client:
                assert set(client.cluster.brokers) == {1}
                work = asyncio.ensure_future(delete_groups(client, ["a"]))
                while len(brokers[0].seen_of(FindCoordinatorRequest)) < 2:
                    await asyncio.sleep(0)
                brokers.append(started)
                assert await work == {"a": None}
            assert len(started.seen_of(DeleteGroupsRequest)) == 1

    run(main())
