"""Tests of a user's networks: a torch module and a JAX function are the same model, and other objects are refused."""

import re
import warnings
from functools import cache
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn import functional

import ntkfl
from ntkfl import gram, networks
from ntkfl.extensions import ExtensionError
from ntkfl.problem import Problem, Setup
from ntkfl.training import FederatedData, Federation, LocalWork, Model
from ntkfl.training.methods import fed_avg, scaffold
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.own_network import Call
from ntkfl.training.schedules import Exponential

EXACT = 1e-12


def module(outputs=1):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs))


def apply(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"].T + layer["b"])
    return x @ params[-1]["w"].T + params[-1]["b"]


def pytree(of):
    """Returns the parameters of a module for `apply`."""
    return [{"w": part.weight.detach().numpy(), "b": part.bias.detach().numpy()} for part in of if part is not of[1]]


@cache
def in_torch_and_jax(outputs):
    """Returns the two networks, made once because JAX's compiled code is kept with the network."""
    return ntkfl.network(module(outputs)), ntkfl.network(apply, pytree(module(outputs)))


def inputs(n=12, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4))


def federation(model, outputs, at_once, method):
    rng = np.random.default_rng(1)
    y = rng.normal(size=(12, outputs) if outputs > 1 else 12)
    data = FederatedData(torch.tensor(inputs()), torch.tensor(y), np.arange(12) % 5 % 4, 4)
    work = LocalWork(batch_size=None, steps=3)
    return Federation(model, data, method.method(HalfSquares("sum")), Exponential(0.02), work=work, at_once=at_once)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("method", [fed_avg, scaffold], ids=["fed-avg", "scaffold"])
def test_a_jax_function_is_trained_as_the_same_torch_module(outputs, at_once, method):
    ends = []
    for model in in_torch_and_jax(outputs):
        run = federation(model, outputs, at_once, method)
        first, *_, last = islice(run.states(), 6)
        ends.append(model.outputs(last.model, run.data.x))
        assert (ends[-1] - model.outputs(first.model, run.data.x)).abs().max() > 0.1
    assert ends[0].shape == ((12,) if outputs == 1 else (12, outputs))
    assert (ends[0] - ends[1]).abs().max() <= EXACT * ends[0].abs().max()


def test_a_module_is_what_it_was_and_is_not_changed():
    given = module()
    model, x = ntkfl.network(given), torch.tensor(inputs())
    before = {name: value.clone() for name, value in given.state_dict().items()}
    outputs = model.checked_outputs(model.initial(0), x)
    assert outputs.dtype == torch.float64 and outputs.shape == (12,)
    assert torch.allclose(outputs.float(), given(x.float())[:, 0], atol=1e-6)
    model.initial(0)["0.weight"].zero_()
    model.initial(7)
    assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())
    assert given[0].weight.dtype == torch.float32


def test_other_seeds_draw_other_parameters_and_the_same_ones_again():
    model = ntkfl.network(module())
    state = torch.random.get_rng_state()
    first, again, other = model.initial(1), model.initial(1), model.initial(2)
    assert torch.equal(torch.random.get_rng_state(), state)
    for name, value in first.items():
        assert torch.equal(value, again[name]) and not torch.equal(value, other[name])


def test_parameters_of_a_jax_function_may_be_drawn():
    def drawn(seed):
        return {"w": np.random.default_rng(seed).normal(size=4)}

    model = ntkfl.network(lambda params, x: x @ params["w"], drawn)
    for seed in (0, 3):
        assert np.array_equal(model.initial(seed)["w"].numpy(), drawn(seed)["w"])
    other = ntkfl.network(apply, lambda seed: {"w": np.ones(3 + seed)}, name="mine")
    with pytest.raises(ValueError, match="mine has other parameters at seed 3 than at seed 0"):
        other.initial(3)


def test_a_frozen_parameter_stays_and_is_no_part_of_the_kernel():
    given = module()
    given[0].bias.requires_grad_(False)
    model, x = ntkfl.network(given), inputs()
    whole = ntkfl.network(module())
    params, everything = model.initial(0), whole.initial(0)
    assert list(params) == ["0.weight", "2.weight", "2.bias"]
    assert torch.equal(model.outputs(params, torch.tensor(x)), whole.outputs(everything, torch.tensor(x)))
    bias = whole.jacobian(everything, torch.tensor(x))[:, 0, 32:40].numpy()
    kernel = gram.empirical(x, whole, everything) - bias @ bias.T
    assert np.abs(gram.empirical(x, model, params) - kernel).max() < EXACT * kernel.max()


