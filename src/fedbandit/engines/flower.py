"""fedbandit as a Flower app (extra ``flower``): agents on SuperNodes, the server in a ServerApp.

Flower carries the messages, and starts and watches the nodes. Every node is asked alone, plays
until its trigger fires, and is answered alone: no node waits for another. docs/flower.md tells when
that is of use, and when ``fedbandit serve`` is better.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedbandit.core.recipe import Recipe
from fedbandit.engines.flower_messages import Answer, Ask, read, record_of
from fedbandit.engines.flower_node import Turns, node_agent
from fedbandit.engines.flower_server import MergingServer, Tally
from fedbandit.errors import InvalidMessage, InvalidParameter
from fedbandit.worlds.round import Round, World

__all__ = ["MakeRecipe", "MakeTurns", "WorldTurn", "client_app", "serve", "server_app", "turns_of"]

MakeRecipe = Callable[[Context], Recipe]
MakeTurns = Callable[[Context, int], Turns]

_RECORD = "fedbandit"
_LANES = 16
_INDEX = "partition-id"  # what Flower's simulation calls the number of a node
_log = getLogger("fedbandit.flower")


def client_app(
    recipe: MakeRecipe, turns: MakeTurns, *, state_dir: Callable[[Context], Path]
) -> ClientApp:
    """Return the app of a node: one agent of ``recipe``, which plays ``turns``.

    The node's number, 0 to agents - 1, is ``partition-id`` in its configuration: a simulation sets
    it, and a SuperNode is given it (``--node-config "partition-id=0"``). ``state_dir`` returns a
    directory on a disk that outlives the node; each run has a folder of its own in it.
    """
    app = ClientApp()

    def train(message: Message, context: Context) -> Message:
        index, made = _index(context), recipe(context)
        place = state_dir(context) / f"run-{context.run_id}"
        ask = read(Ask, message.content[_RECORD])
        with node_agent(made, index, place) as agent:
            answer = agent.answer(ask, turns(context, index))
        return Message(RecordDict({_RECORD: ConfigRecord(record_of(answer))}), reply_to=message)

    app.train()(train)
    return app


def server_app(
    recipe: MakeRecipe,
    *,
    finished: Callable[[Context, Tally], None],
    poll: Callable[[Context], float] = lambda _: 0.25,
    patience: Callable[[Context], float] = lambda _: 120.0,
) -> ServerApp:
    """Return the app of the server: it ends when the rounds of every agent are over.

    ``finished`` is called with what came of the run. ``poll`` and ``patience`` return those of
    ``serve``, in seconds.
    """
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        waits = {"poll": poll(context), "patience": patience(context)}
        finished(context, serve(grid, recipe(context), **waits))

    app.main()(main)
    return app


def serve(
    grid: Grid, recipe: Recipe, *, poll: float = 0.25, rest: float = 5.0, patience: float = 120.0
) -> Tally:
    """Ask every node for uploads, merge each as it comes, and ask that node alone again.

    Answers are looked for every ``poll`` seconds. A node that answers with an error, because it is
    away say, is asked again ``rest`` seconds later; one that does not answer, because it was
    restarted with our question lost, after ``patience`` seconds. The others go on meanwhile, and
    what is asked or answered twice is merged once. Returns when the rounds of every agent are over
    and merged.
    """
    merging, pulling = MergingServer(recipe), _Pulling(grid)
    not_before: dict[int, float] = {}
    while len(merging.tally.over) < recipe.agents:
        for node in sorted(grid.get_node_ids()):
            now = time.monotonic()
            if not_before.get(node, now) <= now and not merging.is_over(node):
                (name,) = grid.push_messages([_message(node, merging.ask(node))])
                pulling.expect(name, node)
                not_before[node] = now + patience
        for node, reply in pulling.replies():
            pause = 0.0 if _take(merging, node, reply) else rest
            not_before[node] = time.monotonic() + pause
        time.sleep(poll)
    return merging.tally


class _Pulling:
    """Looks for answers, of few nodes at a time.

    To pull the answer of a node that died while it sent takes Flower minutes, and what is pulled in
    the same call waits as long. So nodes are spread over lanes, each a call in a thread of its own.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid, self._pool = grid, ThreadPoolExecutor(_LANES, "fedbandit-pull")
        self._lanes: dict[int, int] = {}  # of each node
        self._asked: dict[str, int] = {}
        self._calls: dict[int, Future[list[Message]]] = {}

    def expect(self, name: str, node: int) -> None:
        """Look for the answer to a message from now on."""
        self._lanes.setdefault(node, len(self._lanes) % _LANES)
        self._asked[name] = node

    def replies(self) -> list[tuple[int, Message]]:
        """Return answers that have come, each with its node, and start looking for more."""
        came: list[tuple[int, Message]] = []
        for lane in [lane for lane, call in self._calls.items() if call.done()]:
            for reply in self._calls.pop(lane).result():
                came.append((self._asked.pop(reply.metadata.reply_to_message_id), reply))
        waiting: dict[int, list[str]] = {}
        for name, node in self._asked.items():
            waiting.setdefault(self._lanes[node], []).append(name)
        for lane, names in waiting.items():
            if lane not in self._calls:
                self._calls[lane] = self._pool.submit(self._pull, names)
        return came

    def _pull(self, names: list[str]) -> list[Message]:
        return list(self._grid.pull_messages(names))


def _message(node: int, ask: Ask) -> Message:
    content = RecordDict({_RECORD: ConfigRecord(record_of(ask))})
    return Message(content, node, MessageType.TRAIN)


def _take(merging: MergingServer, node: int, reply: Message) -> bool:
    """Merge a node's answer; return False if it was none that could be merged."""
    if reply.has_error():
        merging.tally.errors += 1
        _log.warning("node %d: error %d, %s", node, reply.error.code, reply.error.reason)
        return False
    try:
        merging.take(node, read(Answer, reply.content[_RECORD]))
    except (InvalidMessage, KeyError) as error:
        merging.tally.errors += 1
        _log.warning("node %d: its answer is refused: %s", node, error)
        return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class WorldTurn:
    """A round of a world as a turn of an agent."""

    round: Round

    @property
    def arms(self) -> np.ndarray:
        """The arms, K x d."""
        return self.round.arms

    def play(self, arm: int) -> tuple[float, float]:
        """Return the arm's reward and regret."""
        means = self.round.means
        return float(self.round.rewards[arm]), float(means.max() - means[arm])


def turns_of(world: World, agent: int, *, rounds: int) -> Turns:
    """Return the turns of one agent in the first ``rounds`` rounds of a world."""

    def turns(before: int) -> Iterator[WorldTurn]:
        seen = 0
        for each in world.rounds(rounds):
            if each.agent == agent:
                seen += 1
                if seen > before:
                    yield WorldTurn(each)

    return turns


def _index(context: Context) -> int:
    index = context.node_config.get(_INDEX)
    if not isinstance(index, int):
        fix = f'Start the SuperNode with --node-config "{_INDEX}=0", and 1, 2, ... for the others.'
        raise InvalidParameter(f"{_INDEX}: got {index!r}; expected a whole number. {fix}")
    return index
