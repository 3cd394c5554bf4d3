"""Questions about UnregisterBroker."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

CONVERSATION = Conversation(
    [
        Question("UnregisterBroker", {"brokerId": 7}, ALL),
        Question("UnregisterBroker", {"brokerId": -1}, ALL),
        Question("UnregisterBroker", {"brokerId": 1}, ALL),
        Question("UnregisterBroker", {"brokerId": 1}, ALL),
    ]
)
