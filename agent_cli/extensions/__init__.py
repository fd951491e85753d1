"""Extensions that the user and the project add in files: discovery, parsing and trust."""
