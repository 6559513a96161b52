(* How a matrix Y, the "witness", shows that K >= lambda I. Nothing is assumed about Y. If Y (K - lambda I) Y' is
   strictly diagonally dominant with a positive diagonal, then K - lambda I is positive definite.

   Y is chosen near the inverse of a Cholesky factor; with a bad Y the condition does not hold, and nothing is proved.

   fl-ntk/any-order rests on this file: GramBounds.v states the result for the rows of C. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Dominant.
Variables (R : realFieldType) (n : nat) (G : 'M[R]_n).
Hypothesis symmetric : forall i j, G i j = G j i.
Hypothesis dominant : forall i, \sum_(j | j != i) `|G i j| < G i i.
Implicit Types v : 'rV[R]_n.

Let off i j : R := if j != i then `|G i j| else 0.
Let excess i : R := G i i - \sum_j off i j.

Lemma excess_gt0 i : 0 < excess i.
Proof. by rewrite subr_gt0 /off -big_mkcond; exact: dominant. Qed.

Lemma entry_ge v i j :
  (if j == i then v 0 i ^+ 2 * G i i *+ 2 else 0) - (v 0 i ^+ 2 * off i j + v 0 j ^+ 2 * off i j)
  <= v 0 i * v 0 j * G i j *+ 2.
Proof.
rewrite /off; case: eqP => [->|_] /=; first by rewrite !mulr0 addr0 subr0 expr2.
rewrite sub0r -mulrDl ler_oppl -mulNrn.
apply: (@le_trans _ _ (`|v 0 i| * `|v 0 j| * `|G i j| *+ 2)).
  by rewrite ler_pmuln2r // -!normrM -normrN; exact: ler_norm.
rewrite -mulrnAl; apply: ler_wpmul2r; first exact: normr_ge0.
rewrite -(real_normK (num_real (v 0 i))) -(real_normK (num_real (v 0 j))) -subr_ge0.
set a := `|v 0 i|; set b := `|v 0 j|.
have -> : a ^+ 2 + b ^+ 2 - a * b *+ 2 = (a - b) ^+ 2 by rewrite mulr2n; ring.
exact: sqr_ge0.
Qed.

Lemma form_ge v : \sum_i v 0 i ^+ 2 * excess i <= (v *m G *m v^T) 0 0.
Proof.
have -> : (v *m G *m v^T) 0 0 = \sum_i \sum_j v 0 i * v 0 j * G i j.
  rewrite mxE exchange_big; apply: eq_bigr => j _; rewrite !mxE mulr_suml.
  by apply: eq_bigr => i _; rewrite mulrAC.
rewrite -(ler_pmuln2r (n := 2)) // -!sumrMnl.
apply: (@le_trans _ _ (\sum_i \sum_j
   ((if j == i then v 0 i ^+ 2 * G i i *+ 2 else 0) - (v 0 i ^+ 2 * off i j + v 0 j ^+ 2 * off i j)))); last first.
  by apply: ler_sum => i _; rewrite -sumrMnl; apply: ler_sum => j _; exact: entry_ge.
rewrite le_eqVlt; apply/orP; left; apply/eqP.
transitivity (\sum_i v 0 i ^+ 2 * G i i *+ 2 - (\sum_i \sum_j v 0 i ^+ 2 * off i j) *+ 2).
  rewrite -sumrMnl -sumrB; apply: eq_bigr => i _; rewrite -mulr_sumr /excess mulrBr mulrnBl; by [].
have swapped : \sum_i \sum_j v 0 j ^+ 2 * off i j = \sum_i \sum_j v 0 i ^+ 2 * off i j.
  rewrite exchange_big; apply: eq_bigr => i _; apply: eq_bigr => j _.
  by rewrite /off symmetric eq_sym.
rewrite mulr2n -{2}swapped -big_split -sumrB; apply: eq_bigr => i _ /=.
by rewrite sumrB big_split /= -big_mkcond big_pred1_eq.
Qed.

Lemma form_eq0 v : (v *m G *m v^T) 0 0 = 0 -> v = 0.
Proof.
move=> zero; have := form_ge v; rewrite zero => le0.
have each i : 0 <= v 0 i ^+ 2 * excess i by rewrite mulr_ge0 ?sqr_ge0 // ltW // excess_gt0.
have sum0 : \sum_i v 0 i ^+ 2 * excess i = 0 by apply/eqP; rewrite eq_le le0 sumr_ge0.
apply/rowP => i; rewrite mxE; apply/eqP; rewrite -sqrf_eq0.
have /eqP : v 0 i ^+ 2 * excess i = 0.
  by apply: (psumr_eq0P (P := xpredT) (F := fun i => v 0 i ^+ 2 * excess i)) => // j _; exact: each.
by rewrite mulf_eq0 (gt_eqF (excess_gt0 i)) orbF.
Qed.

Lemma form_ge0 v : 0 <= (v *m G *m v^T) 0 0.
Proof.
apply: le_trans (form_ge v); apply: sumr_ge0 => i _.
by rewrite mulr_ge0 ?sqr_ge0 // ltW // excess_gt0.
Qed.
End Dominant.

Lemma witness_unit (R : fieldType) n (G Y : 'M[R]_n) (K : 'M[R]_n) : G = Y *m K *m Y^T ->
  (forall v : 'rV[R]_n, (v *m G *m v^T) 0 0 = 0 -> v = 0) -> Y \in unitmx.
Proof.
move=> G_is definite; rewrite -row_free_unit -kermx_eq0; apply/eqP/row_matrixP => i; rewrite row0.
apply: definite; rewrite G_is !mulmxA.
have -> : row i (kermx Y) *m Y = 0 by apply/sub_kermxP; exact: row_sub.
by rewrite !mul0mx mxE.
Qed.

Lemma through (R : comRingType) n (K Y : 'M[R]_n) (v : 'rV[R]_n) :
  (v *m Y) *m K *m (v *m Y)^T = v *m (Y *m K *m Y^T) *m v^T.
Proof. by rewrite trmx_mul !mulmxA. Qed.

Lemma symmetric_through (R : comRingType) n (K Y : 'M[R]_n) i j : K^T = K ->
  (Y *m K *m Y^T) i j = (Y *m K *m Y^T) j i.
Proof.
move=> symmetric; suff {1}<- : (Y *m K *m Y^T)^T = Y *m K *m Y^T by rewrite mxE.
by rewrite !trmx_mul trmxK symmetric mulmxA.
Qed.

Section Witness.
Variables (R : realFieldType) (n : nat) (K Y : 'M[R]_n) (lam : R).
Local Notation G := (Y *m (K - lam%:M) *m Y^T).
Hypothesis symmetric : K^T = K.
Hypothesis dominant : forall i, \sum_(j | j != i) `|G i j| < G i i.

Theorem dominant_witness (a : 'rV[R]_n) : lam * (\sum_i a 0 i ^+ 2) <= (a *m K *m a^T) 0 0.
Proof.
have G_symmetric i j : G i j = G j i by apply: symmetric_through; rewrite linearB /= tr_scalar_mx symmetric.
have Y_unit := witness_unit erefl (form_eq0 G_symmetric dominant).
have := form_ge0 G_symmetric dominant (a *m invmx Y); rewrite -through mulmxKV //.
have -> : a *m (K - lam%:M) *m a^T = a *m K *m a^T - lam *: (a *m a^T).
  by rewrite mulmxBr mulmxBl mul_mx_scalar scalemxAl.
have -> : \sum_i a 0 i ^+ 2 = (a *m a^T) 0 0 by rewrite mxE; apply: eq_bigr => i _; rewrite mxE expr2.
move: (a *m K *m a^T) (a *m a^T) => X Z.
by rewrite [X in 0 <= X]mxE [X in 0 <= _ + X]mxE [X in 0 <= _ - X]mxE subr_ge0.
Qed.
End Witness.

(* The same witness without lambda. Let each diagonal entry of Y K Y' exceed the sum of the absolute values of the rest
   of its row by at least g > 0. Then K is positive definite, and b'K b is at most |Y t|^2/g, where t = K b. The number
   b'K b is the energy t'K^-1 t. The script that checks an exported certificate uses this. *)
Section Weighted.
Variables (R : realFieldType) (n : nat) (K Y : 'M[R]_n) (g : R).
Local Notation G := (Y *m K *m Y^T).
Hypothesis symmetric : K^T = K.
Hypothesis g_gt0 : 0 < g.
Hypothesis outweighs : forall i, g + \sum_(j | j != i) `|G i j| <= G i i.
Let dominant i : \sum_(j | j != i) `|G i j| < G i i.
Proof. by apply: lt_le_trans (outweighs i); rewrite ltr_addr. Qed.
Let G_symmetric i j : G i j = G j i. Proof. exact: symmetric_through. Qed.
Let Y_unit : Y \in unitmx. Proof. exact: witness_unit erefl (form_eq0 G_symmetric dominant). Qed.

Lemma outweighed_definite (b : 'rV[R]_n) : (b *m K *m b^T) 0 0 = 0 -> b = 0.
Proof.
rewrite -(mulmxKV Y_unit b) through => /(form_eq0 G_symmetric dominant) ->.
by rewrite mul0mx.
Qed.

Theorem weighted_witness (b : 'rV[R]_n) :
  g * (b *m K *m b^T) 0 0 <= \sum_i (\sum_j Y i j * (b *m K) 0 j) ^+ 2.
Proof.
pose c := b *m invmx Y; pose u i := \sum_j Y i j * (b *m K) 0 j.
have b_is : c *m Y = b by rewrite mulmxKV.
set N := (b *m K *m b^T) 0 0.
have large : g * (\sum_i c 0 i * c 0 i) <= N.
  rewrite /N -b_is through mulr_sumr; apply: le_trans (form_ge G_symmetric c).
  apply: ler_sum => i _; rewrite mulrC -expr2; apply: ler_wpmul2l; first exact: sqr_ge0.
  by rewrite -big_mkcond ler_subr_addr.
have N_is : N = \sum_i c 0 i * u i.
  rewrite /N -{2}b_is trmx_mul mulmxA mxE; apply: eq_bigr => i _; rewrite [_^T _ _]mxE mulrC; congr (_ * _).
  by rewrite mxE; apply: eq_bigr => j _; rewrite [_^T _ _]mxE mulrC.
have squares : \sum_i u i ^+ 2 = \sum_i u i * u i by apply: eq_bigr => i _; rewrite expr2.
have [N0|N0] := leP N 0.
  apply: (@le_trans _ _ 0); first by rewrite pmulr_rle0.
  by apply: sumr_ge0 => i _; exact: sqr_ge0.
rewrite squares -(ler_pmul2l N0) mulrCA -expr2 {1}N_is.
apply: (le_trans (ler_wpmul2l (ltW g_gt0) (cauchy (c 0) u))).
by rewrite mulrA; apply: ler_wpmul2r; first exact: sum_sqr_ge0.
Qed.
End Weighted.

Print Assumptions dominant_witness.
Print Assumptions weighted_witness.
