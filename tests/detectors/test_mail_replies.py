"""Byte for byte: what a mail server says, in whatever pieces, and what it is given."""

from collections.abc import Sequence

import httpcore
from hypothesis import given
from hypothesis import strategies as st

from detectors import delivery, mailing
from detectors.receivers import Delivered, Flow, Mail
from tests.kit_mail import relay


class Pieces(httpcore.NetworkStream):
    """A connection on which a server says these, one after the other, and hangs up."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [each for each in pieces if each]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._pieces.pop(0)[:max_bytes] if self._pieces else b""


@given(st.lists(st.binary() | st.sampled_from([b"250", b"-", b" ", b"ok", b"\r\n", b"\n"])))
def test_whatever_a_server_says_is_a_reply_or_an_error(pieces: list[bytes]) -> None:
    talk = mailing.Talk(Pieces(pieces), "localhost")
    try:
        code, text = talk.reply()
    except httpcore.RemoteProtocolError:
        return
    assert 200 <= code <= 599
    assert b"%d" % code in b"".join(pieces)
    assert "\r\n" not in text


@given(st.text(alphabet="ab \r", max_size=20), st.integers(1, 9))
def test_a_reply_is_the_same_in_whatever_pieces_it_comes(text: str, size: int) -> None:
    said = f"250-{text}x\r\n250 ok\r\n".encode()
    pieces = [said[at : at + size] for at in range(0, len(said), size)]

    assert mailing.Talk(Pieces(pieces), "localhost").reply() == (250, f"{text}x\nok")


def test_a_line_that_is_one_dot_ends_no_letter() -> None:
    content = b"Subject: x\r\n\r\n.\r\n..\r\n.x\r\nx.\r\n"

    def flow() -> Flow:
        yield Mail("localhost", server.port, "none", "a@b.example", ("c@d.example",), content)
        return Delivered()

    with relay() as server, delivery.client(5.0, allow_private=True) as client:
        assert delivery.attempt(flow(), client) == Delivered()

    assert [envelope.content for envelope in server.took] == [content]
