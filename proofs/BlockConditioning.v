(* A lower bound of the condition number that preconditioners with a block for each client can reach. If P is symmetric,
   positive and block-diagonal over the clients, the condition number of H P is at least 1/nu. Here H_D are the client
   blocks of H, and nu is the smallest eigenvalue of H_D^-1 H.

   The statement fl-ntk/block-conditioning rests on this file: its stated form, and its new form for two clients.

   The theorems are about quadratic forms. The inequality a Q <= H <= b Q with Q = P^-1 says that the spectrum of H P is
   in [a, b]. An eigenvector gives a vector v with v'Hv <= nu v'H_D v. Every such b/a is at least 1/nu, and so is the
   condition number. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Blocks.
Variables (R : realFieldType) (n N : nat) (owner : 'I_n -> 'I_N).
Implicit Types (H Q : 'M[R]_n) (v : 'I_n -> R).

Definition form H v : R := \sum_i \sum_j v i * v j * H i j.
Definition part c v i : R := if owner i == c then v i else 0.
Definition client_blocks H : 'M[R]_n := \matrix_(i, j) (if owner i == owner j then H i j else 0).

Lemma form_blocks H v : form (client_blocks H) v = \sum_c form H (part c v).
Proof.
rewrite /form [RHS]exchange_big; apply: eq_bigr => i _; rewrite exchange_big; apply: eq_bigr => j _.
rewrite mxE (bigD1 (owner i)) //= big1 ?addr0 => [|c ne].
  by rewrite /part eqxx eq_sym; case: eqP; rewrite ?mulr0 ?mul0r.
by rewrite /part eq_sym (negbTE ne) !mul0r.
Qed.

Theorem client_local_lower_bound H Q v a b nu :
  client_blocks Q = Q ->                                           (* Q is block-diagonal *)
  (forall u, a * form Q u <= form H u <= b * form Q u) -> 0 < a ->   (* the spectrum of H P is in [a, b] *)
  form H v <= nu * form (client_blocks H) v -> 0 < form (client_blocks H) v ->
  0 <= b -> a <= b * nu.
Proof.
move=> block between a0 small positive b0; set D := form (client_blocks H) v in small positive *.
have upper : D <= b * form Q v.
  rewrite /D -block !form_blocks mulr_sumr; apply: ler_sum => c _; by case/andP: (between (part c v)).
have lower : a * form Q v <= nu * D by apply: le_trans small; case/andP: (between v).
have : a * D <= b * nu * D.
  apply: (le_trans (ler_wpmul2l (ltW a0) upper)); rewrite mulrCA -mulrA.
  exact: ler_wpmul2l.
by rewrite ler_pmul2r.
Qed.
End Blocks.

(* For two clients the sharper bound (2 - nu)/nu holds. Infinitely many local steps attain it. *)
Section TwoClients.
Variables (R : realFieldType) (n : nat) (owner : 'I_n -> 'I_2).
Implicit Types (H Q : 'M[R]_n) (v : 'I_n -> R).
Local Notation client_blocks := (client_blocks owner).

Definition turned v i : R := if owner i == ord0 then v i else - v i.

Lemma turned_pair v i j :
  turned v i * turned v j + v i * v j = if owner i == owner j then (v i * v j) *+ 2 else 0.
Proof.
rewrite /turned; case: (owner i) => [[|[|k]] ki] //; case: (owner j) => [[|[|l]] lj] //=;
by rewrite -?val_eqE /= ?mulrNN ?mulrN ?mulNr ?addNr ?mulr2n.
Qed.

Lemma form_turned H v : form H (turned v) + form H v = form (client_blocks H) v *+ 2.
Proof.
rewrite /form -big_split -sumrMnl; apply: eq_bigr => i _ /=; rewrite -big_split -sumrMnl; apply: eq_bigr => j _ /=.
by rewrite -mulrDl turned_pair mxE; case: ifP => _; rewrite ?mul0r ?mulr0 ?mul0rn // mulrnAl.
Qed.

Theorem two_clients_lower_bound H Q v a b nu :
  client_blocks Q = Q -> (forall u, a * form Q u <= form H u <= b * form Q u) -> 0 < a ->
  form H v <= nu * form (client_blocks H) v -> 0 < form (client_blocks H) v ->
  0 <= b -> a * (2%:R - nu) <= b * nu.
Proof.
move=> block between a0 small positive b0; set D := form (client_blocks H) v in small positive *.
have same : form Q (turned v) = form Q v.
  by have := form_turned Q v; rewrite block mulr2n => /addIr.
have lower : a * form Q v <= nu * D by apply: le_trans small; case/andP: (between v).
have upper : (2%:R - nu) * D <= b * form Q v.
  rewrite -same; apply: (@le_trans _ _ (form H (turned v))); last by case/andP: (between (turned v)).
  have -> : form H (turned v) = D *+ 2 - form H v by rewrite -form_turned addrK.
  by rewrite mulrBl mulr_natl ler_sub.
have : a * (2%:R - nu) * D <= b * nu * D.
  rewrite -mulrA; apply: (le_trans (ler_wpmul2l (ltW a0) upper)); rewrite mulrCA -mulrA.
  exact: ler_wpmul2l.
by rewrite ler_pmul2r.
Qed.
End TwoClients.

Print Assumptions two_clients_lower_bound.
Print Assumptions client_local_lower_bound.
