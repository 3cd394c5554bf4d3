"""Why an append or a read was refused: a Kafka error code and a message that says what was wrong."""

from cordwood.wire.errors import ErrorCode


class Refusal(Exception):
    """What the client is answered with. Nothing was written."""

    def __init__(self, error: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.error = error
        # (index in the batch, what is wrong with it), for the produce response.
        self.record_errors = record_errors
