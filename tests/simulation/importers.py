"""Importers of the simulation: they copy another cluster's log into a mirror, two at a time.

They write and commit with the product's `Target`. The log is drawn, with holes and aborted records. Each value has one
offset, which `History` knows from the start, so a record at another offset or a duplicate is a contradiction.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.importing.batches import Copy
from lacuna.importing.target import Stretch, Target, TargetFailed
from lacuna.logstore.objects import ObjectStoreError
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.pipeline.errors import PipelineError
from tests.simulation.compactor import Job
from tests.simulation.history import History, Place, Transaction

TOPIC: Final = "mirror"
PLACE: Final[Place] = (TOPIC, 0)
SOURCE: Final = "other/topic"
CONFIGS: Final = {"mirror.source": SOURCE}
NAMES: Final = ("importer", "other-importer")
BATCHES: Final = 60
LONG_BATCHES: Final = 400


class Log:
    """The log of the other cluster: batches with holes between them, some of them aborted.

    With `is_kept`, aborted batches stay readable, since no job compacts the mirror.
    """

    def __init__(
        self, draw: random.Random, history: History, batches: int, *, is_kept: bool = False
    ) -> None:
        self._history = history
        self._is_kept = is_kept
        self._batches: list[tuple[Copy, list[bytes]]] = []
        aborted = Transaction("an aborted transaction of the other cluster")
        end = number = 0
        for _ in range(batches):
            end += draw.choice((0, 0, 1, 5))  # what was aborted there, or a marker
            values = [b"m@other:%d" % (number + index) for index in range(draw.choice((1, 2, 5)))]
            number += len(values)
            is_aborted = draw.random() < 0.3
            self._batches.append((_copy(end, values, is_aborted=is_aborted), values))
            for offset, value in enumerate(values, end):
                history.given(value, aborted if is_aborted else None, PLACE, offset)
            end += len(values)

    def after(
        self, key: PartitionKey, offset: int, most: int
    ) -> tuple[Stretch, list[tuple[int, bytes, bool]]] | None:
        """Return the next batches from an offset onwards, at most `most`, and their records, or None at the end.

        A record is its offset, its value, and whether it is aborted.
        """
        taken = [each for each in self._batches if each[0].base_offset >= offset][:most]
        if not taken:
            return None
        last = taken[-1][0]
        following = (copy for copy, _ in self._batches if copy.base_offset >= last.next_offset)
        end = next((copy.base_offset for copy in following), last.next_offset + 3)
        records = [
            (record_offset, value, copy.is_aborted)
            for copy, values in taken
            for record_offset, value in enumerate(values, copy.base_offset)
        ]
        copies = [copy for copy, _ in taken]
        return Stretch(key, SOURCE, offset, end, 1, copies), records

    async def copy(self, job: Job) -> None:
        """Copy some of it, starting where the mirror ends.

        A dead importer's lease remains. Raises PipelineError, ControlPlaneUnavailable, CommandRefused, Died.
        """
        target = Target(job.control, job.store)
        await target.open()
        try:
            await self._copy(job, target)
        except (TargetFailed, ObjectStoreError) as error:
            with suppress(ControlPlaneUnavailable, CommandRefused):
                await target.close()
            raise PipelineError(str(error)) from error
        await target.close()

    async def _copy(self, job: Job, target: Target) -> None:
        topics = await job.topics()
        key = (next(id_ for id_, each in topics.items() if each.name == TOPIC), 0)
        for _ in range(job.random.choice((1, 3, 8))):
            (state,) = await target.ends([key])
            found = self.after(key, state.high_watermark, job.random.choice((1, 2, 6)))
            if found is None:
                return
            stretch, records = found
            command = await target.put([stretch])
            await job.work((0, 0, 0, 0.5, 3.0))
            (code,) = await target.commit(command)
            job.history.counts[f"imports: {ErrorCode(code).name}"] += 1
            if code == ErrorCode.NONE:
                for offset, value, is_aborted in records:
                    job.history.acknowledge(PLACE, offset, value, is_in_transaction=is_aborted)
                    if is_aborted and self._is_kept:
                        job.history.kept.append((PLACE, offset, value))


def _copy(base_offset: int, values: list[bytes], *, is_aborted: bool) -> Copy:
    records = tuple(NewRecord(offset_delta=i, value=value) for i, value in enumerate(values))
    data = BatchToWrite(records=records, base_offset=base_offset).encode()
    return Copy(data, base_offset, base_offset + len(values), -1, False, is_aborted)
