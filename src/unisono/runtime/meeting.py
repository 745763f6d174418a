"""How processes of a mesh meet: a greeting that asks, an answer that names others, a farewell.

    magic 2 · version 1 · realm 8 · message, then the seal

A greeting carries its sender's token and the answer brings it back: who answers has heard the greeting, so a forged
source never becomes a peer, and cannot end one either. A greeting is as long as the longest answer, so that nothing is
gained by forging one.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from xxhash import xxh3_64_intdigest

from unisono.sealing import NullSeal

MAGIC = b"um"
VERSION = 1
NAMED_LIMIT = 16
"""How many others one answer names."""
GREETING_BYTES = 1024
TOKEN_BYTES = 8

_HEAD = Layout("<2sBQ")
_SEAL = NullSeal()

Kind = Literal["hello", "here", "bye"]
Endpoint = Annotated[str, Meta(max_length=56)]


class Word(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`hello` asks for an answer, `here` is one and names others, `bye` is the last.

    The token of a `hello` is its sender's, that of the others belongs to whom they are sent.
    """

    kind: Kind
    token: Annotated[bytes, Meta(min_length=TOKEN_BYTES, max_length=TOKEN_BYTES)]
    others: Annotated[tuple[Endpoint, ...], Meta(max_length=NAMED_LIMIT)] = ()
    padding: Annotated[bytes, Meta(max_length=GREETING_BYTES)] = b""


_decode = msgspec.msgpack.Decoder(Word).decode


def realm_number(realm: str) -> int:
    return xxh3_64_intdigest(f"mesh\0{realm}".encode())


def is_word(data: bytes) -> bool:
    return data.startswith(MAGIC)


def write_word(realm: int, word: Word) -> bytes:
    return _SEAL.seal(_HEAD.pack(MAGIC, VERSION, realm) + msgspec.msgpack.encode(word))


def greeting(realm: int, token: bytes) -> bytes:
    return write_word(realm, Word("hello", token, padding=bytes(GREETING_BYTES)))


def read_word(data: bytes, realm: int) -> Word | str:
    """The word inside, or the reason why there is none."""
    plain = _SEAL.open(data)
    if plain is None or len(plain) < _HEAD.size:
        return "mesh: damaged"
    _, version, number = _HEAD.unpack_from(plain)
    if version != VERSION:
        return "mesh: another version"
    if number != realm:
        return "mesh: another realm"
    try:
        word = _decode(plain[_HEAD.size :])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "mesh: malformed"
    if word.kind == "hello" and len(data) < GREETING_BYTES:
        return "mesh: a greeting that is too short"
    return word
