(* The statement R1 of docs/proofs/connectivity.md, "Two networks of a cube". Except with probability delta, the mean
   over data of the gap between two networks of a cube is at most the bound of R1, at every point of the segment between
   the networks.

   A probability is given by an upper mean of bounded functions of an outcome. An upper mean is monotone, has the
   value c at every constant c, and is subadditive. Means have these properties, so that measures and finite spaces
   are covered. Upper integrals have these properties, too. The hidden layers are drawn first, and then the entries of
   the readouts for given hidden layers, so the two are independent. The data are finitely many, with any weights. The
   premises are the moments of the readouts (`sub_gaussian`). IndependentEntries.v and UniformLaw.v prove these
   premises for uniform entries, and UniformNetworks.v puts both together.

   exp and ln are those of Coq's library Reals: `Print Assumptions` lists its axioms, which are classical logic and
   extensionality of functions, for six files: this file, the three files just named, SquaredMoments.v and
   UniformSums.v. It lists these axioms for no other file. *)
From Coq Require Import Reals Lra Lia Psatz.
Local Open Scope R_scope.

(* Sums, lengths, matrices. *)
Fixpoint sum (n : nat) (f : nat -> R) : R := match n with O => 0 | S k => sum k f + f k end.
Lemma sum_ext n f g : (forall i, f i = g i) -> sum n f = sum n g.
Proof. intros H; induction n as [|n IH]; simpl; [reflexivity|rewrite IH, H; reflexivity]. Qed.
Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n as [|n IH]; simpl; [lra|rewrite IH; lra]. Qed.
Lemma sum_scale n c f : sum n (fun i => c * f i) = c * sum n f.
Proof. induction n as [|n IH]; simpl; [lra|rewrite IH; lra]. Qed.
Lemma sum_le n f g : (forall i, f i <= g i) -> sum n f <= sum n g.
Proof. intros H; induction n as [|n IH]; simpl; [lra|specialize (H n); lra]. Qed.
Lemma sum_pos n f : (forall i, 0 <= f i) -> 0 <= sum n f.
Proof. intros H; induction n as [|n IH]; simpl; [lra|specialize (H n); lra]. Qed.
Lemma sum_const n c : sum n (fun _ => c) = INR n * c.
Proof. induction n as [|n IH]; [simpl; lra|]. rewrite S_INR; simpl; rewrite IH; lra. Qed.
Lemma sum_swap n k f : sum n (fun i => sum k (fun j => f i j)) = sum k (fun j => sum n (fun i => f i j)).
Proof.
induction n as [|n IH]; simpl.
- induction k as [|k IH]; simpl; lra.
- rewrite IH, <- sum_plus; reflexivity.
Qed.
Lemma sum_member n f k : (forall i, 0 <= f i) -> (k < n)%nat -> f k <= sum n f.
Proof.
intros H; induction n as [|n IH]; intros L; [lia|]; simpl.
destruct (Nat.eq_dec k n) as [->|D].
- assert (P := sum_pos n f H); lra.
- assert (Q := IH ltac:(lia)); specialize (H n); lra.
Qed.

Lemma squares x y : 0 <= y -> x * x <= y * y -> x <= y.
Proof. intros; destruct (Rle_dec x y); [assumption|nra]. Qed.
Lemma abs_product x y : Rabs (x * y) = Rabs x * Rabs y. Proof. apply Rabs_mult. Qed.
Lemma abs_square x : Rabs x * Rabs x = x * x.
Proof. rewrite <- Rabs_mult, Rabs_right; nra. Qed.

Lemma cauchy n f g :
  sum n (fun i => f i * g i) * sum n (fun i => f i * g i) <= sum n (fun i => f i * f i) * sum n (fun i => g i * g i).
Proof.
induction n as [|n IH]; simpl; [lra|].
set (A := sum n (fun i => f i * g i)) in *.
assert (PF := sum_pos n (fun i => f i * f i) ltac:(intros; nra)).
assert (PG := sum_pos n (fun i => g i * g i) ltac:(intros; nra)).
set (F := sum n (fun i => f i * f i)) in *; set (G := sum n (fun i => g i * g i)) in *.
set (a := f n); set (b := g n).
assert (2 * A * a * b <= F * (b * b) + G * (a * a)).
{ assert (0 <= b * b) by nra; assert (0 <= a * a) by nra.
  assert (0 <= F * (b * b)) by (apply Rmult_le_pos; assumption).
  assert (0 <= G * (a * a)) by (apply Rmult_le_pos; assumption).
  apply squares; [lra|].
  assert (A * A * ((a * a) * (b * b)) <= F * G * ((a * a) * (b * b))).
  { apply Rmult_le_compat_r; [apply Rmult_le_pos; assumption|assumption]. }
  assert (Z := Rle_0_sqr (F * (b * b) - G * (a * a))); unfold Rsqr in Z; lra. }
lra.
Qed.

Definition norm (n : nat) (v : nat -> R) : R := sqrt (sum n (fun i => v i * v i)).
Lemma square_pos n v : 0 <= sum n (fun i => v i * v i). Proof. apply sum_pos; intros; nra. Qed.
Lemma norm_pos n v : 0 <= norm n v. Proof. apply sqrt_pos. Qed.
Lemma norm_square n v : norm n v * norm n v = sum n (fun i => v i * v i).
Proof. apply sqrt_sqrt, square_pos. Qed.
Lemma norm_at_most n v b : 0 <= b -> sum n (fun i => v i * v i) <= b * b -> norm n v <= b.
Proof. intros B S; apply squares; [assumption|rewrite norm_square; assumption]. Qed.
Lemma norm_ext n u v : (forall i, u i = v i) -> norm n u = norm n v.
Proof. intros H; unfold norm; f_equal; apply sum_ext; intros; rewrite H; reflexivity. Qed.
Lemma norm_monotone n u v : (forall i, Rabs (u i) <= Rabs (v i)) -> norm n u <= norm n v.
Proof.
intros H; apply norm_at_most; [apply norm_pos|]; rewrite norm_square; apply sum_le; intros i.
rewrite <- (abs_square (u i)), <- (abs_square (v i)); specialize (H i); assert (P := Rabs_pos (u i)); nra.
Qed.
Lemma norm_scale n c v : norm n (fun i => c * v i) = Rabs c * norm n v.
Proof.
assert (PC := Rabs_pos c); assert (PN := norm_pos n v).
assert (E : sum n (fun i => c * v i * (c * v i)) = (Rabs c * norm n v) * (Rabs c * norm n v)).
{ transitivity ((Rabs c * Rabs c) * (norm n v * norm n v)); [|ring].
  rewrite norm_square, abs_square, <- sum_scale; apply sum_ext; intros; ring. }
apply Rle_antisym.
- apply norm_at_most; [apply Rmult_le_pos; assumption|rewrite E; lra].
- apply squares; [apply norm_pos|rewrite norm_square, E; lra].
Qed.
Lemma triangle n u v : norm n (fun i => u i + v i) <= norm n u + norm n v.
Proof.
assert (PU := norm_pos n u); assert (PV := norm_pos n v).
apply norm_at_most; [lra|].
assert (I : sum n (fun i => u i * v i) <= norm n u * norm n v).
{ apply squares; [apply Rmult_le_pos; assumption|].
  replace (norm n u * norm n v * (norm n u * norm n v))
    with ((norm n u * norm n u) * (norm n v * norm n v)) by ring.
  rewrite !norm_square; apply cauchy. }
replace (sum n (fun i => (u i + v i) * (u i + v i)))
  with (sum n (fun i => u i * u i) + 2 * sum n (fun i => u i * v i) + sum n (fun i => v i * v i)).
- rewrite <- !norm_square; lra.
- rewrite <- sum_scale, <- !sum_plus; apply sum_ext; intros; ring.
Qed.

Definition apply (h : nat) (V : nat -> nat -> R) (q : nat -> R) (o : nat) : R := sum h (fun i => V o i * q i).
Lemma apply_scale h V c q o : apply h V (fun i => c * q i) o = c * apply h V q o.
Proof. unfold apply; rewrite <- sum_scale; apply sum_ext; intros; ring. Qed.
Lemma apply_plus h V q r o : apply h V (fun i => q i + r i) o = apply h V q o + apply h V r o.
Proof. unfold apply; rewrite <- sum_plus; apply sum_ext; intros; ring. Qed.
Lemma apply_norm C h V q e : 0 <= e -> (forall o i, Rabs (V o i) <= e) ->
  norm C (apply h V q) <= e * sqrt (INR C * INR h) * norm h q.
