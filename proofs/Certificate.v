(* From numbers to the certificate: a Gram matrix K >= lambda I of the rows of C, a guess alpha of the solution of
   K a = t, and a margin for every pair off A give W*, D and kappa as AnyOrder.v asks for them.

   fl-ntk/any-order rests on it: this is how ntkfl/any_order concludes. (The check of an exported certificate has the
   rows Y C: not here.) Nothing is believed of alpha or of the guesses h: their errors enter the bounds.

   The rows of C are those of the labels and those of the held pairs, a finite type Q of them: several labels of one
   sample share its pair. D and slack bound |W0 - W*| and |W~ - W*|, W~ = W0 + C' alpha the point that is computed. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid AnyOrder GramBounds.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Certificate.
Variables (R : realFieldType) (m d : nat) (L Q : finType).
Local Notation weights := 'M[R]_(m, d).
Variables (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R) (target : L -> R).
Variables (s A : 'I_m -> L -> bool) (neuron : Q -> 'I_m) (label : Q -> L).

(* Q lists A: every held pair is named, by some label of the same sample *)
Hypothesis Q_all : forall r l, A r l -> exists2 q, neuron q = r & input (label q) = input l.

Definition row (p : L + Q) : weights :=
  match p with inl l => phi input readout s A l | inr q => kink (input (label q)) (neuron q) end.
Variable W0 : weights.
(* what W* - W0 has to give on the rows *)
Definition wanted (p : L + Q) : R :=
  (match p with inl l => target l | inr _ => 0 end) - dot (row p) W0.

Variables (lam : R) (alpha : L + Q -> R) (D slack : R) (kap : 'I_m -> L -> R).
Hypothesis lam_gt0 : 0 < lam.
Hypothesis gram_ge : forall a, lam * (\sum_p a p ^+ 2) <= \sum_p \sum_q a p * a q * gram row p q.

Definition error p := wanted p - dot (row p) (comb row alpha).
Definition computed : weights := W0 + comb row alpha.
Hypothesis D_ge0 : 0 <= D.
Hypothesis slack_ge0 : 0 <= slack.
Hypothesis D_bound : energy row lam alpha wanted <= D ^+ 2.
Hypothesis slack_bound : (\sum_p error p ^+ 2) / lam <= slack ^+ 2.
Hypothesis kap_ge0 : forall r l, ~~ A r l -> 0 <= kap r l.
(* kappa: at most |x_i|, or by a guess h of the solution of K h = k *)
Hypothesis kap_bound : forall r l, ~~ A r l ->
  \sum_j input l j ^+ 2 <= kap r l ^+ 2 \/
  exists h, energy row lam h (fun p => dot (row p) (kink (input l) r)) <= kap r l ^+ 2.
Hypothesis margins : forall r l, ~~ A r l ->
  let z := pre (input l) computed r in (D + slack) * kap r l < if s r l then z else - z.

Let positive a : lam * (\sum_p a p ^+ 2) <= norm2 (comb row a).
Proof. by rewrite norm2_comb. Qed.

Definition fitted : weights := W0 + comb row (solution row wanted).

Let rows_of_C := [tuple row (enum_val i) | i < #|{: L + Q}|].
Definition span : {vspace weights} := <<rows_of_C>>%VS.

Lemma sum_enum (F : L + Q -> weights) : \sum_p F p = \sum_(i < #|{: L + Q}|) F (enum_val i).
Proof. by rewrite -big_enum_val; apply: eq_bigl. Qed.

Lemma comb_in_span a : comb row a \in span.
Proof.
apply: memv_suml => p _; rewrite memvZ //; apply: memv_span.
by apply/tnthP; exists (enum_rank p); rewrite tnth_mktuple enum_rankK.
Qed.
Lemma row_in_span p : row p \in span.
Proof.
by apply: memv_span; apply/tnthP; exists (enum_rank p); rewrite tnth_mktuple enum_rankK.
Qed.
Lemma span_is_comb V : V \in span -> exists a, V = comb row a.
Proof.
move=> inS; exists (fun p => coord rows_of_C (enum_rank p) V).
rewrite {1}(coord_span inS) /comb sum_enum; apply: eq_bigr => i _.
by rewrite -tnth_nth tnth_mktuple enum_valK.
Qed.

Lemma held_row r l : A r l -> exists q, kink (input l) r = row (inr q).
Proof. by case/Q_all => q <- same; exists q; rewrite /= same. Qed.

Lemma reaches p : dot (row p) fitted = match p with inl l => target l | inr _ => 0 end.
Proof. by rewrite dotDr (solves lam_gt0 positive) addrCA subrr addr0. Qed.

Lemma kappa_comb r l a : ~~ A r l -> pre (input l) (comb row a) r ^+ 2 <= kap r l ^+ 2 * norm2 (comb row a).
Proof.
move=> off; rewrite -dot_kink; case: (kap_bound off) => [easy|[h hard]].
- apply: (le_trans (cauchy_dot _ _)); apply: ler_wpmul2r; first exact: norm2_ge0.
  rewrite /norm2 dot_kink; apply: le_trans easy; rewrite le_eqVlt; apply/orP; left; apply/eqP.
  by apply: eq_bigr => j _; rewrite mxE eqxx mul1r.
- apply: (le_trans (projection_bound lam_gt0 positive h (kink (input l) r) a)).
  by apply: ler_wpmul2r; first exact: norm2_ge0.
Qed.

Lemma fitted_near_computed r l : ~~ A r l ->
  `|pre (input l) fitted r - pre (input l) computed r| <= slack * kap r l.
Proof.
move=> off; pose b p := solution row wanted p - alpha p.
have apart : fitted - computed = comb row b.
  have split_up : comb row (solution row wanted) = comb row alpha + comb row b.
    by rewrite -combD; apply: eq_bigr => p _; rewrite addrCA subrr addr0.
  by rewrite /fitted /computed split_up opprD addrACA subrr add0r addrAC subrr add0r.
have products p : dot (row p) (comb row b) = error p.
  by rewrite -apart /computed dotBr reaches /error dotDr /wanted opprD addrA.
have near : norm2 (comb row b) <= slack ^+ 2.
  by apply: le_trans slack_bound; exact: (energy_le lam_gt0 positive products).
rewrite -preB apart -(ler_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 ?mulr_ge0 ?kap_ge0 //.
rewrite real_normK ?num_real //; apply: (le_trans (kappa_comb b off)).
by rewrite exprMn [leRHS]mulrC; apply: ler_wpmul2l; first exact: sqr_ge0.
Qed.

Lemma fitted_far r l : ~~ A r l ->
  D * kap r l < if s r l then pre (input l) fitted r else - pre (input l) fitted r.
Proof.
move=> off; have := margins off; have := fitted_near_computed off; rewrite /= mulrDl.
set z := pre (input l) computed r; set w := pre (input l) fitted r => near.
have [low high] : w - z >= - (slack * kap r l) /\ w - z <= slack * kap r l.
  by move: near; rewrite ler_norml => /andP[].
case: (s r l) => far; rewrite -(ltr_add2r (slack * kap r l)); apply: (lt_le_trans far).
- by rewrite -ler_subl_addl -opprB ler_oppl.
- by rewrite -ler_subl_addl opprK addrC.
Qed.

Theorem certified : certificate input readout target s A span fitted W0 (D ^+ 2) (fun r l => kap r l ^+ 2).
Proof.
have back : W0 - fitted = - comb row (solution row wanted) by rewrite opprD addrA subrr add0r.
split.
- by move=> l; exact: (row_in_span (inl l)).
- by move=> r l /held_row[q ->]; exact: row_in_span.
- by rewrite back memvN comb_in_span.
- by rewrite back norm2N; apply: le_trans D_bound; exact: (energy_bound lam_gt0 positive).
- by move=> l; exact: (reaches (inl l)).
- by move=> r l /held_row[q kink_is]; rewrite -dot_kink kink_is reaches.
- by move=> r l _; exact: sqr_ge0.
- by move=> r l V off /span_is_comb[a ->]; exact: kappa_comb.
- move=> r l off; have := fitted_far off.
  have least : 0 <= D * kap r l by rewrite mulr_ge0 ?kap_ge0.
  by case: (s r l) => far; [| rewrite -oppr_gt0]; exact: le_lt_trans far.
- move=> r l off; rewrite -exprMn; have := fitted_far off.
  have least : 0 <= D * kap r l by rewrite mulr_ge0 ?kap_ge0.
  case: (s r l) => far; [| rewrite -[X in _ < X]sqrrN];
    by rewrite ltr_pexpn2r // nnegrE // (le_trans least (ltW far)).
Qed.

(* what a user of the certificate is told *)
Theorem checkpoint_safe eps U w (b : 'I_m -> R) (z : 'I_d -> R) : 0 <= eps ->
  continued input readout target W0 eps U w ->
  eps * w <= D ^+ 2 /\
  (net b z U - net b z W0) ^+ 2 <= 4%:R * D ^+ 2 * (\sum_r b r * b r) * (\sum_j z j * z j).
Proof. by move=> eps0 U_is; split; [exact: total_work certified eps0 _ _ U_is | exact: predictions_stay certified eps0 _ _ _ _ U_is]. Qed.
End Certificate.

Print Assumptions certified.
Print Assumptions checkpoint_safe.
