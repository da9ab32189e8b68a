"""Approvals that are piled up, waved through, gone round, or given to oneself."""

from tests.bench.plants import Plot, near, plant
from tests.bench.scene import Scene

UNREAD = ("approval_backlog",)


def refund(scene: Scene, n: int) -> tuple[str, dict[str, object]]:
    return f"{scene.who.area}.pay_refund", {"order": f"o-{n}", "amount": 20 + n % 90}


@plant("approval_surge", "approval_backlog", past=3, just=12, clear=25, massive=80)
def at_night_unanswered(plot: Plot, count: int) -> None:
    """Asked for in half an hour of the night; each is over after an hour."""
    scene = plot.scene("assistant", hour=1.5)
    for n in range(count):
        scene.wait(1500 / count)
        ids = scene.ask(*refund(scene, n))
        later = plot.by(scene.who, scene.at)
        later.trace, later.session = scene.trace, scene.session
        later.wait(3600)
        later.answer(ids, None)


@plant("approval_surge", "rubber_stamp", past=3, clear=30)
def at_night_waved_through(plot: Plot, count: int) -> None:
    scene = plot.scene("worker", hour=23.2)
    for n in range(count):
        ids = scene.ask(*refund(scene, n))
        scene.wait(3, 9)
        scene.answer(ids, scene.who.people[1])
        scene.carry_out(ids)
        scene.wait(20, 40)


@near("approval_surge", past=3)
def four_at_night(plot: Plot, _: int) -> None:
    scene = plot.scene("assistant", hour=2)
    for n in range(4):
        ids = scene.ask(*refund(scene, n))
        scene.wait(60, 400)
        scene.answer(ids, scene.who.people[0])
        scene.carry_out(ids)


def _stamped(plot: Plot, count: int, low: float, high: float, pause: float) -> None:
    first = plot.scene("worker", hour=11)
    approver = first.who.people[0]
    plot.names.add(approver)
    scenes = [first, plot.by(first.who, first.at), plot.by(first.who, first.at)]
    at = first.at
    for n in range(count):
        scene = scenes[n % 3]
        scene.at = at
        ids = scene.ask(*refund(scene, n))
        scene.wait(low, high)
        scene.answer(ids, approver)
        scene.carry_out(ids)
        scene.wait(pause / 2, pause)
        at = scene.at


@plant("rubber_stamp", past=5, just=14, clear=40, massive=150)
def yes_yes_yes(plot: Plot, count: int) -> None:
    """Each answered with yes after one or two seconds."""
    _stamped(plot, count, 0.8, 2.0, 60)


@near("rubber_stamp", past=5)
def quick_and_few(plot: Plot, _: int) -> None:
    _stamped(plot, 5, 5, 12, 200)


@near("rubber_stamp", past=5)
def a_morning_of_approvals(plot: Plot, _: int) -> None:
    """Many, each after a look of a minute or so, some of them refused."""
    scene = plot.scene("worker", hour=10)
    for n in range(24):
        ids = scene.ask(*refund(scene, n))
        scene.wait(40, 150)
        yes = n % 6 > 0
        scene.answer(ids, scene.who.people[2], "approve" if yes else "reject")
        if yes:
            scene.carry_out(ids)


@plant("approval_backlog", just=14, clear=40, massive=120)
def nobody_answers(plot: Plot, count: int) -> None:
    """By day; in the end they are answered after four hours."""
    scene = plot.scene("worker", hour=10)
    waiting = []
    for n in range(count):
        scene.wait(2400 / count)
        waiting.append(scene.ask(*refund(scene, n)))
    scene.wait(4 * 3600)
    for n, ids in enumerate(waiting):
        scene.wait(15, 40)
        scene.answer(ids, scene.who.people[n % 2])


@plant("approval_backlog", clear=16)
def all_of_them_expire(plot: Plot, count: int) -> None:
    scene = plot.scene("worker", hour=11)
    waiting = []
    for n in range(count):
        scene.wait(60, 100)
        waiting.append(scene.ask(*refund(scene, n)))
    scene.wait(3600)
    for ids in waiting:
        scene.wait(60, 100)
        scene.answer(ids, None)