Proof.
intros PE HV; assert (PN := norm_pos h q).
assert (PCH : 0 <= INR C * INR h) by (apply Rmult_le_pos; apply pos_INR).
apply norm_at_most.
{ apply Rmult_le_pos; [apply Rmult_le_pos; [assumption|apply sqrt_pos]|assumption]. }
replace (e * sqrt (INR C * INR h) * norm h q * (e * sqrt (INR C * INR h) * norm h q))
  with (INR C * (INR h * (e * e) * (norm h q * norm h q))).
2:{ transitivity (e * e * (sqrt (INR C * INR h) * sqrt (INR C * INR h)) * (norm h q * norm h q)); [|ring].
    rewrite sqrt_sqrt by assumption; ring. }
rewrite norm_square, <- sum_const; apply sum_le; intros o; unfold apply.
eapply Rle_trans; [apply cauchy|]; apply Rmult_le_compat_r; [apply square_pos|].
rewrite <- sum_const; apply sum_le; intros i.
rewrite <- (abs_square (V o i)); specialize (HV o i); assert (P := Rabs_pos (V o i)); nra.
Qed.

(* exp and ln. *)
Lemma exp_above_line x : 1 + x <= exp x.
Proof.
destruct (Req_dec x 0) as [->|D]; [rewrite exp_0; lra|]. apply Rlt_le, exp_ineq1; assumption.
Qed.
Lemma exp_monotone x y : x <= y -> exp x <= exp y.
Proof. intros [H| ->]; [apply Rlt_le, exp_increasing; assumption|lra]. Qed.
Lemma sinh_above x : 0 <= x -> 2 * x <= exp x - exp (- x).
Proof.
intros P; destruct (Req_dec x 0) as [->|D]; [rewrite Ropp_0; lra|].
destruct (MVT_cor2 (fun t => exp t - exp (- t) - 2 * t) (fun t => exp t + exp (- t) - 2) 0 x) as (c & Q & _).
- lra.
- intros c _. 
  replace (exp c + exp (- c) - 2) with ((exp c - (exp (- c) * - 1)) - 2 * 1) by ring.
  apply (derivable_pt_lim_minus (fun t => exp t - exp (- t)) (fun t => 2 * t)).
  + apply (derivable_pt_lim_minus exp (fun t => exp (- t))); [apply derivable_pt_lim_exp|].
    apply (derivable_pt_lim_comp (fun t => - t) exp).
    * replace (-1) with (- (1)) by ring; apply derivable_pt_lim_opp, derivable_pt_lim_id.
    * apply derivable_pt_lim_exp.
  + apply derivable_pt_lim_scal, derivable_pt_lim_id.
