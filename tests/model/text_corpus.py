"""Answers as models write them when their server does not turn tool calls into calls, and answers that only
talk about such things. Tools: read_file(path, limit?), shell(command), write_file(path, content),
edit_file(path, edits), list_dir(path?), update_plan(items)."""

from typing import Any

Calls = list[tuple[str, dict[str, Any]]]

READ: Calls = [("read_file", {"path": "a.py"})]
LS: Calls = [("shell", {"command": "ls -la"})]
BOTH: Calls = [*READ, *LS]
CODE = 'def f(x):\n    return {"a": [x, "</p>"]}\n\nif __name__ == "__main__":\n    print(f(1))'
WRITE: Calls = [("write_file", {"path": "f.py", "content": CODE})]
_CODE_JSON = (
    '"def f(x):\\n    return {\\"a\\": [x, \\"</p>\\"]}\\n\\nif __name__ == \\"__main__\\":\\n    print(f(1))"'
)
_READ = '{"name": "read_file", "arguments": {"path": "a.py"}}'
_LS = '{"name": "shell", "arguments": {"command": "ls -la"}}'
_WRITE = f'{{"name": "write_file", "arguments": {{"path": "f.py", "content": {_CODE_JSON}}}}}'
_D = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
_D_END = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
_DSML_READ = '<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path" string="true">a.py</｜DSML｜parameter>\n</｜DSML｜invoke>'
_DSML_LS = '<｜DSML｜invoke name="shell">\n<｜DSML｜parameter name="command" string="true">ls -la</｜DSML｜parameter>\n</｜DSML｜invoke>'
_K = "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>"
_K_END = "<|tool_call_end|><|tool_calls_section_end|>"
_FUNCTION_READ = "<function=read_file>\n<parameter=path>\na.py\n</parameter>\n</function>"
_FUNCTION_LS = "<function=shell>\n<parameter=command>\nls -la\n</parameter>\n</function>"

