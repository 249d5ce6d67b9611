(** The trace checker: whether the events of clients that a run has recorded are steps of clients of the model.

    src/sim/world/proof_trace.rs records the runs of the simulator, and check.ml reads the records. [check] is computed,
    and [accepted_traces_are_runs] proves that the clients of every trace that [check] accepts take steps of the model.

    The steps of nodes are not checked here, because the simulator executes the pure node of the library (src/node/state),
    which is compared with the executable node. Of a step of a node, a trace has the answer. *)
From Coq Require Import ZArith List Bool Lia.
From Redquorum Require Import Model Majority.
Import ListNotations.
Open Scope Z_scope.

(** * Events *)

Inductive event :=
(** The client sends the first request of an attempt. *)
| Began (l : lease_id) (ttl : Z) (proof : option Z)
(** A node grants a lock with this ttl, by the vote [v]. *)
| Voted (l : lease_id) (n : node) (ttl v : Z)
| WroteBack (l : lease_id) (n : node) (T : Z)  (** A node confirms a token that was written back. *)
| Won (l : lease_id) (T until : Z)             (** The client has the lease. *)
| RenewalBegan (l : lease_id) (ttl : Z)        (** The client begins a renewal. *)
| Renewed (l : lease_id) (n : node) (ttl : Z)  (** A node executes a renewal with this ttl, and the renewal counts. *)
| Extended (l : lease_id) (until : Z)          (** The client counts a renewal. *)
| Ended (l : lease_id)                         (** The attempt or the lease is over. *)
| Unlocked (l : lease_id) (n : node).          (** A node deletes the key of the lease. *)

(** * Steps of nodes, as clients see them *)

Section Runs.
Variable C : configuration.

(** What a step of a node changes for clients, at the real time [t]. *)
Inductive node_effect (t : Z) (c : clients) : clients -> Prop :=
| Vote l a n v : attempts c l = Some a ->
    node_effect t c (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n))
| Confirm l T n : tokens c l = Some T -> node_effect t c (unless_granted c l (add_confirmation c l T n))
| Answer r n : In r (renewals c) -> node_effect t c (add_answer c r n t)
| DeleteKey l : ended c l -> node_effect t c c
| Silent : node_effect t c c.

(** No step of a node has another effect. *)
Theorem nodes_have_no_other_effect t c n x x' c' : node_step C t c n x x' c' -> node_effect t c c'.
Proof. destruct 1; eauto using node_effect. Qed.

(** The clients of a run in which nodes answer in any way. *)
Inductive clients_can_reach : Z -> clients -> Prop :=
| Nothing t : clients_can_reach t no_clients
| TimePasses t t' c : clients_can_reach t c -> t <= t' -> clients_can_reach t' c
| ClientStep t c c' : clients_can_reach t c -> client_step C t c c' -> clients_can_reach t c'
| NodeEffect t c c' : clients_can_reach t c -> node_effect t c c' -> clients_can_reach t c'.