- rewrite Ropp_0, exp_0 in Q.
  assert (PC := exp_pos c); assert (PI : exp c * exp (- c) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  assert (0 <= exp c + exp (- c) - 2).
  { assert (PM := exp_pos (- c)); assert (2 <= exp c + exp (- c)); [|lra].
    apply squares; [lra|]. assert (Z := Rle_0_sqr (exp c - exp (- c))); unfold Rsqr in Z; lra. }
  assert (0 <= (exp c + exp (- c) - 2) * (x - 0)) by (apply Rmult_le_pos; lra).
  lra.
Qed.
Lemma half_below_ln_2 : 1 / 2 <= ln 2.
Proof.
apply Rnot_lt_le; intros H; apply exp_increasing in H; rewrite exp_ln in H by lra.
assert (S : exp (1 / 2) * exp (1 / 2) = exp 1) by (rewrite <- exp_plus; f_equal; lra).
assert (T := exp_le_3); assert (P := exp_pos (1 / 2)); nra.
Qed.
Lemma log_bound u : 0 <= u < 1 -> - ln (1 - u) - u <= u * u / (2 * (1 - u)).
Proof.
intros [P Q]; assert (S := sinh_above (- ln (1 - u))).
assert (ln (1 - u) <= 0).
{ destruct (Req_dec u 0) as [->|D]; [rewrite Rminus_0_r, ln_1; lra|].
  rewrite <- ln_1; apply Rlt_le, ln_increasing; lra. }
rewrite Ropp_involutive, exp_Ropp, exp_ln in S by lra.
specialize (S ltac:(lra)).
apply (Rmult_le_reg_l (2 * (1 - u))); [lra|].
replace (2 * (1 - u) * (u * u / (2 * (1 - u)))) with (u * u) by (field; lra).
assert (L : (1 - u) * (2 * - ln (1 - u)) <= (1 - u) * (/ (1 - u) - (1 - u))) by (apply Rmult_le_compat_l; lra).
rewrite Rmult_minus_distr_l, Rinv_r in L by lra. nra.
Qed.

(* Upper means of bounded functions of an outcome. Every probability gives an upper mean, and so does an upper integral. *)
Definition bounded {T : Type} (f : T -> R) : Prop := exists B, forall w, Rabs (f w) <= B.
Record mean {T : Type} (E : (T -> R) -> R) : Prop := Mean {
  mean_const : forall c, E (fun _ => c) = c;
  mean_plus : forall f g, bounded f -> bounded g -> E (fun w => f w + g w) <= E f + E g;
  mean_scale : forall c f, 0 <= c -> bounded f -> E (fun w => c * f w) <= c * E f;
  mean_le : forall f g, bounded f -> bounded g -> (forall w, f w <= g w) -> E f <= E g }.

Section Means.
Variables (T : Type) (E : (T -> R) -> R).
Hypothesis ME : mean E.
Lemma bounded_const (c : R) : bounded (fun _ : T => c).
Proof. exists (Rabs c); intros; lra. Qed.
Lemma bounded_plus (f g : T -> R) : bounded f -> bounded g -> bounded (fun w => f w + g w).
Proof.
intros [B H] [D K]; exists (B + D); intros w; eapply Rle_trans; [apply Rabs_triang|].
specialize (H w); specialize (K w); lra.
Qed.
Lemma bounded_scale c (f : T -> R) : bounded f -> bounded (fun w => c * f w).
Proof.
intros [B H]; exists (Rabs c * B); intros w; rewrite Rabs_mult.
apply Rmult_le_compat_l; [apply Rabs_pos|apply H].
Qed.
Lemma bounded_sum n (f : nat -> T -> R) : (forall i, bounded (f i)) -> bounded (fun w => sum n (fun i => f i w)).
Proof. intros H; induction n as [|n IH]; simpl; [apply bounded_const|apply bounded_plus; auto]. Qed.
Lemma bounded_between (f : T -> R) B : (forall w, 0 <= f w <= B) -> bounded f.
Proof. intros H; exists B; intros w; rewrite Rabs_right; specialize (H w); lra. Qed.
Lemma mean_sum n (f : nat -> T -> R) : (forall i, bounded (f i)) ->
  E (fun w => sum n (fun i => f i w)) <= sum n (fun i => E (f i)).
Proof.
intros H; induction n as [|n IH]; simpl; [rewrite (mean_const _ ME); lra|].
eapply Rle_trans; [apply (mean_plus _ ME); auto using bounded_sum|lra].
Qed.

(* Markov's inequality for exp, with Jensen's inequality over data with the weights `share`. *)
Lemma chernoff n (share : nat -> R) (F : nat -> T -> R) most K p limit :
  (forall x, 0 <= share x) -> sum n share <= 1 -> (forall x w, F x w <= most) -> 
  1 <= K -> (forall x, E (fun w => exp (F x w)) <= K) -> K <= p * exp limit ->
  exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= p /\
            forall w, g w < 1 -> sum n (fun x => share x * F x w) <= limit.
Proof.
intros PS S1 HF K1 EK Kp.
assert (BF : forall x, bounded (fun w => exp (F x w))).
{ intros x; apply (bounded_between _ (exp most)); intros w; split; [apply Rlt_le, exp_pos|apply exp_monotone, HF]. }
set (rest := 1 - sum n share).
set (G := fun w => sum n (fun x => share x * exp (F x w)) + rest).
assert (BG : bounded G).
{ apply bounded_plus; [apply bounded_sum; intros; apply bounded_scale, BF|apply bounded_const]. }
assert (PG : forall w, 0 <= G w).
{ intros w; apply Rplus_le_le_0_compat; [|unfold rest; lra].
  apply sum_pos; intros x; apply Rmult_le_pos; [apply PS|apply Rlt_le, exp_pos]. }
assert (EG : E G <= K).
{ unfold G; eapply Rle_trans; [apply (mean_plus _ ME)|].
  { apply bounded_sum; intros; apply bounded_scale, BF. }
  { apply bounded_const. }
  rewrite (mean_const _ ME).
  eapply Rle_trans; [apply Rplus_le_compat_r, mean_sum; intros; apply bounded_scale, BF|].
  apply Rle_trans with (sum n (fun x => K * share x) + rest).
  - apply Rplus_le_compat_r, sum_le; intros x.
    eapply Rle_trans; [apply (mean_scale _ ME); [apply PS|apply BF]|].
    rewrite Rmult_comm; apply Rmult_le_compat_r; [apply PS|apply EK].
  - rewrite sum_scale; unfold rest; nra. }
assert (PL := exp_pos (- limit)).
assert (one : exp limit * exp (- limit) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
exists (fun w => exp (- limit) * G w); split; [apply bounded_scale, BG|]; split; [|split].
- intros w; apply Rmult_le_pos; [lra|apply PG].
- eapply Rle_trans; [apply (mean_scale _ ME); [lra|apply BG]|].
  apply Rle_trans with (exp (- limit) * (p * exp limit)); [apply Rmult_le_compat_l; lra|].
  replace (exp (- limit) * (p * exp limit)) with (p * (exp limit * exp (- limit))) by ring; rewrite one; lra.
- intros w small; apply Rnot_lt_le; intros H.
  set (J := sum n (fun x => share x * F x w)) in *.
  assert (exp J <= G w).
  { unfold G; apply Rle_trans with
      (sum n (fun x => exp J * share x + (exp J * (share x * F x w) + - J * exp J * share x))
       + rest * (exp J * (1 - J))).
    - rewrite !sum_plus, !sum_scale; fold J; unfold rest. apply Req_le; ring.
    - apply Rplus_le_compat.
      + apply sum_le; intros x.
        assert (A := exp_above_line (F x w - J)); assert (PJ := exp_pos J).
        assert (exp (F x w) = exp J * exp (F x w - J)) by (rewrite <- exp_plus; f_equal; ring).
        rewrite H0. replace (exp J * share x + (exp J * (share x * F x w) + - J * exp J * share x))
          with (share x * (exp J * (1 + (F x w - J)))) by ring.
        apply Rmult_le_compat_l; [apply PS|apply Rmult_le_compat_l; lra].
      + assert (A := exp_above_line (- J)); assert (PJ := exp_pos J).
        assert (exp J * exp (- J) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
        assert (exp J * (1 - J) <= 1) by (rewrite <- H0; apply Rmult_le_compat_l; lra).
        assert (0 <= rest) by (unfold rest; lra). nra. }
  assert (exp limit < exp J) by (apply exp_increasing; assumption). nra.
Qed.
End Means.

(* A random matrix whose entries are at most e in absolute value, with the moments of independent sub-Gaussian entries
   of variance proxy s^2. *)
Record sub_gaussian {T : Type} (E : (T -> R) -> R) (C h : nat) (s : R) (V : T -> nat -> nat -> R) : Prop := Moments {
  one_output : forall u o t, (o < C)%nat -> norm h u <= 1 ->
    E (fun w => exp (t * apply h (V w) u o)) <= exp (t * t * (s * s) / 2);
  all_outputs : (2 <= C)%nat -> forall u t, norm h u <= 1 -> 0 <= t -> 2 * (t * (s * s)) < 1 ->
    E (fun w => exp (t * sum C (fun o => apply h (V w) u o * apply h (V w) u o)))
      <= exp (- (INR C / 2 * ln (1 - 2 * (t * (s * s))))) }.

Section Tail.
Variables (T : Type) (E : (T -> R) -> R) (C h : nat) (s e : R) (V : T -> nat -> nat -> R).
Hypothesis ME : mean E.
Hypothesis C_pos : (1 <= C)%nat.
Hypothesis s_pos : 0 < s.
Hypothesis e_pos : 0 <= e.
Hypothesis entries : forall w o i, Rabs (V w o i) <= e.
Hypothesis moments : sub_gaussian E C h s V.
Definition factor (p : R) : R := sqrt (INR C - 1) + sqrt (2 * ln (2 / p)).

Let top := e * sqrt (INR C * INR h).
Lemma top_pos : 0 <= top. Proof. apply Rmult_le_pos; [assumption|apply sqrt_pos]. Qed.
Lemma length_at_most w u : norm h u <= 1 -> norm C (apply h (V w) u) <= top.
Proof.
intros U; eapply Rle_trans; [apply apply_norm with (e := e); [assumption|apply entries]|].
fold top; assert (P := top_pos); rewrite <- (Rmult_1_r top) at 2; apply Rmult_le_compat_l; assumption.
Qed.
Lemma norm_one (v : nat -> R) : norm 1 v = Rabs (v 0%nat).
Proof. unfold norm; simpl; rewrite Rplus_0_l; apply sqrt_Rsqr_abs. Qed.

Lemma tail_one p n (share : nat -> R) (u : nat -> nat -> R) : C = 1%nat -> 0 < p < 1 ->
  (forall x, 0 <= share x) -> sum n share <= 1 -> (forall x, norm h (u x) <= 1) ->
  exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= p /\
            forall w, g w < 1 -> sum n (fun x => share x * norm C (apply h (V w) (u x))) <= s * factor p.
Proof.
intros C1 P PS S1 U.
assert (LP : 0 < ln (2 / p)).
{ rewrite <- ln_1; apply ln_increasing; [lra|].
  apply (Rmult_lt_reg_r p); [lra|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra. }
set (r := sqrt (2 * ln (2 / p))).
assert (PR : 0 < r) by (apply sqrt_lt_R0; lra).
assert (RR : r * r = 2 * ln (2 / p)) by (apply sqrt_sqrt; lra).
assert (EH : exp (r * r / 2) = 2 / p).
{ rewrite RR; replace (2 * ln (2 / p) / 2) with (ln (2 / p)) by field; apply exp_ln.
  apply Rdiv_lt_0_compat; lra. }
set (t := r / s).
assert (PT : 0 < t) by (apply Rdiv_lt_0_compat; lra).
assert (TS : t * t * (s * s) / 2 = r * r / 2) by (unfold t; field; lra).
destruct (chernoff T E ME n share (fun x w => t * norm C (apply h (V w) (u x))) (t * top)
  (2 * exp (r * r / 2)) p (r * r)) as (g & B & G & Q & H); try assumption.
- intros x w; apply Rmult_le_compat_l; [lra|apply length_at_most, U].
- assert (A := exp_above_line (r * r / 2)); nra.
- intros x.
  assert (BE : forall c, bounded (fun w => exp (c * apply h (V w) (u x) 0%nat))).
  { intros c; apply (bounded_between _ _ (exp (Rabs c * top))); intros w; split; [apply Rlt_le, exp_pos|].
    apply exp_monotone; eapply Rle_trans; [apply Rle_abs|]; rewrite Rabs_mult.
    apply Rmult_le_compat_l; [apply Rabs_pos|]. rewrite <- norm_one, <- C1 at 1. apply length_at_most, U. }
  apply Rle_trans with (E (fun w => exp (t * apply h (V w) (u x) 0%nat) + exp (- t * apply h (V w) (u x) 0%nat))).
  + apply (mean_le _ ME).
    * apply (bounded_between _ _ (exp (t * top))); intros w; split; [apply Rlt_le, exp_pos|].
      apply exp_monotone, Rmult_le_compat_l; [lra|apply length_at_most, U].
    * apply bounded_plus; apply BE.
    * intros w; rewrite C1, norm_one.
      assert (P1 := exp_pos (t * apply h (V w) (u x) 0%nat)); assert (P2 := exp_pos (- t * apply h (V w) (u x) 0%nat)).
      unfold Rabs; destruct (Rcase_abs _); [|lra].
      replace (t * - apply h (V w) (u x) 0%nat) with (- t * apply h (V w) (u x) 0%nat) by ring; lra.
  + eapply Rle_trans; [apply (mean_plus _ ME); apply BE|].
    assert (M1 := one_output _ _ _ _ _ moments (u x) 0%nat t ltac:(lia) (U x)).
    assert (M2 := one_output _ _ _ _ _ moments (u x) 0%nat (- t) ltac:(lia) (U x)).
    rewrite TS in M1; replace (- t * - t * (s * s) / 2) with (r * r / 2) in M2 by (rewrite <- TS; field); lra.
- replace (exp (r * r)) with (exp (r * r / 2) * exp (r * r / 2)) by (rewrite <- exp_plus; f_equal; field).
  rewrite EH at 2; apply Req_le; field; lra.
- exists g; repeat split; try assumption; intros w W; specialize (H w W).
  unfold factor; rewrite C1; simpl INR; rewrite Rminus_diag_eq, sqrt_0 by reflexivity; fold r.
  apply (Rmult_le_reg_l t); [assumption|]; rewrite <- sum_scale.
  replace (t * (s * (0 + r))) with (r * r) by (unfold t; field; lra).
  eapply Rle_trans; [|exact H]; apply Req_le, sum_ext; intros; rewrite C1; ring.
Qed.

Lemma tail_many p n (share : nat -> R) (u : nat -> nat -> R) : (2 <= C)%nat -> 0 < p < 1 ->
  (forall x, 0 <= share x) -> sum n share <= 1 -> (forall x, norm h (u x) <= 1) ->
  exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= p /\
            forall w, g w < 1 -> sum n (fun x => share x * norm C (apply h (V w) (u x))) <= s * factor p.
Proof.
intros C2 P PS S1 U.
assert (RC : 2 <= INR C) by (apply (le_INR 2) in C2; simpl in C2; lra).
assert (PY : 0 < - ln p).
{ assert (ln p < 0) by (rewrite <- ln_1; apply ln_increasing; lra); lra. }
set (y := - ln p) in *; set (a := sqrt y); set (b := sqrt (INR C)).
assert (PA : 0 < a) by (apply sqrt_lt_R0; assumption).
assert (PB : 0 < b) by (apply sqrt_lt_R0; lra).
assert (AA : a * a = y) by (apply sqrt_sqrt; lra).
assert (BB : b * b = INR C) by (apply sqrt_sqrt; lra).
set (k := a / (b + 2 * a)); set (t := k / (s * s)).
assert (PK : 0 < k) by (apply Rdiv_lt_0_compat; lra).
assert (SS : 0 < s * s) by nra.
assert (PT : 0 < t) by (apply Rdiv_lt_0_compat; lra).
assert (TS : t * (s * s) = k) by (unfold t; field; lra).
assert (K1 : 1 - 2 * k = b / (b + 2 * a)) by (unfold k; field; lra).
assert (KL : 0 < 1 - 2 * k) by (rewrite K1; apply Rdiv_lt_0_compat; lra).
set (level := INR C + 2 * (a * b) + 2 * y).
assert (LB := log_bound (2 * k) ltac:(lra)).
assert (Fit : - (INR C / 2 * ln (1 - 2 * k)) <= - y + k * level).
{ assert (X : INR C / 2 * (- ln (1 - 2 * k) - 2 * k) <= INR C / 2 * (2 * k * (2 * k) / (2 * (1 - 2 * k))))
    by (apply Rmult_le_compat_l; lra).
  replace (INR C / 2 * (2 * k * (2 * k) / (2 * (1 - 2 * k)))) with (k * (2 * (a * b) + 2 * y) - y) in X.
  - unfold level; lra.
  - rewrite K1, <- AA, <- BB; unfold k; field; lra. }
assert (EP : exp (- y) = p) by (unfold y; rewrite Ropp_involutive; apply exp_ln; lra).
destruct (chernoff T E ME n share (fun x w => t * sum C (fun o => apply h (V w) (u x) o * apply h (V w) (u x) o))
  (t * (top * top)) (exp (- (INR C / 2 * ln (1 - 2 * k)))) p (k * level)) as (g & B & G & Q & H); try assumption.
- intros x w; apply Rmult_le_compat_l; [lra|]; rewrite <- norm_square.
  apply Rmult_le_compat; try apply norm_pos; apply length_at_most, U.
- apply Rle_trans with (exp 0); [rewrite exp_0; lra|apply exp_monotone].
  assert (ln (1 - 2 * k) < 0) by (rewrite <- ln_1; apply ln_increasing; lra).
  assert (0 <= INR C / 2 * - ln (1 - 2 * k)) by (apply Rmult_le_pos; lra). lra.
- intros x; rewrite <- TS; apply (all_outputs _ _ _ _ _ moments C2); [apply U|lra|rewrite TS; lra].
- rewrite <- EP, <- exp_plus; apply exp_monotone; assumption.
- exists g; repeat split; try assumption; intros w W; specialize (H w W).
  set (N := fun x => norm C (apply h (V w) (u x))).
  assert (PN : forall x, 0 <= N x) by (intros; apply norm_pos).
  assert (S2 : sum n (fun x => share x * (N x * N x)) <= s * s * level).
  { apply (Rmult_le_reg_l t); [assumption|]; rewrite <- sum_scale.
    replace (t * (s * s * level)) with (k * level) by (rewrite <- TS; ring).
    eapply Rle_trans; [|exact H]; apply Req_le, sum_ext; intros x; unfold N; rewrite norm_square; ring. }
  assert (CS := cauchy n (fun x => sqrt (share x)) (fun x => sqrt (share x) * N x)).
  rewrite (sum_ext n _ (fun x => share x * N x)) in CS
    by (intros x; rewrite <- Rmult_assoc, sqrt_sqrt by apply PS; reflexivity).
  rewrite (sum_ext n (fun i => sqrt (share i) * sqrt (share i)) share) in CS by (intros x; apply sqrt_sqrt, PS).
  rewrite (sum_ext n (fun i => sqrt (share i) * N i * (sqrt (share i) * N i)) (fun x => share x * (N x * N x))) in CS
    by (intros x; transitivity (sqrt (share x) * sqrt (share x) * (N x * N x)); [ring|];
        rewrite sqrt_sqrt by apply PS; reflexivity).
  assert (PW : 0 <= sum n (fun x => share x * (N x * N x))).
  { apply sum_pos; intros x; apply Rmult_le_pos; [apply PS|]; specialize (PN x); nra. }
  set (L := ln (2 / p)).
  assert (LL : L = y + ln 2).
  { unfold L, y, Rdiv; rewrite ln_mult by (try lra; apply Rinv_0_lt_compat; lra); rewrite ln_Rinv by lra; ring. }
  assert (L2 := half_below_ln_2).
  assert (FS : level <= factor p * factor p).
  { unfold factor; fold L.
    assert (Q1 : sqrt (INR C - 1) * sqrt (INR C - 1) = INR C - 1) by (apply sqrt_sqrt; lra).
    assert (Q2 : sqrt (2 * L) * sqrt (2 * L) = 2 * L) by (apply sqrt_sqrt; lra).
    assert (Q3 : a * b <= sqrt (INR C - 1) * sqrt (2 * L)).
    { unfold a, b; rewrite <- !sqrt_mult by lra; apply sqrt_le_1_alt.
      apply Rle_trans with (y * (2 * (INR C - 1))); [apply Rmult_le_compat_l; lra|].
      replace ((INR C - 1) * (2 * L)) with (L * (2 * (INR C - 1))) by ring; apply Rmult_le_compat_r; lra. }
    unfold level; lra. }
  assert (PF : 0 <= factor p) by (apply Rplus_le_le_0_compat; apply sqrt_pos).
  apply squares; [apply Rmult_le_pos; lra|].
  apply Rle_trans with (s * s * level).
  2:{ replace (s * factor p * (s * factor p)) with (s * s * (factor p * factor p)) by ring.
      apply Rmult_le_compat_l; lra. }
  eapply Rle_trans; [exact CS|]; nra.
Qed.

Theorem tail_over_data p n (share : nat -> R) (u : nat -> nat -> R) : 0 < p < 1 ->
  (forall x, 0 <= share x) -> sum n share <= 1 -> (forall x, norm h (u x) <= 1) ->
  exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= p /\
            forall w, g w < 1 -> sum n (fun x => share x * norm C (apply h (V w) (u x))) <= s * factor p.
Proof.
destruct (le_lt_dec 2 C); [apply tail_many; assumption|apply tail_one; lia].
Qed.

(* The tail of the mean length of random vectors over data, with the weights `weight`; the vectors may have any number
   of entries. *)
Lemma tail_scaled p n (weight D : nat -> R) (q : nat -> nat -> R) k M : 0 < p < 1 -> 0 < k -> 0 < M ->
  (forall x, 0 <= weight x) -> (forall x, 0 <= D x) -> sum n (fun x => weight x * D x) <= M ->
  (forall x, norm h (q x) <= k * D x) ->
  exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= p /\
            forall w, g w < 1 -> sum n (fun x => weight x * norm C (apply h (V w) (q x))) <= k * M * (s * factor p).
Proof.
intros P PK PM PW PD SM Q.
assert (zero : forall x, D x = 0 -> norm h (q x) = 0).
{ intros x Z; specialize (Q x); rewrite Z in Q; assert (N := norm_pos h (q x)); lra. }
destruct (tail_over_data p n (fun x => weight x * D x / M) (fun x i => / (k * D x) * q x i)) as (g & B & G & L & H).
- assumption.
- intros x; apply Rmult_le_pos; [apply Rmult_le_pos; auto|apply Rlt_le, Rinv_0_lt_compat; assumption].
- rewrite (sum_ext n _ (fun x => / M * (weight x * D x))) by (intros; unfold Rdiv; ring); rewrite sum_scale.
  apply (Rmult_le_reg_l M); [assumption|]; rewrite <- Rmult_assoc, Rinv_r; lra.
- intros x; rewrite norm_scale; destruct (Req_dec (D x) 0) as [Z|Z].
  + rewrite (zero x Z); lra.
  + assert (PX : 0 < k * D x) by (apply Rmult_lt_0_compat; [|specialize (PD x)]; lra).
    rewrite Rabs_right by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; assumption).
    apply (Rmult_le_reg_l (k * D x)); [assumption|]; rewrite <- Rmult_assoc, Rinv_r by lra.
    specialize (Q x); lra.
- exists g; repeat split; try assumption; intros w W; specialize (H w W).
  apply Rle_trans with
      (k * M * sum n (fun x => weight x * D x / M * norm C (apply h (V w) (fun i => / (k * D x) * q x i)))).
  + rewrite <- sum_scale; apply Req_le, sum_ext; intros x.
    rewrite (norm_ext C (apply h (V w) (fun i => / (k * D x) * q x i)) (fun o => / (k * D x) * apply h (V w) (q x) o))
      by (intros; apply apply_scale).
    rewrite norm_scale; destruct (Req_dec (D x) 0) as [Z|Z].
    * rewrite Z. assert (A := apply_norm C h (V w) (q x) e e_pos (entries w)); rewrite (zero x Z), Rmult_0_r in A.
      assert (N := norm_pos C (apply h (V w) (q x))).
      replace (norm C (apply h (V w) (q x))) with 0 by lra; unfold Rdiv; ring.
    * assert (PX : 0 < k * D x) by (apply Rmult_lt_0_compat; [|specialize (PD x)]; lra).
      rewrite Rabs_right by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; assumption); field; split; [assumption|lra].
  + apply Rmult_le_compat_l; [|exact H]; apply Rlt_le, Rmult_lt_0_compat; assumption.
Qed.
End Tail.

Lemma union (T : Type) (E : (T -> R) -> R) N q (P : nat -> T -> Prop) : mean E -> 
  (forall k, (k < N)%nat -> exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= q /\ forall w, g w < 1 -> P k w) ->
  exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= INR N * q /\
            forall w, g w < 1 -> forall k, (k < N)%nat -> P k w.
Proof.
intros ME; induction N as [|N IH]; intros H.
- exists (fun _ => 0); repeat split; try (intros; lia); try (intros; lra); [apply bounded_const|].
  rewrite (mean_const _ ME); simpl; lra.
- destruct IH as (g & B & G & L & Q); [intros k K; apply H; lia|].
  destruct (H N ltac:(lia)) as (f & B1 & G1 & L1 & Q1).
  exists (fun w => g w + f w); split; [apply bounded_plus; assumption|]; split; [|split].
  + intros w; specialize (G w); specialize (G1 w); lra.
  + eapply Rle_trans; [apply (mean_plus _ ME); assumption|]; rewrite S_INR; lra.
  + intros w W k K; specialize (G w); specialize (G1 w).
    destruct (Nat.eq_dec k N) as [->|D]; [apply Q1; lra|apply Q; [lra|lia]].
Qed.

(* Two networks with one hidden layer of relu, and the points of the segment between them. *)
Definition relu (t : R) : R := Rmax 0 t.
Lemma relu_lipschitz a c : Rabs (relu a - relu c) <= Rabs (a - c).
Proof. unfold relu, Rmax, Rabs; repeat destruct (Rle_dec _ _); repeat destruct (Rcase_abs _); lra. Qed.
Definition dev (r a c : R) : R := r * (relu (r * a + (1 - r) * c) - relu a).
Lemma to_one_end r a c : 0 <= r <= 1 -> Rabs (relu (r * a + (1 - r) * c) - relu a) <= (1 - r) * Rabs (a - c).
Proof.
intros P; eapply Rle_trans; [apply relu_lipschitz|].
replace (r * a + (1 - r) * c - a) with (- (1 - r) * (a - c)) by ring; rewrite Rabs_mult.
rewrite Rabs_left1 by lra; lra.
Qed.
Lemma dev_at_most r a c : 0 <= r <= 1 -> Rabs (dev r a c) <= r * (1 - r) * Rabs (a - c).
Proof.
intros P; unfold dev; rewrite Rabs_mult, Rabs_right by lra; rewrite Rmult_assoc.
apply Rmult_le_compat_l; [lra|apply to_one_end; assumption].
Qed.
Lemma dev_lipschitz_below r t a c : 0 <= t <= r -> r <= 1 -> Rabs (dev r a c - dev t a c) <= (r - t) * Rabs (a - c).
Proof.
intros P Q; unfold dev.
replace (r * (relu (r * a + (1 - r) * c) - relu a) - t * (relu (t * a + (1 - t) * c) - relu a)) with
  ((r - t) * (relu (r * a + (1 - r) * c) - relu a) +
   t * (relu (r * a + (1 - r) * c) - relu (t * a + (1 - t) * c))) by ring.
eapply Rle_trans; [apply Rabs_triang|]; rewrite !Rabs_mult, (Rabs_right (r - t)), (Rabs_right t) by lra.
assert (A := to_one_end r a c ltac:(lra)).
assert (B := relu_lipschitz (r * a + (1 - r) * c) (t * a + (1 - t) * c)).
replace (r * a + (1 - r) * c - (t * a + (1 - t) * c)) with ((r - t) * (a - c)) in B by ring.
rewrite Rabs_mult, (Rabs_right (r - t)) in B by lra.
assert (D := Rabs_pos (a - c)).
apply Rle_trans with ((r - t) * ((1 - r) * Rabs (a - c)) + t * ((r - t) * Rabs (a - c))).
- apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
- replace ((r - t) * ((1 - r) * Rabs (a - c)) + t * ((r - t) * Rabs (a - c)))
    with ((r - t) * Rabs (a - c) * (1 - (r - t))) by ring.
  rewrite <- (Rmult_1_r ((r - t) * Rabs (a - c))) at 2; apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra].
Qed.
Lemma dev_lipschitz r t a c : 0 <= r <= 1 -> 0 <= t <= 1 -> Rabs (dev r a c - dev t a c) <= Rabs (r - t) * Rabs (a - c).
Proof.
intros P Q; destruct (Rle_dec t r).
- rewrite (Rabs_right (r - t)) by lra; apply dev_lipschitz_below; lra.
- rewrite Rabs_minus_sym, (Rabs_minus_sym r), (Rabs_right (t - r)) by lra; apply dev_lipschitz_below; lra.
Qed.
Definition bend (r a c : R) : R := relu (r * a + (1 - r) * c) - r * relu a - (1 - r) * relu c.
Lemma bend_at_most r a c : 0 <= r <= 1 -> Rabs (bend r a c) <= r * (1 - r) * Rabs (a - c).
Proof.
intros P; unfold bend; assert (Q : 0 <= r * (1 - r)) by (apply Rmult_le_pos; lra).
set (y := Rabs (a - c)).
assert (Y1 : 0 <= r * (1 - r) * (y - (a - c))).
{ apply Rmult_le_pos; [assumption|assert (Z := Rle_abs (a - c)); unfold y; lra]. }
assert (Y2 : 0 <= r * (1 - r) * (y - (c - a))).
{ apply Rmult_le_pos; [assumption|]; assert (Z := Rle_abs (c - a)); rewrite Rabs_minus_sym in Z; unfold y; lra. }
assert (Y0 : 0 <= r * (1 - r) * y) by (apply Rmult_le_pos; [assumption|apply Rabs_pos]).
assert (S : forall u v, 0 <= r * (1 - r) * y -> 0 <= u -> 0 <= v -> 0 <= r * u /\ 0 <= (1 - r) * v).
{ intros; split; apply Rmult_le_pos; lra. }
apply Rabs_le; unfold relu, Rmax.
destruct (Rle_dec 0 a) as [A|A]; destruct (Rle_dec 0 c) as [D|D]; destruct (Rle_dec 0 (r * a + (1 - r) * c)) as [F|F].
- lra.
- destruct (S a c); lra.
- destruct (S a (- c)); try lra.
  assert (0 <= (1 - r) * (r * a + (1 - r) * c)) by (apply Rmult_le_pos; lra); lra.
- destruct (S a (- c)); try lra.
  assert (0 <= r * - (r * a + (1 - r) * c)) by (apply Rmult_le_pos; lra); lra.
- destruct (S (- a) c); try lra.
  assert (0 <= r * (r * a + (1 - r) * c)) by (apply Rmult_le_pos; lra); lra.
- destruct (S (- a) c); try lra.
  assert (0 <= (1 - r) * - (r * a + (1 - r) * c)) by (apply Rmult_le_pos; lra); lra.
- destruct (S (- a) (- c)); lra.
- lra.
Qed.

Definition mixed (r : R) (A B : nat -> nat -> R) (o i : nat) : R := r * A o i + (1 - r) * B o i.
Definition output (h l : nat) (U V : nat -> nat -> R) (x : nat -> R) : nat -> R :=
  apply h V (fun i => relu (apply l U x i)).
Definition gap (h l : nat) r (U1 U2 V1 V2 : nat -> nat -> R) (x : nat -> R) (o : nat) : R :=
  output h l (mixed r U1 U2) (mixed r V1 V2) x o - r * output h l U1 V1 x o - (1 - r) * output h l U2 V2 x o.
Definition around (V0 W : nat -> nat -> R) (o i : nat) : R := V0 o i + W o i.

Lemma apply_mixed l r U1 U2 x i : apply l (mixed r U1 U2) x i = r * apply l U1 x i + (1 - r) * apply l U2 x i.
Proof. unfold apply, mixed; rewrite <- !sum_scale, <- sum_plus; apply sum_ext; intros; ring. Qed.
Lemma apply_ext h V q r o : (forall i, q i = r i) -> apply h V q o = apply h V r o.
Proof. intros H; apply sum_ext; intros i; rewrite H; reflexivity. Qed.
Lemma gap_parts h l r U1 U2 V0 W1 W2 x o : gap h l r U1 U2 (around V0 W1) (around V0 W2) x o =
  apply h W1 (fun i => dev r (apply l U1 x i) (apply l U2 x i)) o
  + apply h W2 (fun i => dev (1 - r) (apply l U2 x i) (apply l U1 x i)) o
  + apply h V0 (fun i => bend r (apply l U1 x i) (apply l U2 x i)) o.
Proof.
unfold gap, output; rewrite (apply_ext h (mixed r _ _) _
  (fun i => relu (r * apply l U1 x i + (1 - r) * apply l U2 x i)))
  by (intros; rewrite apply_mixed; reflexivity).
set (a := apply l U1 x); set (c := apply l U2 x); unfold Rminus at 1 2; unfold apply.
rewrite !Ropp_mult_distr_l, <- !sum_scale, <- !sum_plus; apply sum_ext; intros i.
unfold mixed, around, dev, bend. 
replace ((1 - r) * c i + (1 - (1 - r)) * a i) with (r * a i + (1 - r) * c i) by ring; ring.
Qed.

Lemma nearest N t : (1 <= N)%nat -> 0 <= t <= INR N -> exists k, (k < N)%nat /\ Rabs (t - (INR k + 1 / 2)) <= 1 / 2.
Proof.
induction N as [|N IH]; intros P T; [lia|].
destruct (Rle_dec t (INR N)) as [A|A].
- destruct N as [|N].
  + exists 0%nat; split; [lia|]; simpl in *; apply Rabs_le; lra.
  + destruct IH as (k & K & Q); [lia|lra|exists k; split; [lia|assumption]].
- exists N; split; [lia|]; rewrite S_INR in T; apply Rabs_le; lra.
Qed.

Section TwoNetworks.
Variables (T : Type) (E : (T -> R) -> R) (C h l n : nat) (d d0 s delta : R) (N : nat).
Variables (weight : nat -> R) (x : nat -> nat -> R) (U1 U2 V0 : nat -> nat -> R) (W1 W2 : T -> nat -> nat -> R).
Hypothesis ME : mean E.
Hypothesis sizes : (1 <= C)%nat /\ (1 <= h)%nat /\ (1 <= l)%nat.
Hypothesis d_pos : 0 < d.
Hypothesis s_pos : 0 < s.
Hypothesis delta_in : 0 < delta <= 1.
Hypothesis N_enough : (1 <= N)%nat /\ sqrt (INR C * INR h) <= INR N.
Hypothesis weights : (forall j, 0 <= weight j) /\ sum n weight = 1.
Hypothesis second_moment : forall v,
  sum n (fun j => weight j * (sum l (fun k => v k * x j k) * sum l (fun k => v k * x j k)))
  <= s * s * sum l (fun k => v k * v k).
Hypothesis hidden_near : forall i k, Rabs (U1 i k - U2 i k) <= d.
Hypothesis anchor_norm : forall q, norm C (apply h V0 q) <= d0 * norm h q.
Hypothesis entries1 : forall w o i, Rabs (W1 w o i) <= d / 2.
Hypothesis entries2 : forall w o i, Rabs (W2 w o i) <= d / 2.
Hypothesis moments1 : sub_gaussian E C h (d / sqrt 12) W1.
Hypothesis moments2 : sub_gaussian E C h (d / sqrt 12) W2.

Definition E1 : R := d * s * sqrt (INR h * INR l).
Definition bound : R :=
  E1 / 2 * (d0 / 2 + d * (1 + sqrt ((INR C - 1) / 12) + sqrt (1 / 6 * ln (4 * INR N / delta)))).
Definition mean_gap (w : T) (r : R) : R :=
  sum n (fun j => weight j * norm C (gap h l r U1 U2 (around V0 (W1 w)) (around V0 (W2 w)) (x j))).
Let a j := apply l U1 (x j).
Let c j := apply l U2 (x j).
Let D j := norm h (fun i => a j i - c j i).
Let part1 r j i := dev r (a j i) (c j i).
Let part2 r j i := dev (1 - r) (c j i) (a j i).

Lemma at_least_1 k : (1 <= k)%nat -> 1 <= INR k. Proof. intros H; apply (le_INR 1) in H; simpl in H; lra. Qed.
Lemma E1_pos : 0 < E1.
Proof.
destruct sizes as (_ & H & L); apply at_least_1 in H; apply at_least_1 in L.
apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; assumption|apply sqrt_lt_R0, Rmult_lt_0_compat; lra].
Qed.

