"""The symbols of the formulas. Each is a sympy symbol, and the glossary gives it a long name and a meaning."""

import sympy as sp


def _real(name: str) -> sp.Symbol:
    return sp.Symbol(name, positive=True)


n, m, d = (_real(s) for s in "nmd")
N, K, t, T = (_real(s) for s in "NKtT")
R, delta, sigma = _real("R"), _real("delta"), _real("sigma")
eta_local, eta_global = sp.symbols("eta_l eta_g", positive=True)
rho, lam, mu, kappa = sp.symbols("rho lambda mu kappa", positive=True)
r0, r_t, r_next = sp.symbols("r_0 r_t r_{t+1}", positive=True)
r_client, r_local = sp.symbols("r_c r^{(k)}", positive=True)
label_bound = _real("Y")
# FedGuCci: networks drawn in a cube around an anchor
h, l, b = (_real(s) for s in "hlb")  # noqa: E741 (the paper's name)
side, anchor_norm = sp.symbols("d_cube d_anc", positive=True)
alpha, n_parameters = sp.symbols("alpha S", positive=True)

GLOSSARY: dict[sp.Symbol, tuple[str, str]] = {
    n: ("n", "number of training samples"),
    d: ("d", "number of input features"),
    m: ("width", "number of hidden neurons"),
    N: ("n_clients", "number of clients"),
    K: ("local_steps", "local steps per round"),
    t: ("round", "communication round, 0..T"),
    T: ("rounds", "number of communication rounds"),
    eta_local: ("eta_local", "clients' step size, on the SUM of squares over the client's samples"),
    eta_global: ("eta_global", "server's step size, on the unweighted mean of the clients' updates"),
    rho: ("rho", "eta_global eta_local K / N"),
    sigma: ("sigma", "standard deviation of the initial hidden weights"),
    lam: ("smallest_eigenvalue", "smallest eigenvalue of H(0), or of H_inf where the statement says so"),
    mu: ("largest_eigenvalue", "largest eigenvalue of the same matrix"),
    kappa: ("condition_number", "mu / lambda"),
    r0: ("residual_norm[0]", "|y - y(0)|_2"),
    r_t: ("residual_norm[t]", "|y - y(t)|_2"),
    r_next: ("residual_norm[t+1]", "|y - y(t+1)|_2"),
    r_client: ("client residual norm", "|y_c - y_c(t)|_2, the client's part of the residual"),
    r_local: ("local residual norm", "|y - y^{(k)}(t)|_2, every sample seen by its own client after k local steps"),
    R: ("radius", "bound on how far any weight vector moves"),
    delta: ("failure probability", "probability that a high-probability statement may fail"),
    label_bound: ("label bound", "max_i |y_i|"),
    h: ("h", "number of hidden units of f = v . relu(U x)"),
    l: ("l", "number of input features"),
    b: ("b", "largest |x|"),
    side: ("side", "side of the cube around the anchor in which networks are drawn (the paper's d)"),
    anchor_norm: ("anchor norm", "bound on |v_anc|"),
    alpha: ("alpha", "place on the segment alpha w_1 + (1 - alpha) w_2"),
    n_parameters: ("S", "number of parameters, h l + h"),
}
