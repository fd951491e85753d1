"""Secrets made up for tests. They are put together from parts, so that no file of this repository holds a text that
looks like a real token."""

import base64
import random
import string

LETTERS = string.ascii_letters
DIGITS = string.digits
ALNUM = LETTERS + DIGITS
HEX = "0123456789abcdef"
WORD = ALNUM + "_-"


def some(alphabet: str, size: int, seed: object) -> str:
    """`size` random characters, the same for the same seed, with a digit and a capital letter where there are."""
    source = random.Random(f"{seed}{alphabet}{size}")
    text = "".join(source.choices(alphabet, k=size - 2))
    return text[:5] + "7" + text[5:] + ("Q" if "Q" in alphabet else "b" if "b" in alphabet else "4")


def join(*parts: str) -> str:
    """The parts as one; written apart so that no scanner of repositories takes them for a token."""
    return "".join(parts)


def key_block(kind: str = "RSA ", lines: int = 6, seed: int = 0) -> str:
    """A private key block that is none."""
    body = "\n".join(some(ALNUM + "+/", 64, f"{seed}{number}") for number in range(lines))
    return join(
        "-----BEGIN ", kind, "PRIV", "ATE KEY-----\n", body, "\nabcd12==\n-----END ", kind, "PRIV", "ATE KEY-----"
    )


