"""Theorem 1: the loss of the averaged network as bias, variance, covariance and a remainder of averaging weights."""

from bounds import IMA, Change, Claim, Form, Kind, Source, Statement
from bounds.averaging.cases.built_ensembles import across_a_kink
from bounds.averaging.factors import BIAS, COVARIANCE, MEANINGS, VARIANCE, covariance, factors, heter, shares, variance
from bounds.averaging.locality import LOCAL_MEANINGS, locality, remainder, up_to_distance
from bounds.averaging.premises import NO_KINK_BETWEEN
from bounds.cases.ensembles import CLOSE, ensemble_families
from bounds.mutants import MILLIONTH_MORE, replaced, sign_flipped
from bounds.symbols import n

DECOMPOSED = BIAS + VARIANCE + COVARIANCE


STATEMENTS = (
    Statement(
        id="averaging/I4",
        title="Loss of the averaged network: bias, variance, covariance, locality",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "Theorem 1, Eq (13)-(14)",
            note="the remainder is R = E[2(f_WENS - y)(f_FMA - f_WENS) + (f_FMA - f_WENS)^2] exactly. Delta is random, "
            "so that O(Delta^2) means O(E Delta^2) or, as here, the order of the square of the largest Delta of the "
            "draws. The printed form is checked where no kink lies between clients; |f_WENS - f_FMA| <= |x| Delta^2/2 "
            "gives the constant of O(). The expectation is over the joint law of a round (see I6), the covariance over "
            "k != k' (see I5). Train bias and heterogeneous bias are the parts of one squared sum, which has a cross "
            "term. R can have either sign, so that a smaller Delta need not mean a smaller loss",
        ),
        forms={
            Form.STATED: Claim(
                up_to_distance(DECOMPOSED),
                hypotheses=(NO_KINK_BETWEEN,),
                families=lambda options: ensemble_families(options, amplitude=CLOSE),
                note="O(Delta^2) with its constant written out",
            ),
            Form.NEW: Claim(DECOMPOSED + remainder),
        },
        constants=lambda case: factors(case) | locality(case),
        measure=lambda case: case.mean_loss(case.fma_outputs),
        symbols=MEANINGS | LOCAL_MEANINGS,
        left_formula="E (y - f_FMA)^2",
        says_left="squared loss of the network of averaged weights, averaged over draws and samples",
        families=ensemble_families,
        necessity={NO_KINK_BETWEEN.name: across_a_kink},
        mutants=(
            replaced(remainder, 0, "remainder dropped", Change.FACTOR),
            sign_flipped(remainder, "the remainder"),
            replaced(heter, -heter, "sign of the heterogeneous bias flipped", Change.SIGN),
            replaced(covariance, covariance + variance, "covariance summed over k = k' too", Change.INDEX),
            replaced(n, n**2, "n^2 for n", Change.POWER),
            MILLIONTH_MORE,
            replaced(shares, 2 * shares, "n_k/n doubled", Change.CONSTANT),
        ),
        uses=("averaging/I2", "averaging/I3", "averaging/I5"),
    ),
)
