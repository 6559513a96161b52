(* The part of the movement that the printed map does not give, for every step size.

   The statement fl-ntk/C.10 (its stated form fails) rests on this file. There is one client, the labels y are an
   eigenvector of the kernel, and the outputs begin at 0. RoundMap.v has one sample with steps of 1; here steps may be
   arbitrarily small. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import RoundMap.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.TTheory.
Local Open Scope ring_scope.

Section OneClient.
Variables (R : realFieldType) (n p K : nat) (Phi : 'M[R]_(n, p)) (y : 'M[R]_(n, 1)) (eta q : R).
Hypothesis eigen : H Phi *m y = q *: y.
Local Notation own := (fun _ : 'I_1 => 1%:M : 'M[R]_n).
Local Notation step := (local (client_gradient Phi y own) eta ord0).
Local Notation a := (1 - eta * q).
Local Notation b := (1 - K%:R * (eta * q)).
Local Notation model t := (iter t (round K Phi y own eta 1) 0).

Lemma local_steps k w c : residual Phi y w = c *: y -> residual Phi y (step k w) = (a ^+ k * c) *: y.
Proof.
move=> start; elim: k => [|k IH]; first by rewrite expr0 mul1r.
rewrite /local iterS -/(step k w) /client_gradient mul1mx scalerN opprK {1}/residual mulmxDr opprD addrA.
rewrite -/(residual Phi y (step k w)) IH -scalemxAr mulmxA -/(H Phi) -scalemxAr eigen !scalerA -scalerBl.
by congr (_ *: _); rewrite exprS; ring.
Qed.
Lemma one_round w : round K Phi y own eta 1 w = step K w.
Proof. by rewrite /round /update big_ord_recl big_ord0 addr0 invr1 !scale1r addrC subrK. Qed.
Lemma model_after t : residual Phi y (model t) = a ^+ (K * t) *: y.
Proof.
elim: t => [|t IH]; first by rewrite muln0 expr0 scale1r /residual mulmx0 subr0.
by rewrite iterS one_round (local_steps K IH) mulnS exprD.
Qed.
Lemma printed_after t : iter t (mulmx (1%:M - (K%:R * eta) *: H Phi)) y = b ^+ t *: y.
Proof.
elim: t => [|t IH]; first by rewrite expr0 scale1r.
rewrite iterS IH -scalemxAr mulmxBl mul1mx -scalemxAl eigen scalerA -{1}[y]scale1r -scalerBl scalerA exprS.
by congr (_ *: _); ring.
Qed.

(* B_3 of T rounds at infinite width. The lemma gives its product with q. *)
Definition left_over T : 'M[R]_(p, 1) := eta *: \sum_(t < T) \sum_(k < K)
  Phi^T *m (iter t (mulmx (1%:M - (K%:R * eta) *: H Phi)) y - residual Phi y (step k (model t))).
Lemma left_over_is T : q *: left_over T = (a ^+ (K * T) - b ^+ T) *: (Phi^T *m y).
Proof.
rewrite /left_over; elim: T => [|T IH]; first by rewrite big_ord0 !scaler0 muln0 !expr0 subrr scale0r.
rewrite big_ord_recr /= !scalerDr IH.
have -> : \sum_(k < K) Phi^T *m (iter T (mulmx (1%:M - (K%:R * eta) *: H Phi)) y - residual Phi y (step k (model T)))
    = (K%:R * b ^+ T - (\sum_(k < K) a ^+ k) * a ^+ (K * T)) *: (Phi^T *m y).
  rewrite mulr_suml (eq_bigr (fun k : 'I_K => b ^+ T *: (Phi^T *m y) - (a ^+ k * a ^+ (K * T)) *: (Phi^T *m y))).
    by rewrite sumrB sumr_const card_ord -scaler_suml scalerBl -scaler_nat scalerA.
  by move=> k _; rewrite printed_after (local_steps k (model_after T)) mulmxBr -!scalemxAr.
rewrite !scalerA -scalerDl; congr (_ *: _).
have geometric := subrX1 a K; set S := \sum_(k < K) a ^+ k in geometric *.
rewrite mulnS exprD exprS; have -> : a ^+ K = 1 + (a - 1) * S by rewrite -geometric; ring.
by ring.
Qed.

Lemma bernoulli (u : R) k : 0 < u -> u <= 1 -> 1 - k.+2%:R * u < (1 - u) ^+ k.+2.
Proof.
move=> u0 u1; elim: k => [|k IH].
  have sq : (1 - u) ^+ 2 - (1 - 2%:R * u) = u * u by ring.
  by rewrite -subr_gt0 sq; exact: mulr_gt0.
rewrite exprS; apply: (@lt_le_trans _ _ ((1 - u) * (1 - k.+2%:R * u))); last first.
  by rewrite ler_wpmul2l ?subr_ge0 // ltW.
have sq : (1 - u) * (1 - k.+2%:R * u) - (1 - k.+3%:R * u) = k.+2%:R * (u * u) by rewrite -[k.+3]addn1 natrD; ring.
by rewrite -subr_gt0 sq; apply: mulr_gt0; rewrite ?ltr0n //; exact: mulr_gt0.
Qed.

Theorem movement_stays_at_small_steps T : (1 < K)%N -> (0 < T)%N -> 0 < eta * q -> K%:R * (eta * q) <= 1 -> y != 0 ->
  left_over T != 0.
Proof.
have is_ := left_over_is T; move: is_ => + K2 T0 u0 small y0; set B := left_over T => is_; apply/eqP => zero.
have q0 : q != 0 by apply/eqP => q0; rewrite q0 mulr0 ltxx in u0.
move: is_; rewrite zero scaler0 => /esym/eqP; rewrite scaler_eq0 => /orP [/eqP same|/eqP none]; last first.
  have /eqP := congr1 (mulmx Phi) none; rewrite mulmxA -/(H Phi) eigen mulmx0 scaler_eq0 (negbTE q0) /=.
  by rewrite (negbTE y0).
have one : eta * q <= 1 by apply: le_trans small; rewrite ler_pemull ?ler1n ?(ltnW K2) // ltW.
have less : b < a ^+ K by case: (K) K2 => [|[|k]] // _; exact: bernoulli.
have : b ^+ T < (a ^+ K) ^+ T.
  by rewrite ltr_expn2r ?nnegrE ?subr_ge0 ?exprn_ge0 ?subr_ge0 // -lt0n.
by rewrite -exprM -subr_gt0 same ltxx.
Qed.
End OneClient.

Print Assumptions movement_stays_at_small_steps.
