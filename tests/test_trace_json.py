"""A trace file event by event, against `json.loads` of the whole text."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import trace_json
from bench.trace import analyse
from bench.trace_json import TraceError, TraceFile

# White space longer than the longest literal, texts with every kind of escape, and characters of
# one to four bytes; numbers that go on after a point or a sign.
ODD = (
    '{ "schemaVersion" : 1, "ratio": -12.5e+3, "tiny":1E-7, "n": null,\n'
    '  "deviceProperties": [{"id": 0, "name": "\u00e9\u4e2d\U0001f600"}, [[], {}], [1, [3.25]]],'
    "\r\n\t" + " " * 40 + '"traceEvents"  :  [' + " " * 40 + "\n"
    '{"name": "a\\"b\\\\c\\u00e9\\ud83d\\ude00\\n", "ts": 1712195495519.695812, "ok": true},\n'
    '  {} , [] , [false, [null]], "\u00e9\u4e2d\U0001f600", "", 0, -0, 12345678901234567890, 1.5,'
    '-2e10 , 3E+2,true,false, null,{"args":{"dims":[[1,2],[]],"deep":{"a":{"b":[{}]}}}},'
    '{"long": "' + "0123456789" * 30 + '"}, 7],'
    ' "traceName": "x\\/y", "last": 10.0, "baseTimeNanoseconds": 1712195495000000000}\n \n'
)
LIST = '[1, 2.5, -3e-2, [[4]], {"a": "b"}, "c", 1e5 , 60]'


@contextmanager
def chunks_of(size: int) -> Iterator[None]:
    with mock.patch.object(trace_json, "_CHUNK", size):
        yield


def read(content: Any, notes: list[str] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """The events and the header."""
    file = TraceFile(content, "t.json", [] if notes is None else notes)
    return list(file.events()), file.header


def right(text: str) -> tuple[list[Any], dict[str, Any]]:
    whole = json.loads(text, parse_float=str, strict=False)
    if isinstance(whole, list):
        return whole, {}
    return whole.pop("traceEvents"), whole


@pytest.mark.parametrize("size", range(1, 51))
@pytest.mark.parametrize("text", [ODD, LIST], ids=["object", "list"])
def test_a_chunk_may_end_anywhere(text: str, size: int) -> None:
    data = text.encode()
    several = b"".join(gzip.compress(data[i : i + 97]) for i in range(0, len(data), 97))
    with chunks_of(size):
        for form in (
            data,
            b"\xef\xbb\xbf" + data,
            gzip.compress(data),
            gzip.compress(b"\xef\xbb\xbf" + data) + bytes(513),
            several,
            several.replace(b"\x1f\x8b", bytes(7) + b"\x1f\x8b")[7:],
        ):
            notes: list[str] = []
            assert read(form, notes) == right(text)
            assert notes == []


@pytest.mark.parametrize("text", [ODD, LIST], ids=["object", "list"])
def test_every_place_where_the_first_chunk_may_end(text: str) -> None:
    data = text.encode()
    for size in range(50, len(data) + 1):
        with chunks_of(size):
            assert read(data) == right(text), size


def test_a_number_that_a_chunk_cuts_is_read_whole() -> None:
    for number in ("12.5", "1e5", "1E+5", "-1.5e-10", "10", "-0", "1.0"):
        for text in (f"[{number}]", f"[{number} , 1]", f'{{"a": {number}, "traceEvents": []}}'):
            for size in range(1, len(text) + 1):
                with chunks_of(size):
                    assert read(text.encode()) == right(text), (text, size)


# --- what is mended


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 64, 1 << 20])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xe4\xb8", b"\xf0\x9f\x98", b"\x80", b"\xc3", b"\xed\xa0\x80"]
)
def test_bytes_that_are_no_utf8_are_noted_with_the_first_ones_place(
    size: int, bom: bytes, bad: bytes
) -> None:
    before = bom + '["\u00e9\u4e2d\U0001f600'.encode()
    for form in (lambda data: data, gzip.compress):
        notes: list[str] = []
        with chunks_of(size):
            events, _ = read(form(before + bad + b'", "' + bad + b'"]'), notes)
        assert events == ["\u00e9\u4e2d\U0001f600" + "\ufffd" * len(bad), "\ufffd" * len(bad)]
        assert notes == [
            f"bytes that are not UTF-8, the first at byte {len(before)}, were replaced"
        ]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_control_characters_in_a_text_are_read(size: int) -> None:
    text = '["a\x01b\nc\td\x00", 1]'
    with chunks_of(size):
        assert read(text.encode()) == (["a\x01b\nc\td\x00", 1], {})


def test_an_event_of_many_chunks_is_read_and_one_without_an_end_is_not() -> None:
    event = {"name": "x" * 20_000, "args": {"a": list(range(2000))}}
    text = json.dumps([event, 1, event])
    with chunks_of(64):
        assert read(text.encode()) == right(text)
    with chunks_of(64), mock.patch.object(trace_json, "_LARGEST_EVENT", 10_000):
        assert "t.json: an event of more than 10000 characters" in refusal(text.encode())


def test_white_space_of_many_chunks() -> None:
    text = "[" + " " * 3000 + "1" + "\n" * 3000 + "," + "\t" * 3000 + "2" + "\r" * 3000 + "]"
    for size in (1, 7, 1000, 2999, 3001):
        with chunks_of(size):
            assert read(text.encode()) == ([1, 2], {})


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for data in (ODD.encode(), gzip.compress(ODD.encode())):
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        assert read(pipe) == right(ODD)
        writer.join()


# --- what is refused


def refusal(content: bytes) -> str:
    with pytest.raises(TraceError) as caught:
        read(content)
    message = str(caught.value)
    assert message.startswith("t.json: ") and "\n" not in message
    return message


@pytest.mark.parametrize("size", [1, 2, 5, 17, 50, 1 << 20])
def test_a_file_cut_at_any_byte_is_refused_in_one_line(size: int) -> None:
    data = ODD.rstrip().encode()
    packed = gzip.compress(data)
    several = gzip.compress(data[:300]) + gzip.compress(data[300:])
    with chunks_of(size):
        for form in (data, b"\xef\xbb\xbf" + data, packed, several, LIST.encode()):
            for length in range(len(form)):
                refusal(form[:length])


DAMAGED = [
    *("[1, 2 3]", "[1,\n\n 2,\n  x]", "[[1,]]", '[{"a" 1}]', '[{"a": 1 "b": 2}]', "[tru]", "[1]]"),
    *("[1] x", "[1]\n\n[2]", '{"a": {"b": 1,}}', '{"traceEvents": [] "b": 1}', '{"a" 1}'),
    *("{5: 1}", '{"a": }', '["\\x"]', '["\\u12g4"]', "[01]", "[1.]", "[.5]", "[+1]", "[-]"),
    *('{\n"traceEvents": [\n1,\n2\n}', "[1, 2", '[1, "abc', '["a', '[1,\n{"a": [1,\n 2', "["),
    *('{"traceEvents": [1', '{"a"', '{"a":', "{", "[nul", '[1, {"a": tr'),
    *(
        "[1" + " " * 100 + "2]",
        "[1, 2" + "\n" * 70 + "\u00e9\u4e2d x]",
        "[" + '"\u4e2d\n",' * 9 + "y",
    ),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_the_position_of_damage_is_that_of_the_whole_text(text: str) -> None:
    try:
        json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        wrong = error
    where = f"at line {wrong.lineno} column {wrong.colno} (character {wrong.pos}"
    for size in [*range(1, 51), 1 << 20]:
        for bom in (b"", b"\xef\xbb\xbf"):
            with chunks_of(size):
                message = refusal(bom + text.encode())
            assert where in message, size
            assert message.partition("damaged JSON: ")[2].startswith(
                wrong.msg.split(" starting")[0]
            )


def test_a_comma_before_the_end_is_damage() -> None:
    for size in (1, 2, 1 << 20):
        with chunks_of(size):
            assert "damaged JSON: Expecting value at line 1 column 4" in refusal(b"[1,]")
            assert "(character 18" in refusal(b'{"traceEvents":[],}')


def test_damage_in_the_middle_of_a_long_file_is_found_where_it_is() -> None:
    lines = [
        json.dumps({"name": f"op {n} \u00e9", "ts": n, "dur": 1}, ensure_ascii=False)
        for n in range(400)
    ]
    draw = random.Random(1)
    for _ in range(40):
        text = "[\n" + ",\n".join(lines) + "\n]"
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice('@}],:"') + text[at + 1 :]
        try:
            json.loads(text, strict=False)
            continue
        except json.JSONDecodeError as error:
            where = f"at line {error.lineno} column {error.colno} (character {error.pos}"
        for size in (13, 100, 1000, 1 << 20):
            with chunks_of(size):
                assert where in refusal(text.encode())


@pytest.mark.parametrize("size", [1, 3, 20, 1 << 20])
def test_trailing_data_and_a_second_list_of_events_are_refused(size: int) -> None:
    with chunks_of(size):
        assert "Extra data at line 1 column 5 (character 4" in refusal(b"[1] {}")
        assert "Extra data" in refusal(b'{"traceEvents": []}]')
        assert "Extra data" in refusal(gzip.compress(b"[1]") + gzip.compress(b"[2]"))
        for second in (b"[2]", b"5"):
            twice = b'{"traceEvents": [1], "traceEvents": ' + second + b"}"
            assert "a second traceEvents at line 1 column 36" in refusal(twice)
        assert "damaged gzip member at byte 23" in refusal(gzip.compress(b"[1]", mtime=0) + b"[2]")


@pytest.mark.parametrize("text", ["{}", "5", "null", '"traceEvents"', '{"traceEvents": {}}'])
def test_what_has_no_list_of_events_is_no_trace(text: str) -> None:
    for size in (1, 1 << 20):
        with chunks_of(size):
            assert "not a profiler trace" in refusal(text.encode())


def test_nan_is_read_and_is_no_time() -> None:
    for size in (1, 2, 3, 1 << 20):
        with chunks_of(size):
            (nan, huge, small), _ = read(b"[NaN, Infinity, -Infinity]")
            assert nan != nan and (huge, small) == (float("inf"), float("-inf"))
    event = b'{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":NaN,"dur":Infinity}'
    trace = analyse(b"[" + event + b"]")
    assert "events without a usable time left out: 1" in trace.notes


# --- any document

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(
    st.lists(VALUES)
    | st.fixed_dictionaries({"traceEvents": st.lists(VALUES)}, optional={"a": VALUES}),
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from([None, 0, 1, "\t"]),
)
def test_any_document(document: Any, size: int, ascii_only: bool, indent: Any) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    text = text.encode(errors="replace").decode()
    data = text.encode()
    with chunks_of(size):
        assert read(data) == right(text)
        assert read(gzip.compress(data)) == right(text)


@given(VALUES, st.integers(1, 60))
def test_any_value_is_read_or_refused(value: Any, size: int) -> None:
    data = json.dumps(value).encode()
    is_trace = isinstance(value, list) or (
        isinstance(value, dict) and isinstance(value.get("traceEvents"), list)
    )
    with chunks_of(size):
        if is_trace:
            assert read(data) == right(data.decode())
        else:
            assert "not a profiler trace" in refusal(data)


@given(st.binary(max_size=200), st.integers(1, 60))
def test_any_bytes_are_read_or_refused(data: bytes, size: int) -> None:
    for form in (data, b"[" + data, b"\x1f\x8b" + data, gzip.compress(data)):
        with chunks_of(size):
            try:
                read(form)
            except TraceError as error:
                assert "\n" not in str(error)
