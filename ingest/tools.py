"""What a tool does, asked once per tool: the log's own word goes first, then the policy's, then
what the tool's name says.

Reads: fresh (temporary), the policy in force. Writes: fresh, tools (temporary).
Next: ingest/identity.py.
"""

from ingest.store import Db, one

TABLE = "CREATE TEMP TABLE IF NOT EXISTS tools (tool VARCHAR, declared VARCHAR, guessed VARCHAR)"
OP = """
    coalesce(CASE WHEN f.op_basis = 'declared' THEN f.op END, t.declared, f.op, t.guessed)"""
BASIS = """
    CASE WHEN f.op_basis = 'declared' THEN f.op_basis WHEN t.declared IS NOT NULL THEN 'policy'
         WHEN coalesce(f.op, t.guessed) IS NOT NULL THEN 'inferred' END"""
UNKNOWN = """
    CREATE OR REPLACE TEMP TABLE unknown AS
    SELECT DISTINCT tool FROM fresh ANTI JOIN tools USING (tool) WHERE tool IS NOT NULL
"""
NEW_TOOLS = """
    INSERT INTO tools
    SELECT u.tool, p.op, op_of(u.tool)
    FROM unknown u
    LEFT JOIN (
        SELECT t ->> 'name' AS tool, any_value(t ->> 'op') AS op
        FROM (SELECT unnest(arr(doc -> 'tools')) AS t FROM (SELECT policy_doc() AS doc))
        GROUP BY 1) p ON p.tool = u.tool
"""
MANY_TOOLS = 10_000  # names an agent can invent: then all are forgotten, and asked for again


def know(db: Db) -> None:
    """Ask once what tools do that have not been met before, and say it on their events."""
    if not one(db, UNKNOWN):
        return
    db.execute(NEW_TOOLS)
    db.execute(
        f"UPDATE fresh AS f SET op = {OP}, op_basis = {BASIS} FROM tools t"
        " WHERE t.tool = f.tool AND f.tool IN (SELECT tool FROM unknown)"
    )
    if one(db, "SELECT count(*) FROM tools") > MANY_TOOLS:
        db.execute("DELETE FROM tools")
