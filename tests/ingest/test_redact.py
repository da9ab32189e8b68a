"""Redaction: secrets go, everything else stays byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.config import ConfigError
from ingest.parse import parse
from ingest.redact import TEXT, Redacted, Redactor, load_key
from ingest.shapes import luhn

SHARED = Path(__file__).parents[3] / "shared"
REDACTOR = Redactor(b"k" * 32)
CARD = "4111 1111 1111 1111"
# Secrets in the samples of formats, by file: the only lines that may change.
SAMPLES = {
    "agent_aegis.ndjson": {"action_params.api_key"},
    "kong.ndjson": {"request.headers.apikey"},
    "litellm_audit.ndjson": {"changed_by_api_key"},
}
NAMES = (
    "password PASSWD db_password secret clientSecret client_secret api_key apikey X-Api-Key"
    " secretAccessKey private_key Authorization cookie Set-Cookie credential credentials"
    " token access_token authToken id-token"
)
SOUNDS = (
    "tokens_in tokens_out max_tokens token_count total_tokens params_digest keyboard"
    " authorization_status authorization.k8s.io/decision cookie_consent secret_scan_result"
    " passwordless secretary tokenizer api_key_id event_id"
)
LONG = r"""_|a|-|\|token:|token=|eyJ-|a://|x:|4|"a|password="a|secret |Bearer |4111 |api_"""


def one(line: bytes | dict[str, Any]) -> Redacted:
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    [found] = REDACTOR.redact([raw])
    assert REDACTOR.redact([found.raw]) == [Redacted(found.raw)], "redacted twice"
    assert (found.raw is raw) == (found.paths == ())
    return found


def value(line: dict[str, Any]) -> Any:
    return json.loads(one(line).raw)


def mark(secret: str) -> str:
    return str(value({"password": secret})["password"])


def test_no_secret_of_the_case_is_left() -> None:
    [path] = (SHARED / "cases" / "fixtures").glob("B172-*")
    found = [one(line) for line in path.read_bytes().splitlines() if b"\xe2" not in line]
    found += [one(path.read_bytes().split(b"\n")[4])]

    text = b"\n".join(each.raw for each in found)
    leaked = [b"FAKE", b"aaaaaaaa", b"0123", b"456789abcdef", b"hunter", b"pass123", b"MII"]
    assert [secret for secret in leaked if secret in text] == []
    assert {path for each in found for path in each.paths} == {
        "params.headers.Authorization",
        "params.api_key",
        "params.url",
        "params.body",
        "params.note",
        "params.a.b.password",
    }
    assert all(parse(each.raw).doc for each in found)


def test_only_secrets_change_in_the_samples_of_all_formats() -> None:
    changed: dict[str, set[str]] = {}
    for path in sorted((SHARED / "reference" / "formats").glob("*.ndjson")):
        raw = path.read_bytes().split(b"\n")
        for line, found in zip(raw, REDACTOR.redact(raw), strict=True):
            if found.paths:
                changed.setdefault(path.name, set()).update(found.paths)
            else:
                assert found.raw is line

    assert changed == SAMPLES


@pytest.mark.parametrize(
    "key",
    NAMES.split(),
)
def test_a_key_that_names_a_secret_hides_its_value(key: str) -> None:
    found = one({"a": [{key: "plain words"}]})

    assert found.paths == (f"a.0.{key}",)
    assert b"plain" not in found.raw


