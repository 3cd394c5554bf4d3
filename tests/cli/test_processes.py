"""The command as a process: pipes, Ctrl-C, a terminal, help, completion, TLS."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.cli_runner import PATIENCE_S, Cli

COMMANDS = ["up", "topic", "produce", "consume", "config", "cluster", "log"]


# A process that stays silent for this long after an answer has not received it.
SILENCE_S = 5.0


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cordwood", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=os.environ | environment,
    )


def on_terminal(cli: Cli, *arguments: str) -> str:
    """Returns the command's output if all its streams are a terminal."""
    return on_terminal_until(cli, arguments)[0]


def on_terminal_until(
    cli: Cli, arguments: Sequence[str], prompt: str = "", answer: bytes | signal.Signals = b""
) -> tuple[str, int]:
    """Returns its output and exit code; at `prompt` it gets an answer, or a signal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cordwood", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"CORDWOOD_BOOTSTRAP": cli.bootstrap, "COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(slave)
    printed = b""
    silent_for_s = 0.0
    is_answered = False
    try:
        while silent_for_s < PATIENCE_S:
            if not select.select([master], [], [], SILENCE_S)[0]:
                silent_for_s += SILENCE_S
                # One that arrives just before Python begins to read is lost; people press Ctrl-C again.
                if isinstance(answer, signal.Signals) and is_answered:
                    process.send_signal(answer)
                continue
            silent_for_s = 0.0
            try:
                printed += os.read(master, 1 << 16)
            except OSError:
                # The last one who had the terminal open is gone.
                break
            if answer and not is_answered and prompt in printed.decode():
                is_answered = True
                if isinstance(answer, bytes):
                    os.write(master, answer)
                else:
                    process.send_signal(answer)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return printed.decode(), process.returncode


# ---- pipes and signals


def test_a_reader_that_closes_the_pipe_ends_it_quietly(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"x\ny\n")
    with cli.start("consume", topic, "--follow") as reader:
        assert reader.read_line() == b"x\n"
        reader.stdout.close()
        cli("produce", topic, stdin=b"z\n")
        assert reader.ended() == (0, "")


def test_following_continues_until_ctrl_c(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\n")
    with cli.start("consume", topic, "-f") as reader:
        assert reader.read_line() == b"one\n"
        cli("produce", topic, stdin=b"two\n")
        assert reader.read_line() == b"two\n"
        reader.interrupt()
        assert reader.ended() == (130, "")


def test_warnings_of_the_client_library_look_as_those_of_the_command(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\n")
    with cli.start("consume", topic, "-f") as reader:
        assert reader.read_line() == b"one\n"
        cli("topic", "delete", topic, "--yes")
        assert reader.stderr.readline().startswith(b"cordwood: Topic " + topic.encode() + b" does not exist yet")


def test_a_line_is_sent_while_the_input_stays_open(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    with cli.start("consume", topic, "-f") as reader, cli.start("produce", topic) as writer:
        for line in (b"first\n", b"second\n"):
            writer.write(line)
            assert reader.read_line() == line
        writer.stdin.close()
        assert writer.ended() == (0, "")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_producer_ended_by_a_signal_reports_how_much_was_delivered(
    cli: Cli, topic: str, number: signal.Signals, exit_code: int
) -> None:
    cli("topic", "create", topic)
    with cli.start("consume", topic, "-f") as reader, cli.start("produce", topic) as writer:
        for line in (b"a\n", b"b\n"):
            writer.write(line)
            assert reader.read_line() == line
        writer.send_signal(number)
        code, told = writer.ended()
        assert code == exit_code
        # A signal in the moment in which a line is handed over leaves open whether it was.
        counted = "(2|at least 2|at least 1)"
        assert re.fullmatch(rf"cordwood: ended early, with {counted} records? delivered to {topic}\n", told)


def test_a_quiet_producer_that_is_interrupted_prints_nothing(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    with cli.start("consume", topic, "-f") as reader, cli.start("produce", topic, "--quiet") as writer:
        writer.write(b"a\n")
        assert reader.read_line() == b"a\n"
        writer.interrupt()
        assert writer.ended() == (130, "")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_consumer_that_a_signal_ends_commits_and_leaves_its_group(
    cli: Cli, topic: str, number: signal.Signals, exit_code: int
) -> None:
    cli("produce", topic, "--create", stdin=b"one\n")
    with cli.start("consume", topic, "-f", "--group", topic) as reader:
        assert reader.read_line() == b"one\n"
        reader.send_signal(number)
        assert reader.ended() == (exit_code, "")
    (group,) = cli("group", "describe", topic, "--json").json
    assert (group["members"], [offset["committedOffset"] for offset in group["offsets"]]) == ([], [1])


def test_a_consumer_that_ignores_sighup_continues(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\n")
    with ignored(signal.SIGHUP), cli.start("consume", topic, "-f") as reader:
        assert reader.read_line() == b"one\n"
        reader.send_signal(signal.SIGHUP)
        cli("produce", topic, stdin=b"two\n")
        assert reader.read_line() == b"two\n"


@contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    """Processes that are started meanwhile ignore it, too."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_from_latest_implies_follow(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    cli("produce", topic, stdin=b"old\n")
    with cli.start("consume", topic, "--from", "latest", "-n", "1") as reader:
        # It may begin late: whatever it sees first is new.
        while not reader.has_ended:
            cli("produce", topic, stdin=b"new\n")
        assert reader.stdout.read() == b"new\n"


