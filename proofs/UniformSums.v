(* The tail of a weighted sum of independent uniform variables, for the statement fedgucci/F4. *)
From Coq Require Import Reals Lra Lia Psatz.
Require Import Connectivity SquaredMoments UniformLaw IndependentEntries.
Local Open Scope R_scope.

(* The function `bad` is 0 wherever |sum| <= t, as the indicator of |sum| > t is. *)
Theorem uniform_sum_tail (A : Type) (e : (A -> R) -> R) (value : A -> R) (d t : R) (n : nat) (a : nat -> R)
  (seed : nat -> A) (bad : (nat -> A) -> R) :
  mean e -> uniform e d value -> 0 < d -> 0 < t -> 0 < sum n (fun i => a i * a i) ->
  (forall w, 0 <= bad w <= 1) ->
  (forall w, Rabs (sum n (fun i => a i * value (w i))) <= t -> bad w = 0) ->
  drawn A e n seed bad <= 2 * exp (- (6 * (t * t / (d * d * sum n (fun i => a i * a i)))))
  /\ drawn A e n seed bad <= 2 * exp (- (2 * (t * t / (d * d * sum n (fun i => a i * a i))))).
Proof.
intros Me law PD PT PA B01 B0; set (aa := sum n (fun i => a i * a i)) in *.
set (q := t * t / (d * d * aa)).
assert (Q : 0 < q).
{ apply Rdiv_lt_0_compat; [nra|]; apply Rmult_lt_0_compat; [nra|assumption]. }
assert (moment : forall k, e (fun v => exp (k * value v)) <= exp (k * k * (d / sqrt 12 * (d / sqrt 12)) / 2)).
{ intros k; apply uniform_moment; assumption. }
assert (near : forall v, Rabs (value v) <= d / 2) by apply law.
assert (ME := drawn_mean A e Me n seed).
assert (SS : d / sqrt 12 * (d / sqrt 12) = d * d / 12).
{ assert (S : sqrt 12 * sqrt 12 = 12) by (apply sqrt_sqrt; lra).
  assert (0 < sqrt 12) by (apply sqrt_lt_R0; lra).
  transitivity (d * d / (sqrt 12 * sqrt 12)); [field; lra|rewrite S; reflexivity]. }
set (k := 12 * t / (d * d * aa)).
set (side r w := exp (- (12 * q) + sum n (fun i => r * a i * value (w i)))).
assert (B : forall r, bounded (side r)).
{ intros r; exact (bounded_exp _ _ (bounded_linear A value (d / 2) near n (fun i => r * a i) (- (12 * q)))). }
assert (M : forall r, r * r = k * k -> drawn A e n seed (side r) <= exp (- (6 * q))).
{ intros r R2; eapply Rle_trans.
  - exact (linear_moment A e value (d / 2) (d / sqrt 12) Me near moment n seed (fun i => r * a i) (- (12 * q))).
  - apply exp_monotone; rewrite (sum_ext n _ (fun i => k * k * (a i * a i))) by (intros; rewrite <- R2; ring).
    rewrite sum_scale, SS; fold aa; apply Req_le; unfold q, k; field; lra. }
assert (L : drawn A e n seed bad <= 2 * exp (- (6 * q))).
{ apply Rle_trans with (drawn A e n seed (fun w => side k w + side (- k) w)).
  - apply (mean_le _ ME); [apply (bounded_between _ _ 1); assumption|apply bounded_plus; apply B|]; intros w.
    assert (P1 : 0 < side k w) by apply exp_pos; assert (P2 : 0 < side (- k) w) by apply exp_pos.
    destruct (Rle_dec (Rabs (sum n (fun i => a i * value (w i)))) t) as [S|S]; [rewrite (B0 w S); lra|].
    assert (K : 0 < k) by (apply Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; [nra|assumption]]).
    assert (KT : k * t = 12 * q) by (unfold k, q; field; lra).
    assert (E : forall r, side r w = exp (- (12 * q) + r * sum n (fun i => a i * value (w i)))).
    { intros r; unfold side; rewrite <- sum_scale; do 2 f_equal; apply sum_ext; intros; ring. }
    rewrite !E in *; specialize (B01 w); set (x := sum n (fun i => a i * value (w i))) in *.
    assert (1 <= exp (- (12 * q) + k * x) \/ 1 <= exp (- (12 * q) + - k * x)); [|lra].
    rewrite <- exp_0; unfold Rabs in S; destruct (Rcase_abs x); [right|left]; apply exp_monotone; nra.
  - eapply Rle_trans; [apply (mean_plus _ ME); apply B|].
    assert (M1 := M k eq_refl); assert (M2 := M (- k) ltac:(ring)); lra. }
split; [exact L|]; eapply Rle_trans; [exact L|]; apply Rmult_le_compat_l; [lra|apply exp_monotone; lra].
Qed.

Print Assumptions uniform_sum_tail.
