(* The moment of a uniform variable, and the existence of such a variable.

   The variable `value` is called uniform on [-d/2, d/2] if it is in this interval and if its probability to be in any
   smaller interval within it is at most the share of the smaller interval in the length. By halving the interval again
   and again, a uniform variable is a sum of fair random signs with weights. The moment of the variable is the product
   of the moments of these signs. The exponents add up to t^2 d^2/24, since 1/4 + 1/16 + ... = 1/3. *)
From Coq Require Import Reals Lra Lia Psatz.
From Coq Require Classical_Prop ClassicalDedekindReals.
Require Import Connectivity SquaredMoments.
Local Open Scope R_scope.

Definition within (lo hi v : R) : R := if Rle_dec lo v then if Rle_dec v hi then 1 else 0 else 0.
Record uniform {A : Type} (e : (A -> R) -> R) (d : R) (value : A -> R) : Prop := Uniform {
  in_range : forall a, Rabs (value a) <= d / 2;
  in_interval : forall lo hi, - (d / 2) <= lo -> lo <= hi -> hi <= d / 2 ->
    e (fun a => within lo hi (value a)) <= (hi - lo) / d }.
Lemma within_01 lo hi v : 0 <= within lo hi v <= 1.
Proof. unfold within; destruct (Rle_dec lo v); [destruct (Rle_dec v hi)|]; lra. Qed.

Section Moment.
Variables (A : Type) (e : (A -> R) -> R) (d t : R) (value : A -> R).
Hypothesis Me : mean e.
Hypothesis d_pos : 0 < d.
Hypothesis law : uniform e d value.

(* The mean of exp(t v) over the centres of 2^k parts of [c - w, c + w]. *)
Fixpoint halved (k : nat) (c w : R) : R :=
  match k with O => exp (t * c) | S j => (halved j (c - w / 2) (w / 2) + halved j (c + w / 2) (w / 2)) / 2 end.
Lemma halved_at_most k : forall c w, halved k c w <= exp (t * c + t * t * (w * w) / 6).
Proof.
induction k as [|k IH]; intros c w; simpl.
- apply exp_monotone; assert (T := Rle_0_sqr (t * w)); unfold Rsqr in T; lra.
- assert (L := IH (c - w / 2) (w / 2)); assert (R := IH (c + w / 2) (w / 2)).
  set (q := t * c + t * t * (w * w) / 24).
  replace (t * (c - w / 2) + t * t * (w / 2 * (w / 2)) / 6) with (q + - (t * w / 2)) in L by (unfold q; field).
  replace (t * (c + w / 2) + t * t * (w / 2 * (w / 2)) / 6) with (q + t * w / 2) in R by (unfold q; field).
  rewrite exp_plus in L, R.
  apply Rle_trans with (exp q * cosh (t * w / 2)); [unfold cosh; lra|].
  eapply Rle_trans; [apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|apply cosh_below]|].
  rewrite <- exp_plus; apply Req_le; f_equal; unfold q; field.
Qed.

Definition cut (c w : R) (a : A) : R := within (c - w) (c + w) (value a) * exp (t * value a).
Lemma bounded_within lo hi : bounded (fun a => within lo hi (value a)).
Proof. apply (bounded_between _ _ 1); intros; apply within_01. Qed.
Lemma bounded_exp_value : bounded (fun a => exp (t * value a)).
Proof. apply bounded_exp, bounded_scale; exists (d / 2); apply (in_range _ _ _ law). Qed.
Lemma bounded_cut c w : bounded (cut c w).
Proof.
destruct bounded_exp_value as [b Hb]; exists b; intros a; unfold cut; rewrite Rabs_mult.
assert (P := within_01 (c - w) (c + w) (value a)); rewrite (Rabs_right (within _ _ _)) by lra.
specialize (Hb a); assert (Q := Rabs_pos (exp (t * value a))); nra.
Qed.
Lemma cut_at_most k : forall c w, 0 <= w -> - (d / 2) <= c - w -> c + w <= d / 2 ->
  e (cut c w) <= 2 * w / d * exp (Rabs t * w / 2 ^ k) * halved k c w.
