(* A round of FedAvg on a model that is linear in its weights is a linear map of the residual, and not the map of as many
   steps of gradient descent on all the data.

   Five statements rest on this file: fl-ntk/X.1 on round_map, fl-ntk/Alg1-update (repaired, k = 0..K-1) on
   averaged_update, and fl-ntk/C.10 on movement_stays. The stated form of fl-ntk/centralised (T3 of Jian and Liu as
   reported to us) fails by not_centralised: with two local steps the maps differ for every invertible kernel whose trace
   is not 0, for two or more clients and every step except 0. The stated form of fl-ntk/Eq18 fails by remainder_stays: on
   one sample with limit kernel 1/2, at infinite width a round differs from I - rho H by a fixed part of the residual. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Algorithm 1: K local steps of each client along its own gradient (any function), then the mean of their displacements. *)
Section Algorithm1.
Variables (R : fieldType) (weights : lmodType R) (N K : nat) (gradient : 'I_N -> weights -> weights) (eta : R).

Definition local c k w := iter k (fun v => v - eta *: gradient c v) w.
Definition update w := N%:R^-1 *: \sum_c (local c K w - w).

Theorem averaged_update w : update w = - (eta / N%:R) *: \sum_c \sum_(k < K) gradient c (local c k w).
Proof.
have moved c k : local c k w - w = - eta *: \sum_(j < k) gradient c (local c j w).
  elim: k => [|k IH]; first by rewrite subrr big_ord0 scaler0.
  by rewrite /local iterS -/(local c k w) big_ord_recr /= addrAC IH scalerDr !scaleNr.
rewrite /update (eq_bigr _ (fun c _ => moved c K)) -scaler_sumr scalerA.
by rewrite mulrN mulrC.
Qed.
End Algorithm1.

(* The features Phi have one row for each sample, and there is any number of outputs. own c is 1 on the samples of
   client c. The local loss is half the sum of squares over the client's samples. *)
Section Linear.
Variables (R : numFieldType) (n p o N K : nat) (Phi : 'M[R]_(n, p)) (y : 'M[R]_(n, o)).
Variables (own : 'I_N -> 'M[R]_n) (eta eta_g : R).
Definition H : 'M[R]_n := Phi *m Phi^T.
Definition residual (w : 'M[R]_(p, o)) : 'M[R]_(n, o) := y - Phi *m w.
Definition client_gradient c w : 'M[R]_(p, o) := - (Phi^T *m (own c *m residual w)).
Definition round w : 'M[R]_(p, o) := w + eta_g *: update K client_gradient eta w.

(* The function f_k of the client's block q, computed by f <- f + eta (1 - q f) from f = 0. *)
Definition response c k : 'M[R]_n := iter k (fun P => P + eta *: (own c *m (1%:M - H *m P))) 0.
Definition M : 'M[R]_n := 1%:M - (eta_g / N%:R) *: (H *m \sum_c response c K).

Lemma local_response c k w : local client_gradient eta c k w = w + Phi^T *m (response c k *m residual w).
Proof.
elim: k => [|k IH]; first by rewrite mul0mx mulmx0 addr0.
rewrite /local iterS -/(local client_gradient eta c k w) IH /client_gradient scalerN opprK -addrA; congr (_ + _).
rewrite /response iterS -/(response c k) mulmxDl mulmxDr; congr (_ + _).
rewrite -scalemxAl -scalemxAr; congr (_ *: (_ *m _)); rewrite -mulmxA; congr (_ *m _).
by rewrite mulmxBl mul1mx {1}/residual mulmxDr opprD addrA /H -!mulmxA.
Qed.

Theorem round_map w : residual (round w) = M *m residual w.
Proof.
rewrite {1}/residual /round mulmxDr opprD addrA -/(residual w) /M mulmxBl mul1mx; congr (_ - _).
rewrite /update scalerA -scalemxAr -scalemxAl; congr (_ *: _).
rewrite (eq_bigr (fun c => Phi^T *m (response c K *m residual w))) => [|c _]; last first.
  by rewrite local_response addrAC subrr add0r.
by rewrite -mulmx_sumr -mulmx_suml /H !mulmxA.
Qed.

(* The closed form q f_k = 1 - (1 - eta q)^k on the client's block. *)
Theorem response_closed c k : own c *m own c = own c ->
  own c - own c *m H *m response c k = iter k (mulmx (1%:M - eta *: (own c *m H *m own c))) (own c).
Proof.
move=> idem; elim: k => [|k IH]; first by rewrite mulmx0 subr0.
rewrite iterS -IH /response iterS -/(response c k); set P := response c k.
rewrite mulmxBl mul1mx -scalemxAl mulmxDr opprD addrA; congr (_ - _).
rewrite -scalemxAr; congr (_ *: _).
rewrite !mulmxBr mulmx1 -!mulmxA; congr (_ - _); first by rewrite idem.
by rewrite [own c *m (own c *m _)]mulmxA idem.
Qed.
End Linear.

Lemma difference (R : fieldType) (a e q x y z : R) : q != 0 ->
  a - 1 / q * ((e + e) * z - e ^+ 2 * x) - (a - e / q * z - e / q * (z - e / q * y)) = (e / q) ^+ 2 * (q * x - y).
Proof. by move=> q0; field. Qed.

(* K steps of gradient descent on all the data with the step eta/N, as in T3 *)
Definition centralised_map (R : numFieldType) n p (Phi : 'M[R]_(n, p)) (N K : nat) (eta : R) : 'M[R]_n :=
  iter K (mulmx (1%:M - (eta / N%:R) *: H Phi)) 1%:M.

Section TwoSteps.
Variables (R : numFieldType) (n p N : nat) (Phi : 'M[R]_(n, p)) (owner : 'I_n -> 'I_N) (eta : R).
Definition owned c : 'M[R]_n := \matrix_(i, j) ((i == j) && (owner i == c))%:R.
Definition blocks : 'M[R]_n := \matrix_(i, j) (if owner i == owner j then H Phi i j else 0).

Lemma sum_owned : \sum_c owned c = 1%:M.
Proof.
apply/matrixP => i j; rewrite summxE mxE (bigD1 (owner i)) //= big1 => [|c ne]; last first.
  by rewrite mxE [owner i == c]eq_sym (negbTE ne) andbF.
by rewrite mxE eqxx andbT addr0.
Qed.

Lemma sum_blocks : \sum_c owned c *m H Phi *m owned c = blocks.
Proof.
have entry c i j : (owned c *m H Phi *m owned c) i j = (if (owner i == c) && (owner j == c) then H Phi i j else 0).
  rewrite mxE (bigD1 j) //= big1 => [|k ne]; last by rewrite [owned c k j]mxE (negbTE ne) mulr0.
  rewrite mxE (bigD1 i) //= big1 => [|k ne]; last by rewrite mxE eq_sym (negbTE ne) mul0r.
  rewrite !mxE !eqxx /= !addr0; case: (owner i == c); case: (owner j == c); by rewrite ?mul1r ?mul0r ?mulr1 ?mulr0.
apply/matrixP => i j; rewrite summxE mxE (eq_bigr _ (fun c _ => entry c i j)) (bigD1 (owner i)) //= eqxx /=.
rewrite big1 ?addr0 => [|c ne]; first by rewrite eq_sym.
by rewrite eq_sym (negbTE ne).
Qed.

Theorem not_centralised : (1 < N)%N -> eta != 0 -> H Phi \in unitmx -> \tr (H Phi) != 0 ->
  M 2 Phi owned eta 1 != centralised_map Phi N 2 eta.
Proof.
move=> N2 eta0 inv tr0; apply/eqP => same.
have N0 : N%:R != 0 :> R by rewrite pnatr_eq0 -lt0n (ltn_trans _ N2).
have two_steps : \sum_c response Phi owned eta c 2 = (eta *+ 2) *: 1%:M - eta ^+ 2 *: blocks.
  rewrite -sum_blocks -sum_owned 2!scaler_sumr -sumrB; apply: eq_bigr => c _.
  rewrite /response /= mulmx0 subr0 mulmx1 add0r mulmxBr mulmx1 scalerBr addrA -scalerDl -mulr2n; congr (_ - _).
  by rewrite -!scalemxAr scalerA -expr2 mulmxA.
pose HB := H Phi *m blocks; pose HH := H Phi *m H Phi; pose q := eta / N%:R.
have apart : M 2 Phi owned eta 1 - centralised_map Phi N 2 eta = q ^+ 2 *: (N%:R *: HB - HH).
  rewrite /M /centralised_map /= mulmx1 two_steps mulmxBr mulmxBl !mul1mx -!scalemxAr -scalemxAl mulmx1 mulmxBr.
  rewrite -!scalemxAr mulmx1 -/HB -/HH -/q /q; move: HB HH (H Phi) => X Y Z.
  by apply/matrixP => i j; rewrite !mxE mulr2n; exact: difference.
have q0 : q ^+ 2 != 0 by rewrite expf_neq0 // mulf_neq0 // invr_eq0.
have HNB : H Phi *m (N%:R *: blocks) = H Phi *m H Phi.
  apply/eqP; rewrite -subr_eq0 -scalemxAr -/HB -/HH; apply/eqP.
  by apply: (scalerI q0); rewrite -apart same subrr scaler0.
have equal : N%:R *: blocks = H Phi by rewrite -[LHS](mulKmx inv) HNB mulKmx.
have traces : \tr blocks = \tr (H Phi) by apply: eq_bigr => i _; rewrite mxE eqxx.
have := congr1 mxtrace equal; rewrite mxtraceZ traces -[RHS]mul1r => /(mulIf tr0)/eqP.
by rewrite (eqr_nat _ N 1) => /eqP N1; rewrite N1 in N2.
Qed.
End TwoSteps.

(* The difference between a round and I - rho H, rho = eta_g eta K/N, on the residual r. There is one client with one
   sample of length 1, whose limit kernel is 1/2; K = 2, and steps are 1. The features are sqrt(1/2) times a vector of
   length 1; here phi may be any number with the square 1/2. *)
Section Remainder.
Variables (R : numFieldType) (phi : R).
Hypothesis half : phi * phi = 2%:R^-1.

Theorem remainder_stays (r : 'M[R]_1) :
  M 2 phi%:M (fun _ : 'I_1 => 1%:M) 1 1 *m r - (1%:M - 2%:R *: H phi%:M) *m r = 4%:R^-1 *: r.
Proof.
have H_is : H phi%:M = (2%:R^-1)%:M :> 'M[R]_1 by rewrite /H tr_scalar_mx -scalar_mxM half.
have two : \sum_c response phi%:M (fun _ : 'I_1 => 1%:M) 1 c 2 = (2%:R - 2%:R^-1)%:M :> 'M[R]_1.
  rewrite big_ord_recl big_ord0 addr0 /response /= mulmx0 subr0 !mul1mx !scale1r add0r mulmx1 H_is.
  by rewrite addrA -raddfD -raddfB.
have four : (2%:R : R)^-1 * (2%:R - 2%:R^-1) = 1 - 4%:R^-1 by field.
have none : (2%:R : R) * 2%:R^-1 = 1 by rewrite mulfV // pnatr_eq0.
rewrite /M two H_is -scalar_mxM four divr1 scale1r scale_scalar_mx none subrr mul0mx subr0.
by rewrite raddfB /= opprB addrCA subrr addr0 mul_scalar_mx.
Qed.

(* fl-ntk/C.10 (its stated form fails) rests on this theorem about B_3 for the same sample. B_3 is the part of the
   movement in T + 1 rounds that the printed linear map does not give. Outputs begin at 0, and rho/K = 1. *)
Local Notation own := (fun _ : 'I_1 => 1%:M : 'M[R]_1).
Theorem movement_stays T (y : 'M[R]_1) :
  \sum_(t < T.+1) \sum_(k < 2) phi *: (iter t (mulmx (1%:M - 2%:R *: H phi%:M)) y
    - residual phi%:M y (local (client_gradient phi%:M y own) 1 ord0 k (iter t (round 2 phi%:M y own 1 1) 0)))
  = (phi / 2%:R / 4%:R ^+ T) *: y.
Proof.
have H_is : H phi%:M = (2%:R^-1)%:M :> 'M[R]_1 by rewrite /H tr_scalar_mx -scalar_mxM half.
have none : 1%:M - 2%:R *: H phi%:M = 0 :> 'M[R]_1.
  by rewrite H_is scale_scalar_mx mulfV ?pnatr_eq0 // subrr.
have after t : residual phi%:M y (iter t (round 2 phi%:M y own 1 1) 0) = (4%:R ^+ t)^-1 *: y.
  elim: t => [|t IH]; first by rewrite /residual mulmx0 subr0 expr0 invr1 scale1r.
  have := remainder_stays (residual phi%:M y (iter t (round 2 phi%:M y own 1 1) 0)).
  by rewrite none mul0mx subr0 -round_map -iterS IH scalerA exprS invfM.
have step w : residual phi%:M y (local (client_gradient phi%:M y own) 1 ord0 1 w) = 2%:R^-1 *: residual phi%:M y w.
  rewrite local_response /response /= mulmx0 subr0 mul1mx scale1r add0r mul1mx {1}/residual mulmxDr opprD addrA.
  rewrite -/(residual phi%:M y w) mulmxA -/(H phi%:M) H_is mul_scalar_mx -{1}[residual _ _ _]scale1r -scalerBl.
  by congr (_ *: _); field.
have both c w : \sum_(k < 2) phi *: (c - residual phi%:M y (local (client_gradient phi%:M y own) 1 ord0 k w))
    = phi *: (c - residual phi%:M y w) + phi *: (c - 2%:R^-1 *: residual phi%:M y w).
  by rewrite big_ord_recl big_ord_recl big_ord0 addr0; congr (_ + phi *: (_ - _)); exact: step.
elim: T => [|T IH].
  rewrite big_ord_recl big_ord0 addr0 both after expr0 invr1 scale1r subrr scaler0 add0r.
  by rewrite -{1}[y]scale1r -scalerBl scalerA; congr (_ *: _); field.
rewrite big_ord_recr /= IH both none mul0mx.
rewrite -[round _ _ _ _ _ _ _]/(iter T.+1 (round 2 phi%:M y own 1 1) 0) after !sub0r !scalerN !scalerA -!scaleNr -!scalerDl.
have four : 4%:R ^+ T != 0 :> R by rewrite expf_neq0 // pnatr_eq0.
by congr (_ *: _); rewrite exprS; field; rewrite four.
Qed.
End Remainder.

Print Assumptions averaged_update.
Print Assumptions round_map.
Print Assumptions response_closed.
Print Assumptions not_centralised.
Print Assumptions remainder_stays.
Print Assumptions movement_stays.
