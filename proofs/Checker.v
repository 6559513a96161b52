(* A program that checks an any-order certificate in integers, and the proof that the program is right. A checkpoint
   that the program accepts has the certificate of AnyOrder.v. So the distance |W - W*| to the certificate's W* never
   grows under a continuation of the training (AnyOrder.v). The program reads the numbers that `ntkfl certify --any-order
   --export` writes. Digits.v runs the program on one export. The step limits that an export claims are not checked.

   The statement fl-ntk/any-order rests on this file: a checkpoint that passes is an instance of the theorem, without
   any further assumption.

   The numbers are floats; each is stored as the integer that is 2^bits times the float. The proof assumes
   nothing about the numbers of the record `witness`. The program calculates products of vectors with the function
   `dots`, which may be any function that is proved to give these products. *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring zify ssrZ.
Require Import Euclid AnyOrder GramBounds Certificate.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Delimit Scope Z_scope with ZZ.

Record network := Network {
  features : nat;
  hidden : seq (seq Z);         (* for each neuron its weights *)
  readouts : seq (seq Z);       (* for each output its readout weights *)
  samples : seq (seq Z);
  labels : seq (seq Z);         (* for each sample its labels, one for each output *)
  hidden_bits : nat;
  readout_bits : nat;
  sample_bits : nat;
  label_bits : nat;
  root : Z                      (* the divisor of the outputs *)
}.

Record witness := Witness {
  held : seq (seq bool);        (* for each sample, the neurons that are held at their kinks: in W* their product is 0 *)
  bits : nat;                   (* guess, distance, slack and moved are stored as 2^bits times their values *)
  guess : seq Z;
  factor : seq (seq Z);         (* the matrix Y of Dominance.v *)
  gap : Z;
  distance : Z;
  slack : Z;
  moved : Z;                    (* at least |C' guess|, for the transpose C' of the matrix C (see `kind`) *)
  thresholds : seq Z            (* for each sample: neurons whose product with it exceeds this in size pass; see `far` *)
}.

(* The neurons that a sample holds at their kinks, given by the gaps between the numbers of these neurons. *)
Definition column m (gaps : seq nat) : seq bool :=
  let s := flatten [seq rcons (nseq g false) true | g <- gaps] in s ++ nseq (m - size s) false.

Fixpoint zdot (u v : seq Z) : Z := match u, v with a :: u', b :: v' => (a * b + zdot u' v')%ZZ | _, _ => 0%ZZ end.
Definition plain_dots (t : seq (seq Z)) (u : seq Z) : seq Z := [seq zdot u v | v <- t].

Section Program.
Variables (dots : seq (seq Z) -> seq Z -> seq Z) (N : network) (w : witness).
Local Open Scope Z_scope.

Definition entry (t : seq (seq Z)) i j : Z := nth 0 (nth [::] t i) j.
Definition power k : Z := Z.pow 2 (Z.of_nat k).
Definition numbered T (s : seq T) : seq (nat * T) := zip (iota 0 (size s)) s.

Definition width := size (hidden N).
Definition is_held r i : bool := nth false (nth [::] (held w) i) r.

(* C has a row for each condition on W*, that is, for each label and each held pair of a sample and a neuron. A row is
   stored as its sample; its factor at each neuron, or the neuron of the held pair; the product of W* with the row; and
   the difference between this product and the product of the checkpoint with the row. *)
Definition kind := (nat * (seq Z + nat) * Z * Z)%type.
Definition sample_of (k : kind) : nat := k.1.1.1.
Definition goal_of (k : kind) : Z := k.1.2.
Definition coef (k : kind) r : Z :=
  match k.1.1.2 with inl c => nth 0 c r | inr r' => if r' == r then 1 else 0 end.

(* For a sample whose products with the neurons are z: the rows of its labels, the rows of its held pairs, and the pairs
   that may be near their kink. *)
Definition label_goal i o : Z :=
  entry (labels N) i o * (root N * power (hidden_bits N + readout_bits N + sample_bits N - label_bits N)).
Definition active (z : seq Z) (h : seq bool) (b : seq Z) : seq Z :=
  [seq if (0 <=? p.1.1) && ~~ p.1.2 then p.2 else 0 | p <- zip (zip z h) b].
Definition label_kind i z o : kind :=
  let c := active z (nth [::] (held w) i) (nth [::] (readouts N) o) in
  (i, inl c, label_goal i o, label_goal i o - zdot c z).
Definition kept := (seq kind * seq kind * seq (nat * Z))%type.
Definition keep i (z : seq Z) : kept :=
  let pairs := numbered (zip z (nth [::] (held w) i)) in
  ([seq label_kind i z o | o <- iota 0 (size (readouts N))],
   [seq (i, inr p.1, 0, - p.2.1) : kind | p <- pairs & p.2.2],
   [seq (p.1, p.2.1) | p <- pairs & ~~ p.2.2 && (Z.abs p.2.1 <=? nth 0 (thresholds w) i)]).
Definition kinds (ps : seq kept) : seq kind := flatten [seq p.1.1 | p <- ps] ++ flatten [seq p.1.2 | p <- ps].

(* The Gram matrix of the rows. The function `times` gives products with the coefficients of the labels' rows. *)
Definition coefs (ks : seq kind) : seq (seq Z) := [seq if k.1.1.2 is inl c then c else [::] | k <- ks].
Definition inner_row (times : seq Z -> seq Z) (ks : seq kind) (k : kind) : seq Z :=
  match k.1.1.2 with
  | inl c => [seq if p.1.1.1.2 is inr r then nth 0 c r else p.2 | p <- zip ks (times c)]
  | inr r => [seq coef q r | q <- ks]
  end.
Definition gram_row (gx : seq (seq Z)) times ks k : seq Z :=
  let g := nth [::] gx (sample_of k) in [seq p.2 * nth 0 g (sample_of p.1) | p <- zip ks (inner_row times ks k)].

Definition wants (ks : seq kind) : seq Z := [seq k.2 | k <- ks].
Definition errors ks (moves : seq Z) : seq Z := [seq power (bits w) * p.1 - p.2 | p <- zip (wants ks) moves].
Definition absolute (u : seq Z) : Z := foldr (fun a b => Z.abs a + b) 0 u.
Definition row_outweighs (image : seq Z -> seq Z) (p : nat * seq Z) : bool :=
  let of_p := image p.2 in gap w + absolute of_p <=? 2 * nth 0 of_p p.1.
Definition kink_products gx (ks : seq kind) r i : seq Z := [seq coef k r * entry gx (sample_of k) i | k <- ks].
Definition reach : Z := distance w + slack w.
Definition place z products : Z := power (bits w) * z + zdot products (guess w).
Definition pair_passes (image : seq Z -> seq Z) gx ks i (p : nat * Z) : bool :=
  let products := kink_products gx ks p.1 i in
  let z := place p.2 products in
  (* "if" is used in place of "||", since the machine in Coq's kernel evaluates both sides of "||". *)
  if (if 0 <=? p.2 then 0 <? z else z <? 0)
  then if reach * reach * entry gx i i <? z * z then true
       else let k := image products in reach * reach * zdot k k <? gap w * (z * z)
  else false.
Definition threshold_passes gx i : bool :=
  let t := nth 0 (thresholds w) i in
  (0 <=? t) && ((reach + moved w) * (reach + moved w) * entry gx i i <=? power (bits w) * power (bits w) * (t * t)).

Definition passes gx (ps : seq kept) ks K (image : seq Z -> seq Z) (times_K : seq Z -> seq Z) : bool :=
  let moves := [seq zdot row (guess w) | row <- K] in
  let errs := errors ks moves in
  let missed := image errs in
  let spent := zdot missed missed in
  let every_sample := iota 0 (size (samples N)) in
  [&& [&& all (fun x => size x <= features N)%N (samples N), all (fun b => size b == width) (readouts N),
          all (fun i => size (nth [::] (held w) i) == width) every_sample &
          (label_bits N <= hidden_bits N + readout_bits N + sample_bits N)%N],
      [&& 0 <? root N, 0 <? gap w, 0 <=? distance w, 0 <=? slack w & 0 <=? moved w],
      size (factor w) == size ks,
      all (row_outweighs image) (numbered [seq times_K y | y <- factor w]),
      gap w * (power (bits w) * zdot (guess w) (wants ks) + zdot (guess w) errs) + spent
        <=? gap w * (distance w * distance w),
      spent <=? gap w * (slack w * slack w),
      zdot (guess w) moves <=? moved w * moved w,
      all (threshold_passes gx) every_sample &
      all (fun p => all (pair_passes image gx ks p.1) p.2.2) (numbered ps)].

Definition check : bool :=
  let times_hidden := dots (hidden N) in
  let times_samples := dots (samples N) in
  let gx := [seq times_samples x | x <- samples N] in
  let ps := [seq keep i (times_hidden (nth [::] (samples N) i)) | i <- iota 0 (size (samples N))] in
  let ks := kinds ps in
  let times_coefs := dots (coefs ks) in
  let K := [seq gram_row gx times_coefs ks k | k <- ks] in
  passes gx ps ks K (dots (factor w)) (dots K).
End Program.

Local Open Scope ring_scope.

(* A certificate of a network whose numbers are multiples of the numbers of another network. *)
Lemma rescaled (R : realFieldType) (m d : nat) (L : finType) (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R)
  (target target' : L -> R) s A S (Ws W0 : 'M[R]_(m, d)) D2 kap2 (a b c : R) : 0 < a -> 0 < b -> 0 < c ->
  (forall l, a * b * c * target l = target' l) ->
  certificate input readout target s A S Ws W0 D2 kap2 ->
  certificate (fun l j => a * input l j) (fun l r => b * readout l r) target' s A
    S (c *: Ws) (c *: W0) (c ^+ 2 * D2) (fun r l => a ^+ 2 * kap2 r l).
Proof.
move=> a0 b0 c0 target_is [phiS heldS startS near fits_ held_ kap0 kap_ signs_ margin_].
have preZ l U r : pre (fun j => a * input l j) U r = a * pre (input l) U r.
  by rewrite /pre mulr_sumr; apply: eq_bigr => j _; rewrite mulrCA.
have pre_scaled l U r : pre (fun j => a * input l j) (c *: U) r = a * c * pre (input l) U r.
  by rewrite preZ -mulrA; congr (_ * _); rewrite /pre mulr_sumr; apply: eq_bigr => j _; rewrite mxE mulrA.
have ac0 : 0 < a * c by exact: mulr_gt0.
have phi_is l : phi (fun l j => a * input l j) (fun l r => b * readout l r) s A l = (a * b) *: phi input readout s A l.
  by apply/matrixP => r j; rewrite !mxE; ring.
have kink_is l r : kink (fun j => a * input l j) r = a *: kink (input l) r :> 'M[R]_(m, d).
  by apply/matrixP => r' j; rewrite !mxE; ring.
split.
- by move=> l; rewrite phi_is memvZ ?phiS.
- by move=> r l on; rewrite kink_is memvZ ?heldS.
- by rewrite -scalerBr memvZ.
- by rewrite -scalerBr norm2Z ler_wpmul2l ?sqr_ge0.
- by move=> l; rewrite phi_is dotZl dotZr fits_ -target_is mulrA.
- by move=> r l on; rewrite pre_scaled held_ // mulr0.
- by move=> r l off; rewrite mulr_ge0 ?sqr_ge0 ?kap0.
- by move=> r l V off inS; rewrite preZ exprMn -mulrA ler_wpmul2l ?sqr_ge0 ?kap_.
- by move=> r l off; rewrite pre_scaled; have := signs_ r l off; case: (s r l); rewrite ?pmulr_rgt0 ?pmulr_rlt0.
- move=> r l off; rewrite pre_scaled.
  have -> : c ^+ 2 * D2 * (a ^+ 2 * kap2 r l) = (a * c) ^+ 2 * (D2 * kap2 r l) by ring.
  by rewrite [X in _ < X]exprMn ltr_pmul2l ?exprn_gt0 // margin_.
Qed.

Section Reals.
Variable R : realFieldType.
Definition real (z : Z) : R := (int_of_Z z)%:~R.

Lemma real0 : real 0%ZZ = 0. Proof. by []. Qed.
Lemma real1 : real 1%ZZ = 1. Proof. by []. Qed.
Lemma realD a b : real (a + b)%ZZ = real a + real b.
Proof. by rewrite /real -intrD -(rmorphD ZInstances.int_of_Z_rmorphism). Qed.
Lemma realM a b : real (a * b)%ZZ = real a * real b.
Proof. by rewrite /real -intrM -(rmorphM ZInstances.int_of_Z_rmorphism). Qed.
Lemma realB a b : real (a - b)%ZZ = real a - real b.
Proof. by rewrite /real -rmorphB -(rmorphB ZInstances.int_of_Z_rmorphism). Qed.
Lemma real_le a b : (a <=? b)%ZZ = (real a <= real b).
Proof. by rewrite /real ler_int -[a in LHS]int_of_ZK -[b in LHS]int_of_ZK; move: (int_of_Z a) (int_of_Z b) => i j; lia. Qed.
Lemma real_lt a b : (a <? b)%ZZ = (real a < real b).
Proof. by rewrite /real ltr_int -[a in LHS]int_of_ZK -[b in LHS]int_of_ZK; move: (int_of_Z a) (int_of_Z b) => i j; lia. Qed.
Lemma real_abs a : real (Z.abs a) = `|real a|.
Proof. by rewrite /real -intr_norm; congr (_%:~R); lia. Qed.
Lemma real_power k : real (power k) = 2%:R ^+ k.
Proof.
elim: k => [|k IH]; first by rewrite expr0.
rewrite exprS -IH -[2%:R]/(real 2%ZZ) -realM; congr real; rewrite /power Nat2Z.inj_succ Z.pow_succ_r //; lia.
Qed.
Lemma real_dot u v k : (size u <= k)%N || (size v <= k)%N ->
  real (zdot u v) = \sum_(j < k) real (nth 0%ZZ u j) * real (nth 0%ZZ v j).
Proof.
elim: u v k => [|a u IH] [|b v] k; try by rewrite big1 // => j _; rewrite ?nth_nil ?real0 ?mul0r ?mulr0.
by case: k => [|k] // short; rewrite big_ord_recl realD realM (IH _ k).
Qed.
Lemma real_absolute u k : (size u <= k)%N -> real (absolute u) = \sum_(j < k) `|real (nth 0%ZZ u j)|.
Proof.
elim: u k => [|a u IH] k; first by rewrite big1 // => j _; rewrite nth_nil real0 normr0.
by case: k => [|k] // short; rewrite big_ord_recl realD real_abs (IH k).
Qed.
Lemma real_dots u : real (zdot u u) = \sum_(j < size u) real (nth 0%ZZ u j) ^+ 2.
Proof. by rewrite (real_dot _ (k := size u)) ?leqnn. Qed.
End Reals.


Lemma zdot0 u : zdot u [::] = 0%ZZ. Proof. by case: u. Qed.
Lemma numberedP (T : eqType) (x0 : T) (s : seq T) p : p \in numbered s -> (p.1 < size s)%N /\ nth x0 s p.1 = p.2.
Proof.
case/(nthP (0%N, x0)) => j; rewrite size_zip size_iota minnn => lt <-.
by rewrite nth_zip ?size_iota //= nth_iota.
Qed.
Lemma in_numbered (T : eqType) (x0 : T) (s : seq T) j : (j < size s)%N -> (j, nth x0 s j) \in numbered s.
Proof.
move=> lt; apply/(nthP (0%N, x0)); exists j; first by rewrite size_zip size_iota minnn.
by rewrite nth_zip ?size_iota //= nth_iota.
Qed.

(* the patterns of relu at the checkpoint, and the held pairs *)
Section Patterns.
Variables (N : network) (w : witness).
Local Notation L := ('I_(size (samples N)) * 'I_(size (readouts N)))%type.
Definition frozen_patterns (r : 'I_(width N)) (l : L) : bool :=
  (0 <=? zdot (nth [::] (samples N) l.1) (nth [::] (hidden N) r))%ZZ.
Definition held_pairs (r : 'I_(width N)) (l : L) : bool := is_held w r l.1.
End Patterns.

Section Sound.
Variables (dots : seq (seq Z) -> seq Z -> seq Z) (R : realFieldType) (N : network) (w : witness).
Hypothesis right : forall t u, dots t u = plain_dots t u.
Local Notation real := (real R).
Local Notation m := (width N).
Local Notation d := (features N).
Local Notation n := (size (samples N)).
Local Notation o := (size (readouts N)).
Local Notation L := ('I_n * 'I_o)%type.

(* The network in integers. *)
Let W : 'M[R]_(m, d) := \matrix_(r, j) real (entry (hidden N) r j).
Let x i (j : 'I_d) : R := real (entry (samples N) i j).
Let input (l : L) := x l.1.
Let readout (l : L) (r : 'I_m) : R := real (entry (readouts N) l.2 r).
Let target (l : L) : R := real (label_goal N l.1 l.2).

(* The network that is stored: f_o(x) = sum_r b_or relu(w_r.x) / root. *)
Definition unit k : R := (2%:R ^+ k)^-1.
Definition start : 'M[R]_(m, d) := unit (hidden_bits N) *: W.
Definition stored_input (l : L) j : R := unit (sample_bits N) * input l j.
Definition stored_readout (l : L) r : R := unit (readout_bits N) / real (root N) * readout l r.
Definition stored_target (l : L) : R := unit (label_bits N) * real (entry (labels N) l.1 l.2).
Definition bound : R := unit (hidden_bits N) * (real (distance w) / 2%:R ^+ bits w).

Let size_dots t u : size (dots t u) = size t. Proof. by rewrite right size_map. Qed.
Let nth_dots t u j : nth 0%ZZ (dots t u) j = zdot u (nth [::] t j).
Proof.
rewrite right; have [le|lt] := leqP (size t) j; last by rewrite (nth_map [::]).
by rewrite nth_default ?size_map // [X in zdot _ X]nth_default // zdot0.
Qed.

Let gx := [seq dots (samples N) v | v <- samples N].
Let z i := dots (hidden N) (nth [::] (samples N) i).
Let ps := [seq keep N w i (z i) | i <- iota 0 n].
Let ks := kinds ps.
Let K := [seq gram_row gx (dots (coefs ks)) ks k | k <- ks].
Let image := dots (factor w).
Local Notation P := 'I_(size ks).
Let none : kind := (0%N, inr 0%N, Z0, Z0).
Let kind_of (p : P) : kind := nth none ks p.
Let idx p := sample_of (kind_of p).
Let coefficient p (r : 'I_m) : R := real (coef (kind_of p) r).
Let row (p : P) : 'M[R]_(m, d) := rows (x (idx p)) (coefficient p).
Let goal p : R := real (goal_of (kind_of p)).
Local Notation s := (@frozen_patterns N).
Local Notation A := (@held_pairs N w).

Hypothesis ok : passes N w gx ps ks K image (dots K).
Let sizes_ok : [&& all (fun x => size x <= d)%N (samples N), all (fun b => size b == m) (readouts N),
  all (fun i => size (nth [::] (held w) i) == m) (iota 0 n)
  & (label_bits N <= hidden_bits N + readout_bits N + sample_bits N)%N].
Proof. by case/andP: ok. Qed.
Let signs_ok : [&& (0 <? root N)%ZZ, (0 <? gap w)%ZZ, (0 <=? distance w)%ZZ, (0 <=? slack w)%ZZ & (0 <=? moved w)%ZZ].
Proof. by case/and3P: ok. Qed.
Let rest_ok := proj2 (andP (proj2 (andP ok))).
Let short_samples i : (size (nth [::] (samples N) i) <= d)%N.
Proof.
case/and4P: sizes_ok => /(all_nthP [::]) short _ _ _; have [le|lt] := leqP n i; last exact: short.
by rewrite nth_default.
Qed.
Let size_held i : (i < n)%N -> size (nth [::] (held w) i) = m.
Proof. by move=> lt; case/and4P: sizes_ok => _ _ /allP each _; apply/eqP/each; rewrite mem_iota. Qed.
Let size_readout j : (j < o)%N -> size (nth [::] (readouts N) j) = m.
Proof. by move=> lt; case/and4P: sizes_ok => _ /(all_nthP [::]) each _ _; apply/eqP/each. Qed.
Let size_z i : size (z i) = m. Proof. exact: size_dots. Qed.
Let size_pairs i : (i < n)%N -> size (zip (z i) (nth [::] (held w) i)) = m.
Proof. by move=> lt; rewrite size_zip size_z size_held // minnn. Qed.

Let inner i j : R := \sum_k x i k * x j k.
Let real_gx i j : real (entry gx i j) = inner i j.
Proof.
rewrite /entry /gx; have [le|lt] := leqP n i.
  rewrite (nth_default [::]) ?size_map // nth_nil /inner big1 // => k _.
  by rewrite /x /entry (nth_default [::] le) nth_nil real0 mul0r.
by rewrite (nth_map [::]) // nth_dots (real_dot _ (k := d)) // short_samples.
Qed.
Let real_z i (r : 'I_m) : real (nth Z0 (z i) r) = pre (x i) W r.
Proof.
rewrite nth_dots (real_dot _ (k := d)) ?short_samples //.
by apply: eq_bigr => j _; rewrite mxE mulrC.
Qed.

(* the rows of C *)
Let pairs i := numbered (zip (z i) (nth [::] (held w) i)).
Let in_pairs i p : (i < n)%N -> p \in pairs i -> [/\ (p.1 < m)%N, p.2.1 = nth Z0 (z i) p.1 & p.2.2 = is_held w p.1 i].
Proof.
by move=> lt /(numberedP (Z0, false)); rewrite size_pairs // nth_zip ?size_z ?size_held // => -[? <-].
Qed.
Let pair_in i r : (i < n)%N -> (r < m)%N -> (r, (nth Z0 (z i) r, is_held w r i)) \in pairs i.
Proof.
move=> lt ltr; have := @in_numbered _ (Z0, false) (zip (z i) (nth [::] (held w) i)) r.
by rewrite nth_zip ?size_z ?size_held ?size_pairs //; apply.
Qed.

Let kind_in i k : (i < n)%N -> k \in (keep N w i (z i)).1.1 ++ (keep N w i (z i)).1.2 -> exists p, kind_of p = k.
Proof.
move=> lt inn; have /(nthP none)[p ltp <-] : k \in ks; last by exists (Ordinal ltp).
have there : keep N w i (z i) \in ps by apply/mapP; exists i; rewrite // mem_iota.
by move: inn; rewrite !mem_cat => /orP[] inn; apply/orP; [left | right]; apply/flattenP;
  [exists (keep N w i (z i)).1.1 | exists (keep N w i (z i)).1.2] => //; apply/mapP; exists (keep N w i (z i)).
Qed.

Let nth_active i j r : (i < n)%N -> (j < o)%N -> (r < m)%N ->
  nth Z0 (active (z i) (nth [::] (held w) i) (nth [::] (readouts N) j)) r
  = if (0 <=? nth Z0 (z i) r)%ZZ && ~~ is_held w r i then entry (readouts N) j r else Z0.
Proof.
move=> lti ltj ltr; have sizes : size (zip (z i) (nth [::] (held w) i)) = size (nth [::] (readouts N) j).
  by rewrite size_pairs // size_readout.
rewrite /active (nth_map ((Z0, false), Z0)) ?size_zip ?size_z ?size_held ?size_readout ?minnn //.
by rewrite nth_zip // nth_zip ?size_z ?size_held.
Qed.
Let size_active i j : (i < n)%N -> (j < o)%N ->
  size (active (z i) (nth [::] (held w) i) (nth [::] (readouts N) j)) = m.
Proof. by move=> lti ltj; rewrite size_map !size_zip size_z size_held // size_readout // !minnn. Qed.

Let pick (r : nat) (f : nat -> R) : (r < m)%N ->
  \sum_(r' < m) real (if r == r' then 1%ZZ else 0%ZZ) * f r' = f r.
Proof.
move=> lt; rewrite (bigD1 (Ordinal lt)) //= eqxx real1 mul1r big1 ?addr0 // => r'.
by rewrite -val_eqE /= eq_sym => /negbTE->; rewrite real0 mul0r.
Qed.

Definition sound_kind (k : kind) : Prop :=
  match k.1.1.2 with inl c => (size c <= m)%N | inr r => (r < m)%N end /\
  real k.2 = real (goal_of k) - \sum_(r < m) real (coef k r) * pre (x (sample_of k)) W r.
Let kind_sound (p : P) : sound_kind (kind_of p).
Proof.
have : kind_of p \in ks by rewrite mem_nth.
have nth_coef i (c : seq Z) : size c = m -> real (zdot c (z i)) = \sum_(r < m) real (nth Z0 c r) * pre (x i) W r.
  by move=> size_c; rewrite (real_dot _ (k := m)) ?size_c ?leqnn //; apply: eq_bigr => r _; rewrite real_z.
rewrite mem_cat => /orP[] /flattenP[t /mapP[q /mapP[i + ->] ->]]; rewrite mem_iota add0n => /andP[_ lt].
- case/mapP => j; rewrite mem_iota add0n => /andP[_ ltj] ->; split => /=; first by rewrite size_active.
  by rewrite realB nth_coef // size_active.
- case/mapP => q' ; rewrite mem_filter => /andP[_ /(in_pairs lt)[ltr z_is _]] ->; split => //=.
  have -> : real (- q'.2.1) = real Z0 - real q'.2.1 by rewrite -realB.
  rewrite z_is -(pick (fun r => real (nth Z0 (z i) r)) ltr); congr (_ - _).
  by apply: eq_bigr => r _; rewrite real_z.
Qed.

Let nth_kind T (f : kind -> T) v (p : P) : nth v [seq f q | q <- ks] p = f (kind_of p).
Proof. by rewrite (nth_map none). Qed.

Let pre_row i q r : pre (x i) (row q) r = coefficient q r * inner (idx q) i.
Proof. by rewrite /pre /inner mulr_sumr; apply: eq_bigr => j _; rewrite mxE mulrA. Qed.

Let times := dots (coefs ks).
Let size_inner (k : kind) : size (inner_row times ks k) = size ks.
Proof. by rewrite /inner_row; case: k.1.1.2 => [c|r]; rewrite ?size_map ?size_zip ?size_dots ?size_map ?minnn. Qed.
Let real_inner (p q : P) :
  real (nth Z0 (inner_row times ks (kind_of p)) q) = \sum_r coefficient p r * coefficient q r.
Proof.
have [valid_p _] := kind_sound p; have [valid_q _] := kind_sound q; move: valid_p valid_q.
rewrite /inner_row /coefficient /coef; case p_is : (kind_of p).1.1.2 => [u|r] => [short_u|ltr] valid_q.
- rewrite (nth_map (none, Z0)) ?size_zip ?size_dots ?size_map ?minnn // nth_zip ?size_dots ?size_map //=.
  rewrite -/(kind_of q) nth_dots nth_kind; move: valid_q; case q_is : (kind_of q).1.1.2 => [v|r] => [short_v|ltr].
    by rewrite (real_dot _ (k := m)) ?short_u.
  by rewrite -(pick (fun r => real (nth Z0 u r)) ltr); apply: eq_bigr => r' _; rewrite mulrC.
- rewrite nth_kind /coef -(pick (fun r' => real (coef (kind_of q) r')) ltr).
  by apply: eq_bigr => r' _.
Qed.
Let real_gram (p q : P) : real (entry K p q) = gram row p q.
Proof.
rewrite /entry /K (nth_kind _ [::]) (nth_map (none, Z0)) ?size_zip ?size_inner ?minnn // nth_zip ?size_inner //=.
rewrite realM real_inner -/(entry gx _ _) real_gx /gram dot_rows mulr_suml; apply: eq_bigr => r _.
rewrite pre_row -mulrA; congr (_ * _); congr (_ * _); rewrite /inner -/(idx p) -/(idx q).
by apply: eq_bigr => j _; rewrite mulrC.
Qed.
Let size_K (p : P) : size (nth [::] K p) = size ks.
Proof. by rewrite /K (nth_kind _ [::]) size_map size_zip size_inner minnn. Qed.

Let nth_wants (p : P) : real (nth Z0 (wants ks) p) = wanted W row goal p.
Proof. by rewrite /wants nth_kind (kind_sound p).2 /wanted dot_rows. Qed.

Let two : R := 2%:R ^+ bits w.
Let two_gt0 : 0 < two. Proof. by rewrite exprn_gt0 // ltr0n. Qed.
Let two0 : two != 0. Proof. exact: lt0r_neq0. Qed.
Let alpha (p : P) : R := real (nth Z0 (guess w) p) / two.

Let of_guess (f : P -> R) : \sum_p f p * real (nth Z0 (guess w) p) = two * \sum_p alpha p * f p.
Proof. by rewrite mulr_sumr; apply: eq_bigr => p _; rewrite /alpha; field. Qed.

Let moves := [seq zdot v (guess w) | v <- K].
Let errs := errors w ks moves.
Let nth_moves (p : P) : real (nth Z0 moves p) = two * dot (row p) (comb row alpha).
Proof.
rewrite (nth_map [::]) ?size_map // (real_dot _ (k := size ks)) ?size_K ?leqnn //.
rewrite (eq_bigr (fun q => gram row p q * real (nth Z0 (guess w) q))) => [|q _]; last by rewrite -real_gram.
by rewrite of_guess dotC dot_comb; congr (_ * _); apply: eq_bigr => q _; rewrite /gram dotC.
Qed.
Let nth_errors (p : P) : real (nth Z0 errs p) = two * error W row goal alpha p.
Proof.
rewrite /errs /errors (nth_map (Z0, Z0)) ?size_zip ?size_map ?minnn // nth_zip ?size_map //= realB realM real_power.
by rewrite nth_wants nth_moves -mulrBr.
Qed.

Let Y (p q : P) : R := real (entry (factor w) p q).
Let g : R := real (gap w).
Let missed (e : P -> R) : R := (\sum_p (\sum_q Y p q * e q) ^+ 2) / g.
Let size_factor : size (factor w) = size ks.
Proof. by case/andP: rest_ok => /eqP. Qed.
Let g_gt0 : 0 < g. Proof. by case/and5P: signs_ok => _; rewrite (real_lt R). Qed.

Let nth_image u (p : P) : size u = size ks ->
  real (nth Z0 (image u) p) = \sum_(q : P) Y p q * real (nth Z0 u q).
Proof.
move=> size_u; rewrite nth_dots (real_dot _ (k := size ks)) ?size_u ?leqnn //.
by apply: eq_bigr => q _; rewrite mulrC.
Qed.
Let real_image u : size u = size ks ->
  real (zdot (image u) (image u)) = \sum_(p : P) (\sum_(q : P) Y p q * real (nth Z0 u q)) ^+ 2.
Proof.
move=> size_u; rewrite (real_dot _ (k := size ks)) ?size_dots ?size_factor ?leqnn //.
by apply: eq_bigr => p _; rewrite nth_image // expr2.
Qed.

Let yk := [seq dots K y | y <- factor w].
Let size_yk (p : P) : size (nth [::] yk p) = size ks.
Proof. by rewrite (nth_map [::]) ?size_factor // size_dots size_map. Qed.
Let nth_square (p q : P) : real (nth Z0 (image (nth [::] yk p)) q) = weighted row Y p q.
Proof.
rewrite nth_image ?size_yk //; apply: eq_bigr => u _; rewrite mulrC; congr (_ * _).
rewrite (nth_map [::]) ?size_factor // nth_dots (real_dot _ (k := size ks)) ?size_K ?leqnn ?orbT //.
by apply: eq_bigr => v _; rewrite -/(entry K u v) real_gram /gram dotC.
Qed.
Let outweighs p : g + \sum_(q | q != p) `|weighted row Y p q| <= weighted row Y p p.
Proof.
have : row_outweighs w image (p : nat, nth [::] yk p).
  case/and3P: rest_ok => _ /allP each _; apply: each; apply: in_numbered.
  by rewrite size_map size_factor.
rewrite /row_outweighs (real_le R) realD realM (real_absolute _ (k := size ks)) ?size_dots ?size_factor //=.
rewrite nth_square (eq_bigr (fun q => `|weighted row Y p q|)) => [|q _]; last by rewrite nth_square.
rewrite (bigD1 p) //= -[real 2%ZZ]/(2%:R) mulr_natl mulr2n addrCA => le.
by rewrite -(ler_add2l (weighted row Y p p)); apply: le_trans le; rewrite ler_add2r ler_norm.
Qed.

Let D : R := real (distance w) / two.
Let sigma : R := real (slack w) / two.
Let shift : R := real (moved w) / two.
Let D_ge0 : 0 <= D.
Proof. by apply: divr_ge0 (ltW two_gt0); case/and5P: signs_ok => _ _; rewrite (real_le R). Qed.
Let sigma_ge0 : 0 <= sigma.
Proof. by apply: divr_ge0 (ltW two_gt0); case/and5P: signs_ok => _ _ _; rewrite (real_le R). Qed.
Let shift_ge0 : 0 <= shift.
Proof. by apply: divr_ge0 (ltW two_gt0); case/and5P: signs_ok => _ _ _ _; rewrite (real_le R). Qed.

Let size_errs : size errs = size ks. Proof. by rewrite size_map size_zip !size_map minnn. Qed.
Let spent : real (zdot (image errs) (image errs)) = two ^+ 2 * (g * missed (error W row goal alpha)).
Proof.
rewrite real_image // /missed [g * _]mulrC divfK ?lt0r_neq0 // mulr_sumr.
apply: eq_bigr => p _; rewrite -exprMn mulr_sumr; congr (_ ^+ 2); apply: eq_bigr => q _.
by rewrite nth_errors mulrCA.
Qed.
Let two2_gt0 : 0 < two ^+ 2. Proof. exact: exprn_gt0. Qed.

Let slack_bound : missed (error W row goal alpha) <= sigma ^+ 2.
Proof.
case/and5P: rest_ok => _ _ _ + _; rewrite (real_le R) spent 2!realM.
rewrite mulrCA ler_pmul2l // /sigma expr_div_n ler_pdivl_mulr // mulrC expr2.
by [].
Qed.

Let D_bound : energy row missed alpha (wanted W row goal) <= D ^+ 2.
Proof.
case/and4P: rest_ok => _ _ + _; rewrite (real_le R) realD spent !realM realD realM real_power.
rewrite !(real_dot _ (k := size ks)) ?size_errs ?size_map ?leqnn ?orbT //.
under eq_bigr do rewrite mulrC nth_wants; under [X in g * (_ + X)]eq_bigr do rewrite mulrC nth_errors.
rewrite -/two !of_guess.
have -> : \sum_p alpha p * (two * error W row goal alpha p) = two * \sum_p alpha p * error W row goal alpha p.
  by rewrite mulr_sumr; apply: eq_bigr => p _; rewrite mulrCA.
rewrite -!/g; set a := \sum_p _; set b := \sum_p _; set c := missed _ => le.
rewrite /energy -/(error W row goal alpha) -/a -/b -/c /D expr_div_n ler_pdivl_mulr // -(ler_pmul2l g_gt0).
by rewrite expr2; apply: le_trans le; rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.

Let norm_moved : norm2 (comb row alpha) <= shift ^+ 2.
Proof.
case/and5P: rest_ok => _ _ _ _ /and3P[+ _ _].
rewrite -/moves (real_le R) realM (real_dot _ (k := size ks)) ?size_map ?leqnn ?orbT //.
under eq_bigr do rewrite mulrC nth_moves; rewrite of_guess.
have -> : \sum_p alpha p * (two * dot (row p) (comb row alpha)) = two * norm2 (comb row alpha).
  by rewrite /norm2 dot_comb mulr_sumr; apply: eq_bigr => p _; rewrite mulrCA.
by rewrite mulrA -!expr2 => le; rewrite /shift expr_div_n ler_pdivl_mulr // mulrC.
Qed.

Let label_row (l : L) : exists2 p, row p = phi input readout s A l & goal p = target l.
Proof.
have [||p p_is] := @kind_in l.1 (label_kind N w l.1 (z l.1) l.2); first exact: ltn_ord.
  by rewrite mem_cat; apply/orP; left; apply/map_f; rewrite mem_iota add0n /=.
exists p; last by rewrite /goal p_is.
apply/matrixP => r j; rewrite !mxE /coefficient /coef /idx p_is /= nth_active // nth_dots.
rewrite -/(frozen_patterns r l) -/(held_pairs w r l) andbC; congr (_ * _).
by case: (_ && _); rewrite ?mulr1 ?mulr0.
Qed.

Let held_row (r : 'I_m) (l : L) : A r l -> exists2 p, row p = kink (input l) r & goal p = 0.
Proof.
move=> on; have [||p p_is] := @kind_in l.1 (l.1 : nat, inr (r : nat), 0%ZZ, (- nth Z0 (z l.1) r)%ZZ); first exact: ltn_ord.
  rewrite mem_cat; apply/orP; right; apply/mapP; exists (r : nat, (nth Z0 (z l.1) r, is_held w r l.1)) => //.
  by rewrite mem_filter pair_in // andbT.
exists p; last by rewrite /goal p_is.
apply/matrixP => r' j; rewrite !mxE /coefficient /coef /idx p_is /=; congr (_ * _).
by rewrite eq_sym -val_eqE /=; case: eqP.
Qed.

(* the products of the rows with a kink *)
Let product (r : 'I_m) (l : L) (p : P) : R := dot (row p) (kink (input l) r).
Let nth_products (r : 'I_m) (l : L) (p : P) : real (nth Z0 (kink_products gx ks r l.1) p) = product r l p.
Proof. by rewrite /kink_products nth_kind realM real_gx /product dotC dot_kink pre_row. Qed.
Let size_products r i : size (kink_products gx ks r i) = size ks. Proof. by rewrite size_map. Qed.

Let point (r : 'I_m) (l : L) : real (place w (nth Z0 (z l.1) r) (kink_products gx ks r l.1))
  = two * pre (input l) (computed W row alpha) r.
Proof.
rewrite /place realD realM real_power real_z (real_dot _ (k := size ks)) ?size_products ?leqnn ?orbT //.
rewrite /computed preD mulrDr; congr (_ + _).
under eq_bigr do rewrite nth_products; rewrite of_guess; congr (_ * _).
by rewrite -dot_kink dotC dot_comb; apply: eq_bigr => p _.
Qed.

(* A pair is easy if |x_i| suffices as its kappa (see AnyOrder.v). All pairs beyond the thresholds are easy. *)
Let size2 (l : L) : R := \sum_j input l j ^+ 2.
Let easy (r : 'I_m) (l : L) : bool := (D + sigma) ^+ 2 * size2 l < pre (input l) (computed W row alpha) r ^+ 2.
Let kap2 (r : 'I_m) (l : L) : R := if easy r l then size2 l else missed (product r l).
Let kap_bound (r : 'I_m) (l : L) : ~~ A r l -> size2 l <= kap2 r l \/
  exists h, energy row missed h (product r l) <= kap2 r l.
Proof.
move=> _; rewrite /kap2; case: ifP => _; [by left | right].
exists (fun=> 0); rewrite /energy !big1 ?add0r => [|p _|p _]; try by rewrite mul0r.
rewrite le_eqVlt; apply/orP; left; apply/eqP; congr (_ / _); apply: eq_bigr => p _; congr (_ ^+ 2).
apply: eq_bigr => q _; congr (_ * _); rewrite /comb big1 => [|u _]; last by rewrite scale0r.
by rewrite dotC dot0l subr0.
Qed.

Let reach_is : real (reach w) = two * (D + sigma).
Proof. by rewrite realD /D /sigma; field. Qed.
Let inner_self (l : L) : inner l.1 l.1 = size2 l.
Proof. by apply: eq_bigr => j _; rewrite expr2. Qed.
Let size2_ge0 l : 0 <= size2 l. Proof. by apply: sumr_ge0 => j _; exact: sqr_ge0. Qed.

(* Beyond the threshold, the guess cannot move a product across the kink. *)
Let far (r : 'I_m) (l : L) : (nth 0 (thresholds w) l.1 <? Z.abs (nth 0 (z l.1) r))%ZZ ->
  0 < pre (input l) (computed W row alpha) r * pre (input l) W r /\ easy r l.
Proof.
rewrite (real_lt R) real_abs real_z => far_off.
case/and5P: rest_ok => _ _ _ _ /and3P[_ /allP each _].
have /each/andP[] : (l.1 : nat) \in iota 0 n by rewrite mem_iota add0n /=.
rewrite !(real_le R) !realM realD reach_is !real_power real_gx inner_self -/two real0; set t := real _ in far_off * => t0 le.
apply: stays_away (addr_ge0 D_ge0 sigma_ge0) shift_ge0 (size2_ge0 l) _ _.
- rewrite /computed preD addrC addKr -dot_kink; apply: (le_trans (cauchy_dot _ _)); rewrite mulrC.
  apply: ler_pmul; rewrite ?norm2_ge0 // /norm2 dot_kink le_eqVlt; apply/orP; left; apply/eqP.
  by apply: eq_bigr => j _; rewrite mxE eqxx mul1r expr2.
- have {le} : (D + sigma + shift) ^+ 2 * size2 l <= t ^+ 2.
    rewrite -(ler_pmul2l two2_gt0); apply: le_trans (_ : _ <= two * two * (t * t)) _; last by rewrite -!expr2.
    apply: le_trans le; rewrite le_eqVlt; apply/orP; left; apply/eqP.
    have -> : real (moved w) = two * shift by rewrite /shift mulrC divfK.
    by ring.
  move=> /le_lt_trans; apply; rewrite -[X in _ < X]real_normK ?num_real //.
  by rewrite ltr_pexpn2r ?nnegrE.
Qed.

Let margins (r : 'I_m) (l : L) : ~~ A r l -> let v := pre (input l) (computed W row alpha) r in
  (if s r l then 0 < v else v < 0) /\ (D + sigma) ^+ 2 * kap2 r l < v ^+ 2.
Proof.
move=> off v.
have s_is : s r l = (0 <= pre (input l) W r) by rewrite -real_z -real0 -(real_le R) nth_dots.
have far_sign : 0 < v * pre (input l) W r -> if s r l then 0 < v else v < 0.
  rewrite s_is; case: (ltrgt0P (pre (input l) W r)) => [p0|p0|->].
  - by rewrite (pmulr_lgt0 _ p0).
  - by rewrite (nmulr_lgt0 _ p0).
  - by rewrite mulr0 ltxx.
case: (boolP (nth 0 (thresholds w) l.1 <? Z.abs (nth 0 (z l.1) r))%ZZ) => [/far[same e]|near].
  by split; [exact: far_sign | rewrite /kap2 e].
have : pair_passes w image gx ks l.1 (r : nat, nth Z0 (z l.1) r).
  case/and5P: rest_ok => _ _ _ _ /and3P[_ _ /allP each].
  have /each/allP passed : (l.1 : nat, nth ([::], [::], [::]) ps l.1) \in numbered ps.
    by apply: in_numbered; rewrite size_map size_iota.
  apply: passed; rewrite /= (nth_map 0%N) ?size_iota // nth_iota // add0n; apply/mapP.
  exists (r : nat, (nth Z0 (z l.1) r, is_held w r l.1)) => //.
  by rewrite mem_filter pair_in // -/(held_pairs w r l) off andbT /= Z.leb_antisym.
rewrite /pair_passes /=; case: ifP => // side passed.
have side' : if s r l then 0 < v else v < 0.
  by move: side; rewrite s_is -real_z -real0 -(real_le R); case: ifP => _; rewrite (real_lt R) point ?pmulr_rgt0 ?pmulr_rlt0.
split => //; have squares : two * v * (two * v) = two ^+ 2 * v ^+ 2 by ring.
have squared : real (reach w * reach w)%ZZ = two ^+ 2 * (D + sigma) ^+ 2 by rewrite realM reach_is; ring.
move: passed; rewrite /kap2; have -> : easy r l = (reach w * reach w * entry gx l.1 l.1 <?
    place w (nth Z0 (z l.1) r) (kink_products gx ks r l.1) * place w (nth Z0 (z l.1) r) (kink_products gx ks r l.1))%ZZ.
  by rewrite (real_lt R) !(realM _ (_ * _)%ZZ) squared realM real_gx inner_self point squares -mulrA ltr_pmul2l.
case: ifP => [e _|_].
  by move: e; rewrite (real_lt R) realM squared realM real_gx inner_self point squares -mulrA ltr_pmul2l.
rewrite (real_lt R) realM squared real_image // (realM _ (gap w)) realM point squares.
under eq_bigr do under eq_bigr do rewrite nth_products.
have -> : real (gap w) * (two ^+ 2 * v ^+ 2) = two ^+ 2 * (v ^+ 2 * g) by rewrite /g; ring.
by rewrite -mulrA ltr_pmul2l // /missed mulrA ltr_pdivr_mulr.
Qed.

Let stored_integers : certificate input readout target s A (span row) (fitted W row goal) W (D ^+ 2) kap2.
Proof.
have definite := witness_definite g_gt0 outweighs.
exact: (certified label_row held_row definite (witness_misses g_gt0 outweighs) D_ge0 sigma_ge0 D_bound slack_bound
  kap_bound margins).
Qed.

Let root_gt0 : 0 < real (root N).
Proof. by case/and5P: signs_ok; rewrite (real_lt R). Qed.

Lemma passes_certifies : exists (S : {vspace 'M[R]_(m, d)}) Ws kappa2,
  certificate stored_input stored_readout stored_target s A S Ws start (bound ^+ 2) kappa2.
Proof.
have power_neq0 k : 2%:R ^+ k != 0 :> R by rewrite lt0r_neq0 // exprn_gt0 // ltr0n.
have unit0 k : 0 < unit k by rewrite invr_gt0 exprn_gt0 // ltr0n.
have scale l : unit (sample_bits N) * (unit (readout_bits N) / real (root N)) * unit (hidden_bits N) * target l
    = stored_target l.
  case/and4P: sizes_ok => _ _ _ /subnK; set k := subn _ _ => k_is.
  have : 2%:R ^+ k * 2%:R ^+ label_bits N = 2%:R ^+ hidden_bits N * 2%:R ^+ readout_bits N * 2%:R ^+ sample_bits N :> R.
    by rewrite -!exprD k_is.
  rewrite /target /label_goal -/k 2!realM real_power /stored_target /unit.
  move: (power_neq0 k) (power_neq0 (hidden_bits N)) (power_neq0 (readout_bits N)) (power_neq0 (sample_bits N)).
  move: (power_neq0 (label_bits N)) (lt0r_neq0 root_gt0) (real (entry _ _ _)) => l0 b0 c.
  move: (2%:R ^+ k) (2%:R ^+ hidden_bits N) (2%:R ^+ readout_bits N) (2%:R ^+ sample_bits N) (2%:R ^+ label_bits N) l0.
  move=> a e f h i i0 a0 e0 f0 h0 a_is; have -> : a = e * f * h / i by rewrite -a_is mulfK.
  by field; rewrite b0 e0 f0 h0 i0.
have := rescaled (unit0 _) (divr_gt0 (unit0 _) root_gt0) (unit0 _) scale stored_integers.
rewrite -exprMn => cert.
by exists (span row), (unit (hidden_bits N) *: fitted W row goal), (fun r l => unit (sample_bits N) ^+ 2 * kap2 r l).
Qed.
End Sound.

(* A checkpoint that is accepted has the certificate, with the D that the witness names. *)
Section Checked.
Variables (dots : seq (seq Z) -> seq Z -> seq Z) (R : realFieldType) (N : network) (w : witness).
Hypothesis right : forall t u, dots t u = plain_dots t u.
Hypothesis accepted : check dots N w.
Local Notation continued := (continued (@stored_input R N) (@stored_readout R N) (@stored_target R N) (start R N)).

Theorem checked : exists (S : {vspace 'M[R]_(width N, features N)}) Ws kappa2,
  certificate (@stored_input R N) (@stored_readout R N) (@stored_target R N) (@frozen_patterns N) (@held_pairs N w)
    S Ws (start R N) (bound R N w ^+ 2) kappa2.
Proof. exact: passes_certifies right accepted. Qed.

Theorem checked_safe eps U spent (b : 'I_(width N) -> R) (z : 'I_(features N) -> R) : 0 <= eps -> continued eps U spent ->
  eps * spent <= bound R N w ^+ 2 /\
  (net b z U - net b z (start R N)) ^+ 2
    <= 4%:R * bound R N w ^+ 2 * (\sum_r b r * b r) * (\sum_j z j * z j).
Proof.
move=> eps0 U_is; have [S [Ws [kappa2 cert]]] := checked.
by split; [exact: total_work cert eps0 _ _ U_is | exact: predictions_stay cert eps0 _ _ _ _ U_is].
Qed.
End Checked.

Lemma bound_is (R : realFieldType) N w claimed k :
  (distance w * power k =? claimed * power (hidden_bits N + bits w))%ZZ -> bound R N w = real R claimed / 2%:R ^+ k.
Proof.
move=> /Z.eqb_eq/(congr1 (real R)); rewrite !realM !real_power exprD /bound /unit.
have two_neq0 j : 2%:R ^+ j != 0 :> R by rewrite lt0r_neq0 // exprn_gt0 // ltr0n.
move: (two_neq0 k) (two_neq0 (hidden_bits N)) (two_neq0 (bits w)) (real R claimed) (real R (distance w)).
move: (2%:R ^+ k) (2%:R ^+ hidden_bits N) (2%:R ^+ bits w) => a b c a0 b0 c0 p q same.
have -> : q = p * (b * c) / a by rewrite -same mulfK.
by field; rewrite a0 b0 c0.
Qed.

Print Assumptions checked.
Print Assumptions checked_safe.
