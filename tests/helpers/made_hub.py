"""A hub on this machine: as much of the Hugging Face hub as its own client asks to share a model and to load it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from huggingface_hub import constants


class Hub:
    """What lies on it: for each repository its files, and the requests that came."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []

    def revision(self, name: str) -> str:
        whole = b"".join(path.encode() + content for path, content in sorted(self.files[name].items()))
        return sha1(whole).hexdigest()


@contextmanager
def local_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Have the hub's client talk to a server on this machine, and keep what it downloads in ``cache``."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Desk,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    template = f"{constants.ENDPOINT}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _oid(content: bytes) -> str:
    return sha1(content).hexdigest()


class Desk(BaseHTTPRequestHandler):
    """Answers one request."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.hub.asked.append(f"{self.command} {path}")
        words = path.strip("/").split("/")
        if words[:2] == ["api", "models"]:
            self._about("/".join(words[2:4]), words[5] if len(words) > 5 else "main", words[4:5] == ["tree"])
        elif words[2:3] == ["resolve"]:
            self._file("/".join(words[:2]), "/".join(words[4:]))
        else:
            self._json(200, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.hub.asked.append(f"POST {self.path}")
        words = self.path.strip("/").split("/")
        if words == ["api", "repos", "create"]:
            given = json.loads(body)
            name = f"{given['organization']}/{given['name']}"
            self.hub.files.setdefault(name, {})
            self.hub.private[name] = bool(given.get("private")) or given.get("visibility") == "private"
            self._json(200, {"url": f"{constants.ENDPOINT}/{name}", "id": name})
            return
        name = "/".join(words[2:4])
        if words == ["api", "validate-yaml"]:
            self._json(200, {"errors": [], "warnings": []})
        elif words[4] == "preupload":
            wanted = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            self._json(200, {"files": [{**one, "shouldIgnore": False} for one in wanted]})
        else:
            for line in map(json.loads, body.decode().splitlines()):
                self._commit(self.hub.files[name], line["key"], line["value"])
            self._json(200, {"commitUrl": f"{constants.ENDPOINT}/{name}", "commitOid": self.hub.revision(name)})

    def _commit(self, files: dict[str, bytes], key: str, value: dict[str, Any]) -> None:
        if key == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif key == "deletedFile":
            del files[value["path"]]

    def _about(self, name: str, revision: str, tree: bool) -> None:
        if name not in self.hub.files:
            self._json(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif revision not in ("main", self.hub.revision(name)):
            self._json(404, {"error": "Revision Not Found"}, {"X-Error-Code": "RevisionNotFound"})
        elif tree:
            files = sorted(self.hub.files[name].items())
            about = [{"type": "file", "path": path, "size": len(file), "oid": _oid(file)} for path, file in files]
            self._json(200, about)
        else:
            names = [{"rfilename": file} for file in sorted(self.hub.files[name])]
            self._json(200, {"id": name, "sha": self.hub.revision(name), "siblings": names})

    def _file(self, name: str, file: str) -> None:
        content = self.hub.files.get(name, {}).get(file)
        if content is None:
            code = "EntryNotFound" if name in self.hub.files else "RepoNotFound"
            self._json(404, {"error": code}, {"X-Error-Code": code})
            return
        about = {"X-Repo-Commit": self.hub.revision(name), "ETag": f'"{_oid(content)}"'}
        self._send(200, content, about)

    def _json(self, status: int, content: object, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args: object) -> None: ...