def test_parameters_that_two_layers_share_are_one():
    given = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 1))
    given[2].weight = given[0].weight
    model = ntkfl.network(given)
    assert model.size() == 16 + 4 + 4 + 5
    params, x = model.initial(0), torch.tensor(inputs())
    double = {**given.double().state_dict()}
    assert torch.equal(model.outputs(params, x), functional_call(given, double, (x,), tie_weights=False)[:, 0])


@pytest.mark.parametrize("outputs", [1, 3])
def test_kernels_agree(outputs):
    torchs, jaxs = in_torch_and_jax(outputs)
    x, z = inputs(6), inputs(4, seed=2)
    expected = gram.empirical(x, torchs, torchs.initial(0), z)
    assert expected.shape == (6 * outputs, 4 * outputs)
    assert np.abs(gram.empirical(x, jaxs, jaxs.initial(0), z) - expected).max() <= EXACT * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_derivatives_of_a_jax_function_may_be_nested():
    """Derivatives of a JAX function may be nested, and equal torch's.

    The test has every kind of derivative that the engine, the kernels and a linearised network compute.
    """
    call = Call(lambda a, b, x: (jnp.tanh(x @ a.T) @ b,))
    generator = torch.Generator().manual_seed(0)
    a, b, x, c = (torch.randn(s, generator=generator, dtype=torch.float64) for s in ((4, 3), (4,), (6, 3), (2, 4, 3)))

    def theirs(a, b, x):
        return torch.tanh(x @ a.T) @ b

    def ours(a, b, x):
        return call(a, b, x)[0]

    def found(f):
        yield grad(lambda x: f(a, b, x).square().sum())(x)
        yield from vmap(grad(lambda a, b: f(a, b, x).sum(), (0, 1)), (0, None))(c, b)
        yield vmap(lambda a: vmap(grad(lambda b, row: f(a, b, row[None])[0]), (None, 0))(b, x))(c)
        yield jvp(lambda a: f(a, b, x), (a,), (c[0],))[1]
        yield vmap(lambda t: jvp(lambda a, b: f(a, b, x), (a, b), (t, b))[1])(c)
        yield grad(lambda t: jvp(lambda a: f(a, b, x), (a,), (t,))[1].square().sum())(a)
        yield grad(lambda a: grad(lambda a: f(a, b, x).sum())(a).square().sum())(a)

    for own, expected in zip(found(ours), found(theirs), strict=True):
        assert own.shape == expected.shape
        assert (own - expected).abs().max() <= EXACT * expected.abs().max()


def test_tensors_that_come_back_from_jax_are_nobody_elses():
    given = torch.ones(16, dtype=torch.float64)
    (tensor,) = Call(lambda x: (x,))(given)
    tensor += 1
    assert (given == 1).all()


def test_integers_may_be_inputs_of_a_jax_function():
    def embedded(params, tokens):
        return params["e"][tokens].mean(1) @ params["v"]

    params = {"e": np.random.default_rng(0).normal(size=(9, 3)), "v": np.ones(3)}
    model, tokens = ntkfl.network(embedded, params), np.random.default_rng(1).integers(0, 9, (5, 4))
    counts = np.stack([np.bincount(row, minlength=9) for row in tokens]) / 4
    expected = 3 * counts @ counts.T + counts @ params["e"] @ params["e"].T @ counts.T
    assert np.allclose(gram.empirical(tokens, model, model.initial(0)), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("params", "names"),
    [
        (np.ones(4), ["params"]),
        ((np.ones(4), {"a/b": np.float32(2)}), ["0", "1.a_b"]),
        ({"w": [np.ones(4), 1.0]}, ["w.0", "w.1"]),
    ],
)
def test_any_pytree_is_named_by_its_paths(params, names):
    model = ntkfl.network(lambda own, x: x @ jax.tree.leaves(own)[0] * sum(map(jnp.sum, jax.tree.leaves(own))), params)
    initial = model.initial(0)
    assert list(initial) == names
    assert all(value.dtype == torch.float64 for value in initial.values())
    assert np.isfinite(gram.empirical(inputs(3), model, initial)).all()


