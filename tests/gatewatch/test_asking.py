"""What a viewer may ask: our own tables, and nothing that reaches past them."""

import pytest

from gatewatch.asking import check
from ingest.config import ConfigError
from ingest.store import memory_store


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM events WHERE ts > $since",
        "FROM alerts",
        "DESCRIBE events",
        "SUMMARIZE calls",
        "WITH many AS (SELECT agent FROM calls) SELECT count(*) FROM many, range(3)",
        "SELECT * FROM information_schema.tables",
        "SELECT 'read_text' AS word, unnest([1, 2])",
    ],
)
def test_the_tables_may_be_asked(sql: str) -> None:
    with memory_store().reading() as db:
        check(db, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('gatewatch.service.json')",
        "SELECT * FROM main.Read_Text('x')",
        "SELECT * FROM 'gatewatch.csv'",
        "DESCRIBE 'gatewatch.csv'",
        "SELECT (SELECT max(file) FROM glob('*'))",
        "FROM events LIMIT (SELECT count(*) FROM glob('*'))",
        "WITH a AS (SELECT * FROM query('SELECT 1')) SELECT * FROM a",
        # these two end the process
        "SELECT * FROM enable_logging('QueryLog', storage='file', storage_path='/elsewhere')",
        "SELECT * FROM arrow_scan(1, 2, 3)",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT 'x'.write_log()",
        "SELECT sleep_ms(1000000)",
        "SELECT 1; SELECT 2",
        "PIVOT events ON kind USING count(*)",
        "CALL enable_logging()",
        "DELETE FROM events",
    ],
)
def test_nothing_else_may_be_asked(sql: str) -> None:
    with memory_store().reading() as db, pytest.raises(ConfigError, match="sql: "):
        check(db, sql)