CALLED: list[tuple[str, str, Calls]] = [
    # Hermes, Qwen
    ("<tool_call>\n" + _READ + "\n</tool_call>", "", READ),
    ("I'll read the file.\n\n<tool_call>\n" + _READ + "\n</tool_call>", "I'll read the file.", READ),
    ("<tool_call>" + _READ + "</tool_call>", "", READ),
    (f"<tool_call>\n{_READ}\n</tool_call>\n<tool_call>\n{_LS}\n</tool_call>", "", BOTH),
    (f"Both.\n<tool_call>\n{_READ}\n</tool_call><tool_call>\n{_LS}\n</tool_call>\n\n", "Both.", BOTH),
    (f"<tool_call>\n{_READ}\n</tool_call><|im_end|>", "", READ),
    (f"<tool_call>\n{_WRITE}\n</tool_call>", "", WRITE),
    (f"<tool_call>\n{_READ}}}\n</tool_call>", "", READ),  # a brace too many
    (f"<tool_call>\n{_READ[:-1]}\n</tool_call>", "", READ),  # a brace too few
    (f"<tool_call>\n{_READ}", "", READ),  # the closing tag was a stop word
    (f"<tool_call>\n{_READ}\n</tool_call>\n<tool_response>\nprint('made up')\n</tool_response>\nIt prints.", "", READ),
    ('<tool_call>\n{"arguments": {"path": "a.py"}, "name": "read_file"}\n</tool_call>', "", READ),
    ('<tool_call>\n{"name": "read_file", "parameters": {"path": "a.py"}}\n</tool_call>', "", READ),
    ('<tool_call>\n{"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\"}"}\n</tool_call>', "", READ),
    (f"<tool_call>\n[{_READ}, {_LS}]\n</tool_call>", "", BOTH),
    (f"Let me see.<tool_call>\n{_READ}\n</tool_call>", "Let me see.", READ),
    (f"<think>\nWhich file? `a.py`\n</think>\n\n<tool_call>\n{_READ}\n</tool_call>", "<think>\nWhich file? `a.py`\n</think>", READ),
    (f"<think>Use <tool_call> now</think><tool_call>\n{_READ}\n</tool_call>", "<think>Use <tool_call> now</think>", READ),
    (f"Run `ls`, then:\n\n```sh\nls\n```\n\n<tool_call>\n{_LS}\n</tool_call>", "Run `ls`, then:\n\n```sh\nls\n```", LS),
    (f"<function_call>\n{_READ}\n</function_call>", "", READ),
    (f"[TOOL_REQUEST]\n{_READ}\n[END_TOOL_REQUEST]", "", READ),
    ('<tool_call>\n{"name": "write_file", "arguments": {"path": "n", "content": "a\nb"}}\n</tool_call>', "",
     [("write_file", {"path": "n", "content": "a\nb"})]),  # raw line break inside a string
    ('<tool_call>\n{"name": "list_dir", "arguments": {}}\n</tool_call>', "", [("list_dir", {})]),
    ('<tool_call>\n{"name": "list_dir"}\n</tool_call>', "", [("list_dir", {})]),
    # the opener lost
    (_READ + "\n</tool_call>", "", READ),
    (f"I'll look.\n\n{_READ}\n</tool_call>", "I'll look.", READ),
    (f"\n{_READ}\n</tool_call>\n<tool_call>\n{_LS}\n</tool_call>", "", BOTH),
    # Qwen 3 Coder
    (f"<tool_call>\n{_FUNCTION_READ}\n</tool_call>", "", READ),
    (f"Now.\n\n<tool_call>\n{_FUNCTION_READ}\n</tool_call>", "Now.", READ),
    (_FUNCTION_READ, "", READ),
    (f"I will.\n\n{_FUNCTION_READ}\n</tool_call>", "I will.", READ),
    (f"<tool_call>\n{_FUNCTION_READ}\n</tool_call>\n<tool_call>\n{_FUNCTION_LS}\n</tool_call>", "", BOTH),
    ("<function=read_file>\n<parameter=path>\na.py\n<parameter=limit>\n20\n</function>", "",
     [("read_file", {"path": "a.py", "limit": 20})]),  # closing tags left out
    (f"<function=write_file>\n<parameter=path>\nf.py\n</parameter>\n<parameter=content>\n{CODE}\n</parameter>\n</function>",
     "", WRITE),
    ('<function=edit_file>\n<parameter=path>\na\n</parameter>\n<parameter=edits>\n[{"old": "x", "new": "y"}]\n</parameter>\n'
     "</function>", "", [("edit_file", {"path": "a", "edits": [{"old": "x", "new": "y"}]})]),
    ("<tool_call><function=read_file><parameter=path>a.py</parameter></function></tool_call>", "", READ),
    ("<function=list_dir>\n</function>", "", [("list_dir", {})]),
    # GLM
    ("<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>", "", READ),
    ("Sure.\n<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n<arg_key>limit</arg_key>\n"
     "<arg_value>5</arg_value>\n</tool_call>", "Sure.", [("read_file", {"path": "a.py", "limit": 5})]),
    # a code block, or plain JSON, as the whole answer
    (f"```json\n{_READ}\n```", "", READ),
    (f"```\n{_READ}\n```\n", "", READ),
    ('```json\n{\n  "name": "shell",\n  "arguments": {\n    "command": "ls -la"\n  }\n}\n```', "", LS),
    (f"```json\n[{_READ}, {_LS}]\n```", "", BOTH),
    (f"```tool_call\n{_READ}\n```", "", READ),
    (f"```json\n{_WRITE}\n```", "", WRITE),
    ('{"name": "read_file", "parameters": {"path": "a.py"}}', "", READ),
    ('{"type": "function", "name": "read_file", "parameters": {"path": "a.py"}}', "", READ),
    ('{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a.py"}}}', "", READ),
    (f"  {_READ}\n", "", READ),
    (f"[{_READ},\n {_LS}]", "", BOTH),
    (f"{_READ}\n{_LS}", "", BOTH),
    (f"{_READ}; {_LS}", "", BOTH),
    # DeepSeek
    (f'{_D}function<｜tool▁sep｜>read_file\n```json\n{{"path": "a.py"}}\n```{_D_END}', "", READ),
    (f'Let me look.{_D}function<｜tool▁sep｜>read_file\n```json\n{{"path": "a.py"}}\n```{_D_END}<｜end▁of▁sentence｜>',
     "Let me look.", READ),
    (f'{_D}read_file<｜tool▁sep｜>{{"path": "a.py"}}{_D_END}', "", READ),
    (f'{_D}read_file<｜tool▁sep｜>{{"path": "a.py"}}<｜tool▁call▁end｜><｜tool▁call▁begin｜>shell<｜tool▁sep｜>'
     f'{{"command": "ls -la"}}{_D_END}', "", BOTH),
    ('<|tool_calls_begin|><|tool_call_begin|>read_file<|tool_sep|>{"path": "a.py"}<|tool_call_end|><|tool_calls_end|>',
     "", READ),
    ('</think>\n\n' + f'{_D}read_file<｜tool▁sep｜>{{"path": "a.py"}}{_D_END}', "</think>", READ),
    (f"<｜DSML｜function_calls>\n{_DSML_READ}\n</｜DSML｜function_calls>", "", READ),
    (f"I'll check.\n\n<｜DSML｜tool_calls>\n{_DSML_READ}\n{_DSML_LS}\n</｜DSML｜tool_calls>", "I'll check.", BOTH),
    (f"<｜DSML｜tool_calls\n{_DSML_READ}\n</｜DSML｜tool_calls>", "", READ),
    ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path" string="true">a.py</｜DSML｜parameter>\n'
     '<｜DSML｜parameter name="limit" string="false">15</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>', "",
     [("read_file", {"path": "a.py", "limit": 15})]),
    ('<function_calls>\n<invoke name="read_file">\n<parameter name="path">a.py</parameter>\n</invoke>\n</function_calls>', "", READ),
    ('<minimax:tool_call>\n<invoke name="shell">\n<parameter name="command">ls -la</parameter>\n</invoke>\n</minimax:tool_call>',
     "", LS),
    # Llama
    ('<|python_tag|>{"name": "read_file", "parameters": {"path": "a.py"}}', "", READ),
    ('<|python_tag|>{"type": "function", "name": "read_file", "parameters": {"path": "a.py"}}<|eom_id|>', "", READ),
    ('<|python_tag|>{"name": "read_file", "parameters": {"path": "a.py"}}; {"name": "shell", "parameters": {"command": "ls -la"}}',
     "", BOTH),
    # Mistral
    (f"[TOOL_CALLS][{_READ}]", "", READ),
    (f"[TOOL_CALLS] [{_READ}, {_LS}]</s>", "", BOTH),
    (f"I'll do that.[TOOL_CALLS][{_LS}]", "I'll do that.", LS),
    ('[TOOL_CALLS]read_file[ARGS]{"path": "a.py"}', "", READ),
    ('[TOOL_CALLS]read_file{"path": "a.py"}[TOOL_CALLS]shell{"command": "ls -la"}', "", BOTH),
    ('[TOOL_CALLS]read_file[CALL_ID]a1b2c3d4e[ARGS]{"path": "a.py"}', "", READ),
    # Kimi
    (f'{_K}{{"path": "a.py"}}{_K_END}', "", READ),
    (f'Reading it now. {_K}{{"path": "a.py"}}{_K_END}', "Reading it now.", READ),
    (f'{_K}{{"path": "a.py"}}<|tool_call_end|><|tool_call_begin|>functions.shell:1<|tool_call_argument_begin|>'
     f'{{"command": "ls -la"}}{_K_END}', "", BOTH),
    (f'好的，让我看看。{_K}{{"path": "a.py"}}{_K_END}', "好的，让我看看。", READ),
]  # fmt: skip
"""Answer, the text that is left of it, its calls."""