class TestFiles:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def write(self, tmp_path, *lines):
        (tmp_path / "mine.py").write_text("\n".join(lines))
        return "mine.py"

    def test_three_lines_are_enough(self, tmp_path):
        path = self.write(
            tmp_path,
            "from torch import nn",
            "",
            "module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))",
        )
        torch.manual_seed(3)
        model = networks.from_file(path)
        assert model.name == "mine.py"
        assert model.checked_outputs(model.initial(0), torch.tensor(inputs())).shape == (12,)
        (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "\n# executed again\n")
        again = networks.from_file(path).initial(0)
        assert all(torch.equal(value, again[name]) for name, value in model.initial(0).items())

    def test_a_jax_function(self, tmp_path):
        path = self.write(tmp_path, "params = {'w': [1.0, 2.0]}", "def apply(p, x): return x @ p['w'][0] + p['w'][1]")
        with pytest.raises(ValueError, match=r"mine.py fails on float64 inputs"):
            networks.from_file(path).checked_outputs(networks.from_file(path).initial(0), torch.tensor(inputs()))
        path = self.write(tmp_path, "params = [[1.0] * 4]", "def apply(p, x): return x[:, 0] * p[0][1]")
        assert list(networks.from_file(path).initial(0)) == ["0.0", "0.1", "0.2", "0.3"]

    def test_a_model(self, tmp_path):
        path = self.write(
            tmp_path,
            "from torch import nn",
            "from ntkfl import network",
            "network = network(nn.Linear(4, 1), name='mine')",
        )
        assert networks.from_file(path).name == "mine"

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (["x = 1"], "mine.py defines none of them; it must define one: network = "),
            (["from ntkfl import network"], "mine.py defines none of them"),
            (["module = 1", "apply = 2"], "mine.py defines module and apply; it must define one"),
            (["module = 1 / 0"], r"mine.py, line 1, `module = 1 / 0`: ZeroDivisionError"),
        ],
    )
    def test_what_is_no_network_file(self, tmp_path, lines, said):
        with pytest.raises(ExtensionError, match=said):
            networks.from_file(self.write(tmp_path, *lines))

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (["module = 3"], "the network is a int; it must be a torch module or a JAX function"),
            (["from torch.nn import Linear as module"], "the network is the class .*: make an instance"),
            (["def apply(p, x): return x"], "mine.py has no params"),
        ],
    )
    def test_what_is_no_network_in_it(self, tmp_path, lines, said):
        with pytest.raises(ValueError, match=said):
            networks.from_file(self.write(tmp_path, *lines))

    def test_no_file(self):
        with pytest.raises(ExtensionError, match=r"none.py cannot be read"):
            networks.from_file("none.py")


class Odd(nn.Module):
    """A linear layer and an operation on its outputs."""

    def __init__(self, after):
        super().__init__()
        self.layer, self.after = nn.Linear(4, 3), after

    def forward(self, x):
        return self.after(self.layer(x))


class Sequence(nn.Module):
    """A recurrent layer over the four numbers of an input, and a readout."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.readout = layer, nn.Linear(3, 1)

    def forward(self, x):
        return self.readout(self.layer(x[..., None])[0][:, -1])


class Clamp(torch.autograd.Function):
    """ReLU by an operation that torch.func cannot map."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0] > 0)


class Then(nn.Module):
    """A module with a function before it and a function after it."""

    def __init__(self, of, before=lambda x: x, after=lambda z: z):
        super().__init__()
        self.of, self.before, self.after = of, before, after
        self.table = torch.eye(4) + 0.1  # This float32 tensor is neither parameter nor buffer.

    def forward(self, x):
        x = self.before(x)
        return self.after(self.of(x @ self.table))


