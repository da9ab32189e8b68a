"""Real airline-agent runs (tau-bench) as native lines and labels, for tests that need real traces.

The runs carry no clock: every time below is SYNTHETIC. Run n begins n hours after START, in the
order of the file, and each step of a run comes five seconds after the one before. Order within a
run is the order of its messages. The runs carry no gate decisions either: each call counts as
allowed. What is synthetic is `ts`, `decision` and the ids; all else is as recorded.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "tau_bench"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SOURCE = "airline"
WRITES = {
    "book_reservation",
    "cancel_reservation",
    "update_reservation_flights",
    "update_reservation_baggages",
    "update_reservation_passengers",
    "send_certificate",
}
Line = dict[str, Any]


def lines() -> Iterator[bytes]:
    """Every message and call of the 200 runs, one native line each, without line ends."""
    for run in range(len(_runs())):
        for line in run_lines(run):
            yield json.dumps(line, ensure_ascii=False).encode()


def run_lines(number: int) -> list[Line]:
    """One run: its user and assistant messages and its calls, each call with its answer."""
    run = _runs()[number]
    answers = iter(each for each in run["traj"] if each["role"] == "tool")
    done: list[Line] = []
    for message in run["traj"]:
        if message["role"] in ("user", "assistant") and message["content"]:
            done.append({"kind": "message", "role": message["role"], "text": message["content"]})
        for call in message.get("tool_calls") or ():
            done.append(_call(call["function"], next(answers)))
    begin = START + timedelta(hours=number)
    for step, line in enumerate(done):
        ts = begin + timedelta(seconds=5 * step)
        if "tool" in line:  # the recorded ids are not unique within a run
            line["call_id"] = f"{trace_id(run)}-call-{step}"
        line |= {
            "ts": ts.isoformat().replace("+00:00", "Z"),
            "agent": "gpt-4o",
            "trace_id": trace_id(run),
            "task": str(run["task_id"]),
            "event_id": f"{trace_id(run)}-{step}",
        }
    return done


def trace_id(run: Line) -> str:
    return f"airline-{run['task_id']}-{run['trial']}"


def incidents() -> list[Line]:
    """Labels as rows of the table: a write in a run that had to stop is a misaction, a run that
    stopped rightly or earned its reward is good, all others are unknown."""
    found = []
    for number, label in enumerate(_labels()):
        run, calls = _runs()[number], [each for each in run_lines(number) if each.get("tool")]
        assert (label["task_id"], label["trial"]) == (run["task_id"], run["trial"])
        wrong = calls[label["first_committed_write_idx"]] if label["misaction"] else None
        if wrong is None and not label["should_stop"] and label["reward"] != 1:
            continue
        found.append(
            {
                "incident_id": f"label-{number}",
                "label": "misaction" if wrong else "good",
                "trace_id": trace_id(run),
                "committed_at": wrong and datetime.fromisoformat(wrong["ts"]),
                "author": "stop_labels",
                "labelled_at": START + timedelta(days=30),
            }
        )
    return found


def _call(function: Line, answer: Line) -> Line:
    text, tool = answer["content"], function["name"]
    assert answer["name"] == tool
    failed = text.startswith("Error")
    return {
        "kind": "tool_call",
        "tool": tool,
        "op": "commit" if tool in WRITES else "lookup",
        "params": json.loads(function["arguments"]),
        "decision": "allow",
        "status": "error" if failed else "ok",
        "error": text if failed else None,
        "response": None if failed else _value(text),
    }


def _value(text: str) -> Any:
    """Answers that are JSON arrive as what they are; the others are plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _runs() -> list[Line]:
    if not _cache:
        _cache.extend(json.loads((FOLDER / "gpt-4o-airline.json").read_text(encoding="utf-8")))
    return _cache


def _labels() -> list[Line]:
    text = (FOLDER / "stop_labels.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


_cache: list[Line] = []
