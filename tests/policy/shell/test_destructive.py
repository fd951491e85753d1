"""Programs whose words say that they delete something for good ask, also in code that runs them."""

from agent_cli.policy.shell.destructive import written_targets
from agent_cli.policy.shell.parser import parse
from agent_cli.protocol.actions import Allow, Ask
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row

DELETES = (
    "terraform state rm x", "terraform -chdir=a destroy", "oc delete pod x", "docker stack rm x", "podman system reset",
    "gh api -X DELETE repos/a/b", "gh api --method=DELETE x", "glab repo delete x", "aws s3 sync . s3://x --delete",
    "gsutil rsync -r -d a gs://x", "fly apps destroy x", "flyctl volumes destroy x", "heroku apps:destroy x", "vercel rm x",
    "netlify sites:delete x", "firebase firestore:delete --all-collections", "wrangler r2 bucket delete x", "npx wrangler delete",
    "wrangler kv:namespace delete x", "railway delete", "supabase projects delete x", "doctl compute droplet delete x",
    "serverless remove", "sls remove", "vagrant destroy -f", "multipass delete x", "virsh undefine x", "minikube delete",
    "kind delete cluster", "rclone purge r:x", "mc rb x", "s3cmd del s3://x", "etcdctl del x", "consul kv delete -recurse x",
    "rabbitmqctl delete_queue x", "kafka-topics.sh --delete --topic x", "zfs destroy x", "lvremove x", "diskutil eraseDisk x", "direnv allow", "mise trust",
    "mount -t tmpfs none x", "mount -a", "mount -o remount,rw /", "mount x",
    "helm upgrade --install x .", "helm -n a install x .", "kubectl rollout undo deploy/x", "kubectl -n a edit deploy x", "kubectl cordon n",
    "kubectl taint nodes n a=b:NoSchedule", "kubectl rollout restart deploy/x", "kubectl set image deploy/x a=b", "kubectl apply --dry-run=none -f x", "ansible-playbook site.yml", "ansible all -a reboot",
    "ansible all -m shell -a 'reboot'", "gh secret set X", "gh api -X PUT repos/a/b/pulls/1/merge", "gh api --method PATCH repos/a/b",
    "terraform state push x", "tofu force-unlock x", "pulumi state delete x",
    "helm upgrade x . --description 'a --dry-run b'", "helm upgrade x . --description --dry-run", "kubectl delete ns x --dry-run=client --dry-run=none",
    "kubectl exec p -- rm -rf /data --dry-run", "kubectl exec p rm /data --dry-run", "kubectl delete ns -- x --dry-run=client",
    "kubectl apply -f x --field-manager --dry-run=client", "ansible all -m shell -a 'reboot # -m ping '", "ansible all -m ping -m shell -a reboot",
    "ansible all -m ping -bmshell -a reboot", "ansible all -m debug -a 'msg={{ lookup(\"pipe\", \"x\") }}'", "ansible-playbook a.yml -e 'x= --check '",
    "helmfile -e prod apply", "helmfile sync", "cdktf destroy", "argocd app delete x", "flux delete ks x", "sst remove", "systemctl stop nginx status", "systemctl -q stop status", "systemctl -H status stop x", "service nginx stop status",
    "git config alias.x 'a' ' --get '",
)  # fmt: skip
STAYS = (
    "terraform state list", "terraform plan", "gh api repos/a/b", "glab mr list", "aws s3 sync . s3://x", "gsutil rsync -r a-d gs://x",
    "fly deploy", "heroku ps", "vercel --prod", "firebase deploy", "wrangler dev", "supabase db push", "vagrant up",
    "minikube start", "rclone copy a r:x", "etcdctl get x", "zfs list", "migrate -path x up", "docker stack ls", "grep -n rm /etc/hosts",
    "curl -o a https://x.y/a; python3 b.py < a", "mount", "mount | grep work", "mount -l -t ext4",
    "helm template x .", "helm upgrade x . --dry-run", "helm upgrade x . --dry-run=server", "kubectl apply --dry-run=client -f x", "kubectl rollout status deploy/x",
    "kubectl config set-context --current --namespace=a", "ansible-playbook --syntax-check site.yml", "ansible-playbook site.yml --check --diff",
    "ansible all --list-hosts", "ansible-playbook -C site.yml", "ansible --version", "gh secret list", "gh api graphql -f query=x",
    "kubectl diff -f x", "terraform state pull",
    "helm upgrade --install --dry-run x .", "helm upgrade x . --set a=b --dry-run", "kubectl delete -f x --dry-run=server", "kubectl drain n --ignore-daemonsets --dry-run",
    "kubectl delete --ignore-not-found --dry-run=client -f x", "systemctl --user status x", "systemctl -n 5 status x",
    "systemctl --no-pager list-units", "service nginx status", "helmfile diff", "argocd app list", "flux get ks",
)  # fmt: skip


