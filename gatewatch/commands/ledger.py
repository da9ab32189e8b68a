"""Commands for auditors: verify, rebuild, export, prune.

Reads: the ledger, the database. Writes: through ingest/prune.py, ingest/export.py,
ingest/compact.py. Next: docs/ledger.md.
"""

import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gatewatch import keeping, pushing
from gatewatch.client import Remote
from gatewatch.commands.terminal import (
    Adapters,
    Config,
    Database,
    Json,
    emit,
    err,
    moment,
    opened,
    out,
    printable,
    reached,
    settings,
    table,
)
from gatewatch.parts import ledger_of, utc_now
from ingest.chain import Heads, Verdict
from ingest.chain import verify as check_chain
from ingest.compact import compact as compact_file
from ingest.config import ConfigError, Settings
from ingest.contents import LEDGERS_OWN, digests
from ingest.export import StoreDays, tables_of
from ingest.export import export as export_days
from ingest.signing import new_key as make_key
from ingest.signing import public_key as read_key
from ingest.signing import signed, signer
from ingest.store import StoreBrokenError, StoreBusyError, open_store


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the chain stood: what `--export-head` writes and `--head` reads."""

    seq: int
    head: str
    at: str = ""
    sig: str | None = None  # over the line without this


def verify(
    db: Database = None,
    config: Config = None,
    head: Annotated[
        str | None, typer.Option("--head", help="SEQ:HASH, or a file of --export-head.")
    ] = None,
    export_head: Annotated[
        Path | None, typer.Option("--export-head", help="Write where the chain stands to a file.")
    ] = None,
    public_key: Annotated[
        list[Path] | None, typer.Option("--public-key", help="Demand signatures by this key.")
    ] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", help="Make a key pair: FILE and FILE.pub.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute the ledger's hash chain, and hold what was seen of it against it."""
    if new_key is not None:
        out.print(f"{new_key} stays secret; {make_key(new_key)} is for auditors.", markup=False)
        return
    chosen = settings(config, db)
    path = db or chosen.db
    folder = ledger_of(path)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no ledger here.")
    keys = [read_key(each) for each in public_key or ()]
    found = check_chain(folder, _heads(path, head, keys), keys)
    if export_head is not None and not found.problems:
        _write_head(export_head, found, chosen, path)
    _say(found, bool(keys), as_json)


def _heads(path: Path, head: str | None, keys: Collection[Ed25519PublicKey]) -> Heads:
    """Where the chain was seen to stand: by the database, and by what was kept elsewhere."""
    heads: dict[int, set[str]] = defaultdict(set)
    for row in _landed(path):  # before the ledger is read: a service may be landing lines
        heads[row["seq"]].add(row["head"])
    if head is not None:
        known = _known(head)
        plain = msgspec.json.encode(msgspec.structs.replace(known, sig=None))
        if keys and known.sig is not None and not signed(plain, known.sig, keys):
            raise ConfigError(f"--head: {head} was not signed by this key.")
        heads[known.seq].add(known.head)
        if len(heads[known.seq]) > 1:
            heads[known.seq] = {known.head}  # what was kept elsewhere is what is trusted
    return heads


def _say(found: Verdict, signatures: bool, as_json: bool) -> None:
    told = {"ok": not found.problems, "lines": found.seq, "head": found.head,
            "segments": found.segments, "pruned": found.pruned, "unsigned": found.unsigned,
            "problems": list(found.problems)}  # fmt: skip
    pushing.count(lines=found.seq, problems=len(found.problems), unsigned=found.unsigned)
    if as_json:
        emit(told)
    else:
        for problem in found.problems:
            out.print(problem, markup=False)
        text = f"{found.seq} lines, {found.segments} sealed segments, head {found.head}"
        if found.pruned:
            text += f"; {found.pruned} lines were pruned"
        if signatures:
            text += f"; {found.unsigned} lines are not signed yet"
        out.print(text)
    if found.problems:
        raise typer.Exit(1)


def _known(text: str) -> Head:
    """A head that was written down elsewhere."""
    seq, _, digest = text.partition(":")
    if seq.isdigit() and len(digest) == 64:
        return Head(int(seq), digest.lower())
    try:
        return msgspec.json.decode(Path(text).read_bytes(), type=Head)
    except (OSError, msgspec.MsgspecError):
        raise ConfigError(
            f"--head: {text!r} is neither SEQ:HASH nor a file of --export-head."
        ) from None


def _write_head(target: Path, found: Verdict, chosen: Settings, path: Path) -> None:
    line = Head(found.seq, found.head, utc_now().isoformat())
    if sign := signer(chosen.ledger.sign_key, path.parent):
        line = msgspec.structs.replace(line, sig=sign.sign(msgspec.json.encode(line)))
    target.write_bytes(msgspec.json.encode(line) + b"\n")
    err.print(f"{target}: keep it where nobody who can change the ledger can write.", markup=False)


def _landed(path: Path) -> list[dict[str, Any]]:
    sql = "SELECT seq, head FROM landed"
    if not path.exists():
        return []
    try:
        store = open_store(path)
    except StoreBusyError:
        with reached(Settings(), path) as there:
            return there.rows(sql)
    try:
        return store.rows(sql)
    finally:
        store.close()


