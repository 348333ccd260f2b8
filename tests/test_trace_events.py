"""Reading trace files: forms, times, damage, and whatever an event may hold."""

from __future__ import annotations

import copy
import gc
import gzip
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.ranks import match_collectives
from bench.trace import RankTrace, TraceError, analyse
from bench.trace_events import time_ns
from tests.traces import event, gloo_trace, gpu_trace


def figures(trace: RankTrace) -> dict[str, Any]:
    record = trace.to_json()
    record.pop("notes")
    return record


# --- forms of a file


def test_every_form_of_one_trace_gives_the_same_figures(tmp_path: Path) -> None:
    trace = gloo_trace()
    text = json.dumps(trace).encode()
    expected = analyse(trace)
    assert (expected.rank, expected.world_size, expected.backend) == (1, 2, "gloo")
    assert expected.to_json()["exposed_s"] == pytest.approx(100e-6)
    (tmp_path / "plain.json").write_bytes(text)
    # The content says that it is gzip, whatever the name says.
    (tmp_path / "packed.json").write_bytes(gzip.compress(text))
    (tmp_path / "two.gz").write_bytes(gzip.compress(text[:100]) + gzip.compress(text[100:]))
    for form in (
        tmp_path / "plain.json",
        str(tmp_path / "packed.json"),
        tmp_path / "two.gz",
        text,
        gzip.compress(text),
        b"\xef\xbb\xbf" + text,
    ):
        assert figures(analyse(form)) == figures(expected)
    # The bare list does not say of how many ranks it is, and so not what a bus carried.
    bare, full = figures(analyse(trace["traceEvents"])), figures(expected)
    assert [call.pop("busbw_bytes_per_s") for call in bare["calls"]] == [None]
    assert [call.pop("busbw_bytes_per_s") for call in full["calls"]] == [pytest.approx(5e6)]
    assert bare == full


def test_string_times_are_times() -> None:
    trace = gloo_trace()
    for item in trace["traceEvents"]:
        item["ts"], item["dur"] = f"{item['ts']}.000", str(item["dur"])
    assert figures(analyse(trace)) == figures(analyse(gloo_trace()))


def test_control_characters_and_bad_utf8_in_a_name_do_no_harm() -> None:
    text = json.dumps(gloo_trace()).encode().replace(b"aten::mm", b"aten::\x01\n\xff\xfemm")
    trace = analyse(text)
    assert figures(trace) == figures(analyse(gloo_trace()))
    assert any("not UTF-8" in note for note in trace.notes)


def test_base_time_is_added_and_kept() -> None:
    trace = analyse(gloo_trace())
    assert trace.base_ns == 1_790_000_000_000_000_000
    assert trace.collectives[0].start_ns == trace.base_ns + 300_000
    without = analyse(gloo_trace() | {"baseTimeNanoseconds": "soon"})
    assert without.base_ns is None
    assert without.collectives[0].start_ns == 300_000


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3),
        ("rank-12.json.gz", 12),
        ("normal_r7_1.json.gz", 7),
        ("dir4/rank_5.json", 5),
        ("t11_bare_list.json", None),
        ("our2.json", None),
    ],
)
def test_rank_from_the_file_name(name: str, rank: int | None) -> None:
    trace = gloo_trace()
    del trace["distributedInfo"]
    assert analyse(trace, name=name).rank == rank
    assert analyse(trace, name=name, rank=9).rank == 9


