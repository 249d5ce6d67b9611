(** The model: nodes and clients that lock one resource, as a transition system.

    A state contains everything that clients ever sent and that nodes ever answered. A step of a node reads what was
    sent, and a step of a client reads what was answered. Therefore a message may be late, lost, repeated, or delivered
    in any order. A step may always be left out, so a node may refuse more requests than the model demands, and wait
    queues, marks and tombstones need no model.

    The number of nodes is not bounded, and neither is the number of leases. Times are integers of any unit. *)
From Coq Require Import ZArith List.
Import ListNotations.
Open Scope Z_scope.

(** A node: an independent server (src/node). *)
Definition node := nat.

(** The identity of a lease on the nodes, new for every attempt (src/values: [LeaseId]). *)
Definition lease_id := nat.

(** Everything that does not change in a run. *)
Record configuration := {
  (** Whether these nodes are enough to decide: in [Majority], a majority (src/algorithm/tally.rs). *)
  is_quorum : list node -> Prop;
  (** The wall clock of a node, as a function of real time (src/node/state/time.rs). *)
  node_clock : node -> Z -> Z;
  (** The monotonic clock of the client of a lease, as a function of real time (src/clock). *)
  client_clock : lease_id -> Z -> Z;
  (** Whether a lease only reads the resource (src/lock: [RwLock::read]). *)
  reads : lease_id -> bool;
  (** The longest ttl that a client may send (src/node/parameters.rs: [max_ttl]). *)
  max_ttl : Z;
  (** The time within which an attempt has to get its votes, by the client's clock (src/acquire/attempt). *)
  attempt_timeout : Z;
  (** The length of a quarantine, by the node's clock (src/node/parameters.rs: [QuarantineParameters::lasts]). *)
  quarantine_lasts : Z;
  (** The time in quarantine after which renewals count ([QuarantineParameters::renewals_after]). *)
  renewals_after : Z;
  (** The validity of a lease for a ttl (src/algorithm/validity.rs: [Validity::window]). *)
  validity : Z -> Z;
  (** Whether assumption A8 is made: nodes remember counters, or have clocks that are not behind. *)
  counters_are_kept : Prop }.

(** Two leases conflict unless both only read, or unless they are one lease. *)
Definition conflict (C : configuration) (a b : lease_id) : Prop :=
  a <> b /\ (reads C a = false \/ reads C b = false).

(** * Nodes *)

(** What the restart guard of a node has to know (src/node/state/guard.rs): *)
Inductive guard :=
| Intact                     (** the node has forgotten nothing since it was new; *)
| Forgot (instant : Z)       (** the node may have forgotten data at this instant, and no client has registered since; *)
| Registered (instant : Z).  (** the node may have forgotten data, and began its quarantine at this instant. *)

(** The data of a node for the resource (src/node/state/mod.rs: [NodeState]). *)
Record node_state := {
  (** The end of the key of each lease, by the node's clock ([NodeState::locks], and the ends of readers). *)
  keys : lease_id -> option Z;
  (** The fencing counter ([NodeState::counters]). [LoseCounter] models that a counter expires. *)
  counter : Z;
  (** The bound that every vote exceeds ([NodeMetadata::minimum_token]). *)
  minimum_token : Z;
  (** The phase of the last run of readers (src/node/state/readers.rs: [ReaderRun::phase]). *)
  phase : Z;
  restart_guard : guard }.

(** * Clients *)

(** A round: one request to all nodes (src/algorithm/round.rs). *)
Record round := {
  round_lease : lease_id;
  round_start : Z;       (** the real time directly before the first request is sent *)
  round_ttl : Z;
  is_attempt : bool      (** whether the round is the lock round of an attempt; otherwise a renewal *) }.

(** A granted lock, or a renewal that counts: the vote of a node for a round. *)
Record answer := { answer_round : round; answer_node : node; answer_time : Z }.

(** A node has confirmed a token: by its vote, or by a write-back (docs/GUARANTEES.md, "The protocol"). *)
Record confirmation := {
  confirmed_lease : lease_id;
  confirmed_token : Z;
  confirming_node : node;
  confirmed_after : list lease_id  (** the leases that were granted before *) }.

(** A lease that a client holds or has held (src/lease/active_lease.rs). *)
Record lease := {
  lease_start : Z;       (** the start of the last complete round, attempt or renewal *)
  lease_ttl : Z;         (** the ttl of that round *)
  valid_until : Z;       (** by the client's clock *)
  token : Z }.

(** An attempt (src/algorithm/attempt.rs). *)
Record attempt := {
  attempt_start : Z;
  attempt_ttl : Z;
  attempt_proof : option Z;        (** for the redemption of a ticket, the token of the ticket (src/node/operation/transfer.rs) *)
  granted_before : list lease_id   (** the leases that were granted before the attempt began *) }.

(** All clients, and everything that they sent and received. *)
Record clients := {
  attempts : lease_id -> option attempt;
  tokens : lease_id -> option Z;        (** the token of an attempt, once it is fixed *)
  leases : lease_id -> option lease;
  ended : lease_id -> Prop;             (** unlocked, rolled back, dropped or lost: unlocks may be sent *)
  renewals : list round;
  answers : list answer;                (** newest first *)
  confirmations : list confirmation;    (** newest first *)
  granted : list lease_id }.

Record state := { now : Z; nodes : node -> node_state; all_clients : clients }.

(** [f], except that [i] has the value [a]. *)
Definition update {A} (f : nat -> A) (i : nat) (a : A) : nat -> A := fun j => if Nat.eqb i j then a else f j.

(** Changes of one field. *)
Definition set_attempts c v := Build_clients v (tokens c) (leases c) (ended c) (renewals c) (answers c) (confirmations c) (granted c).
Definition set_tokens c v := Build_clients (attempts c) v (leases c) (ended c) (renewals c) (answers c) (confirmations c) (granted c).
Definition set_leases c v := Build_clients (attempts c) (tokens c) v (ended c) (renewals c) (answers c) (confirmations c) (granted c).
Definition set_ended c v := Build_clients (attempts c) (tokens c) (leases c) v (renewals c) (answers c) (confirmations c) (granted c).
Definition set_renewals c v := Build_clients (attempts c) (tokens c) (leases c) (ended c) v (answers c) (confirmations c) (granted c).
Definition set_answers c v := Build_clients (attempts c) (tokens c) (leases c) (ended c) (renewals c) v (confirmations c) (granted c).
Definition set_confirmations c v := Build_clients (attempts c) (tokens c) (leases c) (ended c) (renewals c) (answers c) v (granted c).
Definition set_granted c v := Build_clients (attempts c) (tokens c) (leases c) (ended c) (renewals c) (answers c) (confirmations c) v.

(** The lock round of an attempt. *)
Definition lock_round (l : lease_id) (a : attempt) : round :=
  {| round_lease := l; round_start := attempt_start a; round_ttl := attempt_ttl a; is_attempt := true |}.

(** A node has answered a round, and a node has confirmed a token of a lease. *)
Definition has_answered (c : clients) (r : round) (n : node) : Prop :=
  exists a, In a (answers c) /\ answer_round a = r /\ answer_node a = n.
Definition has_confirmed (c : clients) (l : lease_id) (T : Z) (n : node) : Prop :=
  exists f, In f (confirmations c) /\ confirmed_lease f = l /\ confirmed_token f = T /\ confirming_node f = n.

Definition add_answer c r n t :=
  set_answers c ({| answer_round := r; answer_node := n; answer_time := t |} :: answers c).
Definition add_confirmation c l T n :=
  set_confirmations c ({| confirmed_lease := l; confirmed_token := T; confirming_node := n;
    confirmed_after := granted c |} :: confirmations c).

(** An attempt counts votes and confirmations until the lease is granted, and ignores later answers
    (src/algorithm/attempt). *)
Definition unless_granted (c : clients) (l : lease_id) (c' : clients) : clients :=
  match leases c l with None => c' | Some _ => c end.

Section Steps.
Variable C : configuration.

(** ** Steps of clients, at the real time [t] *)
Inductive client_step (t : Z) (c : clients) : clients -> Prop :=

(** A client begins an attempt with a new lease id. From now on, the lock may arrive at any node, at any time. *)
| BeginAttempt l ttl proof :
    attempts c l = None -> ~ ended c l -> 0 <= ttl <= max_ttl C ->
    client_step t c (set_attempts c (update (attempts c) l
      (Some {| attempt_start := t; attempt_ttl := ttl; attempt_proof := proof; granted_before := granted c |})))

(** The client fixes the token: in the library the largest of the first votes, in the model any number. *)
| FixToken l T :
    attempts c l <> None -> tokens c l = None ->
    client_step t c (set_tokens c (update (tokens c) l (Some T)))

(** The client has the lease: a quorum has voted and confirmed the token, within the attempt timeout and before the end
    of the validity, both by the client's clock (src/algorithm/attempt). *)
| Grant l a T until q :
    attempts c l = Some a -> tokens c l = Some T -> leases c l = None -> ~ ended c l ->
    is_quorum C q ->
    (forall n, In n q -> has_answered c (lock_round l a) n /\ has_confirmed c l T n) ->
    client_clock C l t - client_clock C l (attempt_start a) <= attempt_timeout C ->
    until <= client_clock C l (attempt_start a) + validity C (attempt_ttl a) ->
    client_clock C l t < until ->
    client_step t c (set_granted (set_leases c (update (leases c) l
      (Some {| lease_start := attempt_start a; lease_ttl := attempt_ttl a; valid_until := until; token := T |})))
      (l :: granted c))

(** The holder begins a renewal (src/lease/watchdog.rs). From now on, the renewal may arrive at any node. *)
| BeginRenewal l ttl :
    leases c l <> None -> ~ ended c l -> 0 <= ttl <= max_ttl C ->
    client_step t c (set_renewals c
      ({| round_lease := l; round_start := t; round_ttl := ttl; is_attempt := false |} :: renewals c))

(** A renewal counts: its quorum is complete inside the old validity. *)
| CompleteRenewal r le until q :
    In r (renewals c) -> leases c (round_lease r) = Some le -> ~ ended c (round_lease r) ->
    client_clock C (round_lease r) t < valid_until le ->
    is_quorum C q -> (forall n, In n q -> has_answered c r n) ->
    until <= client_clock C (round_lease r) (round_start r) + validity C (round_ttl r) ->
    client_step t c (set_leases c (update (leases c) (round_lease r)
      (Some {| lease_start := round_start r; lease_ttl := round_ttl r; valid_until := until; token := token le |})))

(** The lease or the attempt ends. From now on, unlocks may arrive at any node. *)
| End_ l : client_step t c (set_ended c (fun l' => l' = l \/ ended c l')).

(** ** Steps of a node [n] in the state [x], at the real time [t] *)

(** The key exists. As in Redis, a key has expired when the node's clock is past its end. *)
Definition is_live (n : node) (t : Z) (k : option Z) : Prop :=
  match k with Some e => node_clock C n t <= e | None => False end.

(** No conflicting lease has a key. *)
Definition is_free_for (n : node) (t : Z) (x : node_state) (l : lease_id) : Prop :=
  forall l', conflict C l l' -> ~ is_live n t (keys x l').

(** The keys after a lock or renewal. A ttl is never shortened (src/node/state/holder_lookup.rs: [write_lease_id]). The
    expired keys of conflicting leases are deleted. *)
Definition writes_key (n : node) (t : Z) (x : node_state) (l : lease_id) (ttl : Z) (ks : lease_id -> option Z) : Prop :=
  (exists e, ks l = Some e /\ node_clock C n t + ttl <= e /\
     forall e0, keys x l = Some e0 -> is_live n t (keys x l) -> e0 <= e) /\
  (forall l', conflict C l l' -> ks l' = None) /\
  (forall l', l' <> l -> ~ conflict C l l' -> ks l' = keys x l').

(** The clock of the node has counted [length] since the registration. The clock may have stepped back since: a
    quarantine that has ended does not begin again. *)
Definition quarantine_is_over (n : node) (length : Z) (g : guard) (t : Z) : Prop :=
  match g with
  | Intact => True
  | Forgot _ => False
  | Registered e => exists t', e <= t' <= t /\ node_clock C n t' > node_clock C n e + length
  end.

(** Whether the node may vote, and whether its renewals count (src/node/state/guard.rs). At the end of the quarantine,
    renewals count in any case. *)
Definition may_vote (n : node) (x : node_state) (t : Z) := quarantine_is_over n (quarantine_lasts C) (restart_guard x) t.
Definition renewals_wait : Z := Z.min (renewals_after C) (quarantine_lasts C).
Definition may_count (n : node) (x : node_state) (t : Z) := quarantine_is_over n renewals_wait (restart_guard x) t.

(** A run of readers: a reader has a key (src/node/state/readers.rs: [readers]). *)
Definition has_readers (n : node) (t : Z) (x : node_state) : Prop :=
  exists l, reads C l = true /\ is_live n t (keys x l).

(** A vote (src/node/state/lock.rs: [grant_keeping_marks], [given_vote]):
    - A new vote is above counter and minimum token.
    - A writer that has the key gets its vote again.
    - A reader that joins a run gets the epoch of the run, which is a number from the phase on.
    A vote is given again only if it is not below the minimum token. *)
Definition is_vote (n : node) (t : Z) (x : node_state) (l : lease_id) (v : Z) : Prop :=
  v > counter x /\ v > minimum_token x \/
  reads C l = false /\ is_live n t (keys x l) /\ v = counter x /\ minimum_token x <= v \/
  reads C l = true /\ has_readers n t x /\ phase x <= v /\ minimum_token x <= v.

(** The phase after a lock: a reader that joins no run begins a run, and its vote is the phase. *)
Definition is_phase_of_lock (n : node) (t : Z) (x : node_state) (l : lease_id) (v p : Z) : Prop :=
  p = phase x /\ (reads C l = true -> has_readers n t x) \/
  p = v /\ reads C l = true /\ ~ has_readers n t x.

(** The phase after a renewal (src/node/state/renew.rs). A reader that finds no run begins a run. The phase is the token
    of the reader if the counter proves the token, and otherwise above counter and minimum token. *)
Definition is_phase_of_renewal (n : node) (t : Z) (c : clients) (x : node_state) (l : lease_id) (p : Z) : Prop :=
  p = phase x /\ (reads C l = true -> has_readers n t x) \/
  (exists le, leases c l = Some le /\ p = token le /\ counter x <= p /\ minimum_token x <= p) \/
  p > counter x /\ p > minimum_token x.

(** The number with which the node compares a token that is written back (src/node/state/write_back.rs): for a writer
    the counter, for a reader the phase. *)
Definition bound_of_write_back (x : node_state) (l : lease_id) : Z := if reads C l then phase x else counter x.

(** The redemption of a ticket (src/node/state/transfer.rs: [check_proof]): unless the lease has the key already, neither
    counter nor minimum token exceed the proof. The vote exceeds the proof by the hint of the redemption, if the node's
    clock is not more than an hour behind the proof (A8). *)
Definition meets_proof (n : node) (t : Z) (x : node_state) (l : lease_id) (v : Z) (proof : option Z) : Prop :=
  match proof with
  | None => True
  | Some p => is_live n t (keys x l) \/
      counter x <= p /\ minimum_token x <= p /\ (counters_are_kept C -> p < v)
  end.

(** Assumption A8, where a node loses a counter or may have lost one: the number from which the node continues is above
    each token that the node has confirmed. *)
Definition is_above_confirmed (c : clients) (n : node) (v : Z) : Prop :=
  counters_are_kept C ->
  forall f, In f (confirmations c) -> confirming_node f = n -> confirmed_token f < v.

(** A node has at most one key for the resource: the key of a writer, or the key of the readers. *)
Definition is_one_key (ks : lease_id -> option Z) : Prop :=
  forall l l', ks l <> None -> ks l' <> None -> ~ conflict C l l'.

(** Assumption A8, where a node comes back with other data: each key in the data is of a lease for which the node has
    answered before. *)
Definition is_earlier_data (c : clients) (n : node) (ks : lease_id -> option Z) : Prop :=
  counters_are_kept C ->
  forall l, ks l <> None -> exists a, attempts c l = Some a /\
    (leases c l <> None \/ has_answered c (lock_round l a) n).

Inductive node_step (t : Z) (c : clients) (n : node) (x : node_state) : node_state -> clients -> Prop :=

(** The node grants a lock (src/node/state/lock.rs). *)
| Lock l a v ks p :
    attempts c l = Some a ->
    may_vote n x t -> is_free_for n t x l -> is_vote n t x l v -> meets_proof n t x l v (attempt_proof a) ->
    writes_key n t x l (attempt_ttl a) ks -> is_phase_of_lock n t x l v p ->
    node_step t c n x
      {| keys := ks; counter := Z.max (counter x) v; minimum_token := minimum_token x; phase := p;
         restart_guard := restart_guard x |}
      (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n))

(** The node writes a token back (src/node/state/write_back.rs). *)
| WriteBack l T :
    tokens c l = Some T ->
    may_vote n x t -> is_live n t (keys x l) -> bound_of_write_back x l <= T -> minimum_token x <= T ->
    node_step t c n x
      {| keys := keys x; counter := Z.max (counter x) T; minimum_token := minimum_token x; phase := phase x;
         restart_guard := restart_guard x |}
      (unless_granted c l (add_confirmation c l T n))

(** The node executes a renewal, and the renewal counts (src/node/state/renew.rs). *)
| Renew r ks v p :
    In r (renewals c) ->
    may_count n x t -> is_free_for n t x (round_lease r) ->
    writes_key n t x (round_lease r) (round_ttl r) ks -> counter x <= v ->
    is_phase_of_renewal n t c x (round_lease r) p ->
    node_step t c n x
      {| keys := ks; counter := v; minimum_token := minimum_token x; phase := p; restart_guard := restart_guard x |}
      (add_answer c r n t)

(** The node executes a renewal that does not count, as in quarantine or without metadata. *)
| RenewInQuarantine r ks v p :
    In r (renewals c) ->
    is_free_for n t x (round_lease r) ->
    writes_key n t x (round_lease r) (round_ttl r) ks -> counter x <= v ->
    is_phase_of_renewal n t c x (round_lease r) p ->
    node_step t c n x
      {| keys := ks; counter := v; minimum_token := minimum_token x; phase := p; restart_guard := restart_guard x |} c

(** The node unlocks: the key of the lease is deleted, or ends with the rest of a minimum hold
    (src/node/state/unlock.rs). *)
| Unlock l k :
    ended c l -> keys x l <> None ->
    node_step t c n x
      {| keys := update (keys x) l k; counter := counter x; minimum_token := minimum_token x;
         phase := phase x; restart_guard := restart_guard x |} c

(** The node deletes an expired key (src/node/state/mod.rs: [sweep]). *)
| Expire l :
    ~ is_live n t (keys x l) ->
    node_step t c n x
      {| keys := update (keys x) l None; counter := counter x; minimum_token := minimum_token x;
         phase := phase x; restart_guard := restart_guard x |} c

(** The counter has expired, and counts as the node's time (src/node/state/counters.rs: [start]). *)
| LoseCounter v :
    is_above_confirmed c n v ->
    node_step t c n x
      {| keys := keys x; counter := v; minimum_token := minimum_token x; phase := phase x;
         restart_guard := restart_guard x |} c

(** The node restarts or is flushed, and has any other data from now on: none, older data, or the same data. *)
| Forget ks v m p :
    is_one_key ks -> is_earlier_data c n ks ->
    node_step t c n x {| keys := ks; counter := v; minimum_token := m; phase := p; restart_guard := Forgot t |} c

(** A client registers, and the node begins a quarantine (src/node/state/register.rs). *)
| Register m :
    is_above_confirmed c n m ->
    node_step t c n x
      {| keys := keys x; counter := counter x; minimum_token := m; phase := phase x; restart_guard := Registered t |} c.

(** ** Runs *)
Inductive move (s : state) : state -> Prop :=
| Tick t : now s <= t -> move s {| now := t; nodes := nodes s; all_clients := all_clients s |}
| ClientMoves c : client_step (now s) (all_clients s) c ->
    move s {| now := now s; nodes := nodes s; all_clients := c |}
| NodeMoves n x c : node_step (now s) (all_clients s) n (nodes s n) x c ->
    move s {| now := now s; nodes := update (nodes s) n x; all_clients := c |}.

(** At first, nodes have no keys and nothing was sent. The counters and minimum tokens are any numbers. *)
Definition no_clients : clients := {|
  attempts := fun _ => None; tokens := fun _ => None; leases := fun _ => None; ended := fun _ => False;
  renewals := []; answers := []; confirmations := []; granted := [] |}.
Definition is_initial (s : state) : Prop :=
  all_clients s = no_clients /\ forall n, restart_guard (nodes s n) = Intact /\ forall l, keys (nodes s n) l = None.

Inductive reachable : state -> Prop :=
| Start s : is_initial s -> reachable s
| Move s s' : reachable s -> move s s' -> reachable s'.

(** A lease is valid: its client may rely on it (src/lease: [is_valid]). *)
Definition is_valid (s : state) (l : lease_id) : Prop :=
  exists le, leases (all_clients s) l = Some le /\ ~ ended (all_clients s) l /\
    client_clock C l (now s) < valid_until le.
End Steps.

(** * Lemmas about updates *)
Lemma update_same {A} (f : nat -> A) i a : update f i a i = a.
Proof. unfold update. now rewrite Nat.eqb_refl. Qed.
Lemma update_other {A} (f : nat -> A) i j a : i <> j -> update f i a j = f j.
Proof. unfold update. destruct (Nat.eqb_spec i j); congruence. Qed.
Lemma update_cases {A} (f : nat -> A) i j a :
  (i = j /\ update f i a j = a) \/ (i <> j /\ update f i a j = f j).
Proof. unfold update. destruct (Nat.eqb_spec i j); auto. Qed.

Lemma conflict_dec C a b : {conflict C a b} + {~ conflict C a b}.
Proof.
  unfold conflict. destruct (Nat.eq_dec a b) as [->|E]; [right; tauto|].
  destruct (reads C a), (reads C b); (left; intuition congruence) || (right; intuition congruence).
Qed.
Lemma conflict_sym C a b : conflict C a b -> conflict C b a.
Proof. unfold conflict. intuition congruence. Qed.