_EXAMPLE = f"<tool_call>\n{_READ}\n</tool_call>"

TALKED: list[str] = [
    # talk about the forms
    "Hermes models write <tool_call> and then JSON.",
    "The model opens with `<tool_call>` and closes with `</tool_call>`.",
    f"In one line: `<tool_call>{_READ}</tool_call>` reads a file.",
    f"It ends like this: `<tool_call>{_READ}</tool_call>`",
    f"It ends like this: ``<tool_call>{_READ}</tool_call>``",
    f"An example of the form is <tool_call>{_READ}</tool_call>",
    f"For example <tool_call>{_READ}</tool_call> reads a file.",
    f'The text "<tool_call>{_READ}</tool_call>" was sent.',
    f"The form is:\n\n```\n{_EXAMPLE}\n```",
    f"The form is:\n\n```xml\n{_EXAMPLE}\n```\n\nThat is all.",
    f"The form is:\n\n~~~\n{_EXAMPLE}\n~~~",
    f"The form is:\n\n````md\n```\n{_EXAMPLE}\n```\n````",
    f"The form is:\n\n```\n{_EXAMPLE}",  # the block is never closed
    "The form is:\n\n" + "\n".join(f"    {line}" for line in _EXAMPLE.split("\n")),
    "The form is:\n\n" + "\n".join(f"\t{line}" for line in _EXAMPLE.split("\n")),
    "He wrote:\n\n" + "\n".join(f"> {line}" for line in _EXAMPLE.split("\n")),
    "- the form:\n  ```\n  " + _EXAMPLE.replace("\n", "\n  ") + "\n  ```",
    f"1. `{_READ}`\n2. `{_LS}`",
    f"- {_READ}",
    f"* <tool_call>{_READ}</tool_call>",
    f"<code>{_EXAMPLE}</code>",
    f"<!-- {_EXAMPLE} -->",
    f"(<tool_call>{_READ}</tool_call>)",
    f"Say **<tool_call>{_READ}</tool_call>**",
    f"<think>\nI could write\n{_EXAMPLE}\n",  # thoughts that never end
    f"<think>\n{_EXAMPLE}\n</think>\nDone: nothing to do.",
    # not a known tool, or not its arguments
    '{"name": "read_file", "version": "1.0.0", "description": "a package"}',
    '{"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}',
    '{"name": "list_dir", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "Ada", "arguments": {"path": "a.py"}}',
    '{"path": "a.py"}',
    "{}",
    "[]",
    "[1, 2, 3]",
    '[{"name": "Ada"}, {"name": "Bob"}]',
    # cut off
    f"```json\n{_READ}\n",
    # JSON and code that look like it
    f"Send this:\n\n```json\n{_READ}\n```",
    f"```json\n{_READ}\n```\n\nThis is the request that is sent.",
    f"The answer was:\n{_READ}\nand so on.",
    f"The answer was:\n{_READ}",
    f"{_READ} is what the model sends.",
    f"{_READ}\n\nis what the model sends.",
    "```python\ncalls = [" + _READ + "]\n```",
    "```python\nprint('<tool_call>')\n```",
    "function f() {\n{ return 1; }\n}",
    "See [1] and [TOOL_CALLS] in the docs, or [the guide](https://x.example/[TOOL_CALLS]).",
    f"Mistral writes [TOOL_CALLS][{_READ}] and nothing else.",
    f"Mistral writes: [TOOL_CALLS][{_READ}]",
    "DeepSeek uses <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>.",
    f'Kimi writes: {_K}{{"path": "a.py"}}{_K_END}',
    f'Kimi writes `{_K}{{"path": "a.py"}}{_K_END}`',
    f"Llama writes “<|python_tag|>{_READ}”",
    "Use <invoke name=\"read_file\"> for it.",
    "if a <b and c> d: pass  # <function=x>",
    "<function=read_file> is how it begins.",
    "A generic `List<Map<String, Object>>` and `x < y`.",
    "| form | example |\n|---|---|\n| Hermes | <tool_call>" + _READ + "</tool_call> |",
]  # fmt: skip
"""Answers without calls: every character of them is text."""

