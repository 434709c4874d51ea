"""What a coordinator may make of what agents send, to hold liars against: see ``liars``."""

from collections.abc import Callable

import numpy as np

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.linalg import inverse_square
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.service.bookkeeping.quotas import mass_of
from fedbandit.service.groups.membership import group_of, key_of
from fedbandit.service.groups.telling import as_told, told_moment
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.models.model import Served
from fedbandit.service.validation.influence import restrained
from fedbandit.service.validation.upload import check_sync


class Defence:
    """Takes every upload: what a coordinator would merge."""

    def __init__(self, recipe: fb.Recipe) -> None:
        self.recipe, self.server = recipe, recipe.server()

    def takes(self, _agent: int, _upload: fb.Upload) -> bool:
        """Say whether an upload is let in."""
        return True

    def merge(self, _agent: int, upload: fb.Upload) -> bool:
        """Merge an upload if this defence lets it in; return whether it did."""
        self.server.receive(upload)
        return True

    def download(self, _agent: int) -> fb.Download:
        """Return what an agent is told."""
        return self.server.download()


class Share(Defence):
    """Lets no agent hold more than a share of the mass."""

    def __init__(self, recipe: fb.Recipe, share: float) -> None:
        super().__init__(recipe)
        self.share, self.held = share, np.zeros(recipe.agents)

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge unless the agent's share would be too large."""
        mass = mass_of(upload.summary)
        over = self.held[agent] + mass > self.share * (self.held.sum() + mass)
        if over and self.held[agent] > 0 and np.count_nonzero(self.held) > 1 / self.share:
            return False
        self.held[agent] += mass
        return super().merge(agent, upload)


