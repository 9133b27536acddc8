"""A hub on this machine: the few endpoints that huggingface_hub calls to get and put a model."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REVISIONS = ("main", COMMIT)


class Hub(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.created: list[dict[str, object]] = []
        self.cards: list[str] = []
        self.token = "hf_right"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        """/owner/name/resolve/revision/file"""
        parts = urlparse(self.path).path.strip("/").split("/", 4)
        if len(parts) < 5 or parts[2] != "resolve":
            return self.answer(404)
        files = self.server.repositories.get("/".join(parts[:2]))
        if files is None:
            return self.answer(401, {"X-Error-Code": "RepoNotFound"})  # as for a private one
        if parts[3] not in REVISIONS:
            return self.answer(404, {"X-Error-Code": "RevisionNotFound"})
        if parts[4] not in files:
            return self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        content = files[parts[4]]
        etag = hashlib.sha256(content).hexdigest()
        return self.answer(200, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}, content)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlparse(self.path).path
        if path == "/api/validate-yaml":
            self.server.cards.append(json.loads(body)["content"])
            return self.tell({"errors": [], "warnings": []})
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            return self.answer(401)
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self.tell({"files": files})
        if path.endswith("/commit/main"):
            return self.commit(path, body)
        return self.answer(404)

    def create(self, said: dict[str, object]) -> None:
        name = f"{said['organization']}/{said['name']}"
        self.server.created.append(said)
        url = {"url": f"{self.server.url}/{name}"}
        if name in self.server.repositories:
            return self.answer(409, {}, json.dumps(url).encode())
        self.server.repositories[name] = {}
        return self.tell(url)

    def commit(self, path: str, body: bytes) -> None:
        """/api/models/owner/name/commit/main, one JSON value a line."""
        name = "/".join(path.split("/")[3:5])
        for line in body.splitlines():
            said = json.loads(line)
            if said["key"] == "file":
                content = base64.b64decode(said["value"]["content"])
                self.server.repositories[name][said["value"]["path"]] = content
        self.tell({"commitUrl": f"{self.server.url}/{name}/commit/{COMMIT}", "commitOid": COMMIT})

    def tell(self, value: object) -> None:
        self.answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def answer(
        self, status: int, headers: dict[str, str] | None = None, content: bytes = b""
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serving() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()
