(** The promises for N nodes, majorities, and the formulas of the library. *)
From Coq Require Import ZArith List Lia.
From Redquorum Require Import Model Exclusion Tokens.
Import ListNotations.
Open Scope Z_scope.

(** * Majorities *)

(** [needed] different nodes of [N], or more (src/algorithm/tally.rs). *)
Definition is_majority (N needed : nat) (q : list node) : Prop :=
  NoDup q /\ (forall n, In n q -> (n < N)%nat) /\ (needed <= length q)%nat.

Lemma majorities_meet N needed : (N < 2 * needed)%nat ->
  forall q1 q2, is_majority N needed q1 -> is_majority N needed q2 -> exists n, In n q1 /\ In n q2.
Proof.
  intros M q1 q2 (D1 & B1 & L1) (D2 & B2 & L2).
  destruct (Exists_dec (fun n => In n q2) q1) as [E|E].
  - intros n. apply in_dec, Nat.eq_dec.
  - apply Exists_exists in E. destruct E as (n & A & B). eauto.
  - exfalso. assert (D : NoDup (q1 ++ q2)).
    { clear L1 B1. induction q1 as [|n q1 IH]; [exact D2|]. inversion D1; subst. cbn. constructor.
      - rewrite in_app_iff. intros [X|X]; [tauto|]. apply E. left. exact X.
      - apply IH; [assumption|]. intros X. apply E. right. exact X. }
    assert (I : incl (q1 ++ q2) (seq 0 N)).
    { intros n H. apply in_app_iff in H. apply in_seq.
      destruct H as [H|H]; [apply B1 in H|apply B2 in H]; lia. }
    pose proof (NoDup_incl_length D I) as P. rewrite app_length, seq_length in P. lia.
Qed.

(** * The formulas of src/algorithm/validity.rs, in nanoseconds *)

Definition PPM := 1000000.
(** [MARGIN]: two milliseconds. *)
Definition margin := 2000000.
Definition second := 1000000000.
(** Division, rounded up. *)
Definition div_ceil a b := (a + b - 1) / b.
(** [Validity::drift_of] *)
Definition drift_of drift_ppm t := div_ceil (t * drift_ppm) PPM.
(** [Validity::window]. The library also raises a negative result to zero, and such a lease is never granted. *)
Definition window drift_ppm t := t - drift_of drift_ppm t - margin.
(** [Validity::outlasting] *)
Definition outlasting drift_ppm t := t + drift_of drift_ppm t + margin.
(** [Validity::seen_by_any] *)
Definition seen_by_any drift_ppm t := div_ceil (t * (2 * PPM + drift_ppm)) (2 * PPM - drift_ppm) + margin.

Lemma div_ceil_spec a b : 0 < b -> a <= b * div_ceil a b.
Proof.
  intros H. unfold div_ceil. pose proof (Z.mod_pos_bound (a + b - 1) b H).
  pose proof (Z.div_mod (a + b - 1) b). lia.
Qed.

Section Formulas.
Variable drift_ppm : Z.
(** [Validity::with_drift] refuses a drift of one half or more. *)
Hypothesis drift_is_small : 0 <= drift_ppm < 500000.

Theorem the_window_meets_the_validity_rule ttl : 0 <= ttl ->
  2 * PPM * window drift_ppm ttl <= (2 * PPM - 2 * drift_ppm) * ttl - 2 * PPM * margin.
Proof.
  intros H. unfold window, drift_of.
  pose proof (div_ceil_spec (ttl * drift_ppm) PPM eq_refl). lia.
Qed.

Theorem the_quarantine_outlasts_every_ttl ttl : 0 <= ttl -> ttl <= outlasting drift_ppm ttl.
Proof.
  intros H. unfold outlasting, drift_of, margin.
  pose proof (div_ceil_spec (ttl * drift_ppm) PPM eq_refl). unfold PPM in *. nia.
Qed.

