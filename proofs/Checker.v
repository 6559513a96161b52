(* A program that checks an any-order certificate in integers, and the proof that it is right: what it accepts has the
   certificate of AnyOrder.v, so that every continuation of the training is safe. What it takes are the numbers that
   `ntkfl certify --any-order --export` writes; Digits.v runs it on one export. The step limits that an export claims are
   not checked.

   fl-ntk/any-order rests on it: a checkpoint that passes is an instance of the theorem, with nothing else to believe.

   Numbers are floats, each stored as the integer that is 2^exponent times it. The witness may be anything. *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring zify ssrZ.
Require Import Euclid AnyOrder GramBounds Certificate.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Delimit Scope Z_scope with ZZ.

Record network := Network {
  features : nat;
  hidden : seq (seq Z);         (* a neuron's weights, for each neuron *)
  readouts : seq (seq Z);       (* an output's weights, for each output *)
  samples : seq (seq Z);
  labels : seq (seq Z);         (* a sample's labels, one for each output *)
  exponent : nat;
  root : Z                      (* the outputs are divided by it *)
}.

Record witness := Witness {
  held : seq (seq bool);        (* for each neuron, which samples it holds *)
  bits : nat;                   (* solution, distance and slack are 2^bits times what they stand for *)
  guess : seq Z;
  factor : seq (seq Z);         (* Y *)
  gap : Z;
  distance : Z;
  slack : Z
}.

Section Program.
Variables (N : network) (w : witness).
Local Open Scope Z_scope.

Fixpoint zdot (u v : seq Z) : Z := match u, v with a :: u', b :: v' => a * b + zdot u' v' | _, _ => 0 end.
Definition entry (t : seq (seq Z)) i j : Z := nth 0 (nth [::] t i) j.
Definition products (s t : seq (seq Z)) : seq (seq Z) := [seq [seq zdot u v | v <- t] | u <- s].
Definition power k : Z := Z.pow 2 (Z.of_nat k).

Definition width := size (hidden N).
Definition is_held r i : bool := nth false (nth [::] (held w) r) i.

(* a row of C: its sample, what each neuron has of it, and what W* gives on it *)
Definition kind := (nat * seq Z * Z)%type.
Definition label_kind pres i o : kind :=
  (i, mkseq (fun r => if (0 <=? entry pres r i) && ~~ is_held r i then entry (readouts N) o r else 0) width,
   entry (labels N) i o * (root N * power (exponent N + exponent N))).
Definition held_kind r i : kind := (i, mkseq (fun r' => if r' == r then 1 else 0) width, 0).
Definition kinds pres : seq kind :=
  [seq label_kind pres i o | i <- iota 0 (size (samples N)), o <- iota 0 (size (readouts N))] ++
  flatten [seq [seq held_kind r i | i <- iota 0 (size (samples N)) & is_held r i] | r <- iota 0 width].

Definition gram_table (gx : seq (seq Z)) (ks : seq kind) : seq (seq Z) :=
  [seq [seq entry gx p.1.1 q.1.1 * zdot p.1.2 q.1.2 | q <- ks] | p <- ks].
Definition wants pres (ks : seq kind) : seq Z :=
  [seq p.2 - zdot p.1.2 [seq nth 0 of_neuron p.1.1 | of_neuron <- pres] | p <- ks].
Definition errors ks pres K : seq Z :=
  [seq power (bits w) * p.1 - zdot p.2 (guess w) | p <- zip (wants pres ks) K].
Definition absolute (u : seq Z) : Z := foldr (fun a b => Z.abs a + b) 0 u.
Definition row_outweighs (yk : seq (seq Z)) p : bool :=
  let of_p := [seq zdot y (nth [::] yk p) | y <- factor w] in gap w + absolute of_p <=? 2 * nth 0 of_p p.
Definition image (u : seq Z) : seq Z := [seq zdot y u | y <- factor w].
Definition kink_products gx (ks : seq kind) r i : seq Z := [seq nth 0 p.1.2 r * entry gx p.1.1 i | p <- ks].
Definition reach2 : Z := (distance w + slack w) * (distance w + slack w).
Definition place pres gx ks r i : Z := power (bits w) * entry pres r i + zdot (guess w) (kink_products gx ks r i).
Definition far_enough gx z i : bool := reach2 * entry gx i i <? z * z.
Definition far_by_projection gx ks z r i : bool :=
  let k := image (kink_products gx ks r i) in reach2 * zdot k k <? gap w * (z * z).
(* "if" where "||" would be said: the kernel's machine evaluates both sides of "||" *)
Definition pair_passes pres gx ks r i : bool :=
  if is_held r i then true else
  let z := place pres gx ks r i in
  if (if 0 <=? entry pres r i then 0 <? z else z <? 0)
  then if far_enough gx z i then true else far_by_projection gx ks z r i else false.

Definition passes pres gx ks K : bool :=
  let errs := errors ks pres K in
  let missed := image errs in
  let spent := zdot missed missed in
  let yk := products (factor w) K in
  [&& all (fun x => size x <= features N)%N (samples N), all (fun p : kind => size p.1.2 <= width)%N ks,
      0 <? root N, 0 <? gap w, 0 <=? distance w, 0 <=? slack w, (size (factor w) == size ks),
      all (row_outweighs yk) (iota 0 (size ks)),
      gap w * (power (bits w) * zdot (guess w) (wants pres ks) + zdot (guess w) errs) + spent
        <=? gap w * (distance w * distance w),
      spent <=? gap w * (slack w * slack w) &
      all (fun r => all (pair_passes pres gx ks r) (iota 0 (size (samples N)))) (iota 0 width)].

Definition check : bool :=
  let pres := products (hidden N) (samples N) in
  let gx := products (samples N) (samples N) in
  let ks := kinds pres in
  passes pres gx ks (gram_table gx ks).
End Program.

Local Open Scope ring_scope.

(* A certificate of a network whose numbers are multiples of another's. *)
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
Lemma entry_products s t i j : entry (products s t) i j = zdot (nth [::] s i) (nth [::] t j).
Proof.
rewrite /entry /products; have [le|lt] := leqP (size s) i.
  by rewrite (nth_default [::]) ?size_map // nth_nil [X in zdot X]nth_default.
rewrite (nth_map [::]) //; have [le|lt'] := leqP (size t) j; last by rewrite (nth_map [::]).
by rewrite nth_default ?size_map // [X in zdot _ X]nth_default // zdot0.
Qed.

(* the patterns of relu at the checkpoint, and the held pairs *)
Section Patterns.
Variables (N : network) (w : witness).
Local Notation L := ('I_(size (samples N)) * 'I_(size (readouts N)))%type.
Definition frozen_patterns (r : 'I_(width N)) (l : L) : bool :=
  (0 <=? entry (products (hidden N) (samples N)) r l.1)%ZZ.
Definition held_pairs (r : 'I_(width N)) (l : L) : bool := is_held w r l.1.
End Patterns.

Section Sound.
Variables (R : realFieldType) (N : network) (w : witness).
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
Let target (l : L) : R := real (entry (labels N) l.1 l.2 * (root N * power (exponent N + exponent N)))%ZZ.

(* The network that is stored: f_o(x) = sum_r b_or relu(w_r.x) / root. *)
Definition unit : R := (2%:R ^+ exponent N)^-1.
Definition start : 'M[R]_(m, d) := unit *: W.
Definition stored_input (l : L) j : R := unit * input l j.
Definition stored_readout (l : L) r : R := unit / real (root N) * readout l r.
Definition stored_target (l : L) : R := unit * real (entry (labels N) l.1 l.2).
Definition bound : R := unit * (real (distance w) / 2%:R ^+ bits w).

Let pres := products (hidden N) (samples N).
Let gx := products (samples N) (samples N).
Let ks := kinds N w pres.
Let K := gram_table gx ks.
Local Notation P := 'I_(size ks).
Let none : kind := (0%N, [::], Z0).
Let kind_of (p : P) : kind := nth none ks p.
Let idx p := (kind_of p).1.1.
Let coef p (r : 'I_m) : R := real (nth Z0 (kind_of p).1.2 r).
Let row (p : P) : 'M[R]_(m, d) := rows (x (idx p)) (coef p).
Let goal p : R := real (kind_of p).2.
Local Notation s := (@frozen_patterns N).
Local Notation A := (@held_pairs N w).

Hypothesis ok : passes N w pres gx ks K.
Let short_samples i : (size (nth [::] (samples N) i) <= d)%N.
Proof.
case/and5P: ok => /(all_nthP [::]) short _ _ _ _; have [le|lt] := leqP n i; last exact: short.
by rewrite nth_default.
Qed.
Let short_coefs (p : P) : (size (kind_of p).1.2 <= m)%N.
Proof. by case/and5P: ok => _ /(all_nthP none) short _ _ _; exact: short. Qed.

Let inner i j : R := \sum_k x i k * x j k.
Let real_gx i j : real (entry gx i j) = inner i j.
Proof. by rewrite entry_products (real_dot _ (k := d)) // short_samples. Qed.
Let real_pre (r : 'I_m) i : real (entry pres r i) = pre (x i) W r.
Proof.
rewrite entry_products (real_dot _ (k := d)) ?short_samples ?orbT //.
by apply: eq_bigr => j _; rewrite mxE.
Qed.

Let nth_kind T (f : kind -> T) z (p : P) : nth z [seq f q | q <- ks] p = f (kind_of p).
Proof. by rewrite (nth_map none). Qed.

Let pre_row i q r : pre (x i) (row q) r = coef q r * inner (idx q) i.
Proof. by rewrite /pre /inner mulr_sumr; apply: eq_bigr => j _; rewrite mxE mulrA. Qed.
Let real_gram (p q : P) : real (entry K p q) = gram row p q.
Proof.
rewrite /entry /K /gram_table (nth_kind _ [::]) nth_kind realM real_gx (real_dot _ (k := m)) ?short_coefs //.
rewrite /gram dot_rows mulr_sumr; apply: eq_bigr => r _.
by rewrite pre_row mulrCA; congr (_ * _); rewrite mulrC /inner; congr (_ * _); apply: eq_bigr => j _; rewrite mulrC.
Qed.
Let size_K (p : P) : size (nth [::] K p) = size ks.
Proof. by rewrite /K /gram_table (nth_kind _ [::]) size_map. Qed.

Let nth_wants (p : P) : real (nth Z0 (wants pres ks) p) = wanted W row goal p.
Proof.
rewrite /wants nth_kind realB; congr (_ - _); rewrite (real_dot _ (k := m)) ?short_coefs // dot_rows.
by apply: eq_bigr => r _; rewrite -real_pre /entry (nth_map [::]) // size_map.
Qed.

Let two : R := 2%:R ^+ bits w.
Let two_gt0 : 0 < two. Proof. by rewrite exprn_gt0 // ltr0n. Qed.
Let two0 : two != 0. Proof. exact: lt0r_neq0. Qed.
Let alpha (p : P) : R := real (nth Z0 (guess w) p) / two.

Let of_guess (f : P -> R) : \sum_p f p * real (nth Z0 (guess w) p) = two * \sum_p alpha p * f p.
Proof. by rewrite mulr_sumr; apply: eq_bigr => p _; rewrite /alpha; field. Qed.

Let nth_errors (p : P) : real (nth Z0 (errors w ks pres K) p) = two * error W row goal alpha p.
Proof.
rewrite /errors (nth_map (Z0, [::])) ?size_zip ?size_map ?minnn // nth_zip ?size_map //= realB realM real_power nth_wants.
rewrite (real_dot _ (k := size ks)) ?size_K ?leqnn // -[\sum_(j < _) _]/(\sum_(q : P) _) /error [RHS]mulrBr; congr (_ - _).
rewrite (eq_bigr (fun q => gram row p q * real (nth Z0 (guess w) q))) => [|q _]; last by rewrite -real_gram.
by rewrite of_guess dotC dot_comb; congr (_ * _); apply: eq_bigr => q _; rewrite /gram dotC.
Qed.

Let Y (p q : P) : R := real (entry (factor w) p q).
Let g : R := real (gap w).
Let missed (e : P -> R) : R := (\sum_p (\sum_q Y p q * e q) ^+ 2) / g.
Let size_factor : size (factor w) = size ks.
Proof. by case/and5P: ok => _ _ _ _ /and4P[_ _ /eqP]. Qed.
Let g_gt0 : 0 < g. Proof. by case/and5P: ok => _ _ _; rewrite (real_lt R). Qed.

Let real_image u : size u = size ks ->
  real (zdot (image w u) (image w u)) = \sum_(p : P) (\sum_(q : P) Y p q * real (nth Z0 u q)) ^+ 2.
Proof.
move=> size_u; rewrite (real_dot _ (k := size ks)) ?size_map ?size_factor ?leqnn //.
apply: eq_bigr => p _; rewrite /image (nth_map [::]) ?size_factor // -expr2; congr (_ ^+ 2).
by rewrite (real_dot _ (k := size ks)) // size_u leqnn orbT.
Qed.

Let yk := products (factor w) K.
Let size_yk (p : P) : size (nth [::] yk p) = size ks.
Proof. by rewrite (nth_map [::]) ?size_factor // !size_map. Qed.
Let nth_square (p q : P) : real (zdot (nth [::] (factor w) q) (nth [::] yk p)) = weighted row Y p q.
Proof.
rewrite (real_dot _ (k := size ks)) ?size_yk ?leqnn ?orbT //; apply: eq_bigr => u _; rewrite mulrC; congr (_ * _).
rewrite -/(entry yk p u) entry_products (real_dot _ (k := size ks)) ?size_K ?leqnn ?orbT //.
by apply: eq_bigr => v _; rewrite -/(entry K u v) real_gram /gram dotC.
Qed.
Let outweighs p : g + \sum_(q | q != p) `|weighted row Y p q| <= weighted row Y p p.
Proof.
have : row_outweighs w yk p.
  case/and5P: ok => _ _ _ _ /and5P[_ _ _ /allP each _]; apply: each.
  by rewrite mem_iota add0n /=.
rewrite /row_outweighs (real_le R) realD realM (real_absolute _ (k := size ks)) ?size_map ?size_factor //.
have square (q : P) : real (nth Z0 [seq zdot y (nth [::] yk p) | y <- factor w] q) = weighted row Y p q.
  by rewrite (nth_map [::]) ?size_factor // nth_square.
rewrite square (eq_bigr (fun q => `|weighted row Y p q|)) => [|q _]; last by rewrite square.
rewrite (bigD1 p) //= -[real 2%ZZ]/(2%:R) mulr_natl mulr2n addrCA => le.
by rewrite -(ler_add2l (weighted row Y p p)); apply: le_trans le; rewrite ler_add2r ler_norm.
Qed.

Let D : R := real (distance w) / two.
Let sigma : R := real (slack w) / two.
Let D_ge0 : 0 <= D.
Proof. apply: divr_ge0; last exact: ltW. by case/and5P: ok => _ _ _ _ /and3P[+ _ _]; rewrite (real_le R). Qed.
Let sigma_ge0 : 0 <= sigma.
Proof. apply: divr_ge0; last exact: ltW. by case/and5P: ok => _ _ _ _ /and3P[_ + _]; rewrite (real_le R). Qed.

Let spent : real (zdot (image w (errors w ks pres K)) (image w (errors w ks pres K)))
  = two ^+ 2 * (g * missed (error W row goal alpha)).
Proof.
rewrite real_image ?size_map ?size_zip ?size_map ?minnn // /missed [g * _]mulrC divfK ?lt0r_neq0 // mulr_sumr.
apply: eq_bigr => p _; rewrite -exprMn mulr_sumr; congr (_ ^+ 2); apply: eq_bigr => q _.
by rewrite nth_errors mulrCA.
Qed.
Let two2_gt0 : 0 < two ^+ 2. Proof. exact: exprn_gt0. Qed.

Let slack_bound : missed (error W row goal alpha) <= sigma ^+ 2.
Proof.
case/and5P: ok => _ _ _ _ /and5P[_ _ _ _ /and3P[_ + _]]; rewrite (real_le R) spent 2!realM.
rewrite mulrCA ler_pmul2l // /sigma expr_div_n ler_pdivl_mulr // mulrC expr2.
by [].
Qed.

Let D_bound : energy row missed alpha (wanted W row goal) <= D ^+ 2.
Proof.
case/and5P: ok => _ _ _ _ /and5P[_ _ _ _ /and3P[+ _ _]]; rewrite (real_le R) realD spent !realM realD realM real_power.
rewrite !(real_dot _ (k := size ks)) ?size_map ?size_zip ?size_map ?minnn ?leqnn ?orbT //.
under eq_bigr do rewrite mulrC nth_wants; under [X in g * (_ + X)]eq_bigr do rewrite mulrC nth_errors.
rewrite -/two !of_guess.
have -> : \sum_p alpha p * (two * error W row goal alpha p) = two * \sum_p alpha p * error W row goal alpha p.
  by rewrite mulr_sumr; apply: eq_bigr => p _; rewrite mulrCA.
rewrite -!/g; set a := \sum_p _; set b := \sum_p _; set c := missed _ => le.
rewrite /energy -/(error W row goal alpha) -/a -/b -/c /D expr_div_n ler_pdivl_mulr // -(ler_pmul2l g_gt0).
by rewrite expr2; apply: le_trans le; rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.
Let kind_at k : k \in ks -> exists p, kind_of p = k.
Proof. by case/(nthP none) => p lt <-; exists (Ordinal lt). Qed.

Let label_row (l : L) : exists2 p, row p = phi input readout s A l & goal p = target l.
Proof.
have [|p p_is] := @kind_at (label_kind N w pres l.1 l.2).
  by rewrite mem_cat; apply/orP; left; apply: allpairs_f; rewrite mem_iota add0n /=.
exists p; last by rewrite /goal p_is.
apply/matrixP => r j; rewrite !mxE /coef /idx p_is nth_mkseq // /held_pairs /frozen_patterns andbC; congr (_ * _).
by case: (_ && _); rewrite ?mulr1 ?mulr0.
Qed.

Let held_row (r : 'I_m) (l : L) : A r l -> exists2 p, row p = kink (input l) r & goal p = 0.
Proof.
move=> on; have [|p p_is] := @kind_at (held_kind N r l.1).
  rewrite mem_cat; apply/orP; right; apply/flattenP; exists [seq held_kind N r i | i <- iota 0 n & is_held w r i].
    by apply/mapP; exists (r : nat) => //; rewrite mem_iota add0n /=.
  by apply: map_f; rewrite mem_filter mem_iota add0n /= ltn_ord andbT.
exists p; last by rewrite /goal p_is.
apply/matrixP => r' j; rewrite !mxE /coef /idx p_is nth_mkseq //; congr (_ * _).
by rewrite -val_eqE /=; case: eqP.
Qed.

(* the products of the rows with a kink *)
Let product (r : 'I_m) (l : L) (p : P) : R := dot (row p) (kink (input l) r).
Let nth_products (r : 'I_m) (l : L) (p : P) : real (nth Z0 (kink_products gx ks r l.1) p) = product r l p.
Proof. by rewrite /kink_products nth_kind realM real_gx /product dotC dot_kink pre_row. Qed.
Let size_products r i : size (kink_products gx ks r i) = size ks. Proof. by rewrite size_map. Qed.

Let point (r : 'I_m) (l : L) : real (place w pres gx ks r l.1) = two * pre (input l) (computed W row alpha) r.
Proof.
rewrite /place realD realM real_power real_pre (real_dot _ (k := size ks)) ?size_products ?leqnn ?orbT //.
rewrite /computed preD mulrDr; congr (_ + _).
under eq_bigr do rewrite mulrC nth_products; rewrite of_guess; congr (_ * _).
by rewrite -dot_kink dotC dot_comb.
Qed.

Let kap2 (r : 'I_m) (l : L) : R :=
  if far_enough w gx (place w pres gx ks r l.1) l.1 then inner l.1 l.1 else missed (product r l).
Let kap_bound (r : 'I_m) (l : L) : ~~ A r l -> \sum_j input l j ^+ 2 <= kap2 r l \/
  exists h, energy row missed h (product r l) <= kap2 r l.
Proof.
move=> _; rewrite /kap2; case: ifP => _; [left | right].
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => j _; rewrite expr2.
exists (fun=> 0); rewrite /energy !big1 ?add0r => [|p _|p _]; try by rewrite mul0r.
rewrite le_eqVlt; apply/orP; left; apply/eqP; congr (_ / _); apply: eq_bigr => p _; congr (_ ^+ 2).
apply: eq_bigr => q _; congr (_ * _); rewrite /comb big1 => [|u _]; last by rewrite scale0r.
by rewrite dotC dot0l subr0.
Qed.

Let reach : real (reach2 w) = two ^+ 2 * (D + sigma) ^+ 2.
Proof. by rewrite realM !realD /D /sigma; field. Qed.

Let margins (r : 'I_m) (l : L) : ~~ A r l -> let z := pre (input l) (computed W row alpha) r in
  (if s r l then 0 < z else z < 0) /\ (D + sigma) ^+ 2 * kap2 r l < z ^+ 2.
Proof.
move=> off z; have : pair_passes w pres gx ks r l.1.
  case/and5P: ok => _ _ _ _ /and5P[_ _ _ _ /and3P[_ _ /allP each]].
  by apply: (allP (each _ _)); rewrite mem_iota add0n /=.
rewrite /pair_passes -/(held_pairs w r l) (negbTE off) => /andP[side far]; split.
  by move: side; rewrite /frozen_patterns; case: ifP => _; rewrite (real_lt R) point ?pmulr_rgt0 ?pmulr_rlt0.
have squares : two * z * (two * z) = two ^+ 2 * z ^+ 2 by ring.
move: far; rewrite /kap2; case: ifP => [+ _|_].
  by rewrite /far_enough (real_lt R) (realM _ (reach2 w)) reach realM real_gx point squares -mulrA ltr_pmul2l.
rewrite /far_by_projection (real_lt R) (realM _ (reach2 w)) real_image // reach (realM _ (gap w)) realM point squares.
under eq_bigr do under eq_bigr do rewrite nth_products.
have -> : real (gap w) * (two ^+ 2 * z ^+ 2) = two ^+ 2 * (z ^+ 2 * g) by rewrite /g; ring.
by rewrite -mulrA ltr_pmul2l // /missed mulrA ltr_pdivr_mulr.
Qed.

Let stored_integers : certificate input readout target s A (span row) (fitted W row goal) W (D ^+ 2) kap2.
Proof.
have definite := witness_definite g_gt0 outweighs.
exact: (certified label_row held_row definite (witness_misses g_gt0 outweighs) D_ge0 sigma_ge0 D_bound slack_bound
  kap_bound margins).
Qed.

Let root_gt0 : 0 < real (root N).
Proof. by case/and5P: ok => _ _; rewrite (real_lt R). Qed.

Lemma passes_certifies : exists (S : {vspace 'M[R]_(m, d)}) Ws kappa2,
  certificate stored_input stored_readout stored_target s A S Ws start (bound ^+ 2) kappa2.
Proof.
have unit0 : 0 < unit by rewrite invr_gt0 exprn_gt0 // ltr0n.
have scale l : unit * (unit / real (root N)) * unit * target l = stored_target l.
  have e0 : 2%:R ^+ exponent N != 0 :> R by rewrite lt0r_neq0 // exprn_gt0 // ltr0n.
  rewrite /target 2!realM real_power exprD /stored_target /unit.
  move: (2%:R ^+ exponent N) e0 (real (root N)) (lt0r_neq0 root_gt0) (real (entry _ _ _)) => a a0 b b0 c.
  by field; rewrite a0 b0.
have := rescaled unit0 (divr_gt0 unit0 root_gt0) unit0 scale stored_integers.
rewrite -exprMn => cert; exists (span row), (unit *: fitted W row goal), (fun r l => unit ^+ 2 * kap2 r l).
exact: cert.
Qed.
End Sound.

(* What is accepted has the certificate, with the D that the witness says. *)
Section Checked.
Variables (R : realFieldType) (N : network) (w : witness).
Hypothesis accepted : check N w.
Local Notation continued := (continued (@stored_input R N) (@stored_readout R N) (@stored_target R N) (start R N)).

Theorem checked : exists (S : {vspace 'M[R]_(width N, features N)}) Ws kappa2,
  certificate (@stored_input R N) (@stored_readout R N) (@stored_target R N) (@frozen_patterns N) (@held_pairs N w)
    S Ws (start R N) (bound R N w ^+ 2) kappa2.
Proof. exact: passes_certifies accepted. Qed.

Theorem checked_safe eps U spent (b : 'I_(width N) -> R) (z : 'I_(features N) -> R) : 0 <= eps -> continued eps U spent ->
  eps * spent <= bound R N w ^+ 2 /\
  (net b z U - net b z (start R N)) ^+ 2
    <= 4%:R * bound R N w ^+ 2 * (\sum_r b r * b r) * (\sum_j z j * z j).
Proof.
move=> eps0 U_is; have [S [Ws [kappa2 cert]]] := checked.
by split; [exact: total_work cert eps0 _ _ U_is | exact: predictions_stay cert eps0 _ _ _ _ U_is].
Qed.

Lemma bound_is claimed k : (distance w * power k =? claimed * power (exponent N + bits w))%ZZ ->
  bound R N w = real R claimed / 2%:R ^+ k.
Proof.
move=> /Z.eqb_eq/(congr1 (real R)); rewrite !realM !real_power exprD /bound /unit.
have two_neq0 j : 2%:R ^+ j != 0 :> R by rewrite lt0r_neq0 // exprn_gt0 // ltr0n.
move: (two_neq0 k) (two_neq0 (exponent N)) (two_neq0 (bits w)) (real R claimed) (real R (distance w)).
move: (2%:R ^+ k) (2%:R ^+ exponent N) (2%:R ^+ bits w) => a b c a0 b0 c0 p q same.
have -> : q = p * (b * c) / a by rewrite -same mulfK.
by field; rewrite a0 b0 c0.
Qed.
End Checked.

Print Assumptions checked.
Print Assumptions checked_safe.