Proof.
induction k as [|k IH]; intros c w W L H.
- simpl; set (K := exp (t * c + Rabs t * w)).
  apply Rle_trans with (e (fun a => K * within (c - w) (c + w) (value a))).
  + apply (mean_le _ Me); [apply bounded_cut|apply bounded_scale, bounded_within|]; intros a.
    unfold cut, within; destruct (Rle_dec (c - w) (value a)); [destruct (Rle_dec (value a) (c + w))|]; try lra.
    rewrite Rmult_1_l, Rmult_1_r; apply exp_monotone.
    replace (t * value a) with (t * c + t * (value a - c)) by ring; apply Rplus_le_compat_l.
    eapply Rle_trans; [apply Rle_abs|]; rewrite Rabs_mult; apply Rmult_le_compat_l; [apply Rabs_pos|].
    apply Rabs_le; lra.
  + eapply Rle_trans; [apply (mean_scale _ Me); [apply Rlt_le, exp_pos|apply bounded_within]|].
    assert (P : 0 < K) by apply exp_pos.
    assert (I := in_interval _ _ _ law (c - w) (c + w) L ltac:(lra) H).
    apply Rle_trans with (K * ((c + w - (c - w)) / d)); [apply Rmult_le_compat_l; lra|].
    unfold K; rewrite exp_plus; replace (Rabs t * w / 1) with (Rabs t * w) by field; apply Req_le; field; lra.
- assert (I1 := IH (c - w / 2) (w / 2) ltac:(lra) ltac:(lra) ltac:(lra)).
  assert (I2 := IH (c + w / 2) (w / 2) ltac:(lra) ltac:(lra) ltac:(lra)).
  assert (P2 : 0 < 2 ^ k) by (apply pow_lt; lra).
  replace (Rabs t * (w / 2) / 2 ^ k) with (Rabs t * w / 2 ^ S k) in I1, I2 by (simpl; field; lra).
  apply Rle_trans with (e (fun a => cut (c - w / 2) (w / 2) a + cut (c + w / 2) (w / 2) a)).
  + apply (mean_le _ Me); [apply bounded_cut|apply bounded_plus; apply bounded_cut|]; intros a.
    unfold cut; rewrite <- Rmult_plus_distr_r; apply Rmult_le_compat_r; [apply Rlt_le, exp_pos|].
    unfold within; repeat (destruct (Rle_dec _ _)); lra.
  + eapply Rle_trans; [apply (mean_plus _ Me); apply bounded_cut|].
    cbn [halved]; set (K := exp (Rabs t * w / 2 ^ S k)) in *.
    replace (2 * (w / 2) / d) with (w / d) in I1, I2 by (field; lra).
    replace (2 * w / d * K * ((halved k (c - w / 2) (w / 2) + halved k (c + w / 2) (w / 2)) / 2))
      with (w / d * K * halved k (c - w / 2) (w / 2) + w / d * K * halved k (c + w / 2) (w / 2)) by (field; lra).
    lra.
Qed.

Theorem uniform_moment : e (fun a => exp (t * value a)) <= exp (t * t * (d / sqrt 12 * (d / sqrt 12)) / 2).
Proof.
replace (d / sqrt 12 * (d / sqrt 12)) with (d * d / 12).
2:{ assert (S : sqrt 12 * sqrt 12 = 12) by (apply sqrt_sqrt; lra).
    assert (0 < sqrt 12) by (apply sqrt_lt_R0; lra).
    transitivity (d * d / (sqrt 12 * sqrt 12)); [rewrite S; reflexivity|field; lra]. }
