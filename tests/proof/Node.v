(** The executable node: what src/node/state does for one resource, with the restart guard
    [RestartGuard::PerConnection]. [Refinement] proves that its steps are steps of the model, and run.sh compares the
    extracted program with [NodeState::apply].

    All times are milliseconds of the node's clock. Not executed: wait queues, marks, groups of resources,
    initialisations and moves of a quorum (README.md). *)
From Coq Require Import ZArith List Bool.
From Redquorum Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(** The quorum parameters (src/node/parameters.rs: [QuorumParameters]). *)
Record parameters := {
  p_max_ttl : Z;
  p_counter_ttl : Z;
  p_lasts : Z;              (** [QuarantineParameters::lasts] *)
  p_renewals_after : Z }.   (** [QuarantineParameters::renewals_after] *)

(** The name of one incarnation of a server's data ([Incarnation]). *)
Definition incarnation := Z.

(** The holder in a key: a lease, or the readers together ([LeaseId::of_readers]). *)
Inductive holder := Writer (l : lease_id) | Readers.

(** A run of readers (src/node/state/readers.rs: [ReaderRun]): phase, epoch, and the end of each reader. While the
    readers have the key, the run ends with the key. *)
Definition reader_run := (Z * Z * list (lease_id * Z))%type.

(** The data of a node (src/node/state/mod.rs: [NodeState]). *)
Record node_data := {
  d_lock : option (holder * Z * Z);          (** [HeldKey]: holder, holds, end *)
  d_readers : option reader_run;
  d_counter : option (Z * Z);                (** [Counter]: value, end *)
  d_tombstones : list (lease_id * Z);        (** lease id, end *)
  d_metadata : option (incarnation * Z);     (** [NodeMetadata]: incarnation, minimum token *)
  d_quarantine : option (Z * Z);             (** [Quarantine]: until, renewals from *)
  d_incarnation : incarnation }.

(** The condition on which an unlock leaves a tombstone (src/node/operation/unlock.rs: [Tombstone]). *)
Inductive tombstone := Never | IfMissing | Always.

(** The operations, with their arguments (src/node/operation). *)
Inductive operation :=
| LockOp (l : lease_id) (ttl hint : Z)
| WriteBackOp (l : lease_id) (T : Z)
| RenewOp (l : lease_id) (holds ttl T : Z)
| UnlockOp (l : lease_id) (leaves : tombstone) (rest : option Z)
| TransferOp (l : lease_id) (ttl hint : Z) (from : lease_id) (proof : option Z)
| RegisterOp
| SweepOp                                    (** the deletion of expired data *)
| RestartOp (i : incarnation)                (** a restart with all data *)
| FlushOp.

(** The answers (src/node/operation/answer.rs: [Answer]). *)
Inductive reply :=
| Granted (v : Z) | Held | HasTombstone | Abstains
| WrittenBack | NotWrittenBack (largest : Z)
| Renewed (proves : bool) | RenewedInQuarantine
| Unlocked (deleted : Z) | RegisteredNow | InvalidCounter | NoReply.

(** [LARGEST_COUNTER] (src/node/state/counters.rs). *)
Definition largest_counter := 9007199254740991.

(** The value of a missing counter: the whole seconds of the node's time, times a million ([start]). *)
Definition start_of (t : Z) := t / 1000 * 1000000.

(** The minimum token of a registration: that of the next second ([minimum_token_at]). *)
Definition minimum_token_at (t : Z) := (t / 1000 + 1) * 1000000.

(** The value to which a hint raises a counter, at most an hour ahead ([hinted_counter]). *)
Definition hinted (t hint : Z) := Z.min (Z.max 0 (hint - 1)) ((t / 1000 + 3600) * 1000000).

(** Whether an end has passed ([NodeTime::is_past]). *)
Definition is_past (t e : Z) := e <? t.

Definition value_or (a : option Z) b := match a with Some v => v | None => b end.

(** The latest of the ends, and [e]. *)
Definition latest (e : Z) (ends : list (lease_id * Z)) : Z := fold_right (fun r m => Z.max (snd r) m) e ends.

(** The readers without a lease. *)
Definition without (l : lease_id) (ends : list (lease_id * Z)) := filter (fun r => negb (Nat.eqb (fst r) l)) ends.

(** The end of a reader. *)
Definition end_of (l : lease_id) (ends : list (lease_id * Z)) : option Z :=
  match find (fun r => Nat.eqb (fst r) l) ends with Some (_, e) => Some e | None => None end.

Section Reads.
(** Whether a lease only reads the resource. *)
Variable shares : lease_id -> bool.
Variable t : Z.
Variable x : node_data.

(** The key, unless it has expired ([NodeState::held]). *)
Definition held := match d_lock x with Some (w, h, e) => if is_past t e then None else Some (w, h, e) | None => None end.

(** The readers, if they hold the resource ([NodeState::readers]), and those that have not expired. *)
Definition readers := match held with Some (Readers, _, _) => d_readers x | _ => None end.
Definition live (ends : list (lease_id * Z)) := filter (fun r => negb (is_past t (snd r))) ends.

(** The counter, unless it has expired ([NodeState::counter]), and its value. *)
Definition found := match d_counter x with Some (v, e) => if is_past t e then None else Some (v, e) | None => None end.
Definition value := match found with Some (v, _) => Some v | None => None end.

(** [NodeState::has_tombstone] *)
Definition has_tombstone l := existsb (fun g => Nat.eqb (fst g) l && negb (is_past t (snd g))) (d_tombstones x).

(** Whether a writer has the key. *)
Definition is_writer l := match held with Some (Writer l', _, _) => Nat.eqb l' l | _ => false end.

(** [NodeState::is_reader] *)
Definition is_reader l :=
  match readers with
  | Some (_, _, ends) => match end_of l ends with Some e => negb (is_past t e) | None => false end
  | None => false
  end.

(** Whether the lease holds the resource, and whether another lease keeps it from the lease
    (src/node/state/holder_lookup.rs). *)
Definition is_ours l := if shares l then is_reader l else is_writer l.
Definition is_of_another l :=
  match held with
  | Some _ => negb (is_ours l) && negb (shares l && match readers with Some _ => true | None => false end)
  | None => false
  end.

(** [NodeState::minimum_token] *)
Definition minimum_token_of := match d_metadata x with Some (_, m) => m | None => 0 end.

(** [NodeState::quarantine] *)
Definition quarantine := match d_quarantine x with Some (u, r) => if is_past t u then None else Some (u, r) | None => None end.

(** Whether the metadata are of this incarnation ([NodeState::has_metadata_of]). *)
Definition has_metadata_of (i : incarnation) := match d_metadata x with Some (i', _) => i' =? i | None => false end.

(** Whether the node abstains, and whether renewals do not count (src/node/state/guard.rs: [abstention],
    [abstention_from_renewals]). The connection of the request has registered in the incarnation [i]. *)
Definition abstains (i : incarnation) := negb (has_metadata_of i) || match quarantine with Some _ => true | None => false end.
Definition abstains_from_renewals (i : incarnation) :=
  negb (has_metadata_of i) || match quarantine with Some (_, r) => negb (is_past t r) | None => false end.

(** The key after a lock or renewal of a writer. A later end stays ([write_lease_id]). *)
Definition written (l : lease_id) (holds ttl : Z) : option (holder * Z * Z) :=
  Some (Writer l, holds, match held with Some (_, _, e) => Z.max e (t + ttl) | None => t + ttl end).

(** The run after a lock or renewal of a reader, and the end of its key. A later end of the reader stays, and expired
    readers leave the run ([NodeState::share]). *)
Definition shared (l : lease_id) (epoch ttl : Z) : reader_run * Z :=
  let '(phase, before, ends) := match readers with Some run => run | None => (epoch, epoch, []) end in
  let e := match end_of l (live ends) with Some e => Z.max e (t + ttl) | None => t + ttl end in
  let others := without l (live ends) in
  (phase, Z.max before epoch, (l, e) :: others, latest e others).

(** Whether the lease was a reader, and key and run after its unlock. With the last reader that has not expired, the
    readers lose the key ([NodeState::unshare]). A run without its key is deleted. *)
Definition unshared (l : lease_id) : bool * option (holder * Z * Z) * option reader_run :=
  match readers with
  | Some (phase, epoch, ends) =>
    let others := without l ends in
    match end_of l ends, live others with
    | None, _ => (false, d_lock x, d_readers x)
    | Some _, [] => (true, None, None)
    | Some _, (_, e) :: _ => (true, Some (Readers, 0, latest e others), Some (phase, epoch, others))
    end
  | None => (false, d_lock x, None)
  end.

(** The counter with a new value. Its ttl is prolonged if less than the counter ttl remains ([store_counter]). *)
Definition stored (p : parameters) (v : Z) : option (Z * Z) :=
  let fresh := t + (p_counter_ttl p + p_counter_ttl p / 2) in
  match found with
  | Some (_, e) => Some (v, if p_counter_ttl p <=? e - t then e else fresh)
  | None => Some (v, fresh)
  end.

(** The vote, and whether it is given again (src/node/state/lock.rs: [grant_keeping_marks], [given_vote]). *)
Definition vote_for l hint : Z * bool :=
  let m := minimum_token_of in
  let largest := match readers with Some (_, epoch, _) => Z.max (value_or value (start_of t)) epoch | None => value_or value (start_of t) end in
  let below := Z.max (Z.max largest m) (hinted t hint) in
  let given := match value with
               | Some v => if shares l then match readers with Some (_, epoch, _) => Some epoch | None => None end
                           else if is_writer l then Some v else None
               | None => None
               end in
  match given with
  | Some v => if m <=? v then (v, true) else (below + 1, false)
  | None => (below + 1, false)
  end.

Definition with_lock k r c := {| d_lock := k; d_readers := r; d_counter := c; d_tombstones := d_tombstones x;
  d_metadata := d_metadata x; d_quarantine := d_quarantine x; d_incarnation := d_incarnation x |}.

(** The data after a lock or renewal, with a new counter. A reader that begins a run begins with [epoch]. *)
Definition taken (l : lease_id) (holds epoch ttl : Z) c :=
  if shares l then let (run, e) := shared l epoch ttl in with_lock (Some (Readers, 0, e)) (Some run) c
  else with_lock (written l holds ttl) (d_readers x) c.
End Reads.

(** The lock of a lease without a tombstone on a node that may vote, without regard to queues
    (src/node/state/lock.rs: [grant_keeping_marks]). *)
Definition grant (shares : lease_id -> bool) (p : parameters) (x : node_data) (t : Z) (l : lease_id) (ttl hint : Z)
    : node_data * reply :=
  if is_of_another shares t x l then (x, Held) else
  let (v, is_repeated) := vote_for shares t x l hint in
  if negb is_repeated && (largest_counter <? v) then (x, InvalidCounter) else
  let holds := if is_repeated then match held t x with Some (_, h, _) => h | None => 1 end else 1 in
  (taken shares t x l holds v ttl (stored t x p (Z.max (value_or (value t x) 0) v)), Granted v).

(** Whether the node shows that no third lease can have held the resource since the token [T]
    (src/node/state/transfer.rs: [check_proof]). *)
Definition proves (x : node_data) (t : Z) (T : Z) : bool :=
  (minimum_token_of x <=? T) && match value t x with Some v => v <=? T | None => false end.

(** The same for the renewal of a lease: while readers hold the resource, their phase decides
    (src/node/state/renew.rs). *)
Definition proves_renewal (shares : lease_id -> bool) (x : node_data) (t : Z) (l : lease_id) (T : Z) : bool :=
  match readers t x with
  | Some (phase, _, _) => if shares l then (minimum_token_of x <=? T) && (phase <=? T) else proves x t T
  | None => proves x t T
  end.

(** The execution of one operation at the node's time [t], for a connection that has registered in the incarnation [i]
    (src/node/state/mod.rs: [NodeState::apply]). *)
Definition execute (shares : lease_id -> bool) (p : parameters) (x : node_data) (t : Z) (i : incarnation) (o : operation)
    : node_data * reply :=
  match o with
  | LockOp l ttl hint =>
    if abstains t x i then (x, Abstains) else
    if has_tombstone t x l then (x, HasTombstone) else
    grant shares p x t l ttl hint
  | WriteBackOp l T =>
    if abstains t x i then (x, Abstains) else
    let counter := value_or (value t x) (start_of t) in
    let bound := if shares l then match readers t x with Some (phase, _, _) => phase | None => start_of t end
                 else counter in
    if is_ours shares t x l && (minimum_token_of x <=? T) && (bound <=? T)
    then (with_lock x (d_lock x)
            (if shares l then match readers t x with
                              | Some (phase, epoch, ends) => Some (phase, Z.max epoch T, ends)
                              | None => d_readers x
                              end
             else d_readers x)
            (stored t x p (if shares l then Z.max counter T else T)), WrittenBack)
    else (x, NotWrittenBack (value_or (value t x) 0))
  | RenewOp l holds ttl T =>
    if has_tombstone t x l then (x, HasTombstone) else
    if is_of_another shares t x l then (x, Held) else
    let is_proven := proves_renewal shares x t l T in
    let u := match value t x with
             | Some v => Z.max v T
             | None => Z.min (Z.max (start_of t) (T + 1)) largest_counter
             end in
    let begins := shares l && match readers t x with Some _ => false | None => true end in
    let v := if begins && negb is_proven then Z.min (Z.max u (minimum_token_of x) + 1) largest_counter else u in
    let epoch := if is_proven then T else if begins then v else 0 in
    (taken shares t x l holds epoch ttl (stored t x p v),
     if abstains_from_renewals t x i then RenewedInQuarantine else Renewed is_proven)
  | UnlockOp l leaves rest =>
    let '(deleted, k, r) :=
      if shares l then unshared t x l else
      let deleted := is_writer t x l in
      (deleted,
       if deleted then match held t x, rest with
                       | Some (w, h, e), Some r => Some (w, h, Z.min e (t + r))
                       | _, _ => None
                       end
       else d_lock x, d_readers x) in
    let buries := match leaves with Never => false | IfMissing => negb deleted | Always => true end in
    ({| d_lock := k; d_readers := r; d_counter := d_counter x;
        d_tombstones := if buries
          then (l, t + p_max_ttl p) :: filter (fun g => negb (Nat.eqb (fst g) l)) (d_tombstones x)
          else d_tombstones x;
        d_metadata := d_metadata x; d_quarantine := d_quarantine x; d_incarnation := d_incarnation x |},
     Unlocked (if deleted then 1 else 0))
  | TransferOp l ttl hint from proof =>
    if abstains t x i then (x, Abstains) else
    if has_tombstone t x l || (negb (is_ours shares t x l) && has_tombstone t x from) then (x, HasTombstone) else
    let is_given := is_writer t x from && negb (Nat.eqb from l) in
    let x1 := if is_given then with_lock x None (d_readers x) (d_counter x) else x in
    let is_refuted := match proof with
                      | Some T => negb (is_ours shares t x l) && negb (is_given && proves x t T)
                      | None => false
                      end in
    if is_refuted && negb (is_of_another shares t x1 l) then (x, NotWrittenBack (value_or (value t x) 0)) else
    let (x2, r) := grant shares p x1 t l ttl hint in
    (match r with Granted _ => x2 | _ => x end, r)
  | RegisterOp =>
    if has_metadata_of x (d_incarnation x) then (x, RegisteredNow) else
    ({| d_lock := d_lock x; d_readers := d_readers x; d_counter := d_counter x; d_tombstones := d_tombstones x;
        d_metadata := Some (d_incarnation x, Z.max (minimum_token_of x) (minimum_token_at t));
        d_quarantine := Some (t + p_lasts p, t + p_renewals_after p); d_incarnation := d_incarnation x |}, RegisteredNow)
  | SweepOp =>
    ({| d_lock := held t x;
        d_readers := match readers t x with Some (phase, epoch, ends) => Some (phase, epoch, live t ends) | None => None end;
        d_counter := found t x; d_tombstones := filter (fun g => negb (is_past t (snd g))) (d_tombstones x);
        d_metadata := d_metadata x; d_quarantine := quarantine t x; d_incarnation := d_incarnation x |}, NoReply)
  | RestartOp i' =>
    ({| d_lock := d_lock x; d_readers := d_readers x; d_counter := d_counter x; d_tombstones := d_tombstones x; d_metadata := d_metadata x;
        d_quarantine := d_quarantine x; d_incarnation := i' |}, NoReply)
  | FlushOp =>
    ({| d_lock := None; d_readers := None; d_counter := None; d_tombstones := []; d_metadata := None; d_quarantine := None;
        d_incarnation := d_incarnation x |}, NoReply)
  end.