class Tokens(nn.Module):
    """A network for which the four numbers of an input are tokens.

    Its buffers are real, integer and complex; a layer and a readout follow.
    """

    def __init__(self, layer):
        super().__init__()
        self.embed, self.layer, self.readout = nn.Linear(1, 4), layer, nn.Linear(4, 1)
        self.register_buffer("positions", torch.sin(torch.arange(16.0)).reshape(4, 4))
        self.register_buffer("order", torch.tensor([2, 0, 3, 1]), persistent=False)
        self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x):
        tokens = self.embed(x[..., None])[:, self.order] + self.positions
        return self.readout(self.layer((tokens * self.turn).real + (tokens * self.turn).imag).mean(1))


class Renewing(nn.Module):
    """A linear layer minus the mean of earlier inputs.

    In training mode the mean is updated, by a new tensor or in place.
    """

    def __init__(self, in_place):
        super().__init__()
        self.of, self.in_place = nn.Linear(4, 1), in_place
        self.register_buffer("mean", torch.ones(1))

    def forward(self, x):
        z = self.of(x)
        if self.training and self.in_place:
            self.mean.mul_(0.9).add_(z.detach().mean(0), alpha=0.1)
        elif self.training:
            self.mean = 0.9 * self.mean + 0.1 * z.detach().mean(0)
        return z - self.mean


def normed(*after):
    """Returns a network in training mode whose batch norm has statistics of its own."""
    network = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), *after, nn.Linear(5, 2))
    network[1].running_mean.normal_()
    network[1].running_var.uniform_(0.5, 2)
    return network


def encoder_layer(dropout=0.1):
    return nn.TransformerEncoderLayer(4, 2, 8, dropout, batch_first=True)


def less_a_half(x):
    x -= 0.5
    return x


def old_weight_norm(of):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(of)


def in_torchscript(made, *given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return made(*given)


PROBLEM1 = Problem(inputs(), np.sin(np.arange(12.0)), np.arange(12) % 3)
PROBLEM3 = Problem(inputs(), np.sin(np.arange(36.0)).reshape(12, 3), np.arange(12) % 3)
UNUSUAL = {
    "lstm": lambda: Sequence(nn.LSTM(1, 3, batch_first=True)),
    "gru": lambda: Sequence(nn.GRU(1, 3, batch_first=True)),
    "rnn": lambda: Sequence(nn.RNN(1, 3, batch_first=True)),
    "prelu": lambda: nn.Sequential(nn.Linear(4, 5), nn.PReLU(5), nn.Linear(5, 2)),
    "own derivative": lambda: nn.Sequential(Odd(Clamp.apply), nn.Linear(3, 2)),
    "inputs changed in place": lambda: Then(module(2), less_a_half),
    "relu in place first": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 5), nn.ReLU(inplace=True)),
    "weight_norm": lambda: nn.Sequential(old_weight_norm(nn.Linear(4, 3)), nn.Tanh(), nn.Linear(3, 1)),
    "batch norm": lambda: normed(nn.Dropout(0.5)).eval(),
    "positions": lambda: Tokens(nn.Tanh()),
    "traced": lambda: in_torchscript(torch.jit.trace, normed(nn.Dropout(0.5)).eval(), torch.ones(2, 4)),
    "spectral_norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), nn.Tanh()).eval(),
    "encoder layer": lambda: Tokens(encoder_layer()).eval(),
    "encoder": lambda: Tokens(nn.TransformerEncoder(encoder_layer(), 2, enable_nested_tensor=False)).eval(),
    "constants of float32": lambda: Then(module(1), after=lambda z: z + z**2 @ torch.ones(1, 1)),
}


def drawn(kind):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return UNUSUAL[kind]()


