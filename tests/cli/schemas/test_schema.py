"""`cordwood schema`, against a registry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cordwood.testing
from cordwood import Producer
from cordwood.registry import RegistryClient, Serializer

R = '{"type":"record","name":"R","fields":[%s]}'
X, Y, Z = (f'{{"name":"{name}","type":"int"{more}}}' for name, more in (("x", ""), ("y", ',"default":1'), ("z", "")))


def _schema(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", "schema", *words, "--registry", url]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_schemas_are_registered_checked_compared_moved_and_deleted(tmp_path: Path) -> None:
    files = []
    for number, fields in enumerate((X, f"{X},{Y}", Z)):
        file = tmp_path / f"{number}.avsc"
        file.write_text(R % fields)
        files.append(str(file))
    with cordwood.testing.node(registry=True) as node, cordwood.testing.node(registry=True) as other:
        url = node.registry_url
        assert _schema(url, "register", "s", files[0]).stdout.split("\t")[:2] == ["1", "1"]
        assert _schema(url, "check", "s", files[1]).stdout == "compatible\n"
        refused = _schema(url, "check", "s", files[2])
        assert refused.returncode == 1
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.stdout
        _schema(url, "register", "s", files[1])
        compared = _schema(url, "diff", "s", "1", "2").stdout
        assert '+      "name": "y",' in compared
        assert "FULL\tcompatible" in compared
        assert _schema(url, "list").stdout == "s\n"
        exported = tmp_path / "schemas.jsonl"
        exported.write_text(_schema(url, "export").stdout)
        assert _schema(other.registry_url, "import", str(exported)).stdout == "imported 2 versions\n"
        assert _schema(other.registry_url, "versions", "s").stdout == _schema(url, "versions", "s").stdout
        assert _schema(url, "delete", "s").stdout == "1\n2\n"
        missing = _schema(url, "get", "s")
        assert (missing.returncode, missing.stdout) == (1, "")
        assert "40401" in missing.stderr
    assert _schema(url, "list").returncode == 3


def _record_file(folder: Path, name: str, fields: str) -> str:
    file = folder / name
    file.write_text(R % fields)
    return str(file)


def test_check_names_the_first_stored_record_that_a_schema_cannot_read(tmp_path: Path) -> None:
    old, fine, bad = (
        _record_file(tmp_path, name, fields)
        for name, fields in (("old.avsc", X), ("fine.avsc", f"{X},{Y}"), ("bad.avsc", f"{X},{Z}"))
    )
    with cordwood.testing.node(registry=True) as node:
        topic = node.topic("orders", partitions=2)
        client = RegistryClient(node.registry_url)
        plain = Serializer(client, R % X)
        whole = Serializer(client, R % f"{X},{Z}", subject="other")
        with Producer(bootstrap_servers=node.bootstrap, value_serializer=whole) as producer:
            producer.send(topic, {"x": 1, "z": 2}, partition=0).result()
            producer.send(topic, {"x": 1, "z": 2}, partition=1).result()
        with Producer(bootstrap_servers=node.bootstrap, value_serializer=plain) as producer:
            producer.send(topic, {"x": 3}, partition=1).result()
        against = ("--against-data", topic, "--bootstrap", node.bootstrap)
        for readable in (old, fine):
            assert _schema(node.registry_url, "check", "s", readable, *against).stdout == "readable: all of 3 records\n"
        found = _schema(node.registry_url, "check", "s", bad, *against)
    assert found.returncode == 1
    assert found.stdout.startswith("unreadable\norders-1 offset 1, written with schema ")
    assert "field z" in found.stdout


def test_export_is_complete_and_import_restores_it(tmp_path: Path) -> None:
    base = _record_file(tmp_path, "base.avsc", X)
    with cordwood.testing.node(registry=True) as node, cordwood.testing.node(registry=True) as other:
        url, there = node.registry_url, other.registry_url
        _schema(url, "register", "base", base)
        using = tmp_path / "using.avsc"
        using.write_text('{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}')
        assert _schema(url, "register", "using", str(using), "--reference", "R=base:1").returncode == 0
        _schema(url, "register", "gone", _record_file(tmp_path, "1.avsc", f"{X},{Y}"))
        _schema(url, "register", "gone", _record_file(tmp_path, "2.avsc", X))
        _schema(url, "delete", "gone", "--version", "1")
        _schema(url, "register", ":.ctx:base", base)
        assert '"FULL"' in _schema(url, "config", "base", "--level", "FULL", "--group", "major", "--normalize").stdout
        _schema(url, "config", "--level", "BACKWARD_TRANSITIVE")
        _schema(url, "mode", "using", "--set", "READONLY")
        exported = tmp_path / "schemas.jsonl"
        exported.write_text(_schema(url, "export").stdout)
        done = _schema(there, "import", str(exported))
        assert done.stdout == "imported 5 versions\n", done.stderr
        assert _schema(there, "export").stdout == exported.read_text()
        # A second time changes nothing, and leaves a subject its own mode.
        _schema(there, "mode", "base", "--set", "READONLY")
        assert _schema(there, "import", str(exported)).returncode == 0
        assert _schema(there, "mode", "base").stdout == "READONLY\n"


def test_configuration_round_trips_all_settings(tmp_path: Path) -> None:
    with cordwood.testing.node(registry=True) as node:
        url = node.registry_url
        metadata = 'defaultMetadata={"properties": {"owner": "shop"}}'
        shown = json.loads(_schema(url, "config", "s", "--alias", "t", "--set", metadata).stdout)
        assert (shown["alias"], shown["defaultMetadata"]["properties"]) == ("t", {"owner": "shop"})
        assert "alias" not in json.loads(_schema(url, "config", "s", "--unset", "alias").stdout)
        assert _schema(url, "config", "s", "--set", "nonsense").returncode == 2


def test_differences_have_the_verdict_of_transitive_levels(tmp_path: Path) -> None:
    with cordwood.testing.node(registry=True) as node:
        url = node.registry_url
        _schema(url, "config", "s", "--level", "NONE")
        for number, fields in enumerate((Z, X, f"{X},{Y}")):
            _schema(url, "register", "s", _record_file(tmp_path, f"{number}.avsc", fields))
        lines = _schema(url, "diff", "s", "2", "3").stdout.splitlines()
    verdicts = {line.split("\t")[0]: line.split("\t")[1] for line in lines if line.split("\t")[0].isupper()}
    assert verdicts["BACKWARD"] == verdicts["FULL"] == "compatible"
    assert verdicts["BACKWARD_TRANSITIVE"] == "incompatible"


def test_produce_and_consume_encode_and_decode_by_the_registry(tmp_path: Path) -> None:
    def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cordwood", *words, "--bootstrap", node.bootstrap, "--quiet"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    avro = _record_file(tmp_path, "order.avsc", X)
    proto = tmp_path / "order.proto"
    proto.write_text('syntax = "proto3"; message Order { int32 x = 1; bytes b = 2; }')
    with cordwood.testing.node(registry=True) as node:
        by = ("--registry", node.registry_url)
        orders, others = node.topic("orders"), node.topic("others")
        refused = run("produce", orders, *by, text="{}\n")
        assert (refused.returncode, "--value-schema" in refused.stderr) == (1, True)
        done = run("produce", orders, *by, "--value-schema", avro, "--key-separator", ":", text='a:{"x": 1}\n')
        assert done.returncode == 0, done.stderr
        # The latest schema is that of the topic from now on.
        assert run("produce", orders, *by, text='{"x": 2}\n').returncode == 0
        bad = run("produce", orders, *by, text='{"y": 2}\n')
        assert bad.returncode != 0
        assert "line 1: the value does not fit schema 1" in bad.stderr
        assert run("consume", orders, *by, "--keys").stdout == 'a\t{"x": 1}\n\t{"x": 2}\n'
        shown = [json.loads(line) for line in run("consume", orders, *by, "--json").stdout.splitlines()]
        assert [(each["offset"], json.loads(each["value"])) for each in shown] == [(0, {"x": 1}), (1, {"x": 2})]
        values = '{"x": 3, "b": "AAE="}\n'
        assert run("produce", others, *by, "--value-schema", str(proto), text=values).returncode == 0
        assert json.loads(run("consume", others, *by).stdout) == json.loads(values)


def test_a_file_that_cannot_be_read_is_named_once() -> None:
    done = _schema("http://127.0.0.1:1", "register", "orders-value", "nowhere.avsc")
    assert (done.returncode, done.stderr) == (2, "cordwood: nowhere.avsc: No such file or directory\n")
