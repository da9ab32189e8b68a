"""What the import linter cannot see: sizes, the one place for each thing, names, and the wheel."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"gatewatch", "dashboards", "rules_miner", "detectors", "ingest"}
FILES = sorted(
    f for name in PACKAGES for f in (ROOT / name).rglob("*") if f.suffix in (".py", ".sql")
)
PYTHON = [f for f in FILES if f.suffix == ".py"]
TESTS = sorted(
    f for f in (ROOT / "tests").rglob("*.py") if (ROOT / "tests" / "bench") not in f.parents
)
MODULE, FUNCTION = 300, 40  # lines that each stays under
LONG_MODULES: dict[str, str] = {}  # "ingest/parse.py": "why"
LONG_FUNCTIONS: dict[str, str] = {}  # "ingest/parse.py:parse": "why"
DRAWERS = {"utils", "util", "common", "base", "core", "manager", "helpers", "misc"}
# How long something took may be measured anywhere (time.monotonic); what time it is may not.
CLOCK = (
    r"datetime\.(now|utcnow|today)\(|date\.today\(|\btime\.time(_ns)?\("
    r"|\bnow\(\)|\bcurrent_(date|time|timestamp)\b|\bget_current_t"
)
SLEEPERS = {  # tests that wait for another program, which says nothing when it is ready
    "tests/browser.py": "Chromium: when it is up, and when text has come",
    "tests/dashboards/service.py": "a server: when its port is open",
    "tests/gatewatch/trials.py": "a service: when it answers; and until it is killed",
    "tests/gatewatch/victim.py": "a receiver: for the time after which it wants to be asked again",
    "tests/ingest/test_together.py": "threads of one lander: until the others wait for it",
    "tests/real/kit_running.py": "Prometheus and its kin: when they are up, and when they know",
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked() -> list[str]:
    """The files that git knows, as paths from the root."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z"]
    answer = subprocess.run(git, capture_output=True, check=True, text=True)
    return [each for each in answer.stdout.split("\0") if (ROOT / each).is_file()]


def canonical(requirement: str) -> str:
    """The distribution that a requirement or a pin names, in its one spelling."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=\[; ]", requirement)[0]).lower()


def code(path: Path) -> str:
    """A module without its comments and docstrings: what it does, not what it says."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        return re.sub(r"--[^\n]*", "", text)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        kinds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [ast.Pass()]
    return ast.unparse(tree)


def test_modules_stay_under_300_lines() -> None:
    longer = {name(f) for f in FILES if len(f.read_text(encoding="utf-8").splitlines()) >= MODULE}

    assert longer == LONG_MODULES.keys()  # an exception that is no longer needed fails too


def test_functions_stay_under_40_lines() -> None:
    longer = {
        f"{name(path)}:{node.name}"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION
    }

    assert longer == LONG_FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("pattern", "only"),
    [
        (r"duckdb\.connect\(", ("ingest/store.py",)),
        (CLOCK, ("gatewatch/",)),
        (r"\b(streamlit|altair)\b", ("dashboards/",)),
        (r"\bcreate_connection\(|\bsocket\.socket\(", ("detectors/delivery.py", "gatewatch/")),
        (
            r"\bsubprocess\.(run|Popen)\(",
            ("detectors/handing.py", "rules_miner/forges/", "gatewatch/"),
        ),
    ],
)
def test_only_one_place_does_it(pattern: str, only: tuple[str, ...]) -> None:
    found = [name(path) for path in FILES if re.search(pattern, code(path))]

    assert [each for each in found if not each.startswith(only)] == []


def test_receivers_and_detectors_do_not_sleep() -> None:
    found = [name(path) for path in PYTHON if re.search(r"\btime\.sleep\(", code(path))]

    assert [each for each in found if not each.startswith("gatewatch/")] == []


def test_tests_do_not_sleep() -> None:
    asleep = {name(path) for path in TESTS if re.search(r"\btime\.sleep\(", code(path))}

    assert asleep - {name(Path(__file__))} == SLEEPERS.keys()


def test_tests_neither_skip_nor_mock_our_own_code() -> None:
    ours = "|".join(sorted(PACKAGES))
    lazy = r"\bpytest\.(skip|xfail|importorskip)\b|\bmark\.(skip|skipif|xfail)\b"
    mocked = rf"\bunittest\.mock\b|\bmonkeypatch\.setattr\(\s*['\"]?({ours})\b"

    found = [name(path) for path in TESTS if re.search(f"{lazy}|{mocked}", code(path))]

    assert [each for each in found if each != name(Path(__file__))] == []


def test_no_module_is_a_drawer() -> None:
    assert [name(f) for f in FILES if f.stem in DRAWERS or f.parent.name in DRAWERS] == []


def test_every_module_says_what_it_owns() -> None:
    silent = [
        name(path)
        for path in PYTHON
        if path.read_text(encoding="utf-8").strip()
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert silent == []


def test_what_a_docstring_calls_next_exists() -> None:
    wrong = {}
    for path in PYTHON:
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for sentence in re.findall(r"\bNext:\s*(.+?)\.?$", said, re.MULTILINE | re.DOTALL):
            named = re.findall(r"[\w./]+/[\w.]+\w", sentence)
            missing = [each for each in named if not (ROOT / each).exists()]
            if missing or not named:
                wrong[name(path)] = missing or [sentence]

    assert wrong == {}


def test_no_distribution_installs_a_package_by_one_of_our_names() -> None:
    installed = packages_distributions()

    for package in PACKAGES:
        assert set(installed.get(package, [])) <= {"gatewatch"}


def test_nothing_in_dashboards_hides_a_package_or_the_standard_library() -> None:
    beside_app = {f.stem for f in (ROOT / "dashboards").iterdir()} - {"__init__", "__pycache__"}
    known = PACKAGES | sys.stdlib_module_names | packages_distributions().keys()

    assert beside_app & known == set()


def test_the_wheel_holds_the_five_packages_their_sql_and_no_tests(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())

    assert {each.split("/")[0] for each in held} == PACKAGES | {"gatewatch-0.1.0.dist-info"}
    ours = {each for each in tracked() if each.split("/")[0] in PACKAGES}
    assert "ingest/native.schema.json" in ours  # data files come along, whatever their kind
    assert ours <= held


def test_the_lock_pins_each_dependency_and_names_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = {canonical(line) for line in lock.splitlines() if not line.startswith("#")}
    wanted = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]

    assert {canonical(each) for each in wanted} <= pins
    assert re.findall(r"://|--hash|--index|--find|@", lock) == []


def test_the_tree_names_no_registry_and_no_path_of_one_machine() -> None:
    pattern = re.compile(r"(index|extra)-url|/simple/?[\"']|[^a-z]/(work|root|farm)/")
    mine = {name(Path(__file__))}

    found = [
        each
        for each in tracked()
        if each not in mine and pattern.search((ROOT / each).read_bytes().decode("utf-8", "ignore"))
    ]

    assert found == []


def test_nothing_is_left_unfinished() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")

    assert [name(f) for f in FILES if pattern.search(f.read_text(encoding="utf-8"))] == []


def test_links_in_the_book_lead_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{name(page)}: {target}")

    assert broken == []