def plain(kind):
    """Returns a copy of the module in float64, and its parameters."""
    module = drawn(kind).double()
    if isinstance(module, Then):
        module.table = module.table.double()
    return module, list(module.parameters())


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_unusual_modules_have_the_kernel_and_the_steps_that_plain_autograd_gives(kind, request):
    """Unusual modules have the kernel and the steps that plain autograd gives.

    Plain loops compute the gradient of one output at a time, and a round with two local steps of each client.
    """
    model = ntkfl.network(drawn(kind))
    kernel = gram.empirical(inputs(), model, model.initial(0))
    outputs = model.checked_outputs(model.initial(0), torch.tensor(inputs())).shape[1:]
    problem = Problem(inputs(), np.sin(np.arange(12.0 * np.prod(outputs))).reshape(12, *outputs), np.arange(12) % 3)
    run = ntkfl.simulate_network(problem, Setup(rounds=1, local_steps=2, eta_local=0.01), model)

    module, params = plain(kind)
    request.getfixturevalue("float64")
    x, y = torch.tensor(inputs()), torch.tensor(problem.y.reshape(12, -1))
    flat = module(x.clone()).reshape(-1)
    jacobian = torch.stack(
        [torch.cat([g.flatten() for g in autograd(tensor, params, retain_graph=True)]) for tensor in flat]
    )
    expected = (jacobian @ jacobian.T).numpy()
    assert np.abs(kernel - expected).max() <= EXACT * np.abs(expected).max()
    start, ends = [value.detach().clone() for value in params], []
    for members in problem.members:
        moved(params, start)
        for _ in range(2):
            error = module(x[members].clone()).reshape(len(members), -1) - y[members]
            steps = autograd((error**2).sum() / 2, params)
            moved(params, [value - 0.01 * step for value, step in zip(params, steps, strict=True)])
        ends.append([value.detach().clone() for value in params])
    moved(params, [sum(values) / 3 for values in zip(*ends, strict=True)])
    assert np.abs(run.outputs[1].reshape(12, -1) - module(x.clone()).detach().numpy()).max() < EXACT


def autograd(value, params, **options):
    return torch.autograd.grad(value, params, materialize_grads=True, allow_unused=True, **options)


@torch.no_grad()
def moved(params, values):
    for own, value in zip(params, values, strict=True):
        own.copy_(value)


@pytest.mark.parametrize("kind", ["batch norm", "encoder layer"])
def test_modules_in_eval_mode_are_mapped_over_clients_and_linearised(kind):
    """Modules in eval mode are mapped over clients and linearised.

    torch gives no warning of slow code. The run's own kernel needs the forward derivative, which exists.
    """
    model, outputs = ntkfl.network(drawn(kind)), {"batch norm": (2,), "encoder layer": ()}[kind]
    problem = Problem(inputs(), np.sin(np.arange(12.0 * np.prod(outputs))).reshape(12, *outputs), np.arange(12) % 3)
    start, setup = model.initial(0), Setup(rounds=2, local_steps=2, eta_local=0.01)
    assert model.mappable(start, torch.tensor(inputs()))
    run = ntkfl.simulate_network(problem, setup, model, linearised=True)
    flat = problem.per_output() if outputs else problem
    regime = ntkfl.kernel_regime(flat, setup, gram.empirical(inputs(), model, start))
    exact = regime.trajectory(run.outputs[0].ravel()).outputs
    assert np.abs(run.outputs.reshape(exact.shape) - exact).max() < 1e-11
    assert torch.backends.mha.get_fastpath_enabled() and torch.backends.cuda.flash_sdp_enabled()


def test_statistics_are_those_that_the_module_has_at_every_seed():
    module = normed().eval()
    model, x = ntkfl.network(module), torch.tensor(inputs())
    params = model.initial(1)
    assert not torch.equal(params["0.weight"], model.initial(0)["0.weight"])
    expected = functional_call(module.double(), params, (x,))
    assert (model.outputs(params, x) - expected).abs().max() < EXACT
    assert not any("running" in key for key in params)


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (normed, r"'1' \(BatchNorm1d\) renews its statistics"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1)), r"'1' \(Dropout\) is random"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.RReLU()), r"'1' \(RReLU\) is random"),
        (lambda: Tokens(encoder_layer()), r"'layer.self_attn' \(MultiheadAttention\) is random"),
        (lambda: Sequence(nn.LSTM(1, 3, 2, batch_first=True, dropout=0.5)), r"'layer' \(LSTM\) is random"),
        (
            lambda: in_torchscript(torch.jit.script, normed()),
            "in training mode it renews its buffer '1.num_batches_tracked'",
        ),
        (lambda: Renewing(True), "Renewing fails .*: in training mode it renews its buffer 'mean' in each call"),
        (lambda: Renewing(False), "Renewing fails .*: in training mode it renews its buffer 'mean' in each call"),
        (
            lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 1))),
            "in training mode it renews its buffer '0.parametrizations.weight.0._u' in each call",
        ),
    ],
)
def test_the_one_advice_of_what_is_refused_in_training_mode_works(make, refused):
    def tried(module):
        model = ntkfl.network(module)
        return model.checked_outputs(model.initial(0), torch.tensor(inputs()))

    module = make()
    with pytest.raises(ValueError, match=rf"{refused}.*: call eval\(\) on the module$"):
        tried(module)
    outputs = tried(module.eval())
    expected = module.double()(torch.tensor(inputs()))
    assert (outputs.reshape(expected.shape) - expected).abs().max() < EXACT


