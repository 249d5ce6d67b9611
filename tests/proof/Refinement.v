(** Each step of the executable node is a step of the model, or two, or none. *)
From Coq Require Import ZArith List Lia Bool.
From Redquorum Require Import Model Node.
Import ListNotations.
Open Scope Z_scope.

Section Refinement.
Variable C : configuration.
Variable p : parameters.

(** The time of an executable node: its clock in units of [grain], rounded down (src/node/state/time.rs). If the model
    counts nanoseconds, [grain] is a million, and the node counts milliseconds. *)
Variable grain : Z.
Hypothesis grain_is_positive : 0 < grain.
Definition node_time (n : node) (t : Z) : Z := node_clock C n t / grain.

(** * Assumptions *)

(** The node's times of a quarantine are rounded up (src/node/ttl.rs). *)
Hypothesis lasts_is_rounded_up : quarantine_lasts C <= p_lasts p * grain.
Hypothesis renewals_after_is_rounded_up : renewals_after C <= p_renewals_after p * grain.

(** The clocks of nodes are between 1970 and 2255, so that a missing counter is a valid number. *)
Hypothesis time_is_usual : forall n t, 0 <= node_time n t /\ start_of (node_time n t) <= largest_counter.

(** * The relation between an executable node and a node of the model *)

(** The end of a key in the model. The executable node has the key for the whole unit of time at its end. *)
Definition end_in_model (e : Z) : Z := e * grain + (grain - 1).

Definition keys_in_model (x : node_data) (l : lease_id) : option Z :=
  match d_lock x with
  | Some (Writer l', _, e) => if Nat.eqb l' l then Some (end_in_model e) else None
  | Some (Readers, _, _) =>
    match d_readers x with Some (_, _, ends) => option_map end_in_model (end_of l ends) | None => None end
  | None => None
  end.

(** What holds for the data of every executable node: writers have keys of their own, and the key of the readers ends with
    the last reader. *)
Definition is_sound (x : node_data) : Prop :=
  match d_lock x with
  | Some (Writer l, _, _) => reads C l = false
  | Some (Readers, _, e) =>
    match d_readers x with
    | Some (phase, epoch, ends) =>
      NoDup (map fst ends) /\ (exists l, end_of l ends = Some e) /\
      (forall l e', end_of l ends = Some e' -> e' <= e /\ reads C l = true) /\ phase <= epoch
    | None => True
    end
  | None => True
  end.

(** The phase of the readers that have the key. *)
Definition has_phase (x : node_data) (phase : Z) : Prop :=
  match d_lock x, d_readers x with Some (Readers, _, _), Some (phase', _, _) => phase = phase' | _, _ => True end.

(** What the guard of the model means for the data of the executable node. *)
Definition guard_is_related (n : node) (t : Z) (x : node_data) (g : guard) : Prop :=
  match g with
  | Intact => True
  | Forgot _ => has_metadata_of x (d_incarnation x) = false
  | Registered e => e <= t /\
      (d_quarantine x = Some (node_time n e + p_lasts p, node_time n e + p_renewals_after p) \/
       quarantine_is_over C n (quarantine_lasts C) (Registered e) t)
  end.

Record is_related (n : node) (t : Z) (x : node_data) (m : node_state) : Prop := mk_related {
  r_keys : forall l, keys m l = keys_in_model x l;
  r_sound : is_sound x;
  r_phase : has_phase x (phase m);
  r_counter : forall v e, d_counter x = Some (v, e) -> counter m = v;
  r_minimum : minimum_token m = minimum_token_of x;
  r_guard : guard_is_related n t x (restart_guard m) }.

(** * The messages between clients and executable nodes *)

(** A client has sent the operation to the node, and the node sends the reply. The last argument is what the clients
    have received then. *)
Inductive exchange (c : clients) (n : node) (t : Z) : operation -> reply -> clients -> Prop :=
| ExchangeLock l a ttl hint r :
    attempts c l = Some a -> attempt_proof a = None -> attempt_ttl a <= ttl * grain ->
    exchange c n t (LockOp l ttl hint) r
      match r with
      | Granted v => unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)
      | _ => c
      end
| ExchangeTransfer l a ttl hint from r :
    attempts c l = Some a -> attempt_ttl a <= ttl * grain -> ended c from ->
    match attempt_proof a with Some T => hint = T + 1 | None => True end ->
    exchange c n t (TransferOp l ttl hint from (attempt_proof a)) r
      match r with
      | Granted v => unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)
      | _ => c
      end
| ExchangeWriteBack l T r :
    tokens c l = Some T ->
    exchange c n t (WriteBackOp l T) r
      match r with WrittenBack => unless_granted c l (add_confirmation c l T n) | _ => c end
| ExchangeRenew q le holds ttl r :
    In q (renewals c) -> leases c (round_lease q) = Some le -> round_ttl q <= ttl * grain ->
    exchange c n t (RenewOp (round_lease q) holds ttl (token le)) r
      match r with Renewed _ => add_answer c q n t | _ => c end
| ExchangeUnlock l leaves rest r : ended c l -> exchange c n t (UnlockOp l leaves rest) r c
| ExchangeRegister r : exchange c n t RegisterOp r c
| ExchangeSweep r : exchange c n t SweepOp r c.

(** A8, for one operation: a missing counter begins above each token that the node has confirmed, and so does the
    minimum token of a registration. The token of a ticket is at most an hour ahead of the node's clock. *)
Definition meets_A8 (c : clients) (n : node) (t : Z) (x : node_data) (o : operation) : Prop :=
  match o with
  | LockOp _ _ _ | WriteBackOp _ _ | RenewOp _ _ _ _ =>
      value (node_time n t) x = None -> is_above_confirmed C c n (start_of (node_time n t))
  | TransferOp _ _ _ _ proof =>
      (value (node_time n t) x = None -> is_above_confirmed C c n (start_of (node_time n t))) /\
      match proof with
      | Some T => counters_are_kept C -> T <= (node_time n t / 1000 + 3600) * 1000000
      | None => True
      end
  | RegisterOp =>
      has_metadata_of x (d_incarnation x) = false ->
      is_above_confirmed C c n (Z.max (minimum_token_of x) (minimum_token_at (node_time n t)))
  | _ => True
  end.

(** Any number of steps of a node of the model, at one instant. *)
Inductive node_run (t : Z) (n : node) : clients -> node_state -> node_state -> clients -> Prop :=
| NoStep c m : node_run t n c m m c
| Steps c m m1 c1 m' c' : node_step C t c n m m1 c1 -> node_run t n c1 m1 m' c' -> node_run t n c m m' c'.

Lemma one_step t n c m m' c' : node_step C t c n m m' c' -> node_run t n c m m' c'.
Proof. intros H. eapply Steps; [exact H|apply NoStep]. Qed.

Lemma run_trans t n c m m1 c1 m' c' :
  node_run t n c m m1 c1 -> node_run t n c1 m1 m' c' -> node_run t n c m m' c'.
Proof. induction 1; intros H1; [exact H1|eapply Steps; eauto]. Qed.

(** * Lemmas *)

Lemma floor_le a b : a / grain <= b <-> a <= end_in_model b.
Proof.
  unfold end_in_model. pose proof (Z.div_mod a grain ltac:(lia)) as D.
  pose proof (Z.mod_pos_bound a grain grain_is_positive) as M. split; intros H; nia.
Qed.

Lemma floor_gt a b k : a / grain > b / grain + k -> a > b + k * grain.
Proof.
  pose proof (Z.div_mod a grain ltac:(lia)) as D. pose proof (Z.mod_pos_bound a grain grain_is_positive) as M.
  pose proof (Z.div_mod b grain ltac:(lia)) as D'. pose proof (Z.mod_pos_bound b grain grain_is_positive) as M'. nia.
Qed.

Lemma live_iff n t e : is_live C n t (Some (end_in_model e)) <-> is_past (node_time n t) e = false.
Proof. unfold is_live, is_past, node_time. rewrite Z.ltb_ge, floor_le. reflexivity. Qed.

(** ** Lists of ends *)

Lemma end_of_without l l' ends : end_of l' (without l ends) = if Nat.eqb l l' then None else end_of l' ends.
Proof.
  unfold end_of, without. induction ends as [|[k e] ends IH]; cbn; [destruct (Nat.eqb l l'); reflexivity|].
  destruct (Nat.eqb_spec k l) as [->|N]; cbn.
  - rewrite IH. destruct (Nat.eqb l l'); reflexivity.
  - destruct (Nat.eqb_spec k l') as [->|N']; [|exact IH]. destruct (Nat.eqb_spec l l'); congruence.
Qed.

Lemma end_of_in l e ends : end_of l ends = Some e -> In (l, e) ends.
Proof.
  unfold end_of. destruct (find (fun r => Nat.eqb (fst r) l) ends) as [[k e']|] eqn:F; [|discriminate]. intros [= ->].
  apply find_some in F. destruct F as [F K]. cbn in K. apply Nat.eqb_eq in K. subst. exact F.
Qed.

Lemma in_end_of l e ends : NoDup (map fst ends) -> In (l, e) ends -> end_of l ends = Some e.
Proof.
  unfold end_of. induction ends as [|[k e'] ends IH]; cbn; [tauto|]. intros D [[= -> ->]|H].
  - rewrite Nat.eqb_refl. reflexivity.
  - inversion D as [|? ? D1 D2]; subst. destruct (Nat.eqb_spec k l) as [->|N]; [|auto].
    exfalso. apply D1. apply (in_map fst) in H. exact H.
Qed.

Lemma no_dup_filter f (ends : list (lease_id * Z)) : NoDup (map fst ends) -> NoDup (map fst (filter f ends)).
Proof.
  induction ends as [|r ends IH]; cbn; [auto|]. intros D. inversion D as [|? ? D1 D2]; subst.
  destruct (f r); cbn; [|auto]. constructor; [|auto]. intros H. apply D1.
  apply in_map_iff in H. destruct H as (r' & E & H). apply filter_In in H. rewrite <- E. apply in_map. tauto.
Qed.

Lemma end_of_live l t ends : NoDup (map fst ends) ->
  end_of l (live t ends) = match end_of l ends with Some e => if is_past t e then None else Some e | None => None end.
Proof.
  intros D. destruct (end_of l (live t ends)) as [e|] eqn:E.
  - apply end_of_in in E. unfold live in E. apply filter_In in E. destruct E as [E P].
    rewrite (in_end_of _ _ _ D E). cbn in P. apply negb_true_iff in P. rewrite P. reflexivity.
  - destruct (end_of l ends) as [e|] eqn:E'; [|reflexivity]. destruct (is_past t e) eqn:P; [reflexivity|].
    apply end_of_in in E'. rewrite (in_end_of l e (live t ends)) in E; [discriminate|apply no_dup_filter; exact D|].
    apply filter_In. split; [exact E'|]. cbn. rewrite P. reflexivity.
Qed.

Lemma latest_spec e ends : e <= latest e ends /\ (forall l e', In (l, e') ends -> e' <= latest e ends) /\
  (latest e ends = e \/ exists l, In (l, latest e ends) ends).
Proof.
  unfold latest. induction ends as [|[k a] ends (IH1 & IH2 & IH3)]; cbn; [split; [lia|split; [tauto|auto]]|].
  set (b := fold_right _ _ _) in *. split; [lia|]. split.
  - intros l e' [[= -> ->]|H]; [lia|]. specialize (IH2 l e' H). lia.
  - destruct (Z.max_spec a b) as [[H ->]|[H ->]]; [|right; exists k; auto].
    destruct IH3 as [IH3|(l & IH3)]; [auto|right; exists l; auto].
Qed.

(** ** Expired keys *)

Definition is_live_now n t (k : option Z) : bool := match k with Some e => node_clock C n t <=? e | None => false end.

Lemma is_live_now_iff n t k : is_live_now n t k = true <-> is_live C n t k.
Proof. destruct k as [e|]; cbn; [apply Z.leb_le|split; [discriminate|tauto]]. Qed.

(** A node may delete the expired keys of any list of leases. *)
Lemma expire_keys n t c L : forall m, exists m1, node_run t n c m m1 c /\
  (forall l, keys m1 l = if existsb (Nat.eqb l) L && negb (is_live_now n t (keys m l)) then None else keys m l) /\
  counter m1 = counter m /\ minimum_token m1 = minimum_token m /\ phase m1 = phase m /\
  restart_guard m1 = restart_guard m.
Proof.
  induction L as [|k L IH]; intros m; [exists m; repeat split; apply NoStep|].
  destruct (IH m) as (m1 & R & K & A & B & D & E). destruct (is_live_now n t (keys m1 k)) eqn:Lk.
  - exists m1. split; [exact R|]. split; [|auto]. intros l. cbn [existsb]. rewrite K.
    destruct (Nat.eqb_spec l k) as [->|N]; cbn [orb]; [|reflexivity].
    rewrite K in Lk. destruct (existsb (Nat.eqb k) L && negb (is_live_now n t (keys m k))); [discriminate|].
    rewrite Lk. reflexivity.
  - eexists. split; [eapply run_trans; [exact R|apply one_step, (Expire _ _ _ _ _ k)]|].
    + rewrite <- is_live_now_iff. congruence.
    + cbn. repeat split; auto. intros l. destruct (update_cases (keys m1) k l None) as [[<- ->]|[N ->]].
      * rewrite Nat.eqb_refl. cbn [orb andb]. rewrite K in Lk.
        destruct (existsb (Nat.eqb k) L && negb (is_live_now n t (keys m k))) eqn:X.
        -- apply andb_true_iff in X. destruct X as [_ ->]. reflexivity.
        -- rewrite Lk. reflexivity.
      * rewrite K. destruct (Nat.eqb_spec l k); [congruence|reflexivity].
Qed.

Lemma conflict_iff a b : conflict C a b <-> a <> b /\ (reads C a = false \/ reads C b = false).
Proof. reflexivity. Qed.

Section OneNode.
Variables (n : node) (t : Z) (x : node_data) (m : node_state).
Hypothesis related : is_related n t x m.

Notation now := (node_time n t).
Notation shares := (reads C).

(** The run of the readers that hold the resource. *)
Lemma readers_run run : readers now x = Some run ->
  exists h e, d_lock x = Some (Readers, h, e) /\ is_past now e = false /\ d_readers x = Some run.
Proof.
  unfold readers, held. intros H. destruct (d_lock x) as [[[[l|] h] e]|]; [| |discriminate];
    destruct (is_past now e) eqn:P; try discriminate. exists h, e. auto.
Qed.

(** An executable node with readers is a node of the model with readers. *)
Lemma readers_are_readers phase epoch ends : readers now x = Some (phase, epoch, ends) ->
  has_readers C n t m /\ Model.phase m = phase /\ phase <= epoch /\ NoDup (map fst ends) /\
  (forall l, keys m l = option_map end_in_model (end_of l ends)) /\
  (forall l e, end_of l ends = Some e -> reads C l = true).
Proof.
  intros H. apply readers_run in H. destruct H as (h & e & L & P & R).
  pose proof (r_sound n t x m related) as S. pose proof (r_phase n t x m related) as F.
  assert (K : forall l, keys m l = option_map end_in_model (end_of l ends)) by
    (intros l; rewrite (r_keys n t x m related); unfold keys_in_model; rewrite L, R; reflexivity).
  unfold is_sound, has_phase in *. rewrite L, R in S, F. destruct S as (S1 & (w & S2) & S3 & S4).
  split; [|split; [exact F|split; [exact S4|split; [exact S1|split; [exact K|]]]]].
  - exists w. split; [apply (S3 w e S2)|]. rewrite K, S2. apply live_iff. exact P.
  - intros l e' E. apply (S3 l e' E).
Qed.

(** If nobody holds the resource, no key is live. *)
Lemma nothing_is_live l : held now x = None -> ~ is_live C n t (keys m l).
Proof.
  unfold held. intros H. rewrite (r_keys n t x m related). unfold keys_in_model.
  pose proof (r_sound n t x m related) as S. unfold is_sound in S.
  destruct (d_lock x) as [[[[w|] h] e]|]; [| |intros []]; destruct (is_past now e) eqn:P; try discriminate.
  - destruct (Nat.eqb w l); [|intros []]. rewrite live_iff. congruence.
  - destruct (d_readers x) as [[[ph ep] ends]|]; [|intros []]. destruct S as (_ & _ & S & _).
    destruct (end_of l ends) as [e'|] eqn:E; cbn [option_map]; [|intros []]. rewrite live_iff.
    apply S in E. destruct E as [E _]. unfold is_past in *. apply Z.ltb_lt in P. rewrite Z.ltb_ge. lia.
Qed.

Lemma ours_is_live l : is_ours shares now x l = true -> is_live C n t (keys m l).
Proof.
  unfold is_ours. destruct (shares l).
  - unfold is_reader. destruct (readers now x) as [[[ph ep] ends]|] eqn:R; [|discriminate].
    apply readers_are_readers in R. destruct R as (_ & _ & _ & _ & K & _). rewrite K.
    destruct (end_of l ends) as [e|]; [|discriminate]. intros H. apply negb_true_iff in H.
    cbn [option_map]. apply live_iff. exact H.
  - unfold is_writer, held. intros H. rewrite (r_keys n t x m related). unfold keys_in_model.
    destruct (d_lock x) as [[[w h] e]|]; [|discriminate].
    destruct (is_past now e) eqn:P; [discriminate|]. destruct w as [l'|]; [|discriminate]. rewrite H. apply live_iff. exact P.
Qed.

(** What a free resource looks like: nobody holds it, or the writer itself, or readers if the lease reads. *)
Lemma free_cases l : is_of_another shares now x l = false ->
  held now x = None \/
  (reads C l = false /\ is_writer now x l = true) \/
  (reads C l = true /\ readers now x <> None).
Proof.
  unfold is_of_another. destruct (held now x) eqn:H; [|auto]. intros E. right.
  apply andb_false_iff in E. destruct E as [E|E]; apply negb_false_iff in E.
  - unfold is_ours in E. destruct (shares l); [right|left]; split; auto.
    unfold is_reader in E. destruct (readers now x); [discriminate|discriminate E].
  - apply andb_true_iff in E. destruct E as [E1 E2]. right. split; [exact E1|].
    destruct (readers now x); [discriminate|discriminate E2].
Qed.

Lemma free_is_free l : is_of_another shares now x l = false -> is_free_for C n t m l.
Proof.
  intros H l' Hc. apply free_cases in H. apply conflict_iff in Hc. destruct Hc as [Ne Hc].
  destruct H as [H|[[Hr H]|[Hr H]]].
  - apply nothing_is_live. exact H.
  - rewrite (r_keys n t x m related). unfold keys_in_model, is_writer, held in *.
    destruct (d_lock x) as [[[[w|] h] e]|]; [| |discriminate]; destruct (is_past now e); try discriminate.
    apply Nat.eqb_eq in H. subst w. destruct (Nat.eqb_spec l l'); [congruence|intros []].
  - destruct (readers now x) as [[[ph ep] ends]|] eqn:R; [|congruence].
    apply readers_are_readers in R. destruct R as (_ & _ & _ & _ & K & A). rewrite K.
    destruct (end_of l' ends) as [e|] eqn:E; cbn [option_map]; [|intros []].
    apply A in E. destruct Hc; congruence.
Qed.

(** The node deletes its expired keys. *)
Lemma expire_all c : exists m1, node_run t n c m m1 c /\
  (forall l, keys m1 l = if is_live_now n t (keys m l) then keys m l else None) /\
  counter m1 = counter m /\ minimum_token m1 = minimum_token m /\ phase m1 = phase m /\
  restart_guard m1 = restart_guard m.
Proof.
  set (L := match d_lock x, d_readers x with
            | Some (Writer w, _, _), _ => [w]
            | Some (Readers, _, _), Some (_, _, ends) => map fst ends
            | _, _ => [] end).
  assert (All : forall l, keys m l <> None -> existsb (Nat.eqb l) L = true).
  { intros l. rewrite (r_keys n t x m related). unfold keys_in_model, L.
    destruct (d_lock x) as [[[[w|] h] e]|]; [| |tauto].
    - destruct (Nat.eqb_spec w l) as [->|]; [|tauto]. intros _. cbn. rewrite Nat.eqb_refl. reflexivity.
    - destruct (d_readers x) as [[[ph ep] ends]|]; [|tauto].
      destruct (end_of l ends) as [e'|] eqn:E; [|cbn; tauto]. intros _. apply existsb_exists. exists l.
      split; [|apply Nat.eqb_refl]. apply end_of_in in E. apply (in_map fst) in E. exact E. }
  destruct (expire_keys n t c L m) as (m1 & R & K & A). exists m1. split; [exact R|]. split; [|exact A].
  intros l. rewrite K. specialize (All l). destruct (is_live_now n t (keys m l)) eqn:Lv; cbn [negb].
  - rewrite andb_false_r. reflexivity.
  - destruct (keys m l); [rewrite All by discriminate; reflexivity|]. destruct (existsb _ _); reflexivity.
Qed.

(** ** The keys that the executable node writes *)

Lemma clock_is_before ttl ttl' : ttl' <= ttl * grain -> node_clock C n t + ttl' <= end_in_model (now + ttl).
Proof.
  intros H. pose proof (proj1 (floor_le (node_clock C n t) now) (Z.le_refl _)). unfold end_in_model in *. nia.
Qed.

Lemma ends_grow a b : a <= b -> end_in_model a <= end_in_model b.
Proof. unfold end_in_model. intros. nia. Qed.

(** The state of the model after the deletion of expired keys. *)
Section Later.
Variable m1 : node_state.
Hypothesis m1_keys : forall l, keys m1 l = if is_live_now n t (keys m l) then keys m l else None.

Lemma live_later l : is_live C n t (keys m1 l) <-> is_live C n t (keys m l).
Proof.
  rewrite m1_keys. destruct (is_live_now n t (keys m l)) eqn:E; [tauto|].
  rewrite <- (is_live_now_iff n t (keys m l)), E. split; [intros []|discriminate].
Qed.

Lemma readers_later : has_readers C n t m1 <-> has_readers C n t m.
Proof. unfold has_readers. split; intros (l & A & B); exists l; rewrite live_later in *; auto. Qed.

Lemma free_later l : is_of_another shares now x l = false -> is_free_for C n t m1 l.
Proof. intros H l' Hc. rewrite live_later. exact (free_is_free l H l' Hc). Qed.

Lemma live_keys_of_readers phase epoch ends l : readers now x = Some (phase, epoch, ends) ->
  keys m1 l = option_map end_in_model (end_of l (live now ends)).
Proof.
  intros R. apply readers_are_readers in R. destruct R as (_ & _ & _ & D & K & _).
  rewrite m1_keys, K, end_of_live by exact D. destruct (end_of l ends) as [e|]; cbn [option_map]; [|reflexivity].
  destruct (is_live_now n t (Some (end_in_model e))) eqn:E.
  - apply is_live_now_iff, live_iff in E. rewrite E. reflexivity.
  - destruct (is_past now e) eqn:P; [reflexivity|]. apply live_iff, is_live_now_iff in P. congruence.
Qed.

(** The readers before the lock or renewal of a reader, for which nobody else holds the resource. *)
Definition ends_before := match readers now x with Some (_, _, ends) => live now ends | None => [] end.

Lemma keys_before l' l : reads C l = true -> is_of_another shares now x l = false ->
  keys m1 l' = option_map end_in_model (end_of l' ends_before).
Proof.
  intros Hr H. unfold ends_before. destruct (readers now x) as [[[ph ep] ends]|] eqn:R.
  - eapply live_keys_of_readers. exact R.
  - apply free_cases in H. destruct H as [H|[[H _]|[_ H]]]; [|congruence|congruence].
    rewrite m1_keys. destruct (is_live_now n t (keys m l')) eqn:E; [|reflexivity].
    apply is_live_now_iff in E. destruct (nothing_is_live l' H E).
Qed.

Lemma readers_before : NoDup (map fst ends_before) /\ forall l e, end_of l ends_before = Some e -> reads C l = true.
Proof.
  unfold ends_before. destruct (readers now x) as [[[ph ep] ends]|] eqn:R; [|split; [constructor|discriminate]].
  apply readers_are_readers in R. destruct R as (_ & _ & _ & D & _ & A). split; [apply no_dup_filter; exact D|].
  intros l e. rewrite end_of_live by exact D. destruct (end_of l ends) as [e'|] eqn:E; [|discriminate]. intros _.
  exact (A l e' E).
Qed.

(** The keys after a lock or renewal, and the phase. *)
Lemma taken_is_written l holds epoch ttl ttl' c :
  is_of_another shares now x l = false -> ttl' <= ttl * grain ->
  let x' := taken shares now x l holds epoch ttl c in
  writes_key C n t m1 l ttl' (keys_in_model x') /\ is_sound x' /\
  has_phase x' (if reads C l then match readers now x with Some (phase, _, _) => phase | None => epoch end else phase m1).
Proof.
  intros H Httl. unfold taken. destruct (reads C l) eqn:Hr.
  - pose proof (fun l' => keys_before l' l Hr H) as K. destruct readers_before as [D A].
    set (e := match end_of l ends_before with Some e => Z.max e (now + ttl) | None => now + ttl end).
    set (ph := match readers now x with Some (phase, _, _) => phase | None => epoch end).
    set (ep := match readers now x with Some (_, epoch', _) => Z.max epoch' epoch | None => Z.max epoch epoch end).
    assert (Es : shared now x l epoch ttl =
        (ph, ep, (l, e) :: without l ends_before, latest e (without l ends_before))).
    { unfold shared, e, ph, ep, ends_before. destruct (readers now x) as [[[ph0 ep0] ends]|]; reflexivity. }
    cbv zeta. rewrite Es.
    assert (Ks : forall l', keys_in_model (with_lock x (Some (Readers, 0, latest e (without l ends_before)))
        (Some (ph, ep, (l, e) :: without l ends_before)) c) l' =
        if Nat.eqb l l' then Some (end_in_model e) else keys m1 l').
    { intros l'. rewrite K. unfold keys_in_model. cbn [d_lock d_readers with_lock].
      change (end_of l' ((l, e) :: without l ends_before)) with
        (match (if Nat.eqb l l' then Some (l, e) else find (fun r => Nat.eqb (fst r) l') (without l ends_before)) with
         | Some (_, e') => Some e' | None => None end).
      destruct (Nat.eqb_spec l l') as [->|N]; [reflexivity|].
      change (match find (fun r => Nat.eqb (fst r) l') (without l ends_before) with Some (_, e') => Some e' | None => None end)
        with (end_of l' (without l ends_before)).
      rewrite end_of_without. destruct (Nat.eqb_spec l l'); [congruence|reflexivity]. }
    split; [|split].
    + unfold writes_key. split; [|split].
      * exists (end_in_model e). rewrite Ks, Nat.eqb_refl. split; [reflexivity|].
        pose proof (clock_is_before ttl ttl' Httl) as F. rewrite K. unfold e. split.
        -- destruct (end_of l ends_before) as [e0|]; [|exact F].
           pose proof (ends_grow (now + ttl) (Z.max e0 (now + ttl))). lia.
        -- destruct (end_of l ends_before) as [e0|]; cbn [option_map]; [|discriminate].
           intros e1 [= <-] _. apply ends_grow. lia.
      * intros l' Hc. apply conflict_iff in Hc. destruct Hc as [Ne [Hc|Hc]]; [congruence|].
        rewrite Ks. destruct (Nat.eqb_spec l l'); [congruence|]. rewrite K.
        destruct (end_of l' ends_before) as [e0|] eqn:E; [|reflexivity]. apply A in E. congruence.
      * intros l' Ne _. rewrite Ks. destruct (Nat.eqb_spec l l'); [congruence|reflexivity].
    + unfold is_sound. cbn [d_lock d_readers with_lock].
      assert (D' : NoDup (map fst ((l, e) :: without l ends_before))).
      { cbn. constructor; [|apply no_dup_filter; exact D]. intros I. apply in_map_iff in I.
        destruct I as ([k e0] & E0 & I). cbn in E0. subst k. unfold without in I. apply filter_In in I.
        cbn in I. rewrite Nat.eqb_refl in I. destruct I; discriminate. }
      destruct (latest_spec e (without l ends_before)) as (L1 & L2 & L3).
      split; [exact D'|]. split; [|split].
      * destruct L3 as [->|(k & L3)]; [exists l|exists k]; apply in_end_of; auto; [left; reflexivity|right; exact L3].
      * intros l' e' E. apply end_of_in in E. destruct E as [[= <- <-]|E]; [auto|]. split; [exact (L2 l' e' E)|].
        unfold without in E. apply filter_In in E. destruct E as [E _]. apply (A l' e'). apply in_end_of; auto.
      * unfold ph, ep. destruct (readers now x) as [[[ph0 ep0] ends]|] eqn:R; [|lia].
        apply readers_are_readers in R. destruct R as (_ & _ & R & _). lia.
    + unfold has_phase. cbn [d_lock d_readers with_lock]. reflexivity.
  - assert (Hw : forall l', l' <> l -> conflict C l l') by (intros; apply conflict_iff; split; [congruence|auto]).
    split; [|split; [exact Hr|exact I]].
    unfold writes_key, keys_in_model, written. cbn [d_lock with_lock]. split; [|split].
    + rewrite Nat.eqb_refl. eexists. split; [reflexivity|].
      pose proof (clock_is_before ttl ttl' Httl) as F. apply free_cases in H. destruct H as [H|[[_ H]|[H _]]]; [| |congruence].
      * rewrite H. split; [exact F|]. intros e0 _ Lv. apply live_later in Lv. destruct (nothing_is_live l H Lv).
      * unfold is_writer in H. destruct (held now x) as [[[[w|] h] e]|] eqn:Eh; try discriminate.
        apply Nat.eqb_eq in H. subst w. split.
        -- pose proof (ends_grow (now + ttl) (Z.max e (now + ttl))). lia.
        -- intros e0 E0 _. rewrite m1_keys in E0. destruct (is_live_now n t (keys m l)); [|discriminate].
           rewrite (r_keys n t x m related) in E0. unfold keys_in_model, held in *.
           destruct (d_lock x) as [[[w h'] e']|]; [|discriminate]. destruct (is_past now e'); [discriminate|].
           injection Eh as -> -> ->. rewrite Nat.eqb_refl in E0. injection E0 as <-. apply ends_grow. lia.
    + intros l' Hc. apply conflict_iff in Hc. destruct Hc as [Ne _]. destruct (Nat.eqb_spec l l'); [congruence|reflexivity].
    + intros l' Ne Hc. destruct (Hc (Hw l' Ne)).
Qed.
End Later.

(** A node that does not abstain may vote, and its renewals count. A4: the incarnation of the metadata, if the request
    names it, is the present incarnation. *)
Lemma voter_may_vote i :
  (has_metadata_of x i = true -> i = d_incarnation x) -> abstains (node_time n t) x i = false -> may_vote C n m t.
Proof.
  intros A4 H. unfold abstains in H. apply orb_false_iff in H. destruct H as [H1 H2].
  apply negb_false_iff in H1. specialize (A4 H1). subst i.
  pose proof (r_guard n t x m related) as G. unfold may_vote, guard_is_related in *.
  destruct (restart_guard m) as [|e|e]; [exact I|congruence|].
  destruct G as [He [G|G]]; [|exact G]. unfold quarantine in H2. rewrite G in H2.
  destruct (is_past (node_time n t) (node_time n e + p_lasts p)) eqn:P; [|discriminate].
  exists t. split; [lia|]. unfold is_past in P. apply Z.ltb_lt in P. unfold node_time in P.
  pose proof (floor_gt (node_clock C n t) (node_clock C n e) (p_lasts p)). lia.
Qed.

Lemma renewal_may_count i :
  (has_metadata_of x i = true -> i = d_incarnation x) -> abstains_from_renewals (node_time n t) x i = false ->
  may_count C n m t.
Proof.
  intros A4 H. unfold abstains_from_renewals in H. apply orb_false_iff in H. destruct H as [H1 H2].
  apply negb_false_iff in H1. specialize (A4 H1). subst i.
  pose proof (r_guard n t x m related) as G. unfold may_count, renewals_wait, guard_is_related in *.
  destruct (restart_guard m) as [|e|e]; [exact I|congruence|].
  destruct G as [He [G|(t' & Ht & G)]]; [|exists t'; split; [exact Ht|lia]].
  exists t. split; [lia|]. unfold quarantine in H2. rewrite G in H2.
  destruct (is_past (node_time n t) (node_time n e + p_lasts p)) eqn:P.
  - unfold is_past in P. apply Z.ltb_lt in P. unfold node_time in P.
    pose proof (floor_gt (node_clock C n t) (node_clock C n e) (p_lasts p)). lia.
  - apply negb_false_iff in H2. unfold is_past in H2. apply Z.ltb_lt in H2. unfold node_time in H2.
    pose proof (floor_gt (node_clock C n t) (node_clock C n e) (p_renewals_after p)). lia.
Qed.

(** A missing counter counts as the node's time: in the model, a step precedes the operation. *)
Lemma with_counter c m0 : counter m0 = counter m ->
  (value now x = None -> is_above_confirmed C c n (start_of now)) ->
  exists m1, node_run t n c m0 m1 c /\ counter m1 = value_or (value now x) (start_of now) /\
    keys m1 = keys m0 /\ minimum_token m1 = minimum_token m0 /\ phase m1 = phase m0 /\
    restart_guard m1 = restart_guard m0.
Proof.
  intros Hc A8. destruct (value now x) as [v|] eqn:V; cbn [value_or].
  - exists m0. split; [apply NoStep|]. split; [|auto].
    unfold value, found in V. destruct (d_counter x) as [[v' e]|] eqn:D; [|discriminate].
    destruct (is_past now e); [discriminate|]. injection V as <-. rewrite Hc. exact (r_counter n t x m related _ _ D).
  - eexists. split; [apply one_step, LoseCounter; exact (A8 eq_refl)|]. cbn. auto.
Qed.

(** The state of the model before a lock or renewal: expired keys and a missing counter are settled. *)
Lemma prepare c :
  (value now x = None -> is_above_confirmed C c n (start_of now)) ->
  exists m1, node_run t n c m m1 c /\
    (forall l, keys m1 l = if is_live_now n t (keys m l) then keys m l else None) /\
    counter m1 = value_or (value now x) (start_of now) /\
    minimum_token m1 = minimum_token_of x /\ phase m1 = phase m /\ restart_guard m1 = restart_guard m.
Proof.
  intros A8. destruct (expire_all c) as (m0 & R0 & K0 & C0 & M0 & P0 & G0).
  destruct (with_counter c m0 C0 A8) as (m1 & R1 & C1 & K1 & M1 & P1 & G1).
  exists m1. split; [exact (run_trans _ _ _ _ _ _ _ _ R0 R1)|].
  rewrite K1, C1, M1, P1, G1, M0, P0, G0, (r_minimum n t x m related). auto.
Qed.

Lemma stored_value v a e : stored (node_time n t) x p v = Some (a, e) -> a = v.
Proof. unfold stored. destruct (found (node_time n t) x) as [[u f]|]; intros [= <- _]; reflexivity. Qed.

(** ** Theorems: each operation of the executable node *)

(** What the proof of a redemption needs. *)
Definition shows_proof (l : lease_id) (hint : Z) (proof : option Z) : Prop :=
  match proof with
  | None => True
  | Some T => is_ours shares now x l = true \/
      readers now x = None /\ proves x now T = true /\ hint = T + 1 /\
      (counters_are_kept C -> T <= (now / 1000 + 3600) * 1000000)
  end.

(** A lock or renewal changes key, readers and counter only. *)
Lemma taken_keeps_the_rest l holds epoch ttl c :
  let x' := taken shares now x l holds epoch ttl c in
  d_counter x' = c /\ d_metadata x' = d_metadata x /\ d_quarantine x' = d_quarantine x /\
  d_incarnation x' = d_incarnation x.
Proof.
  unfold taken. destruct (shares l); [destruct (shared now x l epoch ttl) as [run e]|]; cbn; auto.
Qed.

Lemma guard_of_taken l holds epoch ttl c g :
  guard_is_related n t x g -> guard_is_related n t (taken shares now x l holds epoch ttl c) g.
Proof.
  pose proof (taken_keeps_the_rest l holds epoch ttl c) as (_ & A & B & D).
  unfold guard_is_related, has_metadata_of. destruct g; rewrite ?A, ?B, ?D; auto.
Qed.

Lemma minimum_of_taken l holds epoch ttl c :
  minimum_token_of (taken shares now x l holds epoch ttl c) = minimum_token_of x.
Proof.
  pose proof (taken_keeps_the_rest l holds epoch ttl c) as (_ & A & _). unfold minimum_token_of. rewrite A. reflexivity.
Qed.

Lemma grant_refines c l a ttl hint x' v :
  attempts c l = Some a -> attempt_ttl a <= ttl * grain -> shows_proof l hint (attempt_proof a) ->
  may_vote C n m t ->
  (value now x = None -> is_above_confirmed C c n (start_of now)) ->
  grant shares p x now l ttl hint = (x', Granted v) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)) /\
    is_related n t x' m'.
Proof.
  intros Ha Httl Hp Hvote A8 H. destruct (time_is_usual n t) as [T0 _]. unfold grant in H.
  destruct (is_of_another shares now x l) eqn:Eo; [discriminate|].
  destruct (vote_for shares now x l hint) as [v' is_repeated] eqn:Ev.
  destruct (negb is_repeated && (largest_counter <? v')); [discriminate|]. injection H as <- <-.
  destruct (prepare c A8) as (m1 & Hm1 & Hk & Hc & Hmin & Hph & Hg).
  set (holds := if is_repeated then match held now x with Some (_, h, _) => h | None => 1 end else 1).
  set (c' := stored now x p (Z.max (value_or (value now x) 0) v')).
  destruct (taken_is_written m1 Hk l holds v' ttl (attempt_ttl a) c' Eo Httl) as (Hw & Hs & Hp').
  set (x' := taken shares now x l holds v' ttl c') in *.
  assert (S0 : 0 <= start_of now) by (unfold start_of; pose proof (Z.div_pos now 1000); lia).
  assert (Hv : is_vote C n t m1 l v' /\ Z.max (value_or (value now x) 0) v' = Z.max (counter m1) v').
  { split; [|rewrite Hc; destruct (value now x) as [u|] eqn:V; cbn [value_or]; [reflexivity|];
      unfold vote_for in Ev; rewrite V in Ev; cbn [value_or] in Ev;
      destruct (readers now x) as [[[ph ep] ends]|]; injection Ev as <- <-; lia].
    unfold is_vote. rewrite Hc, Hmin, readers_later, live_later by exact Hk. rewrite Hph.
    unfold vote_for in Ev. destruct (readers now x) as [[[ph ep] ends]|] eqn:R.
    - apply readers_are_readers in R. destruct R as (R1 & R2 & R3 & _). rewrite R2.
      destruct (value now x) as [u|]; cbn [value_or] in *.
      + destruct (shares l) eqn:Hr.
        * destruct (minimum_token_of x <=? ep) eqn:Em; injection Ev as <- <-; [|left; lia].
          apply Z.leb_le in Em. right. right. auto.
        * destruct (is_writer now x l) eqn:Ei; [|injection Ev as <- <-; left; lia].
          destruct (minimum_token_of x <=? u) eqn:Em; injection Ev as <- <-; [|left; lia].
          apply Z.leb_le in Em. right. left. split; [reflexivity|]. split; [|lia].
          apply ours_is_live. unfold is_ours. rewrite Hr. exact Ei.
      + injection Ev as <- <-. left. lia.
    - destruct (value now x) as [u|]; cbn [value_or] in *.
      + destruct (shares l) eqn:Hr; [injection Ev as <- <-; left; lia|].
        destruct (is_writer now x l) eqn:Ei; [|injection Ev as <- <-; left; lia].
        destruct (minimum_token_of x <=? u) eqn:Em; injection Ev as <- <-; [|left; lia].
        apply Z.leb_le in Em. right. left. split; [reflexivity|]. split; [|lia].
        apply ours_is_live. unfold is_ours. rewrite Hr. exact Ei.
      + injection Ev as <- <-. left. lia. }
  destruct Hv as (Hv & Hv0).
  set (ph := if reads C l then match readers now x with Some (ph, _, _) => ph | None => v' end else phase m1) in *.
  exists {| keys := keys_in_model x'; counter := Z.max (counter m1) v'; minimum_token := minimum_token m1; phase := ph;
    restart_guard := restart_guard m1 |}.
  split.
  - eapply run_trans; [exact Hm1|]. apply one_step, Lock with (a := a); auto.
    + unfold may_vote. rewrite Hg. exact Hvote.
    + apply free_later; assumption.
    + unfold meets_proof, shows_proof in *. destruct (attempt_proof a) as [T|]; [|exact I].
      rewrite live_later by exact Hk. rewrite Hmin, Hc.
      destruct Hp as [Hp|(Hr & Hp & Hh & Hcap)]; [left; apply ours_is_live; exact Hp|].
      destruct (is_ours shares now x l) eqn:Ei; [left; apply ours_is_live; exact Ei|right].
      unfold proves in Hp. apply andb_true_iff in Hp. destruct Hp as [P1 P2]. apply Z.leb_le in P1.
      destruct (value now x) as [u|] eqn:V; [|discriminate]. apply Z.leb_le in P2. cbn [value_or].
      split; [exact P2|]. split; [exact P1|]. intros K. specialize (Hcap K).
      unfold vote_for, hinted in Ev. rewrite V, Hr in Ev. unfold is_ours in Ei.
      destruct (shares l); [|rewrite Ei in Ev]; injection Ev as <- _; cbn [value_or]; lia.
    + unfold is_phase_of_lock, ph. rewrite readers_later by exact Hk. destruct (reads C l) eqn:Hr.
      * destruct (readers now x) as [[[ph0 ep] ends]|] eqn:R.
        -- apply readers_are_readers in R. destruct R as (R1 & R2 & _). left. rewrite Hph. auto.
        -- right. split; [reflexivity|]. split; [reflexivity|]. intros (w & _ & L).
           apply free_cases in Eo. destruct Eo as [Eo|[[Eo _]|[_ Eo]]]; [|congruence|congruence].
           exact (nothing_is_live w Eo L).
      * left. split; [reflexivity|discriminate].
  - constructor; cbn [keys counter minimum_token phase restart_guard].
    + reflexivity.
    + exact Hs.
    + exact Hp'.
    + intros u e E. unfold x' in E. rewrite (proj1 (taken_keeps_the_rest l holds v' ttl c')) in E.
      apply stored_value in E. lia.
    + rewrite Hmin. symmetry. apply minimum_of_taken.
    + rewrite Hg. apply guard_of_taken. exact (r_guard n t x m related).
Qed.

Theorem lock_refines c l a ttl hint i x' v :
  attempts c l = Some a -> attempt_proof a = None -> attempt_ttl a <= ttl * grain ->
  (has_metadata_of x i = true -> i = d_incarnation x) -> meets_A8 c n t x (LockOp l ttl hint) ->
  execute shares p x now i (LockOp l ttl hint) = (x', Granted v) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)) /\
    is_related n t x' m'.
Proof.
  intros Ha Hp Httl A4 A8 H. cbn [execute] in H.
  destruct (abstains now x i) eqn:Ab; [discriminate|].
  destruct (has_tombstone now x l); [discriminate|].
  eapply grant_refines; try eassumption.
  - rewrite Hp. exact I.
  - exact (voter_may_vote i A4 Ab).
Qed.

Theorem write_back_refines c l T i x' :
  tokens c l = Some T ->
  (has_metadata_of x i = true -> i = d_incarnation x) -> meets_A8 c n t x (WriteBackOp l T) ->
  execute shares p x now i (WriteBackOp l T) = (x', WrittenBack) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation c l T n)) /\ is_related n t x' m'.
Proof.
  intros Ht A4 A8 H. cbn [execute] in H.
  destruct (abstains now x i) eqn:Ab; [discriminate|].
  destruct (is_ours shares now x l) eqn:Ei; cbn [andb] in H; [|discriminate].
  destruct (minimum_token_of x <=? T) eqn:Em; cbn [andb] in H; [|discriminate].
  match type of H with context [if ?b <=? T then _ else _] => destruct (b <=? T) eqn:El; [|discriminate] end.
  injection H as <-. apply Z.leb_le in Em, El.
  destruct (with_counter c m eq_refl A8) as (m1 & Hm1 & Hc & Hk & Hmin & Hph & Hg).
  exists {| keys := keys m1; counter := Z.max (counter m1) T; minimum_token := minimum_token m1; phase := phase m1;
    restart_guard := restart_guard m1 |}.
  pose proof (r_sound n t x m related) as S. pose proof (r_phase n t x m related) as F.
  split.
  - eapply run_trans; [exact Hm1|]. apply one_step, WriteBack; auto.
    + unfold may_vote. rewrite Hg. apply (voter_may_vote i A4 Ab).
    + rewrite Hk. apply ours_is_live. exact Ei.
    + unfold bound_of_write_back. rewrite Hc, Hph. unfold is_ours, is_reader in Ei. destruct (shares l); [|exact El].
      destruct (readers now x) as [[[ph ep] ends]|] eqn:R; [|discriminate].
      apply readers_are_readers in R. destruct R as (_ & -> & _). exact El.
    + rewrite Hmin, (r_minimum n t x m related). exact Em.
  - assert (W : keys_in_model (with_lock x (d_lock x)
        (if shares l then match readers now x with Some (ph, ep, ends) => Some (ph, Z.max ep T, ends) | None => d_readers x end
         else d_readers x)
        (stored now x p (if shares l then Z.max (value_or (value now x) (start_of now)) T else T))) = keys_in_model x /\
      is_sound (with_lock x (d_lock x)
        (if shares l then match readers now x with Some (ph, ep, ends) => Some (ph, Z.max ep T, ends) | None => d_readers x end
         else d_readers x)
        (stored now x p (if shares l then Z.max (value_or (value now x) (start_of now)) T else T))) /\
      has_phase (with_lock x (d_lock x)
        (if shares l then match readers now x with Some (ph, ep, ends) => Some (ph, Z.max ep T, ends) | None => d_readers x end
         else d_readers x)
        (stored now x p (if shares l then Z.max (value_or (value now x) (start_of now)) T else T))) (phase m)).
    { unfold keys_in_model, is_sound, has_phase in *. cbn [d_lock d_readers with_lock].
      destruct (shares l); [|auto]. destruct (readers now x) as [[[ph ep] ends]|] eqn:R; [|auto].
      apply readers_run in R. destruct R as (h & e & L & _ & R). rewrite L, R in *. split; [reflexivity|].
      split; [|exact F]. destruct S as (S1 & S2 & S3 & S4). repeat split; auto; try lia; eapply S3; eassumption. }
    destruct W as (W1 & W2 & W3).
    constructor; cbn [keys counter minimum_token phase restart_guard].
    + intros l'. rewrite W1, Hk. apply (r_keys n t x m related).
    + exact W2.
    + rewrite Hph. exact W3.
    + intros u e E. cbn [d_counter with_lock] in E. apply stored_value in E. rewrite Hc.
      unfold is_ours in *. destruct (shares l); [exact (eq_sym E)|]. lia.
    + rewrite Hmin. apply (r_minimum n t x m related).
    + rewrite Hg. exact (r_guard n t x m related).
Qed.

(** A reader that begins a run needs a number above all earlier votes of the node. *)
Definition can_count_on : Prop :=
  value_or (value now x) (start_of now) < largest_counter /\ minimum_token_of x < largest_counter.

Theorem renew_refines c q le holds ttl i x' r :
  In q (renewals c) -> leases c (round_lease q) = Some le -> round_ttl q <= ttl * grain ->
  (has_metadata_of x i = true -> i = d_incarnation x) ->
  (reads C (round_lease q) = true -> can_count_on) ->
  meets_A8 c n t x (RenewOp (round_lease q) holds ttl (token le)) ->
  execute shares p x now i (RenewOp (round_lease q) holds ttl (token le)) = (x', r) ->
  exists m', node_run t n c m m' match r with Renewed _ => add_answer c q n t | _ => c end /\ is_related n t x' m'.
Proof.
  intros Hq Hle Httl A4 Hmax A8 H. destruct (time_is_usual n t) as [_ T1]. cbn [execute] in H.
  destruct (has_tombstone now x (round_lease q)); [injection H as <- <-; exists m; split; [apply NoStep|assumption]|].
  destruct (is_of_another shares now x (round_lease q)) eqn:Eo;
    [injection H as <- <-; exists m; split; [apply NoStep|assumption]|].
  destruct (prepare c A8) as (m1 & Hm1 & Hk & Hc & Hmin & Hph & Hg).
  set (l := round_lease q) in *. set (T := token le) in *.
  set (is_proven := proves_renewal shares x now l T) in *.
  set (u := match value now x with Some v => Z.max v T | None => Z.min (Z.max (start_of now) (T + 1)) largest_counter end) in *.
  set (begins := shares l && match readers now x with Some _ => false | None => true end) in *.
  set (v := if begins && negb is_proven then Z.min (Z.max u (minimum_token_of x) + 1) largest_counter else u) in *.
  set (epoch := if is_proven then T else if begins then v else 0) in *.
  set (c' := stored now x p v) in *.
  destruct (taken_is_written m1 Hk l holds epoch ttl (round_ttl q) c' Eo Httl) as (Hw & Hs & Hp').
  set (y := taken shares now x l holds epoch ttl c') in *.
  injection H as <- <-.
  assert (Hu : counter m1 <= u) by (rewrite Hc; unfold u; destruct (value now x); cbn [value_or]; lia).
  assert (Hv : counter m1 <= v /\ (begins = true -> is_proven = false -> counter m1 < v /\ minimum_token m1 < v)).
  { unfold v. rewrite Hmin. destruct begins eqn:B; cbn [andb]; [|split; [exact Hu|discriminate]].
    destruct is_proven; cbn [negb]; [split; [exact Hu|discriminate]|].
    assert (reads C l = true) as Hr by (unfold begins in B; destruct (shares l); [reflexivity|discriminate]).
    destruct (Hmax Hr) as [M1 M2]. rewrite <- Hc in M1. split; [|intros _ _; split]; lia. }
  set (ph := if reads C l then match readers now x with Some (ph, _, _) => ph | None => epoch end else phase m1) in *.
  assert (Hp : is_phase_of_renewal C n t c m1 l ph).
  { unfold is_phase_of_renewal, ph. rewrite readers_later by exact Hk. destruct (reads C l) eqn:Hr; [|left; split; [reflexivity|discriminate]].
    unfold begins, epoch in *. cbn [andb] in *. destruct (readers now x) as [[[ph0 ep] ends]|] eqn:R.
    - apply readers_are_readers in R. destruct R as (R1 & R2 & _). left. rewrite Hph. auto.
    - destruct is_proven eqn:P; [|right; right; destruct (proj2 Hv eq_refl eq_refl) as [V1 V2]; split; apply Z.lt_gt; assumption].
      right. left. exists le. split; [exact Hle|]. split; [reflexivity|]. rewrite Hc, Hmin.
      unfold is_proven, proves_renewal, proves in P. rewrite R in P. apply andb_true_iff in P. destruct P as [P1 P2].
      apply Z.leb_le in P1. destruct (value now x) as [w|]; [|discriminate]. apply Z.leb_le in P2. auto. }
  exists {| keys := keys_in_model y; counter := v; minimum_token := minimum_token m1; phase := ph;
    restart_guard := restart_guard m1 |}.
  split.
  - eapply run_trans; [exact Hm1|]. apply one_step. destruct (abstains_from_renewals now x i) eqn:Ab.
    + apply RenewInQuarantine with (r := q); auto; [apply free_later; assumption|apply Hv].
    + apply Renew; auto; [|apply free_later; assumption|apply Hv].
      unfold may_count. rewrite Hg. apply (renewal_may_count i A4 Ab).
  - constructor; cbn [keys counter minimum_token phase restart_guard].
    + reflexivity.
    + exact Hs.
    + exact Hp'.
    + intros w e E. unfold y in E. rewrite (proj1 (taken_keeps_the_rest l holds epoch ttl c')) in E.
      apply stored_value in E. lia.
    + rewrite Hmin. symmetry. apply minimum_of_taken.
    + rewrite Hg. apply guard_of_taken. exact (r_guard n t x m related).
Qed.

Lemma guard_of g y : d_metadata y = d_metadata x -> d_quarantine y = d_quarantine x -> d_incarnation y = d_incarnation x ->
  guard_is_related n t x g -> guard_is_related n t y g.
Proof. intros A B D. unfold guard_is_related, has_metadata_of. destruct g; rewrite ?A, ?B, ?D; auto. Qed.

(** The unlock of a reader. *)
Lemma unshared_refines c l deleted k r y :
  ended c l -> unshared now x l = (deleted, k, r) ->
  d_lock y = k -> d_readers y = r -> d_counter y = d_counter x -> d_metadata y = d_metadata x ->
  d_quarantine y = d_quarantine x -> d_incarnation y = d_incarnation x ->
  exists m', node_run t n c m m' c /\ is_related n t y m'.
Proof.
  intros He U Yk Yr Yc Ym Yq Yi. unfold unshared in U.
  pose proof (r_counter n t x m related) as Rc. pose proof (r_minimum n t x m related) as Rm.
  pose proof (r_guard n t x m related) as Rg.
  assert (Ymin : minimum_token_of y = minimum_token_of x) by (unfold minimum_token_of; rewrite Ym; reflexivity).
  destruct (readers now x) as [[[ph ep] ends]|] eqn:R.
  - pose proof (readers_are_readers _ _ _ R) as (_ & Hph & Hep & D & K & A).
    destruct (end_of l ends) as [e0|] eqn:E0.
    + assert (Kl : keys m l <> None) by (rewrite K, E0; discriminate).
      assert (Step : node_run t n c m {| keys := update (keys m) l None; counter := counter m;
          minimum_token := minimum_token m; phase := phase m; restart_guard := restart_guard m |} c) by
        (apply one_step, Unlock; assumption).
      assert (Ku : forall l', update (keys m) l None l' = option_map end_in_model (end_of l' (without l ends))).
      { intros l'. rewrite end_of_without. destruct (update_cases (keys m) l l' None) as [[<- ->]|[N ->]].
        - rewrite Nat.eqb_refl. reflexivity.
        - rewrite K. destruct (Nat.eqb_spec l l'); [congruence|reflexivity]. }
      destruct (live now (without l ends)) as [|[w e] rest] eqn:Lv; injection U as <- <- <-.
      * (* No reader is left. The other readers have expired. *)
        destruct (expire_keys n t c (map fst (without l ends)) {| keys := update (keys m) l None; counter := counter m;
          minimum_token := minimum_token m; phase := phase m; restart_guard := restart_guard m |})
          as (m1 & R1 & K1 & C1 & M1 & P1 & G1). cbn [keys counter minimum_token phase restart_guard] in *.
        exists m1. split; [exact (run_trans _ _ _ _ _ _ _ _ Step R1)|].
        constructor; [|unfold is_sound; rewrite Yk; exact I|unfold has_phase; rewrite Yk; exact I| | |].
        -- intros l'. unfold keys_in_model. rewrite Yk, K1, Ku.
           destruct (end_of l' (without l ends)) as [e'|] eqn:E'; cbn [option_map]; [|destruct (_ && _); reflexivity].
           pose proof (end_of_in _ _ _ E') as I'.
           assert (X : existsb (Nat.eqb l') (map fst (without l ends)) = true).
           { apply existsb_exists. exists l'. split; [|apply Nat.eqb_refl]. apply (in_map fst) in I'. exact I'. }
           rewrite X. destruct (is_live_now n t (Some (end_in_model e'))) eqn:Lw; [|reflexivity].
           apply is_live_now_iff, live_iff in Lw. exfalso.
           assert (H : In (l', e') (live now (without l ends))) by
             (unfold live; apply filter_In; split; [exact I'|cbn; rewrite Lw; reflexivity]).
           rewrite Lv in H. destruct H.
        -- intros v e. rewrite Yc, C1. apply Rc.
        -- rewrite M1, Ymin. exact Rm.
        -- rewrite G1. apply guard_of; assumption.
      * eexists. split; [exact Step|].
        destruct (latest_spec e (without l ends)) as (L1 & L2 & L3).
        assert (Iw : In (w, e) (live now (without l ends))) by (rewrite Lv; left; reflexivity).
        unfold live in Iw. apply filter_In in Iw. destruct Iw as [Iw _].
        assert (D' : NoDup (map fst (without l ends))) by (apply no_dup_filter; exact D).
        constructor; cbn [keys counter minimum_token phase restart_guard].
        -- intros l'. unfold keys_in_model. rewrite Yk, Yr. apply Ku.
        -- unfold is_sound. rewrite Yk, Yr. split; [exact D'|]. split; [|split; [|exact Hep]].
           ++ destruct L3 as [->|(k & L3)]; [exists w|exists k]; apply in_end_of; auto.
           ++ intros l' e' E'. split; [apply (L2 l'), end_of_in, E'|]. rewrite end_of_without in E'.
              destruct (Nat.eqb l l'); [discriminate|]. exact (A l' e' E').
        -- unfold has_phase. rewrite Yk, Yr. exact Hph.
        -- intros v e'. rewrite Yc. apply Rc.
        -- rewrite Ymin. exact Rm.
        -- apply guard_of; assumption.
    + injection U as <- <- <-. exists m. split; [apply NoStep|]. constructor.
      * intros l'. rewrite (r_keys n t x m related). unfold keys_in_model. rewrite Yk, Yr. reflexivity.
      * pose proof (r_sound n t x m related) as S. unfold is_sound in *. rewrite Yk, Yr. exact S.
      * pose proof (r_phase n t x m related) as F. unfold has_phase in *. rewrite Yk, Yr. exact F.
      * intros v e. rewrite Yc. apply Rc.
      * rewrite Ymin. exact Rm.
      * apply guard_of; assumption.
  - injection U as <- <- <-. pose proof (r_sound n t x m related) as S. unfold is_sound in S.
    assert (Others : exists m1, node_run t n c m m1 c /\ (forall l', keys m1 l' = keys_in_model y l') /\
      counter m1 = counter m /\ minimum_token m1 = minimum_token m /\ restart_guard m1 = restart_guard m).
    { unfold keys_in_model. rewrite Yk, Yr. pose proof (r_keys n t x m related) as K. unfold keys_in_model in K.
      destruct (d_lock x) as [[[[w|] h] e]|] eqn:L.
      - exists m. repeat split; auto; apply NoStep.
      - destruct (is_past now e) eqn:P.
        + destruct (expire_all c) as (m1 & R1 & K1 & C1 & M1 & P1 & G1). exists m1. repeat split; auto.
          intros l'. rewrite K1. destruct (is_live_now n t (keys m l')) eqn:Lw; [|reflexivity].
          apply is_live_now_iff in Lw. exfalso. eapply nothing_is_live; [|exact Lw]. unfold held. rewrite L, P. reflexivity.
        + exists m. repeat split; auto; [apply NoStep|]. intros l'. rewrite K.
          unfold readers, held in R. rewrite L, P in R. rewrite R. reflexivity.
      - exists m. repeat split; auto; apply NoStep. }
    destruct Others as (m1 & R1 & K1 & C1 & M1 & G1). exists m1. split; [exact R1|]. constructor.
    + exact K1.
    + unfold is_sound. rewrite Yk, Yr. destruct (d_lock x) as [[[[w|] h] e]|]; auto.
    + unfold has_phase. rewrite Yk, Yr. destruct (d_lock x) as [[[[w|] h] e]|]; exact I.
    + intros v e. rewrite Yc, C1. apply Rc.
    + rewrite M1, Ymin. exact Rm.
    + rewrite G1. apply guard_of; assumption.
Qed.

Theorem unlock_refines c l leaves rest i x' r :
  ended c l -> execute shares p x now i (UnlockOp l leaves rest) = (x', r) ->
  exists m', node_run t n c m m' c /\ is_related n t x' m'.
Proof.
  intros He H. cbn [execute] in H. destruct (shares l) eqn:Hr.
  - destruct (unshared now x l) as [[deleted k] r'] eqn:U. injection H as <- _.
    eapply unshared_refines; eauto.
  - injection H as <- _. pose proof (r_sound n t x m related) as S. pose proof (r_phase n t x m related) as F.
    destruct related as [A _ _ B D E]. destruct (is_writer now x l) eqn:Ei.
    + assert (L : exists h e, d_lock x = Some (Writer l, h, e) /\ is_past now e = false).
      { unfold is_writer, held in Ei. destruct (d_lock x) as [[[[l0|] h] e]|]; [| |discriminate];
          destruct (is_past now e) eqn:P; try discriminate. apply Nat.eqb_eq in Ei. subst l0. eauto. }
      destruct L as (h & e & L & P).
      assert (Hh : held now x = Some (Writer l, h, e)) by (unfold held; rewrite L, P; reflexivity).
      assert (K : keys m l <> None) by (rewrite A; unfold keys_in_model; rewrite L, Nat.eqb_refl; discriminate).
      match goal with |- exists m', _ /\ is_related _ _ ?x' m' =>
        exists {| keys := update (keys m) l (keys_in_model x' l); counter := counter m; minimum_token := minimum_token m;
          phase := phase m; restart_guard := restart_guard m |} end.
      split; [apply one_step, Unlock; assumption|].
      constructor; cbn [keys counter minimum_token phase restart_guard d_counter]; auto.
      * intros l'. match goal with |- update _ _ ?k _ = _ =>
          destruct (update_cases (keys m) l l' k) as [[<- ->]|[N ->]] end; [reflexivity|].
        rewrite A. unfold keys_in_model. cbn [d_lock]. rewrite L, Hh.
        destruct rest; [|]; destruct (Nat.eqb_spec l l'); congruence.
      * unfold is_sound. cbn [d_lock d_readers]. rewrite Hh. destruct rest; auto.
      * unfold has_phase. cbn [d_lock d_readers]. rewrite Hh. destruct rest; exact I.
    + exists m. split; [apply NoStep|]. constructor; auto.
Qed.

Theorem register_refines c i x' r :
  meets_A8 c n t x RegisterOp -> execute shares p x now i RegisterOp = (x', r) ->
  exists m', node_run t n c m m' c /\ is_related n t x' m'.
Proof.
  intros A8 H. cbn [execute] in H. cbn [meets_A8] in A8.
  destruct (has_metadata_of x (d_incarnation x)) eqn:R; injection H as <- _.
  - exists m. split; [apply NoStep|assumption].
  - eexists. split; [apply one_step, Register, A8; reflexivity|]. destruct related as [A S F B D E].
    constructor; cbn [keys counter minimum_token phase restart_guard d_counter minimum_token_of d_metadata d_incarnation]; auto.
    cbn. split; [lia|]. left. reflexivity.
Qed.

Theorem sweep_refines c i x' r :
  execute shares p x now i SweepOp = (x', r) ->
  exists m', node_run t n c m m' c /\ is_related n t x' m'.
Proof.
  intros H. cbn [execute] in H. injection H as <- _.
  destruct (expire_all c) as (m1 & R1 & K1 & C1 & M1 & P1 & G1). exists m1. split; [exact R1|].
  pose proof (r_keys n t x m related) as A. pose proof (r_sound n t x m related) as S.
  pose proof (r_phase n t x m related) as F. pose proof (r_counter n t x m related) as B.
  pose proof (r_minimum n t x m related) as D. pose proof (r_guard n t x m related) as E.
  constructor; cbn [d_lock d_readers d_counter].
  - intros l. unfold keys_in_model. cbn [d_lock d_readers].
    destruct (held now x) as [[[w h] e]|] eqn:Hh.
    + destruct w as [w|].
      * rewrite K1. unfold held in Hh. destruct (d_lock x) as [[[w' h'] e']|] eqn:L; [|discriminate].
        destruct (is_past now e') eqn:P; [discriminate|]. injection Hh as -> -> ->.
        rewrite A. unfold keys_in_model. rewrite L. destruct (Nat.eqb w l); [|reflexivity].
        destruct (is_live_now n t (Some (end_in_model e))) eqn:Lw; [reflexivity|].
        apply live_iff, is_live_now_iff in P. congruence.
      * destruct (readers now x) as [[[ph ep] ends]|] eqn:R; [exact (live_keys_of_readers m1 K1 ph ep ends l R)|].
        rewrite K1, A. unfold keys_in_model, readers, held in *. destruct (d_lock x) as [[[w' h'] e']|]; [|discriminate].
        destruct (is_past now e'); [discriminate|]. injection Hh as -> -> ->. rewrite R. reflexivity.
    + rewrite K1. destruct (is_live_now n t (keys m l)) eqn:Lw; [|reflexivity].
      apply is_live_now_iff in Lw. destruct (nothing_is_live l Hh Lw).
  - unfold is_sound in *. cbn [d_lock d_readers]. destruct (held now x) as [[[w h] e]|] eqn:Hh; [|exact I].
    unfold held in Hh. destruct (d_lock x) as [[[w' h'] e']|] eqn:L; [|discriminate].
    destruct (is_past now e') eqn:P; [discriminate|]. injection Hh as -> -> ->. destruct w as [w|]; [exact S|].
    unfold readers, held. rewrite L, P. destruct (d_readers x) as [[[ph ep] ends]|]; [|exact I].
    destruct S as (S1 & (w & S2) & S3 & S4). split; [apply no_dup_filter; exact S1|]. split; [|split; [|exact S4]].
    + exists w. rewrite end_of_live, S2, P by exact S1. reflexivity.
    + intros l e0. rewrite end_of_live by exact S1. destruct (end_of l ends) as [e1|] eqn:E1; [|discriminate].
      destruct (is_past now e1); [discriminate|]. intros [= <-]. exact (S3 l e1 E1).
  - unfold has_phase in *. cbn [d_lock d_readers]. unfold readers, held in *. rewrite P1.
    destruct (d_lock x) as [[[[w|] h] e]|]; [| |exact I]; destruct (is_past now e); try exact I.
    destruct (d_readers x) as [[[ph ep] ends]|]; exact F.
  - intros v e. unfold found. rewrite C1. destruct (d_counter x) as [[v' e']|]; [|discriminate].
    destruct (is_past now e'); [discriminate|]. intros [= <- <-]. eapply B. reflexivity.
  - rewrite M1. exact D.
  - rewrite G1. unfold guard_is_related in *. destruct (restart_guard m) as [|e|e]; [exact I|exact E|].
    destruct E as [He [E|E]]; split; auto. cbn [d_quarantine]. unfold quarantine. rewrite E.
    destruct (is_past now (node_time n e + p_lasts p)) eqn:P; [|auto]. right.
    exists t. split; [lia|]. unfold is_past in P. apply Z.ltb_lt in P. unfold node_time in P.
    pose proof (floor_gt (node_clock C n t) (node_clock C n e) (p_lasts p)). lia.
Qed.

End OneNode.

Notation shares := (reads C).

(** A transfer is an unlock of the earlier lease and a lock. *)
Theorem transfer_refines n t x m c l a ttl hint from i x' v :
  is_related n t x m ->
  attempts c l = Some a -> attempt_ttl a <= ttl * grain -> ended c from ->
  match attempt_proof a with Some T => hint = T + 1 | None => True end ->
  (has_metadata_of x i = true -> i = d_incarnation x) ->
  meets_A8 c n t x (TransferOp l ttl hint from (attempt_proof a)) ->
  execute shares p x (node_time n t) i (TransferOp l ttl hint from (attempt_proof a)) = (x', Granted v) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)) /\
    is_related n t x' m'.
Proof.
  intros R Ha Httl He Hh A4 [A8 Hcap] H. cbn [execute] in H.
  destruct (abstains (node_time n t) x i) eqn:Ab; [discriminate|].
  pose proof (voter_may_vote n t x m R i A4 Ab) as Hvote.
  destruct (has_tombstone (node_time n t) x l || _); [discriminate|].
  set (is_given := is_writer (node_time n t) x from && negb (Nat.eqb from l)) in *.
  set (x1 := if is_given then with_lock x None (d_readers x) (d_counter x) else x) in *.
  set (is_refuted := match attempt_proof a with
                     | Some T => negb (is_ours shares (node_time n t) x l) && negb (is_given && proves x (node_time n t) T)
                     | None => false end) in *.
  destruct (is_refuted && negb (is_of_another shares (node_time n t) x1 l)) eqn:Er; [discriminate|].
  destruct (grant shares p x1 (node_time n t) l ttl hint) as [x2 r] eqn:G. injection H as <- ->.
  assert (Er' : is_refuted = false).
  { destruct is_refuted; [|reflexivity]. cbn [andb] in Er. apply negb_false_iff in Er. unfold grant in G.
    rewrite Er in G. discriminate. }
  assert (V : value (node_time n t) x1 = value (node_time n t) x) by (unfold x1; destruct is_given; reflexivity).
  assert (M : minimum_token_of x1 = minimum_token_of x) by (unfold x1; destruct is_given; reflexivity).
  assert (U : exists m1, node_run t n c m m1 c /\ is_related n t x1 m1 /\ may_vote C n m1 t).
  { unfold x1. destruct is_given eqn:Eg; [|exists m; split; [apply NoStep|auto]].
    apply andb_true_iff in Eg. destruct Eg as [Ei Ne].
    assert (L : exists h e, d_lock x = Some (Writer from, h, e)).
    { unfold is_writer, held in Ei. destruct (d_lock x) as [[[[l0|] h] e]|]; [| |discriminate];
        destruct (is_past (node_time n t) e); try discriminate. apply Nat.eqb_eq in Ei. subst l0. eauto. }
    destruct L as (h & e & L). destruct R as [A S F B D E].
    exists {| keys := update (keys m) from None; counter := counter m; minimum_token := minimum_token m;
      phase := phase m; restart_guard := restart_guard m |}.
    split; [apply one_step, Unlock; [exact He|rewrite A; unfold keys_in_model; rewrite L, Nat.eqb_refl; discriminate]|].
    split; [|exact Hvote]. constructor; cbn [keys counter minimum_token phase restart_guard]; auto; try exact I.
    intros l'. unfold keys_in_model. cbn [d_lock with_lock].
    destruct (update_cases (keys m) from l' None) as [[_ ->]|[Ne' ->]]; [reflexivity|]. rewrite A. unfold keys_in_model.
    rewrite L. destruct (Nat.eqb_spec from l'); congruence. }
  destruct U as (m1 & U1 & U2 & U3).
  destruct (grant_refines n t x1 m1 U2 c l a ttl hint x2 v Ha Httl) as (m' & G1 & G2); [|exact U3|rewrite V; exact A8|exact G|].
  - unfold shows_proof. unfold is_refuted in Er'. destruct (attempt_proof a) as [T|]; [|exact I].
    apply andb_false_iff in Er'. destruct Er' as [E|E]; apply negb_false_iff in E.
    + left. unfold x1. destruct is_given eqn:Eg; [|exact E]. exfalso. unfold is_given in Eg.
      apply andb_true_iff in Eg. destruct Eg as [Ei Ne]. apply negb_true_iff, Nat.eqb_neq in Ne. apply Ne.
      unfold is_ours, is_reader, readers, is_writer in *.
      destruct (held (node_time n t) x) as [[[[l0|] h] e]|]; [|discriminate|discriminate].
      destruct (shares l); [discriminate|]. apply Nat.eqb_eq in E, Ei. congruence.
    + right. apply andb_true_iff in E. destruct E as [Eg E]. split; [|split; [|split; [exact Hh|exact Hcap]]].
      * unfold x1. rewrite Eg. reflexivity.
      * unfold proves in *. rewrite V, M. exact E.
  - exists m'. split; [|exact G2]. exact (run_trans _ _ _ _ _ _ _ _ U1 G1).
Qed.

(** Every operation that a client may have sent. *)
Theorem execution_refines n t x m c o r c' i x' :
  is_related n t x m -> exchange c n t o r c' ->
  (has_metadata_of x i = true -> i = d_incarnation x) -> can_count_on n t x -> meets_A8 c n t x o ->
  execute shares p x (node_time n t) i o = (x', r) ->
  exists m', node_run t n c m m' c' /\ is_related n t x' m'.
Proof.
  intros related [l a ttl hint r' H1 H2 H3|l a ttl hint from r' H1 H2 H3 H4|l T r' H1|q le holds ttl r' H1 H2 H3|l leaves rest r' H1|r'|r'] A4 Hmax A8 H.
  - destruct r'; try (eapply lock_refines; eassumption);
      (exists m; split; [apply NoStep|]; replace x' with x; [exact related|];
       cbn [execute] in H; unfold grant in H; repeat match type of H with
       | context [if ?b then _ else _] => destruct b
       | context [let (_, _) := ?e in _] => destruct e
       end; congruence).
  - destruct r'; try (eapply transfer_refines; eassumption);
      (exists m; split; [apply NoStep|]; replace x' with x; [exact related|];
       cbn [execute] in H; repeat match type of H with
       | (if ?b then _ else _) = _ => destruct b; [congruence|]
       | (let (_, _) := ?e in _) = _ => destruct e as [x2 r2]
       end; destruct r2; congruence).
  - destruct r'; try (eapply write_back_refines; eassumption);
      (exists m; split; [apply NoStep|]; replace x' with x; [exact related|];
       cbn [execute] in H; repeat match type of H with
       | context [if ?b then _ else _] => destruct b
       end; congruence).
  - eapply renew_refines; try eassumption. intros _. exact Hmax.
  - eapply unlock_refines; eassumption.
  - eapply register_refines; eassumption.
  - eapply sweep_refines; eassumption.
Qed.

(** Restarts and flushes are replacements of the data: afterwards the metadata do not name the present incarnation. *)
Theorem a_flush_loses_the_metadata x t i x' r :
  execute (reads C) p x t i FlushOp = (x', r) -> has_metadata_of x' (d_incarnation x') = false.
Proof. intros H. cbn in H. injection H as <- _. reflexivity. Qed.

Theorem a_restart_changes_the_incarnation x t i i' x' r :
  has_metadata_of x i' = false -> execute (reads C) p x t i (RestartOp i') = (x', r) ->
  has_metadata_of x' (d_incarnation x') = false.
Proof. intros M H. cbn in H. injection H as <- _. exact M. Qed.

End Refinement.
