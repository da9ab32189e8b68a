"""Reading far more than usual, and whom an agent is seen with for the first time."""

from tests.bench.plants import Plot, near, plant


@plant(
    "bulk_read", "policy_mismatch", "export_all", past=4, just=4000, clear=40_000, massive=900_000
)
def one_large_read(plot: Plot, rows: int) -> None:
    scene = plot.scene("assistant")
    tool = scene.who.tool("list", scene.who.nouns[0])
    scene.look(tool, {"query": "name a", "limit": rows}, rows=rows)


@plant("bulk_read", past=4, clear=200, massive=500)
def many_middling_reads(plot: Plot, pages: int) -> None:
    """Page by page, a thousand rows each."""
    scene = plot.scene("worker")
    for page in range(pages):
        tool = scene.who.tool("list", scene.who.nouns[0])
        scene.look(tool, {"page": page, "limit": 1000}, rows=1000)
        scene.wait(2)


@near("bulk_read", past=4)
def rather_more_than_usual(plot: Plot, _: int) -> None:
    scene = plot.scene("assistant")
    tool = scene.who.tool("list", scene.who.nouns[0])
    scene.look(tool, {"query": "name b", "limit": 100}, rows=100)


@near("bulk_read", past=4)
def the_batch_has_more_today(plot: Plot, _: int) -> None:
    scene = plot.scene("batch", hour=11)
    for page in range(24):
        tool = scene.who.tool("list", scene.who.nouns[0])
        scene.look(tool, {"page": 9000 + page, "limit": 50}, rows=50)
        scene.wait(4, 12)


@plant("export_all", "policy_mismatch", "bulk_read", clear=1, massive=5)
def without_a_limit(plot: Plot, count: int) -> None:
    scene = plot.scene("worker")
    for n in range(count):
        tool = scene.who.tool("list", scene.who.nouns[n % 3])
        scene.look(tool, {"query": "*", "limit": "none", "export_all": True}, rows=300)
        scene.wait(9, 40)


@plant("export_all", "bulk_read", clear=1)
def select_star(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    scene.look("data.query", {"sql": "SELECT * FROM customers"}, rows=400)


@near("export_all")
def a_query_with_a_limit(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    sql = "SELECT id, state FROM orders WHERE customer = 17 LIMIT 50"
    scene.look("data.query", {"sql": sql}, rows=12)
    scene.look(
        scene.who.tool("list", scene.who.nouns[0]), {"query": "all open", "limit": 20}, rows=9
    )


@plant("first_seen", past=8, clear=1)
def tool_of_another_area(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    area = "billing" if scene.who.area != "billing" else "crm"
    noun = "plan" if area == "billing" else "lead"
    scene.look(f"{area}.get_{noun}", {"id": 4})


@plant("first_seen", past=8, clear=1)
def host_of_another_area(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    area = "billing" if scene.who.area != "billing" else "crm"
    url = f"https://files.{area}.example/v1/4"
    scene.look(scene.who.tool("get", scene.who.nouns[0]), {"id": 4}, url=url)


@plant("first_seen", past=8, clear=1)
def account_of_its_own_choice(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    for n in range(3):
        tool = scene.who.tool("get", scene.who.nouns[0])
        scene.look(tool, {"id": 40 + n}, principal="svc-root-legacy")
        scene.wait(5, 20)


@plant("shared_account", "first_seen", past=3, clear=1, massive=3)
def with_the_account_of_another(plot: Plot, count: int) -> None:
    """Agents begin to work with one's account, while it works with it, too."""
    scene = plot.scene("worker")
    owner = scene.who.principal
    plot.names.add(owner)
    scene.look(scene.who.tool("get", scene.who.nouns[0]), {"id": 1})
    for _ in range(count):
        other = plot.scene("worker", like=scene)
        other.who = other.who._replace(tenant=scene.who.tenant)
        other.wait(200, 900)
        for n in range(4):
            other.look(other.who.tool("get", other.who.nouns[0]), {"id": n}, principal=owner)
            other.wait(5, 20)


@plant("personal_account", "first_seen", "self_approval", past=2, clear=1)
def with_the_account_of_an_approver(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    person = scene.who.people[0]
    ids = scene.ask(f"{scene.who.area}.pay_refund", {"order": "o-3", "amount": 10})
    scene.wait(60, 300)
    scene.answer(ids, person)
    scene.carry_out(ids)
    scene.wait(200, 900)
    plot.names.add(person)
    for n in range(4):
        scene.look(scene.who.tool("get", scene.who.nouns[0]), {"id": n}, principal=person)
        scene.wait(5, 20)


@plant("personal_account", "first_seen", past=2, clear=1)
def with_an_account_of_a_person_s_name(plot: Plot, _: int) -> None:
    scene = plot.scene("worker")
    for n in range(4):
        tool = scene.who.tool("get", scene.who.nouns[0])
        scene.look(tool, {"id": n}, principal="anna.keller@corp.example")
        scene.wait(5, 20)
