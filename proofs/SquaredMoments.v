(* Squares of sub-Gaussian variables: the moment bound of Laurent and Massart, derived from the moments of sums alone.

   The proof in docs/proofs/connectivity.md uses a Gaussian variable. Here a walk of n fair steps of size 1 takes its
   place. With a^2 = 2 t/n, exp(t z^2) is at most the mean of exp(a k z) over the ends k of such walks, up to a factor
   that tends to 1. *)
From Coq Require Import Reals Lra Lia Psatz.
Require Import Connectivity.
Local Open Scope R_scope.

Lemma exp_cancel x : exp x * exp (- x) = 1.
Proof. rewrite <- exp_plus, Rplus_opp_r; apply exp_0. Qed.
Lemma limit_below x A : (forall e, 0 < e -> x <= exp (A + e)) -> x <= exp A.
Proof.
intros H; apply Rnot_lt_le; intros L; assert (P := exp_pos A).
assert (Q : A < ln x).
{ rewrite <- (ln_exp A); apply ln_increasing; assumption. }
specialize (H ((ln x - A) / 2) ltac:(lra)).
assert (exp (A + (ln x - A) / 2) < exp (ln x)) by (apply exp_increasing; lra).
rewrite exp_ln in H0 by lra; lra.
Qed.

(* cosh y is between exp(y^2/2 - y^4/4) and exp(y^2/2). *)
Lemma sinh_below y : 0 <= y -> sinh y <= y * cosh y.
Proof.
intros P; destruct (Req_dec y 0) as [->|D]; [rewrite sinh_0; lra|].
destruct (MVT_cor2 (fun t => t * cosh t - sinh t) (fun t => (1 * cosh t + t * sinh t) - cosh t) 0 y)
  as (c & Q & R); [lra| |].
- intros c _; apply (derivable_pt_lim_minus (fun t => t * cosh t) sinh); [|apply derivable_pt_lim_sinh].
  apply (derivable_pt_lim_mult (fun t => t) cosh); [apply derivable_pt_lim_id|apply derivable_pt_lim_cosh].
- rewrite sinh_0 in Q.
  assert (0 <= sinh c) by (unfold sinh; assert (S := sinh_above c ltac:(lra)); lra).
  assert (0 <= c * sinh c * (y - 0)) by (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra). lra.
Qed.
Lemma cosh_below_pos y : 0 <= y -> cosh y <= exp (y * y / 2).
Proof.
intros P; destruct (Req_dec y 0) as [->|D]; [rewrite cosh_0; apply Req_le; rewrite <- exp_0; f_equal; field|].
set (g := fun t => exp (- (t * t / 2))).
destruct (MVT_cor2 (fun t => cosh t * g t) (fun t => sinh t * g t + cosh t * (g t * - t)) 0 y) as (c & Q & R); [lra| |].
- intros c _; apply (derivable_pt_lim_mult cosh g); [apply derivable_pt_lim_cosh|].
  apply (derivable_pt_lim_comp (fun t => - (t * t / 2)) exp).
  + replace (- c) with (- ((1 * c + c * 1) * / 2)) by field.
    apply derivable_pt_lim_opp.
    replace ((1 * c + c * 1) * / 2) with ((1 * c + c * 1) * / 2 + c * c * 0) by ring.
    apply (derivable_pt_lim_mult (fun t => t * t) (fun _ => / 2)); [|apply derivable_pt_lim_const].
    apply (derivable_pt_lim_mult (fun t => t) (fun t => t)); apply derivable_pt_lim_id.
  + apply derivable_pt_lim_exp.
- assert (S := sinh_below c ltac:(lra)); assert (G : 0 < g c) by apply exp_pos.
  assert (g 0 = 1) by (unfold g; rewrite <- exp_0; f_equal; field).
  rewrite H, cosh_0 in Q.
  assert (0 <= g c * (c * cosh c - sinh c) * (y - 0)) by (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra).
  assert (L : cosh y * g y <= 1) by lra.
  assert (X := exp_cancel (y * y / 2)); fold (g y) in X; assert (E := exp_pos (y * y / 2)).
  apply (Rmult_le_reg_r (g y)); [apply exp_pos|]; lra.
