"""`cordwood log dirs`, on directories that no node uses."""

import os
from pathlib import Path

import pytest

from cordwood.log.files import file_name
from tests.cli.cli_runner import Done, run_here

DIRECTORY = "NVISKppiRt2iIS_3fEof4Q"
STRAY = f"old-1.{7:032x}-stray"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    files = {
        "meta.properties": f"version=1\ncluster.id=ruoQrUE1TyWUzyNl27tFiw\nnode.id=4\ndirectory.id={DIRECTORY}\n",
        "recovery-point-offset-checkpoint": "0\n0\n",
        f"__cluster_metadata-0/{file_name(0, '.log')}": "m" * 10,
        f"orders-0/{file_name(0, '.log')}": "a" * 100,
        f"orders-0/{file_name(0, '.index')}": "a" * 8,
        f"gone-0.{5:032x}-delete/{file_name(0, '.log')}": "a",
        f"{STRAY}/{file_name(0, '.log')}": "a" * 50,
        f"{STRAY}/{file_name(0, '.log.corrupt')}": "a" * 7,
        "photos-2024/a.jpg": "x",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def dirs(*arguments: str | Path) -> Done:
    return run_here(["log", "dirs", *map(str, arguments)])


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_contents_of_a_directory_are_listed(data: Path) -> None:
    before = files(data)
    done = dirs(data)
    assert done.code == 0
    assert done.lines == [
        f"directory\t{data}",
        "cluster id\truoQrUE1TyWUzyNl27tFiw",
        "node id\t4",
        "directory id\tNVISKppiRt2iIS_3fEof4Q",
        "folder\t__cluster_metadata-0\tmetadata log\t__cluster_metadata\t0\t10",
        f"folder\tgone-0.{5:032x}-delete\tdeleted, removed at the next start\tgone\t0\t1",
        f"folder\t{STRAY}\tstray\told\t1\t57",
        "folder\torders-0\tpartition\torders\t0\t108",
        "folder\tphotos-2024\tnot a partition, left alone\t-\t-\t-",
    ]
    assert files(data) == before


def test_json_has_every_directory(data: Path, tmp_path: Path) -> None:
    found = dirs(data, data, "--json").json["directories"]
    assert [directory["path"] for directory in found] == [str(data), str(data)]
    assert found[0]["directoryId"] == "NVISKppiRt2iIS_3fEof4Q"
    assert {"name": STRAY, "kind": "stray", "topic": "old", "partition": 1, "sizeInBytes": 57} in found[0]["folders"]
    assert [folder["kind"] for folder in found[0]["folders"]] == [
        "metadata",
        "deleted",
        "stray",
        "partition",
        "foreign",
    ]


def test_strays_are_removed_only_with_consent(data: Path) -> None:
    before = files(data)
    done = dirs(data, "--remove-strays")
    assert done.code == 2
    assert f"this would delete 1 stray partition with 57 bytes, for good: {STRAY}" in done.stderr
    assert "give --yes" in done.stderr
    assert files(data) == before
    done = dirs(data, "--remove-strays", "--yes")
    assert done.lines == [f"Removed {data}/{STRAY}"]
    assert files(data) == {name for name in before if not name.startswith(STRAY)}
    assert not (data / STRAY).exists()
    assert dirs(data, "--remove-strays", "--yes").lines == ["There are no strays."]


def test_foreign_files_in_a_stray_are_kept(data: Path) -> None:
    (data / STRAY / "mine.txt").write_text("x")
    done = dirs(data, "--remove-strays", "--yes")
    assert done.lines == []
    assert os.listdir(data / STRAY) == ["mine.txt"]


def test_a_path_that_is_not_a_data_directory_is_an_error(tmp_path: Path, data: Path) -> None:
    empty = tmp_path / "photos-2024"
    assert (dirs(empty).code, dirs(empty).stderr) == (
        2,
        f"cordwood: {empty} is not a data directory: it has no meta.properties and no partitions\n",
    )
    assert dirs(tmp_path / "none").stderr == f"cordwood: {tmp_path}/none: no such directory\n"
    assert not (tmp_path / "none").exists()
    assert dirs(data / "meta.properties").stderr == f"cordwood: {data}/meta.properties: not a directory\n"


def test_missing_or_damaged_properties_are_reported(data: Path) -> None:
    (data / "meta.properties").write_text("version=1\n")
    done = dirs(data)
    assert done.code == 0
    assert "expected version=1, a cluster.id and a node.id" in done.stderr
    (data / "meta.properties").unlink()
    assert "has no meta.properties: `cordwood up` says how to write it again" in dirs(data).stderr
