(* The statement R1 of docs/proofs/connectivity.md as it stands there: every entry of two networks is drawn from a
   uniform law. *)
From Coq Require Import Reals Lra Lia.
Require Import Connectivity SquaredMoments UniformLaw IndependentEntries.
Local Open Scope R_scope.

(* A bound of how much a loss rises, if for each datum the loss is convex and Lipschitz on a set that has the outputs. *)
Section Barrier.
Variables (C h l n : nat) (L : R) (weight : nat -> R) (x : nat -> nat -> R).
Variables (loss : nat -> (nat -> R) -> R) (inside : nat -> (nat -> R) -> Prop).
Definition mix (r : R) (a b : nat -> R) (o : nat) : R := r * a o + (1 - r) * b o.
Definition fair_loss : Prop :=
  (forall j a b r, 0 <= r <= 1 -> inside j a -> inside j b ->
    inside j (mix r a b) /\ loss j (mix r a b) <= r * loss j a + (1 - r) * loss j b)
  /\ (forall j a b, inside j a -> inside j b -> loss j a - loss j b <= L * norm C (fun o => a o - b o)).
Definition outputs_inside (U1 U2 V1 V2 : nat -> nat -> R) : Prop :=
  forall j, inside j (output h l U1 V1 (x j)) /\ inside j (output h l U2 V2 (x j))
            /\ forall r, 0 <= r <= 1 -> inside j (output h l (mixed r U1 U2) (mixed r V1 V2) (x j)).
Definition barrier_at (r : R) (U1 U2 V1 V2 : nat -> nat -> R) : R :=
  sum n (fun j => weight j * (loss j (output h l (mixed r U1 U2) (mixed r V1 V2) (x j))
    - r * loss j (output h l U1 V1 (x j)) - (1 - r) * loss j (output h l U2 V2 (x j)))).
Definition gap_at (r : R) (U1 U2 V1 V2 : nat -> nat -> R) : R :=
  sum n (fun j => weight j * norm C (gap h l r U1 U2 V1 V2 (x j))).

Lemma barrier_by_gap r U1 U2 V1 V2 : (forall j, 0 <= weight j) -> fair_loss -> outputs_inside U1 U2 V1 V2 ->
  0 <= r <= 1 -> barrier_at r U1 U2 V1 V2 <= L * gap_at r U1 U2 V1 V2.
Proof.
intros PW [convex lipschitz] IN P; unfold barrier_at, gap_at; rewrite <- sum_scale; apply sum_le; intros j.
destruct (IN j) as (I1 & I2 & IR); specialize (IR r P).
set (f := output h l (mixed r U1 U2) (mixed r V1 V2) (x j)) in *.
set (f1 := output h l U1 V1 (x j)) in *; set (f2 := output h l U2 V2 (x j)) in *.
destruct (convex j f1 f2 r P I1 I2) as [IM CM]; assert (LM := lipschitz j f (mix r f1 f2) IR IM).
rewrite (norm_ext C _ (gap h l r U1 U2 V1 V2 (x j))) in LM
  by (intros o; unfold mix, gap, f, f1, f2; ring).
replace (L * (weight j * norm C (gap h l r U1 U2 V1 V2 (x j))))
  with (weight j * (L * norm C (gap h l r U1 U2 V1 V2 (x j)))) by ring.
apply Rmult_le_compat_l; [apply PW|lra].
Qed.
End Barrier.

(* The 2 h l entries of the hidden layers are drawn first, then the 2 C h entries of the readouts. The arguments `seed`
   and `seed'` have no influence, since none of their entries is used. The function `loss` has the Lipschitz constant L
   on the set `inside` of outputs. *)
Theorem uniform_networks (A : Type) (e : (A -> R) -> R) (value : A -> R)
  (C h l n N : nat) (d d0 s L delta : R) (weight : nat -> R) (x U0 V0 : nat -> nat -> R)
  (loss : nat -> (nat -> R) -> R) (inside : nat -> (nat -> R) -> Prop)
  (seed seed' : nat -> A) (bad : (nat -> A) -> (nat -> A) -> R) :
  let U1 u := around U0 (matrix A value l 0 u) in
  let U2 u := around U0 (matrix A value l (h * l) u) in
  let V1 w := around V0 (matrix A value h 0 w) in
  let V2 w := around V0 (matrix A value h (C * h) w) in
  let most := d * s * sqrt (INR h * INR l) / 2
    * (d0 / 2 + d * (1 + sqrt ((INR C - 1) / 12) + sqrt (1 / 6 * ln (4 * INR N / delta)))) in
  mean e -> uniform e d value ->
  (1 <= C)%nat /\ (1 <= h)%nat /\ (1 <= l)%nat -> 0 < d -> 0 < s -> 0 <= L -> 0 < delta <= 1 ->
  (1 <= N)%nat /\ sqrt (INR C * INR h) <= INR N ->
  (forall j, 0 <= weight j) /\ sum n weight = 1 ->
  (forall v, sum n (fun j => weight j * (sum l (fun k => v k * x j k) * sum l (fun k => v k * x j k)))
             <= s * s * sum l (fun k => v k * v k)) ->
  (forall q, norm C (apply h V0 q) <= d0 * norm h q) ->
  fair_loss C L loss inside ->
  (forall u w, 0 <= bad u w <= 1) ->
  (forall u w, (forall r, 0 <= r <= 1 ->
     gap_at C h l n weight x r (U1 u) (U2 u) (V1 w) (V2 w) <= most
     /\ (outputs_inside h l x inside (U1 u) (U2 u) (V1 w) (V2 w) ->
         barrier_at h l n weight x loss r (U1 u) (U2 u) (V1 w) (V2 w) <= L * most)) -> bad u w = 0) ->
  drawn A e (h * l + h * l) seed (fun u => drawn A e (C * h + C * h) seed' (fun w => bad u w)) <= delta.
Proof.
intros U1 U2 V1 V2 most Me law sizes PD PS PL PDelta NN PW SM AN fair B01 B0.
assert (moment : forall t, e (fun v => exp (t * value v)) <= exp (t * t * (d / sqrt 12 * (d / sqrt 12)) / 2)).
{ intros t; apply uniform_moment; assumption. }
assert (near : forall v, Rabs (value v) <= d / 2) by apply law.
destruct (independent_entries A e value (d / 2) (d / sqrt 12) Me near moment C h seed') as (M & M1 & M2).
apply (two_networks _ _ _ _ C h l n N d d0 s delta weight x V0 U1 U2 (matrix A value h 0)
  (matrix A value h (C * h)) bad); try assumption; try (intros; apply near); [apply drawn_mean, Me| |].
- intros u i k; unfold U1, U2, around, matrix; set (a := value _); set (b := value _).
  replace (U0 i k + a - (U0 i k + b)) with (a + - b) by ring.
  eapply Rle_trans; [apply Rabs_triang|]; rewrite Rabs_Ropp.
  assert (Rabs a <= d / 2) by apply near; assert (Rabs b <= d / 2) by apply near; lra.
- intros u w H; apply B0; intros r P; assert (G : gap_at C h l n weight x r (U1 u) (U2 u) (V1 w) (V2 w) <= most)
    by apply (H r P).
  split; [exact G|]; intros IN.
  eapply Rle_trans; [apply (barrier_by_gap C) with (inside := inside); [apply PW|exact fair|exact IN|exact P]|].
  apply Rmult_le_compat_l; assumption.
Qed.

Print Assumptions uniform_networks.
