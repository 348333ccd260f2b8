"""The arithmetic of predictions, by hand."""

from __future__ import annotations

import math

import pytest

from reports import usl
from reports.predict import Predictor, Wish
from reports.predict_collectives import seen_network
from reports.predict_cost import Cost, Link, all_reduce_cost
from reports.predict_fit import Setting, fit
from reports.predict_skew import most_ranks, typical_maximum, waiting_for_more
from reports.predict_step import Compute, pipeline, step

MB = 1_000_000
#: Three gradients of 1 MB, ready after 1, 2 and 3 s; backward ends at 3.3, then the optimizer.
COMPUTE = Compute((1.0, 2.0, 3.0), (MB, MB, MB), ("float32",) * 3, 3.3, 0.5)


def moves(*seconds: float) -> list[Cost]:
    return [Cost(0.0, each, "ring") for each in seconds]


@pytest.mark.parametrize(
    ("text", "bits_per_s", "latency_s"),
    [
        ("25Gbit,20us", 25e9, 20e-6),
        ("100 Mbit/s", 1e8, None),
        ("3GB,5us", 24e9, 5e-6),
        ("400gbit/s, 1.5 ms", 4e11, 1.5e-3),
    ],
)
def test_links_as_they_are_typed(text: str, bits_per_s: float, latency_s: float | None) -> None:
    assert Link.parse(text) == Link(pytest.approx(bits_per_s), pytest.approx(latency_s))


@pytest.mark.parametrize(
    "text", ["", "fast", "0Gbit", "25Gb", "25Gbps", "25Gbit,20", "25", "25Gbit,us"]
)
def test_a_link_that_is_none_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="25Gbit,20us"):
        Link.parse(text)


def test_a_ring_and_a_tree() -> None:
    """8 ranks, 100 MB at 1 GB/s, 1 ms: a ring has 14 hops and 7/4 of the bytes, a tree 6 and 6."""
    ring = all_reduce_cost(100 * MB, 8, 1e9, 1e-3)
    assert (ring.algorithm, ring.seconds) == ("ring", pytest.approx(0.014 + 0.175))
    tree = all_reduce_cost(1000, 8, 1e9, 1e-3, queue_s=0.002)
    assert (tree.algorithm, tree.fixed_s) == ("tree", pytest.approx(0.006 + 0.002))
    assert tree.transfer_s == pytest.approx(6e-6)
    assert all_reduce_cost(MB, 1, 1e9, 1e-3, 1.0).seconds == 0


def test_one_worker_reduces_one_bucket_after_the_other() -> None:
    """s = max(R, e before), e = s + c: the link is free at 1, 2.5 > 2, and then idle until 4."""
    starts, ends, handed_s = pipeline([1, 2, 4], moves(1.5, 1, 2))
    assert starts == pytest.approx([1, 2.5, 4])
    assert ends == pytest.approx([2.5, 3.5, 6])
    assert handed_s == 4


def test_two_workers_share_the_link_but_not_what_each_bucket_costs_beside() -> None:
    starts, ends, _ = pipeline([0, 0, 0], moves(2, 2, 1), workers=2)
    assert starts == pytest.approx([0, 0, 4])  # two at half speed, then the third
    assert ends == pytest.approx([4, 4, 5])
    _, ends, _ = pipeline([0, 0], [Cost(1, 2, "ring"), Cost(1, 2, "ring")], workers=2)
    assert ends == pytest.approx([5, 5])
    _, ends, _ = pipeline([0, 0], [Cost(1, 2, "ring"), Cost(1, 2, "ring")], workers=1)
    assert ends == pytest.approx([3, 6])


def test_computing_is_stretched_while_something_is_reduced() -> None:
    """From 1 to 2 s nothing else is computed than half a second of the second bucket's 1 s."""
    starts, ends, handed_s = pipeline([1, 2], moves(1, 1), contention=1.0)
    assert starts == pytest.approx([1, 2.5])
    assert (ends[-1], handed_s) == (pytest.approx(3.5), pytest.approx(2.5))


def test_a_step_ends_when_the_last_bucket_is_copied_back_and_the_optimizer_is_done() -> None:
    hidden = step(COMPUTE, [1, 2, 3], [MB] * 3, moves(0.1, 0.1, 0.0))
    assert hidden.step_s == pytest.approx(COMPUTE.step_s) == pytest.approx(3.8)
    # The last is reduced at 8; a third of the 0.3 s of copying back is after it.
    exposed = step(COMPUTE, [1, 2, 3], [MB] * 3, moves(0.1, 0.1, 5.0))
    assert exposed.step_s == pytest.approx(8 + 0.1 + 0.5)


def test_a_bucket_is_handed_over_with_its_last_gradient_and_after_those_before() -> None:
    assert COMPUTE.buckets(25) == ([3.0], [3 * MB])
    assert COMPUTE.buckets(1.5) == ([2.0, 3.0], [2 * MB, MB])
    assert COMPUTE.buckets(0.1) == ([1.0, 2.0, 3.0], [MB] * 3)


def test_the_slowest_of_more_ranks() -> None:
    """Of 1 … 100 the median; of two the number that both are below half of the time."""
    numbers = [float(n) for n in range(1, 101)]
    assert typical_maximum(numbers, 1) == pytest.approx(50.5)
    assert typical_maximum(numbers, 2) == pytest.approx(100 * 0.5**0.5 + 0.5)
    assert typical_maximum(numbers, 10_000) == 100
    assert waiting_for_more(numbers, 2, 2) == 0
    assert 60 < most_ranks(numbers) < 140
    assert typical_maximum([3.0], 64) == 3.0