Qed.
Lemma cosh_even y : cosh (- y) = cosh y. Proof. unfold cosh; rewrite Ropp_involutive; lra. Qed.
Lemma cosh_below y : cosh y <= exp (y * y / 2).
Proof.
destruct (Rle_dec 0 y); [apply cosh_below_pos; assumption|].
rewrite <- cosh_even; replace (y * y) with (- y * - y) by ring; apply cosh_below_pos; lra.
Qed.
Lemma cosh_above_pos x : 0 <= x -> 1 + x * x / 2 <= cosh x.
Proof.
intros P; assert (S := sinh_above (x / 2) ltac:(lra)); unfold cosh.
assert (X : exp x = exp (x / 2) * exp (x / 2)) by (rewrite <- exp_plus; f_equal; field).
assert (Y : exp (- x) = exp (- (x / 2)) * exp (- (x / 2))) by (rewrite <- exp_plus; f_equal; field).
assert (Z := exp_cancel (x / 2)); rewrite X, Y.
set (p := exp (x / 2)) in *; set (q := exp (- (x / 2))) in *.
assert (x * x <= (p - q) * (p - q)) by nra. nra.
Qed.
Lemma cosh_above x : exp (x * x / 2 - x * x * (x * x) / 4) <= cosh x.
Proof.
assert (H : 1 + x * x / 2 <= cosh x).
{ destruct (Rle_dec 0 x); [apply cosh_above_pos; assumption|].
  rewrite <- cosh_even; replace (x * x) with (- x * - x) by ring; apply cosh_above_pos; lra. }
eapply Rle_trans; [|exact H]; set (y := x * x / 2).
assert (Y : 0 <= y) by (assert (Z := Rle_0_sqr x); unfold Rsqr, y in *; lra).
replace (y - x * x * (x * x) / 4) with (y - y * y) by (unfold y; field).
assert (A := exp_above_line (- (y - y * y))); assert (C := exp_cancel (y - y * y)).
set (E := exp (y - y * y)) in *; set (F := exp (- (y - y * y))) in *.
assert (PE : 0 < E) by apply exp_pos.
(* E (1 - y + y^2) <= 1 <= (1 + y)(1 - y + y^2) *)
assert (E * (1 - y + y * y) <= 1) by nra.
assert (1 <= (1 + y) * (1 - y + y * y)).
{ replace ((1 + y) * (1 - y + y * y)) with (1 + y * (y * y)) by ring.
  assert (0 <= y * (y * y)) by (apply Rmult_le_pos; [|apply Rmult_le_pos]; assumption); lra. }
apply (Rmult_le_reg_r (1 - y + y * y)); [nra|lra].
Qed.

(* The mean of f over the ends of n fair steps of size 1 from x. *)
Fixpoint walk (n : nat) (x : R) (f : R -> R) : R :=
  match n with O => f x | S k => (walk k (x - 1) f + walk k (x + 1) f) / 2 end.
Lemma walk_le n : forall x f g, (forall y, f y <= g y) -> walk n x f <= walk n x g.
Proof.
induction n as [|n IH]; intros x f g H; simpl; [apply H|].
assert (A := IH (x - 1) f g H); assert (B := IH (x + 1) f g H); lra.
Qed.
Lemma walk_scale n : forall x c f, walk n x (fun y => c * f y) = c * walk n x f.
Proof. induction n as [|n IH]; intros; simpl; [reflexivity|rewrite !IH; field]. Qed.
Lemma walk_exp n : forall x b, walk n x (fun y => exp (b * y)) = exp (b * x) * cosh b ^ n.
Proof.
induction n as [|n IH]; intros x b; simpl; [ring|]; rewrite !IH; unfold cosh.
replace (b * (x - 1)) with (b * x + - b) by ring; replace (b * (x + 1)) with (b * x + b) by ring.
rewrite !exp_plus; field.
Qed.
Lemma walk_mean (T : Type) (E : (T -> R) -> R) n (F : R -> T -> R) : mean E -> (forall y, bounded (F y)) ->
  forall x, bounded (fun w => walk n x (fun y => F y w)) /\
            E (fun w => walk n x (fun y => F y w)) <= walk n x (fun y => E (F y)).
