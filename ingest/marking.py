"""What landing says on events beside what their adapter read.

What was odd about the line, whom the sender speaks for, and one spelling for a host.

Reads: batches, fresh (temporary). Writes: fresh. Next: ingest/identity.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ingest.hosts import canonical_host
from ingest.reading import Lines
from ingest.segment import Batched
from ingest.store import Db, beside

ODD = pa.schema(
    {"seq": pa.uint64(), "marks": pa.list_(pa.string()), "paths": pa.list_(pa.string())}
)
MARKED = """
    UPDATE fresh SET
        signals = CASE WHEN len(odd.marks) > 0 THEN
            list_sort(list_distinct(coalesce(signals, []) || odd.marks)) ELSE signals END,
        decision = CASE WHEN list_contains(odd.marks, 'duplicate_key')
            AND decision = 'allow' THEN NULL ELSE decision END,
        redacted = CASE WHEN len(odd.paths) > 0 THEN odd.paths END
    FROM odd WHERE ledger_seq = odd.seq
"""


@dataclass(frozen=True)
class Written:
    """A batch that is in the ledger, and what its lines say."""

    batch: Batched
    lines: Lines


def mark(db: Db, group: Sequence[Written], hosts: Sequence[str]) -> None:
    """All of it, on the events of batches of one agent. `hosts`: those that their events name."""
    _odd(db, group)
    _bind(db, group[0].batch.marker.agent)
    _canonical(db, hosts)


def _odd(db: Db, group: Sequence[Written]) -> None:
    """Say on the events what was odd about their lines. Rare, so it costs nothing otherwise.

    A decision under a key that stood twice is doubtful: it never counts as an allow.
    """
    odd: dict[str, list[object]] = {"seq": [], "marks": [], "paths": []}
    for each in group:
        paths = each.lines.entries.redacted
        marked = {n for n, its in each.lines.odd.items() if its.marks}
        for number in sorted(marked | paths.keys()):
            its = each.lines.odd.get(number)
            odd["seq"].append(each.batch.place(number))
            odd["marks"].append(list(its.marks if its else ()))
            odd["paths"].append(list(paths.get(number, ())))
    if odd["seq"]:  # one by one they would hold up everybody: a log may have one in every line
        with beside(db, "odd", pa.table(odd, ODD)):
            db.execute(MARKED)


def _bind(db: Db, agent: str | None) -> None:
    """A sender that may speak for one agent speaks for that one; what it claimed stays beside."""
    if agent is None:
        return
    db.execute(
        """
        UPDATE fresh SET agent = $agent,
            signals = CASE WHEN agent <> $agent
                THEN list_append(coalesce(signals, []), 'agent_mismatch') ELSE signals END,
            attrs = CASE WHEN agent <> $agent THEN json_merge_patch(
                coalesce(attrs, '{}'), json_object('agent_claimed', agent)) ELSE attrs END
        """,
        {"agent": agent},
    )


def _canonical(db: Db, found: Sequence[str]) -> None:
    """One spelling a host, see ingest/hosts.py."""
    changed = [(host, new) for host in found if (new := canonical_host(host)) != host]
    if changed:
        table = pa.table(
            {
                "was": pa.array([each[0] for each in changed], pa.string()),
                "now": pa.array([each[1] for each in changed], pa.string()),
            }
        )
        with beside(db, "spelling", table):
            db.execute('UPDATE fresh SET host = s."now" FROM spelling s WHERE host = s.was')
