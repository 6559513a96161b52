(* Readouts with independent entries have the moments that the theorem `two_networks` of Connectivity.v assumes, if each
   entry has the moment of a sub-Gaussian number.

   The entries are drawn one after another. This means that the mean over one entry is taken of the mean over the next
   entry. *)
From Coq Require Import Reals Lra Lia Psatz.
Require Import Connectivity SquaredMoments.
Local Open Scope R_scope.

Lemma mean_ext (T : Type) (E : (T -> R) -> R) (f g : T -> R) :
  mean E -> bounded f -> (forall w, f w = g w) -> E f = E g.
Proof.
intros ME B H; assert (B2 : bounded g) by (destruct B as [b Hb]; exists b; intros; rewrite <- H; apply Hb).
apply Rle_antisym; apply (mean_le _ ME); try assumption; intros; rewrite H; lra.
Qed.
Lemma mean_within (T : Type) (E : (T -> R) -> R) (f : T -> R) b :
  mean E -> (forall w, Rabs (f w) <= b) -> Rabs (E f) <= b.
Proof.
intros M H; assert (B : bounded f) by (exists b; assumption).
assert (S : forall w, - b <= f w <= b).
{ intros w; specialize (H w); unfold Rabs in H; destruct (Rcase_abs (f w)); lra. }
apply Rabs_le; split.
- rewrite <- (mean_const E M (- b)); apply (mean_le _ M); [apply bounded_const|assumption|apply S].
- rewrite <- (mean_const E M b); apply (mean_le _ M); [assumption|apply bounded_const|apply S].
Qed.
Lemma sum_two n k f : sum (n + k) f = sum n f + sum k (fun i => f (n + i)%nat).
Proof.
induction k as [|k IH]; simpl; [rewrite Nat.add_0_r; lra|]. rewrite Nat.add_succ_r; simpl; rewrite IH; lra.
Qed.
Lemma sum_zero n f : (forall i, (i < n)%nat -> f i = 0) -> sum n f = 0.
Proof. intros H; rewrite (sum_below n f (fun _ => 0)) by assumption; rewrite sum_const; ring. Qed.
Lemma sum_block at_ m rest f : (forall j, (j < at_)%nat \/ (at_ + m <= j)%nat -> f j = 0) ->
  sum (at_ + (m + rest)) f = sum m (fun j => f (at_ + j)%nat).
Proof.
intros H; rewrite !sum_two, (sum_zero at_), (sum_zero rest); [lra| |]; intros i I; apply H; [right|left]; lia.
Qed.
Lemma sum_rows C h f : sum (C * h) f = sum C (fun o => sum h (fun i => f (o * h + i)%nat)).
Proof.
induction C as [|C IH]; simpl; [reflexivity|]. rewrite Nat.add_comm, sum_two, IH; reflexivity.
Qed.
Lemma abs_sum n f : Rabs (sum n f) <= sum n (fun i => Rabs (f i)).
Proof.
induction n as [|n IH]; simpl; [rewrite Rabs_R0; lra|].
eapply Rle_trans; [apply Rabs_triang|lra].
Qed.

Section Independent.
Variables (A : Type) (e : (A -> R) -> R) (value : A -> R) (most s : R).
Hypothesis Me : mean e.
Hypothesis values : forall t, Rabs (value t) <= most.
Definition put (v : nat -> A) (k : nat) (t : A) (i : nat) : A := if Nat.eqb i k then t else v i.
Fixpoint drawn (k : nat) (v : nat -> A) (f : (nat -> A) -> R) : R :=
  match k with O => f v | S j => e (fun t => drawn j (put v j t) f) end.
Lemma drawn_mean k : forall v, mean (drawn k v).
Proof.
induction k as [|k IH]; intros v; [constructor; simpl; intros; auto; lra|].
assert (B : forall f, bounded f -> bounded (fun t => drawn k (put v k t) f)).
{ intros f [b H]; exists b; intros t; apply mean_within; [apply IH|assumption]. }
constructor; simpl.
- intros c; transitivity (e (fun _ => c)); [|apply (mean_const _ Me)]; apply mean_ext; [assumption|apply B, bounded_const|].
  intros t; apply (mean_const _ (IH _)).
- intros f g F G; eapply Rle_trans; [|apply (mean_plus _ Me); apply B; assumption].
  apply (mean_le _ Me); [apply B, bounded_plus; assumption|apply bounded_plus; apply B; assumption|].
  intros t; apply (mean_plus _ (IH _)); assumption.
- intros c f P F; eapply Rle_trans; [|apply (mean_scale _ Me); [assumption|apply B; assumption]].
  apply (mean_le _ Me); [apply B, bounded_scale; assumption|apply bounded_scale, B; assumption|].
  intros t; apply (mean_scale _ (IH _)); assumption.