@each_row("line", DELETES)
def test_what_deletes_for_good_asks_in_yolo(line: str) -> None:
    verdict = run(line, ruled("allow shell", mode="yolo", sandboxed=False))
    assert isinstance(verdict, Ask) and verdict.rule == "destruction", verdict


@each_row("line", STAYS)
def test_other_uses_of_these_programs_run_in_yolo(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Allow)


@each_row(
    ("line", "expected"),
    [
        ("python -c 'import os; os.system(\"git push --force\")'", "ask"), ("perl -e 'system(\"git reset --hard\")'", "ask"),
        ("node -e 'require(\"child_process\").execFileSync(\"git\", [\"push\", \"-f\"])'", "allow"),
        ("python3 -c 'import subprocess as s; s.run([\"git\", \"clean\", \"-fdx\"])'", "ask"), ("awk 'BEGIN {system(\"git stash drop\")}'", "ask"),
        ("vim -es -c ':!git checkout -- .' f", "ask"), ("tar xf a --to-command='rm -rf x'", "ask"),
        ("python -c 'import os; os.system(\"git push\")'", "allow"), ("rg 'git push --force' docs", "allow"), ("python -c 'git = 1'", "allow"),
    ],
)  # fmt: skip
def test_code_that_makes_git_discard_something_asks_in_yolo(line: str, expected: str) -> None:
    assert kind(run(line, ruled(mode="yolo", sandboxed=False))) == expected


@each_row(
    "line",
    ["tar xf a --to-command='git push'", "tar cf a b --checkpoint-action=exec='git push x'", "tar -cf a -I 'git push' b", "rsync -e 'git push' a b"],
)  # fmt: skip
def test_a_denied_command_is_denied_as_the_program_of_an_option(line: str) -> None:
    assert kind(run(line, ruled("deny shell(git push *)", "allow shell", mode="yolo", sandboxed=False))) == "deny"


@each_row(
    "line",
    [
        "git --config-env=core.pager=X log -p x", "git --config-env alias.x=X x", "git -c remote.origin.mirror=true push",
        "git -c 'remote.origin.push=+refs/heads/*:refs/heads/*' push", "git config remote.origin.mirror true", "git config remote.origin.push +main",
        "git config interactive.diffFilter x", "git -c core.alternateRefsCommand=x fetch", "git config sendemail.smtpServer ./x",
        "git config lfs.customtransfer.x.path y", "git config --rename-section a alias", "git config rename-section a alias",
    ],
)  # fmt: skip
def test_what_makes_git_run_a_program_or_overwrite_what_is_pushed_asks_in_yolo(line: str) -> None:
    verdict = run(line, ruled("allow shell", mode="yolo", sandboxed=False))
    assert isinstance(verdict, Ask) and verdict.rule == "destruction", verdict


@each_row(
    "line",
    [
        "git -c remote.origin.pushurl=x push", "git config remote.origin.pushurl x", "git config lfs.url x", "git fetch --recurse-submodules",
        "git --exec-path", "git read-tree HEAD", "git archive --prefix=a/ HEAD", "git push --recurse-submodules=check", "git config user.name x",
    ],
)  # fmt: skip
def test_other_settings_and_options_of_git_run_in_yolo(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Allow)


