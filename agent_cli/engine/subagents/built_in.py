"""Built-in types of sub-agents."""

from agent_cli.protocol.agent_types import AgentType

_READERS = ("read_file", "grep", "glob", "list_dir", "repo_map", "shell", "web_fetch", "web_search")

GENERAL = AgentType(
    name="general",
    description="A part of the task that can be done on its own, with all tools.",
    instructions="Do what the task says, and nothing else. Your last message is what the agent that started you"
    " reads: say what you did, what you found, and what is open.",
)
EXPLORE = AgentType(
    name="explore",
    description="Research something in the workspace without filling your own context. It changes nothing.",
    instructions="You look for something in the workspace and change nothing. Search widely, read only what"
    " matters, and end with a short answer that names files and lines.",
    tools=_READERS,
    mode="plan",
)
REVIEW = AgentType(
    name="review",
    description="Look at changes or files with fresh eyes. It changes nothing.",
    instructions="You review and change nothing. Look at what the task names, check each doubt against the code,"
    " and end with the findings that hold, the most serious first, each with file and line and how to see it.",
    tools=_READERS,
    mode="plan",
)
BUILT_IN = (GENERAL, EXPLORE, REVIEW)