- intros f g F G H; apply (mean_le _ Me); try (apply B; assumption).
  intros t; apply (mean_le _ (IH _)); assumption.
Qed.
Lemma drawn_ext k : forall v f g, (forall w, (forall i, (k <= i)%nat -> w i = v i) -> f w = g w) -> bounded f ->
  drawn k v f = drawn k v g.
Proof.
induction k as [|k IH]; intros v f g H B; simpl; [apply H; reflexivity|].
apply mean_ext; [assumption| |].
{ destruct B as [b Hb]; exists b; intros t; apply mean_within; [apply drawn_mean|assumption]. }
intros t; apply IH; [|assumption]; intros w W; apply H; intros i K; rewrite W by lia; unfold put.
destruct (Nat.eqb_spec i k); [lia|reflexivity].
Qed.

Hypothesis proxy : forall t, e (fun v => exp (t * value v)) <= exp (t * t * (s * s) / 2).
Lemma bounded_linear k c a : bounded (fun w : nat -> A => a + sum k (fun i => c i * value (w i))).
Proof.
apply bounded_plus; [apply bounded_const|]; apply (bounded_sum (nat -> A) k (fun i w => c i * value (w i))).
intros i; apply bounded_scale; exists most; intros; apply values.
Qed.
Lemma linear_moment k : forall v c a, drawn k v (fun w => exp (a + sum k (fun i => c i * value (w i))))
  <= exp (a + sum k (fun i => c i * c i) * (s * s) / 2).
Proof.
induction k as [|k IH]; intros v c a; simpl; [apply Req_le; f_equal; field|].
set (S := sum k (fun i => c i * c i)).
assert (Bv : bounded (fun t => exp (c k * value t))).
{ apply bounded_exp, bounded_scale; exists most; assumption. }
apply Rle_trans with (e (fun t => exp (a + S * (s * s) / 2) * exp (c k * value t))).
- apply (mean_le _ Me).
  + assert (B := bounded_exp _ _ (bounded_linear (Datatypes.S k) c a)); destruct B as [b Hb]; exists b.
    intros t; apply mean_within; [apply drawn_mean|exact Hb].
  + apply bounded_scale, Bv.
  + intros t.
    rewrite (drawn_ext k (put v k t) _ (fun w => exp ((a + c k * value t) + sum k (fun i => c i * value (w i))))).
    * eapply Rle_trans; [apply IH|]; fold S; rewrite <- exp_plus; apply Req_le; f_equal; ring.
    * intros w W; rewrite (W k) by lia; unfold put; rewrite Nat.eqb_refl; f_equal; ring.
    * exact (bounded_exp _ _ (bounded_linear (Datatypes.S k) c a)).
- eapply Rle_trans; [apply (mean_scale _ Me); [apply Rlt_le, exp_pos|apply Bv]|].
  eapply Rle_trans; [apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|apply proxy]|].
  rewrite <- exp_plus; apply Req_le; f_equal; field.
Qed.

(* The matrix with rows of h entries, made of the drawn entries from the entry with the number `from` on. *)
Definition matrix (h from : nat) (w : nat -> A) (o i : nat) : R := value (w (from + (o * h + i))%nat).
Section Readout.
Variables (C h from rest : nat) (v : nat -> A) (u : nat -> R).
Hypothesis U : norm h u <= 1.
Let n := (from + (C * h + rest))%nat.
Let coefficient (k : nat -> R) (j : nat) :=
  if ((from <=? j)%nat && (j <? from + C * h)%nat)%bool then k ((j - from) / h)%nat * u ((j - from) mod h) else 0.
Lemma coefficient_off k j : (j < from)%nat \/ (from + C * h <= j)%nat -> coefficient k j = 0.
Proof.
intros H; unfold coefficient; destruct (Nat.leb_spec from j); destruct (Nat.ltb_spec j (from + C * h)); simpl; auto; lia.
Qed.
Lemma coefficient_at k o i : (o < C)%nat -> (i < h)%nat -> coefficient k (from + (o * h + i)) = k o * u i.
Proof.
intros O I; unfold coefficient; assert ((S o) * h <= C * h)%nat by (apply Nat.mul_le_mono_r; lia); simpl in H.
destruct (Nat.leb_spec from (from + (o * h + i))); [|lia].
destruct (Nat.ltb_spec (from + (o * h + i)) (from + C * h)); [|lia]; simpl.
replace (from + (o * h + i) - from)%nat with (o * h + i)%nat by lia.
rewrite Nat.div_add_l, Nat.div_small, Nat.add_0_r by lia.
rewrite Nat.add_comm, Nat.mod_add, Nat.mod_small by lia; reflexivity.
Qed.
Lemma joint_moment k : drawn n v (fun w => exp (sum C (fun o => k o * apply h (matrix h from w) u o)))
  <= exp (sum C (fun o => k o * k o * (s * s) / 2)).
