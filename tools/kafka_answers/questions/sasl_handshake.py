"""Questions about SaslHandshake."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

CONVERSATION = Conversation(
    [Question("SaslHandshake", {"mechanism": name}, ALL) for name in ("PLAIN", "SCRAM-SHA-256", "", "nonsense")]
)