Lemma mean_distance : sum n (fun j => weight j * D j) <= E1.
Proof.
destruct weights as [PW W]. assert (P := E1_pos).
assert (CS := cauchy n (fun j => sqrt (weight j)) (fun j => sqrt (weight j) * D j)).
rewrite (sum_ext n _ (fun j => weight j * D j)) in CS
  by (intros j; rewrite <- Rmult_assoc, sqrt_sqrt by apply PW; reflexivity).
rewrite (sum_ext n (fun i => sqrt (weight i) * sqrt (weight i)) weight) in CS by (intros j; apply sqrt_sqrt, PW).
rewrite W, Rmult_1_l in CS.
apply squares; [lra|]; eapply Rle_trans; [exact CS|]; clear CS.
rewrite (sum_ext n _ (fun j => sum h (fun i => weight j * ((a j i - c j i) * (a j i - c j i))))).
2:{ intros j; rewrite sum_scale, <- norm_square; fold (D j).
    transitivity (sqrt (weight j) * sqrt (weight j) * (D j * D j)); [ring|rewrite sqrt_sqrt by apply PW; reflexivity]. }
rewrite sum_swap.
apply Rle_trans with (sum h (fun i => s * s * (INR l * (d * d)))).
- apply sum_le; intros i.
  eapply Rle_trans; [|eapply Rle_trans; [apply (second_moment (fun k => U1 i k - U2 i k))|]].
  + apply Req_le, sum_ext; intros j; f_equal.
    assert (Q : a j i - c j i = sum l (fun k => (U1 i k - U2 i k) * x j k)).
    { unfold a, c, apply.
      transitivity (sum l (fun k => U1 i k * x j k) + -1 * sum l (fun k => U2 i k * x j k)); [ring|].
      rewrite <- sum_scale, <- sum_plus; apply sum_ext; intros; ring. }
    rewrite Q; reflexivity.
  + apply Rmult_le_compat_l; [nra|]; rewrite <- sum_const; apply sum_le; intros k.
    rewrite <- abs_square; assert (Z := hidden_near i k); assert (Y := Rabs_pos (U1 i k - U2 i k)); nra.
