"""Files that usually hold secrets ask, by any tool and any spelling; their templates do not; and only a rule that
speaks of them by name lets them be read."""

import pytest

from agent_cli.policy.authorize import authorize
from agent_cli.policy.rules.path_verdict import watched
from agent_cli.policy.rules.rule import BUILT_IN
from agent_cli.policy.rules.secret_paths import is_secret, names_a_secret, secret_patterns
from agent_cli.protocol.actions import Allow, Ask, ReadPath, RunCommand, WritePath
from tests.costs import assert_linear
from tests.policy.support import ruled
from tests.policy.test_authorize import ROOT, kind, run
from tests.rows import each_row

ALIKE = (
    ("caf\u00e9.txt", "cafe\u0301.txt"), ("Gr\u00fc\u00dfe/a", "Gru\u0308\u00dfe/a"), ("Ann's notes.md", "Ann\u2019s notes.md"),
    ("a/3.04 PM.png", "a/3.04\u202fPM.png"),
)  # fmt: skip
"""Names as they are typed, and as files from macOS are called."""
_SECRETS = (
    ".env", ".env.local", ".env.production", ".env.test", "sub/.env", ".ENV", ".Env.Local", ".envrc", "server.pem", "tls/private.key",
    "a.p12", "a.pfx", "a.jks", "a.keystore", "vault.kdbx", "id_rsa", "id_ed25519", "id_ecdsa_work", "ID_RSA", ".netrc", "_netrc", ".npmrc",
    ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", "secrets.yml", "secrets.yaml", "config/secrets.json", "secrets.toml",
    "my-service-account.json", "service_account_prod.json", "client_secret_1.json", "application_default_credentials.json", ".htpasswd",
    ".terraformrc", "login.keychain-db", ".docker/config.json", ".aws/credentials", ".aws/config", ".aws/sso/cache/a.json", ".ssh/id_work",
    ".ssh/config", ".gnupg/secring.gpg", ".kube/config", ".azure/token", ".config/gcloud/creds.db", ".config/gh/hosts.yml", ".bash_history",
    ".zsh_history", ".python_history", ".password-store/x.gpg", ".mozilla/firefox/a/logins.json", ".local/share/keyrings/login.keyring",
    ".config/google-chrome/Default/Cookies", ".cargo/credentials.toml",
)  # fmt: skip
_OPEN = (
    ".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", ".env.schema", ".env.local.example", "id_rsa.pub",
    "id_mapping.py", "environment.py", "env", "a.env", "key.py", "keys.md", "monkey", "src/secrets.py", "certs/cacert.pem", "pem.txt",
    "credentials.py", "docs/ssh.md", ".ssh/known_hosts", "config.json", "package.json", "history.md", "service.json", ".environment",
)  # fmt: skip


@each_row("name", _SECRETS)
def test_a_secret_is_read_only_with_consent(name: str) -> None:
    assert (
        is_secret(f"{ROOT}/{name}")
        and is_secret(f"/home/u/{name}", "/home/u")
        and is_secret(f"~/{name}", "/home/u")
    )
    for mode in ("plan", "ask", "auto-edit", "yolo"):
        for sandboxed in (False, True):
            given = ruled("allow read", "allow read(**)", "allow shell", mode=mode, sandboxed=sandboxed)
            for action in (
                ReadPath(f"{ROOT}/{name}", name),
                ReadPath(f"{ROOT}/plain", name),
                RunCommand(f"cat {name}", ROOT),
            ):
                verdict = authorize(action, given)
                assert isinstance(verdict, Ask) and "built in" in verdict.rule and verdict.reach == "outside", (
                    action
                )


@each_row(
    "name",
    [".env ", ".env\u200b", ".e\u200bnv", ".env\t", ".env\u00a0", ".env\u2060 ", ".ssh /id_work", "a.pem\ufeff", ".env\u00ad"],
)  # fmt: skip
def test_blanks_and_invisible_characters_do_not_hide_a_secret(name: str) -> None:
    assert is_secret(f"{ROOT}/{name}")
    verdict = authorize(ReadPath(f"{ROOT}/{name}", name), ruled("allow read(**)", mode="yolo"))
    assert isinstance(verdict, Ask) and "built in" in verdict.rule


def test_blanks_and_invisible_characters_do_not_lead_past_a_rule() -> None:
    given = ruled("deny read(own/*.txt)", mode="yolo")
    for name in ("own/a.txt ", "own/a.t\u200bxt"):
        assert kind(authorize(ReadPath(f"{ROOT}/{name}", name), given)) == "deny"


