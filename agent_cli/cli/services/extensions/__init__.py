"""Skills, commands and other files of the user and the project, for commands and front ends."""