apply limit_below; intros s Ps.
set (M := Rabs t * (d / 2)).
assert (PM : 0 <= M) by (apply Rmult_le_pos; [apply Rabs_pos|lra]).
destruct (archimed_cor1 (s / (M + 1))) as (k & K & K0); [apply Rdiv_lt_0_compat; lra|].
assert (C := cut_at_most k 0 (d / 2) ltac:(lra) ltac:(lra) ltac:(lra)); assert (H := halved_at_most k 0 (d / 2)).
apply Rle_trans with (e (cut 0 (d / 2))).
{ apply (mean_le _ Me); [apply bounded_exp_value|apply bounded_cut|]; intros a; unfold cut, within.
  assert (R := in_range _ _ _ law a); assert (X := Rle_abs (value a)); assert (Y := Rle_abs (- value a)).
  rewrite Rabs_Ropp in Y; repeat (destruct (Rle_dec _ _)); lra. }
eapply Rle_trans; [exact C|]; replace (2 * (d / 2) / d) with 1 by (field; lra); rewrite Rmult_1_l.
eapply Rle_trans; [apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|exact H]|].
rewrite <- exp_plus; apply exp_monotone; fold M.
assert (P2 : INR k < 2 ^ k).
{ clear; induction k as [|k IH]; [simpl; lra|]; rewrite S_INR; simpl.
  assert (1 <= 2 ^ k) by (apply pow_R1_Rle; lra); lra. }
apply lt_INR in K0; simpl in K0.
assert (M / 2 ^ k <= s); [|lra].
apply Rle_trans with (M * / INR k).
{ apply Rmult_le_compat_l; [assumption|]; apply Rinv_le_contravar; lra. }
assert (I : 0 < / INR k) by (apply Rinv_0_lt_compat; assumption).
assert ((M + 1) * / INR k < s).
{ apply (Rmult_lt_compat_l (M + 1)) in K; [|lra]; unfold Rdiv in K.
  replace ((M + 1) * (s * / (M + 1))) with s in K by (field; lra); exact K. }
lra.
Qed.
End Moment.

(* Such a law exists: the upper integral, over all divisions of the interval into finitely many parts. *)
Inductive above (f : R -> R) : R -> R -> R -> Prop :=
  | whole lo hi c : lo <= hi -> (forall v, lo <= v < hi -> f v <= c) -> above f lo hi (c * (hi - lo))
  | parts lo mid hi a b : above f lo mid a -> above f mid hi b -> above f lo hi (a + b).
Lemma above_order f lo hi r : above f lo hi r -> lo <= hi. Proof. induction 1; lra. Qed.
Lemma above_least f m lo hi r : (forall v, m <= f v) -> above f lo hi r -> m * (hi - lo) <= r.
Proof.
intros M; induction 1 as [lo hi c O H|lo mid hi a b _ IH1 _ IH2]; [|lra].
destruct O as [O| ->]; [|lra]; assert (P := M lo); assert (Q := H lo ltac:(lra)); apply Rmult_le_compat_r; lra.
Qed.
Lemma above_same f lo hi r q : above f lo hi r -> r = q -> above f lo hi q. Proof. intros; subst; assumption. Qed.
Lemma above_cut f lo hi r : above f lo hi r -> forall m, lo <= m <= hi ->
  exists a b, above f lo m a /\ above f m hi b /\ a + b = r.
Proof.
induction 1 as [lo hi c O H|lo mid hi a b A1 IH1 A2 IH2]; intros m M.
- exists (c * (m - lo)), (c * (hi - m)); repeat split; [| |ring]; constructor; try lra; intros; apply H; lra.
- destruct (Rle_dec m mid) as [L|L].
  + destruct (IH1 m ltac:(lra)) as (p & q & P & Q & E); exists p, (q + b); repeat split; [assumption| |lra].
    apply parts with mid; assumption.
  + destruct (IH2 m ltac:(lra)) as (p & q & P & Q & E); exists (a + p), q; repeat split; [|assumption|lra].
    apply parts with mid; assumption.
Qed.
Lemma above_plus_whole f g lo hi q : above g lo hi q -> forall c, (forall v, lo <= v < hi -> f v <= c) ->
  above (fun v => f v + g v) lo hi (c * (hi - lo) + q).
Proof.
induction 1 as [lo hi k O H|lo mid hi a b A1 IH1 A2 IH2]; intros c F.
- apply (above_same _ _ _ ((c + k) * (hi - lo))); [|ring]; constructor; [assumption|]; intros v V.
  specialize (F v V); specialize (H v V); lra.
