"""What may be asked of the tables: one SELECT over them, and nothing that reaches further.

DuckDB's own functions read files, change settings of the whole process, follow raw pointers, and
some of them end the process. So the query's tree is looked at before it runs.
Reads: nothing. Writes: nothing. Next: gatewatch/api.py.
"""

from collections.abc import Iterator
from typing import Any

import duckdb
import msgspec

from ingest.config import ConfigError
from ingest.store import Db, one

# Functions in FROM that compute rows: every other one reads, or changes, what is no table of ours.
COMPUTED = {"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"}
REFUSED = {  # functions of values that act
    "disable_profile", "enable_profile", "json_execute_serialized_sql", "nextval", "setval",
    "sleep_ms", "write_log",
}  # fmt: skip


def check(db: Db, sql: str) -> None:
    """Refuse what is not one SELECT over the tables. Raises ConfigError, and duckdb.Error where it
    does not parse."""
    statements = db.extract_statements(sql)
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        raise ConfigError("sql: one SELECT, nothing else.")
    try:
        tree = msgspec.json.decode(one(db, "SELECT json_serialize_sql(?)", [sql]))
    except RecursionError:
        raise ConfigError("sql: the query is nested too deeply.") from None
    if tree["error"]:
        raise ConfigError("sql: one SELECT, nothing else.")
    for node in _nodes(tree):
        if node.get("type") == "BASE_TABLE" and not node["table_name"].isidentifier():
            raise ConfigError(f"sql: {node['table_name']!r} is no table.")
        if node.get("type") == "TABLE_FUNCTION":
            name = node["function"].get("function_name")
            if str(name).lower() not in COMPUTED:
                raise ConfigError(f"sql: {name}() may not be asked: only our own tables.")
        if str(node.get("function_name")).lower() in REFUSED:
            raise ConfigError(f"sql: {node['function_name']}() may not be asked.")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
