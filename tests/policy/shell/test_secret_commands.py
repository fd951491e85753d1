"""A command that prints a secret asks like reading a secret file, in every mode."""

from agent_cli.policy.risk import risk
from agent_cli.protocol.actions import Allow, Ask, Mode, RunCommand
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row

PRINT = (
    "gh auth token", "gh auth status --show-token", "git credential fill", "git -C . credential-store get", "docker-credential-desktop get",
    "gcloud auth print-access-token", "gcloud secrets versions access latest --secret=x", "aws configure get aws_secret_access_key",
    "aws --profile x sts get-session-token", "aws secretsmanager get-secret-value --secret-id x", "az account get-access-token",
    "az keyvault secret show -n x", "kubectl config view --raw", "kubectl -n a get secret b -o yaml", "kubectl get secrets/b -ojson",
    "kubectl get secret b -o=jsonpath='{.data.x}'", "kubectl get cm,secret -o yaml", "kubectl get secret b --template='{{.data}}'",
    "git-credential-osxkeychain get --help", "pulumi config --show-secrets", "chamber export x",
    "chamber read x y", "aws-vault export x", "ansible-vault decrypt a.yml --output -", "rails credentials:show", "gopass otp x",
    "pass show x", "pass mail/x", "op read op://a/b/c", "op item get x", "security find-generic-password -s x -w", "secret-tool lookup a b",
    "vault kv get a/b", "heroku config:get KEY", "sops -d a.yaml", "gpg --export-secret-keys", "npm token create", "/usr/bin/gh auth token",
    "uv run gh auth token", "bash -c 'gh auth token'", "GH auth token", "gh.exe auth token", "gh auth token | cat", "export T=$(gh auth token)",
    "glab auth status -t", "glab config get -h gitlab.com token", "aws configure export-credentials", "aws ssm get-parameter --name x --with-decryption",
    "aws iam create-access-key", "aws eks get-token --cluster-name x", "az storage account keys list -n x", "az acr credential show -n x",
    "oc whoami -t", "kubectl create token x", "gcloud config config-helper", "bw get password x", "lpass show x", "keyring get a b", "op run --raw x",
    "security dump-keychain -d", "doppler secrets get A", "doppler configs tokens create x", "infisical secrets", "infisical export", "flyctl auth token",
    "supabase projects api-keys", "databricks auth token", "ansible-vault view x", "gopass x", "bash -c 'bash -c \"pass show $X\"'",
    'echo "`pass show x`"', "if true; then gh auth token; fi",
    "docker compose config", "docker compose config --no-interpolate", "docker compose convert", "docker compose -f a.yml config --format json", "docker-compose config", "terraform output db_password",
    "terraform output -raw api_key", "tofu -chdir=a output -json Secret", "systemctl --user show-environment", "stripe config --list",
    "netlify env:get A", "railway variables", "firebase functions:secrets:access A", "neonctl connection-string main", "heroku pg:credentials:url",
    "az webapp config appsettings list -n x", "az acr login -n x --expose-token",
    "docker compose config -o 'x --services '", "docker compose config -o 'x -q'", "docker compose config --no-interpolate", "dotenv -f .env.x list", "npx dotenvx get A",
    "docker stack config -c x.yml", "podman secret inspect --showsecret x", "rclone config dump", "age -d -i key x.age", "railway variables -e 'x --set'",
    "aws secretsmanager get-secret-value --secret-id x --query 'a --help b'",
)  # fmt: skip
DO_NOT = (
    "gh auth status", "gh pr list", "git status", "aws configure get region", "aws s3 ls", "kubectl config view", "kubectl get secrets", "pass ls",
    "aws ecr get-login-password | docker login --password-stdin x", "gcloud config list", "vault status", "security list-keychains", "heroku ps",
    "gh auth token --help", "echo gh auth token", "rg 'gh auth token' docs", "X=$(git rev-parse HEAD)", "git credential approve",
    "kubectl create secret generic x", "dotenv run -- make", "podman secret inspect x", "rclone config file", "age -r x a", "kubectl get pods -o=yaml", "kubectl get externalsecrets -o=yaml", "pulumi config",
    "gh help auth token", "chamber list x",
    "docker compose config -q", "docker compose config --services", "docker-compose config --quiet", "docker config ls", "docker compose ps",
    "terraform output -raw url", "terraform output -state=token.tfstate url", "terraform output -json", "systemctl status x", "stripe listen", "netlify env:set A b", "railway variables --set A=b",
    "doppler secrets set A", "infisical secrets set A=b", "pass git log", "gopass insert x", "npm token list", "bw sync", "glab auth login",
)  # fmt: skip


@each_row("line", PRINT)
@each_row("mode", ["ask", "auto-edit", "yolo"])
def test_a_command_that_prints_a_secret_asks(line: str, mode: Mode) -> None:
    for sandboxed in (True, False):
        for rules in ((), ("allow shell",), ("allow shell(gh *)", "allow outside(pass *)")):
            verdict = run(line, ruled(*rules, mode=mode, sandboxed=sandboxed))
            assert isinstance(verdict, Ask), (sandboxed, rules, verdict)
            assert "secret" in verdict.reason or mode == "ask", verdict


@each_row("line", DO_NOT)
def test_other_uses_of_these_programs_run_in_yolo(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Allow)


@each_row(
    ("rule", "line"),
    [
        ("gh auth token", "gh auth token"),
        ("pass show *", "pass show x"),
        ("aws sts assume-role *", "aws sts assume-role --role-arn x"),
    ],
)
def test_only_a_rule_that_names_the_secret_allows_it(rule: str, line: str) -> None:
    assert isinstance(run(line, ruled(f"allow shell({rule})", sandboxed=False)), Allow)
    assert isinstance(run(line, ruled(f"allow outside({rule})", sandboxed=True)), Allow)
    assert kind(run(line, ruled(f"allow shell({rule})", f"deny shell({line})", sandboxed=False))) == "deny"


def test_the_question_offers_that_rule_and_says_what_is_at_stake() -> None:
    asked = run("gh auth token", ruled(mode="yolo", sandboxed=True))
    assert isinstance(asked, Ask) and asked.grant == "outside(gh auth token)"
    assert risk(RunCommand("gh auth token", "/work"), ruled()) == "shows a secret to the model's provider"
