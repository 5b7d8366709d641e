"""Reads the OpenAPI documents that servers name as files, with the config and like the config: all of it or nothing."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gateway.config import api_document
from gateway.config.api_document import MAX_DOCUMENT, BadDocument
from gateway.config.reading import FileProblem, Reading
from gateway.config.root import Config
from gateway.config.subject import Findings


def with_documents(config: Config, off: Collection[str], reading: Reading, findings: Findings) -> Config:
    """Return the config with every server's document, but for servers that are off and files with a problem."""
    servers = dict(config.servers)
    for name, server in config.servers.items():
        if not server.document_file or name in off:
            continue
        loc = ("servers", name, "openapi")
        try:
            content = reading.read(Path(server.document_file), MAX_DOCUMENT)
            servers[name] = server.with_document(api_document.read(content.data))
        except FileProblem as problem:
            findings.problem(loc, f"the document {problem}")
        except BadDocument as problem:
            where = f" in line {problem.line}" if problem.line else ""
            findings.problem(loc, f"the document {problem.text}{where}", problem.hint)
    return config.model_copy(update={"servers": servers}) if servers != config.servers else config