def rebuild(
    own: Adapters = None, db: Database = None, config: Config = None, as_json: Json = False
) -> None:
    """Make the database anew from the ledger, and say where the old one was different."""
    chosen = settings(config, db, adapters=own)
    path = db or chosen.db
    if not ledger_of(path).is_dir():
        raise ConfigError(f"{ledger_of(path)}: there is no ledger to rebuild from.")
    began, before = time.monotonic(), dict[str, str]()
    if path.exists():
        with suppress(StoreBrokenError):  # then there is nothing to compare with
            before = _contents(chosen, path)
    found = check_chain(ledger_of(path))
    if found.problems:
        raise ConfigError("the ledger does not verify: " + found.problems[0])
    aside = path.with_suffix(".before-rebuild")
    _move(path, aside)
    try:
        with opened(_without_policy(chosen), path, "rebuild its database") as parts:
            failed = parts.tick(utc_now(), tell=False).failed
            counts = parts.store.rows(
                "SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM quarantine)"
                " AS quarantined, (SELECT count(*) FROM alerts) AS alerts"
            )[0]
            with parts.store.reading() as cursor:
                after = digests(cursor)
    except BaseException:
        _move(aside, path)
        raise
    for left in (aside, aside.with_suffix(".before-rebuild.wal")):
        left.unlink(missing_ok=True)
    differ = {name: [was, after[name]] for name, was in before.items() if was != after[name]}
    seconds = round(time.monotonic() - began, 3)
    _rebuilt(counts | {"lines": found.seq, "seconds": seconds}, differ, failed, as_json)


def _contents(chosen: Settings, path: Path) -> dict[str, str]:
    what = "rebuild its database"
    with opened(_without_policy(chosen), path, what) as parts, parts.store.reading() as cursor:
        return digests(cursor)


def _rebuilt(
    told: dict[str, Any], differ: dict[str, list[str]], failed: dict[str, str], as_json: bool
) -> None:
    if as_json:
        emit(told | {"differ": differ})
    else:
        out.print(", ".join(f"{value} {key}" for key, value in told.items()))
    for name, (was, now) in differ.items():
        must = "must be the same" if name in LEDGERS_OWN else "follows from judging"
        err.print(f"{name} ({must}): had {was}, has {now}", markup=False)
    for name, reason in failed.items():
        err.print(printable(f"{name}: {reason}"), markup=False)
    if failed or set(differ) & set(LEDGERS_OWN):
        raise typer.Exit(1)


def _without_policy(chosen: Settings) -> Settings:
    """A rebuild takes the policies that the ledger holds, not the file of today."""
    return msgspec.structs.replace(chosen, policy=None)


def _move(path: Path, target: Path) -> None:
    for suffix in ("", ".wal"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(target.with_name(target.name + suffix))


def export(
    folder: Annotated[Path, typer.Argument(help="Where to.")],
    since: Annotated[str | None, typer.Option("--since", help="From this day on.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Up to this time.")] = None,
    tables: Annotated[str | None, typer.Option("--tables", help="events,calls,...")] = None,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write tables as Parquet, a file a day. Doing it again writes the same."""
    chosen, names = settings(config, db), tables_of(tables)
    span = moment(since, "--since"), moment(until, "--until")
    if not (db or chosen.db).exists():
        raise ConfigError(f"{db or chosen.db}: there is no database.")
    done = []
    with reached(chosen, db) as there:
        source = there if isinstance(there, Remote) else StoreDays(there.store)
        for each in export_days(source, folder, names, *span):
            done.append(asdict(each))
    pushing.count(rows=sum(each["rows"] for each in done))
    if as_json:
        emit(done)
        return
    table(done, ("table", "days", "rows", "bytes", "left"), "Nothing to export.")
    if any(each["left"] for each in done):
        err.print("left: days that have been pruned since; their files hold more than is left.")


def prune(
    before: Annotated[
        str | None, typer.Option("--before", help="Only what came before this time.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Give the space back; the service must be stopped.")
    ] = False,
    db: Database = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take out what is older than the config keeps; the chain says what went."""
    chosen, at = settings(config, db), moment(before, "--before")
    path = db or chosen.db
    if not path.exists():
        raise ConfigError(f"{path}: there is no database.")
    if compact and not dry_run:
        with opened(chosen, db, "compact its database") as parts:
            told = keeping.pruned(parts, utc_now(), at)
        told["bytes"]["after"]["database"] = compact_file(path, chosen.service.memory_limit)[1]
    else:
        with reached(chosen, db) as there:
            if isinstance(there, Remote):
                told = there.prune(at, dry_run)
            else:
                told = keeping.pruned(there, utc_now(), at, dry_run)
    pushing.count(lines=0 if dry_run else told["lines"], kept=told["kept"])
    if as_json:
        emit(told)
        return
    verb = "would go" if dry_run else "gone"
    out.print(f"{told['lines']} lines {verb}, {told['kept']} kept in {told['segments']} segments")
    for name, size in told["bytes"]["before"].items():
        after = told["bytes"].get("after", {}).get(name)
        out.print(f"{name}: {size} bytes" + (f", now {after}" if after is not None else ""))
