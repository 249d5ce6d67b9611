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

(** No lease only reads. *)
Hypothesis all_write : forall l, reads C l = false.

(** The node's times of a quarantine are rounded up (src/node/ttl.rs). *)
Hypothesis lasts_is_rounded_up : quarantine_lasts C <= p_lasts p * grain.
Hypothesis renewals_after_is_rounded_up : renewals_after C <= p_renewals_after p * grain.

(** The clocks of nodes are between 1970 and 2255, so that a missing counter is a valid number. *)
Hypothesis time_is_usual : forall n t, 0 <= node_time n t /\ start_of (node_time n t) <= largest_counter.

(** * The relation between an executable node and a node of the model *)

(** The end of a key in the model. The executable node has the key for the whole unit of time at its end. *)
Definition end_in_model (e : Z) : Z := e * grain + (grain - 1).

Definition keys_in_model (x : node_data) (l : lease_id) : option Z :=
  match d_lock x with Some (l', _, e) => if Nat.eqb l' l then Some (end_in_model e) else None | None => None end.

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

Lemma conflict_iff a b : conflict C a b <-> a <> b.
Proof. unfold conflict. rewrite !all_write. tauto. Qed.

Section OneNode.
Variables (n : node) (t : Z) (x : node_data) (m : node_state).
Hypothesis related : is_related n t x m.

Lemma ours_is_live l : is_ours (node_time n t) x l = true -> is_live C n t (keys m l).
Proof.
  unfold is_ours, held. intros H. rewrite (r_keys n t x m related). unfold keys_in_model.
  destruct (d_lock x) as [[[l' h] e]|]; [|discriminate].
  destruct (is_past (node_time n t) e) eqn:P; [discriminate|]. rewrite H. apply live_iff. exact P.
Qed.

Lemma free_is_free l : is_of_another (node_time n t) x l = false -> is_free_for C n t m l.
Proof.
  unfold is_of_another, held. intros H l' Hc. rewrite (r_keys n t x m related). unfold keys_in_model.
  apply conflict_iff in Hc. destruct (d_lock x) as [[[l0 h] e]|]; [|intros []].
  destruct (Nat.eqb_spec l0 l') as [->|]; [|intros []]. rewrite live_iff. intros P. rewrite P in H.
  apply negb_false_iff, Nat.eqb_eq in H. congruence.
Qed.

(** The key that the executable node writes. *)
Lemma written_is_written l holds ttl ttl' c :
  is_of_another (node_time n t) x l = false -> ttl' <= ttl * grain ->
  writes_key C n t m l ttl'
    (keys_in_model (with_lock_and_counter x (written (node_time n t) x l holds ttl) c)).
Proof.
  intros H Httl. unfold writes_key, keys_in_model, with_lock_and_counter, written. cbn [d_lock]. split; [|split].
  - rewrite Nat.eqb_refl. eexists. split; [reflexivity|]. unfold is_of_another, held in *.
    assert (F : node_clock C n t + ttl' <= end_in_model (node_time n t + ttl)).
    { pose proof (proj1 (floor_le (node_clock C n t) (node_time n t)) (Z.le_refl _)). unfold end_in_model in *. nia. }
    assert (Mono : forall a b, a <= b -> end_in_model a <= end_in_model b) by (unfold end_in_model; intros; nia).
    rewrite (r_keys n t x m related). unfold keys_in_model.
    destruct (d_lock x) as [[[l' h] e]|].
    + destruct (is_past (node_time n t) e) eqn:P.
      * split; [exact F|]. destruct (Nat.eqb l' l); [|discriminate]. intros e0 [= <-] L. apply live_iff in L. congruence.
      * split.
        -- specialize (Mono (node_time n t + ttl) (Z.max e (node_time n t + ttl))). lia.
        -- destruct (Nat.eqb l' l); [|discriminate]. intros e0 [= <-] _. apply Mono. lia.
    + split; [exact F|]. discriminate.
  - intros l' Hc. apply conflict_iff in Hc. destruct (Nat.eqb_spec l l'); congruence.
  - intros l' Hne Hc. exfalso. apply Hc, conflict_iff. congruence.
Qed.

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
Lemma with_counter c :
  (value (node_time n t) x = None -> is_above_confirmed C c n (start_of (node_time n t))) ->
  exists m1, (m1 = m \/ node_step C t c n m m1 c) /\
    counter m1 = value_or (value (node_time n t) x) (start_of (node_time n t)) /\
    keys m1 = keys m /\ minimum_token m1 = minimum_token m /\ phase m1 = phase m /\ restart_guard m1 = restart_guard m.
Proof.
  intros A8. destruct (value (node_time n t) x) as [v|] eqn:V; cbn [value_or].
  - exists m. split; [auto|]. split; [|auto].
    unfold value, found in V. destruct (d_counter x) as [[v' e]|] eqn:D; [|discriminate].
    destruct (is_past (node_time n t) e); [discriminate|]. injection V as <-. exact (r_counter n t x m related _ _ D).
  - eexists. split; [right; apply LoseCounter; exact (A8 eq_refl)|]. cbn. auto.
Qed.

Lemma run_after m1 m' c c' :
  (m1 = m \/ node_step C t c n m m1 c) -> node_step C t c n m1 m' c' -> node_run t n c m m' c'.
Proof. intros [->|H] H'; [|eapply Steps; [exact H|]]; apply one_step; exact H'. Qed.

Lemma stored_value v a e : stored (node_time n t) x p v = Some (a, e) -> a = v.
Proof. unfold stored. destruct (found (node_time n t) x) as [[u f]|]; intros [= <- _]; reflexivity. Qed.

(** ** Theorems: each operation of the executable node *)

(** What the proof of a redemption needs. *)
Definition shows_proof (l : lease_id) (hint : Z) (proof : option Z) : Prop :=
  match proof with
  | None => True
  | Some T => is_ours (node_time n t) x l = true \/
      proves x (node_time n t) T = true /\ hint = T + 1 /\
      (counters_are_kept C -> T <= (node_time n t / 1000 + 3600) * 1000000)
  end.

Lemma grant_refines c l a ttl hint x' v :
  attempts c l = Some a -> attempt_ttl a <= ttl * grain -> shows_proof l hint (attempt_proof a) ->
  may_vote C n m t ->
  (value (node_time n t) x = None -> is_above_confirmed C c n (start_of (node_time n t))) ->
  grant p x (node_time n t) l ttl hint = (x', Granted v) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)) /\
    is_related n t x' m'.
Proof.
  intros Ha Httl Hp Hvote A8 H. destruct (time_is_usual n t) as [T0 _]. unfold grant in H.
  destruct (is_of_another (node_time n t) x l) eqn:Eo; [discriminate|].
  destruct (vote_for (node_time n t) x l hint) as [v' is_repeated] eqn:Ev.
  destruct (negb is_repeated && (largest_counter <? v')); [discriminate|]. injection H as <- ->.
  destruct (with_counter c A8) as (m1 & Hm1 & Hc & Hk & Hmin & Hph & Hg).
  assert (S0 : 0 <= start_of (node_time n t)) by
    (unfold start_of; pose proof (Z.div_pos (node_time n t) 1000); lia).
  assert (Hv : is_vote C n t m1 l v /\ counter m1 <= v /\ (value_or (value (node_time n t) x) 0) <= v).
  { unfold is_vote. rewrite Hk, Hmin, Hc, (r_minimum n t x m related). unfold vote_for in Ev.
    destruct (value (node_time n t) x) as [u|]; cbn [value_or] in *.
    - destruct (is_ours (node_time n t) x l) eqn:Ei; cbn [andb] in Ev.
      + destruct (minimum_token_of x <=? u) eqn:Em; injection Ev as <- <-.
        * apply Z.leb_le in Em. split; [|lia]. right. left.
          split; [apply all_write|]. split; [apply ours_is_live; exact Ei|]. lia.
        * split; [left|]; lia.
      + injection Ev as <- <-. split; [left|]; lia.
    - injection Ev as <- <-. split; [left|]; lia. }
  destruct Hv as (Hv & Hcv & Hv0).
  exists {| keys := keys_in_model (with_lock_and_counter x (written (node_time n t) x l
      (if is_repeated then match held (node_time n t) x with Some (_, h, _) => h | None => 1 end else 1) ttl)
      (stored (node_time n t) x p (Z.max (value_or (value (node_time n t) x) 0) v)));
    counter := Z.max (counter m1) v; minimum_token := minimum_token m1; phase := phase m1;
    restart_guard := restart_guard m1 |}.
  split.
  - eapply run_after; [exact Hm1|]. apply Lock with (a := a); auto.
    + unfold may_vote. rewrite Hg. exact Hvote.
    + unfold is_free_for. rewrite Hk. apply free_is_free. exact Eo.
    + unfold meets_proof, shows_proof in *. destruct (attempt_proof a) as [T|]; [|exact I].
      rewrite Hk, Hmin, Hc, (r_minimum n t x m related).
      destruct Hp as [Hp|(Hp & Hh & Hcap)]; [left; apply ours_is_live; exact Hp|].
      unfold proves in Hp. apply andb_true_iff in Hp. destruct Hp as [P1 P2]. apply Z.leb_le in P1.
      unfold vote_for, hinted in Ev. destruct (value (node_time n t) x) as [u|]; [|discriminate]. apply Z.leb_le in P2.
      cbn [value_or] in *. destruct (is_ours (node_time n t) x l) eqn:Ei; [left; apply ours_is_live; exact Ei|right].
      cbn [andb] in Ev. injection Ev as <- _. split; [lia|]. split; [lia|]. intros K. specialize (Hcap K). lia.
    + unfold writes_key. rewrite Hk. apply written_is_written; assumption.
    + left. split; [reflexivity|]. rewrite all_write. discriminate.
  - constructor; cbn [keys counter minimum_token restart_guard d_counter with_lock_and_counter].
    + reflexivity.
    + intros u e E. apply stored_value in E. lia.
    + rewrite Hmin. apply (r_minimum n t x m related).
    + rewrite Hg. exact (r_guard n t x m related).
Qed.

Theorem lock_refines c l a ttl hint i x' v :
  attempts c l = Some a -> attempt_proof a = None -> attempt_ttl a <= ttl * grain ->
  (has_metadata_of x i = true -> i = d_incarnation x) -> meets_A8 c n t x (LockOp l ttl hint) ->
  execute p x (node_time n t) i (LockOp l ttl hint) = (x', Granted v) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)) /\
    is_related n t x' m'.
Proof.
  intros Ha Hp Httl A4 A8 H. cbn [execute] in H.
  destruct (abstains (node_time n t) x i) eqn:Ab; [discriminate|].
  destruct (has_tombstone (node_time n t) x l); [discriminate|].
  eapply grant_refines; try eassumption.
  - rewrite Hp. exact I.
  - exact (voter_may_vote i A4 Ab).
Qed.

Theorem write_back_refines c l T i x' :
  tokens c l = Some T ->
  (has_metadata_of x i = true -> i = d_incarnation x) -> meets_A8 c n t x (WriteBackOp l T) ->
  execute p x (node_time n t) i (WriteBackOp l T) = (x', WrittenBack) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation c l T n)) /\ is_related n t x' m'.
Proof.
  intros Ht A4 A8 H. cbn [execute] in H.
  destruct (abstains (node_time n t) x i) eqn:Ab; [discriminate|].
  destruct (is_ours (node_time n t) x l) eqn:Ei; cbn [andb] in H; [|discriminate].
  destruct (minimum_token_of x <=? T) eqn:Em; cbn [andb] in H; [|discriminate].
  destruct (value_or (value (node_time n t) x) (start_of (node_time n t)) <=? T) eqn:El; [|discriminate].
  injection H as <-. apply Z.leb_le in Em, El.
  destruct (with_counter c A8) as (m1 & Hm1 & Hc & Hk & Hmin & Hph & Hg).
  exists {| keys := keys m1; counter := Z.max (counter m1) T; minimum_token := minimum_token m1; phase := phase m1;
    restart_guard := restart_guard m1 |}.
  split.
  - eapply run_after; [exact Hm1|]. apply WriteBack; auto.
    + unfold may_vote. rewrite Hg. apply (voter_may_vote i A4 Ab).
    + rewrite Hk. apply ours_is_live. exact Ei.
    + unfold bound_of_write_back. rewrite all_write, Hc. exact El.
    + rewrite Hmin, (r_minimum n t x m related). exact Em.
  - constructor; cbn [keys counter minimum_token restart_guard d_counter with_lock_and_counter].
    + rewrite Hk. exact (r_keys n t x m related).
    + intros u e E. apply stored_value in E. rewrite Hc. lia.
    + rewrite Hmin. apply (r_minimum n t x m related).
    + rewrite Hg. exact (r_guard n t x m related).
Qed.

Theorem renew_refines c q le holds ttl i x' r :
  In q (renewals c) -> leases c (round_lease q) = Some le -> round_ttl q <= ttl * grain ->
  (has_metadata_of x i = true -> i = d_incarnation x) ->
  meets_A8 c n t x (RenewOp (round_lease q) holds ttl (token le)) ->
  execute p x (node_time n t) i (RenewOp (round_lease q) holds ttl (token le)) = (x', r) ->
  exists m', node_run t n c m m' match r with Renewed _ => add_answer c q n t | _ => c end /\ is_related n t x' m'.
Proof.
  intros Hq Hle Httl A4 A8 H. destruct (time_is_usual n t) as [_ T1]. cbn [execute] in H.
  destruct (has_tombstone (node_time n t) x (round_lease q)); [injection H as <- <-; exists m; split; [apply NoStep|assumption]|].
  destruct (is_of_another (node_time n t) x (round_lease q)) eqn:Eo;
    [injection H as <- <-; exists m; split; [apply NoStep|assumption]|].
  destruct (with_counter c A8) as (m1 & Hm1 & Hc & Hk & Hmin & Hph & Hg).
  injection H as <- <-.
  match goal with |- context [stored _ _ _ ?u] => set (v := u) in * end.
  set (ks := keys_in_model (with_lock_and_counter x (written (node_time n t) x (round_lease q) holds ttl)
    (stored (node_time n t) x p v))).
  assert (Hv : counter m1 <= v).
  { unfold v. rewrite Hc. destruct (value (node_time n t) x); cbn [value_or]; lia. }
  assert (Hf : is_free_for C n t m1 (round_lease q)) by
    (unfold is_free_for; rewrite Hk; apply free_is_free; exact Eo).
  assert (Hw : writes_key C n t m1 (round_lease q) (round_ttl q) ks) by
    (unfold writes_key; rewrite Hk; apply written_is_written; assumption).
  assert (Hp : is_phase_of_renewal C n t c m1 (round_lease q) (phase m1)) by
    (left; split; [reflexivity|rewrite all_write; discriminate]).
  exists {| keys := ks; counter := v; minimum_token := minimum_token m1; phase := phase m1;
    restart_guard := restart_guard m1 |}.
  split.
  - eapply run_after; [exact Hm1|]. destruct (abstains_from_renewals (node_time n t) x i) eqn:Ab.
    + eapply RenewInQuarantine; eassumption.
    + apply Renew; auto. unfold may_count. rewrite Hg. apply (renewal_may_count i A4 Ab).
  - constructor; cbn [keys counter minimum_token restart_guard d_counter with_lock_and_counter].
    + reflexivity.
    + intros u e E. apply stored_value in E. lia.
    + rewrite Hmin. apply (r_minimum n t x m related).
    + rewrite Hg. exact (r_guard n t x m related).
Qed.

Theorem unlock_refines c l leaves rest i x' r :
  ended c l -> execute p x (node_time n t) i (UnlockOp l leaves rest) = (x', r) ->
  exists m', node_run t n c m m' c /\ is_related n t x' m'.
Proof.
  intros He H. cbn [execute] in H. injection H as <- _.
  destruct (is_ours (node_time n t) x l) eqn:Ei.
  - assert (K : keys m l <> None) by
      (pose proof (ours_is_live l Ei); destruct (keys m l); [discriminate|tauto]).
    match goal with |- exists m', _ /\ is_related _ _ ?x' m' =>
      exists {| keys := update (keys m) l (keys_in_model x' l); counter := counter m; minimum_token := minimum_token m;
        phase := phase m; restart_guard := restart_guard m |} end.
    split; [apply one_step, Unlock; assumption|]. destruct related as [A B D E]. constructor; cbn [keys counter minimum_token restart_guard d_counter]; auto.
    intros l'. match goal with |- update _ _ ?k _ = _ =>
      destruct (update_cases (keys m) l l' k) as [[<- ->]|[N ->]] end; [reflexivity|].
    rewrite A. unfold keys_in_model. cbn [d_lock]. unfold is_ours, held in *.
    destruct (d_lock x) as [[[l0 h] e]|]; [|discriminate].
    destruct (is_past (node_time n t) e); [discriminate|]. apply Nat.eqb_eq in Ei. subst l0.
    destruct rest; [|]; destruct (Nat.eqb_spec l l'); congruence.
  - exists m. split; [apply NoStep|]. destruct related as [A B D E]. constructor; auto.
Qed.

Theorem register_refines c i x' r :
  meets_A8 c n t x RegisterOp -> execute p x (node_time n t) i RegisterOp = (x', r) ->
  exists m', node_run t n c m m' c /\ is_related n t x' m'.
Proof.
  intros A8 H. cbn [execute] in H. cbn [meets_A8] in A8.
  destruct (has_metadata_of x (d_incarnation x)) eqn:R; injection H as <- _.
  - exists m. split; [apply NoStep|assumption].
  - eexists. split; [apply one_step, Register, A8; reflexivity|]. destruct related as [A B D E].
    constructor; cbn [keys counter minimum_token restart_guard d_counter minimum_token_of d_metadata d_incarnation]; auto.
    cbn. split; [lia|]. left. reflexivity.
Qed.

Theorem sweep_refines c i x' r :
  execute p x (node_time n t) i SweepOp = (x', r) ->
  exists m', node_run t n c m m' c /\ is_related n t x' m'.
Proof.
  intros H. cbn [execute] in H. injection H as <- _. destruct related as [A B D E].
  assert (G : guard_is_related n t {| d_lock := held (node_time n t) x; d_counter := found (node_time n t) x;
      d_tombstones := filter (fun g => negb (is_past (node_time n t) (snd g))) (d_tombstones x);
      d_metadata := d_metadata x; d_quarantine := quarantine (node_time n t) x; d_incarnation := d_incarnation x |}
      (restart_guard m)).
  { unfold guard_is_related in *. destruct (restart_guard m) as [|e|e]; [exact I|exact E|].
    destruct E as [He [E|E]]; split; auto. cbn [d_quarantine]. unfold quarantine. rewrite E.
    destruct (is_past (node_time n t) (node_time n e + p_lasts p)) eqn:P; [|auto]. right.
    exists t. split; [lia|]. unfold is_past in P. apply Z.ltb_lt in P. unfold node_time in P.
    pose proof (floor_gt (node_clock C n t) (node_clock C n e) (p_lasts p)). lia. }
  assert (F : forall v e, found (node_time n t) x = Some (v, e) -> counter m = v).
  { intros v e. unfold found. destruct (d_counter x) as [[v' e']|]; [|discriminate].
    destruct (is_past (node_time n t) e'); [discriminate|]. intros [= <- <-]. eapply B. reflexivity. }
  destruct (d_lock x) as [[[l h] e]|] eqn:L; [destruct (is_past (node_time n t) e) eqn:P|].
  - eexists. split.
    + apply one_step, (Expire _ _ _ _ _ l). rewrite A. unfold keys_in_model. rewrite L, Nat.eqb_refl, live_iff. congruence.
    + constructor; cbn [keys counter minimum_token restart_guard d_counter]; auto.
      intros l'. unfold keys_in_model, held. cbn [d_lock]. rewrite L, P.
      destruct (update_cases (keys m) l l' None) as [[_ ->]|[N ->]]; [reflexivity|].
      rewrite A. unfold keys_in_model. rewrite L. destruct (Nat.eqb_spec l l'); congruence.
  - exists m. split; [apply NoStep|]. constructor; auto.
    intros l'. rewrite A. unfold keys_in_model, held. cbn [d_lock]. rewrite L, P. reflexivity.
  - exists m. split; [apply NoStep|]. constructor; auto.
    intros l'. rewrite A. unfold keys_in_model, held. cbn [d_lock]. rewrite L. reflexivity.
Qed.

End OneNode.

(** A transfer is an unlock of the earlier lease and a lock. *)
Theorem transfer_refines n t x m c l a ttl hint from i x' v :
  is_related n t x m ->
  attempts c l = Some a -> attempt_ttl a <= ttl * grain -> ended c from ->
  match attempt_proof a with Some T => hint = T + 1 | None => True end ->
  (has_metadata_of x i = true -> i = d_incarnation x) ->
  meets_A8 c n t x (TransferOp l ttl hint from (attempt_proof a)) ->
  execute p x (node_time n t) i (TransferOp l ttl hint from (attempt_proof a)) = (x', Granted v) ->
  exists m', node_run t n c m m' (unless_granted c l (add_confirmation (add_answer c (lock_round l a) n t) l v n)) /\
    is_related n t x' m'.
Proof.
  intros R Ha Httl He Hh A4 [A8 Hcap] H. cbn [execute] in H.
  destruct (abstains (node_time n t) x i) eqn:Ab; [discriminate|].
  pose proof (voter_may_vote n t x m R i A4 Ab) as Hvote.
  destruct (has_tombstone (node_time n t) x l || _); [discriminate|].
  set (is_given := is_ours (node_time n t) x from && negb (Nat.eqb from l)) in *.
  set (x1 := if is_given then with_lock_and_counter x None (d_counter x) else x) in *.
  set (is_refuted := match attempt_proof a with
                     | Some T => negb (is_ours (node_time n t) x l) && negb (is_given && proves x (node_time n t) T)
                     | None => false end) in *.
  destruct (is_refuted && negb (is_of_another (node_time n t) x1 l)) eqn:Er; [discriminate|].
  destruct (grant p x1 (node_time n t) l ttl hint) as [x2 r] eqn:G. injection H as <- ->.
  assert (Er' : is_refuted = false).
  { destruct is_refuted; [|reflexivity]. cbn [andb] in Er. apply negb_false_iff in Er. unfold grant in G.
    rewrite Er in G. discriminate. }
  assert (V : value (node_time n t) x1 = value (node_time n t) x) by (unfold x1; destruct is_given; reflexivity).
  assert (M : minimum_token_of x1 = minimum_token_of x) by (unfold x1; destruct is_given; reflexivity).
  assert (U : exists m1, node_run t n c m m1 c /\ is_related n t x1 m1 /\ may_vote C n m1 t).
  { unfold x1. destruct is_given eqn:Eg; [|exists m; split; [apply NoStep|auto]].
    apply andb_true_iff in Eg. destruct Eg as [Ei Ne].
    exists {| keys := update (keys m) from None; counter := counter m; minimum_token := minimum_token m;
      phase := phase m; restart_guard := restart_guard m |}.
    pose proof (ours_is_live n t x m R from Ei) as L.
    split; [apply one_step, Unlock; [exact He|destruct (keys m from); [discriminate|destruct L]]|].
    split; [|exact Hvote]. destruct R as [A B D E]. constructor; cbn [keys counter minimum_token restart_guard]; auto.
    intros l'. unfold keys_in_model. cbn [d_lock with_lock_and_counter].
    destruct (update_cases (keys m) from l' None) as [[_ ->]|[Ne' ->]]; [reflexivity|]. rewrite A. unfold keys_in_model.
    unfold is_ours, held in Ei. destruct (d_lock x) as [[[l0 h] e]|]; [|reflexivity].
    destruct (is_past (node_time n t) e); [discriminate|]. apply Nat.eqb_eq in Ei. subst l0.
    destruct (Nat.eqb_spec from l'); congruence. }
  destruct U as (m1 & U1 & U2 & U3).
  destruct (grant_refines n t x1 m1 U2 c l a ttl hint x2 v Ha Httl) as (m' & G1 & G2); [|exact U3|rewrite V; exact A8|exact G|].
  - unfold shows_proof. unfold is_refuted in Er'. destruct (attempt_proof a) as [T|]; [|exact I].
    apply andb_false_iff in Er'. destruct Er' as [E|E]; apply negb_false_iff in E.
    + left. unfold x1. destruct is_given eqn:Eg; [|exact E]. exfalso. unfold is_given in Eg.
      apply andb_true_iff in Eg. destruct Eg as [Ei Ne]. apply negb_true_iff, Nat.eqb_neq in Ne. apply Ne.
      unfold is_ours in *. destruct (held (node_time n t) x) as [[[l0 h] e]|]; [|discriminate].
      apply Nat.eqb_eq in E, Ei. congruence.
    + right. apply andb_true_iff in E. destruct E as [_ E]. split; [|split; [exact Hh|exact Hcap]].
      unfold proves in *. rewrite V, M. exact E.
  - exists m'. split; [|exact G2]. exact (run_trans _ _ _ _ _ _ _ _ U1 G1).
Qed.

(** Every operation that a client may have sent. *)
Theorem execution_refines n t x m c o r c' i x' :
  is_related n t x m -> exchange c n t o r c' ->
  (has_metadata_of x i = true -> i = d_incarnation x) -> meets_A8 c n t x o ->
  execute p x (node_time n t) i o = (x', r) ->
  exists m', node_run t n c m m' c' /\ is_related n t x' m'.
Proof.
  intros related [l a ttl hint r' H1 H2 H3|l a ttl hint from r' H1 H2 H3 H4|l T r' H1|q le holds ttl r' H1 H2 H3|l leaves rest r' H1|r'|r'] A4 A8 H.
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
  - eapply renew_refines; eassumption.
  - eapply unlock_refines; eassumption.
  - eapply register_refines; eassumption.
  - eapply sweep_refines; eassumption.
Qed.

(** Restarts and flushes are replacements of the data: afterwards the metadata do not name the present incarnation. *)
Theorem a_flush_loses_the_metadata x t i x' r :
  execute p x t i FlushOp = (x', r) -> has_metadata_of x' (d_incarnation x') = false.
Proof. intros H. cbn in H. injection H as <- _. reflexivity. Qed.

Theorem a_restart_changes_the_incarnation x t i i' x' r :
  has_metadata_of x i' = false -> execute p x t i (RestartOp i') = (x', r) ->
  has_metadata_of x' (d_incarnation x') = false.
Proof. intros M H. cbn in H. injection H as <- _. exact M. Qed.

End Refinement.