def test_the_universal_scalability_law_is_found_again() -> None:
    law = usl.ScalabilityLaw(100.0, 0.05, 0.002)
    found = usl.fit({n: law.throughput(n) for n in (1, 2, 4, 8)})
    assert isinstance(found, usl.ScalabilityLaw)
    assert found.throughput(64) == pytest.approx(law.throughput(64), rel=1e-3)
    assert law.throughput(4) == pytest.approx(400 / (1 + 0.15 + 0.024))
    assert usl.fit({1: 100.0, 2: 190.0}) == "needs 3 measured world sizes, found 2"


def setting(cap: float | None, true_bytes_per_s: float, **changes: object) -> Setting:
    """Two ranks on a link of 8 Mbit/s that gives payload ``true_bytes_per_s``."""
    ready_s, sizes = COMPUTE.buckets(cap)
    costs = [Cost(0.0, size / true_bytes_per_s, "ring") for size in sizes]
    made = step(COMPUTE, ready_s, sizes, costs)
    return Setting(
        f"cap {cap}", 2, cap, COMPUTE, made.step_s, 0.001, link=Link(8e6, 0.0), **changes
    )


def test_a_fit_finds_the_share_of_a_link_and_says_what_it_cannot_tell() -> None:
    """0.85 is far from what is assumed, and found all the same."""
    measured = setting(25, 0.85e6)
    found = fit([measured], "gloo", 1)
    assert found.share(found.network) == pytest.approx(0.85, rel=0.02)
    assert found.errors[measured.id] == pytest.approx(0, abs=0.01)
    assert found.told["contention"] is False  # nothing was computed while it was reduced
    assert found.residual is None
    alone = fit([], "nccl", 1)
    assert alone.errors == {} and not any(alone.told.values())


def test_predictions_of_what_was_measured_and_of_what_was_not() -> None:
    slow = setting(25, 0.95e6)
    predictor = Predictor(slow, fit([slow], "gloo", 1))
    same = predictor.predict(Wish(2, Link(8e6, 0.0), 25))
    assert same.step_s == pytest.approx(slow.step_s, rel=0.002)
    assert same.low_s <= same.step_s <= same.high_s
    # A tenth of the rate: 3 MB at 0.095 MB/s after the last gradient.
    slower = predictor.predict(Wish(2, Link(0.8e6, 0.0), 25))
    assert slower.step_s == pytest.approx(3.0 + 3 / 0.095 + 0.3 + 0.5, rel=0.01)
    assert slower.no_overlap_s == pytest.approx(3.8 + 3 / 0.095, rel=0.01)
    assert slower.perfect_overlap_s == pytest.approx(3 / 0.095, rel=0.01)
    assert slower.efficiency == pytest.approx(3.8 / slower.step_s)
    # Half the bytes on the wire, and 8 ranks: 7/4 times those.
    halved = predictor.predict(Wish(8, Link(0.8e6, 0.0), 25, compression=0.5))
    assert halved.communication_s == pytest.approx(0.875 * 3 / 0.095, rel=0.01)
    assert math.isclose(predictor.alone_s, 3.8)


def test_cases_that_fit_well_make_others_no_more_certain() -> None:
    """Of 5 that agree to a hair the model is still taken to be off by 2 % (1.96 of it each way)."""
    known = [setting(cap, 0.95e6) for cap in (0.5, 1, 2, 5, 25)]
    found = fit(known, "gloo", 1)
    assert found.residual is not None and found.residual < 0.005
    other = Predictor(known[0], found, draws=200).predict(Wish(2, Link(2e6, 0.0), 25))
    assert other.high_s / other.low_s - 1 > 0.06


def test_all_reduces_alone_tell_bandwidth_latency_and_what_each_costs() -> None:
    """At 100 MB/s, 1 ms a message and 3 ms a call, on 2 and on 4 ranks."""
    like = {"file": "run.json", "backend": "gloo", "device": "cpu", "torch": ""}
    cells = [
        like
        | {"strategy": "collective", "collective": "all_reduce", "world_size": size, "bytes": n}
        | {"step_s": 0.003 + 2 * (size - 1) * 0.001 + 2 * (size - 1) / size * n / 1e8}
        for size in (2, 4)
        for n in (1024, 2**16, 2**20, 2**24)
    ]
    seen = seen_network(cells, like)
    assert seen is not None
    assert seen.bytes_per_s == pytest.approx(1e8, rel=1e-3)
    assert (seen.queue_s, seen.latency_s) == (pytest.approx(0.003), pytest.approx(0.001))
    assert seen.world_sizes == (2, 4)
    one_size = seen_network(cells[:4], like)
    assert one_size is not None and one_size.latency_s is None
    assert one_size.queue_s == pytest.approx(0.005)
    assert seen_network(cells, like | {"backend": "nccl"}) is None
    # A fit begins with it: nothing else is known of this network.
    alone = fit([], "gloo", 2, seen)
    assert alone.network.bytes_per_s == pytest.approx(1e8, rel=1e-3)
    assert (alone.network.queue_s, alone.latency_s) == (pytest.approx(0.003), seen.latency_s)
