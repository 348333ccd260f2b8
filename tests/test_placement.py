from __future__ import annotations

import pytest

from bench.placement import evenly, hosts_of, order


def test_a_host_is_filled_or_hosts_take_turns() -> None:
    places = [("b", 0), ("b", 1), ("a", 0), ("a", 1)]
    assert order(places, "packed") == [0, 1, 2, 3]
    assert order(places, "spread") == [0, 2, 1, 3]


def test_ranks_in_whatever_order_the_launcher_has_numbered_them() -> None:
    # As srun --distribution=cyclic does; and local ranks that do not follow the ranks.
    cyclic = [("a", 1), ("b", 0), ("a", 0), ("b", 1)]
    assert order(cyclic, "packed") == [2, 0, 1, 3]
    assert order(cyclic, "spread") == [2, 1, 0, 3]


def test_hosts_with_unequal_numbers_of_ranks() -> None:
    places = [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert order(places, "packed") == [0, 1, 2, 3, 4]
    assert order(places, "spread") == [0, 1, 4, 2, 3]
    assert hosts_of((1, 3, 1), "packed", 3) == [0, 1, 1]
    assert hosts_of((1, 3, 1), "spread", 4) == [0, 1, 2, 1]


@pytest.mark.parametrize("placement", ["packed", "spread"])
def test_what_is_foretold_is_what_happens(placement: str) -> None:
    ranks_of_hosts = (2, 3)
    places = [
        (name, n) for name, ranks in zip("ab", ranks_of_hosts, strict=True) for n in range(ranks)
    ]
    for world_size in range(1, 6):
        chosen = order(places, placement)[:world_size]
        assert ["ab".index(places[n][0]) for n in chosen] == hosts_of(
            ranks_of_hosts, placement, world_size
        )


def test_one_host_and_one_rank() -> None:
    assert order([("a", 0)], "spread") == order([("a", 0)], "packed") == [0]
    assert hosts_of((), "packed", 4) == []  # one host with as many ranks as are asked for


def test_every_host_has_room_for_its_share() -> None:
    assert evenly(4, 2) == (2, 2)
    assert evenly(3, 2) == (2, 2)
    assert evenly(1, 2) == (1, 1)
