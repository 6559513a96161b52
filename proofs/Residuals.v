(* From a certified checkpoint the residuals at the beginning of windows tend to 0, without any assumption about a rate.
   The theorem few_large_residuals bounds the number of windows that begin with a large residual. The theorem
   residuals_tend_to_0 states the limit with epsilon and delta, over an archimedean ordered field.

   The statement fl-ntk/any-order rests on this file for its claim that the residual tends to 0 if every sample is used
   again and again.

   A window is any piece of training in which the step sizes of every label sum to at least eta. It may be a shuffled
   epoch, or some rounds of a server with any batches and any share of the clients. A window has at most k steps on the
   path of any one model. Two things are not proved here: the case that the numbers of steps between the uses of a label
   are not bounded by any k, and claims about residuals within a window. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid AnyOrder.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Windows.
Variables (R : archiFieldType) (m d : nat) (L : finType).
Local Notation weights := 'M[R]_(m, d).
Variables (input : L -> 'I_d -> R) (readout : L -> 'I_m -> R) (target : L -> R).
Variables (s A : 'I_m -> L -> bool).
Variables (S : {vspace weights}) (Ws W0 : weights) (D2 eps : R) (kap2 : 'I_m -> L -> R).
Hypothesis cert : certificate input readout target s A S Ws W0 D2 kap2.
Hypothesis eps_gt0 : 0 < eps.
Local Notation res := (res input readout target).
Local Notation work := (work input readout target).
Local Notation move := (move input readout target).
Local Notation allowed := (allowed input readout target eps).
Local Notation continued := (continued input readout target W0 eps).

Variables (longest : R) (size2 : R).
(* No step is longer than `longest`, and |readout|^2 |input|^2 is at most size2. *)
Hypothesis longest_ge0 : 0 <= longest.
Hypothesis size2_ge0 : 0 <= size2.
Hypothesis sizes : forall l, (\sum_r readout l r * readout l r) * (\sum_j input l j * input l j) <= size2.

(* (window U V k w v) says that training leads from U to V by at most k steps on every path. The sum of eta r^2 over its
   steps is w, and the step sizes of label l sum to v l. In a mean of models, both sums are weighted by the weights of
   the models. *)
Inductive window (U : weights) : weights -> nat -> R -> (L -> R) -> Prop :=
| Here : window U U 0 0 (fun=> 0)
| Stepped V k w v g c : window U V k w v -> allowed V g c -> (forall l, c l <= longest) ->
    window U (V + move V g c) k.+1 (w + work V c) (fun l => v l + c l)
| Averaged k n (p : 'I_n -> R) Vs ks ws vs : is_mean p -> (forall a, window U (Vs a) (ks a) (ws a) (vs a)) ->
    (forall a, (ks a <= k)%N) -> window U (\sum_a p a *: Vs a) k (\sum_a p a * ws a) (fun l => \sum_a p a * vs a l).

Lemma window_continued U u V k w v : continued U u -> window U V k w v -> continued V (u + w).
Proof.
move=> before; elim=> [|V' k' w' v' g c _ IH ok _|k' n p Vs ks ws vs mean _ IH _]; first by rewrite addr0.
- by rewrite addrA; exact: Step.
- have -> : u + \sum_a p a * ws a = \sum_a p a * (u + ws a).
    by under [RHS]eq_bigr do rewrite mulrDr; rewrite big_split /= -mulr_suml; case: mean => _ ->; rewrite mul1r.
  exact: Mean.
Qed.

Lemma res_moves U V l : res U l ^+ 2 <= (res V l ^+ 2 + size2 * norm2 (V - U)) *+ 2.
Proof.
have lip : (res U l - res V l) ^+ 2 <= size2 * norm2 (V - U).
  have -> : res U l - res V l = net (readout l) (input l) V - net (readout l) (input l) U by rewrite /res; ring.
  by apply: (le_trans (net_lip _ _ _ _)); rewrite mulrCA mulrC ler_wpmul2r ?norm2_ge0 ?sizes.
apply: (@le_trans _ _ ((res V l ^+ 2 + (res U l - res V l) ^+ 2) *+ 2)); last by rewrite ler_pmuln2r // ler_add2l.
rewrite -subr_ge0; set a := res U l; set b := res V l.
have -> : (b ^+ 2 + (a - b) ^+ 2) *+ 2 - a ^+ 2 = (a - b *+ 2) ^+ 2 by rewrite !mulr2n; ring.
exact: sqr_ge0.
Qed.

Lemma norm2D_weighted (U V : weights) (k : nat) : k.+1%:R * norm2 U + (k.+1%:R * k%:R) * norm2 V >= k%:R * norm2 (U + V).
Proof.
rewrite -subr_ge0.
suff -> : k.+1%:R * norm2 U + k.+1%:R * k%:R * norm2 V - k%:R * norm2 (U + V) = norm2 (U - k%:R *: V).
  exact: norm2_ge0.
by rewrite norm2D norm2B norm2Z dotZr -(addn1 k) (natrD _ k) !mulr2n; ring.
Qed.

(* A bound of how far a window moves, and a lower bound of its sum of eta r^2 by a residual at its start. *)
Lemma window_bounds U V k w v : window U V k w v ->
  [/\ 0 <= w, norm2 (V - U) <= 2%:R * k%:R * w &
   forall l, v l * res U l ^+ 2 <= (2%:R + 4%:R * size2 * longest * k%:R ^+ 2) * w].
Proof.
elim=> [|V' k' w' v' g c _ [w0 near spent] [ok c0 small] short|k' n p Vs ks ws vs mean _ IH le_k].
- split=> [||l]; rewrite ?mulr0 ?mul0r //.
  by rewrite subrr /norm2 dot0l.
- have work0 := work_ge0 input readout target V' c0.
  split; first by rewrite addr_ge0.
  + have step : norm2 (move V' g c) <= 2%:R * work V' c.
      by apply: (le_trans small); rewrite ler_wpmul2r // ler_subl_addr ler_addl ltW.
    have -> : V' + move V' g c - U = (V' - U) + move V' g c by rewrite addrAC.
    case: k' near {spent} => [|k'] near.
      have -> : V' - U = 0 by apply: norm2_eq0; apply/eqP; rewrite eq_le norm2_ge0 andbT; rewrite mulr0 mul0r in near.
      rewrite add0r mulr1; apply: (le_trans step).
      by rewrite ler_wpmul2l ?ler0n // ler_addr.
    have k0 : 0 < k'.+1%:R :> R by rewrite ltr0n.
    rewrite -(ler_pmul2l k0); apply: (le_trans (norm2D_weighted _ _ _)).
    have -> : k'.+1%:R * (2%:R * k'.+2%:R * (w' + work V' c))
        = k'.+2%:R * (2%:R * k'.+1%:R * w') + k'.+2%:R * k'.+1%:R * (2%:R * work V' c) :> R by ring.
    by apply: ler_add; rewrite ler_wpmul2l // ?mulr_ge0 ?ler0n.
  + move=> l; rewrite (mulrDl (v' l)).
    have here : c l * res U l ^+ 2 <= 2%:R * work V' c + 4%:R * size2 * longest * k'%:R * w'.
      apply: (@le_trans _ _ (c l * ((res V' l ^+ 2 + size2 * norm2 (V' - U)) *+ 2))).
        by rewrite ler_wpmul2l // res_moves.
      have -> : c l * ((res V' l ^+ 2 + size2 * norm2 (V' - U)) *+ 2)
          = 2%:R * (c l * res V' l ^+ 2) + 2%:R * size2 * (c l * norm2 (V' - U)) by rewrite mulr2n; ring.
      apply: ler_add.
        rewrite ler_wpmul2l ?ler0n // /work (bigD1 l) //= ler_addl; apply: sumr_ge0 => l' _; by rewrite mulr_ge0 ?sqr_ge0.
      have -> : 4%:R * size2 * longest * k'%:R * w' = 2%:R * size2 * (longest * (2%:R * k'%:R * w')) by ring.
      by rewrite ler_wpmul2l ?mulr_ge0 ?ler0n // ler_pmul ?norm2_ge0.
    apply: (le_trans (ler_add (spent l) here)).
    have room : 0 <= 4%:R * size2 * longest by rewrite !mulr_ge0 ?ler0n.
    rewrite -subr_ge0 -(addn1 k') (natrD _ k').
    have -> : (2%:R + 4%:R * size2 * longest * (k'%:R + 1) ^+ 2) * (w' + work V' c)
        - ((2%:R + 4%:R * size2 * longest * k'%:R ^+ 2) * w' + (2%:R * work V' c + 4%:R * size2 * longest * k'%:R * w'))
        = 4%:R * size2 * longest * ((k'%:R + 1) * w' + (k'%:R + 1) ^+ 2 * work V' c) by ring.
    by rewrite mulr_ge0 // addr_ge0 // mulr_ge0 ?exprn_ge0 ?addr_ge0 ?ler0n ?ler01.
- have [p0 p1] := mean.
  split; first by apply: sumr_ge0 => a _; rewrite mulr_ge0 //; case: (IH a).
  + apply: (le_trans (mean_closer _ _ mean)); rewrite mulr_sumr; apply: ler_sum => a _.
    have [w0 near _] := IH a; rewrite mulrCA ler_wpmul2l //; apply: (le_trans near).
    by rewrite ler_wpmul2r // ler_wpmul2l ?ler0n // ler_nat.
  + move=> l; rewrite mulr_suml mulr_sumr; apply: ler_sum => a _.
    have [w0 _ spent] := IH a; rewrite -mulrA [leRHS]mulrCA ler_wpmul2l //; apply: (le_trans (spent l)).
    rewrite ler_wpmul2r // ler_add2l ler_wpmul2l ?mulr_ge0 ?ler0n //.
    by rewrite ler_expn2r ?nnegrE ?ler0n ?ler_nat.
Qed.

Variables (k : nat) (eta : R).
Variables (Us : nat -> weights) (ws : nat -> R) (vs : nat -> L -> R) (u0 : R).
Hypothesis eta_gt0 : 0 < eta.
Hypothesis begins : continued (Us 0%N) u0.
Hypothesis windows : forall t, window (Us t) (Us t.+1) k (ws t) (vs t).
Hypothesis visits : forall t l, eta <= vs t l.

Definition large delta t := [exists l, delta <= res (Us t) l ^+ 2].

Lemma spent_in_all T : continued (Us T) (u0 + \sum_(t < T) ws t).
Proof.
elim: T => [|T IH]; first by rewrite big_ord0 addr0.
by rewrite big_ord_recr /= addrA; exact: window_continued IH (windows T).
Qed.

Lemma continued_ge0 U w : continued U w -> 0 <= w.
Proof.
elim=> [|V w' g c _ w0 [_ c0 _]|n p Vs ws' [p0 _] _ IH] //.
- by rewrite addr_ge0 // work_ge0.
- by apply: sumr_ge0 => a _; rewrite mulr_ge0.
Qed.

Definition rate : R := 2%:R + 4%:R * size2 * longest * k%:R ^+ 2.

Theorem few_large_residuals delta T : 0 <= delta ->
  (\sum_(t < T) large delta t)%N%:R * (eps * eta * delta) <= rate * D2.
Proof.
move=> delta0.
have rate0 : 0 <= rate by rewrite addr_ge0 ?ler0n // !mulr_ge0 ?exprn_ge0 ?ler0n.
have each t : (large delta t)%:R * (eta * delta) <= rate * ws t.
  have [w0 _ spent] := window_bounds (windows t).
  rewrite /large; case: existsP => [[l big]|_] /=; last by rewrite mul0r mulr_ge0.
  rewrite mul1r; apply: (le_trans _ (spent l)).
  by apply: ler_pmul => //; exact: ltW.
rewrite natr_sum mulr_suml.
apply: (@le_trans _ _ (\sum_(t < T) eps * (rate * ws t))).
  by apply: ler_sum => t _; rewrite -mulrA mulrCA ler_wpmul2l // ltW.
rewrite -mulr_sumr -mulr_sumr mulrCA ler_wpmul2l //.
apply: le_trans (total_work cert (ltW eps_gt0) (spent_in_all T)).
apply: ler_wpmul2l; first exact: ltW.
by rewrite ler_addr (continued_ge0 begins).
Qed.

(* For no delta > 0 do infinitely many windows begin with a squared residual of at least delta. *)
Theorem not_infinitely_often delta : 0 < delta ->
  ~ (forall t0, exists2 t, (t0 <= t)%N & exists l, delta <= res (Us t) l ^+ 2).
Proof.
move=> delta0 often.
have unit0 : 0 < eps * eta * delta by rewrite !mulr_gt0.
have many n : exists T, (n <= \sum_(t < T) large delta t)%N.
  elim: n => [|n [T le_n]]; first by exists 0%N.
  have [t le_t [l big]] := often T; exists t.+1.
  rewrite big_ord_recr /= addnC.
  have -> : large delta t by apply/existsP; exists l.
  rewrite add1n ltnS; apply: (leq_trans le_n).
  rewrite -(subnKC le_t) big_split_ord /=; exact: leq_addr.
pose n := Num.bound (rate * D2 / (eps * eta * delta)).
have [T le_n] := many n.
have few := few_large_residuals T (ltW delta0).
have rate0 : 0 <= rate by rewrite addr_ge0 ?ler0n // !mulr_ge0 ?exprn_ge0 ?ler0n.
have D0 : 0 <= D2 := le_trans (norm2_ge0 _) (start_near cert).
have quotient0 : 0 <= rate * D2 / (eps * eta * delta) by rewrite divr_ge0 ?mulr_ge0 // ltW.
have := archi_boundP quotient0; rewrite -/n ltr_pdivr_mulr // => above.
have enough : n%:R * (eps * eta * delta) <= (\sum_(t < T) large delta t)%N%:R * (eps * eta * delta).
  by apply: ler_wpmul2r; [exact: ltW | rewrite ler_nat].
by have := lt_le_trans above (le_trans enough few); rewrite ltxx.
Qed.

(* The limit. Its first premise is the law of excluded middle, which few_large_residuals does not need. *)
Theorem residuals_tend_to_0 (decide : forall P : Prop, P \/ ~ P) delta : 0 < delta ->
  exists t0, forall t, (t0 <= t)%N -> forall l, res (Us t) l ^+ 2 < delta.
Proof.
move=> delta0; case: (decide (exists t0, forall t, (t0 <= t)%N -> forall l, res (Us t) l ^+ 2 < delta)) => // never.
case: (not_infinitely_often delta0) => t0.
case: (decide (exists2 t, (t0 <= t)%N & exists l, delta <= res (Us t) l ^+ 2)) => // none.
case: never; exists t0 => t le_t l; rewrite ltNge; apply/negP => big.
by case: none; exists t => //; exists l.
Qed.

End Windows.

Print Assumptions few_large_residuals.
Print Assumptions not_infinitely_often.
Print Assumptions residuals_tend_to_0.
