"""Low-rank adaptation (LoRA, Hu et al. 2022) of a frozen pretrained encoder, with a head for the task."""

import math
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from ntkfl.training.model import Model, Request
from ntkfl.training.models.encoder import PAD, Encoder, packaged_folder, read_encoder
from ntkfl.training.tree import Params

ADAPTED = ("query", "value")


def minilm_lora(request: Request) -> Model:
    """LoRA on the packaged MiniLM: "minilm-lora:RANK", rank 8 by default.

    MiniLM replaces the RoBERTa-base of FedGuCci's Table 3, whose weights no package ships.

    Raises:
        FileNotFoundError: the package with the weights is not installed.
        ValueError: inputs that are not tokens.
    """
    return low_rank(request, packaged_folder())


def low_rank(request: Request, folder: Path) -> Model:
    """LoRA on the encoder in a folder. A linear head and adapters of the queries and values of all layers are trained.

    Each linear map W x to queries or values becomes W x + B A x, with A (r, w) and B (w, r). This is LoRA with the
    scale alpha = r. A is random and B zero at first, so that training begins at the pretrained function. The features
    are the mean of the last layer's states over the tokens that are no padding. Inputs are tokens (n, t) as integers,
    padded with 0. The pretrained weights are constants of the model, not parameters.

    Raises:
        FileNotFoundError, ValueError: as `ntkfl.training.models.encoder.read_encoder`; or the inputs are not tokens.

    Source: Hu et al. 2022, sections 4.1 and 4.2; FedGuCci, Table 3 (LoRA on RoBERTa-base).
    """
    (rank,) = request.sizes((8,))
    if len(request.shape) != 1:
        raise ValueError(
            f"the model {request.spec!r} takes rows of tokens; an input of these data has shape {request.shape}"
        )
    encoder = _encoder(folder, request.dtype, str(request.device))
    longest = len(encoder.weights["embeddings.position_embeddings.weight"])
    if request.shape[0] > longest:
        raise ValueError(f"the inputs have {request.shape[0]} tokens; the encoder in {folder} has {longest} positions")
    adapted = [f"encoder.layer.{n}.attention.self.{part}" for n in range(encoder.layers) for part in ADAPTED]
    outputs = () if request.outputs is None else (request.outputs,)

    def initial(seed: int) -> Params:
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape: int) -> Tensor:
            limit = 1 / math.sqrt(shape[-1])
            return (2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1) * limit

        params: Params = {}
        for name in adapted:
            params |= {f"{name}.A": uniform(rank, encoder.width), f"{name}.B": torch.zeros(encoder.width, rank)}
        params |= {"head.weight": uniform(*outputs, encoder.width), "head.bias": torch.zeros(outputs)}
        return {name: value.to(request.device, request.dtype) for name, value in params.items()}

    def features(params: Params, tokens: Tensor) -> Tensor:
        adapters = {name: (params[f"{name}.A"], params[f"{name}.B"]) for name in adapted}
        states, real = encoder.states(tokens, adapters), (tokens != PAD)[..., None]
        return (states * real).sum(1) / real.sum(1).clamp(min=1)

    def head(params: Params, z: Tensor) -> Tensor:
        weight = params["head.weight"]
        return z @ (weight.mT if outputs else weight) + params["head.bias"]

    return Model(request.spec, initial, features, head, ("head.weight", "head.bias"))


@lru_cache(maxsize=2)
def _encoder(folder: Path, dtype: torch.dtype, device: str) -> Encoder:
    return read_encoder(folder, dtype, device)


MODELS = {"minilm-lora": minilm_lora}
