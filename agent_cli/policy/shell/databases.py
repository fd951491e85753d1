"""Find the commands that empty or drop a database: by the arguments of programs that manage one, or by what a
client is told, in words or in a file of statements."""

import re
from collections.abc import Callable

from agent_cli.protocol.lazy_regex import lazy_regex

from .parser import SimpleCommand

QUOTE = frozenset("echo printf git gh grep rg man which type".split())
"""Programs whose words are data."""
_DB_TASK = r" (?:\S+:)?db[:-](?:drop|reset|wipe)[: ]"
"""A task of a project whose name says so, as in a line that cannot be parsed."""
DROPS = (
    r"(?i)\bdrop(?:[\s(.]|_?(?:database|collection|index)|\S{0,99}\.sql\b|$)|\btruncate\b|\bdelete\s+from\b"
    r"|\bdeleteMany|\.remove\("
)
CLIENTS = frozenset("psql mysql mariadb sqlite3 mongosh duckdb clickhouse-client cqlsh sqlcmd".split())
"""Programs that run what they are told, or read, in a database."""
_STATEMENTS = lazy_regex(r"[^\s'\"=]+\.(?:sql|ddl|js)\b")
"""Files of what a database is told."""
EMPTIES: dict[str, str] = {
    **dict.fromkeys(CLIENTS, DROPS),
    **dict.fromkeys(["dropdb", "dropuser"], r" \S"),
    "redis-cli": r"(?i) flush",
    "prisma": r" migrate reset | --(force-reset|accept-data-loss|allow-reset) ",
    "drizzle-kit": r" drop | push\S* .*--force ",
    **dict.fromkeys("npm pnpm yarn bun make just task".split(), _DB_TASK),
    **dict.fromkeys(
        ["rails", "rake"],
        r" db:(drop|reset|purge|setup|schema:load|truncate_all|migrate:reset|seed:replant)\b"
        r"| runner .*\b(delete|destroy)_all\b",
    ),
    "artisan": r" (migrate:(fresh|refresh|reset)|db:wipe) ",
    **dict.fromkeys(["manage.py", "django-admin"], r" (flush|reset_db) | migrate .*zero "),
    "mix": r" ecto\.(drop|reset) ",
    **dict.fromkeys(["sequelize", "sequelize-cli"], r" db:drop\b|:undo:all "),
    "typeorm": r" schema:drop ",
    "knex": r" migrate:rollback .*--all ",
    "console": r" doctrine:(database|schema):drop ",
    **dict.fromkeys(["alembic", "flask"], r" downgrade base "),
    "mongorestore": " --drop ",
    "pg_restore": " (-c|--clean) ",
    **dict.fromkeys(["dotnet", "dotnet-ef"], r" database (drop|update 0) "),
    "goose": " reset ",
    **dict.fromkeys(["dbmate", "diesel", "sqlx"], r" (drop|reset) "),
    "sea-orm-cli": r" migrate (fresh|reset|refresh) ",
    "atlas": " schema clean ",
    "celery": " purge ",
    "flyway": r" clean ",
    "liquibase": r"(?i) drop-?all ",
    "supabase": r" db reset ",
    "mysqladmin": r" drop ",
    "heroku": r" pg:reset ",
}  # fmt: skip
"""Programs that manage a database, and the arguments with which they empty or drop it."""


def empties(name: str, command: SimpleCommand, read: Callable[[str], str]) -> str:
    """Return why a command that empties a database needs approval, also behind what starts it: `npx prisma`,
    `bundle exec rails`, `php artisan`."""
    first: dict[str, int] = {}
    for at, word in enumerate(command.argv if name not in QUOTE else (), start=1):
        first.setdefault(word.rsplit("/", 1)[-1].partition("@")[0], at)
    for tool in EMPTIES.keys() & first.keys():
        told = f" {' '.join((*command.argv[first[tool] :], *command.reads))} "
        if re.search(EMPTIES[tool], told if tool not in CLIENTS else with_files(told, read)):
            return f"`{tool}` drops data"
    return ""


def with_files(told: str, read: Callable[[str], str]) -> str:
    """Return what a database is told, with the text of the files that it names."""
    return "\n".join((told, *map(read, _STATEMENTS.findall(told))))
