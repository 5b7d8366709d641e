"""Says whether a call that failed may be sent once more, to the same server (S127). Pure."""

from __future__ import annotations

from gateway.config.servers import Server
from gateway.downstream.dialect import Unserved
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.protocol import methods


def may_resend(server: Server, call: Call, error: DownstreamError) -> bool:
    """Tell whether sending a call again does no harm: it is certain that it did not run, or configured as idempotent.

    Not where the server itself refused it, or said when to come again.
    """
    if error.reason is not Reason.UNAVAILABLE or isinstance(error, Unserved) or error.retry_after_ms is not None:
        return False
    if call.task is not None and call.task.instance:
        # It would reach another process, which knows nothing of the task.
        return False
    idempotent = call.method == methods.TOOLS_CALL and call.target.name in server.idempotent
    return idempotent or not error.may_have_run
