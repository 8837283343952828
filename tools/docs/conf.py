"""Configures Sphinx for the documentation site; tools/docs.sh copies it to the folder of the pages."""

import json
import os
import pathlib

from pygments import lexer, token

project = "stepfuse"
project_copyright = "the stepfuse maintainers"
release = os.environ["STEPFUSE_VERSION"]
extensions = ["myst_parser"]
exclude_patterns = ["sphinx"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = f"stepfuse {release}"
html_show_sphinx = False
highlight_language = "none"
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # programs with "…" where something is left out

# Maps the names that editors give to pieces of text to those of Pygments.
SCOPES = {
    "comment": token.Comment,
    "string": token.String,
    "keyword": token.Keyword,
    "storage.type": token.Keyword.Declaration,
    "storage.modifier": token.Keyword.Type,
    "constant.language": token.Keyword.Constant,
    "constant.numeric": token.Number,
    "variable": token.Name.Variable,
    "support.function": token.Name.Builtin,
    "entity.name.function": token.Name.Function,
    "entity.name.type": token.Keyword.Type,
    "entity.name.section": token.Name.Label,
}


def token_of(scope):
    return SCOPES[max((s for s in SCOPES if scope.startswith(s)), key=len)]


def lexer_from_grammar(path, language):
    """A lexer with the patterns of an editor's grammar."""
    patterns = json.loads(path.read_text(encoding="utf-8"))["patterns"]
    rules = [(p["match"], token_of(p["name"])) for p in patterns] + [(r"\s+", token.Whitespace), (r"[\w.]+|.", token.Text)]
    return type(language, (lexer.RegexLexer,), {"name": language, "tokens": {"root": rules}})


def setup(app):
    grammars = pathlib.Path(os.environ["STEPFUSE_SOURCE"], "tools", "editor")
    app.add_lexer("opt", lexer_from_grammar(grammars / "opt.tmLanguage.json", "opt"))
    app.add_lexer("step", lexer_from_grammar(grammars / "sf.tmLanguage.json", "step"))
