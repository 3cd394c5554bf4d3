"""`cordwood registry`: a registry in a separate process."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import cordwood.testing
from cordwood.runtime.blocking_http import connect, exchange, exchange_on
from tests.net.certificates import authority


def test_registry_serves_schemas_of_any_cluster_to_its_users(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# who may\nme: secret\n")
    with cordwood.testing.node() as node:
        command = [sys.executable, "-m", "cordwood", "registry", "--bootstrap", node.bootstrap, "--port", "0"]
        with subprocess.Popen([*command, "--users", str(users)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            assert exchange(url, "GET", "/subjects", {}, None, 30.0).status == 401
            allowed = {"authorization": "Basic bWU6c2VjcmV0"}
            assert exchange(url, "GET", "/subjects", allowed, None, 30.0).body == b"[]"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_node_serves_a_registry_beside_listeners_that_want_certificates(tmp_path: Path) -> None:
    trusted = authority(tmp_path, "ca")
    keys = trusted.issue("node")
    assert keys.key_file is not None
    keystore = tmp_path / "keystore.pem"
    keystore.write_text(Path(keys.certificate_file).read_text() + Path(keys.key_file).read_text())
    users = tmp_path / "users"
    users.write_text("me: secret\n")
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted.ca_file,
        "cordwood.registry.ssl.keystore.location": keystore,
        "cordwood.registry.ssl.truststore.location": trusted.ca_file,
        "cordwood.registry.ssl.client.auth": "required",
        "cordwood.registry.users.file": users,
    }
    said = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "cordwood", "up", "--ephemeral", "--registry-port", "0", *said]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split()[-1]
        assert url.startswith("https://127.0.0.1:"), line
        context = ssl.create_default_context(cafile=trusted.ca_file)
        context.load_cert_chain(keys.certificate_file, keys.key_file)
        connection = connect(url, 30.0, context)
        allowed = {"authorization": "Basic bWU6c2VjcmV0", "content-type": "application/json"}
        assert exchange_on(connection, "GET", "/subjects", {}, None).status == 401
        answer = exchange_on(connection, "POST", "/subjects/s/versions", allowed, b'{"schema": "\\"int\\""}')
        connection.close()
        assert answer.status == 200, answer.body
        shown = {
            "CORDWOOD_REGISTRY": url,
            "CORDWOOD_REGISTRY_USER": "me:secret",
            "CORDWOOD_REGISTRY_CA": trusted.ca_file,
            "CORDWOOD_REGISTRY_CERTIFICATE": keys.certificate_file,
            "CORDWOOD_REGISTRY_KEY": keys.key_file,
        }
        listing = [sys.executable, "-m", "cordwood", "schema", "list"]
        listed = subprocess.run(listing, env=os.environ | shown, capture_output=True, text=True, check=False)
        assert (listed.returncode, listed.stdout) == (0, "s\n"), listed.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_registry_refuses_an_unusable_advertised_url() -> None:
    command = [sys.executable, "-m", "cordwood", "registry", "--advertised-url", "http://0.0.0.0:8081"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "name a host" in ended.stderr