Proof.
set (c := coefficient k).
assert (L : forall w, 0 + sum n (fun j => c j * value (w j)) = sum C (fun o => k o * apply h (matrix h from w) u o)).
{ intros w; unfold n; rewrite sum_block, sum_rows by (intros j J; unfold c; rewrite coefficient_off by assumption; ring).
  rewrite Rplus_0_l; apply sum_below; intros o O; unfold apply; rewrite <- sum_scale.
  apply sum_below; intros i I; unfold c, matrix; rewrite coefficient_at by assumption; ring. }
assert (M := linear_moment n v c 0).
rewrite (mean_ext _ _ _ _ (drawn_mean n v) (bounded_exp _ _ (bounded_linear n c 0)) (fun w => f_equal exp (L w))) in M.
eapply Rle_trans; [exact M|apply exp_monotone]; rewrite Rplus_0_l.
unfold n; rewrite sum_block, sum_rows by (intros j J; unfold c; rewrite coefficient_off by assumption; ring).
unfold Rdiv; rewrite Rmult_assoc, Rmult_comm, <- sum_scale.
rewrite (sum_below C _ (fun o => s * s * / 2 * (k o * k o) * (norm h u * norm h u))).
- apply sum_le; intros o.
  assert (N := norm_pos h u); assert (norm h u * norm h u <= 1) by nra.
  assert (0 <= s * s * / 2 * (k o * k o)).
  { assert (X := Rle_0_sqr s); assert (Y := Rle_0_sqr (k o)); unfold Rsqr in *; apply Rmult_le_pos; lra. }
  assert (s * s * / 2 * (k o * k o) * (norm h u * norm h u) <= s * s * / 2 * (k o * k o) * 1); [|lra].
  apply Rmult_le_compat_l; assumption.
- intros o O; rewrite norm_square.
  transitivity (s * s * / 2 * (k o * k o * sum h (fun i => u i * u i))); [|ring]; f_equal.
  rewrite <- sum_scale; apply sum_below; intros i I; unfold c; rewrite coefficient_at by assumption; ring.
Qed.
Lemma output_at_most w o : Rabs (apply h (matrix h from w) u o) <= most * sum h (fun i => Rabs (u i)).
Proof.
eapply Rle_trans; [apply abs_sum|]; rewrite <- sum_scale; apply sum_le; intros i; rewrite Rabs_mult.
apply Rmult_le_compat_r; [apply Rabs_pos|apply values].
Qed.
End Readout.

Lemma matrix_moments C h from rest v :
  sub_gaussian (drawn (from + (C * h + rest)) v) C h s (matrix h from).
Proof.
constructor.
- intros u o t O U; assert (J := joint_moment C h from rest v u U (fun i => if (i =? o)%nat then t else 0)).
  assert (At : forall f, f 0 = 0 -> sum C (fun i => f (if (i =? o)%nat then t else 0)) = f t).
  { intros f Z; rewrite (sum_change C o _ (fun _ => 0)), sum_const, Nat.eqb_refl; [ring|assumption|].
    intros i D; apply Nat.eqb_neq in D; rewrite D; assumption. }
  assert (At2 := At (fun x => x * x * (s * s) / 2) ltac:(cbv beta; field)); cbv beta in At2, J; rewrite At2 in J.
  eapply Rle_trans; [|exact J]; apply Req_le, mean_ext; [apply drawn_mean| |].
  + apply bounded_exp, bounded_scale; exists (most * sum h (fun i => Rabs (u i))); intros w; apply output_at_most.
  + intros w; f_equal; rewrite (sum_change C o _ (fun _ => 0)), sum_const, Nat.eqb_refl; [ring|assumption|].
    intros i D; apply Nat.eqb_neq in D; rewrite D; ring.
- intros _ u t U P Q.
  apply (squares_moment _ _ C s (most * sum h (fun i => Rabs (u i))) t (fun o w => apply h (matrix h from w) u o)).
  + apply drawn_mean.
  + intros o w; apply output_at_most.
  + intros k; apply joint_moment; assumption.
  + split; assumption.
Qed.
Theorem independent_entries C h v :
  mean (drawn (C * h + C * h) v) /\ sub_gaussian (drawn (C * h + C * h) v) C h s (matrix h 0)
  /\ sub_gaussian (drawn (C * h + C * h) v) C h s (matrix h (C * h)).
Proof.
split; [apply drawn_mean|split].
- exact (matrix_moments C h 0 (C * h) v).
- assert (M := matrix_moments C h (C * h) 0 v); rewrite Nat.add_0_r in M; exact M.
Qed.
End Independent.

Print Assumptions independent_entries.
