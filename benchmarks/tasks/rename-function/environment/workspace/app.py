"""Print the record and the configuration."""

import store.files as files
from store import load as read
from store.config import Config


def main():
    print("record", read("data/record.json"))
    print("again", files.load("data/record.json"))
    print("config", Config.load("data/config.json").values)


if __name__ == "__main__":
    main()