Theorem renewals_wait_for_every_attempt timeout :
  (2 * PPM + drift_ppm) * timeout + (2 * PPM - drift_ppm) * margin <=
  (2 * PPM - drift_ppm) * seen_by_any drift_ppm timeout.
Proof.
  unfold seen_by_any.
  pose proof (div_ceil_spec (timeout * (2 * PPM + drift_ppm)) (2 * PPM - drift_ppm)). unfold PPM in *. nia.
Qed.
End Formulas.

(** * The promises *)

Section Promises.
(** N nodes, and the votes that a quorum needs: a majority, or more. *)
Variables N needed : nat.
Hypothesis majority : (N < 2 * needed)%nat.

(** The settings (src/config/quorum.rs). *)
Variables drift_ppm longest_ttl timeout : Z.
Hypothesis drift_is_small : 0 <= drift_ppm < 500000.
Hypothesis ttl_is_positive : 0 <= longest_ttl.

(** The clocks, and which leases only read. *)
Variable clock_of_node : node -> Z -> Z.
Variable clock_of_client : lease_id -> Z -> Z.
Variable only_reads : lease_id -> bool.

(** The model with these settings. [A8] says whether assumption A8 is made. *)
Definition redquorum (A8 : Prop) : configuration := {|
  is_quorum := is_majority N needed;
  node_clock := clock_of_node;
  client_clock := clock_of_client;
  reads := only_reads;
  max_ttl := longest_ttl;
  attempt_timeout := timeout;
  quarantine_lasts := outlasting drift_ppm (Z.max longest_ttl second);
  renewals_after := seen_by_any drift_ppm timeout;
  validity := window drift_ppm;
  counters_are_kept := A8 |}.

(** P2 needs no clock. *)
Theorem redquorum_tokens_are_unique s l1 l2 le1 le2 :
  reachable (redquorum True) s -> conflict (redquorum True) l1 l2 ->
  leases (all_clients s) l1 = Some le1 -> leases (all_clients s) l2 = Some le2 -> token le1 <> token le2.
Proof. apply tokens_are_unique; [apply majorities_meet; assumption|exact I]. Qed.

Theorem redquorum_tokens_grow s l1 l2 le1 le2 a :
  reachable (redquorum True) s -> conflict (redquorum True) l1 l2 ->
  leases (all_clients s) l1 = Some le1 -> leases (all_clients s) l2 = Some le2 ->
  attempts (all_clients s) l2 = Some a -> In l1 (granted_before a) -> token le1 < token le2.
Proof. apply tokens_grow; [apply majorities_meet; assumption|exact I]. Qed.

(** A1 and A3: no clock of a client is slower than the real time by more than half of the drift. *)
Hypothesis client_clocks : forall l t1 t2, t1 <= t2 ->
  2 * PPM * (clock_of_client l t2 - clock_of_client l t1) >= (2 * PPM - drift_ppm) * (t2 - t1).

(** A1 and A2: no clock of a node is faster by more than half of the drift, apart from steps forward of at most two
    milliseconds together, granularity included, in any time as long as twice the longest ttl or attempt timeout. *)
Hypothesis node_clocks : forall n t1 t2, t1 <= t2 -> t2 - t1 <= 2 * Z.max longest_ttl timeout ->
  2 * PPM * (clock_of_node n t2 - clock_of_node n t1) <= (2 * PPM + drift_ppm) * (t2 - t1) + 2 * PPM * margin.

(** P1, with or without A8. *)
Theorem redquorum_exclusion A8 s l1 l2 :
  reachable (redquorum A8) s -> conflict (redquorum A8) l1 l2 ->
  is_valid (redquorum A8) s l1 -> is_valid (redquorum A8) s l2 -> False.
