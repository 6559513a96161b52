(* Identically distributed clients need not have Cov = Var. As an example, take K independent clients whose outputs are
   +1 or -1 with equal chance. The mean of their outputs has the variance 1/K, while the output of one client has the
   variance 1.

   The statement averaging/I10 rests on this file. Its stated form says that the mean of identically distributed clients
   has the variance of one model, and this fails for every K > 1. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Coins.
Variables (R : numFieldType) (K : nat).
Local Notation outcome := {ffun 'I_K -> bool}.      (* all 2^K are equally likely *)

Definition expected (X : outcome -> R) : R := (2 ^ K)%N%:R^-1 * \sum_w X w.
Definition variance (X : outcome -> R) : R := expected (fun w => X w ^+ 2) - expected X ^+ 2.
Definition output (c : 'I_K) (w : outcome) : R := if w c then 1 else -1.
Definition mean_output w : R := K%:R^-1 * \sum_c output c w.

Lemma weights0 : (2 ^ K)%N%:R != 0 :> R.
Proof. by rewrite pnatr_eq0 expn_eq0. Qed.

Lemma expected_const c : expected (fun=> c) = c.
Proof.
by rewrite /expected sumr_const card_ffun card_bool card_ord -[c *+ _]mulr_natl mulKf ?weights0.
Qed.
Lemma expected_sum (I : finType) (F : I -> outcome -> R) : expected (fun w => \sum_i F i w) = \sum_i expected (F i).
Proof. by rewrite /expected exchange_big mulr_sumr. Qed.
Lemma expected_scale a X : expected (fun w => a * X w) = a * expected X.
Proof. by rewrite /expected -mulr_sumr mulrCA. Qed.

(* turns one coin over *)
Definition turned c (w : outcome) : outcome := [ffun i => if i == c then ~~ w i else w i].
Lemma turnedK c : involutive (turned c).
Proof. by move=> w; apply/ffunP => i; rewrite !ffunE; case: eqP => // _; rewrite negbK. Qed.

Lemma odd_expected c X : (forall w, X (turned c w) = - X w) -> expected X = 0.
Proof.
move=> odd; have sum0 : \sum_w X w = - \sum_w X w.
  rewrite {1}(reindex_inj (inv_inj (turnedK c))) -sumrN; exact: eq_bigr.
by move/eqP: sum0; rewrite -addr_eq0 -mulr2n mulrn_eq0 /expected => /eqP ->; rewrite mulr0.
Qed.

Lemma output_turned c w : output c (turned c w) = - output c w.
Proof. by rewrite /output ffunE eqxx; case: (w c); rewrite ?opprK. Qed.
Lemma other_turned c i w : i != c -> output i (turned c w) = output i w.
Proof. by move=> ne; rewrite /output ffunE (negbTE ne). Qed.
Lemma output_squared c w : output c w * output c w = 1.
Proof. by rewrite /output; case: (w c); rewrite ?mulr1 // mulrNN mulr1. Qed.

Theorem variance_of_one c : variance (output c) = 1.
Proof.
have zero : expected (output c) = 0 by apply: (odd_expected (c := c)) => w; exact: output_turned.
have one : expected (fun w => output c w ^+ 2) = 1.
  by rewrite -[RHS]expected_const /expected; congr (_ * _); apply: eq_bigr => w _; rewrite expr2 output_squared.
by rewrite /variance zero one expr0n subr0.
Qed.

Theorem variance_of_mean : (0 < K)%N -> variance mean_output = K%:R^-1.
Proof.
move=> K0; have K1 : K%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
have zero : expected mean_output = 0.
  rewrite expected_scale expected_sum big1 ?mulr0 // => c _; apply: (odd_expected (c := c)) => w; exact: output_turned.
have squares : expected (fun w => mean_output w ^+ 2) = K%:R^-1 ^+ 2 * \sum_c \sum_i expected (fun w => output c w * output i w).
  under [in RHS]eq_bigr do rewrite -expected_sum; rewrite -expected_sum -expected_scale /expected; congr (_ * _).
  apply: eq_bigr => w _; rewrite /mean_output exprMn; congr (_ * _); rewrite expr2 mulr_suml.
  by apply: eq_bigr => c _; rewrite mulr_sumr.
have own c : \sum_i expected (fun w => output c w * output i w) = 1.
  rewrite (bigD1 c) //= big1 ?addr0 => [|i ne].
    by rewrite -[RHS]expected_const /expected; congr (_ * _); apply: eq_bigr => w _; rewrite output_squared.
  by apply: (odd_expected (c := i)) => w; rewrite output_turned other_turned ?mulrN // eq_sym.
rewrite /variance zero expr0n subr0 squares (eq_bigr _ (fun c _ => own c)) sumr_const card_ord expr2 -mulrA.
by rewrite mulVf // mulr1.
Qed.

Theorem averaging_gains c : (1 < K)%N -> variance mean_output != variance (output c).
Proof.
move=> K1; rewrite variance_of_one variance_of_mean ?(ltn_trans _ K1) // -{2}invr1 (inj_eq invr_inj).
by rewrite (eqr_nat _ K 1); case: eqP K1 => // ->.
Qed.
End Coins.

Print Assumptions variance_of_one.
Print Assumptions variance_of_mean.
Print Assumptions averaging_gains.
