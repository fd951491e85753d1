"""Definitions and mentions in the syntax of each language, as queries for tree-sitter grammars."""

import msgspec

_JS = """
(function_declaration name: (identifier) @d)
(generator_function_declaration name: (identifier) @d)
(method_definition name: (property_identifier) @d)
(lexical_declaration (variable_declarator name: (identifier) @d value: [(arrow_function) (function_expression)]))
(program (lexical_declaration (variable_declarator name: (identifier) @d)))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @d))))
"""
_JS_MENTIONS = "[(identifier) (property_identifier) (shorthand_property_identifier)] @m"
_TS = """
(class_declaration name: (type_identifier) @d)
(abstract_class_declaration name: (type_identifier) @d)
(interface_declaration name: (type_identifier) @d)
(type_alias_declaration name: (type_identifier) @d)
(enum_declaration name: (identifier) @d)
"""
_C = """
(function_declarator declarator: (identifier) @d)
(struct_specifier name: (type_identifier) @d body: (_))
(union_specifier name: (type_identifier) @d body: (_))
(enum_specifier name: (type_identifier) @d body: (_))
(type_definition declarator: (type_identifier) @d)
(preproc_def name: (identifier) @d)
(preproc_function_def name: (identifier) @d)
"""
_MENTIONS = "[(identifier) (type_identifier) (field_identifier)] @m"


class Language(msgspec.Struct, frozen=True):
    """One grammar and its two queries."""

    module: str
    """Package of the grammar."""
    definitions: str
    mentions: str
    family: str
    """Names are resolved among languages of the same family."""
    function: str = "language"


PYTHON = Language(
    "tree_sitter_python",
    "(class_definition name: (identifier) @d) (function_definition name: (identifier) @d)"
    "(module (expression_statement (assignment left: (identifier) @d)))",
    "(identifier) @m",
    "python",
)
JAVASCRIPT = Language(
    "tree_sitter_javascript", f"{_JS} (class_declaration name: (identifier) @d)", _JS_MENTIONS, "javascript"
)
TYPESCRIPT = Language(
    "tree_sitter_typescript",
    _JS + _TS,
    f"{_JS_MENTIONS} (type_identifier) @m",
    "javascript",
    "language_typescript",
)
TSX = msgspec.structs.replace(TYPESCRIPT, function="language_tsx")
GO = Language(
    "tree_sitter_go",
    "(function_declaration name: (identifier) @d) (method_declaration name: (field_identifier) @d)"
    "(type_spec name: (type_identifier) @d)"
    "(source_file (var_declaration (var_spec name: (identifier) @d)))"
    "(source_file (const_declaration (const_spec name: (identifier) @d)))",
    _MENTIONS,
    "go",
)
RUST = Language(
    "tree_sitter_rust",
    "(struct_item name: (type_identifier) @d) (enum_item name: (type_identifier) @d)"
    "(union_item name: (type_identifier) @d) (type_item name: (type_identifier) @d)"
    "(trait_item name: (type_identifier) @d) (function_item name: (identifier) @d)"
    "(function_signature_item name: (identifier) @d) (const_item name: (identifier) @d)"
    "(static_item name: (identifier) @d) (macro_definition name: (identifier) @d)",
    _MENTIONS,
    "rust",
)
JAVA = Language(
    "tree_sitter_java",
    "(class_declaration name: (identifier) @d) (interface_declaration name: (identifier) @d)"
    "(enum_declaration name: (identifier) @d) (record_declaration name: (identifier) @d)"
    "(method_declaration name: (identifier) @d)",
    "[(identifier) (type_identifier)] @m",
    "java",
)
C = Language("tree_sitter_c", _C, _MENTIONS, "c")
CPP = Language(
    "tree_sitter_cpp",
    f"""{_C}
    (class_specifier name: (type_identifier) @d body: (_))
    (function_declarator declarator: (field_identifier) @d)
    (function_declarator declarator: (qualified_identifier name: (identifier) @d))
    """,
    _MENTIONS,
    "c",
)
RUBY = Language(
    "tree_sitter_ruby",
    "(method name: (_) @d) (singleton_method name: (_) @d)"
    "(class name: (constant) @d) (module name: (constant) @d)",
    "[(identifier) (constant)] @m",
    "ruby",
)
PHP = Language(
    "tree_sitter_php",
    "(class_declaration name: (name) @d) (interface_declaration name: (name) @d)"
    "(trait_declaration name: (name) @d) (enum_declaration name: (name) @d)"
    "(function_definition name: (name) @d) (method_declaration name: (name) @d)",
    "(name) @m",
    "php",
    "language_php",
)
C_SHARP = Language(
    "tree_sitter_c_sharp",
    "(class_declaration name: (identifier) @d) (interface_declaration name: (identifier) @d)"
    "(struct_declaration name: (identifier) @d) (record_declaration name: (identifier) @d)"
    "(enum_declaration name: (identifier) @d) (method_declaration name: (identifier) @d)",
    "(identifier) @m",
    "c_sharp",
)
BASH = Language("tree_sitter_bash", "(function_definition name: (word) @d)", "(command_name (word) @m)", "bash")

BY_EXTENSION: dict[str, Language] = {
    **dict.fromkeys(("py", "pyi"), PYTHON),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx"), JAVASCRIPT),
    **dict.fromkeys(("ts", "mts", "cts"), TYPESCRIPT),
    "tsx": TSX,
    "go": GO,
    "rs": RUST,
    "java": JAVA,
    "c": C,
    **dict.fromkeys(("h", "cc", "cpp", "cxx", "hh", "hpp", "hxx"), CPP),
    **dict.fromkeys(("rb", "rake"), RUBY),
    "php": PHP,
    "cs": C_SHARP,
    **dict.fromkeys(("sh", "bash"), BASH),
}

PLAIN = frozenset(
    "css dart ex exs hs html kt lua md proto rst scala scss sql svelte swift toml vue yaml yml".split()
)
"""Extensions of files that are ranked only by mentions of their names."""


def language_of(path: str) -> Language | None:
    """Return the language of a file by its name."""
    return BY_EXTENSION.get(extension(path))


def extension(path: str) -> str:
    """Return the extension in lower case, without the dot; empty if there is none."""
    return path.rpartition("/")[2].rpartition(".")[2].lower()
