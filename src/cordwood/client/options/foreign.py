"""Settings of other clients: those of Kafka's without effect here, and names from other Python clients."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Unused(NamedTuple):
    reason: str
    harmless: tuple[Any, ...] = ()
    """Values that request the existing behaviour."""


_METRICS = "use the client's `metrics()`"
_JAVA_TLS = "TLS is provided by OpenSSL"

# Accepted, with a warning.
NO_EFFECT: Mapping[str, Unused] = {
    "enable_metrics_push": Unused("metrics are not pushed to brokers (KIP-714)", (False, "false")),
    "internal_throw_on_fetch_stable_offset_unsupported": Unused("it belongs to Kafka Streams"),
    "metadata_max_idle_ms": Unused("topic metadata is cached as long as the client lives"),
    "metric_reporters": Unused(_METRICS),
    "metrics_num_samples": Unused(_METRICS),
    "metrics_recording_level": Unused(_METRICS),
    "metrics_sample_window_ms": Unused(_METRICS),
    "retries": Unused("calls are retried until default_api_timeout_ms is over"),
    "security_providers": Unused(_JAVA_TLS),
    "share_acknowledgement_mode": Unused("share groups are not supported"),
    "share_acquire_mode": Unused("share groups are not supported"),
    "ssl_keymanager_algorithm": Unused(_JAVA_TLS),
    "ssl_protocol": Unused("use ssl_enabled_protocols", ("TLSv1.3", "TLS")),
    "ssl_provider": Unused(_JAVA_TLS),
    "ssl_secure_random_implementation": Unused(_JAVA_TLS),
    "ssl_trustmanager_algorithm": Unused(_JAVA_TLS),
}

SASL = Unused("SASL is not supported; security_protocol must be PLAINTEXT or SSL")
_ONLY_PEM = "stores are PEM files without a password; a key's password is ssl_key_password"

# An error: ignoring it would change what the user intended.
REFUSED: dict[str, Unused] = {
    "bootstrap_controllers": Unused("controllers are reached through brokers; give bootstrap_servers", ((), [], "")),
    "client_dns_lookup": Unused("all addresses of a name are tried: use_all_dns_ips", ("use_all_dns_ips",)),
    "config_providers": Unused("config providers are not supported; resolve values in Python", ((), [], "")),
    "ssl_engine_factory_class": Unused(_JAVA_TLS),
    "ssl_keystore_password": Unused(_ONLY_PEM),
    "ssl_truststore_password": Unused(_ONLY_PEM),
}


def refused(name: str) -> Unused | None:
    return SASL if name.startswith("sasl_") else REFUSED.get(name)


# Names in kafka-python, aiokafka and librdkafka, with the setting to use here.
HINTS: Mapping[str, str] = {
    "api_version": "API versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "API versions are negotiated with each broker",
    "auto_offset_store": "the positions of polled records are committed; see enable_auto_commit",
    "broker_version_fallback": "API versions are negotiated with each broker",
    "consumer_timeout_ms": "poll takes a timeout_ms",
    "enable_auto_offset_store": "the positions of polled records are committed; see enable_auto_commit",
    "loop": "the async clients use the running event loop",
    "max_batch_size": "it is batch_size",
    "max_in_flight": "it is max_in_flight_requests_per_connection",
    "message_max_bytes": "it is max_request_size",
    "message_timeout_ms": "it is delivery_timeout_ms",
    "metadata_broker_list": "it is bootstrap_servers",
    "on_delivery": "give send() its callback, or await what it returns",
    "queue_buffering_max_kbytes": "it is buffer_memory, in bytes",
    "queue_buffering_max_messages": "it is buffer_memory, in bytes",
    "queue_buffering_max_ms": "it is linger_ms",
    "request_required_acks": "it is acks",
    "socket_timeout_ms": "it is request_timeout_ms",
    "ssl_ca_location": "it is ssl_truststore_location, a PEM file",
    "ssl_cafile": "it is ssl_truststore_location, a PEM file",
    "ssl_certfile": "it is ssl_keystore_location, a PEM file with the key",
    "ssl_certificate_location": "it is ssl_keystore_location, a PEM file with the key",
    "ssl_check_hostname": 'ssl_endpoint_identification_algorithm="" disables hostname verification',
    "ssl_context": "use ssl_truststore_location and related settings",
    "ssl_key_location": "it is ssl_keystore_key",
    "ssl_keyfile": "it is ssl_keystore_key",
    "ssl_password": "it is ssl_key_password",
    "statistics_interval_ms": "use the client's `metrics()`",
}