Proof.
intros ME B; induction n as [|n IH]; intros x; simpl; [split; [apply B|apply Rle_refl]|].
destruct (IH (x - 1)) as [B1 L1]; destruct (IH (x + 1)) as [B2 L2].
set (f := fun w => walk n (x - 1) (fun y => F y w)) in *; set (g := fun w => walk n (x + 1) (fun y => F y w)) in *.
assert (BS : bounded (fun w => / 2 * (f w + g w))) by (apply bounded_scale, bounded_plus; assumption).
assert (BD : bounded (fun w => (f w + g w) / 2)).
{ destruct BS as [b Hb]; exists b; intros w; specialize (Hb w); cbv beta in Hb.
  replace ((f w + g w) / 2) with (/ 2 * (f w + g w)) by field; assumption. }
split; [exact BD|].
apply Rle_trans with (E (fun w => / 2 * (f w + g w))).
{ apply (mean_le _ ME); [exact BD|exact BS|]; intros w; apply Req_le; unfold f, g; field. }
eapply Rle_trans; [apply (mean_scale _ ME); [lra|apply bounded_plus; assumption]|].
assert (P := mean_plus _ ME f g B1 B2); lra.
Qed.

(* c is the factor of the square at the end of the walk, and c/(1 - 2 c n) is the factor at its start. *)
Lemma log_step g : 0 <= 2 * g < 1 -> 2 * g <= - ln (1 - 2 * g).
Proof.
intros G; assert (A := exp_above_line (- (2 * g))).
apply Rnot_lt_le; intros H; assert (K : - (2 * g) < ln (1 - 2 * g)) by lra.
apply exp_increasing in K; rewrite exp_ln in K; lra.
Qed.
Lemma walk_square n : forall x c, 0 <= c -> 2 * c * INR n < 1 ->
  walk n x (fun y => exp (c * (y * y)))
  <= exp (c / (1 - 2 * c * INR n) * (x * x) - / 2 * ln (1 - 2 * c * INR n)).
Proof.
induction n as [|n IH]; intros x c C L.
- simpl; replace (1 - 2 * c * 0) with 1 by ring; rewrite ln_1; apply Req_le; f_equal; field.
- rewrite S_INR in *; set (q := 1 - 2 * c * INR n) in *.
  assert (Q : 2 * c < q) by (unfold q; lra).
  set (g := c / q).
  assert (GQ : g * q = c) by (unfold g; field; lra).
  assert (G0 : 0 <= g) by (unfold g; apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]).
  assert (G1 : 2 * g < 1) by (apply (Rmult_lt_reg_r q); lra).
  replace (1 - 2 * c * (INR n + 1)) with (q * (1 - 2 * g)) by (unfold q in *; lra).
  rewrite ln_mult by lra.
  replace (c / (q * (1 - 2 * g))) with (g / (1 - 2 * g)) by (unfold g; field; split; [unfold g in *; lra|lra]).
  assert (LS := log_step g ltac:(lra)).
  assert (GG : g + 2 * (g * g) <= g / (1 - 2 * g)).
  { apply (Rmult_le_reg_r (1 - 2 * g)); [lra|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra.
    assert (0 <= g * (g * g)) by (apply Rmult_le_pos; [|apply Rmult_le_pos]; assumption); lra. }
  assert (X0 : 0 <= x * x) by (assert (Z := Rle_0_sqr x); unfold Rsqr in Z; lra).
  assert (I1 := IH (x - 1) c C ltac:(unfold q in *; lra)); assert (I2 := IH (x + 1) c C ltac:(unfold q in *; lra)).
  fold q in I1, I2; fold g in I1, I2; simpl.
  apply Rle_trans with (exp (g * (x * x) + g - / 2 * ln q) * cosh (2 * g * x)).
  + unfold cosh; rewrite Rmult_comm; unfold Rdiv at 2; 
    replace ((exp (2 * g * x) + exp (- (2 * g * x))) * / 2 * exp (g * (x * x) + g - / 2 * ln q))
      with ((exp (g * (x * x) + g - / 2 * ln q) * exp (- (2 * g * x))
             + exp (g * (x * x) + g - / 2 * ln q) * exp (2 * g * x)) / 2) by field.
    rewrite <- !exp_plus.
    replace (g * ((x - 1) * (x - 1)) - / 2 * ln q) with (g * (x * x) + g - / 2 * ln q + - (2 * g * x)) in I1 by ring.
    replace (g * ((x + 1) * (x + 1)) - / 2 * ln q) with (g * (x * x) + g - / 2 * ln q + 2 * g * x) in I2 by ring.
    lra.
  + eapply Rle_trans; [apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|apply cosh_below]|].
    rewrite <- exp_plus; apply exp_monotone.
    assert ((g + 2 * (g * g)) * (x * x) <= g / (1 - 2 * g) * (x * x)) by (apply Rmult_le_compat_r; assumption).
    lra.
