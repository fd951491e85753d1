import os
import pathlib
import shutil
import subprocess
import tempfile

folder = pathlib.Path(tempfile.mkdtemp())
try:
    here = folder / "work"
    shutil.copytree(".", here, ignore=shutil.ignore_patterns(".git", ".harbor"))
    book, clock = here / "book.txt", [1_000_000_000]
    for path in here.rglob("*"):
        os.utime(path, (clock[0], clock[0]))

    def make(*arguments):
        return subprocess.run(["make", *arguments], cwd=here, capture_output=True, text=True)

    def touch(name, text):
        clock[0] += 100
        (here / name).write_text(text)
        os.utime(here / name, (clock[0], clock[0]))

    def built():
        done = make()
        assert done.returncode == 0, done
        clock[0] += 100
        os.utime(book, (clock[0], clock[0]))
        return book.read_text()

    book.unlink(missing_ok=True)
    assert built() == "* * *\nChapter 1\n* * *\nChapter 2\n* * *\nChapter 3\n", book.read_text()
    assert make("-q").returncode == 0, "a second make rebuilds"
    touch("src/ch2.txt", "Chapter two\n")
    assert "Chapter two\n" in built()
    touch("src/style.txt", "---\n")
    assert built().count("---\n") == 3
    touch("src/ch4.txt", "Chapter 4\n")
    assert built().endswith("---\nChapter 4\n")
    touch("clean", "")
    assert make("clean").returncode == 0
    assert not book.exists(), "make clean does nothing"
finally:
    shutil.rmtree(folder)
print("every check passed")
