"""Wire formats OpenAI Chat Completions and Ollama chat."""
