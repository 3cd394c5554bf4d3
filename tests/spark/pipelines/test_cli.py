"""`cordwood pipeline`, as far as it gets without Spark."""

from pathlib import Path

import pytest

from cordwood.cli.commands import app


def cordwood(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["pipeline", *arguments], prog_name="cordwood")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_init_writes_a_pipeline_for_the_given_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.py"
    assert cordwood("init", str(file), "--bootstrap", "broker1:9092") == 0
    assert 'bootstrap: str = "broker1:9092"' in file.read_text()
    assert f"cordwood pipeline run {file}" in file.read_text()
    assert f"cordwood pipeline run {file}" in capsys.readouterr().out


def test_init_leaves_a_file_alone_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.py"
    file.write_text("mine")
    assert cordwood("init", str(file)) == 2
    assert file.read_text() == "mine"
    assert capsys.readouterr().err == f"cordwood: {file} already exists; choose another name\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.py",), "there is no file nowhere.py"),
        (("nowhere.yml",), "there is no file nowhere.yml"),
        (("nowhere.py", "--set", "topic"), "Invalid value for --set: 'topic' is not NAME=VALUE"),
        (
            ("nowhere.py", "--master", "lokal"),
            "Spark has no master 'lokal'; did you mean local[4]?",
        ),
        (
            ("nowhere.py", "--log-level", "LOUD"),
            "Invalid value for --log-level: 'LOUD' is none of OFF, ERROR, WARN, INFO",
        ),
    ],
)
def test_a_pipeline_that_cannot_run_is_reported_in_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cordwood("run", *words) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"cordwood: {said}")
    assert told.count("\n") == 1


def test_a_syntax_error_is_reported_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.py"
    file.write_text("rows = 3\nrows =\n")
    assert cordwood("run", str(file)) == 2
    assert capsys.readouterr().err == f"cordwood: {file}:2: invalid syntax\n"


def test_tracebacks_begin_in_the_pipelines_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def half(rows):\n    return rows / 0\n\nhalf(3)\n")
    monkeypatch.chdir(tmp_path)
    assert cordwood("run", "broken.py") == 1
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["Traceback (most recent call last):", f'  File "{file}", line 4, in <module>']
    assert told[-1] == "ZeroDivisionError: division by zero"
    assert not any("cordwood" in line for line in told if line.strip().startswith("File") and str(file) not in line)


def test_a_declarative_pipeline_does_not_run_on_a_master_of_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spark-pipeline.yml"
    file.write_text("name: orders\n")
    assert cordwood("run", str(file), "--master", "spark://10.0.0.5:7077") == 2
    assert "expected local[4], or sc://host:15002" in capsys.readouterr().err
