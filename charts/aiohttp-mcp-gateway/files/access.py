"""What `helm test` asks: is a pod ready, and is a caller without credentials turned away?"""

import http.client
import os
import ssl
import sys
from urllib.parse import urlsplit


def status(url: str, body: bytes | None = None, host: str = "") -> int:
    """Return the status of a GET, or of a POST where there is a body."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        # The certificate is for the public name, and nothing secret is sent.
        anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(parts.netloc, timeout=10, context=anyone)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    method = "GET" if body is None else "POST"
    connection.request(method, parts.path, body, {**headers, **({"Host": host} if host else {})})
    return connection.getresponse().status


host = os.environ["MCP_HOST"]
ready = status(os.environ["READY_URL"])
call = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
stranger = status(os.environ["MCP_URL"], call, host)
# Without the public name, asking by the Service's is refused even earlier.
right = (401,) if host else (401, 421)
sys.stdout.write(f"readiness: {ready} (200 is right)\na caller without credentials: {stranger} (401 is right)\n")
sys.exit(0 if ready == 200 and stranger in right else 1)
