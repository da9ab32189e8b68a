"""Whatever is changed in the ledger afterwards is found: against its own hashes, against a head
that was kept elsewhere, and against a key that the one who changed it has not got."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.batch import Batch
from ingest.chain import Verdict, verify
from ingest.config import ConfigError, Duration, Retention
from ingest.land import Lander
from ingest.ledger import Ledger
from ingest.prune import prune
from ingest.redact import Redactor
from ingest.segment import Entry, Marker
from ingest.signing import Signer, new_key, public_key, signer
from ingest.store import open_store
from tests.world import KEY, at, denied, native

DAY = 24 * 60  # minutes


@dataclass(frozen=True)
class Archive:
    """A ledger as an auditor finds it, and what the auditor has kept of it."""

    folder: Path
    key: Ed25519PublicKey
    heads: dict[int, set[str]]

    def check(self, folder: Path) -> Verdict:
        return verify(folder, self.heads, [self.key])


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Six sealed segments, two of them pruned, and an open one; all of it signed."""
    folder = tmp_path_factory.mktemp("archive")
    key = Ed25519PrivateKey.generate()
    store = open_store(folder / "gatewatch.duckdb")
    ledger = Ledger(folder / "ledger", signer=Signer(key))
    lander = Lander(store, ledger, Redactor(KEY))
    heads: dict[int, set[str]] = {}
    for day in (0, 1, 20, 21, 22, 23):
        for number in range(3):
            lines = (denied(day * DAY + number), native(day * DAY + number, kind="message"))
            lander.land(Batch("gate", "native", lines), at(day * DAY + number))
            heads[lander.head[0]] = {lander.head[1]}
    assert prune(store, lander, Retention(Duration("14 days")), {}, at(23 * DAY))
    lander.land(Batch("gate", "native", (denied(24 * DAY), b"\xff")), at(24 * DAY))
    heads = {seq: some for seq, some in heads.items() if seq > 12}  # what lies before was pruned
    heads[lander.head[0]] = {lander.head[1]}
    ledger.close()
    store.close()
    return Archive(folder / "ledger", key.public_key(), heads)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def manifest(folder: Path) -> list[bytes]:
    return (folder / "manifest.ndjson").read_bytes().splitlines(keepends=True)


def write(folder: Path, lines: list[bytes]) -> None:
    (folder / "manifest.ndjson").write_bytes(b"".join(lines))


