(* Conclusions from a positive definite Gram matrix K. Every linear system K a = t has a solution. For a guess h of the
   solution, with the error e = t - K h, the energy t'K^-1 t is at most h't + h'e plus any bound of e'K^-1 e. There are
   two such bounds. One is |e|^2/lambda if K >= lambda I. The other is |Y e|^2/g if each diagonal entry of Y K Y'
   exceeds the sum of the absolute values of the rest of its row by at least g.

   The statement fl-ntk/any-order rests on this file, from which Certificate.v gets W*, D and kappa. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid Dominance.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Gram.
Variables (R : realFieldType) (m d : nat) (P : finType).
Local Notation weights := 'M[R]_(m, d).
Variable C : P -> weights.
Implicit Types (a b h t : P -> R).

Definition comb a : weights := \sum_p a p *: C p.
Definition gram (p q : P) : R := dot (C p) (C q).

Lemma dot_comb a V : dot (comb a) V = \sum_p a p * dot (C p) V.
Proof. by rewrite dot_suml; apply: eq_bigr => p _; rewrite dotZl. Qed.
Lemma norm2_comb a : norm2 (comb a) = \sum_p \sum_q a p * a q * gram p q.
Proof.
rewrite /norm2 dot_comb; apply: eq_bigr => p _; rewrite dotC dot_comb mulr_sumr.
by apply: eq_bigr => q _; rewrite mulrA (dotC (C q)).
Qed.
Lemma combD a b : comb (fun p => a p + b p) = comb a + comb b.
Proof. by rewrite /comb -big_split; apply: eq_bigr => p _; rewrite scalerDl. Qed.

Hypothesis definite : forall a, norm2 (comb a) = 0 -> forall p, a p = 0.

Let sum_enum (F : P -> R) : \sum_p F p = \sum_(i < #|P|) F (enum_val i).
Proof. by rewrite -big_enum_val; apply: eq_bigl. Qed.

Let M : 'M[R]_#|P| := \matrix_(i, j) gram (enum_val i) (enum_val j).

Lemma gram_unit : M \in unitmx.
Proof.
rewrite -row_free_unit -kermx_eq0; apply/eqP/row_matrixP => i; rewrite row0.
set v := row i (kermx M).
have vM : v *m M = 0 by apply/sub_kermxP; exact: row_sub.
pose a p := v 0 (enum_rank p).
have zero : norm2 (comb a) = 0.
  rewrite /norm2 dot_comb; apply: big1 => p _; rewrite dotC dot_comb.
  have := congr1 (fun u : 'rV_#|P| => u 0 (enum_rank p)) vM; rewrite !mxE => column.
  suff -> : \sum_q a q * dot (C q) (C p) = 0 by rewrite mulr0.
  rewrite sum_enum -[RHS]column.
  by apply: eq_bigr => j _; rewrite [M _ _]mxE /a enum_valK enum_rankK.
by apply/rowP => j; rewrite [RHS]mxE -(enum_valK j); exact: definite zero _.
Qed.

Definition solution t p : R := ((\row_i t (enum_val i)) *m invmx M) 0 (enum_rank p).

Lemma solves t p : dot (C p) (comb (solution t)) = t p.
Proof.
rewrite dotC dot_comb.
have := congr1 (fun u : 'rV_#|P| => u 0 (enum_rank p)) (mulmxKV gram_unit (\row_i t (enum_val i))).
rewrite /= [X in _ = X]mxE enum_rankK => <-; rewrite mxE.
rewrite sum_enum.
by apply: eq_bigr => j _; rewrite /solution enum_valK [M _ _]mxE enum_rankK.
Qed.

(* The number missed e bounds |V|^2 = e'K^-1 e for the combination V of the rows whose products with the rows are e. *)
Variable missed : (P -> R) -> R.
Hypothesis misses : forall b e, (forall p, dot (C p) (comb b) = e p) -> norm2 (comb b) <= missed e.

Definition energy h t : R :=
  let e p := t p - dot (C p) (comb h) in \sum_p h p * t p + \sum_p h p * e p + missed e.

Theorem energy_bound h t : norm2 (comb (solution t)) <= energy h t.
Proof.
pose e p := t p - dot (C p) (comb h); pose b p := solution t p - h p.
have split_up : comb (solution t) = comb h + comb b.
  by rewrite -combD; apply: eq_bigr => p _; rewrite addrCA subrr addr0.
have products p : dot (C p) (comb b) = e p.
  by rewrite /e -(solves t) split_up dotDr addrAC subrr add0r.
rewrite {1}split_up norm2D /energy -/e; apply: ler_add; last exact: misses.
have -> : dot (comb h) (comb b) = \sum_p h p * e p by rewrite dot_comb; apply: eq_bigr => p _; rewrite products.
have -> : norm2 (comb h) = \sum_p h p * t p - \sum_p h p * e p.
  by rewrite /norm2 dot_comb -sumrB; apply: eq_bigr => p _; rewrite /e mulrBr opprB addrCA subrr addr0.
by rewrite mulr2n addrA subrK.
Qed.

(* The inner product of a combination V of the rows with any Q is at most |V| times the norm of the projection of Q on
   the span of the rows. *)
Theorem projection_bound h (Q : weights) b :
  dot Q (comb b) ^+ 2 <= energy h (fun p => dot (C p) Q) * norm2 (comb b).
Proof.
set t := fun p => dot (C p) Q.
have -> : dot Q (comb b) = dot (comb (solution t)) (comb b).
  rewrite dotC [RHS]dotC !dot_comb; apply: eq_bigr => p _; by rewrite solves.
apply: (le_trans (cauchy_dot _ _)); rewrite ler_wpmul2r ?norm2_ge0 //; exact: energy_bound.
Qed.

End Gram.

(* With K >= lambda I an error e adds at most |e|^2/lambda to a bound. *)
Section Eigenvalue.
Variables (R : realFieldType) (m d : nat) (P : finType) (C : P -> 'M[R]_(m, d)) (lam : R).
Hypothesis lam_gt0 : 0 < lam.
Hypothesis gram_ge : forall a, lam * (\sum_p a p ^+ 2) <= \sum_p \sum_q a p * a q * gram C p q.
Let positive a : lam * (\sum_p a p ^+ 2) <= norm2 (comb C a).
Proof. by rewrite norm2_comb. Qed.

Lemma eigenvalue_definite a : norm2 (comb C a) = 0 -> forall p, a p = 0.
Proof.
move=> zero p; have := positive a; rewrite zero pmulr_rle0 // => squares.
apply: (sum_sqr_eq0 (u := a)); under eq_bigr do rewrite -expr2.
by apply/eqP; rewrite eq_le squares; apply: sumr_ge0 => q _; rewrite sqr_ge0.
Qed.

Theorem eigenvalue_misses b e : (forall p, dot (C p) (comb C b) = e p) -> norm2 (comb C b) <= (\sum_p e p ^+ 2) / lam.
Proof.
move=> products; set N := norm2 (comb C b).
have N_is : N = \sum_p b p * e p by rewrite /N /norm2 dot_comb; apply: eq_bigr => p _; rewrite products.
have [->|N0] := eqVneq N 0.
  by apply: divr_ge0; [apply: sumr_ge0 => p _; exact: sqr_ge0 | exact: ltW].
have {}N0 : 0 < N by rewrite lt_def N0 norm2_ge0.
rewrite ler_pdivl_mulr // -(ler_pmul2l N0).
have := cauchy b e; rewrite -N_is.
under eq_bigr do rewrite -expr2; under [X in _ <= _ * X]eq_bigr do rewrite -expr2.
move=> le; rewrite mulrA -expr2.
apply: (le_trans (ler_wpmul2r (ltW lam_gt0) le)).
rewrite mulrAC; apply: ler_wpmul2r; first by apply: sumr_ge0 => p _; exact: sqr_ge0.
by rewrite mulrC; exact: positive.
Qed.
End Eigenvalue.

(* The conclusions of Dominance.v from a witness Y, for rows of any finite type. One is K >= lambda I. The other,
   without lambda, is that an error e adds at most |Y e|^2/g to a bound. *)
Section Witness.
Variables (R : realFieldType) (m d : nat) (P : finType) (C : P -> 'M[R]_(m, d)).
Let K : 'M[R]_#|P| := \matrix_(i, j) gram C (enum_val i) (enum_val j).
Let sum_enum (F : P -> R) : \sum_p F p = \sum_(i < #|P|) F (enum_val i).
Proof. by rewrite -big_enum_val; apply: eq_bigl. Qed.
Let symmetric : K^T = K.
Proof. by apply/matrixP => i j; rewrite !mxE /gram dotC. Qed.
Let as_row (a : P -> R) : 'rV_#|P| := \row_i a (enum_val i).
Let form_is a : (as_row a *m K *m (as_row a)^T) 0 0 = \sum_p \sum_q a p * a q * gram C p q.
Proof.
rewrite mxE sum_enum [RHS](eq_bigr _ (fun i _ => sum_enum _)) exchange_big.
by apply: eq_bigr => j _; rewrite mxE mulr_suml; apply: eq_bigr => i _; rewrite !mxE mulrAC.
Qed.

Theorem gram_witness (lam : R) (Y : 'M[R]_#|P|) (a : P -> R) :
  (forall i, \sum_(j | j != i) `|(Y *m (K - lam%:M) *m Y^T) i j| < (Y *m (K - lam%:M) *m Y^T) i i) ->
  lam * (\sum_p a p ^+ 2) <= \sum_p \sum_q a p * a q * gram C p q.
Proof.
move=> dominant; have := dominant_witness symmetric dominant (as_row a).
by rewrite form_is [\sum_p a p ^+ 2]sum_enum; under eq_bigr do rewrite mxE.
Qed.

Variables (Y : P -> P -> R) (g : R).
Definition weighted p q : R := \sum_u (\sum_v Y p v * gram C v u) * Y q u.
Hypothesis g_gt0 : 0 < g.
Hypothesis outweighs : forall p, g + \sum_(q | q != p) `|weighted p q| <= weighted p p.

Let Ym : 'M[R]_#|P| := \matrix_(i, j) Y (enum_val i) (enum_val j).
Let weighted_is i j : (Ym *m K *m Ym^T) i j = weighted (enum_val i) (enum_val j).
Proof.
rewrite mxE /weighted sum_enum; apply: eq_bigr => k _; rewrite !mxE; congr (_ * _).
by rewrite sum_enum; apply: eq_bigr => l _; rewrite !mxE.
Qed.
Let outweighs_in_order i : g + \sum_(j | j != i) `|(Ym *m K *m Ym^T) i j| <= (Ym *m K *m Ym^T) i i.
Proof.
rewrite weighted_is; apply: le_trans (outweighs (enum_val i)); rewrite ler_add2l.
rewrite [leRHS]big_mkcond sum_enum [leLHS]big_mkcond le_eqVlt; apply/orP; left; apply/eqP.
by apply: eq_bigr => j _; rewrite (inj_eq enum_val_inj) weighted_is.
Qed.

Lemma witness_definite a : norm2 (comb C a) = 0 -> forall p, a p = 0.
Proof.
rewrite norm2_comb -form_is => /(outweighed_definite symmetric g_gt0 outweighs_in_order)/rowP zero p.
by have := zero (enum_rank p); rewrite !mxE enum_rankK.
Qed.

Theorem witness_misses b e : (forall p, dot (C p) (comb C b) = e p) ->
  norm2 (comb C b) <= (\sum_p (\sum_q Y p q * e q) ^+ 2) / g.
Proof.
move=> products; rewrite ler_pdivl_mulr // mulrC norm2_comb -form_is.
apply: (le_trans (weighted_witness symmetric g_gt0 outweighs_in_order _)).
rewrite sum_enum le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => i _; congr (_ ^+ 2).
rewrite sum_enum; apply: eq_bigr => j _; rewrite mxE; congr (_ * _).
rewrite -products dotC dot_comb mxE sum_enum; apply: eq_bigr => k _; by rewrite !mxE.
Qed.
End Witness.

Print Assumptions energy_bound.
Print Assumptions projection_bound.
Print Assumptions eigenvalue_misses.
Print Assumptions gram_witness.
Print Assumptions witness_misses.