def tokens() -> dict[str, tuple[str, str]]:
    """Kind → a text with a token in it, and the token itself."""
    plain = {
        "anthropic": join("sk-", "ant-", "api03-", some(WORD, 80, 1)),
        "openai": join("s", "k-", some(ALNUM, 48, 2)),
        "openai-project": join("sk-", "proj-", some(WORD, 60, 3)),
        "openai-service": join("sk-", "svcacct-", some(WORD, 60, 4)),
        "openrouter": join("sk-", "or-", "v1-", some(HEX, 64, 5)),
        "github": join("gh", "p_", some(ALNUM, 36, 6)),
        "github-oauth": join("gh", "o_", some(ALNUM, 36, 7)),
        "github-server": join("gh", "s_", some(ALNUM, 36, 8)),
        "github-fine": join("github", "_pat_", some(ALNUM, 22, 9), "_", some(ALNUM, 59, 9)),
        "gitlab": join("gl", "pat-", some(WORD, 20, 10)),
        "gitlab-runner": join("gl", "rt-", some(WORD, 20, 11)),
        "aws-id": join("AK", "IA", some(string.ascii_uppercase + DIGITS, 16, 12)),
        "aws-session-id": join("AS", "IA", some(string.ascii_uppercase + DIGITS, 16, 13)),
        "google": join("AI", "za", some(WORD, 35, 14)),
        "google-oauth": join("ya", "29.", some(WORD, 60, 15)),
        "google-client": join("GOC", "SPX-", some(WORD, 28, 16)),
        "slack-bot": join("xo", "xb-", some(DIGITS, 12, 17), "-", some(ALNUM, 24, 17)),
        "slack-user": join("xo", "xp-", some(DIGITS, 12, 18), "-", some(ALNUM, 24, 18)),
        "stripe": join("sk", "_live_", some(ALNUM, 24, 19)),
        "stripe-test": join("sk", "_test_", some(ALNUM, 24, 20)),
        "stripe-restricted": join("rk", "_live_", some(ALNUM, 24, 21)),
        "stripe-hook": join("whs", "ec_", some(ALNUM, 32, 22)),
        "npm": join("np", "m_", some(ALNUM, 36, 23)),
        "pypi": join("py", "pi-", some(WORD, 90, 24)),
        "huggingface": join("h", "f_", some(ALNUM, 34, 25)),
        "sendgrid": join("S", "G.", some(WORD, 22, 26), ".", some(WORD, 43, 26)),
        "twilio": join("S", "K", some(HEX, 32, 27)),
        "discord": join("M", some(ALNUM, 25, 28), ".", some(ALNUM, 6, 28), ".", some(WORD, 30, 28)),
        "telegram": join("1234567", "890:A", "A", some(WORD, 33, 29)),
        "jwt": join("ey", "J", some(WORD, 20, 30), ".ey", "J", some(WORD, 40, 30), ".", some(WORD, 43, 30)),
        "digitalocean": join("do", "p_v1_", some(HEX, 64, 31)),
        "vault": join("hv", "s.", some(WORD, 30, 32)),
        "databricks": join("da", "pi", some(HEX, 32, 33)),
        "shopify": join("shp", "at_", some(HEX, 32, 34)),
        "xai": join("xa", "i-", some(ALNUM, 80, 35)),
        "groq": join("gs", "k_", some(ALNUM, 52, 36)),
        "perplexity": join("pp", "lx-", some(ALNUM, 48, 37)),
        "nvidia": join("nv", "api-", some(WORD, 60, 38)),
        "replicate": join("r", "8_", some(ALNUM, 37, 39)),
        "grafana": join("gl", "sa_", some(ALNUM, 32, 40)),
        "linear": join("lin", "_api_", some(ALNUM, 40, 41)),
        "docker": join("dckr", "_pat_", some(WORD, 27, 50)),
        "docker-organization": join("dckr", "_oat_", some(WORD, 32, 51)),
        "atlassian": join("ATA", "TT3x", some(WORD, 180, 52), "=", some(HEX, 8, 52)),
        "notion": join("nt", "n_", some(DIGITS, 11, 53), some(ALNUM, 35, 53)),
        "notion-old": join("sec", "ret_", some(ALNUM, 43, 54)),
        "figma": join("fi", "gd_", some(WORD, 40, 55)),
        "fly": join("fo", "1_", some(WORD, 43, 56)),
        "fly-macaroon": join("Fly", "V1 fm", "2_", some(ALNUM + "+/", 120, 57), "=="),
        "mailgun": join("ke", "y-", some(HEX, 32, 58)),
        "new-relic": join("NR", "AK-", some(string.ascii_uppercase + DIGITS, 27, 59)),
        "terraform": join(some(ALNUM, 14, 60), ".atla", "sv1.", some(WORD, 67, 60)),
        "pulumi": join("pu", "l-", some(HEX, 40, 61)),
        "supabase": join("sb", "p_", some(HEX, 40, 62)),
        "supabase-secret": join("sb", "_secret_", some(WORD, 31, 63)),
        "vercel": join("vc", "p_", some(ALNUM, 56, 64)),
        "vercel-blob": join("ver", "cel_blob_rw_", some(ALNUM, 16, 65), "_", some(ALNUM, 30, 65)),
        "age": join("AGE-SEC", "RET-KEY-1", some(string.ascii_uppercase + DIGITS, 58, 42)),
    }
    found = {kind: (f"value {token} end", token) for kind, token in plain.items()}
    aws = some(ALNUM, 40, 43)
    azure, bus = some(ALNUM + "+/", 86, 48) + "==", some(ALNUM + "+/", 43, 49) + "="
    password, bearer = some(ALNUM, 14, 44), some(ALNUM, 30, 45)
    basic = base64.b64encode(f"user:{some(ALNUM, 12, 46)}".encode()).decode()
    hook = join(some(ALNUM, 9, 47).upper(), "/", some(ALNUM, 11, 47).upper(), "/", some(ALNUM, 24, 47))
    found |= {
        "azure-storage": (f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={azure};E=y", azure),
        "azure-bus": (f"Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={bus}", bus),
        "aws-secret": (f"aws_secret_access_key = {aws}", aws),
        "url": (f"postgres://app:{password}@db.example.com/x", password),
        "bearer": (f"Authorization: Bearer {bearer}", bearer),
        "basic": (f'"authorization": "Basic {basic}"', basic),
        "api-key-header": (f"curl -H 'x-api-key: {bearer}' http://h", bearer),
        "slack-hook": (join("https://hooks.", "slack.com/serv", "ices/", hook), hook),
        "rsa": (key_block(), key_block().splitlines()[2]),
        "openssh": (key_block("OPENSSH "), key_block("OPENSSH ").splitlines()[3]),
        "numbered": (
            "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(key_block().splitlines(), 1)),
            key_block().splitlines()[4],
        ),
        "one-line": (f'{{"key": "{key_block().replace(chr(10), chr(92) + "n")}"}}', key_block().splitlines()[2]),
        "cut-off": ("\n".join(key_block().splitlines()[:4]) + "\n\nnext: nothing\n", key_block().splitlines()[3]),
    }  # fmt: skip
    return found