- rewrite sum_const; unfold E1.
  replace (d * s * sqrt (INR h * INR l) * (d * s * sqrt (INR h * INR l)))
    with (d * d * (s * s) * (sqrt (INR h * INR l) * sqrt (INR h * INR l))) by ring.
  rewrite sqrt_sqrt by (apply Rmult_le_pos; apply pos_INR); apply Req_le; ring.
Qed.

Let field_norm w r j := norm C (fun o => apply h (W1 w) (part1 r j) o + apply h (W2 w) (part2 r j) o).

Lemma anchor_term w r : 0 <= r <= 1 ->
  mean_gap w r <= sum n (fun j => weight j * field_norm w r j) + E1 / 4 * d0.
Proof.
intros P; destruct weights as [PW _].
assert (R4 : r * (1 - r) <= 1 / 4) by (assert (Z := Rle_0_sqr (r - 1 / 2)); unfold Rsqr in Z; lra).
assert (R0 : 0 <= r * (1 - r)) by (apply Rmult_le_pos; lra).
assert (step : forall j, norm h (fun i => bend r (a j i) (c j i)) <= 1 / 4 * D j).
{ intros j; apply Rle_trans with (norm h (fun i => 1 / 4 * (a j i - c j i))).
  - apply norm_monotone; intros i; eapply Rle_trans; [apply bend_at_most; assumption|].
    rewrite Rabs_mult, (Rabs_right (1 / 4)) by lra; apply Rmult_le_compat_r; [apply Rabs_pos|assumption].
  - rewrite norm_scale, Rabs_right by lra; apply Rle_refl. }
