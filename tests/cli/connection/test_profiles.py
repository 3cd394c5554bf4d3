"""Client properties from files and profiles: their precedence, and errors."""

import stat
from pathlib import Path

import pytest

from cordwood.cli.connection.access import Access
from tests.cli.cli_runner import Cli, run_here
from tests.net.certificates import authority

NOWHERE = "127.0.0.1:1"


def properties(path: Path, **given: str) -> str:
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in given.items()))
    return str(path)


def bootstrap_of(access: Access) -> str:
    return ",".join(str(address) for address in access.settings().bootstrap_servers)


# ---- what counts before what


def test_the_command_line_counts_before_variables_and_those_before_the_profile_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = properties(tmp_path / "file", bootstrap_servers="file:1")
    variable_file = properties(tmp_path / "variable_file", bootstrap_servers="variable-file:1")
    for name in ("used", "named", "of-variable"):
        assert run_here(["profile", "create", name, "-b", f"{name}:1"]).code == 0
    assert bootstrap_of(Access()) == "127.0.0.1:9092"
    assert run_here(["profile", "use", "used"]).code == 0
    assert bootstrap_of(Access()) == "used:1"
    monkeypatch.setenv("CORDWOOD_PROFILE", "of-variable")
    assert bootstrap_of(Access()) == "of-variable:1"
    monkeypatch.setenv("CORDWOOD_CLIENT_CONFIG", variable_file)
    assert bootstrap_of(Access()) == "variable-file:1"
    monkeypatch.setenv("CORDWOOD_BOOTSTRAP", "variable:1")
    assert bootstrap_of(Access()) == "variable:1"
    assert bootstrap_of(Access(profile="named")) == "named:1"
    assert bootstrap_of(Access(profile="named", client_config=file)) == "file:1"
    assert bootstrap_of(Access(profile="named", client_config=file, bootstrap="option:1")) == "option:1"


def test_a_variable_names_the_brokers_without_any_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORDWOOD_BOOTSTRAP", "variable:1")
    assert bootstrap_of(Access()) == "variable:1"
    assert bootstrap_of(Access(bootstrap="option:1")) == "option:1"


def test_sources_of_settings_are_merged(tmp_path: Path) -> None:
    file = properties(tmp_path / "file", client_id="of-file")
    assert run_here(["profile", "create", "p", "-b", "p:1", "--set", "client.id=of-profile", "--use"]).code == 0
    settings = Access(client_config=file).settings()
    assert (settings.client_id, str(settings.bootstrap_servers[0])) == ("of-file", "p:1")


def test_a_timeout_of_the_command_line_counts_before_that_of_a_file(tmp_path: Path) -> None:
    file = properties(tmp_path / "file", default_api_timeout_ms="7000", request_timeout_ms="3000")
    settings = Access(client_config=file).settings()
    assert (settings.default_api_timeout_ms, settings.request_timeout_ms) == (7000, 3000)
    settings = Access(client_config=file, timeout_s=2).settings()
    assert (settings.default_api_timeout_ms, settings.request_timeout_ms) == (2000, 2000)
    assert Access().settings().default_api_timeout_ms == 30_000


def test_tls_of_a_file_can_be_turned_off_and_replaced(tmp_path: Path) -> None:
    file = properties(tmp_path / "file", security_protocol="SSL")
    assert Access().settings().tls is None
    assert Access(client_config=file).settings().tls is not None
    assert Access(client_config=file, tls=False).settings().tls is None
    tls = Access(client_config=file, tls_any_host=True).settings().tls
    assert tls is not None
    assert not tls.context.check_hostname


# ---- properties at work


def test_a_file_of_properties_reaches_the_cluster(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = properties(
        tmp_path / "client.properties",
        bootstrap_servers=cli.bootstrap,
        acks="1",
        compression_type="lz4",
        isolation_level="read_committed",
    )
    assert run_here(["topic", "create", topic, "--client-config", file]).code == 0
    assert run_here(["produce", topic, "--client-config", file], b"a\nb\n").code == 0
    assert run_here(["consume", topic, "--client-config", file]).lines == ["a", "b"]


def test_a_profile_works_in_a_separate_process(cli: Cli, topic: str) -> None:
    assert run_here(["profile", "create", "here", "-b", cli.bootstrap, "--use"]).code == 0
    assert run_here(["topic", "create", topic]).code == 0
    elsewhere = Cli("")
    with elsewhere.start("produce", topic) as writer:
        writer.write(b"x\n")
        writer.stdin.close()
        assert writer.ended() == (0, "")
    with elsewhere.start("consume", topic, "--profile", "here") as reader:
        assert reader.read_line() == b"x\n"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"bootstrap.server": "a:1"}, "there is no setting bootstrap.server; is it bootstrap.servers?"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism: SASL is not supported"),
        ({"security.protocol": "SASL_SSL"}, "SASL is not supported; expected PLAINTEXT or SSL"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms is 'soon'; expected a whole number"),
        ({"ssl.truststore.password": "x"}, "ssl.truststore.password: stores are PEM files"),
    ],
    ids=str,
)
def test_an_unusable_property_is_reported_with_its_file(tmp_path: Path, given: dict[str, str], reason: str) -> None:
    file = properties(tmp_path / "client.properties", **given)
    done = run_here(["topic", "list", "--client-config", file, "-b", NOWHERE])
    assert done.code == 2
    assert done.stderr.startswith(f"cordwood: {file}: ")
    assert reason in done.stderr