Qed.

Lemma sum_below n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof.
intros H; induction n as [|n IH]; simpl; [reflexivity|].
rewrite IH, H by (intros; auto with arith); reflexivity.
Qed.
Lemma sum_change m j (f g : nat -> R) : (j < m)%nat -> (forall o, o <> j -> f o = g o) ->
  sum m f = sum m g + (f j - g j).
Proof.
induction m as [|m IH]; intros J H; [lia|]; simpl; destruct (Nat.eq_dec j m) as [->|D].
- rewrite (sum_below m f g); [lra|]; intros i I; apply H; lia.
- rewrite IH, (H m) by (lia || assumption); lra.
Qed.
Lemma exp_power n x : exp x ^ n = exp (INR n * x).
Proof.
induction n as [|n IH]; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|].
rewrite S_INR; simpl; rewrite IH, <- exp_plus; f_equal; ring.
Qed.
Lemma bounded_exp (T : Type) (f : T -> R) : bounded f -> bounded (fun w => exp (f w)).
Proof.
intros [b H]; apply (bounded_between _ _ (exp b)); intros w; split; [apply Rlt_le, exp_pos|apply exp_monotone].
eapply Rle_trans; [apply Rle_abs|apply H].
Qed.

Section Squares.
Variables (T : Type) (E : (T -> R) -> R) (m : nat) (s B t : R) (Z : nat -> T -> R).
Hypothesis ME : mean E.
Hypothesis small : forall o w, Rabs (Z o w) <= B.
Hypothesis joint : forall k,
  E (fun w => exp (sum m (fun o => k o * Z o w))) <= exp (sum m (fun o => k o * k o * (s * s) / 2)).
Hypothesis t_small : 0 <= t /\ 2 * (t * (s * s)) < 1.

Let G := - (/ 2 * ln (1 - 2 * (t * (s * s)))).
Let miss n := t * t * (B * B * (B * B)) / INR n.
Let term j (k : nat -> R) w o := if (o <? j)%nat then t * (Z o w * Z o w) else k o * Z o w.
Let most n j (k : nat -> R) o := if (o <? j)%nat then G + miss n else k o * k o * (s * s) / 2.
Let set_at (k : nat -> R) j y o := if (o =? j)%nat then y else k o.

Lemma square_by_walk n z : (1 <= n)%nat -> Rabs z <= B ->
  exp (t * (z * z)) <= exp (miss n) * cosh (sqrt (2 * t / INR n) * z) ^ n.
Proof.
intros N HZ; apply (le_INR 1) in N; simpl in N; destruct t_small as [T0 _].
set (a := sqrt (2 * t / INR n)).
assert (AA : a * a = 2 * t / INR n).
{ apply sqrt_sqrt; apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]. }
apply Rle_trans with (exp (miss n) * exp (a * z * (a * z) / 2 - a * z * (a * z) * (a * z * (a * z)) / 4) ^ n).
2:{ apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|]; apply pow_incr; split; [apply Rlt_le, exp_pos|apply cosh_above]. }
rewrite exp_power, <- exp_plus; apply exp_monotone.
replace (a * z * (a * z)) with (2 * t / INR n * (z * z)) by (rewrite <- AA; ring).
replace (INR n * (2 * t / INR n * (z * z) / 2 - 2 * t / INR n * (z * z) * (2 * t / INR n * (z * z)) / 4))
  with (t * (z * z) - t * t * (z * z * (z * z)) / INR n) by (field; lra).
