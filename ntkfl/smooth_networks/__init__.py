"""A proof, from one checkpoint, that a smooth network trained in all its layers fits its data in any order of training.

The network has layers z_k = scale_k W_k h_(k-1) + bias_scale_k b_k, h_k = phi_k(z_k). Every phi is twice continuously
differentiable with bounded slope and bend, or a ReLU whose kinks no sample reaches: `ntkfl.smooth_networks.layers`. A
W_k may be a convolution; residual blocks add their input to their output. Theta are its trained parameters, f its
outputs on all samples, J their derivatives, r = y - f. In the ball of radius rho about the checkpoint L_i bounds the
norm of the Hessian of output i, and L_J is a Lipschitz constant of J.

A step adds sum_B eta_i r_i grad f_i, over any batch of distinct samples, with every eta_i at most eta. A window is a
run of steps, by one model or by several whose means are taken. No model that trains weighs less than p in its mean. For
each sample, take the sum of its steps, each times the weight of its model in the mean: for some eta' up to eta all
these sums lie between p eta' and v p eta'.

Theorem. At the checkpoint, finitely many inequalities between |r|, lambda_min(J J'), lambda_max(|J J'|), L_i, L_J, eta,
v and rho (`ntkfl.smooth_networks.window`) prove three things: every window lowers the squared distance to the nearest
weights that fit by a factor 1 - p eta' (alpha - beta), these weights converge, and no model leaves a ball. Full rounds
of federated averaging have a theorem of their own, with their rate: `ntkfl.smooth_networks.rounds`.

A certificate is a statement of real arithmetic on the stored floats; it leaves out the rounding of the training itself.
Numpy's and scipy's exp, erf, tanh, sin and logarithms are taken to be within 2^-44 (1 + |z|).

Memory: 6 n (C+1) times all neurons, and 16 kernels (n C, n C). Source: docs/proofs/smooth_networks.md#the-theorem.
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
