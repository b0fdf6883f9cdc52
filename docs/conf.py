"""Settings of Sphinx for the site that `make docs` builds: these pages, and one for every public name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import dates
import gallery
import messages
import reference_pages

import dae_sdc

reference_pages.write(Path(__file__).parent / "api")
gallery.write(Path(__file__).parent / "gallery")
messages.write(Path(__file__).parent / "gallery" / "messages.md")

project = "dae_sdc"
author = "The dae_sdc developers"
version = release = dae_sdc.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
exclude_patterns = ["__pycache__", "gallery"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
autodoc_typehints = "none"  # types stand in the section Parameters, and signatures stay short
numpydoc_show_class_members = False  # methods and attributes follow on the page of their class
numpydoc_xref_param_type = False
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "dae_sdc"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
}

ELSEWHERE = {"../benchmarks/README.md": "benchmarks.md", "../CONTRIBUTING.md": "contributing.md"}
"""Files of the source tree that are pages of the site; links in the pages lead to the files."""

SEARCH_WORDS = {
    "checkpoints": ["checkpoint", "resume"],
    "dense_output": ["dense output", "interpolation"],
    "events": ["event", "switch"],
    "from_scipy": ["SciPy", "Assimulo", "solve_ivp"],
    "gallery": ["gallery", "picture"],
    "hard_cases": ["ModelingToolkit", "IDA"],
    "initial": ["inconsistent", "consistent start", "initial values", "projection"],
    "mechanics": ["mechanism", "drift", "constraint"],
    "modelica": ["Modelica"],
    "parallel": ["parallel", "MPI", "mpirun", "PFASST"],
    "reduction": ["index reduction", "dummy derivatives"],
    "short_answers": ["gmin", "PWM"],
    "singularities": ["singular point"],
    "structure": ["index", "degrees of freedom", "structural analysis"],
    "studies": ["CSV", "file", "result", "convergence"],
    "sweeps": ["sweep"],
    "tolerances": ["tolerance", "rtol", "atol", "step size"],
    "troubleshooting": ["error", "message", "warning"],
}
"""Words of the index by the page that a search for them must find first."""


def setup(app: Any) -> None:
    """Date measured tables, let links to files lead to their pages, and enter the words of the index."""

    def complete(app: Any, page: str, source: list[str]) -> None:
        source[0] = dates.dated(Path(__file__).parent / f"{page}.md", source[0], f"dae_sdc {release}")
        for file, instead in ELSEWHERE.items():
            source[0] = source[0].replace(f"]({file}", f"]({instead}")
        title, _, text = source[0].partition("\n")
        entries = "".join(f"\n```{{index}} !{word}\n```\n" for word in SEARCH_WORDS.get(page, ()))
        source[0] = f"{title}\n{entries}{text}"

    app.connect("source-read", complete)
