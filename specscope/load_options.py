"""Options of the load that `capture` and `sweep` drive."""

from __future__ import annotations

import click

prompt_tokens = click.option(
    "--prompt-tokens",
    metavar="N",
    type=click.IntRange(1, 1 << 20),
    default=256,
    show_default=True,
    help="Tokens of each prompt (random ones).",
)
tokens = click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(16, 1 << 20),
    default=256,
    show_default=True,
    help="New tokens of each request that is measured.",
)
vocabulary = click.option(
    "--vocabulary",
    metavar="N",
    type=click.IntRange(min=32),
    help="Ids of the prompts lie below N.  [default: the model's, where it is known, else 1000]",
)