def test_a_buffer_that_is_changed_in_eval_mode_too_is_refused():
    class Counting(Renewing):
        def forward(self, x):
            self.mean += 1
            return super().forward(x)

    model = ntkfl.network(Counting(True).eval())
    with pytest.raises(ValueError, match=r"changes its buffer 'mean' in place, in eval mode too; .* with a copy"):
        model.checked_outputs(model.initial(0), torch.tensor(inputs()))


def test_weights_that_are_computed_from_others_are_not_drawn_anew():
    model = ntkfl.network(drawn("weight_norm"))
    with pytest.raises(ValueError, match="cannot be drawn for seed 1: '0' has parameters and no reset_parameters"):
        model.initial(1)


def test_a_column_of_labels_fits_a_network_of_one_output():
    model, y = ntkfl.network(module(1)), PROBLEM1.y
    column = Problem(inputs(), y[:, None], PROBLEM1.owner)
    runs = [ntkfl.simulate_network(problem, Setup(rounds=2, eta_local=0.01), model) for problem in (PROBLEM1, column)]
    assert np.array_equal(*(run.outputs for run in runs)) and runs[1].y.shape == (12,)


class TestRefused:
    def test_no_network(self):
        for odd, said in ((3, "a int"), (nn.Linear, "the class Linear: make an instance"), ("mine", "a str")):
            with pytest.raises(ValueError, match=f"the network is {said}; it must be a torch module or a JAX function"):
                ntkfl.network(odd)
        with pytest.raises(ValueError, match=r"apply has no params; a JAX function apply\(params, x\) needs a pytree"):
            ntkfl.network(apply)
        with pytest.raises(ValueError, match="params are given beside Linear, which has its own"):
            ntkfl.network(nn.Linear(4, 1), {})

    @pytest.mark.parametrize("params", [{}, [], {"a": None}])
    def test_no_parameters(self, params):
        with pytest.raises(ValueError, match="they must be a pytree with at least one array"):
            ntkfl.network(apply, params)

    @pytest.mark.parametrize(("leaf", "kind"), [(np.arange(3), "int64"), (2, "int"), ("a", "str"), (1j, "complex")])
    def test_parameters_that_are_no_real_numbers(self, leaf, kind):
        with pytest.raises(ValueError, match=f"the parameter 'b' of apply is {kind}; parameters must be real numbers"):
            ntkfl.network(apply, {"a": np.ones(3), "b": leaf})

    def test_a_module_without_parameters(self):
        frozen = nn.Linear(4, 1).requires_grad_(False)
        for odd in (nn.ReLU(), frozen):
            with pytest.raises(ValueError, match="has no parameters that can be trained"):
                ntkfl.network(odd)
        with pytest.raises(ValueError, match=r"'0.weight' of Sequential has no shape yet; call the module once"):
            ntkfl.network(nn.Sequential(nn.LazyLinear(3)))

    def test_buffers_without_numbers(self):
        with pytest.raises(
            ValueError, match=r"buffer '1\.running_mean' of Sequential has no shape yet; call the module"
        ):
            ntkfl.network(nn.Sequential(nn.Linear(4, 1), nn.LazyBatchNorm1d(affine=False)).eval())
        with pytest.raises(ValueError, match="buffer 'mean' of Renewing has no numbers: it is on the device 'meta'"):
            module = Renewing(True)
            module.mean = module.mean.to("meta")
            ntkfl.network(module)

    def test_seeds_that_cannot_be_drawn(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(4))

            def forward(self, x):
                return x @ self.scale

        with pytest.raises(ValueError, match="cannot be drawn for seed 1: '1' has parameters and no reset_parameters"):
            ntkfl.network(nn.Sequential(nn.Linear(4, 4), Own())).initial(1)
        with pytest.raises(ValueError, match="apply cannot be drawn for seed 1: its parameters are given"):
            ntkfl.network(apply, pytree(module())).initial(1)

    @pytest.mark.parametrize(
        ("after", "said"),
        [
            (lambda z: z.sum(), r"Odd gives \(\) for 2 samples; its outputs must be of shape \(2,\) or \(2, C\)"),
            (lambda z: z[:, :, None], r"Odd gives \(2, 3, 1\) for 2 samples"),
            (lambda z: z[:1], r"Odd gives \(1, 3\) for 2 samples"),
            (lambda z: (z, z), "Odd gives a tuple of 2 for 2 samples; its outputs must be one tensor of shape"),
            (lambda z: {"logits": z, "loss": z.sum()}, "Odd gives a dict of logits, loss for 2 samples"),
            (lambda z: z * z.shape, "Odd fails on float64 inputs of shape"),
            (lambda z: z.float() @ torch.ones(3, 1), "fails .*; it must compute in the type of its inputs"),
            (lambda z, mask: z * mask, "argument: 'mask'; it is called with the inputs alone: give every other"),
            (lambda z: z[:, :0], r"Odd gives \(2, 0\) for 2 samples"),
            (functional.dropout, "Odd gives other outputs when it is called again"),
            (lambda z: z + torch.randn_like(z), "Odd gives other outputs when it is called again"),
            (lambda z: z - z.mean(0), "Odd gives a sample different outputs alone and beside another sample"),
            (nn.BatchNorm1d(3, affine=False, track_running_stats=False), "Odd gives a sample other|Odd fails"),
            (lambda z: z.detach(), r"Odd has no derivative in any of its parameters \(layer.weight, layer.bias\)"),
            (torch.sign, "Odd has no derivative in any of its parameters"),
            (torch.round, "Odd has no derivative in any of its parameters"),
            (lambda z: z.argmax(1), "Odd has no derivative in any of its parameters"),
            (lambda z: z @ torch.ones(4, 1), "Odd fails on float64 inputs of shape .2, 4.: "),
            (lambda z: z["a"], "Odd fails on float64 inputs"),
        ],
    )
    def test_what_is_no_function_of_a_sample_that_can_be_differentiated(self, after, said):
        model = ntkfl.network(Odd(after))
        with pytest.raises(ValueError, match=said):
            model.checked_outputs(model.initial(0), torch.tensor(inputs()))
        with pytest.raises(ValueError, match=said):
            gram.empirical(inputs(), model, model.initial(0))

    @pytest.mark.parametrize("function", [jax.lax.stop_gradient, jnp.sign, jnp.round])
    def test_a_jax_function_without_a_derivative(self, function):
        model = ntkfl.network(lambda params, x: function(apply(params, x)), pytree(module()), name="mine")
        with pytest.raises(ValueError, match=r"mine has no derivative in any of its parameters \(0.b, 0.w, 1.b, 1.w\)"):
            gram.empirical(inputs(), model, model.initial(0))

    def test_a_jax_function_of_another_output(self):
        model = ntkfl.network(lambda params, x: (apply(params, x),) * 2, pytree(module()), name="mine")
        with pytest.raises(ValueError, match=r"mine fails on .*: it gives a tuple; its outputs must be one array"):
            gram.empirical(inputs(), model, model.initial(0))

    @pytest.mark.parametrize("number", [lambda z: z.sum() > 0, lambda z: float(z[0, 0]), lambda z: z.sum().item()])
    def test_a_jax_function_that_looks_at_numbers(self, number):
        def odd(params, x):
            z = apply(params, x)
            return z if number(z) else 2 * z

        model = ntkfl.network(odd, pytree(module()), name="mine")
        with pytest.raises(ValueError, match=r"mine fails on .*: .*traced array.*: jax.numpy.where in place of if$"):
            gram.empirical(inputs(), model, model.initial(0))

    @pytest.mark.parametrize("number", [lambda z: z.sum().item(), lambda z: z.sum(), lambda z: float(z[0, 0])])
    def test_what_looks_at_numbers(self, number):
        model = ntkfl.network(Odd(lambda z: z * (1.0 if number(z) > 1e9 else 2.0)))
        said = r"Odd cannot be mapped over samples by torch.func: .*use torch.where in place of if"
        with pytest.raises(ValueError, match=said):
            model.jacobian(model.initial(0), torch.tensor(inputs()))
        with pytest.raises(ValueError, match=said):
            ntkfl.simulate_network(PROBLEM3, Setup(rounds=1), model)

    def test_parameters_that_are_no_real_numbers_of_a_module(self):
        class Complex(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.randn(4, dtype=torch.complex64))

        with pytest.raises(ValueError, match=r"parameter 'w' of Complex is torch.complex64; parameters must be real"):
            ntkfl.network(Complex())
        with pytest.raises(ValueError, match="'weight' of Linear has no numbers: it is on the device 'meta'"):
            ntkfl.network(nn.Linear(4, 1, device="meta"))

    def test_what_changes_its_parameters_or_inputs(self):
        class Clamped(Odd):
            def forward(self, x):
                self.layer.weight.data.clamp_(-0.01, 0.01)
                return super().forward(x)

        model = ntkfl.network(Clamped(lambda z: z))
        with pytest.raises(ValueError, match=r"Clamped changes its parameter 'layer.weight' while it computes outputs"):
            model.checked_outputs(model.initial(0), torch.tensor(inputs()))
        moved = Model("moved", lambda seed: {}, lambda p, x: x.sub_(0.5) @ p["a"], lambda _, z: z)
        with pytest.raises(ValueError, match=r"moved changes its inputs in place, as x -= 0.5 .*x = x - 0.5"):
            moved.checked_outputs({"a": torch.ones(4, dtype=torch.float64)}, torch.tensor(inputs()))

    def test_outputs_that_are_not_those_of_the_labels(self):
        with pytest.raises(
            ValueError, match=r"\(12, 10\).*labels have \(12, 3\): give it labels of 10 columns, one-hot"
        ):
            ntkfl.simulate_network(PROBLEM3, Setup(rounds=1), ntkfl.network(module(10)))
        with pytest.raises(
            ValueError, match=r"\(12,\).*give it one label a sample or a network that ends in 3 outputs"
        ):
            ntkfl.simulate_network(PROBLEM3, Setup(rounds=1), ntkfl.network(module(1)))
        broken = module(3)
        with torch.no_grad():
            broken[0].bias[0] = torch.nan
        with pytest.raises(ValueError, match="output of Sequential for sample 0 is not finite before any training"):
            ntkfl.simulate_network(PROBLEM3, Setup(rounds=1), ntkfl.network(broken))

    def test_what_has_no_forward_derivative(self):
        model = ntkfl.network(Odd(Clamp.apply))
        with pytest.raises(ValueError, match=r"Odd cannot be linearised by torch.func.jvp: "):
            ntkfl.simulate_network(PROBLEM3, Setup(rounds=1), model, linearised=True)

    def test_no_samples(self):
        model = ntkfl.network(module())
        with pytest.raises(ValueError, match=re.escape("x has shape (0, 4); Sequential needs at least one sample")):
            model.checked_outputs(model.initial(0), torch.zeros(0, 4))


def test_parameters_that_nothing_depends_on_are_named():
    model = Model("two", lambda seed: {}, lambda params, x: x @ params["a"], lambda _, z: z)
    params = {"a": torch.ones(4, dtype=torch.float64), "b": torch.ones(3), "c": torch.ones(2)}
    with pytest.warns(UserWarning, match="no output of two depends on b, c: not trained"):
        model.checked_outputs(params, torch.tensor(inputs()))


def test_dead_neurons_are_no_reason_to_refuse():
    model = Model("dead", lambda seed: {}, lambda params, x: torch.relu(x @ params["a"]), lambda _, z: z)
    params = {"a": torch.full((4,), -1.0, dtype=torch.float64)}
    assert not model.checked_outputs(params, torch.tensor(np.abs(inputs()))).any()


def test_a_model_is_a_network():
    model = ntkfl.network(module())
    assert ntkfl.network(model) is model