def test_an_untouched_ledger_verifies(archive: Archive) -> None:
    found = archive.check(archive.folder)

    assert found.problems == ()
    assert found.segments == 6
    assert found.pruned == 6
    assert found.unsigned == 2  # those of today


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_changed_byte_is_found(
    archive: Archive, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("copy") / "ledger"
    shutil.copytree(archive.folder, copy)
    path = data.draw(st.sampled_from(files(copy)))
    text = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(text) - 1))
    text[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(text)

    assert archive.check(copy).problems != ()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_bytes_put_in_or_cut_out_are_found(
    archive: Archive, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("copy") / "ledger"
    shutil.copytree(archive.folder, copy)
    path = data.draw(st.sampled_from(files(copy)))
    text = path.read_bytes()
    first = data.draw(st.integers(0, len(text) - 1))
    last = data.draw(st.integers(first, len(text)))
    put = data.draw(st.binary(max_size=20))
    changed = text[:first] + put + text[last:]
    path.write_bytes(changed)

    # a last line of the manifest without its end is one that was being written
    assert (archive.check(copy).problems != ()) == (changed != text)


def gone(number: int) -> Callable[[Path], None]:
    return lambda folder: files(folder)[number].unlink()


def line_gone(number: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        lines = manifest(folder)
        del lines[number]
        write(folder, lines)

    return change


def swapped_lines(folder: Path) -> None:
    lines = manifest(folder)
    lines[2], lines[3] = lines[3], lines[2]
    write(folder, lines)


def swapped_segments(folder: Path) -> None:
    one, other = files(folder)[2], files(folder)[3]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def cut_tail(folder: Path) -> None:
    """The last two segments are gone, with their lines and all that came after."""
    for path in files(folder)[-4:-1]:
        path.unlink()
    write(folder, manifest(folder)[:4])


CHANGES = [
    *(gone(n) for n in range(8)), *(line_gone(n) for n in range(8)),
    swapped_lines, swapped_segments, cut_tail,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_taken_away_or_moved_is_found(
    change: Callable[[Path], None], archive: Archive, tmp_path: Path
) -> None:
    copy = tmp_path / "ledger"
    shutil.copytree(archive.folder, copy)

    change(copy)

    assert archive.check(copy).problems != ()


def small(folder: Path, said: bytes, sign: Signer | None = None) -> Ledger:
    """Four days, one of whose lines can be told from outside."""
    ledger = Ledger(folder, signer=sign)
    for day in range(4):
        line = said if day == 1 else b'{"n":%d}' % day
        ledger.append([Entry(line)], Marker("gate", "native"), at(day * DAY))
    ledger.close()
    return ledger


def test_a_forged_ledger_adds_up_and_is_found_all_the_same(tmp_path: Path) -> None:
    """Whoever can write the folder can make every hash anew, but not the head or the key."""
    ours, theirs = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    real = small(tmp_path / "real", b"true", Signer(ours))
    assert verify(tmp_path / "real", keys=[ours.public_key()]).problems == ()

    small(tmp_path / "forged", b"false")
    small(tmp_path / "signed", b"false", Signer(theirs))

    for name in ("forged", "signed"):
        folder = tmp_path / name
        assert verify(folder).problems == ()
        assert verify(folder, {real.seq: {real.head}}).problems != ()
        assert verify(folder, keys=[ours.public_key()]).problems != ()


def test_signing_may_begin_late_and_then_covers_what_was_before(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    small(tmp_path, b"first")
    ledger = Ledger(tmp_path, signer=Signer(key))
    ledger.seal_if_due(at(9 * DAY))
    ledger.close()

    found = verify(tmp_path, keys=[key.public_key()])

    assert (found.problems, found.unsigned) == ((), 0)
    lines = manifest(tmp_path)
    write(tmp_path, [lines[0].replace(b'"count":1', b'"count":2'), *lines[1:]])
    assert verify(tmp_path, keys=[key.public_key()]).problems != ()


def test_a_key_in_the_data_folder_is_refused(tmp_path: Path) -> None:
    public = new_key(tmp_path / "key.pem")

    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
    assert isinstance(public_key(public), Ed25519PublicKey)
    assert signer(f"file:{tmp_path / 'key.pem'}", tmp_path / "data") is not None
    with pytest.raises(ConfigError, match="lies in the data folder"):
        signer(f"file:{tmp_path / 'key.pem'}", tmp_path)
    with pytest.raises(ConfigError, match="is there already"):
        new_key(tmp_path / "key.pem")


@pytest.mark.parametrize(
    ("later", "sealed"),
    [(timedelta(hours=1), False), (timedelta(hours=6), True), (timedelta(days=1), True)],
)
def test_a_segment_is_sealed_when_it_is_old_or_of_another_day(
    later: timedelta, sealed: bool, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path)
    ledger.append([Entry(b"{}")], Marker("gate", "native"), at(0))

    assert ledger.seal_if_due(at(0) + later) is sealed

    ledger.append([Entry(b"{}")], Marker("gate", "native"), at(0) + later)
    assert len(list(tmp_path.glob("*/*.zst"))) == int(sealed)
    ledger.close()
    again = Ledger(tmp_path)  # how old it is outlives the process
    assert again.seal_if_due(at(0) + later) is False
    assert again.seal_if_due(at(0) + later + timedelta(hours=6)) is True
    again.close()
