"""What empties or drops a database asks, whether its words, the name of a task or a file of statements say so."""

import os
from pathlib import Path

import msgspec

from agent_cli.policy.authorize import authorize
from agent_cli.protocol.actions import Allow, RunCommand
from tests.policy.support import ruled
from tests.policy.test_authorize import kind, run
from tests.rows import each_row


@each_row(
    "line",
    [
        "npm run db:reset", "yarn db:drop", "pnpm run dev:db:wipe", "make db-reset", "just db-drop", "rails runner 'User.delete_all'",
        "bundle exec rails runner User.destroy_all", "flask db downgrade base", "mongorestore --drop dump", "pg_restore -c -d x f",
        "dotnet ef database drop", "goose reset", "dbmate drop", "diesel database reset", "sqlx database drop", "celery -A x purge",
        "mongosh --eval 'db.dropDatabase()'", "mongosh --eval 'db.a.drop()'", "psql -c 'DROP\nTABLE x'", "psql \"$URL\" -c 'drop index x'",
        "migrate -path x -database y drop -f", "duckdb x.db 'drop table x'", "bin/rails db:schema:load", "rake db:setup", "dotnet ef database update 0", "migrate -path x -database y down", "cqlsh -e 'drop keyspace x'", "sea-orm-cli migrate fresh",
    ],
)  # fmt: skip
def test_words_that_empty_a_database_ask_in_yolo(line: str) -> None:
    assert kind(run(line, ruled("allow shell", mode="yolo", sandboxed=False))) == "ask"


@each_row(
    "line",
    [
        "bin/rails db:prepare", "dotnet ef database update", "migrate -path x -database y down 1",
        "npm run db:migrate", "npm run reset", "make db", "pg_restore -Fc -d x f", "flask db upgrade", "sqlx migrate run",
        "rails runner x.rb", "psql -c 'select dropped_at from drops'", "psql \"$URL\" -c 'select drop_off from a'", "rg 'npm run db:reset' docs", "rg npm db:reset", "pytest -k mongo tests/drop_test.py",
    ],
)  # fmt: skip
def test_other_words_run_in_yolo(line: str) -> None:
    assert isinstance(run(line, ruled(mode="yolo", sandboxed=False)), Allow)


@each_row(
    ("line", "expected"),
    [
        ("psql -f new.sql", "ask"), ("psql --file=new.sql x", "ask"), ("psql < new.sql", "ask"), ("cat new.sql | psql", "ask"),
        ("sqlite3 a.db '.read new.sql'", "ask"), ("mysql -e 'source new.sql'", "ask"), ("cd sub && psql -f ../new.sql", "ask"),
        ("docker compose exec -T db psql < new.sql", "ask"), ("psql -f old.sql", "allow"), ("cat old.sql | psql", "allow"), ("psql -f none.sql", "allow"),
        ("cat new.sql | wc -l", "allow"), ("grep psql new.sql", "allow"),
    ],
)  # fmt: skip
def test_a_file_of_statements_is_read(line: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "new.sql").write_text("begin;\nDROP TABLE users;\n", encoding="utf-8")
    (tmp_path / "old.sql").write_text("create table users (id int);\n", encoding="utf-8")

    def read(path: str) -> str:
        return Path(path).read_text(encoding="utf-8") if os.path.isfile(path) else ""

    facts = msgspec.structs.replace(ruled(mode="yolo", sandboxed=False), roots=(str(tmp_path),), script=read)
    assert kind(authorize(RunCommand(line, str(tmp_path)), facts)) == expected
