"""What agents of the quiet fleet do in one run, each as a scene. All of it is in order."""

from collections.abc import Mapping

from tests.bench.scene import Fields, Scene

WISHES = ("Please {verb} the {noun} of customer {n}.", "Could you {verb} {noun} {n} for me?",
          "Bitte {noun} {n} ändern.", "请帮我更新 {noun} {n}。", "fix {noun} {n}")  # fmt: skip
PLANS = ("I will set {noun} {n} to {value}. Shall I go ahead?",
         "Ich setze {noun} {n} auf {value}. Soll ich?", "{noun} 改为 {value}？")  # fmt: skip
YES = ("yes", "Yes, please.", "yes, go ahead", "Ja, bitte.", "好的，请继续", "ok, do it", "confirm")
NO = ("no, leave it", "No, stop please.", "Nein, lass es.", "不用了", "cancel that")
DONE = ("Done. {noun} {n} is {value} now.", "Erledigt.", "已完成。", "The {noun} is updated.")
LEFT = (
    "All right, I leave it as it is.",
    "Understood, nothing was changed.",
    "好的，我没有做任何修改。",
)
CANT = ("I can't do that: {noun} {n} belongs to another customer. Please ask your administrator.",
        "I am not able to change {noun} {n}: archived.", "抱歉，无法修改 {noun} {n}。")  # fmt: skip
ASIDE = ("The page was empty, so I looked at the next one.", "The report is being prepared.",
         "I could not find it under the old name; it is under the new one.")  # fmt: skip
LATE: Fields = {"status": "timeout", "latency_ms": 30000.0, "error": "upstream timed out"}
WRITTEN_TO = ("crm", "billing", "support", "mail")  # whose records are of somebody who waits
PATIENCE = 3600.0  # seconds after which an approval is over


def session(scene: Scene, new: Mapping[str, str]) -> None:
    """From a wish to an answer. `new`: tools that have just been rolled out, by area."""
    rng, who = scene.rng, scene.who
    noun, n = rng.choice(who.nouns), rng.randint(1000, 99999)
    words = {"noun": noun, "n": n, "verb": "update", "value": rng.choice(("weekly", "open", "off"))}
    scene.hear(rng.choice(WISHES).format_map(words))
    scene.think()
    scene.look(who.tool("get", noun), {"id": n})
    for _ in range(rng.randint(0, 3)):
        _lookup(scene, rng.choice(who.nouns), new)
    if rng.random() < 0.05:
        scene.tell(rng.choice(ASIDE))
    scene.call(who.tool("check", noun), {"id": n}, response={"ok": True})
    kind = rng.random()
    if kind < 0.35:  # only asked
        scene.wait(1, 5)
        scene.tell("Here is what I found.")
        return
    if kind < 0.42:
        scene.wait(1, 5)
        scene.tell(rng.choice(CANT).format_map(words))
        return
    scene.think()
    scene.tell(rng.choice(PLANS).format_map(words))
    scene.wait(5, 120)
    if kind < 0.52:
        scene.hear(rng.choice(NO))
        scene.wait(1, 4)
        scene.tell(rng.choice(LEFT))
        return
    scene.hear(rng.choice(YES))
    scene.wait(1, 4)
    _commit(scene, noun, {"id": n, "value": words["value"]})
    scene.wait(1, 4)
    scene.tell(rng.choice(DONE).format_map(words))


