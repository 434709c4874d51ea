"""One upload into one server, and out of it again where the sum is not what agents would take.

Uploads that are sound one by one can merge into a state that is not: rounding pushes what lay at
the edge beyond it. Such a state would be refused by every agent, and by this coordinator after a
restart. So it is checked before it is committed, and the upload that led to it is undone.
"""

import numpy as np

from fedbandit.core.linalg import Array
from fedbandit.core.messages import Upload, check_moment
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.summary import Sketch
from fedbandit.errors import InvalidMessage, complaint

_SKEW = 5e-12  # half of what agents take: their products are rounded in another order


def merge(recipe: Recipe, server: Server, upload: Upload) -> None:
    """Merge an upload that passed the door; raise InvalidMessage, and change nothing, if need be.

    Cost, besides that of merging, O(l^2 d) for a sketch and O(d^2) for a Gram matrix.
    """
    before = server.summary, server.moment, server.count, server.version
    field = _at_fault(upload)
    try:
        with np.errstate(all="ignore"):  # what overflows is found below
            server.receive(upload)
            recipe.parts.memory.check(server.summary)
            _check_skew(server)
            field = "upload.moment"
            check_moment(server.moment, server.count, recipe.dimension)
    except (InvalidMessage, np.linalg.LinAlgError) as error:
        server.summary, server.moment, server.count, server.version = before
        raise InvalidMessage(str(error), field=field) from error


def _at_fault(upload: Upload) -> str:
    return "upload.summary.rows" if isinstance(upload.summary, Sketch) else "upload.summary.matrix"


def _check_skew(server: Server) -> None:
    summary = server.summary
    if isinstance(summary, Sketch) and not _skew(summary.rows) <= _SKEW:
        fix = "Send rows as shrinking makes them."
        expected = "rows that are orthogonal to 5e-12 of the largest square"
        message = complaint("merged sketch", got="rows at angles", expected=expected, fix=fix)
        raise InvalidMessage(message)


def _skew(rows: Array) -> float:
    """Return the largest product of two rows, as a share of the largest square."""
    products = rows @ rows.T
    largest = float(products.max(initial=0.0))
    beside = np.abs(products - np.diag(products.diagonal()))
    return float(beside.max(initial=0.0)) / largest if largest else 0.0
