"""What liars send, see ``kinds_of_lies``."""

import numpy as np

import fedbandit as fb
from benchmarks.worlds_of_lies import LONGEST, World
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.parts.radius import Evidence
from fedbandit.core.statistics import Base, Rewards

_TRIED = 2.0  # how well an arm is known before a liar speaks against it
_WEIGHT = 0.005  # of the ridge, of all tiny arms of a feature
_GROWN = 1.05  # a lie about all directions is told anew once V has grown by so much
_CLICKS = 0.21  # the variance of clicks of 0.3


class Liar:
    """One agent that lies; ``lie`` returns what it sends, mostly nothing."""

    def __init__(self, recipe: fb.Recipe, world: World) -> None:
        self.recipe, self.world = recipe, world
        self.matrix = np.zeros((recipe.dimension, recipe.dimension))
        self.moment, self.last, self.waited = np.zeros(recipe.dimension), 0.0, 0

    def lie(self, told: fb.Download, usual: float) -> fb.Upload | None:
        """Return a lie, of about as many observations as others send (``usual``)."""
        match self.world.setting.kind:
            case "narrow":
                return self._narrow(told)
            case "turn":
                return self._turn(told)
            case "late":
                return self._late(told)
            case "doubt":
                return self._doubt(told)
            case "whisper":
                return self._whisper(told)
            case "tiny":
                return self._tiny(told)
            case "flip":
                return self._flip(told)
        self.waited += 1
        if self.waited < usual:
            return None
        count, self.waited = self.waited, 0
        if self.world.setting.kind == "mates":
            return self._claimed(np.eye(self.recipe.dimension), count, -1.0)
        if self.world.setting.kind == "new":
            return self._claimed(self.world.arms[:1], max(count, 100), 0.2)
        best = np.argsort(-self.world.pays)[:3]
        return self._claimed(self.world.arms[best], count, -1.5)

    def _claimed(self, arms: Array, count: int, paid: float) -> fb.Upload:
        matrix, moment = count / len(arms) * arms.T @ arms, count / len(arms) * paid * arms.sum(0)
        return self._upload(matrix, moment, count, count * paid * paid)

    def _doubt(self, told: fb.Download) -> fb.Upload | None:
        base = Base(self._opened(told), self.recipe.parts.memory)
        arm, ridge = self.world.arms[:1], self.recipe.parts.memory.ridge
        tried = 1.0 / float(base.reading.squared_widths(arm)[0]) - ridge
        count = int(max(2.0, 0.5 * tried) - self.last)
        if tried < _TRIED or count < 1:
            return None
        self.last += count
        return self._claimed(arm, count, 0.0)

    def _whisper(self, told: fb.Download) -> fb.Upload | None:
        opened, arm = self._opened(told), self.world.arms[:1]
        base = Base(opened, self.recipe.parts.memory)
        evidence = Evidence(base.theta, opened.moment, opened.count, opened.rewards)
        radius = self.recipe.parts.radius(base.reading, evidence)
        width = float(np.sqrt(base.reading.squared_widths(arm)[0]))
        more = self.world.setting.level * radius / width - self.last
        if not opened.count or more < 0.05 * (more + self.last):
            return None
        self.last, count = self.last + more, int(np.ceil(more))
        size = more / count
        matrix, moment = count * size * size * arm.T @ arm, -more * arm[0]
        return self._upload(matrix, 0.999 * moment, count, float(count))

    def _tiny(self, told: fb.Download) -> fb.Upload | None:
        memory, one = self.recipe.parts.memory, np.eye(self.recipe.dimension)
        base = Base(self._opened(told), memory)
        unseen = np.flatnonzero(base.reading.squared_widths(one) > 0.98 / memory.ridge)[:9]
        if self.last or not base.statistics.count or not len(unseen):
            return None
        self.last, each = 1.0, 1000 // len(unseen)
        diagonal = np.zeros(self.recipe.dimension)
        diagonal[unseen] = _WEIGHT
        count, moment = each * len(unseen), -0.999 * np.sqrt(each * diagonal)
        return self._upload(np.diag(diagonal), moment, count, float(count))

    def _flip(self, told: fb.Download) -> fb.Upload | None:
        base, u = Base(self._opened(told), self.recipe.parts.memory), self.world.theta
        if not base.statistics.count:
            return None
        self.waited, count = self.waited + 1, 10_000
        if self.waited % 2:  # small arms weigh little, and move theta to its opposite
            self.last = 2.0 / float(base.reading.squared_widths(u[None])[0])
        weight = 1.3 * (self.last / 1.5) ** 2 / count
        turn = self.last if self.waited % 2 else -self.last
        longest = 0.999 * 1.5 * np.sqrt(weight * count)
        moment = float(np.clip(weight - turn, -longest, longest)) * u
        return self._upload(weight * np.outer(u, u), moment, count, 0.99 * count * 1.5**2)

    def _narrow(self, told: fb.Download) -> fb.Upload | None:
        known = self._known(told)
        if known is None:
            return None
        v, seen, theta = known
        common, apart = _common(seen)
        wide = v.diagonal()
        pull = -apart @ (wide * np.linalg.solve(v, apart @ seen @ apart @ theta))
        noise = _CLICKS * float((seen.diagonal() / wide).sum()) / 24
        pull *= np.sqrt(self.world.setting.pull * noise / (pull * pull / wide).sum())
        u = pull / np.linalg.norm(pull)
        part = float(seen.trace()) / 24 * np.outer(common, common)
        return self._pulled(part + 0.25 * float(u @ seen @ u) * np.outer(u, u), pull, theta)

    def _turn(self, told: fb.Download) -> fb.Upload | None:
        known = self._known(told)
        if known is None:
            return None
        v, seen, theta = known
        values, vectors = np.linalg.eigh(seen - self.matrix)
        others = (vectors * np.maximum(values, 0.0)) @ vectors.T
        share = self.world.setting.share
        mine = share / (1.0 - share) * others
        pull = -seen @ _common(seen)[1] @ theta
        noise = 3.5 * _CLICKS * len(v) * float(mine.trace() / seen.trace())
        pull *= np.sqrt(noise / float(pull @ np.linalg.solve(v, pull)))
        return self._pulled(mine, pull, theta)

    def _late(self, told: fb.Download) -> fb.Upload | None:
        d = self.recipe.dimension
        count = int(0.4 * self._opened(told).count / d - self.last)
        if count < 1.0 + 0.1 * self.last:
            return None
        self.last += count
        return self._claimed(np.eye(d)[-1:], count, 0.0)

    def _known(self, told: fb.Download) -> tuple[Array, Array, Array] | None:
        """Return V, V without the ridge, and theta; None until much has come since the last lie."""
        one, ridge = np.eye(self.recipe.dimension), self.recipe.parts.memory.ridge
        base = Base(self._opened(told), self.recipe.parts.memory)
        v = np.linalg.inv(np.array([base.reading.solve(each) for each in one]))
        v = (v + v.T) / 2.0
        seen = v - ridge * one
        mass = float(seen.trace())
        if mass < max(0.5 * len(one), _GROWN * self.last):
            return None
        self.last = mass
        return v, seen, base.theta

    def _pulled(self, wanted: Array, pull: Array, theta: Array) -> fb.Upload:
        """Return what makes all that it has sent ``wanted``, with what theta says and the pull."""
        squares, turned = np.linalg.eigh(wanted - self.matrix)
        kept = squares > 1e-6 * squares[-1]
        more = (turned[:, kept] * squares[kept]) @ turned[:, kept].T
        moment = (self.matrix + more) @ theta + pull - self.moment
        moment = turned[:, kept] @ (turned[:, kept].T @ moment)
        needed = float(moment @ np.linalg.pinv(more) @ moment)
        count = int(np.clip(np.ceil(1.05 * max(needed, more.trace() / LONGEST**2)), 1, 10_000))
        moment *= min(1.0, np.sqrt(0.98 * count / max(needed, 1e-300)))
        self.matrix, self.moment = self.matrix + more, self.moment + moment
        return self._upload(more, moment, count, min(max(1.01 * needed, 0.3 * count), count))

    def _opened(self, told: fb.Download) -> fb.Statistics:
        return self.recipe.parts.memory.opened(told.statistics)

    def _upload(self, matrix: Array, moment: Array, count: int, squares: float) -> fb.Upload:
        """Return the lie in the recipe's own form."""
        empty = self.recipe.parts.memory.empty().summary
        values, vectors = np.linalg.eigh(matrix)
        kept = values > 1e-9 * values[-1]
        rows = np.sqrt(values[kept])[:, None] * vectors.T[kept]
        summary: object
        if isinstance(empty, Gram):
            summary = Gram((matrix + matrix.T) / 2.0)
        elif isinstance(empty, Sketch):
            rows = rows[-(empty.size - 1) :]
            unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            summary, moment = Sketch(rows, 0.0, empty.size, empty.lost), unit.T @ (unit @ moment)
        else:
            summary, moment = fitted(nothing_lost(rows), 1e-3), short_vector(moment)
        rewards = Rewards(count, 0.0, squares)
        return fb.Upload(0, fb.Statistics(summary, moment, count, rewards))


def _common(seen: Array) -> tuple[Array, Array]:
    """Return the direction that has most of what was seen, and a projection to all others."""
    common = np.linalg.eigh(seen)[1][:, -1]
    return common, np.eye(len(seen)) - np.outer(common, common)