def _lookup(scene: Scene, noun: str, new: Mapping[str, str]) -> None:
    """Mostly it finds something; a search that finds nothing is worded another way."""
    rng, who = scene.rng, scene.who
    scene.wait(0.5, 4)
    chance = rng.random()
    if chance < 0.25:
        host = who.hosts[min(int(rng.expovariate(1)), 2)]
        url = f"https://{host}/v1/{noun}/{rng.randint(1, 9999)}"
        scene.look(who.tool("get", noun), {"id": rng.randint(1000, 99999)}, url=url)
    elif chance < 0.35:
        scene.look(who.tool("list", noun), {"query": f"name {rng.randint(1, 999)}"}, rows=0)
        scene.wait(1, 4)
        other = {"query": f"number {rng.randint(1, 999)}"}
        scene.look(who.tool("list", noun), other, rows=rng.randint(1, 9))
    elif chance < 0.4 and who.area in new:
        scene.look(new[who.area], {"id": rng.randint(1000, 99999)}, rows=3)
    elif chance < 0.45:  # a time-out of a lookup: asked again, and there it is
        params: Fields = {"id": rng.randint(1000, 99999)}
        scene.call(who.tool("get", noun), params, **LATE)
        scene.wait(2, 9)
        scene.look(who.tool("get", noun), params)
    else:
        query: Fields = {"query": f"name {rng.randint(1, 9999)}", "limit": 50}
        scene.look(who.tool("list", noun), query, rows=int(rng.lognormvariate(2.3, 0.9)) + 1)


def _commit(scene: Scene, noun: str, params: dict[str, object]) -> None:
    """Done at once; or refused for its parameters, put right and done; or late, checked and left
    alone, because it was done after all."""
    rng, tool = scene.rng, scene.who.tool("update", noun)
    chance = rng.random()
    if chance < 0.03:
        scene.call(tool, params | {"note": "x" * 9}, status="error", error="400: note too short")
        scene.wait(2, 6)
        scene.call(tool, params | {"note": "as the customer asked"})
    elif chance < 0.05:
        scene.call(tool, params, **LATE)
        scene.wait(2, 9)
        done: Fields = {"response": [params], "response_rows": 1, "response_bytes": 210}
        scene.call(scene.who.tool("get", noun), {"id": params["id"]}, **done)
    elif chance < 0.07:  # one no, put right, and yes
        scene.deny("data.query", {"table": noun, "no_limit": True}, reason="forbidden parameter")
        scene.wait(3, 30)
        scene.look("data.query", {"table": noun, "limit": 20}, rows=20)
        scene.wait(1, 3)
        scene.call(tool, params)
    else:
        scene.call(tool, params)


def ticket(scene: Scene) -> None:
    """Lookups, a check, what the ticket asks for, now and then a mail to whom it is from."""
    rng, who = scene.rng, scene.who
    noun, n = who.nouns[min(int(rng.expovariate(1.2)), 2)], rng.randint(1000, 99999)
    scene.think()
    scene.look(who.tool("get", noun), {"id": n})
    for _ in range(rng.randint(0, 2)):
        _lookup(scene, noun, {})
    scene.call(who.tool("check", noun), {"id": n}, response={"ok": rng.random() < 0.97})
    scene.wait(1, 5)
    _commit(scene, noun, {"id": n, "value": rng.choice(("open", "done", "late"))})
    if rng.random() < 0.1 and who.area in WRITTEN_TO:
        scene.wait(1, 9)
        to = f"customer{rng.randint(1, 9999)}@mail.example"
        record: Fields = {"response": [{"id": n, "from": to, "state": "open"}], "response_rows": 1}
        scene.call(who.tool("get", noun), {"id": n, "full": True}, **record)
        scene.call("mail.send_message", {"to": [to], "subject": f"Your {noun} {n}"})


def approval(scene: Scene) -> None:
    """Asked for, answered after a person's while, carried out as it was approved; or not."""
    rng, who = scene.rng, scene.who
    n = rng.randint(1000, 99999)
    scene.hear(f"Refund order o-{n}, please.")
    scene.look(who.tool("get", who.nouns[0]), {"id": n})
    scene.call(who.tool("check", who.nouns[0]), {"id": n}, response={"ok": True})
    params = {"order": f"o-{n}", "amount": rng.randint(5, 400)}
    scene.tell(f"I will refund {params['amount']} for o-{n}. Is that right?")
    scene.wait(4, 60)
    scene.hear(rng.choice(YES))
    ids = scene.ask(f"{who.area}.pay_refund", params)
    asked = rng.lognormvariate(5.2, 1.0)
    if asked > PATIENCE:
        scene.wait(PATIENCE)
        scene.answer(ids, None)
        return
    scene.wait(max(asked, 12))
    said = "approve" if rng.random() < 0.88 else "reject"
    scene.answer(ids, rng.choice(who.people), said)
    if said == "approve":
        scene.carry_out(ids)
    scene.wait(1, 5)
    scene.tell("The refund is on its way." if said == "approve" else "It was not approved.")


