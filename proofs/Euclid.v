(* The Euclidean geometry of weight matrices over an ordered field, without square roots: Cauchy-Schwarz, the
   parallelogram law, and a bound for a convex mean of points: its squared distance from a point T is at most the mean,
   with the same weights, of the squared distances of the points from T.

   No statement of the project is proved in this file. All files of proofs/ about networks use this file. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Sums.
Variables (R : realFieldType) (I : finType).
Implicit Types u v : I -> R.

Lemma sum_sqr_ge0 u : 0 <= \sum_p u p * u p.
Proof. by apply: sumr_ge0 => p _; rewrite -expr2 sqr_ge0. Qed.

Lemma sum_sqr_eq0 u : \sum_p u p * u p = 0 -> forall p, u p = 0.
Proof.
move=> zero p; apply/eqP; rewrite -sqrf_eq0 expr2; apply/eqP.
by apply: (psumr_eq0P (P := xpredT) (F := fun p => u p * u p)) => // q _; rewrite -expr2 sqr_ge0.
Qed.

Lemma cauchy u v : (\sum_p u p * v p) ^+ 2 <= (\sum_p u p * u p) * (\sum_p v p * v p).
Proof.
have [/eqP v0|vn0] := boolP (\sum_p v p * v p == 0).
  by rewrite v0 mulr0 big1 ?expr0n // => p _; rewrite (sum_sqr_eq0 v0) mulr0.
have vv0 : 0 < \sum_p v p * v p by rewrite lt_def vn0 sum_sqr_ge0.
set uv := \sum_p u p * v p; set uu := \sum_p u p * u p; set vv := \sum_p v p * v p.
have square s t : \sum_p (s * u p - t * v p) * (s * u p - t * v p) = s ^+ 2 * uu - (s * t) *+ 2 * uv + t ^+ 2 * vv.
  by rewrite !mulr_sumr -sumrB -big_split; apply: eq_bigr => p _ /=; ring.
have := sum_sqr_ge0 (fun p => vv * u p - uv * v p); rewrite square.
have -> : vv ^+ 2 * uu - (vv * uv) *+ 2 * uv + uv ^+ 2 * vv = vv * (uu * vv - uv ^+ 2) by ring.
by rewrite pmulr_rge0 // subr_ge0.
Qed.

End Sums.

Section Weights.
Variables (R : realFieldType) (m d : nat).
Local Notation weights := 'M[R]_(m, d).
Implicit Types U V T : weights.

Definition dot U V : R := \sum_(p : 'I_m * 'I_d) U p.1 p.2 * V p.1 p.2.
Definition norm2 U := dot U U.

Lemma dotC U V : dot U V = dot V U.
Proof. by apply: eq_bigr => p _; rewrite mulrC. Qed.
Lemma dotDl U V T : dot (U + V) T = dot U T + dot V T.
Proof. by rewrite -big_split; apply: eq_bigr => p _; rewrite !mxE mulrDl. Qed.
Lemma dotZl c U T : dot (c *: U) T = c * dot U T.
Proof. by rewrite mulr_sumr; apply: eq_bigr => p _; rewrite !mxE mulrA. Qed.
Lemma dotNl U T : dot (- U) T = - dot U T.
Proof. by rewrite -scaleN1r dotZl mulN1r. Qed.
Lemma dot0l T : dot 0 T = 0.
Proof. by rewrite /dot big1 // => p _; rewrite mxE mul0r. Qed.
Lemma dot_suml (J : Type) (s : seq J) (P : pred J) (F : J -> weights) T :
  dot (\sum_(k <- s | P k) F k) T = \sum_(k <- s | P k) dot (F k) T.
Proof. by apply: (big_morph (fun U => dot U T)) => [U V|]; rewrite ?dotDl ?dot0l. Qed.
Lemma dotDr T U V : dot T (U + V) = dot T U + dot T V.
Proof. by rewrite dotC dotDl !(dotC _ T). Qed.
Lemma dotNr T U : dot T (- U) = - dot T U.
Proof. by rewrite dotC dotNl dotC. Qed.
Lemma dotBr T U V : dot T (U - V) = dot T U - dot T V.
Proof. by rewrite dotDr dotNr. Qed.
Lemma dotZr c T U : dot T (c *: U) = c * dot T U.
Proof. by rewrite dotC dotZl dotC. Qed.
Lemma dot_sumr (J : Type) (s : seq J) (P : pred J) (F : J -> weights) T :
  dot T (\sum_(k <- s | P k) F k) = \sum_(k <- s | P k) dot T (F k).
Proof. by rewrite dotC dot_suml; apply: eq_bigr => k _; rewrite dotC. Qed.

Lemma norm2_ge0 U : 0 <= norm2 U. Proof. exact: sum_sqr_ge0. Qed.
Lemma norm2_eq0 U : norm2 U = 0 -> U = 0.
Proof. by move=> zero; apply/matrixP => i j; rewrite mxE (sum_sqr_eq0 zero (i, j)). Qed.
Lemma norm2D U V : norm2 (U + V) = norm2 U + dot U V *+ 2 + norm2 V.
Proof. by rewrite /norm2 !dotDl !dotDr (dotC V U) mulr2n; ring. Qed.
Lemma norm2N U : norm2 (- U) = norm2 U.
Proof. by rewrite /norm2 dotNl dotNr opprK. Qed.
Lemma norm2Z c U : norm2 (c *: U) = c ^+ 2 * norm2 U.
Proof. by rewrite /norm2 dotZl dotZr mulrA expr2. Qed.
Lemma norm2B U V : norm2 (U - V) = norm2 U - dot U V *+ 2 + norm2 V.
Proof. by rewrite norm2D norm2N dotNr mulNrn. Qed.

Lemma cauchy_dot U V : dot U V ^+ 2 <= norm2 U * norm2 V.
Proof. exact: cauchy. Qed.

Lemma norm2D_le U V : norm2 (U + V) <= (norm2 U + norm2 V) *+ 2.
Proof.
rewrite -subr_ge0; suff -> : (norm2 U + norm2 V) *+ 2 - norm2 (U + V) = norm2 (U - V) by exact: norm2_ge0.
by rewrite norm2D norm2B !mulr2n; ring.
Qed.

Definition is_mean k (p : 'I_k -> R) := (forall a, 0 <= p a) /\ \sum_a p a = 1.

(* Jensen: the squared distance of a mean of points from T is at most the mean of the squared distances of the points
   from T. *)
Lemma mean_closer k (p : 'I_k -> R) (Us : 'I_k -> weights) T : is_mean p ->
  norm2 (\sum_a p a *: Us a - T) <= \sum_a p a * norm2 (Us a - T).
Proof.
case=> p0 p1; set M := \sum_a p a *: Us a - T.
have M_is : M = \sum_a p a *: (Us a - T).
  by under [RHS]eq_bigr do rewrite scalerBr; rewrite sumrB -scaler_suml p1 scale1r.
rewrite -subr_ge0.
suff -> : \sum_a p a * norm2 (Us a - T) - norm2 M = \sum_a p a * norm2 (Us a - T - M).
  by apply: sumr_ge0 => a _; rewrite mulr_ge0 ?norm2_ge0.
have expand a : p a * norm2 (Us a - T - M)
    = p a * norm2 (Us a - T) - dot (p a *: (Us a - T)) M *+ 2 + p a * norm2 M.
  by rewrite (norm2B (Us a - T) M) dotZl !mulr2n; ring.
under [RHS]eq_bigr do rewrite expand.
rewrite big_split sumrB /= -mulr_suml p1 mul1r sumrMnl -dot_suml -M_is -/(norm2 M) mulr2n; ring.
Qed.

End Weights.
