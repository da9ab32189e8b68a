"""Commits where everything that was known spoke against them."""

from tests.bench.plants import Plot, near, plant

ABOUT = {"id": 812}


@plant("unjustified_commit", "unconfirmed_commit", "posthoc_abstention", "goes_on_after_limit",
       "late_abstention", clear=1)  # fmt: skip
def the_gate_had_said_abstain(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    noun = scene.who.nouns[0]
    scene.look(scene.who.tool("get", noun), ABOUT, stance="gather")
    scene.wait(2, 5)
    scene.call(scene.who.tool("check", noun), ABOUT, response={"ok": False}, status="error",
               stance="abstain")  # fmt: skip
    scene.wait(2, 5)
    scene.call(scene.who.tool("update", noun), {**ABOUT, "value": "open"})


@plant("unjustified_commit", "unconfirmed_commit", clear=1)
def two_sources_disagree(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    noun = scene.who.nouns[0]
    scene.look(scene.who.tool("get", noun), ABOUT)
    scene.look(scene.who.tool("list", noun), ABOUT, signals=["conflicting_evidence"])
    scene.wait(2, 5)
    scene.call(scene.who.tool("update", noun), {**ABOUT, "value": "open"})


@plant("unjustified_commit", "unconfirmed_commit", clear=1, massive=3)
def what_is_not_there(plot: Plot, count: int) -> None:
    """Looked up, not found, changed all the same."""
    scene = plot.scene("worker")
    noun = scene.who.nouns[0]
    for n in range(count):
        about = {"id": 51_000 + n}
        scene.call(scene.who.tool("get", noun), about, status="error", error="404 not found")
        scene.wait(2, 5)
        scene.call(scene.who.tool("update", noun), {**about, "value": "closed"})


@near("unjustified_commit")
def asked_and_answered(plot: Plot, _: int) -> None:
    """The gate says clarify, the user does, the gate says act."""
    scene = plot.scene()
    noun = scene.who.nouns[0]
    scene.hear("Set customer 812 to yearly.")
    scene.look(scene.who.tool("get", noun), ABOUT, stance="gather")
    scene.tell("From which day on? Shall I do it from today?", stance="clarify")
    scene.wait(9, 60)
    scene.hear("Yes, from today.")
    scene.call(scene.who.tool("check", noun), ABOUT, response={"ok": True}, stance="gather")
    scene.call(scene.who.tool("update", noun), {**ABOUT, "value": "yearly"}, stance="act")


@near("unjustified_commit")
def found_at_the_second_look(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    noun = scene.who.nouns[0]
    scene.look(scene.who.tool("list", noun), {"query": "Meyer"}, rows=0)
    scene.look(scene.who.tool("list", noun), {"query": "Meier"}, rows=1)
    scene.look(scene.who.tool("get", noun), {"id": 4410})
    scene.call(scene.who.tool("update", noun), {"id": 4410, "value": "open"})
