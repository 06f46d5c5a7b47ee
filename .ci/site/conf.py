# SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes a web site of the documents: `make site`. The pages are the Markdown files of the repository, unchanged."""

import os
import re

from pygments.lexers.special import TextLexer

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# The sections and their pages: the index of the documents has the only list.
INDEX = "docs/README.md"

with open(os.path.join(REPOSITORY, "Sources/pinproxy/CommandLine/ProgramVersion.swift"), encoding="utf-8") as _file:
    release = version = re.search(r'static let current = "(.*)"', _file.read()).group(1)
project = "pinproxy"
html_title = f"pinproxy {release}"

# MyST reads CommonMark with GitHub's tables, and names headings as GitHub does: a link that works there works here.
extensions = ["myst_parser"]
myst_heading_anchors = 4
source_suffix = {".md": "markdown"}
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**.md", "Examples/**.md", "Benchmarks/README.md",
                    "Tests/afnetworking-and-alamofire.md", "Tests/Schemas/README.md"]
exclude_patterns = [".build", "**/.build", "**/*.docc"]
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
# A block without a language is a command or an output. Pygments knows an older Swift than some of the others.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]

# Pages that the index does not list.
REST = """```{toctree}
:hidden:
:caption: More

docs/README
CHANGELOG
SECURITY
Benchmarks/README
Examples/PinnedConnection/README
Examples/PinnedSession/README
Examples/APIClient/README
Tests/afnetworking-and-alamofire
Tests/Schemas/README
```
"""


def pages():
    """The sections of the index with their pages."""
    with open(os.path.join(REPOSITORY, INDEX), encoding="utf-8") as file:
        sections = file.read().split("\n## ")[1:]
    for section in sections:
        links = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\.md\) \|", section, re.M)
        names = [(title, os.path.normpath(os.path.join(os.path.dirname(INDEX), path))) for title, path in links]
        yield section.split("\n")[0], [(title, path) for title, path in names if path != root_doc]


def prepare(app, document, source):
    """Adds the navigation, of which the page in the repository has no trace, and takes links to folders, which a site has no page for."""
    place = os.path.join(REPOSITORY, os.path.dirname(document))
    source[0] = re.sub(r"\[([^\]]+)\]\(([^)#:\s]+)\)", lambda link: link[1] if os.path.isdir(os.path.join(place, link[2])) else link[0], source[0])
    if document == root_doc:
        trees = [f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "".join(f"{title} </{path}>\n" for title, path in entries) + "```\n"
                 for caption, entries in pages()]
        source[0] += "\n" + "\n".join([*trees, REST])


def add_start(app, exception):
    """A web server's page for the folder."""
    if exception is None:
        with open(os.path.join(app.outdir, "index.html"), "w", encoding="utf-8") as file:
            file.write(f'<!DOCTYPE html><title>pinproxy</title><meta http-equiv="refresh" content="0; url={root_doc}.html">\n')


def setup(app):
    app.connect("source-read", prepare)
    app.connect("build-finished", add_start)
    # Pygments cannot colour it, and it is no error.
    app.add_lexer("mermaid", TextLexer)
