"""Uploads into one server, if the sum is what agents would take.

Sketches that come together are stacked and shrunk once. That costs one eigenproblem of at most d
rows rather than one for each upload, and sheds less than merging them one by one.

Uploads that are sound one by one can merge into a state that is not: rounding pushes what lay at
the edge beyond it. Such a state would be refused by every agent, and by this coordinator after a
restart. So it is checked before the server takes it up.
"""

from collections.abc import Sequence

import numpy as np

from fedbandit.core.messages import Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage
from fedbandit.service.validation.form import arms_field


def merge(recipe: Recipe, server: Server, uploads: Sequence[Upload]) -> None:
    """Merge checked uploads; raise InvalidMessage, and change nothing, if the sum is not sound.

    One upload gives the bits that ``Server.receive`` gives. Cost, besides that of merging, O(l^2 d)
    for sketches and O(d^2) for Gram matrices.
    """
    try:
        with np.errstate(all="ignore"):  # what overflows is found below
            merged = server.merged(uploads)
            recipe.parts.memory.check(merged, strict=True)
    except (InvalidMessage, np.linalg.LinAlgError) as error:
        sums = getattr(error, "field", "")
        field = f"upload.{sums}" if sums else arms_field(uploads[0].summary)
        raise InvalidMessage(str(error), field=field) from error
    server.adopt(merged, version=server.version + len(uploads))
