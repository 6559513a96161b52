(* No eigenvalue of J J' is below g/top, for the gradients J of every later model. Two conditions on the certified
   checkpoint give g and top. First, each diagonal entry of Y K Y' exceeds the sum of the absolute values of the rest of
   its row by at least g, where K is the Gram matrix of the rows of C. Second, the block of Y'Y that belongs to the
   labels has no eigenvalue above top.

   The statement fl-ntk/any-order rests on this file. An export claims such a bound, and the script that checks
   the export checks this bound in its point (5). *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid AnyOrder GramBounds Certificate.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Eigenvalue.
Variables (R : realFieldType) (m d : nat) (L P : finType).
Local Notation weights := 'M[R]_(m, d).
Variables (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R) (target : L -> R) (s A : 'I_m -> L -> bool).
Variables (S : {vspace weights}) (Ws W0 : weights) (D2 : R) (kap2 : 'I_m -> L -> R).
Hypothesis cert : certificate input readout target s A S Ws W0 D2 kap2.

(* the rows of C: one for each label, others for the held pairs *)
Variables (row : P -> weights) (row_of : L -> P).
Hypothesis distinct : injective row_of.
Hypothesis label_row : forall l, row (row_of l) = phi input readout s A l.
Hypothesis held_row : forall r l, A r l -> exists2 p, row p = kink (input l) r & forall l', p != row_of l'.

Variables (Y : P -> P -> R) (g top : R).
Hypothesis g_gt0 : 0 < g.
Hypothesis outweighs : forall p, g + \sum_(q | q != p) `|weighted row Y p q| <= weighted row Y p p.
Hypothesis top_ge0 : 0 <= top.
Hypothesis top_bounds : forall v, \sum_p (\sum_l Y p (row_of l) * v l) ^+ 2 <= top * \sum_l v l ^+ 2.

Theorem eigenvalue_stays eps U spent slope v : 0 <= eps -> continued input readout target W0 eps U spent ->
  slopes input U slope -> g * (\sum_l v l ^+ 2) <= top * norm2 (\sum_l v l *: grad input readout slope l).
Proof.
move=> eps0 U_is ok; have [near _] := continuation_safe cert eps0 U_is.
pose e p := \sum_l (p == row_of l)%:R * v l.
pose B := comb row (solution row e).
have B_is p : dot (row p) B = e p := solves (witness_definite g_gt0 outweighs) e p.
have e_label l : e (row_of l) = v l.
  rewrite /e (bigD1 l) //= eqxx mul1r big1 ?addr0 // => l' ne.
  by rewrite (inj_eq distinct) eq_sym (negbTE ne) mul0r.
have seen l : dot (grad input readout slope l) B = v l.
  rewrite (grad_split cert l ok near) dotDl dot_suml big1 ?addr0 => [|r on].
    by rewrite -label_row B_is e_label.
  rewrite dotZl; have [p <- apart] := held_row on.
  by rewrite B_is /e big1 ?mulr0 // => l' _; rewrite (negbTE (apart l')) mul0r.
set V := \sum_l _ *: _; set N := \sum_l _ ^+ 2.
have dot_is : dot V B = N.
  by rewrite /V dot_suml; apply: eq_bigr => l _; rewrite dotZl seen expr2.
have small : norm2 B * g <= top * N.
  rewrite -ler_pdivl_mulr //; apply: (le_trans (witness_misses g_gt0 outweighs B_is)).
  rewrite ler_pmul2r ?invr_gt0 //; apply: le_trans (top_bounds v).
  rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => p _; congr (_ ^+ 2).
  under eq_bigr do rewrite /e mulr_sumr; rewrite exchange_big; apply: eq_bigr => l _ /=.
  rewrite (bigD1 (row_of l)) //= eqxx mul1r big1 ?addr0 // => q ne.
  by rewrite (negbTE ne) mul0r mulr0.
have [N0|N0] := eqVneq N 0; first by rewrite N0 mulr0 mulr_ge0 ?norm2_ge0.
have {}N0 : 0 < N by rewrite lt_def N0; apply: sumr_ge0 => l _; exact: sqr_ge0.
have := cauchy_dot V B; rewrite dot_is => le; rewrite -(ler_pmul2l N0).
apply: (@le_trans _ _ (norm2 V * (norm2 B * g))).
  have -> : N * (g * N) = N ^+ 2 * g by ring.
  by rewrite mulrA ler_pmul2r.
have -> : N * (top * norm2 V) = norm2 V * (top * N) by ring.
by rewrite ler_wpmul2l ?norm2_ge0.
Qed.
End Eigenvalue.

Print Assumptions eigenvalue_stays.
