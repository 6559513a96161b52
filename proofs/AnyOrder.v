(* A certified checkpoint of a two-layer ReLU network is safe under every continuation of its training. A continuation
   consists of steps on any batches, by anybody, in any order, and of convex means of models that were reached, as a
   server takes them.

   The statement fl-ntk/any-order rests on this file. The theorem continuation_safe says that |W - W*| never grows,
   total_work that eps sum eta r^2 <= D^2, and predictions_stay that every later output with the readout b at an input z
   is within 2 D |b| |z| of the output now. The theorem final_class proves the final classes that a certificate prints.

   The field may be any ordered field, such as the rationals or the reals. A "label" is a pair of a sample and an
   output, so that several outputs need no other proof. Label l has the input (input l), the readout (readout l), and
   the target (target l). The slope of relu at 0 may be chosen freely, and may differ from neuron to neuron and from
   step to step. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Network.
Variables (R : realFieldType) (m d : nat).      (* neurons, features *)
Local Notation weights := 'M[R]_(m, d).
Implicit Types (U V : weights) (z : 'I_d -> R) (b : 'I_m -> R).

Definition pre z U r : R := \sum_j U r j * z j.
Definition relu (t : R) : R := if 0 <= t then t else 0.
Definition net b z U : R := \sum_r b r * relu (pre z U r).

Lemma preD z U V r : pre z (U + V) r = pre z U r + pre z V r.
Proof. by rewrite -big_split; apply: eq_bigr => j _; rewrite mxE mulrDl. Qed.
Lemma preN z U r : pre z (- U) r = - pre z U r.
Proof. by rewrite -sumrN; apply: eq_bigr => j _; rewrite mxE mulNr. Qed.
Lemma preB z U V r : pre z (U - V) r = pre z U r - pre z V r.
Proof. by rewrite preD preN. Qed.

(* the weight matrix whose row r is (g r) z *)
Definition rows z (g : 'I_m -> R) : weights := \matrix_(r, j) (g r * z j).
Lemma dot_rows z g V : dot (rows z g) V = \sum_r g r * pre z V r.
Proof.
rewrite /dot -(pair_bigA _ (fun r j => rows z g r j * V r j)) /=.
by apply: eq_bigr => r _; rewrite mulr_sumr; apply: eq_bigr => j _; rewrite mxE -mulrA [z j * _]mulrC.
Qed.
Definition kink z r : weights := rows z (fun r' => (r' == r)%:R).
Lemma dot_kink z r V : dot (kink z r) V = pre z V r.
Proof.
rewrite dot_rows (bigD1 r) //= eqxx mul1r big1 ?addr0 // => r' /negbTE ->.
by rewrite mul0r.
Qed.

Lemma relu_lip (p q : R) : (relu p - relu q) ^+ 2 <= (p - q) ^+ 2.
Proof.
rewrite /relu; case: (leP 0 p) => p0; case: (leP 0 q) => q0 //; rewrite ?subr0 ?sub0r ?sqrrN.
- rewrite -subr_ge0; have -> : (p - q) ^+ 2 - p ^+ 2 = (- q) * (p *+ 2 - q) by rewrite mulr2n; ring.
  apply: mulr_ge0; first by rewrite oppr_ge0 ltW.
  by rewrite subr_ge0; apply: (le_trans (ltW q0)); exact: mulrn_wge0.
- rewrite -subr_ge0; have -> : (p - q) ^+ 2 - q ^+ 2 = (- p) * (q *+ 2 - p) by rewrite mulr2n; ring.
  apply: mulr_ge0; first by rewrite oppr_ge0 ltW.
  by rewrite subr_ge0; apply: (le_trans (ltW p0)); exact: mulrn_wge0.
- by rewrite expr0n sqr_ge0.
Qed.

(* An output at z is Lipschitz in the weights with the constant |b| |z|, where b is the readout. *)
Lemma net_lip b z U V :
  (net b z U - net b z V) ^+ 2 <= (\sum_r b r * b r) * (norm2 (U - V) * \sum_j z j * z j).
Proof.
set h := fun r => relu (pre z U r) - relu (pre z V r).
have -> : net b z U - net b z V = \sum_r b r * h r.
  by rewrite /net -sumrB; apply: eq_bigr => r _; rewrite mulrBr.
apply: (le_trans (cauchy _ _)); apply: ler_wpmul2l; first exact: sum_sqr_ge0.
rewrite /norm2 /dot -(pair_bigA _ (fun r j => (U - V) r j * (U - V) r j)) /= mulr_suml.
apply: ler_sum => r _; rewrite -expr2; apply: (le_trans (relu_lip _ _)).
by rewrite -preB; exact: cauchy.
Qed.

End Network.

Section AnyOrder.
Variables (R : realFieldType) (m d : nat) (L : finType).
Local Notation weights := 'M[R]_(m, d).
Variables (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R) (target : L -> R).
Implicit Types (U V : weights) (l : L) (g : L -> 'I_m -> R) (c : L -> R).

Definition res U l : R := target l - net (readout l) (input l) U.
(* g is a choice of the slopes of relu at U: 1 where a neuron is active, 0 where it is not active, and any value at a
   kink *)
Definition slopes U g := forall l r,
  (0 < pre (input l) U r -> g l r = 1) /\ (pre (input l) U r < 0 -> g l r = 0).
Definition grad g l : weights := rows (input l) (fun r => readout l r * g l r).

Lemma homogeneous U g l : slopes U g -> dot (grad g l) U = net (readout l) (input l) U.
Proof.
move=> ok; rewrite dot_rows; apply: eq_bigr => r _; rewrite /relu -mulrA; congr (_ * _).
case: (ok l r); case: ltrgt0P => [p|p|->] pos neg; last by rewrite mulr0.
- by rewrite pos // mul1r.
- by rewrite neg // mul0r.
Qed.

(* a step; the number c l is eta_l for the labels of the batch, and 0 for all other labels *)
Definition move U g c : weights := \sum_l (c l * res U l) *: grad g l.
Definition work U c : R := \sum_l c l * res U l ^+ 2.
Definition allowed eps U g c :=
  [/\ slopes U g, forall l, 0 <= c l & norm2 (move U g c) <= (2 - eps) * work U c].

Lemma work_ge0 U c : (forall l, 0 <= c l) -> 0 <= work U c.
Proof. by move=> c0; apply: sumr_ge0 => l _; rewrite mulr_ge0 ?sqr_ge0. Qed.

(* s are the frozen patterns, and A are the pairs (neuron, label) that are held at their kinks *)
Variables s A : 'I_m -> L -> bool.
Definition phi l : weights := rows (input l) (fun r => readout l r * (~~ A r l && s r l)%:R).

(* What ntkfl/any_order computes, as inequalities. S stands for the span of the rows of C, which are the phi_l and the
   held kinks. D2 stands for D^2 with D = |W0 - W*|, and kap2 r l for the square of |projection of the kink (r, l) on
   S|. *)
Record certificate (S : {vspace weights}) (Ws W0 : weights) (D2 : R) (kap2 : 'I_m -> L -> R) : Prop := Certificate {
  phi_in_S : forall l, phi l \in S;
  held_in_S : forall r l, A r l -> kink (input l) r \in S;
  start_in_S : W0 - Ws \in S;
  start_near : norm2 (W0 - Ws) <= D2;
  fits : forall l, dot (phi l) Ws = target l;
  held : forall r l, A r l -> pre (input l) Ws r = 0;
  kappa_ge0 : forall r l, ~~ A r l -> 0 <= kap2 r l;
  kappa : forall r l V, ~~ A r l -> V \in S -> pre (input l) V r ^+ 2 <= kap2 r l * norm2 V;
  signs : forall r l, ~~ A r l -> if s r l then 0 < pre (input l) Ws r else pre (input l) Ws r < 0;
  margin : forall r l, ~~ A r l -> D2 * kap2 r l < pre (input l) Ws r ^+ 2
}.

Variables (S : {vspace weights}) (Ws W0 : weights) (D2 eps : R) (kap2 : 'I_m -> L -> R).
Hypothesis cert : certificate S Ws W0 D2 kap2.
Hypothesis eps_ge0 : 0 <= eps.

Definition ball U := (U - Ws \in S) && (norm2 (U - Ws) <= D2).

(* While the weights are in the ball, every pair off A has the sign that it has at W*. *)
Lemma frozen U g r l : slopes U g -> ball U -> ~~ A r l -> g l r = (s r l)%:R.
Proof.
move=> ok /andP[inS near] off; have [pos neg] := ok l r.
have := signs cert off; have := margin cert off.
set p := pre (input l) Ws r => far sign.
have U_is : pre (input l) U r = p + pre (input l) (U - Ws) r by rewrite preB addrCA subrr addr0.
set q := pre (input l) (U - Ws) r in U_is.
have q2 : q ^+ 2 < p ^+ 2.
  apply: le_lt_trans far; apply: (le_trans (kappa cert off inS)).
  by rewrite mulrC ler_wpmul2r // (kappa_ge0 cert off).
case: (s r l) sign => sign.
- rewrite pos // U_is.
  have : `|q| < p by rewrite -(ltr_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 ?ltW // real_normK ?num_real.
  by rewrite ltr_norml => /andP[low _]; rewrite -ltr_subl_addl sub0r.
- rewrite neg // U_is.
  have : `|q| < - p.
    by rewrite -(ltr_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 ?oppr_ge0 ?ltW // real_normK ?num_real // sqrrN.
  by rewrite ltr_norml => /andP[_ high]; rewrite -ltr_subr_addl sub0r.
Qed.

Lemma grad_split U g l : slopes U g -> ball U ->
  grad g l = phi l + \sum_(r | A r l) (readout l r * g l r) *: kink (input l) r.
Proof.
move=> ok near; apply/matrixP => r j; rewrite !mxE summxE.
have [on|off] := boolP (A r l).
- rewrite /= mulr0 mul0r add0r (bigD1 r) //= big1 ?addr0 => [|r' /andP[_ ne]].
    by rewrite !mxE eqxx mul1r.
  by rewrite !mxE eq_sym (negbTE ne) mul0r mulr0.
- rewrite (frozen ok near off) /= big1 ?addr0 // => r' on.
  by rewrite !mxE; case: eqP => [e|_]; [case/negP: off; rewrite e | rewrite mul0r mulr0].
Qed.

Lemma grad_in_S U g l : slopes U g -> ball U -> grad g l \in S.
Proof.
move=> ok near; rewrite (grad_split l ok near) memvD ?(phi_in_S cert) // memv_suml // => r on.
by rewrite memvZ // (held_in_S cert).
Qed.

(* The residual is the inner product of the gradient with W* - W. *)
Lemma descent U g l : slopes U g -> ball U -> dot (grad g l) (U - Ws) = - res U l.
Proof.
move=> ok near; rewrite dotBr (homogeneous l ok) /res opprB; congr (_ - _).
rewrite (grad_split l ok near) dotDl (fits cert) dot_suml big1 ?addr0 // => r on.
by rewrite dotZl dot_kink (held cert on) mulr0.
Qed.

Theorem one_step U g c : ball U -> allowed eps U g c ->
  norm2 (U + move U g c - Ws) <= norm2 (U - Ws) - eps * work U c /\ ball (U + move U g c).
Proof.
move=> near [ok c0 small]; have /andP[inS in_ball] := near.
have after : U + move U g c - Ws = (U - Ws) + move U g c by rewrite addrAC.
have cross : dot (U - Ws) (move U g c) = - work U c.
  rewrite dotC /move dot_suml /work -sumrN; apply: eq_bigr => l _.
  by rewrite dotZl (descent l ok near) mulrN expr2 mulrA.
have lower : norm2 (U + move U g c - Ws) <= norm2 (U - Ws) - eps * work U c.
  rewrite after norm2D cross.
  have -> : norm2 (U - Ws) - eps * work U c
          = norm2 (U - Ws) + (- work U c) *+ 2 + (2 - eps) * work U c by rewrite mulr2n; ring.
  by rewrite ler_add2l.
split=> //; apply/andP; split.
  by rewrite after memvD // memv_suml // => l _; rewrite memvZ // (grad_in_S _ ok near).
apply: (le_trans lower); apply: le_trans in_ball.
by rewrite ler_subl_addr ler_addl mulr_ge0 ?work_ge0.
Qed.

(* Every continuation of the training from W0, with the sum of eta r^2 over its steps (the "spent" work). In a mean of
   models, the steps of each model are multiplied by the weight of the model. A server step in [0, 1] on a mean is again
   a mean, which includes the old model. *)
Inductive continued : weights -> R -> Prop :=
| Start : continued W0 0
| Step U w g c : continued U w -> allowed eps U g c -> continued (U + move U g c) (w + work U c)
| Mean k (p : 'I_k -> R) Us ws : is_mean p -> (forall a, continued (Us a) (ws a)) ->
    continued (\sum_a p a *: Us a) (\sum_a p a * ws a).

Theorem continuation_safe U w : continued U w -> ball U /\ norm2 (U - Ws) + eps * w <= norm2 (W0 - Ws).
Proof.
elim=> [|V v g c _ [near le] ok|k p Us ws mean _ all].
- by rewrite /ball (start_in_S cert) (start_near cert) mulr0 addr0.
- have [lower near'] := one_step near ok; split=> //; apply: le_trans le.
  by rewrite (mulrDr eps v) (addrC (eps * v)) addrA ler_add2r -ler_subr_addr.
- have [p0 p1] := mean.
  have le : norm2 (\sum_a p a *: Us a - Ws) + eps * (\sum_a p a * ws a) <= norm2 (W0 - Ws).
    apply: (@le_trans _ _ (\sum_a p a * (norm2 (Us a - Ws) + eps * ws a))).
      under [leRHS]eq_bigr do rewrite mulrDr mulrCA.
      by rewrite big_split /= -mulr_sumr ler_add2r mean_closer.
    have -> : norm2 (W0 - Ws) = \sum_a p a * norm2 (W0 - Ws) by rewrite -mulr_suml p1 mul1r.
    by apply: ler_sum => a _; rewrite ler_wpmul2l //; case: (all a).
  split=> //; apply/andP; split.
    have -> : \sum_a p a *: Us a - Ws = \sum_a p a *: (Us a - Ws).
      by under [RHS]eq_bigr do rewrite scalerBr; rewrite sumrB -scaler_suml p1 scale1r.
    by rewrite memv_suml // => a _; rewrite memvZ //; case: (all a) => /andP[].
  apply: (@le_trans _ _ (\sum_a p a * norm2 (Us a - Ws))); first exact: mean_closer.
  have -> : D2 = \sum_a p a * D2 by rewrite -mulr_suml p1 mul1r.
  by apply: ler_sum => a _; rewrite ler_wpmul2l //; case: (all a) => /andP[].
Qed.

Theorem total_work U w : continued U w -> eps * w <= D2.
Proof.
move=> /continuation_safe[_ le]; apply: le_trans (start_near cert).
by apply: le_trans le; rewrite ler_addr norm2_ge0.
Qed.

Theorem predictions_stay U w (b : 'I_m -> R) (z : 'I_d -> R) : continued U w ->
  (net b z U - net b z W0) ^+ 2 <= 4%:R * D2 * (\sum_r b r * b r) * (\sum_j z j * z j).
Proof.
move=> /continuation_safe[/andP[_ near] _]; apply: (le_trans (net_lip _ _ _ _)).
rewrite mulrA [4%:R * D2 * _]mulrC; apply: ler_wpmul2r; first exact: sum_sqr_ge0.
apply: ler_wpmul2l; first exact: sum_sqr_ge0.
have -> : U - W0 = (U - Ws) + - (W0 - Ws) by rewrite opprB addrA subrK.
apply: (le_trans (norm2D_le _ _)); rewrite norm2N.
have -> : 4%:R * D2 = (D2 + D2) *+ 2 by rewrite !mulr2n; ring.
by rewrite ler_pmuln2r // ler_add // (start_near cert).
Qed.

(* The outputs that a continuation can have at z, bounded by the outputs of a point P that is near all models of the
   ball. Only the neurons of Z may be active at z. P may be W*, the checkpoint, or the point that was computed for W*. *)
Section Outputs.
Variables (z : 'I_d -> R) (P : weights) (R2 : R) (Z : pred 'I_m).
Local Notation z2 := (\sum_j z j * z j).
Hypothesis around : forall V, ball V -> norm2 (V - P) <= R2.
Hypothesis asleep : forall r, ~~ Z r -> pre z P r <= 0 /\ R2 * z2 <= pre z P r ^+ 2.
Implicit Types b : 'I_m -> R.

Lemma stays_asleep U r : ball U -> ~~ Z r -> relu (pre z U r) = 0.
Proof.
move=> near off; have [p0 far] := asleep off; set p := pre z P r in p0 far.
suff : pre z U r <= 0 by rewrite /relu le_eqVlt => /orP[/eqP->|neg]; rewrite ?lexx // leNgt neg.
have -> : pre z U r = pre z (U - P) r + p by rewrite preB subrK.
rewrite -ler_subr_addr sub0r; apply: (le_trans (ler_norm _)).
rewrite -(ler_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 ?oppr_ge0 // real_normK ?num_real // sqrrN.
apply: le_trans far; apply: (le_trans (cauchy _ _)); apply: ler_wpmul2r; first exact: sum_sqr_ge0.
apply: le_trans (around near); rewrite /norm2 /dot -(pair_bigA _ (fun r j => (U - P) r j * (U - P) r j)) /=.
by rewrite [leRHS](bigD1 r) //= ler_addl sumr_ge0 // => r' _; exact: sum_sqr_ge0.
Qed.

Theorem outputs_near U w b : continued U w ->
  (net b z U - net b z P) ^+ 2 <= R2 * (\sum_(r | Z r) b r * b r) * z2.
Proof.
move=> /continuation_safe[near _].
pose awake r := if Z r then b r else 0.
have only V : (forall r, ~~ Z r -> relu (pre z V r) = 0) -> net b z V = net awake z V.
  by move=> zero; apply: eq_bigr => r _; rewrite /awake; case: ifP => // /negbT/zero ->; rewrite !mulr0.
rewrite !only => [|r off|r off]; last exact: stays_asleep.
- apply: (le_trans (net_lip _ _ _ _)); rewrite mulrCA -mulrA.
  have -> : \sum_r awake r * awake r = \sum_(r | Z r) b r * b r.
    by rewrite [RHS]big_mkcond; apply: eq_bigr => r _; rewrite /awake; case: ifP; rewrite ?mulr0.
  apply: ler_pmul; rewrite ?norm2_ge0 ?mulr_ge0 ?sum_sqr_ge0 ?around //.
  by apply: sumr_ge0 => r _; rewrite -expr2 sqr_ge0.
- by case: (asleep off) => p0 _; rewrite /relu; case: leP => // p0'; apply/eqP; rewrite eq_le p0.
Qed.

(* The class of z is final: output b stays above output b', and, with several outputs, above every other b'. With one
   output, the sign of the output is final; this is the case b' = 0 or b = 0. *)
Theorem final_class U w b b' e e' : continued U w -> 0 <= e -> 0 <= e' ->
  R2 * (\sum_(r | Z r) b r * b r) * z2 <= e ^+ 2 -> R2 * (\sum_(r | Z r) b' r * b' r) * z2 <= e' ^+ 2 ->
  net b' z P + e' < net b z P - e -> net b' z U < net b z U.
Proof.
move=> U_is e0 e0' le le' lead.
have within (x y c : R) : 0 <= c -> (x - y) ^+ 2 <= c ^+ 2 -> y - c <= x <= y + c.
  by move=> c0 sq; rewrite -ler_distl -(ler_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 // real_normK ?num_real.
have /andP[low _] := within _ _ _ e0 (le_trans (outputs_near b U_is) le).
have /andP[_ high] := within _ _ _ e0' (le_trans (outputs_near b' U_is) le').
exact: le_lt_trans high (lt_le_trans lead low).
Qed.
End Outputs.

(* a server step q in [0, 1] from U towards the mean of the clients' models *)
Theorem server_step k (p : 'I_k -> R) U u Us ws q : is_mean p -> 0 <= q <= 1 ->
  continued U u -> (forall a, continued (Us a) (ws a)) ->
  continued (U + q *: (\sum_a p a *: Us a - U)) ((1 - q) * u + q * (\sum_a p a * ws a)).
Proof.
move=> mean /andP[q0 q1] old new.
have both := Mean (p := fun a : 'I_2 => if a == ord0 then 1 - q else q)
  (Us := fun a => if a == ord0 then U else \sum_a p a *: Us a) (ws := fun a => if a == ord0 then u else \sum_a p a * ws a).
move: both; rewrite !big_ord_recl !big_ord0 /= !addr0 => both.
have -> : U + q *: (\sum_a p a *: Us a - U) = (1 - q) *: U + q *: (\sum_a p a *: Us a).
  by rewrite scalerBr scalerBl scale1r addrA addrAC.
apply: both => [|a]; last by case: ifP => _ //; exact: Mean.
split=> [a|]; first by case: ifP => _; rewrite ?subr_ge0.
by rewrite !big_ord_recl big_ord0 /= addr0 subrK.
Qed.

End AnyOrder.

Print Assumptions one_step.
Print Assumptions continuation_safe.
Print Assumptions total_work.
Print Assumptions predictions_stay.
Print Assumptions outputs_near.
Print Assumptions final_class.
Print Assumptions server_step.
