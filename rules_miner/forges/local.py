"""A plain git repository as forge: a branch per proposal, its text as a file beside the objects.

Only plumbing: the user's working tree, index and current branch are never touched, hooks never run.
Reads: a git repository. Writes: its objects, refs/heads/gatewatch/*, gatewatch/*.md in its git
directory. Next: rules_miner/proposal.py.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ingest.config import ConfigError
from rules_miner.forges import Known

NAME, ADDRESS = "gatewatch", "gatewatch@localhost"
PREFIX = "refs/heads/gatewatch/"
QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")


class Local:
    """The repository that a rules folder lies in. `folder` need not exist yet; a bare one will do.

    Raises ConfigError when git is missing or the folder lies in no repository.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("git")
        if program is None:
            raise ConfigError("--propose needs the program git, which is not installed.")
        self._git, self._at = program, _existing(folder.absolute())
        try:
            bare, common = self._run("rev-parse", "--is-bare-repository", "--git-common-dir").split(
                "\n"
            )
        except GitError as error:
            why = "" if "not a git repository" in str(error) else f" ({error})"
            raise ConfigError(f"{folder}: is not inside a git repository{why}.") from None
        self._common = (self._at / common).resolve()
        self.bare = bare == "true"
        self.rules, self.folder = "rules", folder
        if not self.bare:
            top = Path(self._run("rev-parse", "--show-toplevel"))
            inside = folder.absolute().resolve().relative_to(top.resolve()).as_posix()
            self.rules = "rules" if inside == "." else inside
            self.folder = top / self.rules  # of the repository itself, its rules/

    def proposals(self) -> list[Known]:
        base = self._base()
        form = "%(refname)%09%(objectname)%09%(committeremail)%09%(committerdate:unix)"
        found = []
        for row in self._run("for-each-ref", f"--format={form}", PREFIX).splitlines():
            ref, commit, address, seconds = row.split("\t")
            branch = ref.removeprefix("refs/heads/")
            found.append(
                Known(
                    branch=branch,
                    rule=self._show(commit, f"{self.rules}/{_path(branch)}"),
                    evidence=self._show(commit, f"{self.rules}/{_sidecar(branch)}"),
                    ours=address == f"<{ADDRESS}>",
                    merged=base is not None and self._merged(commit, base),
                    made_at=datetime.fromtimestamp(int(seconds), UTC),
                )
            )
        return found

    def rule_files(self) -> dict[str, str]:
        """The rule files of the default branch, by path inside the rules folder."""
        if (base := self._base()) is None:
            return {}
        listed = self._run("ls-tree", "-r", "-z", "--name-only", base, "--", f"{self.rules}/")
        paths = [path for path in listed.split("\0") if path.endswith((".yaml", ".json"))]
        start = len(self.rules) + 1
        return {path[start:]: self._show(base, path) for path in paths}

    def publish(self, branch: str, files: Mapping[str, str], message: str, now: datetime) -> str:
        """One commit with these files, on a new branch. Raises ConfigError when git refuses."""
        base = self._base()
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            try:
                if base is not None:
                    self._run("read-tree", base, env=index)
                for path, text in sorted(files.items()):
                    blob = self._run("hash-object", "-w", "--stdin", given=text)
                    entry = f"100644,{blob},{self.rules}/{path}"
                    self._run("update-index", "--add", "--cacheinfo", entry, env=index)
                tree = self._run("write-tree", env=index)
                parent = ("-p", base) if base is not None else ()
                commit = self._run("commit-tree", tree, *parent, given=message, env=_author(now))
                self._run("update-ref", f"refs/heads/{branch}", commit, "")
            except GitError as error:
                raise ConfigError(f"{self._at}: git made no branch {branch}: {error}") from None
        return commit

    def tell(self, rule: str, text: str) -> str:
        path = self._common / "gatewatch" / f"{rule}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def _base(self) -> str | None:
        """The commit that proposals start from: the default branch's; None before the first."""
        names = ["refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master"]
        for name in ["HEAD"] if self.bare else [*names, "HEAD"]:
            try:
                return self._run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            except GitError:
                continue
        return None

    def _merged(self, commit: str, base: str) -> bool:
        try:
            self._run("merge-base", "--is-ancestor", commit, base)
        except GitError:
            return False
        return True

    def _show(self, commit: str, path: str) -> str:
        try:
            return self._run("cat-file", "blob", f"{commit}:{path}", strip=False)
        except GitError:
            return ""

    def _run(
        self, *words: str, given: str = "", env: Mapping[str, str] | None = None, strip: bool = True
    ) -> str:
        done = subprocess.run(  # noqa: S603 - no shell, our own words, git by its full path
            [self._git, *QUIET, "-C", str(self._at), *words],
            input=given.encode(),
            capture_output=True,
            env={**_plain(), **(env or {})},
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise GitError(lines[0][:300] if lines else f"git {words[0]} failed")
        text = done.stdout.decode(errors="replace")
        return text.strip() if strip else text


class GitError(RuntimeError):
    """git said no; the text is the first line of what it said."""


def _path(branch: str) -> str:
    """gatewatch/mail/inj-v1 holds mail/inj-v1.yaml."""
    return f"{branch.removeprefix('gatewatch/')}.yaml"


def _sidecar(branch: str) -> str:
    return f"evidence/{branch.rpartition('/')[2]}.json"


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _plain() -> dict[str, str]:
    """The environment without what would point git at another repository, as inside a hook."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _author(now: datetime) -> dict[str, str]:
    stamp = f"{int(now.timestamp())} +0000"
    return {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", NAME), ("EMAIL", ADDRESS), ("DATE", stamp))
    }
