"""Skills, commands and other extension files of the user and the project, for commands and front ends."""
