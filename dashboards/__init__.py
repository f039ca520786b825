"""Draws reports: terminal, Markdown, JSON, figures, HTML. Computes nothing."""