- assert (O1 := above_order _ _ _ _ A1); assert (O2 := above_order _ _ _ _ A2).
  apply (above_same _ _ _ ((c * (mid - lo) + a) + (c * (hi - mid) + b))); [|ring].
  apply parts with mid; [apply IH1|apply IH2]; intros; apply F; lra.
Qed.
Lemma above_plus f g lo hi r : above f lo hi r -> forall q, above g lo hi q -> above (fun v => f v + g v) lo hi (r + q).
Proof.
induction 1 as [lo hi c O H|lo mid hi a b A1 IH1 A2 IH2]; intros q Q; [apply above_plus_whole; assumption|].
assert (O1 := above_order _ _ _ _ A1); assert (O2 := above_order _ _ _ _ A2).
destruct (above_cut _ _ _ _ Q mid ltac:(lra)) as (p & t & P & T & E).
apply (above_same _ _ _ ((a + p) + (b + t))); [apply parts with mid; auto|lra].
Qed.
Lemma above_scale f c lo hi r : 0 <= c -> above f lo hi r -> above (fun v => c * f v) lo hi (c * r).
Proof.
intros C; induction 1 as [lo hi k O H|lo mid hi a b _ IH1 _ IH2].
- rewrite <- Rmult_assoc; constructor; [assumption|]; intros; apply Rmult_le_compat_l; auto.
- rewrite Rmult_plus_distr_l; apply parts with mid; assumption.
Qed.
Lemma above_le f g lo hi r : (forall v, f v <= g v) -> above g lo hi r -> above f lo hi r.
Proof.
intros L; induction 1 as [lo hi k O H|lo mid hi a b _ IH1 _ IH2]; [|apply parts with mid; assumption].
constructor; [assumption|]; intros v V; specialize (L v); specialize (H v V); lra.
Qed.

Lemma decided (P : Prop) : {P} + {~ P}.
Proof.
destruct (ClassicalDedekindReals.sig_not_dec P) as [H|H]; [left; apply Classical_Prop.NNPP|right]; assumption.
Qed.
Definition below (d : R) (f : R -> R) (r : R) : Prop := forall q, above f (- (d / 2)) (d / 2) q -> r <= q / d.
(* The least upper bound of the numbers below every sum: the mean of f over the interval if f has one, 0 if f is unbounded. *)
Definition upper (d : R) (f : R -> R) : R :=
  match decided (Raxioms.bound (below d f) /\ exists r, below d f r) with
  | left H => proj1_sig (completeness (below d f) (proj1 H) (proj2 H))
  | right _ => 0
  end.
