"""AlterReplicaLogDirs over the wire: every version, and errors."""

import pytest

from lacuna.agent.admin.log_dirs import LOG_DIR
from tests.agent.apis.clusters import UNKNOWN_TOPIC, Setup
from tests.messages import nested


@pytest.mark.parametrize("version", range(1, 3))
async def test_there_is_one_log_dir(setup: Setup, version: int) -> None:
    await setup.create("t")
    topic = nested(34, version, "AlterReplicaLogDirTopic", name="t", partitions=(0, 1))
    for path, codes in ((LOG_DIR, [0, UNKNOWN_TOPIC]), ("/nope", [57, 57])):
        directory = nested(34, version, "AlterReplicaLogDir", path=path, topics=(topic,))
        (found,) = (await setup.ask(34, version, dirs=(directory,))).results
        assert [each.error_code for each in found.partitions] == codes
