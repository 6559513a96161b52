(* A smooth loss L is at most epsilon on a segment, and one end of the segment is moved by the length Delta. On the new
   segment L may exceed epsilon + gamma Delta^2, but it is at most (sqrt epsilon + sqrt(gamma/2) Delta)^2.

   The statement fedgucci/F17 rests on this file. Its stated form, Eqs (51)-(52) of FedGuCci, fails by the theorem
   printed_bound_fails, also if the new end is the minimiser of L that is nearest to the old end. Its repaired form is
   the theorem moved_anchor.

   The counterexample in the plane is L(x, y) = huber(7/2, y + 3 - huber(20, x)/50), with the model (-20, 0), the anchor
   (102/5, 0) and the minimiser (20, 1). L is 0 on a curve that lies mostly below the new segment and rises to its end,
   (20, 1). The counterexample stored in docs/checks is similar, but its numbers are not all rational. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import Euclid.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Lemma equal_ge0 (R : realFieldType) (x y : R) : x = y -> 0 <= x -> 0 <= y.
Proof. by move=> ->. Qed.
Lemma ler_oppl_of (R : realFieldType) (x y : R) : - x <= y -> - y <= x.
Proof. by rewrite ler_oppl. Qed.

Section Smooth.
Variables (R : realFieldType) (m d : nat).
Local Notation weights := 'M[R]_(m, d).
Implicit Types (U V w anchor moved : weights) (L : weights -> R) (grad : weights -> weights) (gamma : R).

(* L is gamma-smooth on the whole space with the gradient grad, stated as both inequalities of Taylor's formula. *)
Definition smooth L grad gamma :=
  0 < gamma /\ forall U V, `|L V - L U - dot (grad U) (V - U)| <= gamma / 2%:R * norm2 (V - U).

Definition between (a : R) U V : weights := a *: U + (1 - a) *: V.
Definition at_most (eps : R) L U V := forall a, 0 <= a <= 1 -> L (between a U V) <= eps.

(* "smooth" implies the paper's condition that the gradient is Lipschitz with the constant gamma. *)
Lemma smooth_gradient L grad gamma U V : smooth L grad gamma ->
  norm2 (grad V - grad U) <= gamma ^+ 2 * norm2 (V - U).
Proof.
case=> gamma0 taylor.
have [e e_is] : exists e, grad V - grad U = e by exists (grad V - grad U).
have [D D_def] : exists D, V - U = D by exists (V - U).
rewrite e_is D_def.
have two0 : 2%:R != 0 :> R by rewrite pnatr_eq0.
have [h D_is] : exists h : weights, D = h + h.
  exists (2%:R^-1 *: D); rewrite -mulr2n -scaler_nat scalerA mulfV ?scale1r //.
pose v := (2%:R * gamma)^-1 *: e; pose c := U + h.
have cU x : c + x - U = h + x by rewrite /c -[U + h + x]addrA addrC addKr.
have cV x : c + x - V = x - h.
  have -> : V = c + h by rewrite /c -addrA -D_is -D_def addrC subrK.
  by rewrite addrC opprD addrACA [- c + c]addrC subrr add0r addrC.
have := taylor U (c + v); have := taylor V (c + v); have := taylor V (c - v); have := taylor U (c - v).
rewrite !cU !cV !ler_norml => /andP[a _] /andP[_ b] /andP[a' _] /andP[_ b'].
have := ler_add (ler_add b b') (ler_add (ler_oppl_of a) (ler_oppl_of a')).
rewrite !norm2D !norm2N !dotDr !dotNr.
have ev : dot (grad V) v = dot (grad U) v + norm2 e / (2%:R * gamma).
  rewrite /v !dotZr /norm2 -{3}e_is dotDl dotNl; set x := dot (grad V) e; set y := dot (grad U) e.
  by field; rewrite lt0r_neq0.
rewrite ev /v D_is !norm2D !norm2Z => total; rewrite -subr_ge0.
have g2 : 0 <= 2%:R * gamma by rewrite mulr_ge0 ?ler0n // ltW.
move: total; rewrite -subr_ge0 => /(mulr_ge0 g2); apply: equal_ge0.
rewrite !dotNl !(dotC (_ *: e) h) -/(norm2 h).
move: (dot (grad V) h) (dot (grad U) h) (dot (grad U) _) (norm2 e) (norm2 h) (dot h _) (L _) (L _) => p q r s t k f g.
by field; rewrite lt0r_neq0.
Qed.

(* Equation (52) with the square root; e^2 is epsilon, and k^2 is gamma/2. *)
Theorem moved_anchor L grad gamma (e k Delta : R) w anchor moved :
  smooth L grad gamma -> (forall U, 0 <= L U) -> 0 <= e -> 0 <= k -> 0 <= Delta ->
  k ^+ 2 = gamma / 2%:R -> norm2 (moved - anchor) <= Delta ^+ 2 ->
  at_most (e ^+ 2) L w anchor -> at_most ((e + k * Delta) ^+ 2) L w moved.
Proof.
case=> gamma0 taylor L0 e0 k0 D0 k2 shift low a a01.
have {low} := low a a01; set U := between a w anchor; set V := between a w moved => low.
have step : V - U = (1 - a) *: (moved - anchor) by rewrite /V /U /between opprD addrACA subrr add0r scalerBr.
have near : norm2 (V - U) <= Delta ^+ 2.
  case/andP: a01 => a0 a1; have s0 : 0 <= 1 - a by rewrite subr_ge0.
  apply: le_trans shift; rewrite step norm2Z ler_pimull ?norm2_ge0 // expr_le1 //.
  by rewrite ler_subl_addr ler_addl.
have steep : norm2 (grad U) <= 2%:R * gamma * L U.
  have := taylor U (U - gamma^-1 *: grad U); rewrite [U - _ - U]addrC addKr norm2N norm2Z dotNr dotZr ler_norml.
  case/andP=> _; rewrite -subr_ge0 => up; have := addr_ge0 up (L0 (U - gamma^-1 *: grad U)).
  have g2 : 0 <= gamma *+ 2 by rewrite mulrn_wge0 // ltW.
  move=> total; rewrite -subr_ge0; have := mulr_ge0 g2 total.
  apply: equal_ge0.
  rewrite -/(norm2 (grad U)); move: (norm2 _) (L U) (L _) => s t u; field; by rewrite lt0r_neq0.
have cross : dot (grad U) (V - U) <= 2%:R * k * e * Delta.
  apply: (le_trans (ler_norm _)).
  rewrite -(ler_pexpn2r (n := 2)) ?nnegrE ?normr_ge0 ?mulr_ge0 ?ler0n // real_normK ?num_real //.
  apply: (le_trans (cauchy_dot _ _)).
  have -> : (2%:R * k * e * Delta) ^+ 2 = 2%:R * gamma * e ^+ 2 * Delta ^+ 2.
    have -> : gamma = 2%:R * k ^+ 2 by rewrite k2; field.
    by ring.
  apply: ler_pmul => //; rewrite ?norm2_ge0 //; apply: (le_trans steep).
  by rewrite ler_wpmul2l // mulr_ge0 ?ler0n // ltW.
have := taylor U V; rewrite ler_norml -k2 => /andP[_]; rewrite ler_subl_addr ler_subl_addr => /le_trans; apply.
have -> : (e + k * Delta) ^+ 2 = k ^+ 2 * Delta ^+ 2 + 2%:R * k * e * Delta + e ^+ 2 by ring.
by rewrite !ler_add // ler_wpmul2l ?sqr_ge0.
Qed.
End Smooth.

(* huber is s^2/2 for |s| <= B and B |s| - B^2/2 beyond; clip is its derivative. *)
Section Huber.
Variables (R : realFieldType) (B : R).
Hypothesis B0 : 0 <= B.
Implicit Types s t b : R.
Definition clip s : R := if s < - B then - B else if B < s then B else s.
Definition huber s : R := clip s * s - clip s ^+ 2 / 2%:R.

Lemma clip_le s : `|clip s| <= B.
Proof.
rewrite ler_norml /clip; case: (ltP s (- B)) => [_|low]; first by rewrite lexx ge0_cp.
by case: (ltP B s) => high; rewrite ?lexx ?low ?high ?ge0_cp.
Qed.
Lemma clip_rest s : clip s * (s - clip s) = B * `|s - clip s|.
Proof.
rewrite /clip; case: (ltP s (- B)) => [low|low].
  by rewrite ltr0_norm ?subr_lt0 // mulrN mulNr.
case: (ltP B s) => high; last by rewrite subrr normr0 !mulr0.
by rewrite gtr0_norm // subr_gt0.
Qed.
Lemma huber_low s b : `|b| <= B -> b * s - b ^+ 2 / 2%:R <= huber s.
Proof.
move=> bB; rewrite -subr_ge0.
have -> : huber s - (b * s - b ^+ 2 / 2%:R) = (b - clip s) ^+ 2 / 2%:R + (clip s * (s - clip s) - b * (s - clip s)).
  by rewrite /huber; field.
rewrite addr_ge0 ?divr_ge0 ?sqr_ge0 ?ler0n // subr_ge0 clip_rest; apply: (le_trans (ler_norm _)).
by rewrite normrM ler_wpmul2r.
Qed.
Lemma huber_high s r : huber s <= (s - r) ^+ 2 / 2%:R + B * `|r|.
Proof.
rewrite -subr_ge0.
have -> : (s - r) ^+ 2 / 2%:R + B * `|r| - huber s = (s - r - clip s) ^+ 2 / 2%:R + (B * `|r| - clip s * r).
  by rewrite /huber; field.
rewrite addr_ge0 ?divr_ge0 ?sqr_ge0 ?ler0n // subr_ge0; apply: (le_trans (ler_norm _)).
by rewrite normrM ler_wpmul2r // clip_le.
Qed.
Lemma huber_taylor s t : 0 <= huber t - huber s - clip s * (t - s) <= (t - s) ^+ 2 / 2%:R.
Proof.
apply/andP; split.
  rewrite -subr_ge0 subr0; have := huber_low t (clip_le s); rewrite -subr_ge0.
  by have -> : huber t - (clip s * t - clip s ^+ 2 / 2%:R) = huber t - huber s - clip s * (t - s) by rewrite {3}/huber; ring.
have := huber_high t (s - clip s); rewrite -clip_rest -(subr_ge0 (huber t)) => high.
by rewrite -subr_ge0; apply: equal_ge0 high; rewrite [huber s]/huber; field.
Qed.
Lemma huber_lip s t : `|huber t - huber s| <= B * `|t - s|.
Proof.
have /andP[low _] := huber_taylor s t; have /andP[high _] := huber_taylor t s.
have bound x : clip x * (t - s) <= B * `|t - s|.
  by apply: (le_trans (ler_norm _)); rewrite normrM ler_wpmul2r // clip_le.
have bound' x : - (B * `|t - s|) <= clip x * (t - s).
  by rewrite ler_oppl; apply: (le_trans (ler_norm _)); rewrite normrN normrM ler_wpmul2r // clip_le.
rewrite ler_norml; apply/andP; split.
  by apply: (le_trans (bound' s)); rewrite -subr_ge0.
apply: le_trans (bound t); rewrite -subr_ge0.
by have -> : clip t * (t - s) - (huber t - huber s) = huber s - huber t - clip t * (s - t) by ring.
Qed.
Lemma huber_small s : `|s| <= B -> huber s = s ^+ 2 / 2%:R.
Proof.
rewrite ler_norml => /andP[low high]; rewrite /huber /clip ltNge low /= ltNge high /=; by field.
Qed.
Lemma huber_ge0 s : 0 <= huber s.
Proof. by have := huber_low s (b := 0); rewrite normr0 mul0r expr0n mul0r subr0; apply. Qed.
Lemma huber_le s : huber s <= s ^+ 2 / 2%:R.
Proof. by have := huber_high s 0; rewrite subr0 normr0 mulr0 addr0. Qed.
Lemma huber_eq0 s : 0 < B -> huber s = 0 -> s = 0.
Proof.
move=> Bpos zero; apply/eqP; have [small|large] := leP `|s| B.
  by move: zero; rewrite huber_small // => /eqP; rewrite mulf_eq0 invr_eq0 pnatr_eq0 orbF sqrf_eq0.
have B_le : `|B * Num.sg s| <= B.
  by rewrite normrM (ger0_norm B0) ler_pimulr // normr_sg lern1 leq_b1.
have := huber_low s B_le; rewrite zero -mulrA -normrEsg exprMn sqr_sg.
have -> : (s != 0) = true by rewrite -normr_gt0 (lt_trans Bpos).
rewrite mulr1 subr_le0 => contra; have : B ^+ 2 < B ^+ 2 / 2%:R.
  by apply: lt_le_trans contra; rewrite expr2 ltr_pmul2l.
by rewrite ltr_pdivl_mulr ?ltr0n // gtr_pmulr ?exprn_gt0 // ltrn1.
Qed.
End Huber.

Section Valley.
Variable R : realFieldType.
Local Notation plane := 'M[R]_(1, 2).
Implicit Types p q : plane.

Lemma dot_plane p q : dot p q = p 0 0 * q 0 0 + p 0 1 * q 0 1.
Proof.
rewrite /dot -(pair_bigA _ (fun i j => p i j * q i j)) /= big_ord1 !big_ord_recl big_ord0 addr0.
by congr (_ + p _ _ * q _ _); apply: val_inj.
Qed.
Definition at_ (a b : R) : plane := \matrix_(i, j) (if j == 0 then a else b).

Definition top : R := 7%:R / 2%:R.
Definition height p : R := p 0 1 + 3%:R - huber 20%:R (p 0 0) / 50%:R.
Definition loss p : R := huber top (height p).
Definition slope p : plane := at_ (- (clip top (height p) * clip 20%:R (p 0 0) / 50%:R)) (clip top (height p)).
Definition model : plane := at_ (- 20%:R) 0.
Definition anchor : plane := at_ (102%:R / 5%:R) 0.
Definition minimum : plane := at_ 20%:R 1.

Let top_ge0 : 0 <= top. Proof. by rewrite divr_ge0 ?ler0n. Qed.
Let top_gt0 : 0 < top. Proof. by rewrite divr_gt0 ?ltr0n. Qed.
Let side_ge0 : 0 <= 20%:R :> R. Proof. exact: ler0n. Qed.

Lemma loss_smooth : smooth loss slope (123%:R / 100%:R).
Proof.
split=> [|p q]; first by rewrite divr_gt0 ?ltr0n.
rewrite /norm2 !dot_plane !mxE /=.
have := huber_taylor side_ge0 (p 0 0) (q 0 0); have := huber_lip side_ge0 (p 0 0) (q 0 0).
have := huber_taylor top_ge0 (height p) (height q); have := clip_le top_ge0 (height p).
rewrite -/(loss p) -/(loss q).
have -> : height q - height p = (q 0 1 - p 0 1) - (huber 20%:R (q 0 0) - huber 20%:R (p 0 0)) / 50%:R.
  by rewrite /height; ring.
have [dx ->] : exists dx, q 0 0 - p 0 0 = dx by eexists.
have [dy ->] : exists dy, q 0 1 - p 0 1 = dy by eexists.
have [rise ->] : exists rise, huber 20%:R (q 0 0) - huber 20%:R (p 0 0) = rise by eexists.
move: (loss q - loss p) (clip top _) (clip 20%:R _) => change s k s_le /andP[r0 r1] lip /andP[b0 b1].
have -> : change - (- (s * k / 50%:R) * dx + s * dy)
  = (change - s * (dy - rise / 50%:R)) - s * (rise - k * dx) / 50%:R by field.
apply: (le_trans (ler_norm_sub _ _)); rewrite (ger0_norm r0) normrM (ger0_norm (x := 50%:R^-1)) ?invr_ge0 ?ler0n //.
rewrite normrM (ger0_norm b0).
have first : change - s * (dy - rise / 50%:R) <= 29%:R / 50%:R * (dx * dx + dy * dy).
  apply: (le_trans r1); rewrite -subr_ge0.
  have -> : 29%:R / 50%:R * (dx * dx + dy * dy) - (dy - rise / 50%:R) ^+ 2 / 2%:R
    = ((2%:R / 5%:R * dy + rise / 20%:R) ^+ 2 + 29%:R / 10000%:R * ((20%:R * dx) ^+ 2 - rise ^+ 2)) / 2%:R by field.
  rewrite divr_ge0 ?ler0n // addr_ge0 ?sqr_ge0 // mulr_ge0 ?divr_ge0 ?ler0n // subr_ge0.
  rewrite -[rise ^+ 2]real_normK ?num_real // -[_ ^+ 2 in X in _ <= X]real_normK ?num_real //.
  by rewrite ler_expn2r ?nnegrE ?normr_ge0 // normrM (ger0_norm (x := 20%:R)).
have second : `|s| * (rise - k * dx) / 50%:R <= 7%:R / 200%:R * (dx * dx + dy * dy).
  apply: (@le_trans _ _ (top * (dx ^+ 2 / 2%:R) / 50%:R)).
    by rewrite ler_wpmul2r ?invr_ge0 ?ler0n // ler_pmul.
  rewrite -subr_ge0; have -> : 7%:R / 200%:R * (dx * dx + dy * dy) - top * (dx ^+ 2 / 2%:R) / 50%:R
    = 7%:R / 200%:R * dy ^+ 2 by rewrite /top; field.
  by rewrite mulr_ge0 ?sqr_ge0 // divr_ge0 ?ler0n.
by apply: (le_trans (ler_add first second)); rewrite -mulrDl le_eqVlt; apply/orP; left; apply/eqP; congr (_ * _); field.
Qed.

Lemma shift_is : norm2 (minimum - anchor) = 29%:R / 25%:R.
Proof. by rewrite /norm2 dot_plane !mxE /=; field. Qed.

Lemma loss_minimum : loss minimum = 0.
Proof.
rewrite /loss (_ : height minimum = 0) ?huber_small ?normr0 ?expr0n ?mul0r //.
by rewrite /height !mxE /= huber_small ?ger0_norm ?lexx //; field.
Qed.

Lemma nearest q : loss q = 0 -> norm2 (minimum - anchor) <= norm2 (q - anchor).
Proof.
move/(huber_eq0 top_ge0 top_gt0) => on; rewrite shift_is /norm2 dot_plane !mxE /=.
have := huber_low (B := 20%:R) (q 0 0) (b := 20%:R); rewrite ger0_norm // lexx => /(_ isT).
have -> : huber 20%:R (q 0 0) = 50%:R * (q 0 1 + 3%:R) by rewrite -[RHS]subr0 -(mulr0 50%:R) -on /height; field.
rewrite -subr_ge0; move: (q 0 0) (q 0 1) => x y above.
pose far := y - 0 - 2%:R / 5%:R * (x - 102%:R / 5%:R).
have far_ge : 29%:R / 25%:R <= far.
  rewrite -subr_ge0 -(pmulr_rge0 _ (x := 50%:R)) ?ltr0n //; apply: equal_ge0 above; rewrite /far; by field.
have c0 : 0 < 29%:R / 25%:R :> R by rewrite divr_gt0 ?ltr0n.
rewrite -(ler_pmul2l c0); apply: (@le_trans _ _ (far ^+ 2)).
  by rewrite -expr2 ler_expn2r ?nnegrE // ltW // (lt_le_trans c0).
rewrite -subr_ge0; apply: (equal_ge0 _ (sqr_ge0 (x - 102%:R / 5%:R + 2%:R / 5%:R * y))); rewrite /far; by field.
Qed.

Lemma low : at_most (9%:R / 2%:R) loss model anchor.
Proof.
move=> a /andP[a0 a1]; rewrite /between.
set p := _ + _; have y0 : p 0 1 = 0 by rewrite !mxE /= !mulr0 addr0.
have x2 : p 0 0 ^+ 2 <= 600%:R.
  have low : - 102%:R / 5%:R <= p 0 0.
    rewrite !mxE /= -subr_ge0.
    have -> : a * - 20%:R + (1 - a) * (102%:R / 5%:R) - - 102%:R / 5%:R
      = (1 - a) * (204%:R / 5%:R) + a * (2%:R / 5%:R) by field.
    by rewrite addr_ge0 // mulr_ge0 ?subr_ge0 // divr_ge0 ?ler0n.
  have high : p 0 0 <= 102%:R / 5%:R.
    rewrite !mxE /= -subr_ge0.
    have -> : 102%:R / 5%:R - (a * - 20%:R + (1 - a) * (102%:R / 5%:R)) = a * (202%:R / 5%:R) by field.
    by rewrite mulr_ge0 // divr_ge0 ?ler0n.
  apply: (@le_trans _ _ ((102%:R / 5%:R) ^+ 2)); last first.
    rewrite -subr_ge0 (_ : _ - _ = 4596%:R / 25%:R) ?divr_ge0 ?ler0n //; by field.
  rewrite -[p 0 0 ^+ 2]real_normK ?num_real // ler_expn2r ?nnegrE ?normr_ge0 ?divr_ge0 ?ler0n //.
  by rewrite ler_norml -mulNr low.
have H0 := huber_ge0 side_ge0 (p 0 0); have H1 := le_trans (huber_le side_ge0 (p 0 0)) (ler_wpmul2r _ x2).
apply: (le_trans (huber_le top_ge0 _)); rewrite ler_wpmul2r ?invr_ge0 ?ler0n // /height y0 add0r.
have -> : 9%:R = 3%:R ^+ 2 :> R by ring.
rewrite -[_ ^+ 2]real_normK ?num_real // ler_expn2r ?nnegrE ?normr_ge0 ?ler0n // ler_norml.
rewrite ler_subl_addr ler_addl divr_ge0 ?ler0n // andbT.
have {H1} : huber 20%:R (p 0 0) <= 600%:R / 2%:R by apply: H1; rewrite invr_ge0 ler0n.
move=> H1; rewrite -subr_ge0.
have -> : 3%:R - huber 20%:R (p 0 0) / 50%:R - - 3%:R = (600%:R / 2%:R - huber 20%:R (p 0 0)) / 50%:R by field.
by rewrite divr_ge0 ?ler0n // subr_ge0.
Qed.

(* The printed form is false as a claim about every smooth loss of the plane that is at least 0. *)
Theorem printed_bound_fails : ~ forall (L : plane -> R) grad gamma eps w anchor moved,
  smooth L grad gamma -> (forall U, 0 <= L U) ->
  L moved = 0 -> (forall U, L U = 0 -> norm2 (moved - anchor) <= norm2 (U - anchor)) ->
  at_most eps L w anchor -> at_most (eps + gamma * norm2 (moved - anchor)) L w moved.
Proof.
move=> printed.
have := printed _ _ _ _ _ _ _ loss_smooth (fun U => huber_ge0 top_ge0 _) loss_minimum nearest low.
have half : 0 <= (2%:R^-1 : R) <= 1 by rewrite invr_ge0 ler0n invf_le1 ?ltr0n // ler1n.
move=> new; have := new _ half; rewrite shift_is /loss (_ : height _ = top); last first.
  rewrite /height !mxE /=; have -> : 2%:R^-1 * - 20%:R + (1 - 2%:R^-1) * 20%:R = 0 :> R by field.
  by rewrite huber_small ?normr0 // expr0n /= /top; field.
rewrite huber_small ?ger0_norm // -subr_ge0.
have -> : 9%:R / 2%:R + 123%:R / 100%:R * (29%:R / 25%:R) - top ^+ 2 / 2%:R = - (991%:R / 5000%:R) :> R.
  by rewrite /top; field.
by rewrite oppr_ge0 leNgt divr_gt0 ?ltr0n.
Qed.
End Valley.

Print Assumptions moved_anchor.
Print Assumptions printed_bound_fails.