@pytest.mark.parametrize(
    "key",
    SOUNDS.split(),
)
def test_a_key_that_only_sounds_like_one_hides_nothing(key: str) -> None:
    assert one({key: "plain words", "n": {key: 12}}).paths == ()


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("at ya29.a0AfB_byCexampleexample0123 ok", "ya29.a0AfB_byCexampleexample0123"),
        ("GOCSPX-exampleexampleexample0123", "GOCSPX-exampleexampleexample0123"),
        ("id LTAI5tExample0123456789 used", "LTAI5tExample0123456789"),
        ("SG.exampleexample0123.exampleexample0123", "SG.exampleexample0123.exampleexample0123"),
        ("from SK" + "0a" * 16 + " on", "SK" + "0a" * 16),
        ("dapi" + "0a" * 16, "dapi" + "0a" * 16),
        ("vault hvs.CAESIexampleexample0123", "hvs.CAESIexampleexample0123"),
        ("dop_v1_" + "0a" * 32, "dop_v1_" + "0a" * 32),
        ("bot 123456789:AA" + "Ex_-a" * 6 + "abc ok", "123456789:AA" + "Ex_-a" * 6 + "abc"),
        ("https://discord.com/api/webhooks/123/Example_Example-012345", "Example_Example-012345"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/0123abcd-01", "0123abcd-01"),
        ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=0123abcd-01", "0123abcd-01"),
        ("AccountName=x;AccountKey=Zm9vYmFyZm9vYmFy==;E=1", "Zm9vYmFyZm9vYmFy=="),
        ("Endpoint=sb://x/;SharedAccessKey=Zm9vYmFyYmF6;", "Zm9vYmFyYmF6"),
        ("use AKIAIOSFODNN7EXAMPLE now", "AKIAIOSFODNN7EXAMPLE"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjF9.c2ln end", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjF9.c2ln"),
        ("curl -H 'Authorization: Bearer abcdef0123456789'", "abcdef0123456789"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
        ("key sk-proj-abcdefghijklmnop1234 ok", "sk-proj-abcdefghijklmnop1234"),
        ("xoxb-123456789012-abcdefghijkl", "xoxb-123456789012-abcdefghijkl"),
        ("postgres://app:p@ss:word@db.example.com/x?a=b", "p@ss:word"),
        ("redis://:s3cret@cache:6379/0", "s3cret"),
        ("https://x.example.com/cb?access_token=abc123&n=1", "abc123"),
        ("export DB_PASSWORD='two words'", "two words"),
        ("mysql --password hunter2 -u root", "hunter2"),
        ('run {"password": "hunter 2"} now', "hunter 2"),
        ("accessToken: a1b2c3d4", "a1b2c3d4"),
        (f"paid with {CARD}.", CARD),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- end",
         "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----"),
        ("-----BEGIN EC PRIVATE KEY-----\ncut off", "-----BEGIN EC PRIVATE KEY-----\ncut off"),
    ],
)  # fmt: skip
def test_a_secret_inside_a_text_is_replaced_and_the_text_around_it_stays(
    text: str, secret: str
) -> None:
    assert value({"note": text})["note"] == text.replace(secret, mark(secret))
    assert value({"note": {"deep": [text]}})["note"]["deep"] == [text.replace(secret, mark(secret))]


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100 tokens=5",
        "invalid token: expected number",
        "PWD=/home/app OLDPWD=/tmp",
        "password=$DB_PASSWORD",
        "token=<token> secret={{ vault.item }}",
        "task-1234567890abcdefghij",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "1773133200123456789",
        "123e4567-e89b-12d3-a456-426614174000",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "4111111111111112",
        "http://[::1]:8080/a@b",
        "see https://example.com/a:b@c",
        "the secret of the bearer of news",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-0-xehWok",
    ],
)
def test_ids_digests_times_and_plain_words_stay(text: str) -> None:
    assert one({"note": text, "sha256": text, "trace_id": text}).paths == ()


def test_an_id_that_could_be_a_card_number_stays_and_a_card_goes() -> None:
    number = CARD.replace(" ", "")

    assert luhn(number)
    assert one({"event_id": number, "ts": number, "row": int(number)}).paths == ()
    assert one({"note": number, "card_number": int(number)}).paths == ("note", "card_number")


def test_marks_of_other_programs_and_empty_values_stay() -> None:
    marks = [
        "",
        "-",
        "***",
        "[REDACTED]",
        "***REDACTED***",
        "redacted-by-litellm",
        "null",
        "<secret>",
    ]

    assert one({"a": [{"password": each} for each in [*marks, None, True, False]]}).paths == ()


def test_equal_secrets_get_equal_marks_and_another_key_gives_others() -> None:
    bearer = value({"headers": {"Authorization": "Bearer abcdef0123456789"}})

    assert bearer["headers"]["Authorization"] == f"Bearer {mark('abcdef0123456789')}"
    assert mark("a secret") != mark("another")
    [other] = Redactor(b"o" * 32).redact([b'{"password":"a secret"}'])
    assert mark("a secret").encode() not in other.raw


def test_secrets_in_json_in_strings_are_found_under_their_path() -> None:
    inner = json.dumps(
        {"user": "u", "auth": [{"apiKey": "abc"}], "again": json.dumps({"token": "t"})}
    )
    found = one({"body": inner, "list": '["Bearer abcdef0123456789"]'})

    assert found.paths == ("body.auth.0.apiKey", "body.again.token", "list.0")
    body = json.loads(json.loads(found.raw)["body"])
    assert body["user"] == "u"
    assert json.loads(body["again"]) == {"token": mark("t")}


