"""What is queued comes out once, in order, and one batch of a model at a time."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from fedbandit.service.merging.queue import BATCH, BATCH_BYTES, Batch, MergeQueue
from fedbandit.service.merging.sync import ModelRef, SyncRequest

REFS = [ModelRef("news", "1"), ModelRef("news", "2"), ModelRef("shop", "1")]
Burst = tuple[ModelRef, int, int]
bursts = st.tuples(st.sampled_from(REFS), st.integers(1, BATCH + 9), st.sampled_from([0, 1, 10**6]))


@given(st.lists(bursts | st.sampled_from(["take", "merged"]), max_size=40))
def test_what_is_put_comes_out_once_and_in_order(
    acts: list[Burst | str],
) -> None:
    queue: MergeQueue[int] = MergeQueue()
    waiting: dict[ModelRef, list[int]] = {ref: [] for ref in REFS}
    out: deque[Batch[int]] = deque()
    number = 0
    for act in [*acts, *["merged", "take"] * 400]:
        if isinstance(act, tuple):
            ref, many, size = act
            for _ in range(many):
                number += 1
                queue.put(ref, SyncRequest("a", bytes(size)), number)
                waiting[ref].append(number)
        elif act == "merged":
            if out:
                queue.merged(out.popleft())
        elif (batch := queue.next_batch()) is None:
            under_way = {each.ref for each in out}
            assert all(ref in under_way for ref in REFS if waiting[ref])
        else:
            _check_size(batch)
            assert batch.ref not in {each.ref for each in out}
            taken = len(batch.tickets)
            assert batch.tickets == waiting[batch.ref][:taken]
            waiting[batch.ref] = waiting[batch.ref][taken:]
            out.append(batch)
    assert not any(waiting.values())


def _check_size(batch: Batch[int]) -> None:
    assert 0 < len(batch.requests) == len(batch.tickets) <= BATCH
    assert sum(len(each.body) for each in batch.requests[:-1]) < BATCH_BYTES


def test_a_model_with_many_keeps_no_other_one_waiting() -> None:
    queue: MergeQueue[int] = MergeQueue()
    for number in range(3 * BATCH):
        queue.put(REFS[0], SyncRequest("a", b""), number)
    queue.put(REFS[2], SyncRequest("a", b""), -1)
    order = []
    while (batch := queue.next_batch()) is not None:
        order.append(batch.ref)
        queue.merged(batch)
    assert order == [REFS[0], REFS[2], REFS[0], REFS[0]]