class Surprise(Defence):
    """Lets in what the model does not speak against, see ``surprise``."""

    def __init__(self, recipe: fb.Recipe, most: float) -> None:
        super().__init__(recipe)
        self.most = most

    def takes(self, _agent: int, upload: fb.Upload) -> bool:
        """Say whether the upload is let in."""
        return surprise(self.recipe, self.server, upload, self.most) <= self.most

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge unless the model speaks against it."""
        return self.takes(agent, upload) and super().merge(agent, upload)


class Median(Defence):
    """Keeps sums of groups of agents, and tells agents the median of the groups' estimates."""

    def __init__(self, recipe: fb.Recipe, groups: int) -> None:
        super().__init__(recipe)
        self.groups = [recipe.server() for _ in range(groups)]

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge into the whole and into the group."""
        self.groups[agent % len(self.groups)].receive(upload)
        return super().merge(agent, upload)

    def download(self, _agent: int) -> fb.Download:
        """Return everything, with a moment that gives the median of the estimates."""
        told = told_moment(self.recipe, self.server, dict(enumerate(self.groups)))
        return as_told(self.recipe, self.server, told.astype("<f8").tobytes()).download()


class Weighed(Defence):
    """Sorts agents into groups by number, and weighs these: ``model create --groups 24``.

    ``watched``: once one stands out, as models have it unless it is said otherwise. Looks take no
    time, unless there is a ``pace``: the seconds from one upload to the next, and those of a look.
    """

    def __init__(
        self,
        recipe: fb.Recipe,
        groups: int,
        *,
        feared: bool = False,
        watched: bool = False,
        pace: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(recipe)
        self.number, self.feared, self.now = groups, feared, 0.0
        self.pause, self.look = pace
        self.groups = WeighedGroups(recipe, watched=watched, clock=self._clock)
        self.sent: list[tuple[int, fb.Statistics]] = []
        self.told = b""

    def takes(self, agent: int, upload: fb.Upload) -> bool:
        """Say whether an upload would leave its group undoubted, where liars look out for that."""
        if not self.feared:
            return True
        tried, whole = WeighedGroups(self.recipe, clock=float), self.recipe.server()
        whole.adopt(self.server.merged([upload]), version=1)
        tried.absorb([*self.sent, (self._group(agent), upload.statistics)], 0.0)
        return not tried.found(whole).doubted.any()

    def merge(self, agent: int, upload: fb.Upload) -> bool:
        """Merge into the whole and add to the group."""
        sent = self._group(agent), upload.statistics
        if self.feared:
            self.sent.append(sent)
        super().merge(agent, upload)
        self.now += self.pause
        self.groups.absorb([sent], 0.0)
        found = self.groups._found
        self.told = self.groups.told(self.server)
        if self.groups._found is not found:
            self.groups._time.saved -= self.look
        return True

    def _clock(self) -> float:
        return self.now

    def _group(self, agent: int) -> int:
        return key_of(self.number, group_of(0.5, self.number, "", place=agent))

    def download(self, agent: int) -> fb.Download:
        """Return what an agent is told."""
        own = self._group(agent)
        told = self.groups.told_to(self.server, own) if self.groups.knows_more(own) else self.told
        return as_told(self.recipe, self.server, told).download()


def surprise(recipe: fb.Recipe, server: fb.Server, upload: fb.Upload, noise: float) -> float:
    """Return the root mean square by which the rewards of an upload differ from the predicted.

    Only what differs by itself: what the model's uncertainty or the sketch's error explains, for
    rewards with that much noise, is taken off.
    """
    memory, base, summary = recipe.parts.memory, server._base, upload.summary
    theta, reading = base.theta, base.reading
    if isinstance(summary, Gram):
        rows, shed, mean = (
            np.linalg.cholesky(
                summary.matrix + 1e-9 * summary.matrix.trace() * np.eye(recipe.dimension)
            ).T,
            0.0,
            0.0,
        )
    elif isinstance(summary, Sketch):
        rows, shed, mean = summary.rows, summary.shed, 0.0
    else:
        opened = memory.opened(upload.statistics).summary
        rows, shed = opened.rows, float(opened.bound.max())
        mean = opened.lost / recipe.dimension
    residual = upload.moment - (rows @ theta) @ rows - mean * theta
    floor = shed + 1e-9 * (float((rows * rows).sum()) + shed)
    gap = np.sqrt(inverse_square(rows, np.full(len(residual), floor), residual)) if floor else 0.0
    trace = float(reading.squared_widths(rows).sum()) if len(rows) else 0.0
    beta = np.sqrt(memory.ridge) + noise * np.sqrt(recipe.dimension)
    excused = beta * np.sqrt(trace) + np.sqrt(shed) * (float(np.linalg.norm(theta)) + 1.0)
    return float(max(0.0, gap - excused) / np.sqrt(upload.count))


def passed(served: Served, upload: fb.Upload) -> fb.Upload:
    """Return what a coordinator makes of an upload; raise InvalidMessage if it refuses it."""
    check_sync(served, wire.Sync(served.model.fingerprint, bytes(16), 1, upload))
    return restrained(served, upload)


def recipes(d: int, agents: int, *, rows: int | None = None) -> dict[str, fb.Recipe]:
    """Return the recipes that a coordinator serves; ``rows`` of FSCLB, 0.4 d unless given."""
    size = max(2, round(0.4 * d)) if rows is None else rows + 1
    return {
        "FSCLB": fb.FSCLB(dimension=d, sketch_size=size, agents=agents),
        "lean": fb.FSCLB.lean(dimension=d, agents=agents),
        "FedLinUCB": fb.FedLinUCB(dimension=d, agents=agents),
    }


DEFENCES: dict[str, Callable[[fb.Recipe], Defence]] = {
    "none": Defence,
    "share 0.1": lambda recipe: Share(recipe, 0.1),
    "surprise 0.3": lambda recipe: Surprise(recipe, 0.3),
    "median 6": lambda recipe: Median(recipe, 6),
    "median 12": lambda recipe: Median(recipe, 12),
    "median 24": lambda recipe: Median(recipe, 24),
    "weighed 24": lambda recipe: Weighed(recipe, 24),
    "watched 24": lambda recipe: Weighed(recipe, 24, watched=True),
}