# --- damage


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"  \n", b"{", b"[1, 2", b"null", b'"text"', b"{}", b'{"traceEvents": 5}', b"[] []"),
        *(b"[" * 100_000, b'[{"ts": ' + b"9" * 5000 + b"}]"),
        *(b"\x1f\x8b", gzip.compress(b"[]") + b"x"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(TraceError) as caught:
        analyse(content, name="odd.json")
    assert str(caught.value).startswith("odd.json: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.json: cannot be read: No such file"):
        analyse(tmp_path / "none.json")


def test_a_cut_file_never_gives_a_figure() -> None:
    text = json.dumps(gloo_trace()).encode()
    packed = gzip.compress(text)
    for content in (text, packed):
        for length in range(len(content)):
            with pytest.raises(TraceError):
                analyse(content[:length])


def test_a_cut_file_is_refused_with_its_position() -> None:
    text = json.dumps(gloo_trace()).encode()
    with pytest.raises(TraceError, match=r"cut or damaged JSON.*line 1 column 50\d"):
        analyse(text[:501])
    packed = gzip.compress(text)
    with pytest.raises(TraceError, match=rf"cut gzip file: it ends at byte {len(packed) - 20},"):
        analyse(packed[:-20])
    damaged = bytearray(packed)
    damaged[-6] ^= 1
    with pytest.raises(TraceError, match="damaged gzip"):
        analyse(bytes(damaged))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        analyse(gloo_trace())
        assert gc.isenabled() is enabled
        with pytest.raises(TraceError):
            analyse(b"[")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


# --- events


@pytest.mark.parametrize("duration", [-1, float("nan"), float("inf"), None, "soon", [], True])
def test_an_unusable_duration_is_left_out_and_counted(duration: Any) -> None:
    trace = gloo_trace()
    trace["traceEvents"].append(event("user_annotation", "gloo:all_reduce", 1700, duration, tid=2))
    result = analyse(trace)
    assert len(result.collectives) == 2
    assert "events without a usable time left out: 1" in result.notes


@pytest.mark.parametrize("odd", [None, 5, [], "x", {"cat": 5, "name": [], "ph": "X"}, {"ph": 3}])
def test_an_event_of_unknown_form_is_left_out_and_counted(odd: Any) -> None:
    trace = gloo_trace()
    trace["traceEvents"].append(odd)
    result = analyse(trace)
    assert figures(result) == figures(analyse(gloo_trace()))
    assert "events of unknown form left out: 1" in result.notes


def test_a_number_in_a_file_keeps_its_nanoseconds_where_a_double_would_not() -> None:
    text = json.dumps([event("user_annotation", "gloo:all_reduce", 11, 2)])
    for start_ns in (1712195495519695812, 1712195495519695813):
        exact = f"{start_ns // 1000}.{start_ns % 1000}"
        (collective,) = analyse(text.replace("11", exact, 1).encode()).collectives
        assert (collective.start_ns, collective.duration_ns) == (start_ns, 2000)


@given(st.integers(min_value=-(10**19), max_value=10**19))
def test_time_text_keeps_every_nanosecond(nanoseconds: int) -> None:
    assert time_ns(f"{Decimal(nanoseconds) / 1000:.3f}") == nanoseconds


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        (3, 3000),
        (0.0005, 0),
        (0.0016, 2),
        (5151953835411.718, 5151953835411718),
        ("1712195495519695.812", 1712195495519695812),
        ("-1.5", -1500),
        (" 2 ", 2000),
        ("1e3", 1_000_000),
        ("1e400", None),
        (1e300, None),
        (10**30, None),
        ("nan", None),
        ("²²².²²²", None),
        ("", None),
        (True, None),
        ({}, None),
    ],
)
def test_time_ns(value: Any, nanoseconds: int | None) -> None:
    assert time_ns(value) == nanoseconds


ODD_VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 1.5, float("nan"), float("inf"), 1e300, [], [[[]]], {}, {"a": 1}),
    *("", "x", "12.5", "²", "1e999999", "9" * 6000, "\x00", "kernel", "cpu_op"),
    *("ProfilerStep#1", "gloo:all_reduce", "nccl:all_reduce", "ncclKernel_AllReduce"),
]


@pytest.mark.parametrize("build", [gloo_trace, gpu_trace])
def test_any_value_anywhere_gives_figures_or_a_trace_error(build: Any) -> None:
    whole = analyse(build())
    pristine = build()
    places: list[list[Any]] = [[key] for key in pristine]
    places += [["distributedInfo", key] for key in pristine["distributedInfo"]]
    for index, item in enumerate(pristine["traceEvents"]):
        places.append(["traceEvents", index])
        places += [["traceEvents", index, key] for key in item]
        places += [["traceEvents", index, "args", key] for key in item["args"]]
    for place in places:
        for value in [*ODD_VALUES, "delete"]:
            trace = copy.deepcopy(pristine)
            holder: Any = trace
            for key in place[:-1]:
                holder = holder[key]
            if value == "delete":
                del holder[place[-1]]
            else:
                holder[place[-1]] = copy.deepcopy(value)
            try:
                result = analyse(trace)
            except TraceError:
                assert place[0] == "traceEvents" and len(place) == 1
                continue
            for record in (
                result.to_json(),
                result.to_json(None),
                match_collectives([whole, result], True).to_json(),
            ):
                json.dumps(record, allow_nan=False)
            result.totals()


def test_changed_bytes_give_figures_or_a_trace_error() -> None:
    text = json.dumps(gpu_trace()).encode()
    draw = random.Random(4)
    refused = 0
    for _ in range(1500):
        content = bytearray(text)
        content[draw.randrange(len(content))] = draw.randrange(256)
        try:
            json.dumps(analyse(bytes(content)).to_json(), allow_nan=False)
        except TraceError as error:
            assert "\n" not in str(error)
            refused += 1
    assert 0 < refused < 1500
