"""The persistent map against dicts."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.metadata.persistent_map import PersistentMap, hash_number, hash_text

EDITS = st.lists(st.lists(st.tuples(st.integers(0, 300), st.one_of(st.none(), st.integers()))), max_size=20)


@given(EDITS)
def test_every_version_is_preserved(edits: list[list[tuple[int, int | None]]]) -> None:
    versions: list[tuple[PersistentMap[int, int], dict[int, int]]] = [(PersistentMap(hash_number), {})]
    for changes in edits:
        latest, model = versions[-1]
        editor, model = latest.edit(), dict(model)
        for key, value in changes:
            if value is not None:
                editor[key] = value
                model[key] = value
            elif key in editor:
                del editor[key]
                del model[key]
        versions.append((editor.finish(), model))
    for version, model in versions:
        assert dict(version) == model
        assert len(version) == len(model)
        assert version == model


def test_a_map_grows_and_finds_all() -> None:
    editor = PersistentMap[str, int](hash_text).edit()
    for number in range(10_000):
        editor[f"topic-{number}"] = number
    grown = editor.finish()
    assert all(grown[f"topic-{number}"] == number for number in range(10_000))
    assert "topic-10000" not in grown


def test_a_change_shares_all_but_one_bucket() -> None:
    editor = PersistentMap[str, list[int]](hash_text).edit()
    for number in range(1_000):
        editor[f"topic-{number}"] = [number]
    before = editor.finish()
    after = before.with_entry("topic-7", [0])
    assert before["topic-7"] == [7]
    assert sum(old is not new for old, new in zip(before._buckets, after._buckets, strict=True)) == 1
