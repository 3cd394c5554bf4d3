"""The REST API: what it answers, with Confluent's codes and bodies."""

from __future__ import annotations

import json

import pytest

from tests.registry.registry_fixtures import Rest, record

R1, R2 = record("R", "x"), record("R", "x", "y=1")


def test_registration_answers_with_everything_about_the_schema(rest: Rest, subject: str) -> None:
    reply = rest.register(subject, R1)
    assert reply.status == 200
    assert reply.content_type == "application/vnd.schemaregistry.v1+json"
    assert set(reply.body) == {"id", "version", "guid", "schemaType", "schema"}
    assert (reply.body["version"], reply.body["schemaType"]) == (1, "AVRO")
    assert rest.register(subject, R1).body == reply.body


def test_same_schema_in_another_subject_has_the_same_id(rest: Rest, subject: str) -> None:
    first = rest.register(subject, R1).body
    second = rest.register(f"{subject}-b", R1).body
    assert (first["id"], first["guid"]) == (second["id"], second["guid"])
    versions = rest("GET", f"/schemas/ids/{first['id']}/versions").body
    assert {"subject": subject, "version": 1} in versions
    assert f"{subject}-b" in rest("GET", f"/schemas/ids/{first['id']}/subjects").body


def test_versions_are_listed_and_read(rest: Rest, subject: str) -> None:
    rest.register(subject, R1)
    rest.register(subject, R2)
    assert rest("GET", f"/subjects/{subject}/versions").body == [1, 2]
    latest = rest("GET", f"/subjects/{subject}/versions/latest").body
    assert (latest["version"], latest["schema"]) == (2, R2)
    assert rest("GET", f"/subjects/{subject}/versions/1/schema").body["name"] == "R"
    by_id = rest("GET", f"/schemas/ids/{latest['id']}?fetchMaxId=true").body
    assert by_id["schema"] == R2
    assert by_id["maxId"] >= latest["id"]
    assert rest("GET", f"/schemas/guids/{latest['guid']}").body["schema"] == R2
    assert rest("GET", f"/schemas/guids/{latest['guid']}/ids").body == [{"context": ".", "id": latest["id"]}]


def test_look_up_finds_a_registered_schema_only(rest: Rest, subject: str) -> None:
    assert rest("POST", f"/subjects/{subject}", {"schema": R1}).code == 40401
    rest.register(subject, R1)
    assert rest("POST", f"/subjects/{subject}", {"schema": R1}).body["version"] == 1
    assert rest("POST", f"/subjects/{subject}", {"schema": R2}).code == 40403


def test_normalize_finds_a_schema_that_is_spelled_in_another_way(rest: Rest, subject: str) -> None:
    spelled = '{"fields":[{"type":{"type":"int","b":1,"a":2},"name":"x"}],"name":"N","type":"record"}'
    other = '{"type":"record","name":"N","fields":[{"name":"x","type":{"type":"int","a":2,"b":1}}]}'
    rest("POST", f"/subjects/{subject}/versions?normalize=true", {"schema": spelled})
    assert rest("POST", f"/subjects/{subject}?normalize=true", {"schema": other}).body["version"] == 1


def test_incompatible_schema_is_refused_with_reasons(rest: Rest, subject: str) -> None:
    rest.register(subject, R1)
    reply = rest.register(subject, record("R", "z"))
    assert (reply.status, reply.code) == (409, 40901)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in reply.body["message"]
    assert "oldSchemaVersion: 1" in reply.body["message"]


def test_compatibility_is_checked_against_one_version_or_all(rest: Rest, subject: str) -> None:
    rest.register(subject, R1)
    rest.register(subject, R2)
    check = f"/compatibility/subjects/{subject}/versions"
    assert rest("POST", f"{check}/latest", {"schema": R2}).body == {"is_compatible": True}
    verbose = rest("POST", f"{check}/1?verbose=true", {"schema": record("R", "z")}).body
    assert verbose["is_compatible"] is False
    assert any("/fields/0" in message for message in verbose["messages"])
    assert rest("POST", check, {"schema": R1}).body == {"is_compatible": True}
    assert rest("POST", f"{check}/9", {"schema": R1}).code == 40402