assert (ZB : z * z <= B * B).
{ rewrite <- (abs_square z); assert (P := Rabs_pos z); apply Rmult_le_compat; assumption. }
assert (ZP : 0 <= z * z) by (rewrite <- (abs_square z); apply Rmult_le_pos; apply Rabs_pos).
assert (QB : z * z * (z * z) <= B * B * (B * B)) by (apply Rmult_le_compat; assumption).
assert (t * t * (z * z * (z * z)) / INR n <= miss n); [|lra].
apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra|apply Rmult_le_compat_l; [apply Rmult_le_pos|]; assumption].
Qed.

Lemma bounded_term j k : bounded (fun w => exp (sum m (term j k w))).
Proof.
apply bounded_exp, (bounded_sum T m (fun o w => term j k w o)); intros o; unfold term; destruct (o <? j)%nat.
- exists (Rabs t * (B * B)); intros w; rewrite !Rabs_mult; apply Rmult_le_compat_l; [apply Rabs_pos|].
  apply Rmult_le_compat; try apply Rabs_pos; apply small.
- apply bounded_scale; exists B; apply small.
Qed.

Lemma some_squared n j : (1 <= n)%nat -> (j <= m)%nat -> forall k,
  E (fun w => exp (sum m (term j k w))) <= exp (sum m (most n j k)).
Proof.
intros N; induction j as [|j IH]; intros J k; [apply joint|]; specialize (IH ltac:(lia)).
assert (N1 := N); apply (le_INR 1) in N1; simpl in N1; destruct t_small as [T0 T1].
set (a := sqrt (2 * t / INR n)).
assert (AA : a * a = 2 * t / INR n).
{ apply sqrt_sqrt; apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]. }
set (F := fun y w => exp (sum m (term j (set_at k j (a * y)) w))).
assert (at_j : forall v, (j <? j)%nat = false /\ set_at k j v j = v).
{ intros v; split; [apply Nat.ltb_irrefl|unfold set_at; rewrite Nat.eqb_refl; reflexivity]. }
assert (off : forall v o, o <> j -> (o <? S j)%nat = (o <? j)%nat /\ set_at k j v o = k o).
{ intros v o D; split; [|unfold set_at; apply Nat.eqb_neq in D; rewrite D; reflexivity].
  destruct (Nat.ltb_spec o (S j)); destruct (Nat.ltb_spec o j); try reflexivity; lia. }
assert (in_S : (j <? S j)%nat = true) by (apply Nat.ltb_lt; lia).
destruct (walk_mean T E n F ME (fun y => bounded_term j _) 0) as [BW LW].
apply Rle_trans with (E (fun w => exp (miss n) * walk n 0 (fun y => F y w))).
{ apply (mean_le _ ME); [apply bounded_term|apply bounded_scale, BW|]; intros w.
  set (S0 := sum m (term j (set_at k j 0) w)).
  assert (A : forall y, F y w = exp S0 * exp (a * Z j w * y)).
  { intros y; unfold F; rewrite <- exp_plus; f_equal; unfold S0.
    rewrite (sum_change m j (term j (set_at k j (a * y)) w) (term j (set_at k j 0) w)) by
      (lia || (intros o D; unfold term; rewrite !(proj2 (off _ o D)); reflexivity)).
    unfold term; rewrite (proj1 (at_j 0)), !(proj2 (at_j _)); ring. }
  apply Rle_trans with (exp (miss n) * walk n 0 (fun y => exp S0 * exp (a * Z j w * y))).
  2:{ apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|apply walk_le; intros y; rewrite A; lra]. }
  rewrite walk_scale, walk_exp, Rmult_0_r, exp_0, Rmult_1_l.
  rewrite (sum_change m j (term (S j) k w) (term j (set_at k j 0) w)) by
    (lia || (intros o D; unfold term; rewrite (proj1 (off 0 o D)), (proj2 (off 0 o D)); reflexivity)).
  fold S0; unfold term; rewrite in_S, (proj1 (at_j 0)), (proj2 (at_j 0)), Rmult_0_l, Rminus_0_r, exp_plus.
  replace (exp (miss n) * (exp S0 * cosh (a * Z j w) ^ n)) with (exp S0 * (exp (miss n) * cosh (a * Z j w) ^ n)) by ring.
  apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|apply square_by_walk; auto]. }
