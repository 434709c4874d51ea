"""The server's side of Flower, without Flower: merges each upload once, and says what to ask."""

from dataclasses import dataclass, field

from fedbandit import wire
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.engines.flower_messages import Answer, Ask
from fedbandit.errors import InvalidMessage
from fedbandit.terms import check_served


@dataclass(slots=True)
class Tally:
    """What a run of Flower came to.

    ``latest`` has the last answer of each life. ``copies`` counts uploads that came again and were
    dropped, ``errors`` answers that were errors, of nodes that were away say.
    """

    server: Server
    latest: dict[bytes, Answer] = field(default_factory=dict)
    copies: int = 0
    errors: int = 0

    @property
    def over(self) -> set[int]:
        """The agents whose rounds are over."""
        return {each.agent for each in self.latest.values() if each.over}

    @property
    def rounds(self) -> int:
        """Rounds that were played."""
        return sum(each.rounds for each in self.latest.values())

    @property
    def reward(self) -> float:
        """The sum of their rewards."""
        return sum(each.reward for each in self.latest.values())

    @property
    def regret(self) -> float:
        """The sum of their regrets."""
        return sum(each.regret for each in self.latest.values())


class MergingServer:
    """Merges answers into the server of a recipe, each upload once; says what to ask a node."""

    def __init__(self, recipe: Recipe) -> None:
        self.tally = Tally(check_served(recipe).server())
        self._lives: dict[int, bytes] = {}  # of each node, the life that it told last
        self._download = -1, b""

    def ask(self, node: int) -> Ask:
        """Return what to ask a node: everything merged, and which of its uploads are in it."""
        life = self._lives.get(node, b"")
        merged = self.tally.latest[life].sequence if life else 0
        return Ask(self._encoded(), life, merged)

    def take(self, node: int, answer: Answer) -> bool:
        """Merge what is new in a node's answer; return False for a copy of what was merged.

        Raises InvalidMessage, and changes nothing, if the recipe cannot merge the upload.
        """
        tally, known = self.tally, self.tally.latest.get(answer.life)
        merged = 0 if known is None else known.sequence
        if answer.upload and answer.sequence > merged:
            upload = wire.decode_upload(answer.upload)
            if upload.agent != answer.agent:
                raise InvalidMessage(f"Answer.upload: not an upload of agent {answer.agent}.")
            tally.server.receive(upload)
        elif answer.upload:
            tally.copies += 1
        self._lives[node] = answer.life
        if known is None or answer.sequence > merged or answer.over:
            tally.latest[answer.life] = answer
        return answer.sequence > merged

    def is_over(self, node: int) -> bool:
        """Say whether a node has no rounds left, and all its uploads are merged."""
        life = self._lives.get(node, b"")
        return bool(life) and self.tally.latest[life].over

    def _encoded(self) -> bytes:
        server = self.tally.server
        if self._download[0] != server.version:
            self._download = server.version, wire.encode(server.download())
        return self._download[1]