def test_all_values_under_a_secret_are_replaced() -> None:
    found = value({"credentials": {"user": "u", "n": [1, "x"], "on": True}, "cookies": ["a=b"]})

    assert found["credentials"] == {"user": mark("u"), "n": [mark("1"), mark("x")], "on": True}
    assert found["cookies"] == [mark("a=b")]


def test_when_a_secret_ends_and_its_state_are_none() -> None:
    key = {"accessKeyId": "a", "status": "Active", "createDate": "d", "expiration": "e"}

    found = value({"accessKey": key})["accessKey"]

    assert found == key | {"accessKeyId": mark("a")}


def test_a_value_whose_name_stands_beside_it_is_replaced() -> None:
    pairs = [
        {"name": "X-Api-Key", "value": "plain"},
        {"key": "http.request.header.authorization", "value": {"stringValue": "plain"}},
        {"name": "x", "value": "kept", "inner": {"name": "password", "value": "plain"}},
        {"name": "password", "required": "kept"},
    ]

    found = one({"headers": pairs})

    assert b"plain" not in found.raw
    assert found.raw.count(b"kept") == 2
    assert found.paths == (
        "headers.0.value", "headers.1.value.stringValue", "headers.2.inner.value",
    )  # fmt: skip


def test_an_escaped_name_hides_nothing() -> None:
    assert one(rb'{"p\u0061ssword":"hunter","\u0074oken":"x"}').raw.count(b"[redacted:") == 2


def test_the_rest_of_a_line_with_a_secret_stays_byte_for_byte() -> None:
    raw = (
        rb'{ "decision":"deny", "n":1e999,"big":18446744073709551616 ,"password" : "x\u0041",'
        rb'"s":"\ud800 \/ \u00e9", "decision":"allow","b":"' + b"\xff" + b'"}  '
    )
    found = one(raw)

    secret = mark("xA").encode()
    assert found.raw == raw.replace(rb"x\u0041", secret)
    assert parse(found.raw).marks == parse(raw).marks


def test_a_line_that_does_not_parse_is_searched_as_text() -> None:
    found = one(b'{"password":"hunter two","url":"ftp://u:pw@h/", "agent":"a\xff", "cut')

    assert found.paths == (TEXT,)
    assert b"hunter" not in found.raw
    assert b"pw@" not in found.raw
    assert found.raw.endswith(b'"agent":"a\xff", "cut')


def test_paths_of_a_hostile_line_are_few_and_short() -> None:
    found = one({"k" * 9999: {f"{number}_password": "x" for number in range(999)}})

    assert len(found.paths) == 64
    assert max(map(len, found.paths)) <= 256


@pytest.mark.parametrize(
    "unit",
    LONG.split("|"),
)
def test_no_long_text_takes_long(unit: str) -> None:
    text = unit * (60_000 // len(unit)) + " token=x1"

    found = REDACTOR.redact([json.dumps({"password": text, "note": text}).encode(), text.encode()])

    assert all(each.paths for each in found)


LINES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["Bearer x1y2z3a4", CARD]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "password", "token", "apiKey"]) | st.text(), inner)
        | inner.map(json.dumps)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "secret", "note"]), LINES, max_size=3))
def test_what_comes_out_is_json_of_the_same_shape_and_clean(line: dict[str, Any]) -> None:
    found = one(line)

    assert parse(found.raw).doc is not None
    assert list(json.loads(found.raw)) == list(line)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80) | st.binary(max_size=20).map(lambda raw: b'{"password":"' + raw))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    one(raw)


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "later" / "redact.key"

    key = load_key(path)

    assert len(key) == 32
    assert load_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key(tmp_path / "other.key") != key


def test_a_key_that_is_too_short_or_unreadable_is_said_so(tmp_path: Path) -> None:
    short, folder = tmp_path / "short.key", tmp_path / "folder.key"
    short.write_bytes(b"short")
    folder.mkdir()

    with pytest.raises(ConfigError, match=r"short\.key: the redaction key has 5 bytes, 32 are"):
        load_key(short)
    with pytest.raises(ConfigError, match=r"folder\.key: the redaction key can't be read: Is a"):
        load_key(folder)
    with pytest.raises(ConfigError, match=r"x: the redaction key can't be read: Not a"):
        load_key(short / "x")
