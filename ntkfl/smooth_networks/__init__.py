"""A proof, from one checkpoint, that a smooth network trained in all its layers fits its data in any order of training.

The network has layers z_k = scale_k W_k h_(k-1) + bias_scale_k b_k, h_k = phi_k(z_k). Every phi_k is twice
continuously differentiable, and its first two derivatives are bounded; or phi_k is ReLU, and no sample reaches a kink
(`ntkfl.smooth_networks.layers`). W_k may be a convolution, and a residual block adds its input to its output. Theta
are the trained parameters, f the outputs on all samples, J the derivative of f in theta, r = y - f. In the ball of
radius rho about the checkpoint, L_i bounds the norm of the Hessian of output i, and J has the Lipschitz constant L_J.

A step adds sum_B eta_i r_i grad f_i to theta. B is any batch of distinct samples, and 0 <= eta_i <= eta. One model
makes all steps, or several models make steps and are then replaced by their weighted mean; a single model has weight 1.
Let v >= 1 be given. A window is a run of steps for which there are p in (0, 1] and eta' <= eta such that
- every model that makes steps has a weight of p or more;
- for every sample i, the sum of its eta_i over the window, each times the weight of the model that makes the step, is
  between p eta' and v p eta'.

Theorem. At the checkpoint, finitely many inequalities between |r|, lambda_min(J J'), lambda_max(|J J'|), L_i, L_J, eta,
v and rho (`ntkfl.smooth_networks.window`) prove three things: every window multiplies the squared distance to the
nearest weights that fit by at most 1 - p eta' (alpha - beta), where the inequalities give alpha > beta; the
weights converge; and no model leaves a ball. Another theorem is about full rounds of federated averaging, and gives
their rate: `ntkfl.smooth_networks.rounds`.

A certificate is a statement in real arithmetic about the stored floats; it does not cover the rounding of the training.
Numpy's and scipy's exp, erf, tanh, sin and logarithms are assumed to err by at most 2^-44 (1 + |z|).

Memory: 6 n (C+1) numbers for each neuron, and 16 matrices of the kernel's shape (n C, n C).
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
