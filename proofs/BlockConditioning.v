(* No client-local preconditioner conditions a kernel better than the kernel's own client blocks allow: if P is symmetric
   positive and block-diagonal over the clients, the condition number of H P is at least 1/nu, nu the smallest eigenvalue
   of H_D^-1 H and H_D the client blocks of H.

   fl-ntk/block-conditioning (its stated form) rests on it.

   As forms: a Q <= H <= b Q with Q = P^-1 bounds the spectrum of H P by [a, b], and v'Hv <= nu v'H_D v for some v is what
   an eigenvector gives. Any b/a is at least 1/nu, hence the condition number is. *)
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

Print Assumptions client_local_lower_bound.
