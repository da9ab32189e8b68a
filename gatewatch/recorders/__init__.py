"""Recorders for gates that keep no log of their own. Each stands alone: copy or import it."""