assert (d0_pos : 0 <= d0).
{ assert (Z := anchor_norm (fun _ => 1)); assert (Y := norm_pos C (apply h V0 (fun _ => 1))).
  assert (X : 0 < norm h (fun _ => 1)).
  { unfold norm; rewrite sum_const; apply sqrt_lt_R0; destruct sizes as (_ & H & _); apply at_least_1 in H; lra. }
  apply Rnot_lt_le; intros neg; nra. }
apply Rle_trans with (sum n (fun j => weight j * field_norm w r j + d0 / 4 * (weight j * D j))).
- apply sum_le; intros j; unfold mean_gap.
  replace (weight j * field_norm w r j + d0 / 4 * (weight j * D j))
    with (weight j * (field_norm w r j + d0 * (1 / 4 * D j)))
    by field.
  apply Rmult_le_compat_l; [apply PW|].
  rewrite (norm_ext C _ _ (gap_parts h l r U1 U2 V0 (W1 w) (W2 w) (x j))).
  eapply Rle_trans; [apply triangle|]; apply Rplus_le_compat; [apply Rle_refl|].
  eapply Rle_trans; [apply anchor_norm|]; apply Rmult_le_compat_l; [assumption|apply step].
- rewrite sum_plus, sum_scale; assert (M := mean_distance); apply Rplus_le_compat_l.
  replace (E1 / 4 * d0) with (d0 / 4 * E1) by field; apply Rmult_le_compat_l; lra.
