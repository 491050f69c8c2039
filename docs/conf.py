"""How Sphinx makes the book of these pages: `make book`."""

from __future__ import annotations

import sys
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "extensions"))

project = "debubble"
author = "the authors of debubble"
release = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "play", "llms"]
# For those who change debubble, not for those who use it.
exclude_patterns = ["rules.md", "extensions"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
html_math_renderer = "mathml"
myst_heading_anchors = 4
# Dashes of flags stay dashes.
smartquotes = False

# Docstrings are of Google's style, and what stands between backquotes in them is code.
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
default_role = "code"
# The package imports it, and the book asks nothing.
autodoc_mock_imports = ["numpy"]
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"debubble {release}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["book.css"]

# The page to play with, where it has been built.
play_page = str(ROOT / "web" / "dist" / "index.html")