def test_levels_are_set_per_subject_and_globally(rest: Rest, subject: str) -> None:
    assert rest("GET", "/config").body["compatibilityLevel"] == "BACKWARD"
    assert rest("GET", f"/config/{subject}").code == 40408
    assert rest("GET", f"/config/{subject}?defaultToGlobal=true").body["compatibilityLevel"] == "BACKWARD"
    assert rest("PUT", f"/config/{subject}", {"compatibility": "FULL"}).body == {"compatibility": "FULL"}
    assert rest("GET", f"/config/{subject}").body == {"compatibilityLevel": "FULL"}
    rest.register(subject, R1)
    assert rest.register(subject, record("R")).code == 40901
    assert rest("DELETE", f"/config/{subject}").body["compatibilityLevel"] == "FULL"
    assert rest("PUT", f"/config/{subject}", {"compatibility": "SOME"}).code == 42203


def test_deletes_are_soft_first_and_then_for_good(rest: Rest, subject: str) -> None:
    rest.register(subject, R1)
    second = rest.register(subject, R2).body["id"]
    path = f"/subjects/{subject}/versions/1"
    assert rest("DELETE", f"{path}?permanent=true").code == 40407
    assert rest("DELETE", path).body == 1
    assert rest("DELETE", path).code == 40406
    assert rest("GET", path).code == 40402
    assert rest("GET", f"{path}?deleted=true").body["deleted"] is True
    assert rest("DELETE", f"{path}?permanent=true").body == 1
    assert rest("GET", f"{path}?deleted=true").code == 40402
    assert rest("DELETE", f"/subjects/{subject}?permanent=true").code == 40405
    assert rest("DELETE", f"/subjects/{subject}").body == [2]
    assert rest("DELETE", f"/subjects/{subject}").code == 40404
    assert rest("GET", f"/schemas/ids/{second}").body["schema"] == R2
    assert subject not in rest("GET", "/subjects").body
    assert subject in rest("GET", "/subjects?deleted=true").body
    assert rest("DELETE", f"/subjects/{subject}?permanent=true").body == [2]
    assert rest("DELETE", f"/subjects/{subject}").code == 40401


def test_registering_again_after_a_soft_delete_gives_the_old_id_and_the_next_version(rest: Rest, subject: str) -> None:
    first = rest.register(subject, R1).body
    rest("DELETE", f"/subjects/{subject}")
    again = rest.register(subject, R1).body
    assert (again["id"], again["version"]) == (first["id"], 2)


def test_ids_are_not_reused_after_a_permanent_delete(rest: Rest, subject: str) -> None:
    gone = rest.register(subject, record(f"G{subject[8:]}")).body["id"]
    rest("DELETE", f"/subjects/{subject}")
    rest("DELETE", f"/subjects/{subject}?permanent=true")
    assert rest.register(subject, record(f"H{subject[8:]}")).body["id"] > gone


def test_references_are_resolved_listed_and_protected(rest: Rest, subject: str) -> None:
    rest.register(subject, '{"type":"record","name":"Address","namespace":"n","fields":[]}')
    reference = {"name": "n.Address", "subject": subject, "version": 1}
    using = '{"type":"record","name":"Person","fields":[{"name":"home","type":"n.Address"}]}'
    reply = rest.register(f"{subject}-p", using, references=[reference])
    assert reply.body["references"] == [reference]
    assert rest("GET", f"/subjects/{subject}/versions/1/referencedby").body == [reply.body["id"]]
    assert rest("DELETE", f"/subjects/{subject}/versions/1").code == 42206
    assert rest("DELETE", f"/subjects/{subject}").code == 42206
    resolved = rest("GET", f"/schemas/ids/{reply.body['id']}?format=resolved").body["schema"]
    assert '"name":"Address"' in resolved
    assert rest.register(f"{subject}-q", using).code == 42201
    missing = {**reference, "version": 9}
    assert "version 9" in rest.register(f"{subject}-q", using, references=[missing]).body["message"]