Qed.

Let top := d / 2 * sqrt (INR C * INR h).
Lemma between w r t : 0 <= r <= 1 -> 0 <= t <= 1 ->
  sum n (fun j => weight j * field_norm w r j) 
    <= sum n (fun j => weight j * field_norm w t j) + 2 * top * E1 * Rabs (r - t).
Proof.
intros P Q; destruct weights as [PW _].
assert (PT : 0 <= top) by (apply Rmult_le_pos; [lra|apply sqrt_pos]).
assert (PA := Rabs_pos (r - t)).
assert (near : forall W q1 q2 j, (forall o i, Rabs (W o i) <= d / 2) ->
  (forall i, Rabs (q1 i - q2 i) <= Rabs (r - t) * Rabs (a j i - c j i)) ->
  norm C (apply h W (fun i => q1 i - q2 i)) <= top * (Rabs (r - t) * D j)).
{ intros W q1 q2 j HW HQ; eapply Rle_trans; [apply apply_norm with (e := d / 2); [lra|assumption]|]; fold top.
  apply Rmult_le_compat_l; [assumption|].
  apply Rle_trans with (norm h (fun i => (r - t) * (a j i - c j i))); [|rewrite norm_scale; apply Rle_refl].
  apply norm_monotone; intros i; rewrite Rabs_mult; apply HQ. }
apply Rle_trans with (sum n (fun j => weight j * field_norm w t j + 2 * top * Rabs (r - t) * (weight j * D j))).
- apply sum_le; intros j.
  replace (weight j * field_norm w t j + 2 * top * Rabs (r - t) * (weight j * D j))
    with (weight j * (field_norm w t j + (top * (Rabs (r - t) * D j) + top * (Rabs (r - t) * D j)))) by ring.
  apply Rmult_le_compat_l; [apply PW|].
  apply Rle_trans with (norm C (fun o => (apply h (W1 w) (part1 t j) o + apply h (W2 w) (part2 t j) o)
    + (apply h (W1 w) (fun i => part1 r j i - part1 t j i) o + apply h (W2 w) (fun i => part2 r j i - part2 t j i) o))).
  + apply Req_le, norm_ext; intros o.
    assert (S : forall W q1 q2, apply h W q1 o = apply h W q2 o + apply h W (fun i => q1 i - q2 i) o).
    { intros; rewrite <- apply_plus; apply apply_ext; intros; ring. }
    rewrite (S (W1 w) (part1 r j) (part1 t j)), (S (W2 w) (part2 r j) (part2 t j)); ring.
  + eapply Rle_trans; [apply triangle|]; apply Rplus_le_compat_l.
    eapply Rle_trans; [apply triangle|]; apply Rplus_le_compat; apply near; auto.
    * intros i; apply dev_lipschitz; assumption.
    * intros i; unfold part2; rewrite (Rabs_minus_sym (a j i)), <- (Rabs_Ropp (r - t)).
      replace (- (r - t)) with (1 - r - (1 - t)) by ring; apply dev_lipschitz; lra.
- rewrite sum_plus, sum_scale; apply Rplus_le_compat_l.
  replace (2 * top * E1 * Rabs (r - t)) with (2 * top * Rabs (r - t) * E1) by ring.
  apply Rmult_le_compat_l; [|apply mean_distance]; apply Rmult_le_pos; [lra|assumption].
Qed.

