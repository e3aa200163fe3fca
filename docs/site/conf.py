"""Sphinx's settings; build.py calls it on the staged pages."""

import pathlib
import re

root = pathlib.Path(__file__).resolve().parents[2]
text = (root / "include/ikebana/detail/version.hpp").read_text()
version = ".".join(re.findall(r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))
release = version
project = "ikebana"
copyright = re.search(r"Copyright.*?\d{4},? (.*)", (root / "LICENSE").read_text())[1]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_heading_anchors = 6
myst_enable_extensions = []
suppress_warnings = []
nitpicky = True
smartquotes = False

highlight_language = "none"  # of blocks without a language, such as what a program prints

html_theme = "furo"
html_title = f"ikebana {version}"
html_static_path = [str(pathlib.Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_use_index = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {"navigation_with_keys": False}


def shorten(app, page, template, context, doctree):
    """In the contents of a page, headings under another one do not repeat it: `step` under
    `Trainer` stands for `Trainer::step`, and a header under `BadValue` for `BadValue: header`."""
    context["toc"] = re.sub(r'(<a class="reference internal" href="#[^"]+">)([^<]*)(?=</a>)',
                            Short(), context.get("toc", ""))


class Short:
    """Replaces links of the contents, in their order."""

    def __init__(self):
        self.outer = None

    def __call__(self, link):
        for mark in ("::", ": "):
            if self.outer and link[2].startswith(self.outer + mark):
                return link[1] + link[2].removeprefix(self.outer + mark)
        self.outer = link[2]
        return link[0]


def setup(app):
    app.connect("html-page-context", shorten, priority=900)
