(* From numbers to the certificate. A positive definite Gram matrix K of the rows of C, a guess alpha of the solution of
   K a = t, and a margin for every pair off A give W*, D and kappa as AnyOrder.v needs them.

   The statement fl-ntk/any-order rests on this file. The package ntkfl/any_order concludes in this way with K >= lambda
   I (eigenvalue_misses of GramBounds.v). The check of an exported certificate concludes in this way with a witness Y
   (witness_misses). Nothing is assumed about alpha or the guesses h, since the bounds include their errors.

   The rows of C belong to the labels and to the held pairs; several labels of one sample share the held pairs of this
   sample. D bounds |W0 - W*|, and slack bounds |W~ - W*|, where W~ = W0 + C' alpha is the point that is computed. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid AnyOrder GramBounds.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

(* z is known to within sigma sqrt(k), and is farther than (D + sigma) sqrt(k) from 0 *)
Lemma stays_away (R : realFieldType) (w z D sigma k : R) : 0 <= D -> 0 <= sigma -> 0 <= k ->
  (w - z) ^+ 2 <= sigma ^+ 2 * k -> (D + sigma) ^+ 2 * k < z ^+ 2 -> 0 < w * z /\ D ^+ 2 * k < w ^+ 2.
Proof.
move=> D0 s0 k0 near far; set v := w - z in near.
have z_is : z = w - v by rewrite /v opprB addrC subrK.
have Dsk : 0 <= D * sigma * k by rewrite !mulr_ge0.
split; rewrite ltNge; apply/negP => le.
- have : z ^+ 2 <= v ^+ 2.
    have -> : v ^+ 2 = z ^+ 2 + (w ^+ 2 - w * z *+ 2) by rewrite /v mulr2n; ring.
    by rewrite ler_addl subr_ge0; apply: le_trans (sqr_ge0 w); rewrite mulrn_wle0.
  move=> /le_trans/(_ near)/(lt_le_trans far); apply/negP; rewrite -leNgt ler_wpmul2r //.
  by rewrite ler_pexpn2r ?nnegrE ?addr_ge0 // ler_addr.
- have product : `|w * v| <= D * sigma * k.
    rewrite -(ler_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 // real_normK ?num_real //.
    have -> : (w * v) ^+ 2 = w ^+ 2 * v ^+ 2 by ring.
    have -> : (D * sigma * k) ^+ 2 = (D ^+ 2 * k) * (sigma ^+ 2 * k) by ring.
    by apply: ler_pmul; rewrite ?sqr_ge0.
  have : z ^+ 2 <= (D + sigma) ^+ 2 * k.
    have -> : z ^+ 2 = w ^+ 2 + - (w * v) *+ 2 + v ^+ 2 by rewrite z_is mulr2n; ring.
    have -> : (D + sigma) ^+ 2 * k = D ^+ 2 * k + (D * sigma * k) *+ 2 + sigma ^+ 2 * k by rewrite mulr2n; ring.
    rewrite ler_add // ler_add // ler_pmuln2r //; apply: le_trans product.
    by rewrite -normrN; exact: ler_norm.
  by rewrite leNgt far.
Qed.

Section Certificate.
Variables (R : realFieldType) (m d : nat) (L P : finType).
Local Notation weights := 'M[R]_(m, d).
Variables (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R) (target : L -> R).
Variables (s A : 'I_m -> L -> bool) (W0 : weights).

(* the rows of C, and the products of W* with them *)
Variables (row : P -> weights) (goal : P -> R).
Hypothesis label_row : forall l, exists2 p, row p = phi input readout s A l & goal p = target l.
Hypothesis held_row : forall r l, A r l -> exists2 p, row p = kink (input l) r & goal p = 0.
Definition wanted p : R := goal p - dot (row p) W0.

Hypothesis definite : forall a, norm2 (comb row a) = 0 -> forall p, a p = 0.
Variable missed : (P -> R) -> R.
Hypothesis misses : forall b e, (forall p, dot (row p) (comb row b) = e p) -> norm2 (comb row b) <= missed e.

Variables (alpha : P -> R) (D slack : R) (kap2 : 'I_m -> L -> R).
Definition error p := wanted p - dot (row p) (comb row alpha).
Definition computed : weights := W0 + comb row alpha.
Hypothesis D_ge0 : 0 <= D.
Hypothesis slack_ge0 : 0 <= slack.
Hypothesis D_bound : energy row missed alpha wanted <= D ^+ 2.
Hypothesis slack_bound : missed error <= slack ^+ 2.
(* Two bounds of kappa^2: |x_i|^2, and a bound from a guess h of the solution of K h = k. *)
Hypothesis kap_bound : forall r l, ~~ A r l ->
  \sum_j input l j ^+ 2 <= kap2 r l \/
  exists h, energy row missed h (fun p => dot (row p) (kink (input l) r)) <= kap2 r l.
Hypothesis margins : forall r l, ~~ A r l -> let z := pre (input l) computed r in
  (if s r l then 0 < z else z < 0) /\ (D + slack) ^+ 2 * kap2 r l < z ^+ 2.

Definition fitted : weights := W0 + comb row (solution row wanted).

Let rows_of_C := [tuple row (enum_val i) | i < #|P|].
Definition span : {vspace weights} := <<rows_of_C>>%VS.

Lemma sum_enum (F : P -> weights) : \sum_p F p = \sum_(i < #|P|) F (enum_val i).
Proof. by rewrite -big_enum_val; apply: eq_bigl. Qed.

Lemma row_in_span p : row p \in span.
Proof.
by apply: memv_span; apply/tnthP; exists (enum_rank p); rewrite tnth_mktuple enum_rankK.
Qed.
Lemma comb_in_span a : comb row a \in span.
Proof. by apply: memv_suml => p _; rewrite memvZ // row_in_span. Qed.
Lemma span_is_comb V : V \in span -> exists a, V = comb row a.
Proof.
move=> inS; exists (fun p => coord rows_of_C (enum_rank p) V).
rewrite {1}(coord_span inS) /comb sum_enum; apply: eq_bigr => i _.
by rewrite -tnth_nth tnth_mktuple enum_valK.
Qed.

Lemma reaches p : dot (row p) fitted = goal p.
Proof. by rewrite dotDr (solves definite) addrCA subrr addr0. Qed.

Lemma kappa_comb r l a : ~~ A r l -> pre (input l) (comb row a) r ^+ 2 <= kap2 r l * norm2 (comb row a).
Proof.
move=> off; rewrite -dot_kink; case: (kap_bound off) => [easy|[h hard]].
- apply: (le_trans (cauchy_dot _ _)); apply: ler_wpmul2r; first exact: norm2_ge0.
  rewrite /norm2 dot_kink; apply: le_trans easy; rewrite le_eqVlt; apply/orP; left; apply/eqP.
  by apply: eq_bigr => j _; rewrite mxE eqxx mul1r.
- apply: (le_trans (projection_bound definite misses h (kink (input l) r) a)).
  by apply: ler_wpmul2r; first exact: norm2_ge0.
Qed.

Lemma kap2_ge0 r l : ~~ A r l -> 0 <= kap2 r l.
Proof.
move=> off; case: (kap_bound off) => [|[h]]; apply: le_trans; first by apply: sumr_ge0 => j _; exact: sqr_ge0.
by apply: le_trans (energy_bound definite misses h _); exact: norm2_ge0.
Qed.

Lemma fitted_apart : exists2 b, fitted - computed = comb row b & norm2 (comb row b) <= slack ^+ 2.
Proof.
pose b p := solution row wanted p - alpha p.
have apart : fitted - computed = comb row b.
  have split_up : comb row (solution row wanted) = comb row alpha + comb row b.
    by rewrite -combD; apply: eq_bigr => p _; rewrite addrCA subrr addr0.
  by rewrite /fitted /computed split_up opprD addrACA subrr add0r addrAC subrr add0r.
have products p : dot (row p) (comb row b) = error p.
  by rewrite -apart /computed dotBr reaches /error dotDr /wanted opprD addrA.
by exists b => //; exact: le_trans (misses products) slack_bound.
Qed.

Lemma fitted_near_computed r l : ~~ A r l ->
  (pre (input l) fitted r - pre (input l) computed r) ^+ 2 <= slack ^+ 2 * kap2 r l.
Proof.
move=> off; have [b apart near] := fitted_apart.
by rewrite -preB apart; apply: (le_trans (kappa_comb b off)); rewrite mulrC ler_wpmul2r ?kap2_ge0.
Qed.

(* Every model of the ball is near the computed point. *)
Lemma around_computed V : ball span fitted (D ^+ 2) V -> norm2 (V - computed) <= (D + slack) ^+ 2.
Proof.
case/andP=> _ near; have [b apart] := fitted_apart; rewrite -apart => rest.
have -> : V - computed = (V - fitted) + (fitted - computed) by rewrite addrA subrK.
have cross : dot (V - fitted) (fitted - computed) <= D * slack.
  apply: (le_trans (ler_norm _)).
  rewrite -(ler_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 ?mulr_ge0 // real_normK ?num_real // exprMn.
  by apply: (le_trans (cauchy_dot _ _)); rewrite ler_pmul ?norm2_ge0.
have -> : (D + slack) ^+ 2 = D ^+ 2 + (D * slack) *+ 2 + slack ^+ 2 by rewrite mulr2n; ring.
by rewrite norm2D !ler_add // ler_pmuln2r.
Qed.

Theorem certified : certificate input readout target s A span fitted W0 (D ^+ 2) kap2.
Proof.
have back : W0 - fitted = - comb row (solution row wanted) by rewrite opprD addrA subrr add0r.
have away r l (off : ~~ A r l) := stays_away D_ge0 slack_ge0 (kap2_ge0 off) (fitted_near_computed off) (margins off).2.
split.
- by move=> l; have [p <- _] := label_row l; exact: row_in_span.
- by move=> r l /held_row[p <- _]; exact: row_in_span.
- by rewrite back memvN comb_in_span.
- by rewrite back norm2N; apply: le_trans D_bound; exact: (energy_bound definite misses).
- by move=> l; have [p <- <-] := label_row l; exact: reaches.
- by move=> r l /held_row[p kink_is goal0]; rewrite -dot_kink -kink_is reaches.
- exact: kap2_ge0.
- by move=> r l V off /span_is_comb[a ->]; exact: kappa_comb.
- move=> r l off; have [same _] := away r l off; have [+ _] := margins off.
  by case: (s r l) => z0; move: same; rewrite ?(pmulr_lgt0 _ z0) ?(nmulr_lgt0 _ z0).
- by move=> r l off; have [] := away r l off.
Qed.

(* The conclusions that a user of the certificate is told. *)
Theorem checkpoint_safe eps U w (b : 'I_m -> R) (z : 'I_d -> R) : 0 <= eps ->
  continued input readout target W0 eps U w ->
  eps * w <= D ^+ 2 /\
  (net b z U - net b z W0) ^+ 2 <= 4%:R * D ^+ 2 * (\sum_r b r * b r) * (\sum_j z j * z j).
Proof. by move=> eps0 U_is; split; [exact: total_work certified eps0 _ _ U_is | exact: predictions_stay certified eps0 _ _ _ _ U_is]. Qed.

(* The class of z is final. This follows from the outputs of the computed point if only neurons of Z may be active at z. *)
Theorem class_is_final eps U w (z : 'I_d -> R) (Z : pred 'I_m) (b b' : 'I_m -> R) e e' : 0 <= eps ->
  continued input readout target W0 eps U w ->
  (forall r, ~~ Z r -> pre z computed r <= 0 /\ (D + slack) ^+ 2 * (\sum_j z j * z j) <= pre z computed r ^+ 2) ->
  0 <= e -> (D + slack) ^+ 2 * (\sum_(r | Z r) b r * b r) * (\sum_j z j * z j) <= e ^+ 2 ->
  0 <= e' -> (D + slack) ^+ 2 * (\sum_(r | Z r) b' r * b' r) * (\sum_j z j * z j) <= e' ^+ 2 ->
  net b' z computed + e' < net b z computed - e -> net b' z U < net b z U.
Proof.
move=> eps0 U_is asleep e0 le e0' le'.
exact: (final_class certified eps0 around_computed asleep U_is e0 e0' le le').
Qed.
End Certificate.

Print Assumptions certified.
Print Assumptions checkpoint_safe.
Print Assumptions class_is_final.
