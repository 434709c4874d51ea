"""An error as JSON."""

import json

from fedbandit.web.errors import error_response


def test_an_error_names_the_field_and_says_what_is_wrong() -> None:
    response = error_response(422, "reward", "got 'Ä\ud800'", {"Retry-After": "1"})
    assert (response.status_code, response.headers["retry-after"]) == (422, "1")
    assert response.headers["content-type"] == "application/json"
    assert json.loads(bytes(response.body)) == {
        "error": {"field": "reward", "message": "got 'Ä\ud800'"}
    }
