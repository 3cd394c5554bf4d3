"""The refusal: a Kafka error code and a message that says what was wrong."""

from cordwood.wire.errors import ErrorCode


class Refusal(Exception):
    """Nothing was written. The client gets the error, and the message where the API has room for it."""

    def __init__(self, error: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.error = error
        # (index in the batch, what is wrong with it), for the produce response.
        self.record_errors = record_errors
