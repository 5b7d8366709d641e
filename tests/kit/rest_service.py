"""A REST service as they are in the wild, with its OpenAPI document: keeps pets, and repeats what it was asked.

It runs in a thread with a loop of its own, so that tests which wait for a gateway process do not stop it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

Json: TypeAlias = dict[str, Any]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def petstore() -> Json:
    """Return a document of the shape that everybody knows, with one operation for each thing that can go wrong."""
    pet: Json = {
        "type": "object",
        "required": ["name", "photoUrls"],
        "properties": {
            "id": {"type": "integer", "format": "int64", "readOnly": True},
            "name": {"type": "string", "example": "doggie"},
            "category": {"$ref": "#/components/schemas/Category"},
            "photoUrls": {"type": "array", "items": {"type": "string"}},
            "status": {"type": "string", "enum": ["available", "pending", "sold"], "nullable": True},
        },
    }
    one = {"description": "a pet", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    several = {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}
    path_id = {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer", "format": "int64"}}
    key = {"name": "api_key", "in": "header", "schema": {"type": "string"}}
    text_id = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "openapi": "3.0.4",
        "info": {"title": "Pet Store", "version": "1.0.27", "description": "Keeps pets."},
        "servers": [{"url": "/api/v3"}],
        "paths": {
            "/pet": {
                "post": {
                    "operationId": "addPet",
                    "summary": "Add a new pet to the store",
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    },
                    "responses": {"200": one},
                }
            },
            "/pet/findByStatus": {
                "get": {
                    "operationId": "findPetsByStatus",
                    "summary": "Finds pets by status",
                    "parameters": [
                        {
                            "name": "status",
                            "in": "query",
                            "explode": True,
                            "schema": {"type": "array", "items": {"type": "string"}},
                        }
                    ],
                    "responses": {"200": {"description": "pets", "content": {"application/json": {"schema": several}}}},
                }
            },
            "/pet/{petId}": {
                "parameters": [path_id],
                "get": {
                    "operationId": "getPetById",
                    "summary": "Find pet by ID",
                    "description": "Returns a single pet",
                    "responses": {"200": one, "404": {"description": "Pet not found"}},
                },
                "delete": {
                    "operationId": "deletePet",
                    "parameters": [key],
                    "responses": {"204": {"description": "gone"}},
                },
            },
            "/pet/{petId}/uploadImage": {
                "post": {
                    "operationId": "uploadFile",
                    "parameters": [path_id],
                    "requestBody": {
                        "content": {
                            "multipart/form-data": {
                                "schema": {
                                    "type": "object",
                                    "required": ["file"],
                                    "properties": {
                                        "note": {"type": "string"},
                                        "file": {"type": "string", "format": "binary"},
                                    },
                                }
                            }
                        }
                    },
                    "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {}}}}},
                }
            },
            "/pet/{petId}/image": {
                "get": {
                    "operationId": "getImage",
                    "parameters": [path_id],
                    "responses": {"200": {"description": "an image", "content": {"image/png": {}}}},
                }
            },
            "/echo/{name}": {
                "get": {
                    "operationId": "echo",
                    "parameters": [
                        text_id,
                        {"name": "q", "in": "query", "schema": {"type": "string"}},
                        {"name": "X-Note", "in": "header", "schema": {"type": "string"}},
                        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                        {
                            "name": "filter",
                            "in": "query",
                            "style": "deepObject",
                            "explode": True,
                            "schema": {"type": "object"},
                        },
                    ],
                    "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {}}}}},
                }
            },
            "/status/{code}": {
                "get": {
                    "operationId": "getStatus",
                    "parameters": [{"name": "code", "in": "path", "required": True, "schema": {"type": "integer"}}],
                    "responses": {"200": {"description": "ok"}},
                }
            },
            "/slow": {"get": {"operationId": "slow", "responses": {"200": {"description": "late"}}}},
            "/large": {"get": {"operationId": "large", "responses": {"200": {"description": "much"}}}},
        },
        "components": {
            "schemas": {
                "Category": {"type": "object", "properties": {"name": {"type": "string"}}},
                "Pet": pet,
            }
        },
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """One request that arrived. ``target`` is the path with its query, as it was sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class RestService:
    """The service. ``document`` may be changed at any time."""

    document: Json = field(default_factory=petstore)
    origin: str = ""
    seen: list[Seen] = field(default_factory=list)
    pets: dict[int, Json] = field(default_factory=lambda: {1: {"id": 1, "name": "Rex", "photoUrls": []}})
    released: threading.Event = field(default_factory=threading.Event)
    dropped: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def document_url(self) -> str:
        """Where the document can be fetched."""
        return f"{self.origin}/openapi.json"

    def calls(self) -> list[Seen]:
        """Return the requests that were no fetches of the document."""
        return [each for each in self.seen if each.target.partition("?")[0] != "/openapi.json"]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer anything."""
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.method, request.raw_path, headers, body))
        path = request.path
        if path == "/openapi.json":
            return self._document(request)
        if path == "/token":
            return web.json_response({"access_token": "lent-token-" + "t" * 20, "token_type": "Bearer"})
        name = path.rpartition("/")[2]
        if path.startswith("/api/v3/echo/"):
            return web.json_response({"target": request.raw_path, "headers": headers})
        if path.startswith("/api/v3/status/"):
            return self._status(int(name), headers)
        if path == "/api/v3/slow":
            return await self._slow()
        if path == "/api/v3/large":
            return web.Response(text="x" * 200_000)
        return self._pets(request, path, body)

    def _document(self, request: web.Request) -> web.StreamResponse:
        text = json.dumps(self.document)
        tag = f'"{hash(text):x}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304)
        return web.Response(text=text, content_type="application/json", headers={"ETag": tag})

    def _status(self, code: int, headers: dict[str, str]) -> web.StreamResponse:
        head = {"Retry-After": "7"} if code == 429 else {"Location": "http://elsewhere.test/"} if code == 302 else {}
        said = {"error": f"code {code}", "key": headers.get("x-api-key", ""), "token": headers.get("authorization", "")}
        return web.json_response(said, status=code, headers=head)

    async def _slow(self) -> web.StreamResponse:
        self.arrived.set()
        try:
            while not self.released.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.dropped.set()
            raise
        return web.Response(text="late")

    def _pets(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        parts = path.removeprefix("/api/v3/pet").strip("/").split("/")
        if request.method == "POST" and parts == [""]:
            pet = {**json.loads(body), "id": len(self.pets) + 1}
            self.pets[pet["id"]] = pet
            return web.json_response(pet)
        if parts == ["findByStatus"]:
            return web.json_response(list(self.pets.values()))
        if parts[-1] == "image":
            return web.Response(body=PNG, content_type="image/png")
        if parts[-1] == "uploadImage":
            return web.json_response({"bytes": len(body), "kind": request.content_type})
        number = int(parts[0])
        if number not in self.pets:
            return web.json_response({"message": "Pet not found"}, status=404)
        if request.method == "DELETE":
            del self.pets[number]
            return web.Response(status=204)
        return web.json_response(self.pets[number])


@contextmanager
def rest_service(document: Json | None = None) -> Iterator[RestService]:
    """Run a service for a block."""
    service = RestService() if document is None else RestService(document)
    started, stop = threading.Event(), threading.Event()

    async def run() -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", service.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        service.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        try:
            while not stop.is_set():
                await asyncio.sleep(0.02)
        finally:
            service.released.set()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert started.wait(5)
    try:
        yield service
    finally:
        stop.set()
        thread.join(5)
