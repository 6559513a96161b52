(* Products of vectors with the machine's 63-bit integers, for the program of Checker.v. The products are exact, since
   numbers that might not fit are split, and numbers that do not fit even then are multiplied as in Checker.v.

   The statement fl-ntk/any-order rests on this file for exports that are too large for Checker.v's own products. Coq
   takes the machine's integers as primitive. The axioms of its library Uint63, which `Print Assumptions` lists, say
   what the operations do. No other file of proofs/ uses these axioms. *)
From Coq Require Import ZArith Uint63 Lia.
From mathcomp Require Import all_ssreflect ssrZ.
Require Import Checker.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope Z_scope.

Fixpoint machine_dot (u v : seq int) (sum : int) : int :=
  match u, v with a :: u', b :: v' => machine_dot u' v' (sum + a * b)%uint63 | _, _ => sum end.
Definition room : Z := 2 ^ 62.
Lemma room_is : wB = 2 * room /\ 0 < room. Proof. by vm_compute. Qed.
Opaque room.
Definition signed (i : int) : Z := let z := Uint63.to_Z i in if z <? room then z else z - wB.
Definition of_machine (t : seq (seq int)) : seq (seq Z) := [seq [seq signed i | i <- u] | u <- t].
Definition machine (u : seq Z) : seq int := [seq Uint63.of_Z a | a <- u].
Definition step : Z := 1048576.
Definition high (a : Z) : Z := Z.shiftr a 20.
Definition low (a : Z) : Z := a - step * high a.
Opaque step.

Fixpoint split_dots k (most : Z) (t : seq (seq Z)) (machine_t : seq (seq int)) (u : seq Z) : seq Z :=
  if absolute u * most <? room then let v := machine u in [seq signed (machine_dot v row 0%uint63) | row <- machine_t]
  else if k is S k' then
    [seq step * p.1 + p.2 | p <- zip (split_dots k' most t machine_t [seq high a | a <- u])
                                     (split_dots k' most t machine_t [seq low a | a <- u])]
  else plain_dots t u.
Definition largest (t : seq (seq Z)) : Z := foldr (fun row => Z.max (foldr (fun a => Z.max (Z.abs a)) 0 row)) 0 t.
Fixpoint table_dots k (t : seq (seq Z)) : seq Z -> seq Z :=
  let most := largest t in
  if (0 <=? most) && (most <? 2 ^ 30) && all (all (fun a => Z.abs a <=? most)) t
  then let machine_t := [seq machine row | row <- t] in split_dots 16 most t machine_t
  else if k is S k' then
    let highs := table_dots k' [seq [seq high a | a <- row] | row <- t] in
    let lows := table_dots k' [seq [seq low a | a <- row] | row <- t] in
    fun u => [seq step * p.1 + p.2 | p <- zip (highs u) (lows u)]
  else plain_dots t.
Definition fast_dots := table_dots 16.

Lemma machine_dot_mod u v sum :
  Uint63.to_Z (machine_dot (machine u) (machine v) sum) = (Uint63.to_Z sum + zdot u v) mod wB.
Proof.
elim: u v sum => [|a u IH] [|b v] sum /=; try by rewrite Z.add_0_r Z.mod_small //; exact: Uint63.to_Z_bounded.
rewrite IH Uint63.add_spec Uint63.mul_spec !Uint63.of_Z_spec -Zmult_mod Zplus_mod_idemp_r Zplus_mod_idemp_l.
by congr (_ mod _); lia.
Qed.

Lemma signed_mod i z : Uint63.to_Z i = z mod wB -> - room < z < room -> signed i = z.
Proof.
rewrite /signed => ->; have [] := room_is; move: wB room => B h B_is h0 inside.
have [pos|neg] : 0 <= z \/ z < 0 by lia.
- by rewrite Z.mod_small; [case: Z.ltb_spec; lia | lia].
- have -> : z mod B = z + B by rewrite -(Z_mod_plus_full z 1) Z.mul_1_l Z.mod_small; lia.
  by case: Z.ltb_spec; lia.
Qed.

Lemma absolute_ge0 u : 0 <= absolute u.
Proof. by elim: u => //= a u IH; have := Z.abs_nonneg a; lia. Qed.

Lemma dot_bound u v most : 0 <= most -> all (fun a => Z.abs a <=? most) v -> Z.abs (zdot u v) <= absolute u * most.
Proof.
move=> most0; elim: u v => [|a u IH] [|b v] //; try by move=> _; apply: Z.mul_nonneg_nonneg; first exact: absolute_ge0.
rewrite /= => /andP[/Z.leb_spec0 b_le /IH le].
have := Z.abs_triangle (a * b) (zdot u v); rewrite Z.abs_mul.
have := Z.mul_le_mono_nonneg_l _ _ _ (Z.abs_nonneg a) b_le; lia.
Qed.

Lemma dotC u v : zdot u v = zdot v u.
Proof. by elim: u v => [|a u IH] [|b v] //=; rewrite IH Z.mul_comm. Qed.

Lemma dot_split u v : step * zdot [seq high a | a <- u] v + zdot [seq low a | a <- u] v = zdot u v.
Proof.
elim: u v => [|a u IH] [|b v]; rewrite ?zdot0; try exact: Z.mul_0_r; try by rewrite Z.mul_0_r.
rewrite !map_cons -[RHS]/(a * b + zdot u v) -IH /low.
rewrite -[zdot (high a :: _) _]/(high a * b + zdot _ v) -[zdot (_ - _ :: _) _]/((a - step * high a) * b + zdot _ v).
move: step (high a) (zdot _ _) (zdot _ _) => s h p q; lia.
Qed.

Lemma split_dots_right k most t u : 0 <= most -> all (all (fun a => Z.abs a <=? most)) t ->
  split_dots k most t [seq machine row | row <- t] u = plain_dots t u.
Proof.
move=> most0 fits; elim: k u => [|k IH] u /=; case: Z.ltb_spec => [lt|_] //; last first.
  rewrite !IH; elim: (t) => //= row t' ->; congr (_ :: _); exact: dot_split.
all: rewrite -map_comp /plain_dots; apply/eq_in_map => row /(allP fits) row_fits; apply: signed_mod.
all: try by rewrite machine_dot_mod.
all: by have := dot_bound (u := u) most0 row_fits; lia.
Qed.

Lemma table_dots_right k t u : table_dots k t u = plain_dots t u.
Proof.
elim: k t => [|k IH] t; rewrite [table_dots _ _]/table_dots -/table_dots; case: ifP => [|_] //.
1,2: by case/andP => /andP[/Z.leb_spec0 most0 _] fits; exact: split_dots_right.
rewrite !IH; elim: (t) => //= row t' ->; congr (_ :: _).
by rewrite ![zdot u _]dotC dot_split.
Qed.

Theorem fast_dots_right t u : fast_dots t u = plain_dots t u.
Proof. by rewrite /fast_dots table_dots_right. Qed.

Print Assumptions fast_dots_right.
