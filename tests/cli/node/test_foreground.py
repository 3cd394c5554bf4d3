"""Errors of `cordwood up` for an address that it cannot listen on, or that clients cannot connect to."""

from __future__ import annotations

import errno
import socket

import pytest

from cordwood.cli.node.foreground import NodeOptions, listen_hint, run_node, said_layers
from cordwood.runtime.network import CannotListen
from cordwood.runtime.sockets import listen_problem


@pytest.mark.parametrize(
    ("error", "port", "hint"),
    [
        (OSError(errno.EADDRINUSE, ""), 9092, "Is another node running? Choose another port with --port"),
        (OSError(errno.EACCES, ""), 80, "Ports below 1024 need privileges."),
        (OSError(errno.EACCES, ""), 9092, "The system does not allow this process to listen there"),
        (OSError(errno.EADDRNOTAVAIL, ""), 9092, "This machine has no network interface with the address there."),
        (socket.gaierror(socket.EAI_NONAME, ""), 9092, "The name there has no address."),
        (OSError(errno.EIO, ""), 9092, ""),
    ],
    ids=str,
)
def test_each_reason_has_its_own_hint(error: OSError, port: int, hint: str) -> None:
    assert listen_hint(CannotListen("there", port, "", listen_problem(error))).startswith(hint)


@pytest.mark.parametrize(
    "variable",
    ["CORDWOOD_BOOTSTRAP", "CORDWOOD_CLIENT_CONFIG", "CORDWOOD_PROFILE", "CORDWOOD_REGISTRY", "CORDWOOD_REGISTRY_CA"],
)
def test_variables_of_other_commands_are_no_settings_of_a_node(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "anything")
    environment = next(layer for layer in said_layers(None, []) if layer.origin == "the environment")
    assert "anything" not in environment.settings.values()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_wildcard_address_needs_an_advertised_one(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_node(NodeOptions(host=host, port=9192, ephemeral=True))
    said = capsys.readouterr().err
    assert f"--host {host} listens on every address" in said
    assert "--set advertised.listeners=PLAINTEXT://" in said
    assert said.endswith(":9192\n")


def test_settings_of_tls_without_a_listener_for_it_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ["ssl.keystore.location=server.pem", "ssl.cipher.suites=TLS_AES_256_GCM_SHA384"]
        with pytest.raises(SystemExit):
            run_node(NodeOptions(port=taken.getsockname()[1], ephemeral=True, set=settings))
    assert (
        "No listener uses TLS, so nothing is encrypted: ssl.keystore.location, ssl.cipher.suites would be for listeners"
    ) in capsys.readouterr().err