@plant("self_approval", "rubber_stamp", clear=1)
def by_the_agent(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    ids = scene.ask(*refund(scene, 7))
    scene.wait(2, 9)
    scene.answer(ids, scene.who.name)
    scene.carry_out(ids)


@plant("self_approval", "rubber_stamp", "approval_surge", clear=1, massive=6)
def by_its_account(plot: Plot, count: int) -> None:
    """Beside another of its calls that a person approved."""
    scene = plot.scene("worker")
    first = scene.ask(*refund(scene, 1))
    scene.wait(60, 300)
    scene.answer(first, scene.who.people[0])
    scene.carry_out(first)
    for n in range(count):
        ids = scene.ask(*refund(scene, 40 + n))
        scene.wait(12, 40)
        scene.answer(ids, scene.who.principal)
        scene.carry_out(ids)


@plant("self_approval", clear=1)
def by_who_asked(plot: Plot, _: int) -> None:
    """The person in whose name the agent works says yes, where others do so otherwise."""
    scene = plot.scene()
    first = scene.ask(*refund(scene, 1))
    scene.wait(60, 300)
    scene.answer(first, scene.who.people[0])
    scene.carry_out(first)
    scene.wait(60, 300)
    other = scene.who.people[1]
    ids = scene.ask(*refund(scene, 2), on_behalf_of=other)
    scene.wait(30, 90)
    scene.answer(ids, other)
    scene.carry_out(ids)


@plant("unapproved_execution", "policy_mismatch", "undecided_execution", "approval_backlog",
       clear=1, massive=6)  # fmt: skip
def without_waiting(plot: Plot, count: int) -> None:
    """Asked for, and carried out before anybody has said anything."""
    scene = plot.scene("worker")
    for n in range(count):
        ids = scene.ask(*refund(scene, n))
        scene.wait(1, 5)
        scene.carry_out(ids)
        scene.wait(20, 60)


@plant("unapproved_execution", "denied_then_executed", "policy_mismatch", clear=1)
def after_a_no(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    ids = scene.ask(*refund(scene, 3))
    scene.wait(60, 300)
    scene.answer(ids, scene.who.people[0], "reject")
    scene.wait(2, 30)
    scene.carry_out(ids)


@plant("unapproved_execution", "denied_then_executed", "policy_mismatch", clear=1)
def after_its_time(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    ids = scene.ask(*refund(scene, 4))
    scene.wait(3600)
    scene.answer(ids, None)
    scene.wait(2, 90)
    scene.carry_out(ids)


@plant("unapproved_execution", "policy_mismatch", clear=1, massive=3)
def for_another_amount(plot: Plot, count: int) -> None:
    """One amount was approved, another is paid."""
    scene = plot.scene("worker")
    for n in range(count):
        ids = scene.ask(*refund(scene, n))
        scene.wait(60, 300)
        scene.answer(ids, scene.who.people[0])
        scene.carry_out(ids, params={**ids["params"], "amount": 9500})


@near("unapproved_execution")
def approved_and_tried_twice(plot: Plot, _: int) -> None:
    """The approved call fails to connect, and is carried out at the second try."""
    scene = plot.scene("worker")
    ids = scene.ask(*refund(scene, 5))
    scene.wait(60, 300)
    scene.answer(ids, scene.who.people[0])
    scene.carry_out(ids, status="error", error="502 refused: not connected")
    scene.wait(5, 20)
    scene.carry_out(ids)


@plant("undecided_execution", "unapproved_execution", "policy_mismatch", past=2,
       clear=1, massive=20)  # fmt: skip
def without_any_decision(plot: Plot, count: int) -> None:
    """The gate was gone round: the tool logs that it ran, nobody that it may."""
    scene = plot.scene("worker")
    tool = scene.who.tool("update", scene.who.nouns[0])
    for n in range(8):  # as it works otherwise
        scene.call(tool, {"id": 60_000 + n, "value": "open"})
        scene.wait(5, 40)
    for n in range(count):
        scene.wait(2, 20)
        scene.say("tool_executed", tool=tool, call_id=scene.id("c"), status="ok", latency_ms=90.0,
                  params={"id": 61_000 + n, "value": "open"})  # fmt: skip
