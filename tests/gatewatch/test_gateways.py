"""Gateways, proxies and clouds at a real service, each the way that its product sends or writes."""

import gzip
import json
from pathlib import Path

from tests.ingest.adapters import kit
from tests.kit_http import Running, running, until

PUSHED = ("kong_ai", "contextforge", "kubernetes_audit", "cloudtrail", "agentgateway")
CONFIG = "".join(f'[sources.{name}]\nadapter = "{name}"\n' for name in PUSHED)
FOLLOWED = """
[sources.trail]
adapter = "cloudtrail"
paths = ["logs/**/*.json*"]
[sources.proxy]
adapter = "squid"
paths = ["logs/access.log"]
[limits]
line_bytes = 4096
"""


def counted(service: Running) -> dict[str, tuple[int, int]]:
    """Events and quarantined lines of each source."""
    rows = service.rows("SELECT source, events, quarantined FROM sources")
    return {row["source"]: (row["events"], row["quarantined"]) for row in rows}


def test_what_a_product_pushes_lands_whole(tmp_path: Path) -> None:
    [kube] = [doc["items"] for doc in kit.sample("kubernetes_audit") if doc.get("items")]
    trail = [record for doc in kit.sample("cloudtrail") for record in doc.get("Records", ())]
    text = (Path(kit.__file__).parent / "agentgateway.ndjson").read_bytes()
    bodies = {
        "kong_ai": kit.encoded(kit.sample("kong_ai")),  # type: ignore[arg-type]
        "contextforge": kit.encoded(kit.sample("contextforge")[0]),
        "kubernetes_audit": kit.encoded({"kind": "EventList", "items": kube}),
        "cloudtrail": json.dumps({"Records": trail}, indent=2).encode(),
        "agentgateway": text,
    }

    with running(tmp_path, CONFIG) as service:
        said = {}
        for name, body in bodies.items():
            answer = service.http.post(f"/v1/ingest/{name}", content=body)
            assert answer.status_code == 200, answer.text
            said[name] = answer.json()["lines"]
        found = counted(service)

    assert said == {"kong_ai": 10, "contextforge": 1, "kubernetes_audit": 2,
                    "cloudtrail": len(trail), "agentgateway": 11}  # fmt: skip
    assert found == {"kong_ai": (13, 0), "contextforge": (1, 0), "kubernetes_audit": (2, 0),
                     "cloudtrail": (len(trail), 0), "agentgateway": (11, 0)}  # fmt: skip


def test_files_that_a_product_writes_are_followed(tmp_path: Path) -> None:
    record = kit.sample("cloudtrail")[1]["Records"][0]
    records = [record | {"eventID": f"e-{number}"} for number in range(300)]
    early, late = ({"Records": part} for part in (records[:100], records[100:]))
    logs = tmp_path / "logs" / "2026" / "03"

    with running(tmp_path, FOLLOWED) as service:
        logs.mkdir(parents=True)
        (logs / "a.json").write_bytes(kit.encoded(early))  # no line end, and longer than a line
        (logs / "b.json.gz").write_bytes(gzip.compress(kit.encoded(late)))
        squid = (Path(kit.__file__).parent / "squid.ndjson").read_bytes()
        (tmp_path / "logs" / "access.log").write_bytes(squid)
        until(lambda: counted(service) == {"trail": (300, 0), "proxy": (15, 0)})
