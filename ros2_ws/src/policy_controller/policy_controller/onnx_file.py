"""Whether an ONNX file is complete, told from its bytes without the onnx package.

A tensor may say that its numbers stand in another file. ONNX Runtime then looks for that file in
the working directory, so the same bytes would be refused here, and there run with weights that no
hash of the bundle covers.

The file is a protobuf message (https://protobuf.dev/programming-guides/encoding): fields, each a
key (number << 3 | kind) and a value. Numbers of the fields: onnx/onnx.proto of
https://github.com/onnx/onnx, the same in every version of the format.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INNER = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Which fields of a message hold which messages, as far as they may hold tensors."""
_NAME, _EXTERNAL_DATA, _DATA_LOCATION = 8, 13, 14  # fields of a tensor


def find_outside_tensors(model: bytes) -> list[str]:
    """Names of the tensors whose numbers are not in the file. Raises ValueError if the bytes are no
    protobuf message."""
    return list(_search(memoryview(model), "model"))


def _search(message: memoryview, kind: str) -> Iterator[str]:
    if kind == "tensor":
        content = dict(_fields(message))
        if content.get(_DATA_LOCATION) or _EXTERNAL_DATA in content:
            yield str(content.get(_NAME, b""), "utf-8", "replace") or "a tensor without name"
        return
    inner = _INNER[kind]
    for number, value in _fields(message):
        if number in inner and isinstance(value, memoryview):
            yield from _search(value, inner[number])


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field; fixed-size numbers as their bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32, _BYTES):
            size = 8 if kind == _FIXED64 else 4
            if kind == _BYTES:
                size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
        else:
            raise ValueError(f"found a field of kind {kind} at byte {at}")
        if at > len(message):
            raise ValueError(f"found {len(message)} bytes where a field needs {at}")
        yield key >> 3, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and the place behind it."""
    number = shift = 0
    while at < len(message):
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("found the end within a number")
