"""Wire format OpenAI Responses."""
