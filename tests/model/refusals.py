"""What providers really answer when they refuse: status and body, as their documentation and public bug
reports show them, with what each of them means."""

from typing import Any, NamedTuple

from agent_cli.model.types.base import ErrorKind


class Refusal(NamedTuple):
    """One answer of one provider."""

    provider: str
    status: int | None
    """None: inside a stream."""
    body: Any
    kind: ErrorKind
    limit: int | None = None
    """Tokens of the window, where the answer names them."""
    wait_s: float | None = None


def openai(
    message: str, code: str | None = None, type: str = "invalid_request_error", **more: Any
) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


def anthropic(type: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_011C"}


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"error": {"code": code, "message": message, "status": status, "details": list(details)}}]


def mistral(message: Any, type: str, code: str | None = None) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": type, "param": None, "code": code}


def azure(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def quota_failure(quota: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


_CURRENT_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_FILTERED = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
_S0 = "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds."
_FREE = "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"
_TEAM = "Your team 16f2 has either used all available credits or reached its monthly spending limit."
_TPM = "Request too large for model `llama-3.3-70b-versatile` in organization `org_01` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again. Upgrade at https://console.groq.com/settings/billing"
_KEEP = "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"

REFUSALS: tuple[Refusal, ...] = (
    # Anthropic
    Refusal("anthropic", 401, anthropic("authentication_error", "invalid x-api-key"), "auth"),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), "quota"),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-11-01 at 00:00 UTC."), "quota"),
    Refusal("anthropic", 402, anthropic("billing_error", "There is an issue with your billing."), "quota"),
    Refusal("anthropic", 403, anthropic("permission_error", "Your API key does not have permission to use the specified resource."), "permission"),
    Refusal("anthropic", 404, anthropic("not_found_error", "model: claude-sonnet-9"), "not_found"),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "messages.1.content.0: unexpected field"), "bad_request"),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"), "bad_request"),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum"), "context_overflow", 200_000),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"), "context_overflow", 200_000),
    Refusal("anthropic", 413, anthropic("request_too_large", "Request exceeds the maximum size"), "too_large"),
    Refusal("anthropic", 429, anthropic("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."), "rate_limit"),
    Refusal("anthropic", 429, anthropic("rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit (https://docs.claude.com/en/api/rate-limits)"), "rate_limit"),
    Refusal("anthropic", 500, anthropic("api_error", "Internal server error"), "server"),
    Refusal("anthropic", 529, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    Refusal("anthropic", None, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    Refusal("anthropic", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy"), "content_filter"),
    # OpenAI, Chat Completions and Responses
    Refusal("openai", 401, openai("Incorrect API key provided: sk-x.", "invalid_api_key"), "auth"),
    Refusal("openai", 401, openai("You have insufficient permissions for this operation. Missing scopes: model.request."), "permission"),
    Refusal("openai", 403, openai("Country, region, or territory not supported", "unsupported_country_region_territory", "request_forbidden"), "permission"),
    Refusal("openai", 404, openai("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"), "not_found"),
    Refusal("openai", 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "unsupported_parameter"), "bad_request"),
    Refusal("openai", 400, openai("max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000."), "bad_request"),
    Refusal("openai", 400, openai("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.", "context_length_exceeded"), "context_overflow", 128_000),
    Refusal("openai", 400, openai("Your input exceeds the context window of this model. Please adjust your input and try again.", "context_length_exceeded"), "context_overflow"),
    Refusal("openai", None, {"response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}}}, "context_overflow"),
    Refusal("openai", 429, openai("Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s. Visit https://platform.openai.com/account/rate-limits to learn more.", "rate_limit_exceeded", "tokens"), "rate_limit", None, 2.0),
    Refusal("openai", 429, openai("Request too large for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Requested 40000.", "rate_limit_exceeded", "tokens"), "context_overflow", 30_000),
    Refusal("openai", None, {"response": {"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached for gpt-5. Please try again in 11.054s."}}}, "rate_limit", None, 11.054),
    Refusal("openai", 429, openai(_CURRENT_QUOTA, "insufficient_quota", "insufficient_quota"), "quota"),
    Refusal("openai", 429, openai("Your credit balance is used up.", "credit_balance_exhausted", "insufficient_quota"), "quota"),
    Refusal("openai", 400, openai("Billing hard limit has been reached", "billing_hard_limit_reached"), "quota"),
    Refusal("openai", 500, openai("The server had an error while processing your request. Please include the request ID req_abc123 in your message.", None, "server_error"), "server"),
    Refusal("openai", 503, openai("The engine is currently overloaded, please try again later", None, "server_error"), "overloaded"),
    Refusal("openai", 503, openai("Slow down", "slow_down", "service_unavailable_error"), "overloaded"),
    Refusal("openai", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_prompt"), "content_filter"),
    Refusal("codex", 429, {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus", "resets_at": 1777936568, "resets_in_seconds": 13872}}, "rate_limit", None, 13872),
    # Azure
    Refusal("azure", 401, azure("401", "Access denied due to invalid subscription key or wrong API endpoint."), "auth"),
    Refusal("azure", 404, azure("DeploymentNotFound", "The API deployment for this resource does not exist."), "not_found"),
    Refusal("azure", 429, azure("429", _S0), "rate_limit", None, 26),
    Refusal("azure", 429, azure("429", "The system is currently experiencing high demand and cannot process your request. Your request exceeds the maximum usage size allowed during peak load. Please retry after 20 seconds."), "overloaded", None, 20),
    Refusal("azure", 400, azure("content_filter", _FILTERED, type=None, status=400, innererror={"code": "ResponsibleAIPolicyViolation"}), "content_filter"),
    # OpenRouter
    Refusal("openrouter", 401, {"error": {"message": "No auth credentials found", "code": 401}}, "auth"),
    Refusal("openrouter", 402, {"error": {"message": "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 4000.", "code": 402}}, "quota"),
    Refusal("openrouter", 403, {"error": {"message": "Input flagged", "code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "x"}}}, "content_filter"),
    Refusal("openrouter", 404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}, "unsupported"),
    Refusal("openrouter", 400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}, "not_found"),
    Refusal("openrouter", 400, {"error": {"message": "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.", "code": 400}}, "context_overflow", 131_072),
    Refusal("openrouter", 400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205000 tokens > 200000 maximum"}}', "provider_name": "Anthropic"}}}, "context_overflow", 200_000),
    Refusal("openrouter", 429, {"error": {"message": _FREE, "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "90"}}}}, "rate_limit", None, 90),
    Refusal("openrouter", None, {"error": {"message": "Rate limited upstream", "code": 429}}, "rate_limit"),
    Refusal("openrouter", 502, {"error": {"message": "Provider returned error", "code": 502}}, "server"),
    Refusal("openrouter", 200, {"error": {"message": "No instances available", "code": 503}}, "overloaded"),
    # Gemini, OpenAI-compatible
    Refusal("gemini", 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}), "auth"),
    Refusal("gemini", 403, google(403, "PERMISSION_DENIED", "Generative Language API has not been used in project 1 before or it is disabled."), "permission"),
    Refusal("gemini", 400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "permission"),
    Refusal("gemini", 404, google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1main"), "not_found"),
    Refusal("gemini", 400, google(400, "INVALID_ARGUMENT", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576)."), "context_overflow", 1_048_576),
    Refusal("gemini", 429, google(429, "RESOURCE_EXHAUSTED", _CURRENT_QUOTA + " Please retry in 47.434392449s.", quota_failure("GenerateContentPaidTierInputTokensPerModelPerMinute"), retry_info("47s")), "rate_limit", None, 47),
    Refusal("gemini", 429, google(429, "RESOURCE_EXHAUSTED", _CURRENT_QUOTA, quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), retry_info("30s")), "quota"),
    Refusal("gemini", 503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), "overloaded"),
    Refusal("gemini", 500, google(500, "INTERNAL", "An internal error has occurred."), "server"),
    # DeepSeek
    Refusal("deepseek", 401, openai("Authentication Fails, Your api key: ****abcd is invalid", "invalid_request_error", "authentication_error"), "auth"),
    Refusal("deepseek", 402, openai("Insufficient Balance", "invalid_request_error", "unknown_error"), "quota"),
    Refusal("deepseek", 400, openai("Model Not Exist", "invalid_request_error"), "not_found"),
    Refusal("deepseek", 400, openai("This model's maximum context length is 131072 tokens. However, you requested 200000 tokens (190000 in the messages, 10000 in the completion).", "invalid_request_error"), "context_overflow", 131_072),
    Refusal("deepseek", 422, openai("Failed to deserialize the JSON body into the target type: messages[1]: missing field", "invalid_request_error"), "bad_request"),
    # Mistral
    Refusal("mistral", 401, {"detail": "Unauthorized"}, "auth"),
    Refusal("mistral", 400, mistral("Invalid model: foo", "invalid_model", "1500"), "not_found"),
    Refusal("mistral", 422, mistral({"detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "Extra inputs are not permitted"}]}, "invalid_request_error"), "bad_request"),
    Refusal("mistral", 400, mistral("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "invalid_request_error", "3051"), "context_overflow", 32_768),
    Refusal("mistral", 429, mistral("Rate limit exceeded", "rate_limited", "1300"), "rate_limit"),
    Refusal("mistral", 429, mistral("Service tier capacity exceeded for this model.", "invalid_request_error"), "overloaded"),
    # Groq
    Refusal("groq", 401, openai("Invalid API Key", "invalid_api_key"), "auth"),
    Refusal("groq", 404, openai("The model `x` does not exist or you do not have access to it.", "model_not_found"), "not_found"),
    Refusal("groq", 400, openai("The model `mixtral` has been decommissioned and is no longer supported.", "model_decommissioned"), "not_found"),
    Refusal("groq", 413, openai(_TPM, "rate_limit_exceeded", "tokens"), "context_overflow", 12_000),
    Refusal("groq", 429, openai("Rate limit reached for model `x` on tokens per minute (TPM): Limit 6000, Used 5000, Requested 1200. Please try again in 1m2.5s.", "rate_limit_exceeded", "tokens"), "rate_limit", None, 62.5),
    Refusal("groq", 400, openai("Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", "tool_use_failed", failed_generation="<function=x>"), "malformed"),
    Refusal("groq", 498, openai("Flex tier capacity exceeded"), "overloaded"),
    # xAI
    Refusal("xai", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***. You can obtain an API key from https://console.x.ai."}, "auth"),
    Refusal("xai", 403, {"code": "x", "error": "You have run out of credits or need a Grok subscription."}, "quota"),
    Refusal("xai", 429, {"code": "Some resource has been exhausted", "error": _TEAM}, "quota"),
    Refusal("xai", 404, {"code": "The requested resource was not found", "error": "The model grok-9 does not exist"}, "not_found"),
    Refusal("xai", 400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens."}, "context_overflow", 131_072),
    # other hosts
    Refusal("moonshot", 400, openai("Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)"), "context_overflow", 131_072),
    Refusal("moonshot", 429, openai("Your account is suspended, please check your plan and billing details", None, "exceeded_current_quota_error"), "quota"),
    Refusal("zai", 429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}}, "quota"),
    Refusal("zai", 429, {"error": {"code": "1309", "message": "The plan has expired and cannot be used for now."}}, "quota"),
    Refusal("zai", 429, {"error": {"code": "1310", "message": "The weekly limit is exhausted. It will reset at 2026-12-01 00:00:00"}}, "quota"),
    Refusal("zai", 429, {"error": {"code": "1311", "message": "The current plan does not include this model."}}, "permission"),
    Refusal("zai", 400, {"error": {"code": "1211", "message": "Check the code of the model."}}, "not_found"),
    Refusal("zai", None, {"error": {"code": "1308", "message": "The limit of 5 hours is reached."}}, "rate_limit"),
    Refusal("zai", 429, {"error": {"code": "1302", "message": "High concurrency usage of this API."}}, "rate_limit"),
    Refusal("cerebras", 400, {"message": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}, "context_overflow", 8192),
    Refusal("cerebras", 429, {"message": "Requests per minute limit exceeded", "type": "too_many_requests_error", "param": "quota", "code": "request_quota_exceeded"}, "rate_limit"),
    Refusal("together_ai", 422, openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens"), "context_overflow", 8193),
    Refusal("huggingface", 422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500", "error_type": "validation"}, "context_overflow", 1024),
    Refusal("github_copilot", 400, {"error": {"message": "prompt token count of 93854 exceeds the limit of 90000", "param": "", "code": "", "type": ""}}, "context_overflow", 90_000),
    Refusal("tabby_api", None, {"error": {"message": "Request length 71599 + 2048 is greater than max_seq_len 65536", "trace": "Traceback"}}, "context_overflow", 65_536),
    Refusal("cohere", 400, {"message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value."}, "context_overflow", 2048),
    Refusal("zai", 400, {"error": {"code": "1210", "message": "Prompt exceeds max length"}}, "context_overflow"),
    Refusal("openai", 400, openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 278432 tokens. Please reduce the length of the messages.", "context_length_exceeded"), "context_overflow", 272_000),
    Refusal("fireworks_ai", 400, openai("The prompt is too long: 140000, model maximum context length: 131071"), "context_overflow", 131_071),
    Refusal("dashscope", 400, openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", "invalid_parameter_error"), "context_overflow", 129_024),
    Refusal("github", 413, openai("Request body too large for gpt-4.1 model. Max size: 8000 tokens.", "tokens_limit_reached"), "context_overflow", 8000),
    # LiteLLM's proxy
    Refusal("litellm", 400, {"error": {"message": "No connected db.", "type": "no_db_connection", "param": None, "code": "400"}}, "auth"),
    Refusal("litellm", 503, {"error": {"message": "Service Unavailable, the authentication database is temporarily unreachable.", "type": "no_db_connection", "param": "None", "code": "503"}}, "overloaded"),
    Refusal("litellm", 401, {"error": {"message": "Authentication Error - Expired Key. Key Expiry time 2026-11-01", "type": "expired_key", "param": "sk-...abcd", "code": "401"}}, "auth"),
    Refusal("litellm", 403, {"error": {"message": "The model gpt-5 is not available for this key.", "type": "key_model_access_denied", "param": "model", "code": "403"}}, "permission"),
    Refusal("litellm", 400, {"error": {"message": "Budget has been exceeded! Current cost: 1.2, Max budget: 1.0", "type": "budget_exceeded", "param": None, "code": "400"}}, "quota"),
    Refusal("litellm", 422, {"error": {"message": "Budget has been exceeded! Current cost: 1.2, Max budget: 1.0", "type": "budget_exceeded", "param": None, "code": "422"}}, "quota"),
    Refusal("litellm", 429, {"error": {"message": "Budget has been exceeded! Current cost: 1.2, Max budget: 1.0", "type": "budget_exceeded", "param": None, "code": "429"}}, "quota"),
    Refusal("litellm", 429, {"error": {"message": "No deployments available for selected model, Try again in 5 seconds. Passed model=gpt-5", "type": "None", "param": "None", "code": "429"}}, "rate_limit", None, 5.0),
    # local servers
    Refusal("ollama", 404, openai('model "qwen9" not found, try pulling it first', None, "not_found_error"), "not_found"),
    Refusal("ollama", 400, openai("registry.ollama.ai/library/gemma:2b does not support tools", None, "api_error"), "unsupported"),
    Refusal("ollama", 500, openai("model requires more system memory (39.4 GiB) than is available (30.0 GiB)", None, "api_error"), "unsupported"),
    Refusal("ollama", 400, openai("the input length exceeds the context length", None, "api_error"), "context_overflow"),
    Refusal("ollama", 500, openai("llama runner process has terminated: exit status 2", None, "api_error"), "server"),
    Refusal("lm_studio", 400, {"error": _KEEP}, "context_overflow"),
    Refusal("lm_studio", None, {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}, "context_overflow", 7424),
    Refusal("lm_studio", 400, {"error": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough."}, "context_overflow", 7866),
    Refusal("lm_studio", 404, openai("No models loaded. Please load a model in the developer page or use the `lms load` command.", "model_not_found"), "not_found"),
    Refusal("lm_studio", 200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, "not_found"),
    Refusal("hosted_vllm", 400, {"object": "error", "message": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.", "type": "BadRequestError", "code": 400}, "context_overflow", 8192),
    Refusal("hosted_vllm", 400, openai("'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 40960 tokens and your request has 38000 input tokens.", "400", "BadRequestError"), "context_overflow", 40_960),
    Refusal("hosted_vllm", 400, openai("The decoder prompt (length 9000) is longer than the maximum model length of 8192.", "400", "BadRequestError"), "context_overflow", 8192),
    Refusal("hosted_vllm", 404, openai("The model `x` does not exist.", "404", "NotFoundError"), "not_found"),
    Refusal("hosted_vllm", 400, openai('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "400", "BadRequestError"), "unsupported"),
    Refusal("hosted_vllm", 401, {"error": "Unauthorized"}, "auth"),
    Refusal("llamacpp", 400, {"error": {"code": 400, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error", "n_prompt_tokens": 14429, "n_ctx": 8192}}, "context_overflow", 8192),
    Refusal("llamacpp", 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, "overloaded"),
    Refusal("llamacpp", 500, {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}, "unsupported"),
    Refusal("llama-cpp-python", 400, openai("Requested tokens (2285) exceed context window of 2048", "context_length_exceeded"), "context_overflow", 2048),
)  # fmt: skip