def test_modes_forbid_writes_or_allow_chosen_ids(rest: Rest, subject: str) -> None:
    assert rest("GET", "/mode").body == {"mode": "READWRITE"}
    assert rest("GET", f"/mode/{subject}").code == 40409
    assert rest("PUT", f"/mode/{subject}", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert rest.register(subject, R1).code == 42205
    assert rest.register(f"{subject}-b", R1, id=7).code == 42205
    assert rest("PUT", f"/mode/{subject}", {"mode": "IMPORT"}).status == 200
    assert rest.register(subject, R1).code == 42205
    name = record(f"I{subject[8:]}")
    assert rest.register(subject, name, id=100_000, version=5).body["id"] == 100_000
    assert rest("GET", f"/subjects/{subject}/versions").body == [5]
    assert rest.register(subject, R2, id=100_000).code == 42205
    assert rest("DELETE", f"/mode/{subject}").body == {"mode": "IMPORT"}
    assert rest.register(subject, record(f"I{subject[8:]}", "n=1")).body["id"] > 100_000
    assert rest("PUT", f"/mode/{subject}", {"mode": "IMPORT"}).code == 42205
    assert rest("PUT", f"/mode/{subject}?force=true", {"mode": "IMPORT"}).status == 200
    assert rest("PUT", f"/mode/{subject}", {"mode": "OFF"}).code == 42204


def test_ids_restart_in_each_context(rest: Rest, subject: str) -> None:
    context = f":.ctx-{subject[8:]}:"
    assert rest.register(f"{context}{subject}", R1).body["id"] == 1
    assert rest.register(f"{context}{subject}", R2).body["id"] == 2
    assert f"{context}{subject}" in rest("GET", "/subjects").body
    assert f".ctx-{subject[8:]}" in rest("GET", "/contexts").body
    assert rest("GET", f"/subjects?subjectPrefix={context}").body == [f"{context}{subject}"]
    assert rest("GET", f"/schemas/ids/2?subject={context}").body["schema"] == R2
    assert rest("PUT", f"/config/{context}", {"compatibility": "NONE"}).status == 200
    assert rest.register(f"{context}{subject}", record("Other")).status == 200


def test_metadata_and_rules_are_kept_and_merged_with_the_configuration(rest: Rest, subject: str) -> None:
    rule = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    defaults = {"compatibility": "BACKWARD", "defaultMetadata": {"properties": {"team": "a", "owner": "x"}}}
    rest("PUT", f"/config/{subject}", {**defaults, "overrideRuleSet": {"domainRules": [rule]}})
    registered = rest.register(subject, R1, metadata={"properties": {"owner": "me"}}).body
    assert registered["metadata"] == {"properties": {"team": "a", "owner": "me"}}
    assert registered["ruleSet"] == {"domainRules": [rule]}
    assert rest("GET", f"/subjects/{subject}/versions/1").body["ruleSet"] == {"domainRules": [rule]}
    assert rest("GET", f"/subjects/{subject}/metadata?key=owner&value=me").body["version"] == 1
    assert rest.register(subject, R2, ruleSet={"domainRules": [rule, rule]}).code == 42210


def test_compatibility_groups_are_compared_within_themselves(rest: Rest, subject: str) -> None:
    rest("PUT", f"/config/{subject}", {"compatibilityGroup": "major"})
    rest.register(subject, R1, metadata={"properties": {"major": "1"}})
    assert rest.register(subject, record("R", "z"), metadata={"properties": {"major": "1"}}).code == 40901
    assert rest.register(subject, record("R", "z"), metadata={"properties": {"major": "2"}}).body["version"] == 2


def test_an_alias_refers_to_another_subject(rest: Rest, subject: str) -> None:
    rest.register(subject, R1)
    rest("PUT", f"/config/{subject}-alias", {"alias": subject})
    assert rest("GET", f"/subjects/{subject}-alias/versions/latest").body["subject"] == subject


def test_subject_may_have_a_slash(rest: Rest, subject: str) -> None:
    assert rest.register(f"{subject}%2Fvalue", R1).status == 200
    assert f"{subject}/value" in rest("GET", "/subjects").body


def test_lists_have_pages(rest: Rest, subject: str) -> None:
    for number in range(3):
        rest.register(f"{subject}-{number}", R1)
    path = f"/subjects?subjectPrefix={subject}&offset=1"
    assert rest("GET", path).body == [f"{subject}-1", f"{subject}-2"]
    assert rest("GET", f"{path}&limit=1").body == [f"{subject}-1"]
    listed = rest("GET", f"/schemas?subjectPrefix={subject}&limit=2").body
    assert [each["subject"] for each in listed] == [f"{subject}-0", f"{subject}-1"]


def test_registry_describes_itself(rest: Rest) -> None:
    assert rest("GET", "/").body == {}
    assert rest("GET", "/schemas/types").body == ["JSON", "PROTOBUF", "AVRO"]
    assert rest("GET", "/v1/metadata/id").body["scope"]["clusters"]["kafka-cluster"]
    assert rest("GET", "/v1/metadata/version").body["version"]
    assert rest("GET", "/exporters").body == []
    assert rest("GET", "/exporters/e").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, 404),
        ("PATCH", "/subjects", None, 405, 405),
        ("GET", "/subjects/none/versions", None, 404, 40401),
        ("GET", "/subjects/none/versions/latest", None, 404, 40401),
        ("GET", "/subjects/none/versions/0", None, 422, 42202),
        ("GET", "/subjects/none/versions/first", None, 422, 42202),
        ("GET", "/subjects/none/versions/99999999999999999999", None, 422, 42202),
        ("GET", "/schemas/ids/123456", None, 404, 40403),
        ("GET", "/schemas/ids/abc", None, 404, 404),
        ("GET", "/schemas/guids/abc", None, 404, 40403),
        ("POST", "/subjects/none/versions", {}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": ""}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": "{"}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '"nix"'}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": 5}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '"int"', "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": "message", "schemaType": "PROTOBUF"}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '{"type":"nix"}', "schemaType": "JSON"}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '{"$ref":"#/nix"}', "schemaType": "JSON"}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '{"$ref":"#"}', "schemaType": "JSON"}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '"int"', "references": [{}]}, 422, 42201),
        ("POST", "/subjects/none/versions", {"schema": '"int"', "metadata": {"properties": 1}}, 422, 42201),
        (
            "POST",
            "/subjects/none/versions",
            {"schema": '"int"', "references": [{"name": "n", "subject": "s", "version": 10**12}]},
            422,
            42201,
        ),
        ("POST", "/subjects/none/versions", {"schema": '"int"', "version": 10**12}, 422, 42201),
        ("PUT", "/config/none", {"compatibilityPolicy": []}, 422, 42203),
        (
            "POST",
            "/subjects/none/versions",
            {"schema": '{"$schema":"[https://json-schema.org/draft/2020-12/schema"}', "schemaType": "JSON"},
            422,
            42201,
        ),
        ("DELETE", "/subjects/none", None, 404, 40401),
        ("DELETE", "/config/none", None, 404, 40401),
        ("PUT", "/mode", {"mode": 1}, 422, 42204),
    ],
)
def test_bad_requests_get_their_codes(rest: Rest, method: str, path: str, body: object, status: int, code: int) -> None:
    reply = rest(method, path, body)
    assert (reply.status, reply.code) == (status, code), reply