eapply Rle_trans; [apply (mean_scale _ ME); [apply Rlt_le, exp_pos|exact BW]|].
set (R0 := sum m (most n j (set_at k j 0))).
apply Rle_trans with (exp (miss n) * (exp R0 * exp G)).
2:{ rewrite <- !exp_plus; apply exp_monotone, Req_le.
    rewrite (sum_change m j (most n (S j) k) (most n j (set_at k j 0))) by
      (lia || (intros o D; unfold most; rewrite (proj1 (off 0 o D)), (proj2 (off 0 o D)); reflexivity)).
    fold R0; unfold most; rewrite in_S, (proj1 (at_j 0)), (proj2 (at_j 0)); field. }
apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|].
eapply Rle_trans; [exact LW|].
set (c := t * (s * s) / INR n).
apply Rle_trans with (walk n 0 (fun y => exp R0 * exp (c * (y * y)))).
{ apply walk_le; intros y; eapply Rle_trans; [apply IH|]; rewrite <- exp_plus; apply exp_monotone, Req_le.
  rewrite (sum_change m j (most n j (set_at k j (a * y))) (most n j (set_at k j 0))) by
    (lia || (intros o D; unfold most; rewrite !(proj2 (off _ o D)); reflexivity)).
  fold R0; unfold most; rewrite (proj1 (at_j 0)), !(proj2 (at_j _)).
  replace (a * y * (a * y) * (s * s) / 2) with (a * a * (y * y) * (s * s) / 2) by field.
  rewrite AA; unfold c; field; lra. }
rewrite walk_scale; apply Rmult_le_compat_l; [apply Rlt_le, exp_pos|].
assert (CN : 2 * c * INR n = 2 * (t * (s * s))) by (unfold c; field; lra).
eapply Rle_trans; [apply walk_square|].
- apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; lra]; apply Rmult_le_pos; [assumption|].
  assert (X := Rle_0_sqr s); unfold Rsqr in X; assumption.
- rewrite CN; assumption.
- rewrite CN; apply exp_monotone; unfold G; lra.
Qed.

Theorem squares_moment :
  E (fun w => exp (t * sum m (fun o => Z o w * Z o w))) <= exp (- (INR m / 2 * ln (1 - 2 * (t * (s * s))))).
Proof.
apply limit_below; intros e Pe.
set (M := INR m * (t * t * (B * B * (B * B)))).
destruct (archimed_cor1 (e / (Rabs M + 1))) as (n & N & N0).
{ apply Rdiv_lt_0_compat; [assumption|assert (P := Rabs_pos M); lra]. }
assert (L := some_squared n m ltac:(lia) ltac:(lia) (fun _ => 0)).
apply Rle_trans with (exp (INR m * (G + miss n))).
- eapply Rle_trans; [|eapply Rle_trans; [exact L|]].
  + apply (mean_le _ ME); [|apply bounded_term|].
    * apply bounded_exp, bounded_scale, (bounded_sum T m (fun o w => Z o w * Z o w)); intros o.
      exists (B * B); intros w; rewrite Rabs_mult; apply Rmult_le_compat; try apply Rabs_pos; apply small.
    * intros w; apply Req_le; f_equal; rewrite <- sum_scale; apply sum_below; intros o O; unfold term.
      apply Nat.ltb_lt in O; rewrite O; reflexivity.
  + apply exp_monotone, Req_le; rewrite <- sum_const; apply sum_below; intros o O; unfold most.
    apply Nat.ltb_lt in O; rewrite O; reflexivity.
- apply exp_monotone; rewrite Rmult_plus_distr_l; apply Rplus_le_compat; [unfold G; apply Req_le; field|].
  apply lt_INR in N0; simpl in N0.
  replace (INR m * miss n) with (M * / INR n) by (unfold M, miss; field; lra).
  assert (P := Rabs_pos M); assert (Q := Rle_abs M).
  assert (I : 0 < / INR n) by (apply Rinv_0_lt_compat; assumption).
  apply Rle_trans with ((Rabs M + 1) * / INR n); [apply Rmult_le_compat_r; lra|].
  apply (Rmult_le_reg_l (/ (Rabs M + 1))); [apply Rinv_0_lt_compat; lra|].
  rewrite <- Rmult_assoc, Rinv_l by lra; unfold Rdiv in N; lra.
Qed.
End Squares.

Print Assumptions squares_moment.
