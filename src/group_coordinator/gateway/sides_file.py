"""The file with the patterns of the groups at the brokers, which may change while the gateway runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from group_coordinator.gateway.certificates import version_of
from group_coordinator.jobs.patterns import check
from group_coordinator.jobs.secret_files import FILE_SUFFIX, read_value

if TYPE_CHECKING:
    from group_coordinator.gateway.sides import Sides

log = logging.getLogger(__name__)

BROKERS_GROUPS = "gateway.groups.brokers"


class SidesFile:
    """The file whose text was the value of `gateway.groups.brokers` when the gateway started."""

    def __init__(self, file: str, sides: Sides) -> None:
        self._file, self._sides = file, sides
        # The file may have changed since it was read: it is read again at the first look.
        self._version: tuple[int, int, int] | None = None

    def renew(self) -> bool:
        """Read the file again if it has changed; returns whether groups have other sides now.

        If it cannot be used, the patterns before stay.
        """
        version = version_of(self._file)
        if version == self._version:
            return False
        # Said once: it is tried again when the file changes again.
        self._version = version
        try:
            patterns = read_value(BROKERS_GROUPS + FILE_SUFFIX, self._file)
            check(patterns)
        except ValueError as error:
            # It is one line, without a traceback.
            log.error("the groups at the brokers stay as they were: %s", error)  # noqa: TRY400
            return False
        if not self._sides.change(patterns):
            return False
        log.info("the groups at the brokers are %s from now on", patterns)
        return True