# ---- a terminal


def test_a_terminal_shows_a_table_with_a_head(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "3")
    printed = on_terminal(cli, "topic", "list", topic)
    assert "partitions" in printed
    assert topic in printed
    assert "Partitions" in on_terminal(cli, "topic", "describe", topic)


def test_a_terminal_shows_descriptions_of_settings_as_paragraphs(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    shown = on_terminal(cli, "config", "describe", "topic", topic, "retention.ms", "--docs").splitlines()
    assert shown[0] == "retention.ms = 604800000 (DEFAULT_CONFIG)"
    assert shown[1].startswith("    How long records are kept")
    assert max(map(len, shown)) <= 100


def test_actions_are_reported_on_a_terminal(cli: Cli, topic: str, tmp_path: Path) -> None:
    assert f"created {topic}: 2 partitions" in on_terminal(cli, "topic", "create", topic, "-p", "2")
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\nb\n")
    assert f"2 records to {topic}" in on_terminal(cli, "produce", topic, str(lines))
    assert f"2 records to {topic}" not in on_terminal(cli, "produce", topic, str(lines), "--quiet")


@pytest.mark.parametrize(("answer", "exit_code"), [(b"n\n", 1), (signal.SIGINT, 130), (b"\x04", 130), (b"y\n", 0)])
def test_confirmation_may_be_refused_or_interrupted(
    cli: Cli, topic: str, answer: bytes | signal.Signals, exit_code: int
) -> None:
    cli("topic", "create", topic)
    printed, ended = on_terminal_until(cli, ["topic", "delete", topic], f"Delete {topic}?", answer)
    assert ended == exit_code
    assert "Traceback" not in printed
    assert cli("topic", "list", topic).lines == ([] if exit_code == 0 else [topic])


# ---- help


def test_help_imports_neither_a_broker_nor_a_client() -> None:
    code = (
        "import sys\n"
        "from cordwood.cli.commands import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.startswith('cordwood') and '.cli' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['cordwood']"
    for command in COMMANDS:
        assert f" {command} " in done.stdout


@pytest.mark.parametrize(
    "command",
    [["topic", name] for name in ("create", "list", "describe", "alter", "delete")]
    + [["config", name] for name in ("describe", "set", "unset", "list")]
    + [["produce"], ["consume"], ["cluster"]],
)
def test_the_help_of_each_command_has_examples(command: list[str]) -> None:
    done = run(*command, "--help", COLUMNS="200")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"cordwood {' '.join(command)}" in done.stdout.split("Examples:")[1]
    assert "CORDWOOD_BOOTSTRAP" in done.stdout


def test_a_usage_error_is_one_line_that_points_to_the_help() -> None:
    done = run("topic", "create", "x", "--partitions", "many")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("cordwood: ")
    assert "--partitions" in done.stderr
    assert "(see cordwood topic create --help)" in done.stderr


def test_the_help_says_where_a_node_listens_and_keeps_its_data() -> None:
    told = run("up", "--help").stdout
    assert "9092" in told
    assert "cordwood-data" in told


@pytest.mark.parametrize("option", ["--port", "--metrics-port"])
def test_an_invalid_port_is_reported_before_anything_is_written(option: str, tmp_path: Path) -> None:
    done = run("up", option, "99999", "--data", str(tmp_path / "data"))
    assert done.returncode != 0
    assert f"{option} 99999: a port is a number from 0" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_non_text_configuration_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"num.partitions=\xff")
    done = run("up", "--ephemeral", "--port", "0", "--config", str(file))
    assert (done.returncode, done.stderr) == (
        2,
        f"cordwood up: --config {file}: this is not UTF-8 text, at byte 15\n",
    )


def test_tls_to_a_plaintext_listener_is_reported(cli: Cli) -> None:
    assert "(does it listen without TLS?)" in cli("topic", "list", "--tls", fails=3).stderr


def test_a_file_in_place_of_the_data_directory_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.touch()
    done = run("up", "--port", "0", "--data", str(file))
    assert done.returncode != 0
    assert f"--data {file} is a file" in done.stderr


def test_a_missing_command_names_the_nearest() -> None:
    assert "'topic'" in run("topics").stderr


def test_commands_alone_show_their_help() -> None:
    done = run("topic")
    assert done.returncode == 2
    assert "describe" in done.stdout


def test_a_shell_completes_commands_and_options() -> None:
    assert completions("cordwood pro").split() == ["produce", "profile"]
    assert "create" in completions("cordwood topic cr")
    assert "--bootstrap" in completions("cordwood consume --boot")
    assert "zstd" in completions("cordwood produce t --compression zs")


def test_a_shell_completes_settings_and_resources(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)

    def completed(line: str) -> list[str]:
        return completions(line, CORDWOOD_BOOTSTRAP=cli.bootstrap).split()

    assert completed(f"cordwood config describe topic {topic[:-1]}") == [topic]
    assert completed(f"cordwood config describe topic {topic} retention.") == ["retention.bytes", "retention.ms"]
    assert completed(f"cordwood config set topic {topic} retention.m") == ["retention.ms="]
    assert completed("cordwood config unset broker-default log.cleaner.th") == ["log.cleaner.threads"]
    assert completed("cordwood config describe broker ") == [str(cli("cluster", "--json").json["brokers"][0]["id"])]
    assert completed("cordwood topic create t --set cleanup.") == ["cleanup.policy="]
    assert completed("cordwood topic alter t --unset cleanup.") == ["cleanup.policy"]
    assert completed("cordwood up --set num.part") == ["num.partitions="]


def completions(line: str, **environment: str) -> str:
    words = str(len(line.split(" ")) - 1)
    return run(_CORDWOOD_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=words, **environment).stdout


# ---- TLS


@pytest.mark.skipif(os.environ.get("CORDWOOD_TEST_KAFKA") is not None, reason="needs a node of its own")
def test_a_cluster_that_wants_certificates_is_reached_over_tls(tmp_path: Path) -> None:
    from tests.net.certificates import authority

    trusted = authority(tmp_path, "authority")
    node_keys = trusted.issue("node")
    own = trusted.issue("me", password="secret")
    assert node_keys.key_file is not None
    assert own.key_file is not None
    store = tmp_path / "node.pem"
    store.write_text(Path(node_keys.key_file).read_text() + Path(node_keys.certificate_file).read_text())
    settings = {
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted.ca_file,
        "ssl.client.auth": "required",
    }
    trust = ["--tls-ca", trusted.ca_file]
    show = ["--tls-cert", own.certificate_file, "--tls-key", own.key_file, "--tls-key-password", "secret"]
    command = [sys.executable, "-m", "cordwood", "up", "--data", str(tmp_path / "data")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = node.stdout.readline()
            cli = Cli(ready.partition("bootstrap ")[2].partition(",")[0].strip())
            cli("produce", "t", "--create", *trust, *show, stdin=b"secret\n")
            assert cli("consume", "t", *trust, *show).lines == ["secret"]
            assert "is it a TLS listener?" in cli("topic", "list", fails=3).stderr
            assert "the certificate cannot be verified" in cli("topic", "list", "--tls", fails=3).stderr
            assert cli("topic", "list", *trust, fails=3).stderr.count("\n") == 1
            assert "is the password right?" in cli("topic", "list", *trust, *show[:-1], "wrong", fails=2).stderr
        finally:
            node.terminate()