UNREADABLE: list[tuple[str, str, str]] = [
    (f"The form is:\n\n{_EXAMPLE}\n\nThe server turns it into a call.", 'read_file', 'behind'),
    (f"<pre>\n{_EXAMPLE}\n</pre>", 'read_file', 'behind'),
    ('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>', 'get_weather', ''),
    ('<tool_call>\n{"name": "read_file", "arguments": {"file": "a.py"}}\n</tool_call>', 'read_file', ''),
    ('<tool_call>\n{"name": "read_file", "arguments": ["a.py"]}\n</tool_call>', 'read_file', ''),
    ('<tool_call>\n{"name": "read_file", "arguments": null}\n</tool_call>', 'read_file', ''),
    ("<tool_call>\nread_file(path='a.py')\n</tool_call>", 'read_file', 'was cut off'),
    ("<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>", 'get_weather', ''),
    ("<function=read_file>\n<parameter=file>\na.py\n</parameter>\n</function>", 'read_file', ''),
    ('[TOOL_CALLS][{"name": "get_weather", "arguments": {}}]', 'get_weather', ''),
    ('<|python_tag|>import os\nprint(os.listdir("."))', '', 'was cut off'),
    ("<tool_call>\n" + _READ[:-10], 'read_file', 'JSON ('),
    ("<tool_call>", '', 'was cut off'),
    ("<tool_call>\n", '', 'was cut off'),
    ("<function=read_file>\n<parameter=path>\na.py\n</parameter>\n", 'read_file', 'was cut off'),
    ("<function=write_file>\n<parameter=path>\nf.py\n</parameter>\n<parameter=content>\nhalf of it", 'write_file', 'was cut off'),
    (f"{_D}function<｜tool▁sep｜>read_file\n```json\n{{\"path\": \"a.py\"}}\n```", 'read_file', 'was cut off'),
    (f'{_K}{{"path": "a', 'read_file', 'JSON ('),
    ("<｜DSML｜function_calls>\n" + _DSML_READ[:-25], 'read_file', 'was cut off'),
    ("[TOOL_CALLS][" + _READ, 'read_file', 'was cut off'),
    # wrong in other ways
    ('<tool_call>\n{"name": "shell", "arguments": {"command": ls}}\n</tool_call>', "shell", "JSON ("),
    ('<tool_call>\n{"name": "shell", "arguments": {"cmd": "ls"}}\n</tool_call>', "shell", ""),
    (f"<tool_call>\n{_LS}\n</tool_call>\nNow I wait for the result.", "shell", "behind"),
    (f"I look.\n<tool_call>\n{_LS}\n</tool_call>\n<tool_call>\nwhat is this?\n</tool_call>", "shell", "behind"),
    (f"{_K}not JSON{_K_END}", "read_file", "was cut off"),
]  # fmt: skip
"""Answer, the tool it names, and words of why its call cannot be read; none where the tool says what is wrong."""