Let midpoint k := (INR k + 1 / 2) / INR N.
Let p := delta / (2 * INR N).
Let half := d / sqrt 12 * factor C p.
Lemma N_pos : 1 <= INR N. Proof. apply at_least_1, N_enough. Qed.
Lemma midpoint_in k : (k < N)%nat -> 0 < midpoint k < 1.
Proof.
intros K; assert (NP := N_pos); assert (KP := pos_INR k); apply le_INR in K; rewrite S_INR in K.
unfold midpoint; split; [apply Rdiv_lt_0_compat; lra|].
apply (Rmult_lt_reg_r (INR N)); [lra|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra.
Qed.

Lemma at_midpoint k : (k < N)%nat -> exists g, bounded g /\ (forall w, 0 <= g w) /\ E g <= 2 * p /\
  forall w, g w < 1 -> sum n (fun j => weight j * field_norm w (midpoint k) j) <= E1 / 2 * half.
Proof.
intros K; assert (M := midpoint_in k K); set (r := midpoint k) in *; assert (NP := N_pos); assert (PE := E1_pos).
destruct weights as [PW _].
assert (PP : 0 < p < 1).
{ unfold p; split; [apply Rdiv_lt_0_compat; lra|].
  apply (Rmult_lt_reg_r (2 * INR N)); [lra|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra. }
assert (S12 : 0 < sqrt 12) by (apply sqrt_lt_R0; lra).
assert (PS : 0 < d / sqrt 12) by (apply Rdiv_lt_0_compat; lra).
assert (PK : 0 < r * (1 - r)) by (apply Rmult_lt_0_compat; lra).
assert (R4 : r * (1 - r) <= 1 / 4) by (assert (Z := Rle_0_sqr (r - 1 / 2)); unfold Rsqr in Z; lra).
assert (PD : forall j, 0 <= D j) by (intros; apply norm_pos).
assert (C1 := proj1 sizes).
assert (Q1 : forall j, norm h (part1 r j) <= r * (1 - r) * D j).
{ intros j; unfold D; apply Rle_trans with (norm h (fun i => r * (1 - r) * (a j i - c j i))).
  - apply norm_monotone; intros i; rewrite Rabs_mult, (Rabs_right (r * (1 - r))) by lra; apply dev_at_most; lra.
  - rewrite norm_scale, Rabs_right by lra; apply Rle_refl. }
assert (Q2 : forall j, norm h (part2 r j) <= r * (1 - r) * D j).
{ intros j; unfold D; apply Rle_trans with (norm h (fun i => r * (1 - r) * (a j i - c j i))).
  - apply norm_monotone; intros i; rewrite Rabs_mult, (Rabs_right (r * (1 - r))), Rabs_minus_sym by lra.
    replace (r * (1 - r)) with ((1 - r) * (1 - (1 - r))) by ring; unfold part2.
    apply dev_at_most; lra.
  - rewrite norm_scale, Rabs_right by lra; apply Rle_refl. }
destruct (tail_scaled T E C h (d / sqrt 12) (d / 2) W1 ME C1 PS ltac:(lra) entries1 moments1 p n weight D (part1 r)
  (r * (1 - r)) E1 PP PK PE PW PD mean_distance Q1) as (g1 & B1 & G1 & L1 & H1).
destruct (tail_scaled T E C h (d / sqrt 12) (d / 2) W2 ME C1 PS ltac:(lra) entries2 moments2 p n weight D (part2 r)
  (r * (1 - r)) E1 PP PK PE PW PD mean_distance Q2) as (g2 & B2 & G2 & L2 & H2).
fold half in H1, H2.
assert (PF : 0 <= half) by (apply Rmult_le_pos; [lra|apply Rplus_le_le_0_compat; apply sqrt_pos]).
exists (fun w => g1 w + g2 w); split; [apply bounded_plus; assumption|]; split; [|split].
- intros w; specialize (G1 w); specialize (G2 w); lra.
- eapply Rle_trans; [apply (mean_plus _ ME); assumption|]; lra.
- intros w W; specialize (G1 w); specialize (G2 w); specialize (H1 w ltac:(lra)); specialize (H2 w ltac:(lra)).
  assert (Z : r * (1 - r) * E1 * half <= 1 / 4 * E1 * half).
  { apply Rmult_le_compat_r; [assumption|apply Rmult_le_compat_r; lra]. }
  eapply Rle_trans; [|apply Rle_trans with (1 / 4 * E1 * half + 1 / 4 * E1 * half); [|lra]].
  2: apply Rplus_le_compat; [eapply Rle_trans; [exact H1|exact Z]|eapply Rle_trans; [exact H2|exact Z]].
  rewrite <- sum_plus; apply sum_le; intros j; rewrite <- Rmult_plus_distr_l.
  apply Rmult_le_compat_l; [apply PW|apply triangle].
Qed.

Lemma half_is : half = d * (sqrt ((INR C - 1) / 12) + sqrt (1 / 6 * ln (4 * INR N / delta))).
Proof.
assert (NP := N_pos). assert (S12 : 0 < sqrt 12) by (apply sqrt_lt_R0; lra).
unfold half, factor, p.
replace (2 / (delta / (2 * INR N))) with (4 * INR N / delta) by (field; lra).
replace (1 / 6 * ln (4 * INR N / delta)) with (2 * ln (4 * INR N / delta) / 12) by field.
rewrite !sqrt_div_alt by lra; field; lra.
Qed.

(* The bound for fixed hidden layers; the probability is over the draw of both readouts. *)
Lemma readouts_drawn (bad : T -> R) : (forall w, 0 <= bad w <= 1) ->
  (forall w, (forall r, 0 <= r <= 1 -> mean_gap w r <= bound) -> bad w = 0) -> E bad <= delta.
Proof.
intros B01 B0; assert (NP := N_pos); assert (PE := E1_pos).
destruct (union T E N (2 * p) (fun k w => sum n (fun j => weight j * field_norm w (midpoint k) j) <= E1 / 2 * half) ME)
  as (g & B & G & L & H); [intros; apply at_midpoint; assumption|].
apply Rle_trans with (E g).
2:{ eapply Rle_trans; [exact L|]; unfold p; apply Req_le; field; lra. }
apply (mean_le _ ME); [apply (bounded_between _ _ 1); assumption|assumption|].
intros w; destruct (Rlt_le_dec (g w) 1) as [W|W]; [|specialize (B01 w); lra].
rewrite B0; [apply G|]; intros r P.
destruct (nearest N (r * INR N)) as (k & K & Q); [apply N_enough|split; [apply Rmult_le_pos; lra|]|].
{ rewrite <- (Rmult_1_l (INR N)) at 2; apply Rmult_le_compat_r; lra. }
assert (M := midpoint_in k K); specialize (H w W k K).
assert (A := anchor_term w r P); assert (S := between w r (midpoint k) P ltac:(lra)).
assert (Near : Rabs (r - midpoint k) * INR N <= 1 / 2).
{ rewrite <- (Rabs_right (INR N)) at 1 by lra; rewrite <- Rabs_mult.
  replace ((r - midpoint k) * INR N) with (r * INR N - (INR k + 1 / 2)) by (unfold midpoint; field; lra); assumption. }
assert (Gap : 2 * top * E1 * Rabs (r - midpoint k) <= d / 2 * E1).
{ unfold top; replace (2 * (d / 2 * sqrt (INR C * INR h)) * E1 * Rabs (r - midpoint k))
    with (d * E1 * (sqrt (INR C * INR h) * Rabs (r - midpoint k))) by field.
  replace (d / 2 * E1) with (d * E1 * (1 / 2)) by field.
  apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|].
  eapply Rle_trans; [|exact Near]; rewrite Rmult_comm; apply Rmult_le_compat_l; [apply Rabs_pos|apply N_enough]. }
assert (HI := half_is); unfold bound.
replace (d * (1 + sqrt ((INR C - 1) / 12) + sqrt (1 / 6 * ln (4 * INR N / delta))))
  with (d + half) by (rewrite HI; ring).
lra.
Qed.
End TwoNetworks.

(* R1, in which the hidden layers are drawn too, before the readouts. `first` is the mean over the draw of the hidden
   layers, `second` the mean over the draw of the readouts. *)
Theorem two_networks (S T : Type) (first : (S -> R) -> R) (second : (T -> R) -> R)
  (C h l n N : nat) (d d0 s delta : R)
  (weight : nat -> R) (x : nat -> nat -> R) (V0 : nat -> nat -> R)
  (U1 U2 : S -> nat -> nat -> R) (W1 W2 : T -> nat -> nat -> R)
  (bad : S -> T -> R) :
  mean first -> mean second ->
  (1 <= C)%nat /\ (1 <= h)%nat /\ (1 <= l)%nat -> 0 < d -> 0 < s -> 0 < delta <= 1 ->
  (1 <= N)%nat /\ sqrt (INR C * INR h) <= INR N ->
  (forall j, 0 <= weight j) /\ sum n weight = 1 ->
  (forall v, sum n (fun j => weight j * (sum l (fun k => v k * x j k) * sum l (fun k => v k * x j k)))
             <= s * s * sum l (fun k => v k * v k)) ->
  (forall u i k, Rabs (U1 u i k - U2 u i k) <= d) ->
  (forall q, norm C (apply h V0 q) <= d0 * norm h q) ->
  (forall w o i, Rabs (W1 w o i) <= d / 2) -> (forall w o i, Rabs (W2 w o i) <= d / 2) ->
  sub_gaussian second C h (d / sqrt 12) W1 -> sub_gaussian second C h (d / sqrt 12) W2 ->
  (forall u w, 0 <= bad u w <= 1) ->
  (forall u w, (forall r, 0 <= r <= 1 ->
    sum n (fun j => weight j * norm C (gap h l r (U1 u) (U2 u) (around V0 (W1 w)) (around V0 (W2 w)) (x j)))
      <= d * s * sqrt (INR h * INR l) / 2
         * (d0 / 2 + d * (1 + sqrt ((INR C - 1) / 12) + sqrt (1 / 6 * ln (4 * INR N / delta))))) -> bad u w = 0) ->
  first (fun u => second (fun w => bad u w)) <= delta.
Proof.
intros MF MS sizes PD PS PDelta NN PW SM HN AN B1 B2 M1 M2 B01 B0.
assert (given : forall u, second (fun w => bad u w) <= delta).
{ intros u; eapply (readouts_drawn T second C h l n d d0 s delta N weight x (U1 u) (U2 u) V0 W1 W2); eauto. }
assert (least : forall u, 0 <= second (fun w => bad u w)).
{ intros u; rewrite <- (mean_const _ MS 0); apply (mean_le _ MS); [apply bounded_const| |intros; apply B01].
  apply (bounded_between _ _ 1), B01. }
rewrite <- (mean_const _ MF delta); apply (mean_le _ MF); [|apply bounded_const|assumption].
apply (bounded_between _ _ delta); auto.
Qed.

Print Assumptions tail_over_data.
Print Assumptions two_networks.
