"""The core's side: one group, played through `step`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from tests.conformance.compare import Difference

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.config import GroupConfig

__all__ = ["SECRET", "Core", "answers_of"]

SECRET = b"a secret of the tests"

_responses = msgspec.json.Decoder(AnyResponse)


class Core(ABC):
    """One group, whose requests lie in `partition` of `topic`: the core makes member ids of it."""

    def __init__(
        self, group_id: str, config: GroupConfig, topic: str = "requests", partition: int = 0
    ) -> None:
        self.group_id = group_id
        self._key = group_id.encode()
        self._config = config
        self._topic, self._partition = topic, partition
        self.log: list[Record] = []
        """All requests so far."""

    @property
    @abstractmethod
    def group(self) -> Any:
        """The group as it is; None if there is none, or one of another protocol."""

    def _record(self, request: dict[str, Any], at_ms: int) -> Record:
        """The next record of the log."""
        value = msgspec.json.encode(request)
        return Record(self._topic, self._partition, len(self.log), at_ms, self._key, value)

    def _question(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """A request that changes nothing."""
        envelope = {"request_id": "", "client_id": "", "group_id": self.group_id}
        return {"api": api, "api_version": version} | envelope | fields

    def _step(self, state: bytes | None, records: list[Record], to_ms: int) -> StepResult:
        try:
            return step(self._key, state, records, to_ms, self._config, SECRET)
        except Exception as error:
            raise Difference("the core failed", "no failure", f"{type(error).__name__}: {error}") from error


def answers_of(result: StepResult) -> dict[str, dict[str, Any]]:
    """What a step has answered, by request id."""
    answers = [
        msgspec.to_builtins(_responses.decode(output.value or b""), builtin_types=(bytes,))
        for output in result.outputs
        if output.channel is Channel.RESPONSES
    ]
    return {answer["request_id"]: answer for answer in answers}
