"""Formulas as MathML, which browsers draw by themselves: nothing is fetched, and no script runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Writes a formula within a line."""
    translator.body.append(tex2mathml(node.astext()).strip())
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Writes a formula of its own."""
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True).strip()}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the renderer."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
