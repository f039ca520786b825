"""The site: `sphinx-build -W docs site`. Every page is in the contents of index.md, or it fails."""

from __future__ import annotations

from specscope import __version__

project = "specscope"
author = "the authors of specscope"
copyright = author
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["*.py"]
nitpicky = True
# Headings are linked by the names that GitHub gives them, down to this level.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "specscope"
html_copy_source = False
html_show_sphinx = False
html_show_sourcelink = False
html_use_index = False
