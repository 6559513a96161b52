(* Which steps are allowed from a certified checkpoint, as inequalities between numbers.

   The statement fl-ntk/any-order rests on this file (its hypothesis "steps"), and so do the limits that a certificate
   prints. The theorem universal_step_limit proves the field universal_step_limits of a certificate, 2/(|a|^2 |X_c|^2).
   The theorems entries_step_limit and gradient_products together prove its client_step_limits, from bounds of the
   entries of J J' that are valid whatever the patterns on A are.

   A bound |M|^2 <= x of a matrix norm is stated as an inequality of quadratic forms: |M v|^2 <= x |v|^2 for all v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid AnyOrder.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Lemma between_products (R : realFieldType) (w o p n : R) : o <= p -> p <= n ->
  w * o - Num.max 0 (- w) * (n - o) <= w * p <= w * o + Num.max 0 w * (n - o).
Proof.
move=> op pn; have [w0|w0] := leP 0 w.
- have -> : Num.max 0 (- w) = 0 by rewrite max_l // oppr_le0.
  by rewrite mul0r subr0 -mulrDr addrCA subrr addr0 !ler_wpmul2l.
- have -> : Num.max 0 (- w) = - w by rewrite max_r // oppr_ge0 ltW.
  rewrite mul0r addr0 mulNr opprK.
  by rewrite -mulrDr addrCA subrr addr0 !(ler_nmul2l w0) pn op.
Qed.

Section Limits.
Variables (R : realFieldType) (m d : nat) (L : finType).
Local Notation weights := 'M[R]_(m, d).
Variables (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R) (target : L -> R) (eps : R).
Implicit Types (U : weights) (g : L -> 'I_m -> R) (c v : L -> R) (B : pred L).
Local Notation move := (move input readout target).
Local Notation work := (work input readout target).
Local Notation allowed := (allowed input readout target eps).
Local Notation grad := (grad input readout).
Local Notation res := (res input readout target).

(* |J_B|^2 <= top *)
Definition gradients_bounded g B top :=
  forall v, norm2 (\sum_(l | B l) v l *: grad g l) <= top * \sum_(l | B l) v l ^+ 2.

(* Steps of at most eta are allowed on a batch B with eta |J_B|^2 <= 2 - eps. *)
Theorem step_limit U g c B top eta : slopes input U g -> gradients_bounded g B top -> 0 <= top ->
  (forall l, 0 <= c l <= eta) -> (forall l, ~~ B l -> c l = 0) -> eta * top <= 2 - eps -> allowed U g c.
Proof.
move=> ok bounded top0 c_le outside short.
have c0 l : 0 <= c l by case/andP: (c_le l).
split=> //.
have -> : move U g c = \sum_(l | B l) (c l * res U l) *: grad g l.
  by rewrite /AnyOrder.move (bigID B) /= [X in _ + X]big1 ?addr0 // => l off; rewrite outside // mul0r scale0r.
apply: (le_trans (bounded _)).
have le : \sum_(l | B l) (c l * res U l) ^+ 2 <= eta * work U c.
  rewrite /AnyOrder.work mulr_sumr [leRHS](bigID B) /= [X in _ + X]big1 ?addr0 => [|l off].
    apply: ler_sum => l _; rewrite exprMn [c l ^+ 2]expr2 -mulrA; apply: ler_wpmul2r.
      by rewrite mulr_ge0 ?sqr_ge0.
    by case/andP: (c_le l).
  by rewrite outside // mul0r mulr0.
apply: (le_trans (ler_wpmul2l top0 le)); rewrite mulrA [top * eta]mulrC.
by rewrite ler_wpmul2r // work_ge0.
Qed.

(* The same conclusion from entries: G + E bounds J J' on the batch, and top bounds G + E as a quadratic form. *)
Theorem entries_step_limit U g c B (G E : L -> L -> R) top eta : slopes input U g -> 0 <= top ->
  (forall l l', B l -> B l' -> `|dot (grad g l) (grad g l') - G l l'| <= E l l') ->
  (forall v, \sum_(l | B l) \sum_(l' | B l') (v l * v l' * G l l' + `|v l| * `|v l'| * E l l')
     <= top * \sum_(l | B l) v l ^+ 2) ->
  (forall l, 0 <= c l <= eta) -> (forall l, ~~ B l -> c l = 0) -> eta * top <= 2 - eps -> allowed U g c.
Proof.
move=> ok top0 entries form; apply: step_limit => // v; apply: le_trans (form v).
rewrite {1}/norm2 dot_suml; apply: ler_sum => l inB; rewrite dot_sumr; apply: ler_sum => l' inB'.
rewrite dotZl dotZr mulrA -ler_subl_addl -mulrBr; apply: (le_trans (ler_norm _)).
by rewrite normrM normrM ler_wpmul2l ?mulr_ge0 ?normr_ge0 // entries.
Qed.

(* The entries of J J' in the ball. Off A the slopes are the frozen patterns s, on A they are any numbers between 0 and
   1. *)
Section Frozen.
Variables s A : 'I_m -> L -> bool.
Variables (S : {vspace weights}) (Ws W0 : weights) (D2 : R) (kap2 : 'I_m -> L -> R).
Hypothesis cert : certificate input readout target s A S Ws W0 D2 kap2.

Definition off_A r l : R := (~~ A r l && s r l)%:R.   (* the patterns with 0 on A *)
Definition on_A r l : R := (A r l || s r l)%:R.       (* the patterns with 1 on A *)
Definition weight l l' r : R := readout l r * readout l' r.
Definition free l l' r : R := on_A r l * on_A r l' - off_A r l * off_A r l'.
Definition inner l l' : R := \sum_j input l j * input l' j.

Lemma dot_grads g l l' :
  dot (grad g l) (grad g l') = inner l l' * \sum_r weight l l' r * (g l r * g l' r).
Proof.
rewrite dot_rows mulr_sumr; apply: eq_bigr => r _; rewrite /pre /inner mulr_sumr mulr_suml.
by apply: eq_bigr => j _; rewrite mxE /weight; ring.
Qed.

Theorem gradient_products U g l l' : ball S Ws D2 U -> slopes input U g -> (forall l r, 0 <= g l r <= 1) ->
  \sum_r (weight l l' r * (off_A r l * off_A r l') - Num.max 0 (- weight l l' r) * free l l' r)
  <= \sum_r weight l l' r * (g l r * g l' r)
  <= \sum_r (weight l l' r * (off_A r l * off_A r l') + Num.max 0 (weight l l' r) * free l l' r).
Proof.
move=> near ok g01.
have between r k : off_A r k <= g k r <= on_A r k.
  rewrite /off_A /on_A; have [on|off] := boolP (A r k); first by rewrite /= g01.
  by rewrite (frozen cert ok near off) /= lexx.
have low r : off_A r l * off_A r l' <= g l r * g l' r.
  by case/andP: (between r l) => ? _; case/andP: (between r l') => ? _; rewrite ler_pmul ?ler0n.
have high r : g l r * g l' r <= on_A r l * on_A r l'.
  case/andP: (between r l) => _ ?; case/andP: (between r l') => _ ?.
  by case/andP: (g01 l r) => ? _; case/andP: (g01 l' r) => ? _; rewrite ler_pmul.
by apply/andP; split; apply: ler_sum => r _; case/andP: (between_products (weight l l' r) (low r) (high r)).
Qed.
End Frozen.
End Limits.

(* Steps that are allowed whatever the patterns are. There are samples x, the readouts a of the outputs, and one slope
   for each sample and neuron. *)
Section Universal.
Variables (R : realFieldType) (m d n o : nat).
Local Notation weights := 'M[R]_(m, d).
Variables (x : 'I_n -> 'I_d -> R) (a : 'I_o -> 'I_m -> R) (y : 'I_n * 'I_o -> R) (eps : R).
Definition sample_input (l : 'I_n * 'I_o) := x l.1.
Definition output_readout (l : 'I_n * 'I_o) := a l.2.
Local Notation allowed := (allowed sample_input output_readout y eps).

Theorem universal_step_limit (U : weights) (h : 'I_n -> 'I_m -> R) (eta : 'I_n -> R) (B : pred 'I_n) (X2 a2 top : R) :
  slopes sample_input U (fun l => h l.1) -> (forall i r, 0 <= h i r <= 1) ->
  0 <= X2 -> 0 <= a2 ->
  (forall v : 'I_n -> R, \sum_j (\sum_(i | B i) v i * x i j) ^+ 2 <= X2 * \sum_(i | B i) v i ^+ 2) ->
  (forall v : 'I_o -> R, \sum_r (\sum_k v k * a k r) ^+ 2 <= a2 * \sum_k v k ^+ 2) ->
  (forall i, 0 <= eta i <= top) -> top * (a2 * X2) <= 2 - eps ->
  allowed U (fun l => h l.1) (fun l => (B l.1)%:R * eta l.1).
Proof.
move=> ok h01 X0 a0 spectral_x spectral_a eta_le short.
apply: (step_limit _ (B := fun l => B l.1) (top := a2 * X2) (eta := top)) => // [v||l|l /negbTE ->].
- have as_matrix : \sum_(l | B l.1) v l *: grad sample_input output_readout (fun l => h l.1) l
      = \matrix_(r, j) \sum_(i | B i) ((\sum_k v (i, k) * a k r) * h i r) * x i j.
    apply/matrixP => r j; rewrite summxE mxE.
    transitivity (\sum_(i | B i) \sum_k v (i, k) * a k r * h i r * x i j).
      rewrite pair_big /=; apply: eq_big => [[i k]|[i k] _] /=; first by rewrite andbT.
      by rewrite !mxE /= /sample_input /output_readout /= !mulrA.
    by apply: eq_bigr => i _; rewrite !mulr_suml.
  have -> : norm2 (\sum_(l | B l.1) v l *: grad sample_input output_readout (fun l => h l.1) l)
      = \sum_r \sum_j (\sum_(i | B i) ((\sum_k v (i, k) * a k r) * h i r) * x i j) ^+ 2.
    rewrite as_matrix /norm2 /dot [RHS]pair_bigA /=.
    by apply: eq_bigr => p _; rewrite mxE expr2.
  apply: (@le_trans _ _ (\sum_r X2 * \sum_(i | B i) ((\sum_k v (i, k) * a k r) * h i r) ^+ 2)).
    by apply: ler_sum => r _; exact: spectral_x.
  have -> : \sum_(l | B l.1) v l ^+ 2 = \sum_(i | B i) \sum_k v (i, k) ^+ 2.
    by rewrite pair_big /=; apply: eq_big => [[i k]|[i k] _] //=; rewrite andbT.
  rewrite -mulr_sumr [a2 * X2]mulrC -mulrA ler_wpmul2l // exchange_big mulr_sumr /=.
  apply: ler_sum => i _; apply: le_trans (spectral_a (fun k => v (i, k))).
  apply: ler_sum => r _; rewrite exprMn -[leRHS]mulr1 ler_wpmul2l ?sqr_ge0 //.
  by rewrite expr_le1; case/andP: (h01 i r).
- exact: mulr_ge0.
- have /andP[e0 e1] := eta_le l.1.
  by case: (B l.1); rewrite ?mul1r ?mul0r ?e0 ?e1 ?lexx ?(le_trans e0 e1).
- by rewrite mul0r.
Qed.

(* |X|^2 and |a|^2 are at most the sums of squares, so that the limit needs no eigenvalue *)
Lemma sum_of_squares (p q : nat) (M : 'I_p -> 'I_q -> R) (B : pred 'I_p) v :
  \sum_j (\sum_(i | B i) v i * M i j) ^+ 2 <= (\sum_j \sum_(i | B i) M i j ^+ 2) * \sum_(i | B i) v i ^+ 2.
Proof.
rewrite mulr_suml; apply: ler_sum => j _; rewrite mulrC !(big_mkcond B) /=.
pose on (F : 'I_p -> R) i := if B i then F i else 0.
have on_mul F G i : on F i * on G i = on (fun i => F i * G i) i by rewrite /on; case: (B i); rewrite ?mul0r.
have := cauchy (on v) (on (M^~ j)).
by under eq_bigr do rewrite on_mul; under [X in _ <= X * _]eq_bigr do rewrite on_mul;
  under [X in _ <= _ * X]eq_bigr do rewrite on_mul.
Qed.

End Universal.

Print Assumptions step_limit.
Print Assumptions entries_step_limit.
Print Assumptions gradient_products.
Print Assumptions universal_step_limit.