Section Upper.
Variable d : R.
Hypothesis d_pos : 0 < d.
Lemma div_d q r : q <= r * d -> q / d <= r.
Proof. intros H; apply (Rmult_le_reg_r d); [assumption|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l; lra. Qed.
Lemma d_div q r : r * d <= q -> r <= q / d.
Proof. intros H; apply (Rmult_le_reg_r d); [assumption|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l; lra. Qed.
Lemma above_const f c : (forall v, f v <= c) -> above f (- (d / 2)) (d / 2) (c * d).
Proof. intros H; apply (above_same _ _ _ (c * (d / 2 - - (d / 2)))); [constructor; [lra|auto]|field]. Qed.
Lemma upper_is (f : R -> R) : bounded f -> is_lub (below d f) (upper d f).
Proof.
intros [B H]; assert (S : forall v, - B <= f v <= B).
{ intros v; specialize (H v); unfold Rabs in H; destruct (Rcase_abs (f v)); lra. }
unfold upper; destruct (decided _) as [D|D]; [apply proj2_sig|]; exfalso; apply D; split.
- exists B; intros r L; eapply Rle_trans; [apply L, above_const, S|]; apply div_d; lra.
- exists (- B); intros q Q; apply d_div.
  assert (L := above_least f (- B) _ _ _ (fun v => proj1 (S v)) Q); lra.
Qed.
Lemma upper_at_most f q : bounded f -> above f (- (d / 2)) (d / 2) q -> upper d f <= q / d.
Proof. intros B Q; apply (upper_is f B); intros r L; apply L; assumption. Qed.
Lemma upper_near f e : bounded f -> 0 < e -> exists q, above f (- (d / 2)) (d / 2) q /\ q / d < upper d f + e.
Proof.
intros B P; apply Classical_Prop.NNPP; intros N.
assert (L : below d f (upper d f + e)).
{ intros q Q; apply Rnot_lt_le; intros H; apply N; exists q; split; assumption. }
apply (upper_is f B) in L; lra.
Qed.
Lemma upper_mean : mean (upper d).
Proof.
constructor.
- intros c; assert (B := bounded_const R c); apply Rle_antisym.
  + eapply Rle_trans; [apply upper_at_most; [exact B|apply (above_const _ c); intros; lra]|]; apply div_d; lra.
  + apply (upper_is _ B); intros q Q; apply d_div.
    assert (L := above_least _ c _ _ _ (fun v => Rle_refl c) Q); lra.
- intros f g F G; apply le_epsilon; intros s Ps.
  destruct (upper_near f (s / 2) F ltac:(lra)) as (p & P & P1).
  destruct (upper_near g (s / 2) G ltac:(lra)) as (q & Q & Q1).
  eapply Rle_trans; [apply upper_at_most; [apply bounded_plus; assumption|apply above_plus; eassumption]|].
  unfold Rdiv in *; lra.
- intros c f C F; apply le_epsilon; intros s Ps.
  destruct (upper_near f (s / (c + 1)) F ltac:(apply Rdiv_lt_0_compat; lra)) as (p & P & P1).
  eapply Rle_trans; [apply upper_at_most; [apply bounded_scale; assumption|apply above_scale; eassumption]|].
  replace (c * p / d) with (c * (p / d)) by (field; lra).
  apply Rle_trans with (c * (upper d f + s / (c + 1))); [apply Rmult_le_compat_l; lra|].
  rewrite Rmult_plus_distr_l; apply Rplus_le_compat_l.
  apply (Rmult_le_reg_r (c + 1)); [lra|]; replace (c * (s / (c + 1)) * (c + 1)) with (c * s) by (field; lra); lra.
- intros f g F G L; apply (upper_is f F); intros r Lr; apply (upper_is g G); intros q Q.
  apply Lr, (above_le f g); assumption.
Qed.

Definition clamp (v : R) : R := Rmax (- (d / 2)) (Rmin v (d / 2)).
Theorem uniform_law : mean (upper d) /\ uniform (upper d) d clamp.
Proof.
split; [apply upper_mean|constructor].
- intros v; apply Rabs_le; unfold clamp, Rmax, Rmin; repeat (destruct (Rle_dec _ _)); lra.
- intros lo hi L O H; apply le_epsilon; intros s Ps.
  set (end_ := Rmin (hi + s * d) (d / 2)).
  assert (SD : 0 < s * d) by (apply Rmult_lt_0_compat; assumption).
  assert (I : hi <= end_ <= hi + s * d /\ end_ <= d / 2 /\ (end_ < d / 2 -> hi < end_)).
  { unfold end_, Rmin; destruct (Rle_dec _ _); lra. }
  apply Rle_trans with ((0 * (lo - - (d / 2)) + (1 * (end_ - lo) + 0 * (d / 2 - end_))) / d).
  + apply upper_at_most; [apply (bounded_between _ _ 1); intros; apply within_01|].
    apply parts with lo; [|apply parts with end_]; constructor; try lra; intros v V; try apply within_01.
    * unfold within, clamp, Rmax, Rmin; repeat (destruct (Rle_dec _ _)); lra.
    * unfold within, clamp, Rmax, Rmin; repeat (destruct (Rle_dec _ _)); lra.
  + apply div_d; replace (((hi - lo) / d + s) * d) with (hi - lo + s * d) by (field; lra); lra.
Qed.
End Upper.

Print Assumptions uniform_moment.
Print Assumptions uniform_law.