@pytest.mark.parametrize(
    ("headers", "raw", "status"),
    [
        ({}, b"{", 400),
        ({}, b"[]", 400),
        ({}, b"[" * 100_000, 400),
        # Half of a pair of surrogates is no character, and has no UTF-8.
        ({}, rb'{"schema":"\ud800"}', 400),
        ({}, rb'{"schema":"\"int\"","schemaType":"\ud800"}', 400),
        ({}, b'{"schema":"\xed\xa0\x80"}', 400),
        ({}, rb'{"schema":"{\"enum\":[\"\\udfff\"]}","schemaType":"JSON"}', 422),
        ({}, rb'{"schema":"{\"type\":\"int\",\"doc\":\"\\ud800\"}"}', 422),
        ({"content-type": "text/xml"}, b"{}", 415),
        ({"accept": "text/html"}, b"{}", 406),
    ],
)
def test_invalid_bodies_and_types_are_refused(rest: Rest, headers: dict[str, str], raw: bytes, status: int) -> None:
    assert rest("POST", "/subjects/none/versions", raw=raw, headers=headers).status == status


def test_pairs_of_surrogates_are_characters(rest: Rest, subject: str) -> None:
    raw = rb'{"schema":"{\"const\":\"\\ud83d\\ude00 \ud83d\ude00\"}","schemaType":"JSON"}'
    assert rest("POST", f"/subjects/{subject}/versions", raw=raw).body["schema"] == '{"const":"\U0001f600 \U0001f600"}'


