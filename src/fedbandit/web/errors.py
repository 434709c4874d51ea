"""Errors as JSON: ``{"error": {"field": ..., "message": ...}}``, the same from every server."""

import json
from collections.abc import Mapping

from starlette.responses import Response


def error_response(
    status: int, field: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error; ``field`` names the part of the request, or of the server, at fault."""
    body = json.dumps({"error": {"field": field, "message": message}})
    return Response(body, status, headers, media_type="application/json")
