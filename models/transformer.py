"""`transformer-s`, `transformer-m`: decoder-only language models of torch's own layers.

Blocks are nn.TransformerEncoderLayer (layer norm first, GELU, no dropout) under a causal mask,
which makes the encoder a decoder; the output layer shares the token embedding's weights.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.model import Batch, Model, batch_generator

INIT_STD = 0.02  # nn.Embedding's own 1.0 gives a first loss in the hundreds with shared weights


@dataclass(frozen=True)
class Preset:
    """Sizes of one model; the feed-forward layer is 4 x width."""

    vocabulary: int
    sequence: int
    width: int
    layers: int
    heads: int


PRESETS = {
    "transformer-s": Preset(vocabulary=2048, sequence=32, width=256, layers=4, heads=4),  # 3.7 M
    "transformer-m": Preset(
        vocabulary=32000, sequence=512, width=768, layers=12, heads=12
    ),  # 110 M
}


class LanguageModel(nn.Module):
    """(n, t) int64 tokens, t <= sequence -> (n, t, vocabulary) logits of the next token."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        self.token = nn.Embedding(preset.vocabulary, preset.width)
        self.position = nn.Parameter(torch.empty(preset.sequence, preset.width))
        layer = nn.TransformerEncoderLayer(
            preset.width,
            preset.heads,
            dim_feedforward=4 * preset.width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.blocks = nn.TransformerEncoder(
            layer, preset.layers, norm=nn.LayerNorm(preset.width), enable_nested_tensor=False
        )
        for parameter in self.parameters():  # the encoder copies one layer: draw each anew
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=INIT_STD)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.size(1)
        # Made here and not kept as a buffer: DDP broadcasts buffers before every forward.
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        hidden = self.token(tokens) + self.position[:length]
        hidden = self.blocks(hidden, mask=mask, is_causal=True)
        return nn.functional.linear(hidden, self.token.weight)


def transformer(name: str) -> Model:
    """The model of that preset."""
    preset = PRESETS[name]
    return Model(
        name=name,
        build=functools.partial(LanguageModel, preset),
        batch=functools.partial(_batch, preset),
        loss=_loss,
    )


def _batch(preset: Preset, n: int, rank: int = 0, step: int = 0, seed: int = 0) -> Batch:
    """Random tokens (n, sequence); the target is the same text one token later."""
    size = (n, preset.sequence + 1)
    generator = batch_generator(seed, rank, step)
    text = torch.randint(0, preset.vocabulary, size, generator=generator)
    return (text[:, :-1].contiguous(),), text[:, 1:].contiguous()


def _loss(output: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy over all n * sequence tokens."""
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())
