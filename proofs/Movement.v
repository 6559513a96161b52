(* How far the weights of a linear model move under FedAvg. At any round |U(t) - U(0)|^2 is at most r_0' H^-1 r_0, if
   the round map M has its spectrum in [0, 1].

   The statement fl-ntk/C.7-norm rests on this file: its repaired form is the theorem movement_of_small_steps.

   M is self-adjoint for the inner product <u, v> = u'H^-1 v. That the spectrum of M is in [0, 1] is stated as |M u|^2
   <= <u, M u> for all u, which is equivalent. The theorem spectrum_of_small_steps deduces this from steps that do not
   overshoot. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid RoundMap.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section SelfAdjoint.
Variables (R : realFieldType) (n : nat) (G M : 'M[R]_n).
Implicit Types u v : 'cV[R]_n.
Definition form u v : R := (u^T *m G *m v) 0 0.

Hypothesis symmetric : G^T = G.
Hypothesis nonnegative : forall u, 0 <= form u u.
Hypothesis self_adjoint : G *m M = M^T *m G.
Hypothesis unit_interval : forall u, form (M *m u) (M *m u) <= form u (M *m u).

Lemma formC u v : form u v = form v u.
Proof.
rewrite /form -[in RHS](trmxK (v^T *m G *m u)) [RHS]mxE; congr (fun_of_matrix _ 0 0).
by rewrite !trmx_mul symmetric trmxK mulmxA.
Qed.
Lemma form_move u v : form (M *m u) v = form u (M *m v).
Proof. by rewrite /form trmx_mul -!mulmxA [M^T *m _]mulmxA -self_adjoint !mulmxA. Qed.
Lemma formB u v : form (u - v) (u - v) = form u u - form u v *+ 2 + form v v.
Proof.
have expand : form (u - v) (u - v) = form u u - form u v - form v u + form v v.
  rewrite /form (_ : (u - v)^T = u^T - v^T); last by apply/matrixP => i j; rewrite !mxE.
  rewrite !mulmxBl !mulmxBr.
  set a := u^T *m G *m u; set b := u^T *m G *m v; set c := v^T *m G *m u; set e := v^T *m G *m v.
  by rewrite !mxE opprB addrA addrAC.
by rewrite expand (formC v u) mulr2n; ring.
Qed.

Definition after k u := iter k (mulmx M) u.
Lemma after_move k u : after k (M *m u) = M *m after k u.
Proof. by rewrite /after -iterS -iterSr. Qed.
Lemma after_adjoint k u v : form (after k u) v = form u (after k v).
Proof. by elim: k u v => [|k IH] u v //=; rewrite form_move IH after_move. Qed.
Lemma after_add j k u : after (j + k) u = after j (after k u).
Proof. exact: iterD. Qed.

Lemma shrinks u : form (M *m u) (M *m u) <= form u u.
Proof.
have := nonnegative (u - M *m u); rewrite formB => square.
have := unit_interval u; rewrite -(ler_pmuln2r (n := 2)) // => twice.
have : form (M *m u) (M *m u) *+ 2 <= form u u + form (M *m u) (M *m u).
  by apply: (le_trans twice); rewrite -subr_ge0 addrAC.
by rewrite mulr2n ler_add2r.
Qed.
Lemma after_shrinks k u : form (after k u) (after k u) <= form u u.
Proof. by elim: k => [|k IH] //=; apply: le_trans IH; exact: shrinks. Qed.

(* |M^k u|^2 <= <u, M^k u> *)
Lemma after_interval k u : form (after k u) (after k u) <= form u (after k u).
Proof.
have := odd_double_half k; rewrite -addnn; case: (odd k); move: (k./2) => h /= <-.
- have -> : after (1 + (h + h)) u = after h (M *m after h u) by rewrite after_move -after_add.
  rewrite -(after_adjoint h u); apply: (le_trans (after_shrinks _ _)); exact: unit_interval.
- by rewrite add0n after_add -(after_adjoint h u); exact: after_shrinks.
Qed.

Lemma powers_ge0 j k u : (forall v, 0 <= form v (M *m v)) -> 0 <= form (after j u) (after k u).
Proof.
move=> definite; rewrite after_adjoint -after_add; move: (j + k)%N => a.
have := odd_double_half a; rewrite -addnn; case: (odd a); move: (a./2) => h /= <-.
- have -> : after (1 + (h + h)) u = after h (M *m after h u) by rewrite after_move -after_add.
  by rewrite -(after_adjoint h u); exact: definite.
- by rewrite add0n after_add -(after_adjoint h u); exact: nonnegative.
Qed.

Theorem difference_bound k u : form (u - after k u) (u - after k u) <= form u u.
Proof.
rewrite formB -subr_ge0; have := after_interval k u.
set a := form u u; set b := form u _; set c := form _ _ => le.
have -> : a - (a - b *+ 2 + c) = (b - c) + b by rewrite mulr2n; ring.
by rewrite addr_ge0 ?subr_ge0 //; apply: le_trans le; exact: nonnegative.
Qed.
End SelfAdjoint.

Section Movement.
Variables (R : realFieldType) (n p N K : nat) (Phi : 'M[R]_(n, p)) (y : 'cV[R]_n).
Variables (owner : 'I_n -> 'I_N) (eta eta_g : R) (w0 : 'cV[R]_p).
Local Notation own := (owned R owner).
Local Notation H := (H Phi).
Local Notation M := (M K Phi own eta eta_g).
Local Notation residual := (residual Phi y).
Local Notation weights t := (iter t (round K Phi y own eta eta_g) w0).

Hypothesis H_unit : H \in unitmx.
Hypothesis spectrum : forall u : 'cV[R]_n, form (invmx H) (M *m u) (M *m u) <= form (invmx H) u (M *m u).

Lemma H_symmetric : H^T = H.
Proof. by rewrite /H trmx_mul trmxK. Qed.
Lemma square_ge0 q (v : 'cV[R]_q) : 0 <= (v^T *m v) 0 0.
Proof. by rewrite mxE; apply: sumr_ge0 => i _; rewrite mxE -expr2 sqr_ge0. Qed.
Lemma form_inverse (v : 'cV[R]_n) : form (invmx H) (H *m v) (H *m v) = ((Phi^T *m v)^T *m (Phi^T *m v)) 0 0.
Proof.
rewrite /form (trmx_mul H) H_symmetric (trmx_mul Phi^T) trmxK -[v^T *m H *m invmx H]mulmxA mulmxV // mulmx1.
by rewrite /RoundMap.H !mulmxA.
Qed.

Lemma inverse_symmetric : (invmx H)^T = invmx H.
Proof. by rewrite trmx_inv H_symmetric. Qed.
Lemma inverse_nonnegative u : 0 <= form (invmx H) u u.
Proof. by rewrite -[u](mulKVmx H_unit) form_inverse square_ge0. Qed.

(* a client's response is a symmetric function of its block *)
Lemma own_own c : own c *m own c = own c.
Proof.
apply/matrixP => i j; rewrite mxE (bigD1 i) //= big1 => [|k ne]; last by rewrite mxE eq_sym (negbTE ne) mul0r.
by rewrite !mxE eqxx addr0 /=; case: (i == j); case: (owner i == c); rewrite ?mulr1 ?mulr0.
Qed.
Lemma own_symmetric c : (own c)^T = own c.
Proof. by apply/matrixP => i j; rewrite !mxE eq_sym; case: eqP => // ->. Qed.
Lemma response_symmetric c k : (response Phi own eta c k)^T = response Phi own eta c k.
Proof.
pose B := own c *m H *m own c.
have BE : B *m own c = B by rewrite /B -mulmxA own_own.
have EB : own c *m B = B by rewrite /B !mulmxA own_own.
have BT : B^T = B by rewrite /B (trmx_mul _ (own c)) (trmx_mul (own c) H) own_symmetric H_symmetric mulmxA.
suff [_ _ _ ->] : [/\ own c *m response Phi own eta c k = response Phi own eta c k,
  response Phi own eta c k *m own c = response Phi own eta c k,
  B *m response Phi own eta c k = response Phi own eta c k *m B &
  (response Phi own eta c k)^T = response Phi own eta c k] by [].
elim: k => [|k [left right commute sym]]; first by rewrite /response /= !mulmx0 !mul0mx trmx0.
have -> : response Phi own eta c k.+1 = response Phi own eta c k + eta *: (own c - B *m response Phi own eta c k).
  rewrite /response iterS -/(response Phi own eta c k) mulmxBr mulmx1; congr (_ + _ *: (_ - _)).
  by rewrite /B -{1}left !mulmxA.
move: (response Phi own eta c k) left right commute sym => P left right commute sym.
split.
- by rewrite mulmxDr left -scalemxAr mulmxBr own_own mulmxA EB.
- by rewrite mulmxDl right -scalemxAl mulmxBl own_own -mulmxA right.
- by rewrite mulmxDr mulmxDl -scalemxAr -scalemxAl mulmxBr mulmxBl BE EB !commute [B *m (P *m B)]mulmxA commute.
- by rewrite [_^T]linearD /= [(_ *: _)^T]linearZ /= [(_ - _)^T]linearB /= (trmx_mul B) sym own_symmetric BT commute.
Qed.

Lemma M_self_adjoint : invmx H *m M = M^T *m invmx H.
Proof.
have sum_symmetric : (\sum_c response Phi own eta c K)^T = \sum_c response Phi own eta c K.
  by rewrite linear_sum; apply: eq_bigr => c _; exact: response_symmetric.
rewrite /RoundMap.M; set P := \sum_c _ in sum_symmetric *.
rewrite [_^T]linearB /= [(_ *: _)^T]linearZ /= trmx1 (trmx_mul H) sum_symmetric H_symmetric.
rewrite mulmxBr mulmxBl mulmx1 mul1mx; congr (_ - _).
by rewrite -scalemxAr -scalemxAl mulKmx // -mulmxA mulmxV // mulmx1.
Qed.

Theorem movement_bound t :
  ((weights t - w0)^T *m (weights t - w0)) 0 0 <= form (invmx H) (residual w0) (residual w0).
Proof.
have [c moved] : exists c, weights t - w0 = Phi^T *m c.
  elim: t => [|t [c IH]]; first by exists 0; rewrite subrr mulmx0.
  have [step one] : exists step, update K (client_gradient Phi y own) eta (weights t) = Phi^T *m step.
    exists (N%:R^-1 *: \sum_k response Phi own eta k K *m residual (weights t)).
    rewrite /update -scalemxAr mulmx_sumr; congr (_ *: _); apply: eq_bigr => k _.
    by rewrite local_response addrAC subrr add0r.
  exists (c + eta_g *: step); rewrite iterS {1}/round one mulmxDr -IH -scalemxAr.
  by rewrite addrAC.
have residual_is : residual (weights t) = after M t (residual w0).
  by elim: t {c moved} => [|t IH] //=; rewrite round_map IH.
have lost : residual w0 - after M t (residual w0) = H *m c.
  rewrite -residual_is /RoundMap.residual opprB addrC addrA subrK -mulmxBr moved.
  by rewrite mulmxA.
rewrite moved -form_inverse -lost.
exact: difference_bound inverse_symmetric inverse_nonnegative M_self_adjoint spectrum _ _.
Qed.
End Movement.

(* Steps that do not overshoot: eta_l q <= 1 for every eigenvalue q of a client's block, and eta_g <= 1. *)
Section SmallSteps.
Variables (R : realFieldType) (n p N K : nat) (Phi : 'M[R]_(n, p)) (y : 'cV[R]_n).
Variables (owner : 'I_n -> 'I_N) (eta eta_g : R) (w0 : 'cV[R]_p).
Local Notation own := (owned R owner).
Local Notation H := (H Phi).
Local Notation M := (M K Phi own eta eta_g).
Local Notation response := (response Phi own eta).
Local Notation residual := (residual Phi y).
Local Notation weights t := (iter t (round K Phi y own eta eta_g) w0).
Local Notation square v := ((v^T *m v) 0 0).

Hypothesis H_unit : H \in unitmx.
Hypothesis eta_ge0 : 0 <= eta.
Hypothesis server : 0 <= eta_g <= 1.
Hypothesis no_overshoot : forall c (v : 'cV[R]_n), eta * square (Phi^T *m (own c *m v)) <= square v.

Lemma entryB (a b : 'M[R]_1) : (a - b) 0 0 = a 0 0 - b 0 0.
Proof. by rewrite mxE [X in _ + X]mxE. Qed.
Lemma entryZ (x : R) (a : 'M[R]_1) : (x *: a) 0 0 = x * a 0 0.
Proof. by rewrite mxE. Qed.
Lemma square_is q (v : 'cV[R]_q) : square v = \sum_i v i 0 * v i 0.
Proof. by rewrite mxE; apply: eq_bigr => i _; rewrite mxE. Qed.
Lemma square_sum q (v : 'I_N -> 'cV[R]_q) : square (\sum_c v c) <= N%:R * \sum_c square (v c).
Proof.
rewrite square_is (eq_bigr _ (fun c _ => square_is (v c))) exchange_big mulr_sumr; apply: ler_sum => i _.
rewrite summxE -expr2; have := cauchy (fun=> 1) (fun c => v c i 0).
by under eq_bigr do rewrite mul1r; under [X in _ <= X * _]eq_bigr do rewrite mul1r; rewrite sumr_const card_ord.
Qed.

Section Client.
Variables (c : 'I_N) (u : 'cV[R]_n).
Let A : 'M[R]_n := 1%:M - eta *: (own c *m H *m own c).
Let v := own c *m u.

Lemma responseS k : response c k.+1 = response c k + eta *: (own c *m (1%:M - H *m response c k)).
Proof. by []. Qed.
Lemma left_open k : (own c - own c *m H *m response c k) *m u = after A k v.
Proof.
rewrite (response_closed Phi eta k (own_own R owner c)) -/A.
by elim: k => [|k IH] //; rewrite iterS -mulmxA IH.
Qed.
Lemma response_sum k : response c k *m u = eta *: \sum_(j < k) after A j v.
Proof.
elim: k => [|k IH]; first by rewrite mul0mx big_ord0 scaler0.
rewrite responseS mulmxDl IH big_ord_recr /= scalerDr -(left_open k) -scalemxAl; congr (_ + _ *: _).
by rewrite mulmxBr mulmx1 mulmxA.
Qed.
Lemma own_response k : own c *m response c k = response c k.
Proof.
elim: k => [|k IH]; first by rewrite /RoundMap.response mulmx0.
by rewrite responseS [LHS]mulmxDr IH; congr (_ + _); rewrite -scalemxAr mulmxA own_own.
Qed.

Lemma A_symmetric : A^T = A.
Proof.
rewrite /A [_^T]linearB /= [(_ *: _)^T]linearZ /= trmx1 (trmx_mul _ (own c)) (trmx_mul (own c)) own_symmetric.
by rewrite H_symmetric mulmxA.
Qed.
Lemma A_nonnegative w : 0 <= form 1%:M w (A *m w).
Proof.
rewrite /form mulmx1 /A mulmxBl mul1mx mulmxBr -scalemxAl -scalemxAr entryB entryZ subr_ge0.
apply: le_trans (no_overshoot c w); rewrite le_eqVlt; apply/orP; left; apply/eqP; congr (_ * _).
by rewrite !trmx_mul trmxK own_symmetric /RoundMap.H !mulmxA.
Qed.

(* the squared displacement of a client is at most the inner product of u and the client's response to u *)
Lemma answer : square (Phi^T *m (response c K *m u)) <= ((response c K *m u)^T *m u) 0 0.
Proof.
rewrite -subr_ge0; have [q q_is] : exists q, response c K *m u = q by eexists.
have own_q : own c *m q = q by rewrite -q_is mulmxA own_response.
rewrite q_is.
have -> : (q^T *m u) 0 0 - square (Phi^T *m q) = form 1%:M q (after A K v).
  rewrite -left_open mulmxBl -[own c *m H *m _ *m u]mulmxA q_is /form mulmx1 mulmxBr entryB.
  have qT : q^T *m own c = q^T by rewrite -[in RHS]own_q trmx_mul own_symmetric.
  by rewrite /RoundMap.H !mulmxA qT (trmx_mul Phi^T) trmxK.
have identity : forall w : 'cV[R]_n, 0 <= form 1%:M w w by move=> w; rewrite /form mulmx1 square_ge0.
have adjoint : 1%:M *m A = A^T *m 1%:M by rewrite mul1mx mulmx1 A_symmetric.
rewrite -q_is response_sum /form mulmx1 linearZ /= linear_sum /= -scalemxAl mulmx_suml entryZ summxE mulr_ge0 //.
apply: sumr_ge0 => j _; have := powers_ge0 identity adjoint j K v A_nonnegative.
by rewrite /form mulmx1.
Qed.
End Client.

Lemma spectrum_of_small_steps u : form (invmx H) (M *m u) (M *m u) <= form (invmx H) u (M *m u).
Proof.
have [server0 server1] := andP server.
pose s := \sum_c response c K *m u; set rate := eta_g / N%:R.
have rate0 : 0 <= rate by rewrite divr_ge0 ?ler0n.
have Mu : M *m u = u - rate *: (H *m s).
  by rewrite /RoundMap.M mulmxBl mul1mx -scalemxAl -mulmxA mulmx_suml.
rewrite -subr_ge0.
have -> : form (invmx H) u (M *m u) - form (invmx H) (M *m u) (M *m u)
    = rate * ((s^T *m u) 0 0 - rate * square (Phi^T *m s)).
  have -> : form (invmx H) u (M *m u) - form (invmx H) (M *m u) (M *m u) = form (invmx H) (rate *: (H *m s)) (M *m u).
    have -> : rate *: (H *m s) = u - M *m u by rewrite Mu opprB addrC subrK.
    by rewrite /form [(u - _)^T]linearB /= !mulmxBl entryB.
  rewrite /form [(_ *: _)^T]linearZ /= (trmx_mul H) H_symmetric -!scalemxAl -[s^T *m H *m _]mulmxA mulmxV // mulmx1.
  by rewrite Mu mulmxBr -scalemxAr entryZ entryB entryZ [in RHS]trmx_mul trmxK /RoundMap.H !mulmxA.
rewrite mulr_ge0 // subr_ge0; apply: (@le_trans _ _ (\sum_c square (Phi^T *m (response c K *m u)))).
  have squares0 : 0 <= \sum_c square (Phi^T *m (response c K *m u)) by apply: sumr_ge0 => c _; exact: square_ge0.
  apply: (@le_trans _ _ (N%:R^-1 * square (Phi^T *m s))).
    by rewrite /rate -mulrA ler_pimull // mulr_ge0 ?invr_ge0 ?ler0n ?square_ge0.
  have [N0|Npos] := posnP N; first by have -> : N%:R = 0 :> R; [rewrite N0 | rewrite invr0 mul0r].
  rewrite mulrC ler_pdivr_mulr ?ltr0n // mulrC /s mulmx_sumr; exact: square_sum.
rewrite /s linear_sum /= mulmx_suml summxE; apply: ler_sum => c _; exact: answer.
Qed.

Theorem movement_of_small_steps t :
  ((weights t - w0)^T *m (weights t - w0)) 0 0 <= form (invmx H) (residual w0) (residual w0).
Proof. exact: movement_bound H_unit spectrum_of_small_steps t. Qed.
End SmallSteps.

Print Assumptions difference_bound.
Print Assumptions movement_bound.
Print Assumptions movement_of_small_steps.
