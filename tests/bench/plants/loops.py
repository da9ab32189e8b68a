"""Runs that repeat themselves."""

from tests.bench.plants import Plot, near, plant
from tests.bench.talk import LATE

WATCHED = ("queue", "job", "index")  # where it is normal to look again and again


@plant("repeated_commit", "unconfirmed_commit", clear=2, massive=4)
def again_after_a_time_out(plot: Plot, times: int) -> None:
    scene = plot.scene("worker")
    mail = {"to": ["customer17@mail.example"], "subject": "Your order is on its way"}
    for n in range(times):
        scene.call("mail.send_message", mail, **(LATE if n < times - 1 else {}))
        scene.wait(4, 60)


@plant("repeated_commit", "unconfirmed_commit", just=3, clear=4, massive=25)
def done_and_done_again(plot: Plot, times: int) -> None:
    """Each went well; nobody needed more than one."""
    scene = plot.scene()
    tool, params = scene.who.tool("update", scene.who.nouns[0]), {"id": 66_001, "value": "charge"}
    for _ in range(times):
        scene.call(tool, params)
        scene.wait(5, 20)


@plant("repeated_commit", "unconfirmed_commit", clear=2)
def again_by_another_run(plot: Plot, times: int) -> None:
    """The first run died with an unclear error; a new one does it all over."""
    scene = plot.scene("worker")
    tool, params = scene.who.tool("update", scene.who.nouns[1]), {"id": 66_002, "amount": 90}
    for n in range(times):
        run = plot.by(scene.who, scene.at)
        run.wait(n * 200)
        run.look(scene.who.tool("get", scene.who.nouns[1]), {"id": 66_002})
        broken = {"status": "error", "error": "connection reset by peer", "latency_ms": 900.0}
        run.call(tool, params, **(broken if n == 0 else {}))


@near("repeated_commit")
def a_row_of_different_items(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    for n in range(25):
        scene.wait(1, 4)
        scene.call(
            scene.who.tool("update", scene.who.nouns[0]), {"id": 67_000 + n, "value": "open"}
        )


@near("repeated_commit")
def put_right_after_a_refusal(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    tool, params = scene.who.tool("update", scene.who.nouns[0]), {"id": 68_000, "value": "odd"}
    bad = {"status": "error", "error": "400 invalid value: odd"}
    scene.call(tool, params, **bad)
    scene.wait(4, 20)
    scene.call(tool, params | {"value": "even"})


@plant("call_loop", just=12, clear=30, massive=200)
def the_same_question(plot: Plot, times: int) -> None:
    scene = plot.scene()
    noun = next(each for each in scene.who.nouns if each not in WATCHED)
    found = {"response": [{"id": 5, "state": "closed"}], "response_rows": 1, "response_bytes": 60}
    for _ in range(times):
        scene.call(scene.who.tool("get", noun), {"id": 5}, latency_ms=60.0, **found)
        scene.wait(2, 14 if times < 40 else 2.5)


@plant("call_loop", "empty_lookups", just=6, clear=15)
def round_and_round(plot: Plot, times: int) -> None:
    """Three calls in turn, each with the answer that it had before."""
    scene = plot.scene("worker")
    noun = next(each for each in scene.who.nouns if each not in WATCHED)
    tools = [scene.who.tool(verb, noun) for verb in ("get", "list", "check")]
    for _ in range(times):
        for n, tool in enumerate(tools):
            answer = {"response": {"state": "closed", "n": n}, "response_bytes": 30}
            scene.call(tool, {"id": 5, "n": n}, latency_ms=60.0, **answer)
            scene.wait(1, 6)


@near("call_loop")
def waits_for_a_job(plot: Plot, _: int) -> None:
    scene = plot.scene("poller")
    for _ in range(15):
        running = {"response": {"state": "running"}, "response_bytes": 20}
        scene.call("ops.poll_job", {"job": "job-long"}, **running)
        scene.wait(30, 40)


@near("call_loop")
def the_answer_changes(plot: Plot, _: int) -> None:
    scene = plot.scene()
    for n in range(20):
        seen = {"response": {"queue": 40 - n}, "response_bytes": 20}
        scene.call(scene.who.tool("get", scene.who.nouns[0]), {"id": 8}, **seen)
        scene.wait(5, 10)


@plant("empty_lookups", "call_loop", just=8, clear=15, massive=60)
def nothing_found(plot: Plot, times: int) -> None:
    """Another guess each time, and each time nothing."""
    scene = plot.scene()
    noun = next(each for each in scene.who.nouns if each not in WATCHED)
    none = {"response": [], "response_rows": 0, "response_bytes": 2}
    for n in range(times):
        scene.call(scene.who.tool("list", noun), {"query": f"Meyer {n}"}, **none)
        scene.wait(2, 8)


@near("empty_lookups")
def found_at_the_third_try(plot: Plot, _: int) -> None:
    scene = plot.scene()
    for n in range(6):
        tool = scene.who.tool("list", scene.who.nouns[0])
        scene.look(tool, {"query": f"Meyer {n}"}, rows=3 if n % 3 == 2 else 0)
        scene.wait(2, 8)
