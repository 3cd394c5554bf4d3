"""A certificate that replaces another one of a running node keeps its names, unless the configuration allows others."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509

from cordwood.config.broker import BrokerConfig
from cordwood.config.definition import ResourceType
from cordwood.config.layers import Layer
from cordwood.config.network.listener_tls import ListenerTls, check_listener_tls
from cordwood.config.requests.changes import Altered, Resource
from cordwood.runtime.tls import KeyPair
from cordwood.runtime.transport.certificate import names_in
from tests.net.certificates import authority

BROKER = Resource(ResourceType.BROKER, "1")


def config_with(keys: KeyPair, **more: str) -> BrokerConfig:
    return BrokerConfig.from_layers(
        Layer(
            "test",
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": "localhost:9093",
                "listeners": "SSL://localhost:9092,CONTROLLER://localhost:9093",
                "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "SSL",
                "log.dirs": "/data",
                **{name.replace("_", "."): value for name, value in more.items()},
                **settings_of(keys),
            },
        )
    )


def settings_of(keys: KeyPair) -> dict[str, str]:
    assert keys.key_file is not None
    chain, key = (Path(path).read_text() for path in (keys.certificate_file, keys.key_file))
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def issued(folder: Path, common_name: str, names: Sequence[str], number: int) -> KeyPair:
    (folder / str(number)).mkdir()
    return authority(folder / str(number), "ca").issue_for(common_name, names)


@pytest.mark.parametrize(
    ("common_name", "names", "allowed", "refusal"),
    [
        ("broker", ["a", "b"], {}, None),
        ("Broker", ["a", "b", "c"], {}, None),
        ("other", ["a", "b"], {}, "ssl.allow.dn.changes=true"),
        ("broker", ["a"], {}, "ssl.allow.san.changes=true"),
        ("broker", [], {}, "ssl.allow.san.changes=true"),
        ("other", ["a", "b"], {"ssl_allow_dn_changes": "true"}, None),
        ("broker", ["z"], {"ssl_allow_san_changes": "true"}, None),
    ],
)
def test_a_new_certificate_keeps_the_names_of_the_old_one(
    tmp_path: Path, common_name: str, names: list[str], allowed: dict[str, str], refusal: str | None
) -> None:
    old = config_with(issued(tmp_path, "broker", ["a", "b"], 1), **allowed)
    new = issued(tmp_path, common_name, names, 2)
    changed = {f"listener.name.ssl.{name}": value for name, value in settings_of(new).items()}
    altered = Altered(changed, tuple(changed.items()))
    refused = check_listener_tls(old, BROKER, altered)
    assert (refused is None) == (refusal is None)
    if refused is not None and refusal is not None:
        assert refusal in str(refused)

    tls = ListenerTls(old)
    (endpoint, *_) = old.listeners.broker_endpoints
    served = tls.of(endpoint)
    assert served is not None
    before = served.context
    tls.reload(config_with(new, **allowed))
    assert (served.context is before) == (refusal is not None)


def test_names_are_those_that_another_library_reads(tmp_path: Path) -> None:
    names = [f"host-{number}.example.com" for number in range(40)]
    text = Path(issued(tmp_path, "A broker", names, 1).certificate_file).read_text()
    found = names_in(text)
    certificate = x509.load_pem_x509_certificate(text.encode())
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    dns = {value.decode() for tag, value in found.alternatives if tag == 0x82}
    assert dns == set(extension.value.get_values_for_type(x509.DNSName)) == set(names)
    assert [value for _, value in found.subject] == [b"a broker"]


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_a_non_certificate_has_no_names(text: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        names_in(text)