@each_row(
    "line",
    [
        "find . -name '*.pyc' -delete", "find . -type d -name __pycache__ -exec rm -rf {} +", "find src tests -name '*.o' -exec rm {} \\;",
        "find . \\( -name '*.pyc' -o -name __pycache__ \\) -delete", "find . -name node_modules -type d -prune -exec rm -rf '{}' +",
        "find . -type f -name '*.py[co]' -delete -o -type d -name __pycache__ -delete", "find . -name '*~' -not -path './.git/*' -delete",
        "find . -not -path '*/.git/*' -name '*.bak' -delete", "find . -name *.pyc -delete", "find src ! -path './.git/*' -name '*.tmp' -delete",
        "find -name '*.pyc' -delete", "find . -name '*~' ! -path './.git/*' -delete",
    ],
)  # fmt: skip
def test_what_tools_leave_behind_in_the_workspace_is_cleared_without_a_question(line: str) -> None:
    assert kind(run(line, ruled(mode="yolo"))) == "allow"
    assert kind(run(line, ruled(mode="ask"))) == "ask"
    for denied in ("./*.pyc", "**/*.o", "**/__pycache__", "**/node_modules", "**/*~"):
        found = kind(run(line, ruled(f"deny write({denied})", mode="yolo")))
        assert (found == "deny") is (denied.removeprefix("./").removeprefix("**/") in line), denied


@each_row(
    "line",
    [
        "find . -delete", "find . -name '*' -delete", "find . -name '*.py' -delete", "find . -name HEAD -delete", "find .. -name '*.pyc' -delete",
        "find / -name '*.bak' -delete", "find . -name '*.pyc' -o -type f -delete", "find . -type f -o -name '*.pyc' -delete",
        "find . -not -name '*.pyc' -delete", "find . ! -name '*.pyc' -delete", "find . -delete -name '*.pyc'", "find -L . -name '*.pyc' -delete",
        "find . \\( -name '*.pyc' -o -type f \\) -delete", "find . \\( -type f -o -name '*.pyc' \\) -delete", "find . -name '*.pyc' , -delete",
        "find . -exec rm {} + -name '*.pyc'", "find . -name '*.pyc' -exec rm -rf . {} +", "find . -name '*.pyc' -exec rm -rf /etc {} +",
        "find . -name '*.pyc' -delete -o -exec rm {} +", "find . -not \\( -name '*.pyc' \\) -delete", "find . -name '*.pyc' -fls out",
        "find . -name '*.pyc' -exec shred {} +", "find . -name '*.pyc' | xargs rm",
        "find . -not -path * -name '*.pyc' -delete", "find . -maxdepth ? -name '*.o' -delete", "find . -name '*.bak' -delete",
        "find . -not -path './.git/*' -name '*.rej' -delete -o -name '*.bak' -delete", "find . -type f -name '*.orig' -exec rm {} +", "find . -name '*.tmp' -not -path './src/*' -delete",
        "reboot -name '*.o' -delete", "zfs destroy tank/home -name '*.o' -delete",
        "find * -name '*.pyc' -delete", "find . -name '*.pyc' -exec rm -rf ~/x \\;",
    ],
)  # fmt: skip
def test_whatever_else_find_deletes_asks_in_yolo(line: str) -> None:
    assert kind(run(line, ruled(mode="yolo"))) == "ask"


@each_row(
    ("line", "files"),
    [
        ("wget -qO x http://a/b", ["x"]), ("wget --output-document=x http://a/b", ["x"]), ("wget -qO- http://a/b", []),
        ("wget -O - http://a/b", []), ("wget -O /dev/null http://a/b", []), ("g++ a.c -o x", ["x"]), ("sort a -o /dev/null", []),
    ],
)  # fmt: skip
def test_a_file_that_an_option_names_is_written_and_standard_output_is_none(line: str, files: list[str]) -> None:
    assert written_targets(parse(line)[0]) == files


@each_row(
    ("line", "why"),
    [
        ("git push origin :old", "rewrite or delete what is on the server"), ("git clone -c core.pager=x y", "runs a program"),
        ("git reset --hard", "discard uncommitted work"),
    ],
)  # fmt: skip
def test_the_question_says_what_a_verb_of_git_could_do(line: str, why: str) -> None:
    verdict = run(line, ruled("allow shell", mode="yolo", sandboxed=False))
    assert isinstance(verdict, Ask) and why in verdict.reason, verdict
