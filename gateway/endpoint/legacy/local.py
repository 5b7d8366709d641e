"""What the gateway answers itself for a session, with an empty result: a log level, and a subscription given up."""

from __future__ import annotations

from gateway.endpoint.build import invalid
from gateway.endpoint.legacy.session import Session
from gateway.endpoint.updates import Updates
from gateway.protocol import meta, methods
from gateway.protocol.rawjson import Object


def serve(session: Session, updates: Updates, method: str, params: Object) -> bool:
    """Do what a request asks of its session; tell whether that changed something that other replicas must know.

    Raises:
        RequestError: params of the wrong shape.
    """
    match method:
        case methods.SET_LEVEL:
            level = params.get("level")
            if not isinstance(level, str) or level not in meta.LOG_LEVELS:
                raise invalid(f"level must be one of {', '.join(meta.LOG_LEVELS)}")
            changed = session.log_level != level
            session.log_level = level
            return changed
        case methods.RESOURCES_UNSUBSCRIBE:
            uri = uri_of(params)
            changed = uri in session.uris or uri in session.elsewhere
            session.elsewhere.pop(uri, None)
            updates.release(session.uris, uri)
            return changed
        case _:
            return False


def uri_of(params: Object) -> str:
    """Return the URI that a request names.

    Raises:
        RequestError: there is none.
    """
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise invalid("uri must be a string")
    return uri
