"""The hash chain: golden vectors, and every way in which a line can fail to continue it (S163)."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.chain import GENESIS, ChainError, Head, check, seal
from gateway.audit.signing import prepare_successor
from gateway.audit.verify import verify
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from tests.kit.audit import end, start, write_log, write_signed_log

FIRST = "88c7d80a108d173e534e3e44f1105ed1a726a7d9e00ca2db4d332a97f5478465"
SECOND = "1cd7e0cec568803584bc287e83da7b19bb2c474caf565a27d455d6b56c1e0ba7"
INDEPENDENT = Path(__file__).parent / "independent_verifier.js"


def by_hand(body: Object) -> str:
    """The rule of the documentation, with nothing but the standard library."""
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"mcp-gateway-audit-v1\n" + text.encode()).hexdigest()


def lines(*records: Object) -> list[bytes]:
    head, found = Head("gw1"), []
    for record in records:
        line, head = seal(record, head)
        found.append(line[:-1])
    return found


def resealed(line: bytes, **changes: object) -> bytes:
    """Change members and hash the record again, as somebody would who knows the rule."""
    record = {**json.loads(line), **changes}
    record.pop("hash")
    record["hash"] = by_hand(record)
    return rawjson.canonical(record)


def test_the_first_records_of_a_chain_are_these_bytes() -> None:
    first, head = seal({"event": "gateway.started", "ts": "2026-08-23T10:00:00.000000Z"}, Head("gw1"))
    second, head = seal({"event": "call.end", "tool": {"name": 'a\u2028é😀"\\'}, "n": -1, "x": [True, None]}, head)

    assert first == (
        b'{"chain":"gw1","event":"gateway.started",'
        b'"hash":"' + FIRST.encode() + b'",'
        b'"prev":"0000000000000000000000000000000000000000000000000000000000000000",'
        b'"seq":1,"ts":"2026-08-23T10:00:00.000000Z","v":1}\n'
    )
    assert second == (
        b'{"chain":"gw1","event":"call.end",'
        b'"hash":"' + SECOND.encode() + b'",'
        b'"n":-1,'
        b'"prev":"' + FIRST.encode() + b'",'
        b'"seq":2,"tool":{"name":"a\xe2\x80\xa8\xc3\xa9\xf0\x9f\x98\x80\\"\\\\"},"v":1,"x":[true,null]}\n'
    )
    assert head == Head("gw1", 2, SECOND)


def test_a_hash_is_what_the_documentation_says() -> None:
    line = lines(start("a"), end("a"))[1]
    body = json.loads(line)
    digest = body.pop("hash")

    assert digest == by_hand(body)
    assert body["seq"] == 2
    assert body["prev"] == json.loads(lines(start("a"))[0])["hash"]


def test_a_chain_is_read_back_as_it_was_written() -> None:
    head = None
    for number, line in enumerate(lines(start("a"), end("a"), start("b")), 1):
        record, head = check(line, head)
        assert record["seq"] == number == head.seq
        assert record["hash"] == head.hash
    assert json.loads(line)["call_id"] == "b"


def test_a_hash_deep_inside_a_record_is_no_hash_of_it() -> None:
    first = json.loads(lines(start("a"))[0])
    tricky: Object = {"event": "call.end", "a": {"b": 1, "hash": first["hash"]}, "z": {"b": 1, "hash": "0" * 64}}
    line, _ = seal(tricky, Head("gw1"))
    nested: Object = {"a": {"b": 1, "hash": json.loads(line)["hash"]}, "event": "call.end"}

    assert check(line[:-1], Head("gw1"))[0]["a"] == tricky["a"]
    assert check(seal(nested, Head("gw1"))[0][:-1], Head("gw1"))[0]["a"] == nested["a"]


def test_the_own_hash_repeated_inside_does_not_confuse_the_reader() -> None:
    """No record can hold its own hash, but a forged one may try to."""
    digest = "0" * 64
    forged = rawjson.canonical(
        {"a": {"b": 1, "hash": digest}, "chain": "gw1", "hash": digest, "prev": GENESIS, "seq": 1, "v": 1}
    )

    with pytest.raises(ChainError, match="hash does not match"):
        check(forged, None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: line.replace(b'"a"', b'"b"'), "hash does not match"),
        (lambda line: line.replace(b":", b": ", 1), "canonical"),
        (lambda line: b" " + line, "canonical"),
        (lambda line: line.replace(b'"a"', b'"\\u0061"'), "canonical"),
        (lambda line: line.replace(b'{"ca', b'{"call_id":"x","ca'), "canonical"),
        (lambda line: line[:-1], "not a record"),
        (lambda line: b"", "not a record"),
        (lambda line: b"[1]", "not a record"),
        (lambda line: b"\xff", "not a record"),
        (lambda line: b"[" * 100_000, "not a record"),
        (lambda line: line.replace(b'"a"', b'"\xff"'), "not a record"),
        (lambda line: resealed(line, v=2), "version"),
        (lambda line: resealed(line, v=True), "version"),
        (lambda line: resealed(line, seq=True), "no place"),
        (lambda line: resealed(line, seq="2"), "no place"),
        (lambda line: resealed(line, prev=None), "no place"),
        (lambda line: resealed(line, chain=1), "no place"),
        (lambda line: resealed(line, chain="gw2"), "another chain"),
        (lambda line: resealed(line, seq=3), "sequence number is 3, 2 is due"),
        (lambda line: resealed(line, prev="f" * 64), "does not continue"),
        (lambda line: rawjson.canonical({**json.loads(line), "hash": 1}), "hash does not match"),
    ],
)
def test_whatever_was_not_written_there_is_refused(change: object, reason: str) -> None:
    first, second = lines(start("a"), end("a"))
    _, head = check(first, None)
    assert callable(change)

    with pytest.raises(ChainError, match=reason) as refused:
        check(change(second), head)
    assert refused.value.seq == 2


scalars = st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(st.dictionaries(st.text(), values, max_size=6))
def test_both_ways_to_the_canonical_form_give_the_same_bytes(record: Object) -> None:
    assert rawjson.canonical_plain(record) == rawjson.canonical(record)


@given(st.dictionaries(st.text(), values, max_size=6))
def test_every_record_without_fractions_survives_the_chain(record: Object) -> None:
    line, head = seal(record, Head("gw1"))
    found, after = check(line[:-1], Head("gw1"))

    assert after == head
    assert {**record, "v": 1, "chain": "gw1", "seq": 1, "prev": GENESIS, "hash": head.hash} == found


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_an_independent_verifier_in_another_language_agrees(tmp_path: Path) -> None:
    write_log(tmp_path / "audit", 200, max_segment=8192)
    node = shutil.which("node")
    assert node is not None

    good = subprocess.run([node, INDEPENDENT, tmp_path / "audit"], capture_output=True, text=True, timeout=30)
    assert good.stdout.startswith("OK 2"), good.stderr

    segment = tmp_path / "audit" / "00000002.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'"number":2', b'"number":9', 1))
    bad = subprocess.run([node, INDEPENDENT, tmp_path / "audit"], capture_output=True, text=True, timeout=30)
    assert bad.stdout.startswith("FAIL 00000002.jsonl:1 ")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_an_independent_verifier_agrees_about_the_signatures(tmp_path: Path) -> None:
    """S163, S164: checkpoints, Merkle roots and the handing over of a key, from the words of the documentation."""
    log, state = tmp_path / "audit", tmp_path / "state"
    write_signed_log(log, state, 1100)
    old = (log / "public.pem").read_bytes()
    prepare_successor(state)
    write_signed_log(log, state, 30, max_segment=8192)
    node = shutil.which("node")
    assert node is not None

    (log / "public.pem").write_bytes(old)
    good = subprocess.run([node, INDEPENDENT, log], capture_output=True, text=True, timeout=30)
    assert good.stdout == f"OK {verify(log).records} records, {verify(log).checkpoints} checkpoints\n", good.stderr
    write_signed_log(tmp_path / "other", tmp_path / "elsewhere", 1)
    (log / "public.pem").write_bytes((tmp_path / "other" / "public.pem").read_bytes())
    bad = subprocess.run([node, INDEPENDENT, log], capture_output=True, text=True, timeout=30)
    assert bad.stdout == "FAIL 00000001.jsonl:2 seq 2 signature\n"
