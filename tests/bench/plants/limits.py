"""Policy and practice differ: decisions, hours, limits, budgets."""

from datetime import timedelta

from tests.bench.plants import Plot, near, plant


@plant("policy_mismatch", "export_all", "bulk_read", clear=1, massive=8)
def forbidden_parameter_let_through(plot: Plot, count: int) -> None:
    scene = plot.scene("worker")
    for n in range(count):
        scene.look("data.query", {"table": f"orders_{n}", "no_limit": True}, rows=60)
        scene.wait(9, 60)


@plant("policy_mismatch", "first_seen", clear=1)
def unlisted_tool_let_through(plot: Plot, _: int) -> None:
    scene = plot.scene()
    scene.look("labs.preview_report", {"id": 12})


@plant("policy_mismatch", "first_seen", "unapproved_execution", "window_violation", clear=1)
def critical_tool_let_through(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    scene.call("data.drop_table", {"table": "tmp_17"})


@plant("policy_mismatch", "unapproved_execution", "first_seen", clear=1)
def no_approval_demanded(plot: Plot, _: int) -> None:
    """The gate runs with another policy: it allows what should be asked for."""
    scene = plot.scene("worker", hour=12)
    scene.call(f"{scene.who.area}.pay_refund", {"order": "o-1", "amount": 300})


@near("policy_mismatch", "export_all")
def denied_as_written(plot: Plot, _: int) -> None:
    scene = plot.scene()
    scene.deny("data.drop_table", {"table": "tmp_9"}, reason="critical")
    scene.wait(30, 60)
    scene.deny("data.query", {"table": "a", "export_all": True}, reason="forbidden parameter")


def _approved(plot: Plot, tool: str, hour: float) -> None:
    scene = plot.scene("worker", hour=hour)
    ids = scene.ask(f"{scene.who.area}.{tool}", {"id": 812, "format": "csv"})
    scene.wait(100, 200)
    scene.answer(ids, scene.who.people[0])
    scene.carry_out(ids, response_rows=30, response_bytes=9000)


@plant("window_violation", "policy_mismatch", "first_seen", just=20, clear=23, massive=3)
def export_out_of_hours(plot: Plot, hour: int) -> None:
    """Approved, and yet: its hours are from eight to twenty."""
    _approved(plot, "export_records", hour + 0.1)


@plant("window_violation", "policy_mismatch", "first_seen", just=22, clear=2)
def deleted_at_night(plot: Plot, hour: int) -> None:
    _approved(plot, "delete_record", hour + 0.1)


@near("window_violation", "first_seen")
def export_in_its_hours(plot: Plot, _: int) -> None:
    _approved(plot, "export_records", 19.6)


@near("window_violation", "first_seen")
def deleted_in_the_evening(plot: Plot, _: int) -> None:
    _approved(plot, "delete_record", 21.5)


@plant("limit_exceeded", "goes_on_after_limit", "policy_mismatch", just=70, clear=130, massive=400)
def calls_a_minute(plot: Plot, count: int) -> None:
    """Within 50 seconds; the policy says 60 a minute."""
    scene = plot.scene("worker", hour=12)
    start = scene.at.replace(second=2)
    for n in range(count):
        scene.at = start + timedelta(seconds=50 * n / count)
        scene.look(scene.who.tool("get", scene.who.nouns[0]), {"id": n}, latency_ms=30.0)


@plant("limit_exceeded", "goes_on_after_limit", "policy_mismatch", just=640, clear=900)
def calls_a_task(plot: Plot, count: int) -> None:
    """Forty a minute in one run, which may have 600."""
    scene = plot.scene("batch", hour=12)
    for n in range(count):
        tool = scene.who.tool("get", scene.who.nouns[0])
        scene.look(tool, {"id": 100_000 + n}, latency_ms=30.0)
        scene.wait(1.2)


@plant("limit_exceeded", "goes_on_after_limit", "policy_mismatch", just=215, clear=300)
def messages_a_day(plot: Plot, count: int) -> None:
    scene = plot.scene("worker", hour=10)
    for n in range(count):
        to = [f"customer{n}@mail.example"]
        scene.call("mail.send_message", {"to": to, "subject": f"offer {n}"})
        scene.wait(20)
        if n % 40 == 39:
            scene.trace = scene.id("t")


@plant("limit_exceeded", "policy_mismatch", just=11, clear=60)
def recipients_of_a_message(plot: Plot, count: int) -> None:
    scene = plot.scene("worker")
    to = [f"customer{n}@mail.example" for n in range(count)]
    scene.call("mail.send_message", {"to": to, "subject": "news"})


@plant("limit_exceeded", "policy_mismatch", "goes_on_after_limit", just=110, clear=400)
def cost_a_day(plot: Plot, dollars: int) -> None:
    scene = plot.scene("worker", hour=10)
    for _ in range(20):
        scene.wait(60, 400)
        scene.say("model_call", model="huge-1", tokens_in=90_000, tokens_out=4000,
                  latency_ms=9000.0, cost_usd=dollars / 20)  # fmt: skip


@near("limit_exceeded")
def just_within(plot: Plot, _: int) -> None:
    """Fifty calls in a minute, a mail to ten, 90 dollars."""
    scene = plot.scene("worker", hour=12)
    at = scene.at.replace(second=2)
    for n in range(50):
        scene.at = at + timedelta(seconds=n)
        scene.look(scene.who.tool("get", scene.who.nouns[0]), {"id": n}, latency_ms=30.0)
    scene.wait(60)
    to = [f"customer{n}@mail.example" for n in range(10)]
    scene.call("mail.send_message", {"to": to, "subject": "news"})
    scene.say("model_call", model="huge-1", tokens_in=9, tokens_out=4, cost_usd=90)


@plant("goes_on_after_limit", "deny_retry", "limit_exceeded", "policy_mismatch", "deny_rotation",
       just=5, clear=8, massive=40)  # fmt: skip
def told_to_pause(plot: Plot, count: int) -> None:
    """The gate says that the budget is used up, and the agent goes on."""
    scene = plot.scene("worker")
    scene.say("limit_hit", budget_kind="calls", budget_limit=300.0, budget_spent=300.0,
              reason="tool_calls_per_task of 300 is used up", reason_code="limit")  # fmt: skip
    for n in range(count):
        scene.wait(3, 20)
        scene.look(scene.who.tool("get", scene.who.nouns[n % 3]), {"id": 900 + n})


@plant("goes_on_after_limit", "deny_retry", "limit_exceeded", "policy_mismatch", "deny_rotation",
       clear=6)  # fmt: skip
def refused_for_a_limit(plot: Plot, count: int) -> None:
    scene = plot.scene("worker")
    why = {"reason": "rate limit: 60 calls a minute are used up", "reason_code": "rate_limited"}
    for n in range(count):
        tool = scene.who.tool("get", scene.who.nouns[n % 3])
        scene.deny(tool, {"id": 800 + n}, **why)
        scene.wait(1, 4)


@near("goes_on_after_limit", "policy_mismatch")
def pauses_and_comes_back(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    scene.say("limit_hit", budget_kind="calls_per_minute", budget_limit=60.0, budget_spent=60.0,
              reason="60 calls a minute are used up", reason_code="limit")  # fmt: skip
    scene.wait(4000)
    scene.trace = scene.id("t")
    scene.look(scene.who.tool("get", scene.who.nouns[0]), {"id": 77})


@plant("budget_overdelegation", clear=1, massive=3)
def more_than_was_left(plot: Plot, children: int) -> None:
    """Of five dollars four are spent; each child is given three."""
    scene = plot.scene("worker")
    parent, own = scene.trace, {"budget_kind": "usd", "budget_limit": 5.0}
    scene.say("agent_run", **own, budget_spent=0.0)
    scene.wait(30, 90)
    scene.say("model_call", **own, budget_spent=4.0, model="large-2", cost_usd=4.0)
    for n in range(children):
        scene.trace = parent
        scene.wait(5, 20)
        scene.call("agents.delegate", {"task": f"compare part {n}", "budget_usd": 3.0})
        scene.trace = scene.id("t")
        child = {"parent_trace_id": parent, "budget_kind": "usd", "budget_limit": 3.0}
        scene.say("agent_run", **child, budget_spent=0.0)
        scene.wait(5, 20)
        scene.say("model_call", **child, budget_spent=1.5, model="large-2", cost_usd=1.5)


@plant("budget_overdelegation", clear=1)
def together_more_than_there_was(plot: Plot, _: int) -> None:
    """Three children get two dollars each of five."""
    scene = plot.scene("worker")
    parent = scene.trace
    scene.say("agent_run", budget_kind="usd", budget_limit=5.0, budget_spent=0.0)
    for _ in range(3):
        scene.wait(5, 20)
        scene.trace = scene.id("t")
        child = {"parent_trace_id": parent, "budget_kind": "usd", "budget_limit": 2.0}
        scene.say("agent_run", **child, budget_spent=0.0)
        scene.wait(5, 20)
        scene.say("model_call", **child, budget_spent=0.6, model="large-2", cost_usd=0.6)
