"""Who is served and who has to go: laws of the bounds, whatever comes in whatever order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedbandit.web.guests import Bounds, Guest, Guests, address_of

BOUNDS = Bounds(connections=9, newcomers=5, per_address=3, waiting=6, at_once=2)
LATER = 10.0  # seconds after which a request takes suspiciously long


class Crowd:
    """Guests that note which of them were served and which were cut off."""

    def __init__(self) -> None:
        self.guests, self.now = Guests(BOUNDS), 0.0
        self.served: list[Guest] = []
        self.cut: list[Guest] = []

    def enter(self, address: str) -> Guest:
        made = Guest(address, self.now)
        made.cut, made.serve = lambda: self.cut.append(made), lambda: self.served.append(made)
        self.guests.enter(made)
        return made

    def ask(self, address: str) -> Guest:
        """Let one come whose request is there at once."""
        made = self.enter(address)
        self.guests.is_ready(made)
        self.guests.give_turns(self.now)
        return made

    def newcomer(self, address: str) -> Guest:
        """Let one come that is served, and whose turn is over."""
        made = self.ask(address)
        assert self.served[-1] is made
        self.guests.end_turn(made)
        return made

    def known(self, address: str) -> Guest:
        made = self.newcomer(address)
        self.guests.admit(made)
        return made


class AnyCrowd(RuleBasedStateMachine):
    """Connections that come, ask, are admitted or refused, and go."""

    def __init__(self) -> None:
        super().__init__()
        self.crowd = Crowd()
        self.here: list[Guest] = []

    @property
    def guests(self) -> Guests:
        return self.crowd.guests

    def _pick(self, data: st.DataObject, among: list[Guest] | None = None) -> Guest:
        return data.draw(st.sampled_from(self.here if among is None else among))

    def _forget_the_cut(self) -> None:
        for guest in self.crowd.cut:
            self.here.remove(guest)
            assert not (guest.known and guest.busy)
        self.crowd.cut.clear()

    @rule(address=st.sampled_from("abcd"))
    def enter(self, address: str) -> None:
        self.here.append(self.crowd.enter(address))
        self._forget_the_cut()
        assert self.here[-1] in self.guests.everybody()  # whoever comes may wait

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def get_ready(self, data: st.DataObject) -> None:
        self.guests.is_ready(self._pick(data))

    @rule()
    def give_turns(self) -> None:
        self.guests.give_turns(self.crowd.now)
        self._forget_the_cut()

    @precondition(lambda self: self.crowd.served)
    @rule(data=st.data())
    def end_turn(self, data: st.DataObject) -> None:
        self.guests.end_turn(self._pick(data, self.crowd.served))

    @precondition(lambda self: any(guest in self.crowd.served for guest in self.here))
    @rule(data=st.data(), refused=st.booleans())
    def ask(self, data: st.DataObject, refused: bool) -> None:
        guest = self._pick(data, [each for each in self.here if each in self.crowd.served])
        guest.busy, guest.since = True, self.crowd.now
        if refused and not guest.known:
            guest.refuse()

    @precondition(lambda self: any(guest.busy for guest in self.here))
    @rule(data=st.data(), admitted=st.booleans())
    def answer(self, data: st.DataObject, admitted: bool) -> None:
        guest = self._pick(data, [each for each in self.here if each.busy])
        if admitted and not guest.refused:
            self.guests.admit(guest)
            assert guest.known
        guest.busy = guest.refused = False
        guest.since = self.crowd.now
        self.guests.used(guest)

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        guest = self._pick(data)
        self.here.remove(guest)
        self.guests.leave(guest)
        self.guests.leave(guest)  # a second time changes nothing

    @rule(seconds=st.sampled_from([0.1, LATER]))
    def wait(self, seconds: float) -> None:
        self.crowd.now += seconds

    @invariant()
    def bounds_hold_and_counts_are_right(self) -> None:
        served = [guest for guest in self.here if guest in self.crowd.served]
        new = [guest for guest in served if not guest.known]
        assert sorted(map(id, self.guests.everybody())) == sorted(map(id, self.here))
        assert (len(self.guests), self.guests.newcomers) == (len(served), len(new))
        assert self.guests.waiting == len(self.here) - len(served) <= BOUNDS.waiting
        assert len(served) <= BOUNDS.connections
        assert len(new) <= BOUNDS.newcomers
        for address in "abcd":
            assert sum(guest.address == address for guest in new) <= BOUNDS.per_address


TestAnyCrowd = AnyCrowd.TestCase
TestAnyCrowd.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_however_many_wait_each_address_has_its_turn() -> None:
    crowd = Crowd()
    first = [crowd.ask("flood") for _ in range(BOUNDS.at_once)]
    assert crowd.served == first
    waiting = [crowd.ask("flood") for _ in range(4)]
    honest = crowd.ask("honest")
    for guest in first:
        crowd.guests.end_turn(guest)
    crowd.guests.give_turns(0.0)
    assert crowd.served == [*first, waiting[0], honest]


def test_of_those_that_wait_a_silent_one_goes_first() -> None:
    crowd = Crowd()
    for _ in range(BOUNDS.at_once):
        crowd.ask("a")
    asking = [crowd.ask("a") for _ in range(BOUNDS.waiting - 2)]
    silent, alone = crowd.enter("a"), crowd.enter("b")
    crowd.enter("a")
    assert crowd.cut == [silent]
    crowd.guests.leave(alone)
    assert set(asking) < set(crowd.guests.everybody())


def test_an_address_that_asks_often_cuts_off_no_other_before_it_speaks() -> None:
    """An honest one is silent for as long as its request travels."""
    crowd = Crowd()
    asking = [crowd.ask("flood") for _ in range(BOUNDS.at_once + BOUNDS.waiting - 1)]
    honest = crowd.enter("honest")
    more = [crowd.ask("flood") for _ in range(3)]
    assert crowd.cut == asking[BOUNDS.at_once : BOUNDS.at_once + 3]
    assert {honest, *more} < set(crowd.guests.everybody())


def test_every_second_turn_is_for_addresses_that_one_was_admitted_from() -> None:
    crowd = Crowd()
    crowd.guests.leave(crowd.known("back"))
    first = [crowd.ask(f"flood-{number}") for number in range(BOUNDS.at_once)]
    others = [crowd.ask(f"other-{number}") for number in range(BOUNDS.waiting - 1)]
    back = crowd.ask("back")
    for guest in first:
        crowd.guests.end_turn(guest)
    crowd.guests.give_turns(0.0)
    assert set(crowd.served[-2:]) == {others[0], back}


def test_of_addresses_with_one_each_those_not_expected_make_room() -> None:
    crowd = Crowd()
    crowd.guests.leave(crowd.known("back"))
    waiting = crowd.enter("back")
    others = [crowd.enter(f"other-{number}") for number in range(BOUNDS.waiting + 2)]
    assert crowd.cut == others[:3]
    crowd.guests.leave(waiting)
    newcomer = crowd.newcomer("back")
    for number in range(BOUNDS.newcomers + 2):
        crowd.newcomer(f"more-{number}")
    assert newcomer in crowd.guests.everybody()


def test_an_address_with_many_silent_ones_costs_itself_alone() -> None:
    crowd = Crowd()
    honest = crowd.enter("honest")
    flood = [crowd.enter("flood") for _ in range(50)]
    assert crowd.cut == flood[: 1 - BOUNDS.waiting]
    assert honest in crowd.guests.everybody()


def test_an_address_with_many_newcomers_costs_itself_alone() -> None:
    crowd = Crowd()
    honest = crowd.newcomer("honest")
    flood = [crowd.newcomer("flood") for _ in range(50)]
    assert crowd.cut == flood[: -BOUNDS.per_address]
    assert honest in crowd.guests.everybody()


def test_of_many_addresses_the_fullest_makes_room() -> None:
    crowd = Crowd()
    alone = crowd.newcomer("alone")
    twice = [crowd.newcomer("twice") for _ in range(2)]
    more = [crowd.newcomer(address) for address in ("c", "d", "e")]
    assert crowd.cut == twice[:1]
    assert {alone, *more} < set(crowd.guests.everybody())


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
    crowd.guests.give_turns(LATER)
    assert late in crowd.served


def test_where_known_ones_have_all_places_the_longest_unused_goes() -> None:
    crowd = Crowd()
    known = [crowd.known("a") for _ in range(BOUNDS.connections)]
    known[1].busy = True
    crowd.guests.used(known[0])
    assert crowd.guests.has_room(0.0)
    crowd.newcomer("c")
    assert crowd.cut == [known[2]]


def test_where_all_known_ones_are_busy_there_is_no_room() -> None:
    crowd = Crowd()
    for guest in [crowd.known("a") for _ in range(BOUNDS.connections)]:
        guest.busy = True
    assert not crowd.guests.has_room(LATER)
    assert crowd.ask("c") not in crowd.served


def test_addresses_of_one_network_count_as_one() -> None:
    assert address_of("192.0.2.1") == "192.0.2.1"
    assert address_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert address_of("2001:db8:0:1::1") == address_of("2001:db8:0:1:ffff::2")
    assert address_of("2001:db8:0:1::1") != address_of("2001:db8:0:2::1")
    assert address_of("fe80::1%eth0") == address_of("fe80::2")
