"""Karapace as a schema registry, from the installation of the command `karapace`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.compat.harness.registry import Registry
from tests.compat.harness.tools import Server, free_port, parser, tell


def main() -> None:
    arguments = parser(__doc__).parse_args()
    command = shutil.which("karapace")
    if command is None:
        sys.exit("there is no command karapace on the PATH")
    port, topic = free_port(), f"{arguments.prefix}-schemas"
    settings = {
        "BOOTSTRAP_URI": arguments.bootstrap,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "ADVERTISED_HOSTNAME": "127.0.0.1",
        "KARAPACE_REGISTRY": "true",
        "TOPIC_NAME": topic,
        "GROUP_ID": f"{arguments.prefix}-registry",
        "LOG_LEVEL": "WARNING",
    }
    server = Server(
        # Its command of version 6.2 imports a function that is not there.
        [str(Path(command).with_name("python")), "-m", "karapace"],
        f"http://127.0.0.1:{port}",
        "/_health",
        {f"KARAPACE_{name}": value for name, value in settings.items()},
        '"schema_registry_is_primary":true',
    )
    try:
        server.start()
        tell(Registry(server, arguments.bootstrap, topic).scenarios())
    finally:
        server.kill()


if __name__ == "__main__":
    main()
