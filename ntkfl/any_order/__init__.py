"""A proof, from one checkpoint, that a two-layer ReLU network fits its data under every further order of training.

The network is f(x) = sum_r a_r relu(w_r.x). Only the hidden weights W are trained, and the loss is a sum of squares. A
hidden bias counts as the weight of a constant feature. W0 is the checkpoint, and B is a batch. r_i = y_i - f_i(W) is
the residual of sample i, and g_i is the gradient of f_i (with relu'(0) any number in [0, 1]). |.| is the Frobenius
norm.

A is a given set of pairs (neuron r, sample i), and s_ri in {0, 1} are given patterns that are 0 on A. The matrix C has
a row phi_i = (a_r s_ri x_i)_r for each sample, and a row x_i (x) e_r for each pair of A. C has full row rank. W* is the
point nearest W0 with phi_i.W* = y_i for all i and w*_r.x_i = 0 on A. D = |W0 - W*|. V is the span of the rows of C, and
kappa_ri is the norm of the projection of x_i (x) e_r on V.

Theorem. Let w*_r.x_i > D kappa_ri where s_ri = 1, and -w*_r.x_i > D kappa_ri where s_ri = 0, for every pair off A.
(1) Let W - W* be in V and |W - W*| <= D. Let W+ = W + sum_B eta_i r_i g_i(W), eta_i >= 0, be a step with |E J J' E| <=
2 - eps, where E = diag(sqrt eta_i) and J has the rows g_i(W), i in B. Then W+ has both properties, too, and |W+ - W*|^2
<= |W - W*|^2 - eps sum_B eta_i r_i^2. So from W0 on the distance |W - W*| never grows, whatever the batches, their
order, the clients and the numbers of local steps are. A mean of such models, with weights p_c that sum to 1, has both
properties too, by convexity. Such means cover server steps g in [0, 1]: W + g sum_c p_c (W_c - W) = (1-g) W + g sum_c
p_c W_c.
(2) The sum over all steps of eps eta_i r_i^2 is at most D^2, where the steps of client c are multiplied by their weight
g p_c in the mean.
(3) Let eps > 0 be fixed, let every sample be in a batch again and again, with step sizes above a fixed number > 0, and
let every client that trains in a round count in the mean of the round with a weight above a fixed number > 0. Then all
residuals tend to 0 and the weights converge.
(4) |f_W(x) - f_W*(x)| <= |a| D |x| for every later W, and |f_W(x) - f_W0(x)| <= 2 |a| D |x|.

The proof is on the page named below. The proof has two main parts. First, the identity <g_i(W), W* - W> = r_i holds
exactly, by homogeneity, as long as W has the signs of W* off A. Second, all steps are in V, and along V no sign off A
can change within the distance D of W*.

A network may have several outputs, a_r in R^C, since the signs do not depend on the output. There is then a row phi_io
= (a_ro s_ri x_i)_r for each sample and output, n C + |A| rows in all. The gradients of all outputs of a batch are in V,
and the identity holds for each output with W*. Nothing else changes. In (4) |a| is the norm of the output's row of the
readout; in `AnyOrderCertificate.universal_step_limits` |a| is the spectral norm of the whole readout.
Each pair of A (a held pair) has one row, as before, since w*_r.x_i = 0 concerns all outputs at once.

Training of both layers is not covered. With the readout v, f is then homogeneous of degree 2, and the identity is wrong
by sum_r s_ri (v*_r - v_r)(w*_r - w_r).x_i. This sum may be positive or negative. It is quadratic in the distance, and
does not decrease with r_i. The reason is that the set of weights with zero loss is curved, and the distance to a point
of this set grows along most runs. Momentum and control variates after the checkpoint are not covered here
(`certify_method` covers them, for one method with given step sizes). Server steps above 1 are not covered either. The
same proof covers a frozen bias, with w*_r.x_i + b_r in place of w*_r.x_i, but this is not implemented.

For Huber's loss, squared hinges and squares with a band see the theorem of docs/proofs/losses_in_any_order.md.

A certificate is a statement of real arithmetic on the stored floats; it leaves out the rounding of the training.

Rounding errors are covered as follows. The rounding errors of C C' and of all products are bounded entry by entry. Let
lam > 0 be a certified lower bound of the smallest eigenvalue of M = C C'. Then the rows are independent, so that W*
exists. The computed point W~ = W0 + C' a, with a vector a of computed coefficients (not the readout), has C W~ = C W* -
d with an enclosed d, hence |W~ - W*| <= |d| / sqrt(lam); D is enlarged by this bound. The projection of a vector v on V
has the squared norm k' M^-1 k, where k = C v. For every h this squared norm equals h'k + h't + t' M^-1 t, where t = k -
M h. So a computed h gives a lower and an upper bound. Pairs with |w_r.x_i| > 2 D |x_i| meet the condition, since kappa
<= |x_i| and |w*_r - w_r| <= D. Only the other pairs are checked one by one.

The certificate needs memory for about ten matrices of (n C + |A|)^2 numbers, and n m / 8 bytes for patterns.
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
