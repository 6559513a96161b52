"""Readings of FL-NTK's statements where the paper leaves the meaning open; the statements' notes list misprints."""

from bounds import Convention

CONVENTIONS = (
    Convention("data", "X is (n, d) with rows of unit norm, to 1e-12; G = X X^T", "used throughout, never numbered"),
    Convention(
        "initialisation",
        "W = U(0) has entries N(0, sigma^2), signs a are +-1 with equal chances; sigma = 1 in appendix B",
        "Algorithm 1, line 1 prints N(0, I); appendix C scales by sigma",
    ),
    Convention("network", "f(U, x) = a . relu(U x) / sqrt m, and relu'(0) = 1", "the indicators are printed with >="),
    Convention(
        "clients",
        "the clients' index sets S_c partition [n]; a client's loss is the SUM over its samples, 1/2 (f - y)^2 each; "
        "the server takes the unweighted mean of the N updates",
        "the paper's L has the factor 1/(2N); a gradient that is printed with a sum over all n is meant over S_c "
        "(finite differences agree with S_c to 1e-10)",
    ),
    Convention(
        "local step",
        "w_{k+1} = w_k - eta_l grad L_c(w_k) for k = 0..K-1, from w_0 = u(t)",
        "lines 5 to 14 of Algorithm 1 are circular as printed; section 3.1 has this step",
    ),
    Convention(
        "size of the steps",
        "a lemma that names no step (Eq (5), B.7, B.9, B.10) is read under the steps of the argument around it: "
        "Theorem B.3's, eta_l and eta_g eta_l at most lambda/(1000 kappa n^2 K), or a weaker condition that is enough "
        "for the lemma",
        "none of the four names a step; the proof of B.10 says 'by the choice of eta_local'",
    ),
    Convention(
        "global step",
        "u(t+1) = u(t) + eta_g (1/N) sum_c (w_{K,c} - u(t))",
        "Eq (2)'s last line adds the update twice",
    ),
    Convention("rho", "rho = eta_g eta_l K / N", "defined in appendix C only"),
    Convention(
        "lambda, mu, kappa",
        "least and largest eigenvalue and condition number of H(0) in appendix B, of H_inf in appendix C; each "
        "statement's symbols say which",
        "the paper calls both lambda; Definition 4.2 asks for H(0), which is no property of the data; C.1 has H_inf",
    ),
    Convention(
        "residual",
        "r(t) = y - y(t); |.| is a vector's l2 norm or a matrix's spectral norm, |.|_F is the Frobenius norm",
        "",
    ),
    Convention("labels", "|y_i| = O(1): Y = max |y_i|", "used inside Lemma B.8 and Claim C.8, stated nowhere"),
    Convention(
        "O( )", "a constant that a run calibrates where it can; otherwise it is taken as 1, and the note says so", ""
    ),
)
