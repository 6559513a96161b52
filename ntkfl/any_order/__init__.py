"""A proof, from one checkpoint, that a two-layer ReLU network fits its data under every further order of training.

The network is f(x) = sum_r a_r relu(w_r.x); only the hidden weights W are trained, on sums of squares. A bias is the
weight of a constant feature. W0 is the checkpoint, S_B a batch, r_i = y_i - f_i(W), g_i the gradient of f_i (with
relu'(0) any number in [0, 1]), |.| the Frobenius norm.

Given. A set A of pairs (neuron r, sample i), and patterns s_ri in {0, 1}, 0 on A. C has the rows
phi_i = (a_r s_ri x_i)_r, one for each sample, and x_i (x) e_r, one for each pair of A; C has full row rank. W* is the
point nearest W0 with phi_i.W* = y_i for all i and w*_r.x_i = 0 on A. D = |W0 - W*|. kappa_ri is the norm of the
projection of x_i (x) e_r on V, the span of the rows.

Theorem. Let w*_r.x_i > D kappa_ri where s_ri = 1, and -w*_r.x_i > D kappa_ri where s_ri = 0, for every pair off A.
(1) Let W - W* be in V and |W - W*| <= D. A step W+ = W + sum_B eta_i r_i g_i(W), eta_i >= 0, leads to a W+ with both
properties, and |W+ - W*|^2 <= |W - W*|^2 - eps sum_B eta_i r_i^2, if |E J J' E| <= 2 - eps, where E = diag(sqrt
eta_i) and J has the rows g_i(W), i in B. So from W0 on |W - W*| never grows, whatever the batches, their order, the
clients and the numbers of local steps are. A mean of such models, with weights p_c that sum to 1, has both properties
too, by convexity. This covers server steps g in [0, 1]: W + g sum_c p_c (W_c - W) = (1-g) W + g sum_c p_c W_c.
(2) The sum over all steps of eps eta_i r_i^2 is at most D^2, where a client's steps count with their weight g p_c.
(3) Let eps > 0 be fixed, let every sample be visited again and again with steps above a fixed number > 0, and let every
client that trains in a round count in the mean of the round with a weight above a fixed number > 0. Then all residuals
tend to 0 and the weights converge.
(4) |f_W(x) - f_W*(x)| <= |a| D |x| for every later W, and |f_W(x) - f_W0(x)| <= 2 |a| D |x|.

The proof is on the page named below. Its core: <g_i(W), W* - W> = r_i exactly, by homogeneity, as long as W has the
signs of W* off A; and steps stay in V, where no sign off A can change within D of W*.

Several outputs, a_r in R^C: the signs do not depend on the output. There is a row phi_io = (a_ro s_ri x_i)_r for each
sample and output, n C + |A| rows in all. The gradients of all outputs of a batch are in V, and the identity holds for
each output with W*. Nothing else changes. In (4) |a| is the norm of the output's row of the readout; in
`AnyOrderCertificate.universal_step_limits` |a| is the spectral norm of the whole readout.
Each held pair has one row, as before: w*_r.x_i = 0 holds the pair for all outputs.

Both layers trained: not covered. f is then homogeneous of degree 2, and the identity is wrong by
sum_r s_ri (v*_r - v_r)(w*_r - w_r).x_i. This sum has either sign, is quadratic in the distance, and does not fall with
r_i: the zero-loss set is curved, and the distance to a point of it grows along most runs. Not covered either:
momentum or control variates after the checkpoint (`certify_method` has those, for one method with given steps), server
steps above 1, and frozen biases as features (the same proof covers a frozen bias, with w*_r.x_i + b_r in place of
w*_r.x_i, but this is not implemented).

Huber's loss, squared hinges and squares with a band have a theorem of their own: docs/proofs/losses_in_any_order.md.

A certificate is a statement of real arithmetic on the stored floats; it leaves out the rounding of the training.

Rounding: C C' and all products are bounded entry by entry. Let lam > 0 be a certified lower bound of the smallest
eigenvalue of M = C C'. Then the rows are independent, so that W* exists. The computed point W~ = W0 + C' a has C W~ = C
W* - d with an enclosed d, hence |W~ - W*| <= |d| / sqrt(lam); D is enlarged by this bound. The projection of v on the
rows has the squared norm k' M^-1 k, k = C v. For every h this is h'k + h't + t' M^-1 t, t = k - M h: a computed h gives
a lower and an upper end. Pairs with |w_r.x_i| > 2 D |x_i| meet the condition, since kappa <= |x_i| and |w*_r - w_r| <=
D. Only the other pairs are checked one by one.

Memory: about ten matrices of (n C + |A|)^2 numbers, and n m / 8 bytes of patterns.
Source: docs/proofs/any_order.md#the-theorem.
"""

from ntkfl.any_order.adversary import attack_any_order
from ntkfl.any_order.certificate import AnyOrderCertificate, certify_any_order
from ntkfl.any_order.export import export_any_order
from ntkfl.any_order.method_certificate import MethodCertificate, certify_method

__all__ = [
    "AnyOrderCertificate",
    "MethodCertificate",
    "attack_any_order",
    "certify_any_order",
    "certify_method",
    "export_any_order",
]
