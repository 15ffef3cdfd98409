"""The common part of the classes that programs use: the end of a `with` closes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """An object that is closed at the end of a `with`, even by an error."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