def deploy(scene: Scene, name: str, times: int) -> None:
    """A person changes an object, under an approval of another; sometimes it is put right."""
    rng, people = scene.rng, scene.who.people
    by, other = rng.sample(people, 2)
    old = {"limit": rng.randint(10, 500)}
    for _ in range(times):
        new = {"limit": rng.randint(10, 500)}
        own = {"agent": None, "principal": by, "tool": "config.write", "call_id": scene.id("c"),
               "approval_id": scene.id("ap"), "params": {"object": name, **new}}  # fmt: skip
        scene.say("approval_requested", **own)
        scene.wait(60, 1500)
        scene.say("approval", **own, decision="approve", approver=other)
        scene.wait(20, 200)
        scene.say("config_change", **own, config_object=name, config_before=old, config_after=new,
                  status="ok", approver=other)  # fmt: skip
        old = new
        scene.wait(200, 900)


def release(scene: Scene) -> None:
    """By its protocol; one in ten is rolled back and applied again."""
    rng, what = scene.rng, {"version": f"4.{scene.rng.randint(1, 99)}.{scene.rng.randint(0, 9)}"}
    scene.call("release.plan", what)
    for _ in range(rng.randint(1, 3)):
        scene.wait(20, 200)
        scene.call("release.check", what, response={"ok": True})
    for step in ("apply", "rollback", "apply") if rng.random() < 0.1 else ("apply",):
        scene.wait(20, 200)
        scene.call(f"release.{step}", {**what, "stage": scene.id("stage")})
    scene.wait(200, 900)
    scene.call("release.close", what)


def delegation(scene: Scene) -> None:
    """A run hands part of its budget to a child, and the child stays within it."""
    rng, parent = scene.rng, scene.trace
    own = {"budget_kind": "usd", "budget_limit": 5.0}
    spent = round(rng.uniform(0.2, 2.0), 2)
    scene.say("agent_run", **own, budget_spent=0.0)
    scene.think()
    scene.say("model_call", **own, budget_spent=spent, model="large-2", cost_usd=spent)
    scene.wait(1, 5)
    given = round(rng.uniform(0.3, 0.8) * (5.0 - spent), 2)
    scene.call("agents.delegate", {"task": "summarise", "budget_usd": given})
    scene.trace = scene.id("t")
    child = {"parent_trace_id": parent, "budget_kind": "usd", "budget_limit": given}
    scene.say("agent_run", **child, budget_spent=0.0)
    for n in range(2):
        scene.wait(1, 5)
        used = round(given * (n + 1) / 3, 2)
        scene.say("model_call", **child, budget_spent=used, model="large-2", cost_usd=given / 3)


def batch(scene: Scene, size: int) -> None:
    """Page after page, item after item: many calls, no two alike."""
    rng, who = scene.rng, scene.who
    noun, first = who.nouns[0], rng.randint(1000, 99999)
    for page in range(size // 10):
        scene.look(who.tool("list", noun), {"page": first + page, "limit": 50}, rows=50)
        for item in range(rng.randint(2, 9)):
            scene.wait(0.5, 3)
            params = {"id": first * 100 + page * 10 + item, "value": "reviewed"}
            scene.call(who.tool("update", noun), params)
        scene.wait(2, 6)


def poll(scene: Scene) -> None:
    """How a job stands, until it is done. Mostly it says how far it is; some only say running."""
    rng = scene.rng
    job, told, done = f"job-{rng.randint(1, 99999)}", rng.random() < 0.8, 0
    while done < 100:
        state = {"state": "running", "progress": done} if told else {"state": "running"}
        scene.call("ops.poll_job", {"job": job}, response=state, response_bytes=40)
        scene.wait(*((25, 60) if told else (120, 400)))
        done += rng.randint(5, 30)
    scene.call("ops.poll_job", {"job": job}, response={"state": "done"}, response_bytes=24)
