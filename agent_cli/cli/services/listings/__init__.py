"""Lists for slash commands and sub-commands: models, tools, configuration keys, traced turns."""
