"""Makes the messages anew from the .proto files: `make proto`.

`controlplane/v1/` goes to the package of that name, `segments/v1/` (the segment's footer) to logstore.
"""

from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).parent
ROOT = SOURCES.parent


def generate(pattern: str, out: Path, *plugins: str) -> None:
    """Compile the files of a pattern under proto/ with these plugins. Raises SystemExit."""
    files = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.glob(pattern))
    outputs = [f"--{plugin}={out}" for plugin in plugins]
    if protoc.main(["protoc", f"-I{SOURCES}", *outputs, *files]):
        raise SystemExit(f"protoc refused proto/{pattern}: its message is above")


if __name__ == "__main__":
    generate("controlplane/v1/*.proto", ROOT, "python_out", "pyi_out")
    generate("controlplane/v1/control.proto", ROOT, "grpc_python_out")
    generate("segments/v1/*.proto", ROOT / "logstore", "python_out", "pyi_out")
