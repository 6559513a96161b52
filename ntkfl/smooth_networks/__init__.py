"""A proof, from one checkpoint, that a smooth network trained in all its layers fits its data in any order of training.

The network has layers z_k = scale_k W_k h_(k-1) + bias_scale_k b_k, h_k = phi_k(z_k). Every phi_k either is twice
continuously differentiable with bounded first two derivatives, or is ReLU. With ReLU the proof needs that on no sample
a pre-activation reaches the kink at 0 (`ntkfl.smooth_networks.layers`). W_k may be a convolution, and a residual block
adds its input to its output. The vector theta has the trained parameters, f has the outputs on all samples, J is the
derivative of f by theta, and r = y - f. In the ball of radius rho about the checkpoint, L_i bounds the norm of the
Hessian of output i, and J has the Lipschitz constant L_J.

A step adds sum_B eta_i r_i grad f_i to theta, where B is any batch of distinct samples, and 0 <= eta_i <= eta. Either
one model makes all steps, or several models make steps and are then replaced by their weighted mean. A single model has
weight 1. Let v >= 1 be given. A window is a sequence of consecutive steps for which there are p in (0, 1] and eta' <=
eta such that
- every model that makes steps has a weight of at least p;
- for every sample i, the sum of its eta_i over the window, each times the weight of the model that makes the step, is
  between p eta' and v p eta'.

Theorem. Assume that at the checkpoint finitely many inequalities hold between |r|, lambda_min(J J'), lambda_max(|J
J'|), L_i, L_J, eta, v and rho (`ntkfl.smooth_networks.window` has them). Then three claims are true; weights are
said to fit if f = y. Every window multiplies the squared distance to the nearest weights that fit by at most 1 - p eta'
(alpha - beta), with numbers alpha > beta from the inequalities. If the sum of p eta' over all windows is infinite, the
weights converge to weights that fit. No model leaves a certain ball about the checkpoint. Another theorem, in
`ntkfl.smooth_networks.rounds`, is about full rounds of federated averaging, and gives their rate.

A certificate is a statement in real arithmetic about the stored floats; it does not cover the rounding errors of the
training. The errors of exp, erf, tanh, sin and logarithms of numpy and scipy are assumed to be at most 2^-44 (1 + |z|).

For n samples and C outputs the certificate needs memory for 6 n (C+1) numbers for each neuron, and for 16 matrices of
the kernel's shape (n C, n C).
Source: docs/proofs/smooth_networks.md#the-theorem.
"""

from ntkfl.smooth_networks.adversary import WindowAttack, attack_network
from ntkfl.smooth_networks.certificate import NetworkCertificate, certify_network
from ntkfl.smooth_networks.export import export_network
from ntkfl.smooth_networks.rounds import RoundsCertificate, certify_rounds

__all__ = [
    "NetworkCertificate",
    "RoundsCertificate",
    "WindowAttack",
    "attack_network",
    "certify_network",
    "certify_rounds",
    "export_network",
]
