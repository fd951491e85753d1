"""OpenAI chat completions, and Ollama behind the same shape."""