Proof.
  apply (exclusion (redquorum A8) (majorities_meet N needed majority) (2 * PPM) drift_ppm)
    with (step := margin) (span := 2 * Z.max longest_ttl timeout).
  - unfold PPM. lia.
  - exact client_clocks.
  - unfold margin. lia.
  - exact node_clocks.
  - change (max_ttl (redquorum A8)) with longest_ttl. unfold PPM. nia.
  - change (attempt_timeout (redquorum A8)) with timeout. unfold PPM. nia.
  - intros ttl H. apply the_window_meets_the_validity_rule; assumption.
  - change (longest_ttl <= outlasting drift_ppm (Z.max longest_ttl second)).
    pose proof (the_quarantine_outlasts_every_ttl drift_ppm drift_is_small (Z.max longest_ttl second)).
    unfold second in *. lia.
  - apply renewals_wait_for_every_attempt. assumption.
Qed.
End Promises.

(** * The model is not empty *)

(** Three nodes, and clocks that are right. *)
Definition right_clock : nat -> Z -> Z := fun _ t => t.
Definition three_nodes : configuration :=
  redquorum 3 2 10000 (60 * second) (2 * second) right_clock right_clock (fun _ => false) True.

Definition empty_node : node_state :=
  {| keys := fun _ => None; counter := 0; minimum_token := 0; phase := 0; restart_guard := Intact |}.

(** There is a run in which a lease is valid. *)
Theorem a_lease_can_be_valid : exists s, reachable three_nodes s /\ is_valid three_nodes s 1%nat.
Proof.
  assert (W : forall n t, node_clock three_nodes n t = t) by reflexivity.
  assert (R0 : reachable three_nodes {| now := 0; nodes := fun _ => empty_node; all_clients := no_clients |}) by
    (apply Start; repeat split).
  eexists. split.
  - eapply Move. eapply Move. eapply Move. eapply Move. eapply Move. exact R0.
    + eapply ClientMoves. apply (BeginAttempt _ _ _ 1%nat (30 * second) None);
        [reflexivity|intros []|vm_compute; split; discriminate].
    + eapply (NodeMoves _ _ 0%nat). eapply (Lock _ _ _ _ _ 1%nat _ 1 (update (fun _ => None) 1%nat (Some (30 * second))) 0);
        cbn; try reflexivity; try exact I.
      * intros l' _ [].
      * left. cbn. lia.
      * split; [|split].
        { exists (30 * second). split; [reflexivity|]. split; [vm_compute; discriminate|]. discriminate. }
        { intros l' [H _]. rewrite update_other; auto. }
        { intros l' H _. rewrite update_other; auto. }
      * left. split; [reflexivity|discriminate].
    + eapply (NodeMoves _ _ 1%nat). eapply (Lock _ _ _ _ _ 1%nat _ 1 (update (fun _ => None) 1%nat (Some (30 * second))) 0);
        cbn; try reflexivity; try exact I.
      * intros l' _ [].
      * left. cbn. lia.
      * split; [|split].
        { exists (30 * second). split; [reflexivity|]. split; [vm_compute; discriminate|]. discriminate. }
        { intros l' [H _]. rewrite update_other; auto. }
        { intros l' H _. rewrite update_other; auto. }
      * left. split; [reflexivity|discriminate].
    + eapply ClientMoves. apply (FixToken _ _ _ 1%nat 1); cbn; [discriminate|reflexivity].
    + eapply ClientMoves. eapply (Grant _ _ _ 1%nat _ 1 (20 * second) [0%nat; 1%nat]); cbn; try reflexivity; try tauto.
      * split; [|split].
        { constructor; [intros [E|[]]; discriminate|]. constructor; [intros []|constructor]. }
        { intros n [<-|[<-|[]]]; auto. }
        { auto. }
      * intros n [<-|[<-|[]]]; split.
        { eexists. split; [right; left; reflexivity|split; reflexivity]. }
        { eexists. split; [right; left; reflexivity|repeat split]. }
        { eexists. split; [left; reflexivity|split; reflexivity]. }
        { eexists. split; [left; reflexivity|repeat split]. }
      * vm_compute. discriminate.
      * vm_compute. discriminate.
  - eexists. cbn. split; [reflexivity|]. split; [tauto|]. reflexivity.
Qed.
