"""A trace file event by event: memory for one event, not for the file.

JSON or gzip of it, an object with `traceEvents` or the bare list of events. What is cut or damaged
is refused with its position; what the meaning survives (control characters within a text, bytes
that are no UTF-8) is mended and noted.
"""

from __future__ import annotations

import codecs
import io
import itertools
import json
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 20
#: A trace of any size has no event of this many characters.
_LARGEST_EVENT = 64 * _CHUNK
#: A literal or an escape that a chunk cuts is reported at most this far before its end.
_CUT_SHORT = 16
_SPACE = re.compile(r"[ \t\n\r]*")
_TO_NEXT_OBJECT = re.compile(r"[ \t\n\r]*,[ \t\n\r]*(?={)")
#: What "surrogateescape" makes of a byte that is no UTF-8.
_NO_UTF8 = re.compile("[\udc80-\udcff]")


class TraceError(ValueError):
    """A trace that gives no figure; one line that names the file and, where known, the position."""


class TraceFile:
    """The events of one trace, once; `header` holds its other keys when all events were taken."""

    def __init__(self, content: str | Path | bytes, source: str, notes: list[str]) -> None:
        """`source` names the file in messages; what was mended is added to `notes`."""
        self.header: dict[str, Any] = {}
        self._content = content
        self._source = source
        self._notes = notes
        # Numbers with a point stay text: a float holds no nanoseconds of a time since 1970.
        self._decode = json.JSONDecoder(strict=False, parse_float=str).raw_decode
        self._more: Iterator[str] = iter(())
        self._text = ""
        self._at = 0  # in the text; before it everything is done with
        self._passed = 0  # characters before the text
        self._lines = 0  # and line breaks
        self._line_start = 0  # where the last of them began a line, in characters of the file

    def events(self) -> Iterator[Any]:
        """Raises `TraceError` where the file cannot be read, is cut, damaged or no trace."""
        with closing(self._texts()) as texts:
            self._more = texts
            first = self._peek()
            if first == "":
                raise TraceError(f"{self._source}: empty file")
            if first == "[":
                yield from self._list()
            elif first == "{":
                yield from self._object()
            else:
                self._value()
                raise self._no_trace()
            if self._peek() != "":
                raise self._damaged("Extra data", self._at)

    def _object(self) -> Iterator[Any]:
        self._at += 1
        found = False
        if self._peek() == "}":
            self._at += 1
            raise self._no_trace()
        while True:
            if self._peek() != '"':
                raise self._damaged("Expecting property name enclosed in double quotes", self._at)
            key = self._value()
            if self._peek() != ":":
                raise self._damaged("Expecting ':' delimiter", self._at)
            self._at += 1
            if key == "traceEvents" and found:
                raise self._damaged("a second traceEvents", self._at)
            if key == "traceEvents" and self._peek() == "[":
                found = True
                yield from self._list()
            else:
                self.header[key] = self._value()
            end = self._peek()
            if end not in (",", "}"):
                raise self._damaged("Expecting ',' delimiter", self._at)
            self._at += 1
            if end == "}":
                break
        if not found:
            raise self._no_trace()

    def _list(self) -> Iterator[Any]:
        self._at += 1
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            # Nearly all events are objects that the text holds whole; the others go the long way.
            while comma := _TO_NEXT_OBJECT.match(self._text, self._at):
                try:
                    value, self._at = self._decode(self._text, comma.end())
                except (ValueError, RecursionError):
                    break
                yield value
            end = self._peek()
            if end not in (",", "]"):
                raise self._damaged("Expecting ',' delimiter", self._at)
            self._at += 1
            if end == "]":
                return

    def _value(self) -> Any:
        """The JSON value that comes next."""
        closes = self._peek() in ('"', "[", "{")
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string")
                if not cut and error.pos < len(self._text) - _CUT_SHORT:
                    raise self._damaged(error.msg, error.pos) from None
                into = error.pos - self._at
                if not self._fill():
                    raise self._damaged(error.msg, self._at + into, cut) from None
                continue
            except (ValueError, RecursionError) as error:
                reason = str(error).partition("\n")[0]
                raise TraceError(f"{self._source}: damaged JSON: {reason}") from None
            length = end - self._at
            # A number that ends with the text, or before "." or "e+", may go on in the next chunk.
            if not closes and end >= len(self._text) - len("e+") and self._fill():
                continue
            self._at += length
            return value

    def _peek(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            found = _SPACE.match(self._text, self._at)
            assert found is not None
            self._at = found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _fill(self) -> bool:
        """More text, at least as much as is there: an event of many chunks is not tried again for
        every one of them. False at the end of the file."""
        self._passed += self._at
        breaks = self._text.count("\n", 0, self._at)
        if breaks:
            self._lines += breaks
            last = self._text.rindex("\n", 0, self._at)
            self._line_start = self._passed - self._at + last + 1
        rest = [self._text[self._at :]]
        wanted = len(rest[0])
        self._at = 0
        if wanted > _LARGEST_EVENT:
            raise TraceError(f"{self._source}: an event of more than {_LARGEST_EVENT} characters")
        got = 0
        while got <= wanted and (text := next(self._more, "")):
            rest.append(text)
            got += len(text)
        self._text = "".join(rest)
        return got > 0

    def _damaged(self, problem: str, position: int, cut: bool = False) -> TraceError:
        at_end = next(self._more, "") == ""
        ends = at_end and (cut or position >= len(self._text.rstrip()) - 1)
        what = "cut or damaged JSON" if ends else "damaged JSON"
        line = self._lines + self._text.count("\n", 0, position) + 1
        here = self._passed + position
        last = self._text.rfind("\n", 0, position)
        line_start = self._line_start if last < 0 else self._passed + last + 1
        of = f" of {self._passed + len(self._text)}" if at_end else ""
        return TraceError(
            f"{self._source}: {what}: {problem} at line {line} column {here - line_start + 1} "
            f"(character {here}{of})"
        )

    def _no_trace(self) -> TraceError:
        return TraceError(f"{self._source}: not a profiler trace: it has no list of traceEvents")

    def _texts(self) -> Generator[str, None, None]:
        """The file as text, a chunk at a time and never an empty one."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
        done, noted = 0, False
        for data in itertools.chain(self._bytes(), (b"",)):
            # A character that the last chunk cut is still in the decoder, and not done.
            begin = done - len(decoder.getstate()[0])
            text = decoder.decode(data, final=not data)
            if not text.isascii() and (bad := _NO_UTF8.search(text)):
                if not noted:
                    before = text[: bad.start()].encode("utf-8", errors="surrogateescape")
                    self._notes.append(
                        f"bytes that are not UTF-8, the first at byte {begin + len(before)}, "
                        "were replaced"
                    )
                    noted = True
                text = _NO_UTF8.sub("\ufffd", text)
            done += len(data)
            if begin == 0:
                text = text.removeprefix("\ufeff")
            if text:
                yield text

    def _bytes(self) -> Iterator[bytes]:
        try:
            with self._opened() as file:
                # A pipe can be read, and cannot be wound back.
                first = file.read(max(_CHUNK, 2))
                packed = first.startswith(b"\x1f\x8b")
                chunks = itertools.chain((first,), iter(lambda: file.read(_CHUNK), b""))
                yield from _unpacked(chunks, self._source) if packed else chunks
        except OSError as error:
            reason = error.strerror or str(error)
            raise TraceError(f"{self._source}: cannot be read: {reason}") from None

    def _opened(self) -> BinaryIO:
        if isinstance(self._content, bytes):
            return io.BytesIO(self._content)
        try:
            return Path(self._content).open("rb")
        except ValueError as error:  # a name that no file can have
            raise TraceError(f"{self._source}: cannot be read: {error}") from None


def _unpacked(chunks: Iterator[bytes], source: str) -> Iterator[bytes]:
    """The text of a gzip file of one member or several, padded with zeros or not."""
    taken = given = begun = 0  # bytes of the file, of the text, and where the member began
    member = zlib.decompressobj(wbits=31)
    fresh = True
    for chunk in chunks:
        taken += len(chunk)
        data = chunk
        while data:
            if fresh:
                data = data.lstrip(b"\0") if begun else data
                if not data:
                    break
                begun = taken - len(data)
            try:
                text = member.decompress(data, _CHUNK)
            except zlib.error as error:
                raise TraceError(
                    f"{source}: damaged gzip member at byte {begun}: {error}"
                ) from None
            fresh = False
            given += len(text)
            if text:
                yield text
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data
                member, fresh = zlib.decompressobj(wbits=31), True
                begun = begun or 1
    if not fresh:
        raise TraceError(
            f"{source}: cut gzip file: it ends at byte {taken}, after {given} bytes of text"
        )
