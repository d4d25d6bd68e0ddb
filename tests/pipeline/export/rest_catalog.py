"""A REST catalog that follows the specification for the requests that exports send."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest


class RestCatalogServer:
    """Serves a catalog over HTTP, and can commit several tables in one step.

    `faults` lists how the next such commits fail: a status means an error without a commit, "lost" a commit without an
    answer. `commits` lists the tables of each successful commit.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.lock = threading.Lock()
        self.faults: list[str] = []
        self.commits: list[set[str]] = []
        self.endpoints = [*map(str, DEFAULT_ENDPOINTS), "POST /v1/{prefix}/transactions/commit"]
        self.catalog = catalog
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_RestHandler, self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises pyiceberg's errors."""
        match method, [unquote(part) for part in path.strip("/").split("/")[1:]]:
            case "GET", ["config"]:
                return {"defaults": {}, "overrides": {}, "endpoints": self.endpoints}
            case "POST", ["namespaces"]:
                self.catalog.create_namespace(tuple(body["namespace"]))
                return {"namespace": body["namespace"], "properties": {}}
            case (("GET" | "HEAD"), ["namespaces", namespace]):
                return {
                    "namespace": [namespace],
                    "properties": self.catalog.load_namespace_properties(namespace),
                }
            case "POST", ["namespaces", namespace, "tables"]:
                return self._create((namespace, body["name"]), body)
            case (("GET" | "HEAD"), ["namespaces", namespace, "tables", name]):
                return _loaded(self.catalog.load_table((namespace, name)))
            case "POST", ["namespaces", namespace, "tables", name]:
                self._commit([{"identifier": {"namespace": [namespace], "name": name}, **body}])
                return _loaded(self.catalog.load_table((namespace, name)))
            case "POST", ["transactions", "commit"]:
                self._commit(body["table-changes"])
                return {}
        raise NotImplementedError(f"{method} {path}")

    def _create(self, identifier: tuple[str, str], body: dict[str, Any]) -> dict[str, Any]:
        create = (
            self.catalog._create_staged_table  # type: ignore[attr-defined]
            if body.get("stage-create")
            else self.catalog.create_table
        )
        schema = Schema.model_validate(body["schema"])
        return _loaded(create(identifier, schema, properties=body["properties"]))

    def _commit(self, changes: list[dict[str, Any]]) -> None:
        """Commit all changes, or none if any requirement is not met."""
        parsed = [CommitTableRequest.model_validate(change) for change in changes]
        for change in parsed:
            try:
                metadata = self.catalog.load_table(_identifier(change)).metadata
            except NoSuchTableError:
                metadata = None
            for requirement in change.requirements:
                requirement.validate(metadata)
        for change in parsed:
            named: Any = SimpleNamespace(name=partial(_identifier, change))
            self.catalog.commit_table(named, change.requirements, change.updates)
        self.commits.append({change.identifier.name for change in parsed})


def _identifier(change: CommitTableRequest) -> tuple[str, ...]:
    return (*change.identifier.namespace.root, change.identifier.name)


def _loaded(table: Any) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata": metadata, "metadata-location": table.metadata_location, "config": {}}


class _RestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, server: RestCatalogServer, *arguments: Any) -> None:
        self._rest = server
        super().__init__(*arguments)

    def log_message(self, *_: Any) -> None:
        """Log nothing, to keep the output of tests clean."""

    def _serve(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        rest, path = self._rest, urlsplit(self.path).path
        with rest.lock:
            is_joint = path.endswith("/transactions/commit")
            fault = rest.faults.pop(0) if is_joint and rest.faults else ""
            if fault.isdecimal():
                self._send(int(fault), {"error": {"message": "", "type": "", "code": int(fault)}})
                return
            try:
                status, answer = 200, rest.answer(self.command, path, body)
            except NoSuchTableError as error:
                status, answer = 404, _error(404, "NoSuchTableException", error)
            except NoSuchNamespaceError as error:
                status, answer = 404, _error(404, "NoSuchNamespaceException", error)
            except (
                CommitFailedException,
                NamespaceAlreadyExistsError,
                TableAlreadyExistsError,
            ) as error:
                status, answer = 409, _error(409, "CommitFailedException", error)
        if fault == "lost":
            self.close_connection = True
            return
        self._send(status, answer)

    do_GET = do_POST = do_HEAD = _serve  # noqa: N815

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = b"" if self.command == "HEAD" else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _error(code: int, kind: str, error: Exception) -> dict[str, Any]:
    return {"error": {"message": str(error), "type": kind, "code": code}}
