(* A checkpoint of a network with 256 neurons, trained on 20 digits by four clients, is safe under every continuation of
   its training. The checkpoint is the export of `ntkfl certify --any-order --data digits --n 20 --width 256
   --local-steps 5 --eta-local 0.5 --watch --every 5 --export digits`, and Checker.v's program checks it inside Coq's
   kernel. reflect.py writes DigitsData.v from the folder digits.

   The statement fl-ntk/any-order rests on this file for one case, from stored numbers to the theorem's conclusion. *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra.
Require Import Euclid AnyOrder Checker DigitsData.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Lemma accepted : check plain_dots stored proof. Proof. vm_cast_no_check (erefl true). Qed.

Section Digits.
Variable R : realFieldType.
Definition D : R := real R claimed / 2%:R ^+ claimed_exponent.
Lemma D_is : bound R stored proof = D. Proof. by apply: bound_is; vm_cast_no_check (erefl true). Qed.

Theorem digits_are_safe eps U spent b z : 0 <= eps ->
  continued (@stored_input R stored) (@stored_readout R stored) (@stored_target R stored) (start R stored) eps U spent ->
  eps * spent <= D ^+ 2 /\
  (net b z U - net b z (start R stored)) ^+ 2 <= 4%:R * D ^+ 2 * (\sum_r b r * b r) * (\sum_j z j * z j).
Proof. rewrite -D_is => eps0 U_is; exact: (checked_safe (fun _ _ => erefl) accepted b z eps0 U_is). Qed.
End Digits.

Print Assumptions digits_are_safe.