def test_unknown_fields_of_newer_clients_are_ignored(rest: Rest, subject: str) -> None:
    assert rest.register(subject, R1, propagateSchemaTags=True, futureField={"a": 1}).status == 200


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("*/*", "application/vnd.schemaregistry.v1+json"),
        ("application/json;q=0.5, application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry.v1+json"),
    ],
)
def test_content_type_follows_the_accept_header(rest: Rest, accept: str, expected: str) -> None:
    assert rest("GET", "/subjects", headers={"accept": accept}).content_type == expected


def test_deep_and_large_schemas_are_refused_in_time(rest: Rest, subject: str) -> None:
    deep_avro = '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000
    deep_json = '{"not":' * 5_000 + "{}" + "}" * 5_000
    deep_proto = "message M {" * 5_000 + "}" * 5_000
    for schema_type, schema in (("AVRO", deep_avro), ("JSON", deep_json), ("PROTOBUF", deep_proto)):
        assert rest.register(subject, schema, schema_type).code == 42201
    branches = ",".join(f'{{"$ref":"#/definitions/d{number}"}}' for number in range(40))
    definitions = ",".join(f'"d{number}":{{"oneOf":[{branches}]}}' for number in range(40))
    tangled = f'{{"$ref":"#/definitions/d0","definitions":{{{definitions}}}}}'
    assert rest.register(f"{subject}-t", tangled, "JSON").status == 200
    assert rest.register(f"{subject}-t", tangled.replace('"d1"', '"e1"'), "JSON").status in (200, 409, 422)


def test_every_list_has_pages(rest: Rest, subject: str) -> None:
    base = rest.register(subject, R1).body
    for number in range(3):
        using = {"type": "record", "name": f"U{number}", "fields": [{"name": "r", "type": "R"}]}
        references = [{"name": "R", "subject": subject, "version": 1}]
        rest.register(f"{subject}-{number}", json.dumps(using), references=references)
        rest.register(f"{subject}-same-{number}", R1)
        rest.register(f":.{subject}-{number}:s", R1)
    for path in (
        f"/subjects/{subject}/versions/1/referencedby",
        f"/schemas/ids/{base['id']}/subjects",
        f"/schemas/ids/{base['id']}/versions",
        f"/schemas/guids/{base['guid']}/ids",
        "/contexts",
    ):
        whole = rest("GET", path).body
        assert len(whole) >= 3, path
        assert rest("GET", f"{path}?offset=1&limit=1").body == whole[1:2], path


def test_aliases_are_listed_with_the_schemas_that_they_stand_for(rest: Rest, subject: str) -> None:
    rest.register(subject, R1)
    rest("PUT", f"/config/{subject}-alias", {"alias": subject})
    path = f"/schemas?subjectPrefix={subject}"
    assert [each["subject"] for each in rest("GET", path).body] == [subject]
    found = rest("GET", f"{path}&aliases=true").body
    assert [(each["subject"], each["schema"]) for each in found] == [(subject, R1), (f"{subject}-alias", R1)]
