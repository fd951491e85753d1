"""What LiteLLM is known to lose, one line each. The tests assert each loss, so that an upstream repair is
noticed and the line can go.

Names are those of `scenarios` and of the recordings, by the format they are in. Counts that LiteLLM fills in
with 0, and ids and spaces of arguments that it writes anew, are not counted as losses.
"""

SCENARIOS: dict[str, dict[str, str]] = {
    "chat": {
        "refusal": "the text of a refusal, and that it is one",
        "overloaded_inside": "status and code of an error inside the stream",
        "rate_limited_inside": "status and code of an error inside the stream",
        "failed_inside": "status and code of an error inside the stream",
        "error_in_a_success": "the error in an answer with status 200",
        "web_page": "that the answer is a web page",
    },
    "anthropic": {
        "unknown_finish": "a stop reason it does not know",
        "overloaded_inside": "the type of an error inside the stream",
        "rate_limited_inside": "the type of an error inside the stream",
        "malformed_event": "an event that cannot be read, and the rest of the answer with it",
        "overloaded": "status 529",
        "error_in_a_success": "the error in an answer with status 200",
        "web_page": "that the answer is a web page",
    },
}

RECORDINGS: dict[str, dict[str, str]] = {
    "chat": {
        "content_parts": "content in parts",
        "last_newline_missing": "the last event of a stream without a last empty line",
        "byte_order_mark": "the first event behind a byte order mark",
        "comments_and_pings": "the answer, because of an empty event",
        "refusal": "the text of a refusal, and that it is one",
        "error": "status and code of an error inside the stream",
        "error_with_a_choice": "status and code of an error inside the stream",
        "error_event": "an error without an object of that name",
        "error_in_the_choice": "an error inside a choice",
        "error_object": "an error that says so in its `object`",
        "error_finish": "a finish that is an error",
    },
    "anthropic": {
        "signature_in_pieces": "thinking that comes with the beginning of its block",
        "calls_in_turns": "which of two open calls a piece belongs to",
        "whole_call_in_its_beginning": "arguments that come with the beginning of their block",
        "call_without_an_id": "a call without an id",
        "blocks_and_deltas_nobody_knows": "that the provider ran a call itself",
        "no_stop_reason": "an end without a stop reason",
        "types_in_the_event_names_only": "the type of an event that has it in its name only",
        "wide_characters": "text behind U+2028, which it takes for the end of a line",
        "full_window": "a stop reason it does not know",
        "pause": "a stop reason it does not know",
        "malformed_event": "an event that cannot be read, and the rest of the answer with it",
        "arguments_of_no_call": "that arguments came for no call",
        "overloaded": "the type of an error inside the stream",
        "rate_limited": "the type of an error inside the stream",
        "refused": "the type of an error inside the stream",
        "error_without_an_object": "an error without an object of that name",
        "error_that_is_text": "the text of an error that is no object",
    },
}
