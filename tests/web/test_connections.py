"""Who is served and who has to go: laws of the bounds, whatever comes in whatever order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedbandit.web.connections import Connection, ConnectionBounds, Connections, address_of

BOUNDS = ConnectionBounds(connections=9, newcomers=5, per_address=3, waiting=6, at_once=2)
LATER = 10.0  # seconds after which a request takes suspiciously long


class Crowd:
    """Connections that note which of them were served and which were cut off."""

    def __init__(self) -> None:
        self.connections, self.now = Connections(BOUNDS), 0.0
        self.served: list[Connection] = []
        self.cut: list[Connection] = []

    def enter(self, address: str) -> Connection:
        made = Connection(address, self.now)
        made.cut, made.serve = lambda: self.cut.append(made), lambda: self.served.append(made)
        self.connections.enter(made)
        return made

    def ask(self, address: str) -> Connection:
        """Let one come whose request is there at once."""
        made = self.enter(address)
        self.connections.is_ready(made)
        self.connections.give_turns(self.now)
        return made

    def newcomer(self, address: str) -> Connection:
        """Let one come that is served, and whose turn is over."""
        made = self.ask(address)
        assert self.served[-1] is made
        self.connections.end_turn(made)
        return made

    def known(self, address: str) -> Connection:
        made = self.newcomer(address)
        self.connections.admit(made)
        return made


class AnyCrowd(RuleBasedStateMachine):
    """Connections that come, ask, are admitted or refused, and go."""

    def __init__(self) -> None:
        super().__init__()
        self.crowd = Crowd()
        self.here: list[Connection] = []

    @property
    def connections(self) -> Connections:
        return self.crowd.connections

    def _pick(self, data: st.DataObject, among: list[Connection] | None = None) -> Connection:
        return data.draw(st.sampled_from(self.here if among is None else among))

    def _forget_the_cut(self) -> None:
        for connection in self.crowd.cut:
            self.here.remove(connection)
            assert not (connection.known and connection.busy)
        self.crowd.cut.clear()

    @rule(address=st.sampled_from("abcd"))
    def enter(self, address: str) -> None:
        self.here.append(self.crowd.enter(address))
        self._forget_the_cut()
        assert self.here[-1] in self.connections.current()  # whoever comes may wait

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def get_ready(self, data: st.DataObject) -> None:
        self.connections.is_ready(self._pick(data))

    @rule()
    def give_turns(self) -> None:
        self.connections.give_turns(self.crowd.now)
        self._forget_the_cut()

    @precondition(lambda self: self.crowd.served)
    @rule(data=st.data())
    def end_turn(self, data: st.DataObject) -> None:
        self.connections.end_turn(self._pick(data, self.crowd.served))

    @precondition(lambda self: any(connection in self.crowd.served for connection in self.here))
    @rule(data=st.data(), refused=st.booleans())
    def ask(self, data: st.DataObject, refused: bool) -> None:
        connection = self._pick(data, [each for each in self.here if each in self.crowd.served])
        connection.busy, connection.since = True, self.crowd.now
        if refused and not connection.known:
            connection.refuse()

    @precondition(lambda self: any(connection.busy for connection in self.here))
    @rule(data=st.data(), admitted=st.booleans())
    def answer(self, data: st.DataObject, admitted: bool) -> None:
        connection = self._pick(data, [each for each in self.here if each.busy])
        if admitted and not connection.refused:
            self.connections.admit(connection)
            assert connection.known
        connection.busy = connection.refused = False
        connection.since = self.crowd.now
        self.connections.used(connection)

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        connection = self._pick(data)
        self.here.remove(connection)
        self.connections.leave(connection)
        self.connections.leave(connection)  # a second time changes nothing

    @rule(seconds=st.sampled_from([0.1, LATER]))
    def wait(self, seconds: float) -> None:
        self.crowd.now += seconds

    @invariant()
    def bounds_hold_and_counts_are_right(self) -> None:
        served = [connection for connection in self.here if connection in self.crowd.served]
        new = [connection for connection in served if not connection.known]
        assert sorted(map(id, self.connections.current())) == sorted(map(id, self.here))
        assert (len(self.connections), self.connections.newcomers) == (len(served), len(new))
        assert self.connections.waiting == len(self.here) - len(served) <= BOUNDS.waiting
        assert len(served) <= BOUNDS.connections
        assert len(new) <= BOUNDS.newcomers
        for address in "abcd":
            assert sum(connection.address == address for connection in new) <= BOUNDS.per_address


TestAnyCrowd = AnyCrowd.TestCase
TestAnyCrowd.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_however_many_wait_each_address_has_its_turn() -> None:
    crowd = Crowd()
    first = [crowd.ask("flood") for _ in range(BOUNDS.at_once)]
    assert crowd.served == first
    waiting = [crowd.ask("flood") for _ in range(4)]
    honest = crowd.ask("honest")
    for connection in first:
        crowd.connections.end_turn(connection)
    crowd.connections.give_turns(0.0)
    assert crowd.served == [*first, waiting[0], honest]


def test_of_those_that_wait_a_silent_one_goes_first() -> None:
    crowd = Crowd()
    for _ in range(BOUNDS.at_once):
        crowd.ask("a")
    asking = [crowd.ask("a") for _ in range(BOUNDS.waiting - 2)]
    silent, alone = crowd.enter("a"), crowd.enter("b")
    crowd.enter("a")
    assert crowd.cut == [silent]
    crowd.connections.leave(alone)
    assert set(asking) < set(crowd.connections.current())


def test_an_address_that_asks_often_cuts_off_no_other_before_it_speaks() -> None:
    """An honest one is silent for as long as its request travels."""
    crowd = Crowd()
    asking = [crowd.ask("flood") for _ in range(BOUNDS.at_once + BOUNDS.waiting - 1)]
    honest = crowd.enter("honest")
    more = [crowd.ask("flood") for _ in range(3)]
    assert crowd.cut == asking[BOUNDS.at_once : BOUNDS.at_once + 3]
    assert {honest, *more} < set(crowd.connections.current())


def test_every_second_turn_is_for_addresses_that_one_was_admitted_from() -> None:
    crowd = Crowd()
    crowd.connections.leave(crowd.known("back"))
    first = [crowd.ask(f"flood-{number}") for number in range(BOUNDS.at_once)]
    others = [crowd.ask(f"other-{number}") for number in range(BOUNDS.waiting - 1)]
    back = crowd.ask("back")
    for connection in first:
        crowd.connections.end_turn(connection)
    crowd.connections.give_turns(0.0)
    assert set(crowd.served[-2:]) == {others[0], back}


def test_of_addresses_with_one_each_those_not_expected_make_room() -> None:
    crowd = Crowd()
    crowd.connections.leave(crowd.known("back"))
    waiting = crowd.enter("back")
    others = [crowd.enter(f"other-{number}") for number in range(BOUNDS.waiting + 2)]
    assert crowd.cut == others[:3]
    crowd.connections.leave(waiting)
    sharing = [crowd.newcomer("back") for _ in range(BOUNDS.per_address - 1)]
    for number in range(BOUNDS.newcomers + 2):
        crowd.newcomer(f"more-{number}")
    assert set(sharing) < set(crowd.connections.current())


def test_an_address_with_many_silent_ones_costs_itself_alone() -> None:
    crowd = Crowd()
    honest = crowd.enter("honest")
    flood = [crowd.enter("flood") for _ in range(50)]
    assert crowd.cut == flood[: 1 - BOUNDS.waiting]
    assert honest in crowd.connections.current()


def test_an_address_with_many_newcomers_costs_itself_alone() -> None:
    crowd = Crowd()
    honest = crowd.newcomer("honest")
    flood = [crowd.newcomer("flood") for _ in range(50)]
    assert crowd.cut == flood[: -BOUNDS.per_address]
    assert honest in crowd.connections.current()


def test_of_many_addresses_the_fullest_makes_room() -> None:
    crowd = Crowd()
    alone = crowd.newcomer("alone")
    twice = [crowd.newcomer("twice") for _ in range(2)]
    more = [crowd.newcomer(address) for address in ("c", "d", "e")]
    assert crowd.cut == twice[:1]
    assert {alone, *more} < set(crowd.connections.current())


def test_refused_ones_go_before_stuck_ones_and_these_before_half_heads() -> None:
    crowd = Crowd()
    talking, stuck, refused = (crowd.newcomer("a") for _ in range(3))
    stuck.busy = refused.busy = refused.refused = True
    crowd.now = LATER
    for goes in (refused, stuck):
        fresh = crowd.newcomer("a")
        assert crowd.cut.pop() is goes
        fresh.busy, fresh.since = True, LATER  # and young, so it stays
    crowd.newcomer("a")
    assert crowd.cut == [talking]


def test_a_request_that_has_just_come_is_not_cut_off_but_waited_for() -> None:
    crowd = Crowd()
    for _ in range(BOUNDS.per_address):
        crowd.newcomer("a").busy = True
    late = crowd.ask("a")
    assert late not in crowd.served
    crowd.newcomer("b")
    assert not crowd.cut
    crowd.connections.give_turns(LATER)
    assert late in crowd.served


def test_where_known_ones_have_all_places_the_longest_unused_goes() -> None:
    crowd = Crowd()
    known = [crowd.known("a") for _ in range(BOUNDS.connections)]
    known[1].busy = True
    crowd.connections.used(known[0])
    assert crowd.connections.has_room(0.0)
    crowd.newcomer("c")
    assert crowd.cut == [known[2]]


def test_where_all_known_ones_are_busy_there_is_no_room() -> None:
    crowd = Crowd()
    for connection in [crowd.known("a") for _ in range(BOUNDS.connections)]:
        connection.busy = True
    assert not crowd.connections.has_room(LATER)
    assert crowd.ask("c") not in crowd.served


def test_addresses_of_one_network_count_as_one() -> None:
    assert address_of("192.0.2.1") == "192.0.2.1"
    assert address_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert address_of("2001:db8:0:1::1") == address_of("2001:db8:0:1:ffff::2")
    assert address_of("2001:db8:0:1::1") != address_of("2001:db8:0:2::1")
    assert address_of("fe80::1%eth0") == address_of("fe80::2")
