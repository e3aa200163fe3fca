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
