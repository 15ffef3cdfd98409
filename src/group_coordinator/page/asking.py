"""Questions that take a while, and for which no page waits."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_PATIENCE_S = 60.0
"""Nobody waits longer for an answer: all that wait their turn have it by then, or are told of a problem."""
_KEPT = 64
_MOST_ASKED = 8
"""Questions that wait for their turn. A caller beyond that limit asks again at its next look."""
Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Asking(Generic[Key, Answer]):
    """Asks in threads of its own, one at a time, and only while somebody looks.

    `ask` answers, and never fails. `fresh_s`: as long as that the same is not asked again. Nobody waits for
    an answer, not even who ends the process.
    """

    def __init__(self, ask: Callable[[Key], Answer], name: str, fresh_s: float) -> None:
        self._ask, self._name, self._fresh_s = ask, name, fresh_s
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._turn = threading.Lock()
        self._found: OrderedDict[Key, tuple[float, Answer]] = OrderedDict()
        self._asked: set[Key] = set()

    def newest(self, key: Key) -> Answer | None:
        """The newest answer. If it is old, or None, a newer one is on its way."""
        with self._lock:
            taken, answer = self._found.get(key, (None, None))
            if not self._is_fresh(taken):
                self._begin(key)
        return answer

    def wait(self, key: Key) -> Answer | None:
        """An answer that is not old. Waits for it; None if too many others are asked for."""
        deadline = time.monotonic() + _PATIENCE_S
        with self._answered:
            while (left := deadline - time.monotonic()) > 0:
                taken, answer = self._found.get(key, (None, None))
                if self._is_fresh(taken):
                    return answer
                if not self._begin(key):
                    return None
                self._answered.wait(left)
        return None

    def _is_fresh(self, taken: float | None) -> bool:
        return taken is not None and time.monotonic() - taken <= self._fresh_s

    def _begin(self, key: Key) -> bool:
        """Begin to ask, if nobody has; False if too many others wait."""
        if key in self._asked:
            return True
        if len(self._asked) >= _MOST_ASKED:
            return False
        self._asked.add(key)
        threading.Thread(target=self._answer, args=(key,), name=self._name, daemon=True).start()
        return True

    def _answer(self, key: Key) -> None:
        try:
            with self._turn:
                answer = self._ask(key)
            with self._lock:
                self._found[key] = (time.monotonic(), answer)
                self._found.move_to_end(key)
                while len(self._found) > _KEPT:
                    self._found.popitem(last=False)
        finally:
            with self._answered:
                self._asked.discard(key)
                self._answered.notify_all()