@each_row(("written", "there"), ALIKE)
def test_a_rule_holds_for_a_name_in_another_unicode_form(written: str, there: str) -> None:
    for rule, name in ((written, there), (there, written)):
        read, change = ReadPath(f"{ROOT}/{name}", name), WritePath(f"{ROOT}/{name}", name)
        assert kind(authorize(read, ruled(f"deny read({rule})", mode="yolo"))) == "deny"
        assert kind(authorize(change, ruled(f"ask write({rule})", mode="yolo"))) == "ask"
        assert kind(authorize(change, ruled(f"allow write({rule})", mode="ask"))) == "ask"


@each_row("name", _OPEN)
def test_what_only_looks_like_a_secret_is_read(name: str) -> None:
    assert not is_secret(f"{ROOT}/{name}")
    assert isinstance(authorize(ReadPath(f"{ROOT}/{name}", name), ruled(mode="ask")), Allow)
    assert isinstance(run(f"cat {name}", ruled(mode="ask", sandboxed=False)), Allow)


@each_row(
    "path", ["/proc/self/environ", "/proc/1/environ", "/proc/12/mem", "/proc/1/task/2/environ", "/etc/shadow", "/etc/gshadow",
             "/etc/sudoers.d/x", "/etc/ssh/ssh_host_rsa_key", "/proc/kcore"],
)  # fmt: skip
def test_secrets_of_the_system_ask_even_in_yolo(path: str) -> None:
    assert is_secret(path)
    assert isinstance(run(f"cat {path}", ruled(mode="yolo", sandboxed=False)), Ask)
    assert isinstance(authorize(ReadPath(path, path), ruled(mode="yolo")), Ask)


@pytest.mark.parametrize(
    "path",
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/a.pem", "/usr/lib/ssl/cert.pem", "/proc/cpuinfo"],
)
def test_public_certificates_are_no_secrets(path: str) -> None:
    assert not is_secret(path)


@each_row(
    ("rule", "name", "lifts"),
    [
        ("read(.env)", ".env", True), ("read(**/.env)", "sub/.env", True), ("read(**/.env.test)", ".env.test", True),
        ("read(.env.*)", ".env.local", True), ("read(**/*.pem)", "a.pem", True), ("read(.ssh/**)", ".ssh/config", True),
        ("read(**)", ".env", False), ("read", ".env", False), ("read(*)", ".env", False), ("read(sub/**)", "sub/.env", False),
        ("read(.*)", ".env", False), ("read(.env*)", ".env", False), ("read(.env)", "sub/.env", False), ("read(.env)", ".env.local", False),
        ("read(**/*)", ".env", False), ("read(.ssh/../**)", ".env", False), ("write(.env)", ".env", False), ("shell(cat .env)", ".env", False),
    ],
)  # fmt: skip
def test_only_a_rule_that_names_a_secret_lifts_the_question(rule: str, name: str, lifts: bool) -> None:
    given = ruled(f"allow {rule}", mode="ask", sandboxed=False)
    assert isinstance(authorize(ReadPath(f"{ROOT}/{name}", name), given), Allow) is lifts
    assert isinstance(run(f"cat {name}", given), Allow) is lifts
    assert (watched(f"{ROOT}/{name}", name, given) is None) is lifts


def test_a_rule_of_the_users_still_beats_the_lift() -> None:
    assert kind(run("cat .env", ruled("allow read(.env)", "deny read(.env)"))) == "deny"
    assert kind(run("cat .env", ruled("allow read(.env)", "ask read(**/.env)"))) == "ask"


@each_row("line", ["cat *", "cat .e*", "grep -r x .", "rg --hidden x", "head *.json", "wc -l */*"])
def test_what_may_stand_for_a_secret_is_the_sandboxs_to_hide(line: str) -> None:
    assert isinstance(run(line, ruled()), Allow)
    assert kind(run("cat .e*", ruled(mode="yolo", sandboxed=False))) == "ask"
    assert kind(run(f"{line} && docker ps", ruled("allow outside(docker *)"))) == "ask"


@pytest.mark.parametrize("line", ["cat *.py", "ls *.md", "head -3 src/*.ts", "wc -l */*.go"])
def test_a_glob_that_only_meets_open_patterns_asks_nothing(line: str) -> None:
    assert isinstance(run(line, ruled(mode="ask", sandboxed=False)), Allow)


@each_row("line", ["cat id_r*", "cat .env*", "cat client_s*.json", "cat *.pem", "cat .ss*/x", "cat .aws/*"])
def test_a_glob_that_is_aimed_at_secrets_asks(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Ask)


def test_the_patterns_are_the_built_in_rules_and_name_secrets_themselves() -> None:
    assert [rule.text for rule in BUILT_IN] == [f"read({pattern})" for pattern in secret_patterns()]
    assert all(names_a_secret(pattern) for pattern in secret_patterns())


def test_asking_about_a_path_costs_no_more_than_its_length() -> None:
    assert_linear(lambda folders: is_secret("/w" + "/a.env_x" * folders), 200)