(** The clients of every run of the model are such clients. *)
Theorem runs_have_such_clients s : reachable C s -> clients_can_reach (now s) (all_clients s).
Proof.
  induction 1 as [s [Hc _]|s s' _ IH Hm]; [rewrite Hc; constructor|].
  destruct Hm; cbn; eauto using clients_can_reach, nodes_have_no_other_effect.
Qed.
End Runs.

(** * The checker *)

Section Checker.
Variables N needed : nat.
Variables drift_ppm longest_ttl timeout : Z.
Variable clock : lease_id -> Z -> Z.
Variable clock_of_node : node -> Z -> Z.
Variable only_reads : lease_id -> bool.

(** The nodes and the settings of the trace. The clocks are those of the trace. *)
Definition traced (A8 : Prop) : configuration :=
  redquorum N needed drift_ppm longest_ttl timeout clock_of_node clock only_reads A8.

(** What is known of all clients. The ends are apart, because they are computed. *)
Record checked := { at_time : Z; known : clients; is_over : lease_id -> bool }.

Definition is_round (r r' : round) : bool :=
  Nat.eqb (round_lease r) (round_lease r') && (round_start r =? round_start r') && (round_ttl r =? round_ttl r') &&
  Bool.eqb (is_attempt r) (is_attempt r').
Definition answered_by (c : clients) (r : round) (n : node) : bool :=
  existsb (fun a => Nat.eqb (answer_node a) n && is_round (answer_round a) r) (answers c).
Definition confirmed_by (c : clients) (l : lease_id) (T : Z) (n : node) : bool :=
  existsb (fun f => Nat.eqb (confirming_node f) n && Nat.eqb (confirmed_lease f) l && (confirmed_token f =? T))
    (confirmations c).

(** The nodes with a property, if they are enough. *)
Definition nodes_with (f : node -> bool) : list node := filter f (seq 0 N).
Definition has_quorum (f : node -> bool) : bool := (needed <=? length (nodes_with f))%nat.

Definition is_ttl (ttl : Z) : bool := (0 <=? ttl) && (ttl <=? longest_ttl).

(** The clients after the token of an attempt is fixed, at its first use. *)
Definition fix_token (c : clients) (l : lease_id) (T : Z) : option clients :=
  match attempts c l, tokens c l with
  | Some _, None => Some (set_tokens c (update (tokens c) l (Some T)))
  | Some _, Some T' => if T' =? T then Some c else None
  | None, _ => None
  end.

(** Whether the answers to a round allow the end of a validity. *)
Definition allows (c : clients) (l : lease_id) (until : Z) (r : round) : bool :=
  Nat.eqb (round_lease r) l && has_quorum (answered_by c r) &&
  (until <=? clock l (round_start r) + window drift_ppm (round_ttl r)).

(** Whether a node that renews the lease with this ttl answers the round: the round began before, and the key lasts as
    long as the round demands. *)
Definition is_answered (l : lease_id) (ttl : Z) (r : round) : bool :=
  Nat.eqb (round_lease r) l && (round_ttl r <=? ttl).

Definition if_ {A} (condition : bool) (result : A) : option A := if condition then Some result else None.

(** The clients after an event at the time [t]; [None] if the event is no step of the model. *)
Definition check_clients (t : Z) (c : clients) (over : lease_id -> bool) (e : event) : option clients :=
  match e with
  | Began l ttl proof =>
    match attempts c l with
    | Some _ => None
    | None => if_ (negb (over l) && is_ttl ttl) (set_attempts c (update (attempts c) l (Some
        {| attempt_start := t; attempt_ttl := ttl; attempt_proof := proof; granted_before := granted c |})))
    end
  | Voted l n ttl v =>
    match attempts c l with
    | Some a => if_ (attempt_ttl a <=? ttl)
        (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n))
    | None => None
    end
  | WroteBack l n T =>
    match fix_token c l T with
    | Some c => Some (unless_granted c l (add_confirmation c l T n))
    | None => None
    end
  | Won l T until =>
    match fix_token c l T with
    | Some c =>
      match attempts c l, leases c l with
      | Some a, None =>
        if_ (negb (over l) &&
          has_quorum (fun n => answered_by c (lock_round l a) n && confirmed_by c l T n) &&
          (clock l t - clock l (attempt_start a) <=? timeout) &&
          (until <=? clock l (attempt_start a) + window drift_ppm (attempt_ttl a)) && (clock l t <? until))
        (set_granted (set_leases c (update (leases c) l (Some {| lease_start := attempt_start a;
          lease_ttl := attempt_ttl a; valid_until := until; token := T |}))) (l :: granted c))
      | _, _ => None
      end
    | None => None
    end
  | RenewalBegan l ttl =>
    match leases c l with
    | Some _ => if_ (negb (over l) && is_ttl ttl) (set_renewals c
        ({| round_lease := l; round_start := t; round_ttl := ttl; is_attempt := false |} :: renewals c))
    | None => None
    end
  | Renewed l n ttl =>
    if_ (existsb (is_answered l ttl) (renewals c)) (fold_right (fun r c => add_answer c r n t) c
      (filter (fun r => is_answered l ttl r && negb (answered_by c r n)) (renewals c)))
  | Extended l until =>
    match leases c l with
    | Some le =>
      if until =? valid_until le then Some c else
      match find (allows c l until) (renewals c) with
      | Some r => if_ (negb (over l) && (clock l t <? valid_until le))
          (set_leases c (update (leases c) l (Some {| lease_start := round_start r; lease_ttl := round_ttl r;
            valid_until := until; token := token le |})))
      | None => None
      end
    | None => None
    end
  | Ended _ => Some c
  | Unlocked l _ => if_ (over l) c
  end.

(** The state after an event at the time [t]. *)
Definition check (s : checked) (t : Z) (e : event) : option checked :=
  if t <? at_time s then None else
  match check_clients t (known s) (is_over s) e with
  | None => None
  | Some c => Some {| at_time := t; known := c;
      is_over := match e with Ended l => update (is_over s) l true | _ => is_over s end |}
  end.

(** The state before the first event, and after a trace. *)
Definition first_state (t : Z) : checked := {| at_time := t; known := no_clients; is_over := fun _ => false |}.
Fixpoint check_all (s : checked) (trace : list (Z * event)) : option checked :=
  match trace with
  | [] => Some s
  | (t, e) :: rest => match check s t e with Some s' => check_all s' rest | None => None end
  end.

(** * The checker is right *)

Variable A8 : Prop.

(** Clients of the model that the checker's state describes. *)
Definition describes (s : checked) (c : clients) : Prop :=
  exists over, c = set_ended (known s) over /\ forall l, over l <-> is_over s l = true.

Lemma is_round_eq r r' : is_round r r' = true -> r = r'.
Proof.
  destruct r, r'. unfold is_round. cbn. rewrite !andb_true_iff, Nat.eqb_eq, !Z.eqb_eq, Bool.eqb_true_iff.
  intros [[[-> ->] ->] ->]. reflexivity.
Qed.

Lemma answered_by_ok c r n : answered_by c r n = true -> has_answered c r n.
Proof.
  unfold answered_by. rewrite existsb_exists. intros (a & H & E). apply andb_true_iff in E. destruct E as [E F].
  exists a. split; [exact H|]. split; [apply is_round_eq; exact F|apply Nat.eqb_eq; exact E].
Qed.

Lemma confirmed_by_ok c l T n : confirmed_by c l T n = true -> has_confirmed c l T n.
Proof.
  unfold confirmed_by. rewrite existsb_exists. intros (f & H & E). rewrite !andb_true_iff in E.
  destruct E as [[E F] G]. exists f. repeat split; [exact H| | |]; [apply Nat.eqb_eq|apply Z.eqb_eq|apply Nat.eqb_eq]; assumption.
Qed.

Lemma has_quorum_ok f : has_quorum f = true -> is_quorum (traced A8) (nodes_with f) /\ forall n, In n (nodes_with f) -> f n = true.
Proof.
  unfold has_quorum, nodes_with. intros H. apply Nat.leb_le in H. split.
  - split; [apply NoDup_filter, seq_NoDup|]. split; [|exact H].
    intros n Hn. apply filter_In in Hn. destruct Hn as [Hn _]. apply in_seq in Hn. lia.
  - intros n Hn. apply filter_In in Hn. tauto.
Qed.

Lemma if_some {A} b (r r' : A) : if_ b r = Some r' -> b = true /\ r = r'.
Proof. destruct b; cbn; [intros H; split; congruence|discriminate]. Qed.

Lemma fixed c l T c' t over : fix_token c l T = Some c' ->
  clients_can_reach (traced A8) t (set_ended c over) ->
  clients_can_reach (traced A8) t (set_ended c' over) /\ tokens c' l = Some T /\ attempts c' = attempts c /\ leases c' = leases c.
Proof.
  unfold fix_token. destruct (attempts c l) eqn:Ha; [|discriminate]. destruct (tokens c l) as [T'|] eqn:Ht.
  - destruct (Z.eqb_spec T' T) as [->|]; [|discriminate]. intros [= <-] H. auto.
  - intros [= <-] H. split; [|cbn; rewrite update_same; auto].
    apply (ClientStep _ _ _ _ H (FixToken _ _ (set_ended c over) l T ltac:(cbn; congruence) Ht)).
Qed.

Lemma answers_all t over n rs c : clients_can_reach (traced A8) t (set_ended c over) -> incl rs (renewals c) ->
  clients_can_reach (traced A8) t (set_ended (fold_right (fun r c => add_answer c r n t) c rs) over) /\
  renewals (fold_right (fun r c => add_answer c r n t) c rs) = renewals c.
Proof.
  intros H. induction rs as [|r rs IH]; cbn; [auto|]. intros I.
  destruct IH as [R E]; [intros x Hx; apply I; right; exact Hx|]. split; [|exact E].
  apply (NodeEffect _ _ _ _ R). apply (Answer t (set_ended (fold_right _ c rs) over)).
  cbn. rewrite E. apply I. left. reflexivity.
Qed.

Lemma check_clients_ok t c over (ended_ : lease_id -> Prop) e c' : check_clients t c over e = Some c' ->
  (forall l, ended_ l <-> over l = true) ->
  clients_can_reach (traced A8) t (set_ended c ended_) -> clients_can_reach (traced A8) t (set_ended c' ended_).
Proof.
  intros H O R. assert (NO : forall l, negb (over l) = true -> ~ ended_ l) by
    (intros l E X; apply O in X; rewrite X in E; discriminate).
  destruct e as [l ttl proof|l n ttl v|l n T|l T until|l ttl|l n ttl|l until|l|l n]; cbn in H.
  - destruct (attempts c l) eqn:Ha; [discriminate|]. apply if_some in H. destruct H as [H <-].
    apply andb_true_iff in H. destruct H as [Hn Ht]. unfold is_ttl in Ht.
    apply andb_true_iff in Ht. destruct Ht as [H0 H1]. apply Z.leb_le in H0, H1.
    apply (ClientStep _ _ _ _ R (BeginAttempt (traced A8) t (set_ended c ended_) l ttl proof Ha (NO _ Hn) (conj H0 H1))).
  - destruct (attempts c l) as [a|] eqn:Ha; [|discriminate]. apply if_some in H. destruct H as [_ <-].
    pose proof (NodeEffect _ _ _ _ R (Vote t (set_ended c ended_) l a n v Ha)) as X.
    unfold unless_granted in *. cbn in X. destruct (leases c l); exact X.
  - destruct (fix_token c l T) as [c1|] eqn:F; [|discriminate]. injection H as <-.
    destruct (fixed _ _ _ _ t ended_ F R) as (R1 & T1 & _ & _).
    pose proof (NodeEffect _ _ _ _ R1 (Confirm t (set_ended c1 ended_) l T n T1)) as X.
    unfold unless_granted in *. cbn in X. destruct (leases c1 l); exact X.
  - destruct (fix_token c l T) as [c1|] eqn:F; [|discriminate].
    destruct (fixed _ _ _ _ t ended_ F R) as (R1 & T1 & A1 & L1).
    destruct (attempts c1 l) as [a|] eqn:Ha; [|discriminate]. destruct (leases c1 l) eqn:Hl; [discriminate|].
    apply if_some in H. destruct H as [H <-]. rewrite !andb_true_iff in H.
    destruct H as [[[[Hn Hq] Ht] Hu] Hv]. apply Z.leb_le in Ht, Hu. apply Z.ltb_lt in Hv.
    destruct (has_quorum_ok _ Hq) as [Q B].
    refine (ClientStep _ _ _ _ R1 (Grant (traced A8) t (set_ended c1 ended_) l a T until _ Ha T1 Hl (NO _ Hn) Q _ Ht Hu Hv)).
    intros n Hin. apply B in Hin. apply andb_true_iff in Hin. destruct Hin as [X Y].
    split; [apply answered_by_ok in X; exact X|apply confirmed_by_ok in Y; exact Y].
  - destruct (leases c l) eqn:Hl; [|discriminate]. apply if_some in H. destruct H as [H <-].
    apply andb_true_iff in H. destruct H as [Hn Ht]. unfold is_ttl in Ht.
    apply andb_true_iff in Ht. destruct Ht as [H0 H1]. apply Z.leb_le in H0, H1.
    assert (L : leases c l <> None) by congruence.
    apply (ClientStep _ _ _ _ R (BeginRenewal (traced A8) t (set_ended c ended_) l ttl L (NO _ Hn) (conj H0 H1))).
  - apply if_some in H. destruct H as [_ <-].
    apply answers_all; [exact R|]. intros r Hr. apply filter_In in Hr. tauto.
  - destruct (leases c l) as [le|] eqn:Hl; [|discriminate]. destruct (until =? valid_until le); [injection H as <-; exact R|].
    destruct (find _ _) as [r|] eqn:F; [|discriminate]. apply find_some in F. destruct F as [Hr F].
    apply if_some in H. destruct H as [H <-]. apply andb_true_iff in H. destruct H as [Hn Hv]. apply Z.ltb_lt in Hv.
    unfold allows in F. rewrite !andb_true_iff in F. destruct F as [[E Hq] Hu]. apply Nat.eqb_eq in E. subst l.
    apply Z.leb_le in Hu. destruct (has_quorum_ok _ Hq) as [Q B].
    refine (ClientStep _ _ _ _ R (CompleteRenewal (traced A8) t (set_ended c ended_) r le until _ Hr Hl (NO _ Hn) Hv Q _ Hu)).
    intros n Hin. apply B, answered_by_ok in Hin. exact Hin.
  - injection H as <-. exact R.
  - apply if_some in H. destruct H as [_ <-]. exact R.
Qed.

(** Each accepted event is a step of the model's clients. *)
Theorem check_is_sound s s' t e c : check s t e = Some s' -> describes s c ->
  clients_can_reach (traced A8) (at_time s) c ->
  exists c', describes s' c' /\ at_time s' = t /\ clients_can_reach (traced A8) t c'.
Proof.
  unfold check. destruct (Z.ltb_spec t (at_time s)); [discriminate|].
  destruct (check_clients t (known s) (is_over s) e) as [c1|] eqn:E; [|discriminate]. intros [= <-] (over & -> & O) R.
  apply (TimePasses _ _ t) in R; [|assumption]. pose proof (check_clients_ok _ _ _ _ _ _ E O R) as R1.
  destruct e as [l ttl proof|l n ttl v|l n T|l T until|l ttl|l n ttl|l until|l|l n];
    try (exists (set_ended c1 over); split; [exists over; split; [reflexivity|exact O]|split; [reflexivity|exact R1]]).
  exists (set_ended c1 (fun l' => l' = l \/ over l')). split; [|split; [reflexivity|]].
  - exists (fun l' => l' = l \/ over l'). split; [reflexivity|]. intros l'. cbn. rewrite O. unfold update.
    destruct (Nat.eqb_spec l l'); intuition congruence.
  - exact (ClientStep _ _ _ _ R1 (End_ (traced A8) t (set_ended c1 over) l)).
Qed.

(** An accepted event is not ignored: its effect is in the state. A key is deleted only after the end of its lease. *)
Theorem accepted_events_have_their_effect s s' t e : check s t e = Some s' ->
  match e with
  | Began l ttl proof => exists a, attempts (known s') l = Some a /\ attempt_start a = t /\ attempt_ttl a = ttl /\ attempt_proof a = proof
  | Voted l n ttl v => exists a, attempts (known s') l = Some a /\ attempt_ttl a <= ttl /\
      (leases (known s') l = None -> has_answered (known s') (lock_round l a) n /\ has_confirmed (known s') l v n)
  | WroteBack l n T => tokens (known s') l = Some T /\ (leases (known s') l = None -> has_confirmed (known s') l T n)
  | Won l T until => exists le, leases (known s') l = Some le /\ token le = T /\ valid_until le = until
  | RenewalBegan l ttl => In {| round_lease := l; round_start := t; round_ttl := ttl; is_attempt := false |} (renewals (known s'))
  | Renewed l n ttl => exists r, In r (renewals (known s)) /\ round_lease r = l /\ has_answered (known s') r n
  | Extended l until => exists le, leases (known s') l = Some le /\ valid_until le = until
  | Ended l => is_over s' l = true
  | Unlocked l _ => is_over s l = true
  end.
Proof.
  unfold check. destruct (t <? at_time s); [discriminate|].
  destruct (check_clients t (known s) (is_over s) e) as [c|] eqn:E; [|discriminate]. intros [= <-].
  destruct e as [l ttl proof|l n ttl v|l n T|l T until|l ttl|l n ttl|l until|l|l n]; cbn in *.
  - destruct (attempts (known s) l); [discriminate|]. apply if_some in E. destruct E as [_ <-].
    eexists. cbn. rewrite update_same. auto.
  - destruct (attempts (known s) l) as [a|] eqn:Ha; [|discriminate]. apply if_some in E. destruct E as [E <-].
    apply Z.leb_le in E. exists a. unfold unless_granted. destruct (leases (known s) l) eqn:L.
    + split; [exact Ha|]. split; [exact E|]. rewrite L. discriminate.
    + split; [exact Ha|]. split; [exact E|]. intros _. split; eexists; (split; [left; reflexivity|repeat split]).
  - destruct (fix_token (known s) l T) as [c1|] eqn:F; [|discriminate]. injection E as <-.
    assert (T1 : tokens c1 l = Some T).
    { unfold fix_token in F. destruct (attempts (known s) l); [|discriminate]. destruct (tokens (known s) l) eqn:X.
      - destruct (Z.eqb_spec z T); [|discriminate]. congruence.
      - injection F as <-. cbn. apply update_same. }
    unfold unless_granted. destruct (leases c1 l) eqn:L; cbn; split; auto; [congruence|].
    intros _. eexists. split; [left; reflexivity|repeat split].
  - destruct (fix_token (known s) l T) as [c1|]; [|discriminate]. destruct (attempts c1 l); [|discriminate].
    destruct (leases c1 l); [discriminate|]. apply if_some in E. destruct E as [_ <-]. eexists. cbn. rewrite update_same. auto.
  - destruct (leases (known s) l); [|discriminate]. apply if_some in E. destruct E as [_ <-]. left. reflexivity.
  - apply if_some in E. destruct E as [E <-]. apply existsb_exists in E. destruct E as (r & Hr & Er).
    exists r. split; [exact Hr|]. pose proof Er as Er'. apply andb_true_iff in Er'. destruct Er' as [El _].
    apply Nat.eqb_eq in El. split; [exact El|].
    destruct (answered_by (known s) r n) eqn:A.
    + apply answered_by_ok in A. clear Er. induction (filter _ _) as [|r' rs IH]; [exact A|].
      destruct IH as (a & Ha & X). exists a. split; [right; exact Ha|exact X].
    + assert (I : In r (filter (fun r => is_answered l ttl r && negb (answered_by (known s) r n)) (renewals (known s)))) by
        (apply filter_In; rewrite Er, A; auto).
      induction (filter _ _) as [|r' rs IH]; [destruct I|]. cbn. destruct I as [->|I].
      * eexists. split; [left; reflexivity|split; reflexivity].
      * destruct (IH I) as (a & Ha & X). exists a. split; [right; exact Ha|exact X].
  - destruct (leases (known s) l) as [le|] eqn:L; [|discriminate]. destruct (Z.eqb_spec until (valid_until le)).
    + injection E as <-. eauto.
    + destruct (find _ _); [|discriminate]. apply if_some in E. destruct E as [_ <-]. eexists. cbn. rewrite update_same. auto.
  - apply update_same.
  - apply if_some in E. tauto.
Qed.

(** An accepted trace is a run of the model's clients. *)
Theorem accepted_traces_are_runs t trace s : check_all (first_state t) trace = Some s ->
  exists c, describes s c /\ clients_can_reach (traced A8) (at_time s) c.
Proof.
  assert (G : forall s0 c0, describes s0 c0 -> clients_can_reach (traced A8) (at_time s0) c0 ->
    check_all s0 trace = Some s -> exists c, describes s c /\ clients_can_reach (traced A8) (at_time s) c).
  { induction trace as [|[u e] rest IH]; intros s0 c0 D R; cbn; [intros [= <-]; eauto|].
    destruct (check s0 u e) as [s1|] eqn:E; [|discriminate].
    destruct (check_is_sound _ _ _ _ _ E D R) as (c1 & D1 & T1 & R1). apply (IH s1 c1 D1). rewrite T1. exact R1. }
  apply (G (first_state t) no_clients); [|constructor].
  exists (fun _ => False). split; [reflexivity|]. cbn. intuition discriminate.
Qed.
End Checker.
