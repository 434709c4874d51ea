"""Uploads into one server, and out of it again where the sum is not what agents would take.

Sketches that come together are stacked and shrunk once. That costs one eigenproblem of at most d
rows rather than one for each upload, and sheds less than merging them one by one.

Uploads that are sound one by one can merge into a state that is not: rounding pushes what lay at
the edge beyond it. Such a state would be refused by every agent, and by this coordinator after a
restart. So it is checked before it is committed, and the uploads that led to it are undone.
"""

from collections.abc import Sequence

import numpy as np

from fedbandit.core.kernels.linalg import Array, skew
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.messages import Upload, check_moment
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, complaint

_SKEW = 5e-12  # half of what agents take: their products are rounded in another order


def merge(recipe: Recipe, server: Server, uploads: Sequence[Upload]) -> None:
    """Merge checked uploads; raise InvalidMessage, and change nothing, if the sum is not sound.

    One upload gives the bits that ``Server.receive`` gives. Cost, besides that of merging, O(l^2 d)
    for sketches and O(d^2) for Gram matrices.
    """
    before = server.summary, server.moment, server.count, server.version
    field = at_fault(uploads[0])
    try:
        with np.errstate(all="ignore"):  # what overflows is found below
            server.merge(uploads)
            recipe.parts.memory.check(server.summary)
            _check_skew(server)
            field = "upload.moment"
            check_moment(server.moment, server.count, recipe.dimension)
    except (InvalidMessage, np.linalg.LinAlgError) as error:
        server.summary, server.moment, server.count, server.version = before
        raise InvalidMessage(str(error), field=field) from error


def at_fault(upload: Upload) -> str:
    """Return the name of the field that says what the arms were."""
    return "upload.summary.matrix" if isinstance(upload.summary, Gram) else "upload.summary.rows"


def _check_skew(server: Server) -> None:
    summary = server.summary
    if isinstance(summary, Sketch) and not _skew(summary.rows) <= _SKEW:
        fix = "Send rows as shrinking makes them."
        expected = "rows that are orthogonal to 5e-12 of the largest square"
        message = complaint("merged sketch", got="rows at angles", expected=expected, fix=fix)
        raise InvalidMessage(message)


def _skew(rows: Array) -> float:
    """Return the largest product of two rows, as a share of the largest square."""
    square, product = skew(rows)
    return product / square if square else 0.0
