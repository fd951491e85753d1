import pathlib
import subprocess
import tempfile

script = str(pathlib.Path("backup.sh").resolve())


def backup(source, target, cwd):
    return subprocess.run(["sh", script, str(source), str(target)], cwd=cwd, capture_output=True, text=True)


def fill(folder):
    for name in ("a.txt", "two words.txt", "-n.txt", "sub dir/b*.txt", "sub dir/bc.txt", "sub dir/.hidden.txt", "x.md"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


wanted = sorted(["a.txt", "two words.txt", "-n.txt", "sub dir/b*.txt", "sub dir/bc.txt", "sub dir/.hidden.txt"])
with tempfile.TemporaryDirectory() as top:
    top = pathlib.Path(top)
    for source, target in (("src", "out"), ("my src", "my out"), ("src2", "src2/backup"), ("-src3", "-out3")):
        fill(top / source)
        (top / target).mkdir()
        (top / target / "keep.md").write_text("kept")
        for _ in range(2):
            done = backup(source, target, top)
            assert done.returncode == 0 and done.stdout.strip() == "6", (source, target, done)
        assert names(top / target) == sorted([*wanted, "keep.md"]), names(top / target)
        assert (top / target / "sub dir/b*.txt").read_text() == "sub dir/b*.txt"
    fill(top / "abs")
    assert backup(top / "abs", top / "new" / "deep", "/").stdout.strip() == "6"
    assert names(top / "new" / "deep") == wanted
    done = backup(top / "missing", top / "none", top)
    assert done.returncode == 1 and done.stderr.strip() and not (top / "none").exists(), done
print("every check passed")