def test_a_property_without_effect_is_reported(cli: Cli, tmp_path: Path) -> None:
    file = properties(tmp_path / "client.properties", bootstrap_servers=cli.bootstrap, metric_reporters="x")
    done = run_here(["topic", "list", "--client-config", file])
    assert (done.code, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith(f"cordwood: {file}: metric.reporters has no effect")


def test_missing_files_and_profiles_are_reported(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    done = run_here(["topic", "list", "--client-config", missing])
    assert (done.code, done.stderr) == (2, f"cordwood: {missing}: No such file or directory\n")
    done = run_here(["topic", "list", "--profile", "nothing"])
    expected = "cordwood: there is no profile nothing; create one with cordwood profile create\n"
    assert (done.code, done.stderr) == (2, expected)


# ---- the command


def test_profiles_are_created_used_and_deleted(
    configuration_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = Path(authority(tmp_path, "authority").ca_file)
    monkeypatch.chdir(trusted.parent)
    for name in ("one", "two"):
        assert run_here(["profile", "create", name, "-b", f"{name}:9092", "--tls-ca", trusted.name]).code == 0
    assert run_here(["profile", "list"]).lines == ["\tone\tone:9092", "\ttwo\ttwo:9092"]
    assert run_here(["profile", "show"]).stderr.startswith("cordwood: no profile is in use")
    assert run_here(["profile", "use", "two"]).code == 0
    assert run_here(["profile", "list", "--json"]).json == [
        {"name": "one", "inUse": False, "bootstrapServers": "one:9092"},
        {"name": "two", "inUse": True, "bootstrapServers": "two:9092"},
    ]
    assert run_here(["profile", "show", "--json"]).json == {
        "name": "two",
        "inUse": True,
        "properties": {
            "bootstrap.servers": "two:9092",
            "security.protocol": "SSL",
            "ssl.truststore.location": str(trusted),
        },
    }
    files = [*configuration_directory.rglob("*.properties"), configuration_directory / "profile"]
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert run_here(["profile", "delete", "two"]).code == 2
    assert run_here(["profile", "delete", "two", "--yes"]).code == 0
    assert run_here(["profile", "list"]).lines == ["\tone\tone:9092"]
    assert not (configuration_directory / "profile").exists()


def test_no_producer_id_is_reused() -> None:
    assert run_here(["profile", "create", "one", "-b", "one:1", "--use"]).code == 0
    assert run_here(["profile", "use", "--none"]).code == 0
    assert bootstrap_of(Access()) == "127.0.0.1:9092"
    assert run_here(["profile", "use"]).code == 2
    assert run_here(["profile", "use", "three"]).stderr == "cordwood: there is no profile three; there are one\n"


def test_a_profile_that_is_there_is_replaced_only_where_that_is_said() -> None:
    assert run_here(["profile", "create", "one", "-b", "one:1"]).code == 0
    done = run_here(["profile", "create", "one", "-b", "other:1"])
    assert (done.code, done.stderr) == (2, "cordwood: profile one already exists; overwrite it with --replace\n")
    assert run_here(["profile", "create", "one", "-b", "other:1", "--replace"]).code == 0
    assert run_here(["profile", "list"]).lines == ["\tone\tother:1"]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b"])
def test_a_name_that_could_be_a_path_is_refused(name: str, configuration_directory: Path) -> None:
    done = run_here(["profile", "create", name, "-b", "a:1"])
    assert done.code == 2
    assert "is not a valid profile name" in done.stderr
    assert not configuration_directory.exists()


def test_a_profile_with_an_unknown_property_is_not_written(configuration_directory: Path) -> None:
    done = run_here(["profile", "create", "one", "-b", "a:1", "--set", "client.ids=1"])
    assert (done.code, done.stderr) == (
        2,
        "cordwood: profile one: there is no setting client.ids; is it client.id?\n",
    )
    assert not configuration_directory.exists()


def test_passwords_are_shown_only_on_request(tmp_path: Path) -> None:
    file = properties(tmp_path / "f", bootstrap_servers="a:1", security_protocol="SSL", ssl_key_password="secret")
    own = authority(tmp_path, "authority").issue("me", password="secret")
    assert own.key_file is not None
    keys = ["--tls-cert", own.certificate_file, "--tls-key", own.key_file]
    assert run_here(["profile", "create", "p", "--from-file", file, *keys]).code == 0
    assert "secret" not in run_here(["profile", "show", "p"]).stdout.decode()
    assert run_here(["profile", "show", "p", "--secrets", "--json"]).json["properties"]["ssl.key.password"] == "secret"


def test_a_shell_completes_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prod", "private", "local"):
        assert run_here(["profile", "create", name, "-b", "a:1"]).code == 0
    for line in ("cordwood profile use pr", "cordwood topic list --profile pr"):
        monkeypatch.setenv("_CORDWOOD_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert run_here([]).stdout.split() == [b"private", b"prod"]
