(** The joining theorem: every run of executable nodes with the clients of the model is a run of the model. Therefore the
    promises hold for executable nodes. *)
From Coq Require Import ZArith List Lia.
From Redquorum Require Import Model Exclusion Tokens Majority Node Refinement.
Import ListNotations.
Open Scope Z_scope.

(** * The network: executable nodes, and the clients of the model *)

Section Network.
Variable C : configuration.
Variable p : parameters.
Variable grain : Z.

Record network := { net_now : Z; net_nodes : node -> node_data; net_clients : clients }.

Inductive net_move (w : network) : network -> Prop :=
| NetTick t : net_now w <= t ->
    net_move w {| net_now := t; net_nodes := net_nodes w; net_clients := net_clients w |}
(** A client moves as in the model. *)
| NetClient c : client_step C (net_now w) (net_clients w) c ->
    net_move w {| net_now := net_now w; net_nodes := net_nodes w; net_clients := c |}
(** A node executes an operation that a client has sent, however late, on a connection that has registered in the
    incarnation [i]. A4: if the metadata name [i], the node is in this incarnation. No counter has reached the largest
    number. *)
| NetRequest n i o r x c :
    exchange grain (net_clients w) n (net_now w) o r c ->
    (has_metadata_of (net_nodes w n) i = true -> i = d_incarnation (net_nodes w n)) ->
    can_count_on C grain n (net_now w) (net_nodes w n) ->
    meets_A8 C grain (net_clients w) n (net_now w) (net_nodes w n) o ->
    execute (reads C) p (net_nodes w n) (node_time C grain n (net_now w)) i o = (x, r) ->
    net_move w {| net_now := net_now w; net_nodes := update (net_nodes w) n x; net_clients := c |}
(** A node restarts or is flushed, and has any other data that a node can have. A4: the restart guard detects the loss,
    because the metadata do not name the new incarnation. *)
| NetReplace n x :
    has_metadata_of x (d_incarnation x) = false -> is_sound C x ->
    is_earlier_data C (net_clients w) n (keys_in_model grain x) ->
    net_move w {| net_now := net_now w; net_nodes := update (net_nodes w) n x; net_clients := net_clients w |}.

(** At first, nodes have no key. Their metadata, counters and minimum tokens are any: for example, an administrator has
    called [init] on new nodes. *)
Definition net_is_initial (w : network) : Prop :=
  net_clients w = no_clients /\ forall n, d_lock (net_nodes w n) = None.

Inductive net_reachable : network -> Prop :=
| NetStart w : net_is_initial w -> net_reachable w
| NetMove w w' : net_reachable w -> net_move w w' -> net_reachable w'.

(** A lease is valid. *)
Definition net_is_valid (w : network) (l : lease_id) : Prop :=
  exists le, leases (net_clients w) l = Some le /\ ~ ended (net_clients w) l /\
    client_clock C l (net_now w) < valid_until le.

(** * The joining theorem *)

Hypothesis grain_is_positive : 0 < grain.
Hypothesis lasts_is_rounded_up : quarantine_lasts C <= p_lasts p * grain.
Hypothesis renewals_after_is_rounded_up : renewals_after C <= p_renewals_after p * grain.
Hypothesis time_is_usual : forall n t,
  0 <= node_time C grain n t /\ start_of (node_time C grain n t) <= largest_counter.

(** A state of the model that the network is in. *)
Definition is_in (w : network) (s : state) : Prop :=
  now s = net_now w /\ all_clients s = net_clients w /\
  forall n, is_related C p grain n (net_now w) (net_nodes w n) (nodes s n).

Lemma related_later n t t' x m : t <= t' -> is_related C p grain n t x m -> is_related C p grain n t' x m.
Proof.
  intros Ht [A S F B D E]. constructor; auto. unfold guard_is_related in *.
  destruct (restart_guard m) as [|e|e]; auto. destruct E as [He [E|(t0 & H0 & E)]].
  - split; [lia|auto].
  - split; [lia|]. right. exists t0. split; [lia|exact E].
Qed.

Lemma run_is_reachable t n c m m' c' : node_run C t n c m m' c' ->
  forall s, reachable C s -> now s = t -> all_clients s = c -> nodes s n = m ->
  exists s', reachable C s' /\ now s' = t /\ all_clients s' = c' /\ nodes s' n = m' /\
    forall k, k <> n -> nodes s' k = nodes s k.
Proof.
  induction 1 as [c m|c m m1 c1 m' c' H _ IH]; intros s R Ht Hc Hm; [exists s; auto|].
  destruct (IH {| now := t; nodes := update (nodes s) n m1; all_clients := c1 |}) as (s' & A & B & D & E & F);
    [|reflexivity|reflexivity|apply update_same|].
  - eapply Move; [exact R|]. rewrite <- Ht. apply NodeMoves. rewrite Ht, Hc, Hm. exact H.
  - exists s'. repeat split; auto. intros k Hk. rewrite F by exact Hk. cbn. apply update_other. congruence.
Qed.

Theorem every_run_is_a_run_of_the_model w : net_reachable w -> exists s, reachable C s /\ is_in w s.
Proof.
  induction 1 as [w (Hc & Hn)|w w' _ (s & R & Hnow & Hcl & Hrel) Hm].
  - exists {| now := net_now w; all_clients := no_clients; nodes := fun n =>
      {| keys := fun _ => None;
         counter := match d_counter (net_nodes w n) with Some (v, _) => v | None => 0 end;
         minimum_token := minimum_token_of (net_nodes w n); phase := 0; restart_guard := Intact |} |}.
    split; [apply Start; repeat split|]. split; [reflexivity|]. split; [symmetry; exact Hc|].
    intros n. constructor; cbn; auto.
    + intros l. unfold keys_in_model. rewrite Hn. reflexivity.
    + unfold is_sound. rewrite Hn. exact I.
    + unfold has_phase. rewrite Hn. exact I.
    + intros v e ->. reflexivity.
  - destruct Hm as [t Ht|c Hm|n i o r x c Hx A4 Hmax A8 He|n x Hmeta Hsound Hdata].
    + exists {| now := t; nodes := nodes s; all_clients := all_clients s |}.
      split; [eapply Move; [exact R|apply Tick; lia]|]. split; [reflexivity|]. split; [exact Hcl|].
      intros n. cbn. eapply related_later; [exact Ht|apply Hrel].
    + exists {| now := now s; nodes := nodes s; all_clients := c |}.
      split; [eapply Move; [exact R|apply ClientMoves; rewrite Hnow, Hcl; exact Hm]|].
      split; [exact Hnow|]. split; [reflexivity|]. exact Hrel.
    + destruct (execution_refines C p grain grain_is_positive lasts_is_rounded_up
        renewals_after_is_rounded_up time_is_usual n (net_now w) _ _ _ o r c i x (Hrel n) Hx A4 Hmax A8 He)
        as (m' & Hrun & Hrel').
      destruct (run_is_reachable _ _ _ _ _ _ Hrun s R Hnow Hcl eq_refl) as (s' & R' & N' & C' & M' & O').
      exists s'. split; [exact R'|]. split; [cbn; congruence|]. split; [exact C'|].
      intros k. cbn. destruct (update_cases (net_nodes w) n k x) as [[<- ->]|[Ne ->]].
      * rewrite M'. exact Hrel'.
      * rewrite O' by congruence. apply Hrel.
    + exists {| now := now s; all_clients := all_clients s; nodes := update (nodes s) n
        {| keys := keys_in_model grain x;
           counter := match d_counter x with Some (v, _) => v | None => 0 end;
           minimum_token := minimum_token_of x;
           phase := match d_readers x with Some (phase, _, _) => phase | None => 0 end;
           restart_guard := Forgot (now s) |} |}.
      split.
      * eapply Move; [exact R|]. apply NodeMoves. apply Forget; [|rewrite Hcl; exact Hdata].
        intros l l' H1 H2 [Hne Hc]. unfold keys_in_model, is_sound in *.
        destruct (d_lock x) as [[[[l0|] h] e]|]; [| |tauto].
        -- destruct (Nat.eqb_spec l0 l), (Nat.eqb_spec l0 l'); congruence.
        -- destruct (d_readers x) as [[[ph ep] ends]|]; [|tauto]. destruct Hsound as (_ & _ & Hr & _).
           destruct (end_of l ends) as [e1|] eqn:E1; [|cbn in H1; tauto].
           destruct (end_of l' ends) as [e2|] eqn:E2; [|cbn in H2; tauto].
           apply Hr in E1, E2. destruct Hc; intuition congruence.
      * split; [exact Hnow|]. split; [exact Hcl|]. intros k. cbn.
        destruct (update_cases (net_nodes w) n k x) as [[<- ->]|[Ne ->]].
        -- rewrite update_same. constructor; cbn; auto; [|intros v e ->; reflexivity].
           unfold has_phase. destruct (d_lock x) as [[[[l0|] h] e]|]; auto. destruct (d_readers x) as [[[ph ep] ends]|]; auto.
        -- rewrite update_other by congruence. apply Hrel.
Qed.
End Network.

(** * The promises, for executable nodes that count milliseconds and clients that count nanoseconds *)

Section Promises.
Variables N needed : nat.
Hypothesis majority : (N < 2 * needed)%nat.
Variables drift_ppm longest_ttl timeout : Z.
Hypothesis drift_is_small : 0 <= drift_ppm < 500000.
Hypothesis ttl_is_positive : 0 <= longest_ttl.
Variable clock_of_node : node -> Z -> Z.
Variable clock_of_client : lease_id -> Z -> Z.
Variable is_reader_lease : lease_id -> bool.
Hypothesis years_1970_to_2255 : forall n t, 0 <= clock_of_node n t < 9007199254000000000.

Definition millisecond := 1000000.

(** Rounded up, as src/node/ttl.rs does. *)
Definition milliseconds (t : Z) : Z := div_ceil t millisecond.

Definition millisecond_nodes (counter_ttl : Z) : parameters := {|
  p_max_ttl := milliseconds longest_ttl;
  p_counter_ttl := counter_ttl;
  p_lasts := milliseconds (outlasting drift_ppm (Z.max longest_ttl second));
  p_renewals_after := milliseconds (seen_by_any drift_ppm timeout) |}.

Definition settings (A8 : Prop) : configuration :=
  redquorum N needed drift_ppm longest_ttl timeout clock_of_node clock_of_client is_reader_lease A8.

Lemma joined A8 counter_ttl w :
  net_reachable (settings A8) (millisecond_nodes counter_ttl) millisecond w ->
  exists s, reachable (settings A8) s /\ is_in (settings A8) (millisecond_nodes counter_ttl) millisecond w s.
Proof.
  assert (R : forall t, t <= milliseconds t * millisecond) by
    (intros t; pose proof (div_ceil_spec t millisecond eq_refl); unfold milliseconds; lia).
  apply every_run_is_a_run_of_the_model.
  - reflexivity.
  - apply R.
  - apply R.
  - intros n t. pose proof (years_1970_to_2255 n t) as Y. unfold node_time, start_of, largest_counter, millisecond.
    change (node_clock (settings A8) n t) with (clock_of_node n t).
    assert (0 <= clock_of_node n t / 1000000 < 9007199254000) by
      (split; [apply Z.div_pos; lia|apply Z.div_lt_upper_bound; lia]).
    split; [lia|]. assert (clock_of_node n t / 1000000 / 1000 < 9007199254) by (apply Z.div_lt_upper_bound; lia). lia.
Qed.

(** P2. No clock is assumed to be right, beyond the years. *)
Theorem executable_nodes_keep_tokens_unique counter_ttl w l1 l2 le1 le2 :
  net_reachable (settings True) (millisecond_nodes counter_ttl) millisecond w -> conflict (settings True) l1 l2 ->
  leases (net_clients w) l1 = Some le1 -> leases (net_clients w) l2 = Some le2 -> token le1 <> token le2.
Proof.
  intros H Hne H1 H2. destruct (joined True counter_ttl w H) as (s & R & _ & Hc & _). rewrite <- Hc in H1, H2.
  eapply redquorum_tokens_are_unique; try eassumption.
Qed.

Theorem executable_nodes_keep_order counter_ttl w l1 l2 le1 le2 a :
  net_reachable (settings True) (millisecond_nodes counter_ttl) millisecond w -> conflict (settings True) l1 l2 ->
  leases (net_clients w) l1 = Some le1 -> leases (net_clients w) l2 = Some le2 ->
  attempts (net_clients w) l2 = Some a -> In l1 (granted_before a) -> token le1 < token le2.
Proof.
  intros H Hne H1 H2 Ha Hin. destruct (joined True counter_ttl w H) as (s & R & _ & Hc & _).
  rewrite <- Hc in H1, H2, Ha. eapply redquorum_tokens_grow; try eassumption.
Qed.

(** A1 to A3. *)
Hypothesis client_clocks : forall l t1 t2, t1 <= t2 ->
  2 * PPM * (clock_of_client l t2 - clock_of_client l t1) >= (2 * PPM - drift_ppm) * (t2 - t1).
Hypothesis node_clocks : forall n t1 t2, t1 <= t2 -> t2 - t1 <= 2 * Z.max longest_ttl timeout ->
  2 * PPM * (clock_of_node n t2 - clock_of_node n t1) <= (2 * PPM + drift_ppm) * (t2 - t1) + 2 * PPM * margin.

(** P1. *)
Theorem executable_nodes_exclude A8 counter_ttl w l1 l2 :
  net_reachable (settings A8) (millisecond_nodes counter_ttl) millisecond w ->
  net_is_valid (settings A8) w l1 -> net_is_valid (settings A8) w l2 -> ~ conflict (settings A8) l1 l2.
Proof.
  intros H V1 V2 Hc.
  destruct (joined A8 counter_ttl w H) as (s & R & Hn & Hcl & _).
  assert (V : forall l, net_is_valid (settings A8) w l -> is_valid (settings A8) s l) by
    (intros l (le & X & Y & Z); exists le; rewrite Hcl, Hn; auto).
  exact (redquorum_exclusion N needed majority drift_ppm longest_ttl timeout drift_is_small ttl_is_positive
    clock_of_node clock_of_client is_reader_lease client_clocks node_clocks A8 s l1 l2 R Hc
    (V l1 V1) (V l2 V2)).
Qed.
End Promises.

(** * The assumptions can hold, and executable nodes can grant *)

(** A clock that is right in the years from 1970 to 2255. *)
Definition usual_clock : node -> Z -> Z := fun _ t => Z.max 0 (Z.min t 9007199253999999999).

Theorem the_assumptions_about_clocks_can_hold drift_ppm longest_ttl timeout : 0 <= drift_ppm < 500000 ->
  (forall n t, 0 <= usual_clock n t < 9007199254000000000) /\
  (forall l t1 t2, t1 <= t2 -> 2 * PPM * (right_clock l t2 - right_clock l t1) >= (2 * PPM - drift_ppm) * (t2 - t1)) /\
  (forall n t1 t2, t1 <= t2 -> t2 - t1 <= 2 * Z.max longest_ttl timeout ->
    2 * PPM * (usual_clock n t2 - usual_clock n t1) <= (2 * PPM + drift_ppm) * (t2 - t1) + 2 * PPM * margin).
Proof.
  intros D. unfold usual_clock, right_clock, PPM, margin. split; [intros; lia|]. split; [intros; nia|].
  intros n t1 t2 H _. assert (Z.max 0 (Z.min t2 9007199253999999999) - Z.max 0 (Z.min t1 9007199253999999999) <= t2 - t1) by lia.
  nia.
Qed.

(** Three nodes after [init], and a client whose lease is valid. *)
Definition node_after_init : node_data := {| d_lock := None; d_readers := None; d_counter := None; d_tombstones := [];
  d_metadata := Some (0, 0); d_quarantine := None; d_incarnation := 0 |}.

Definition node_after_lock : node_data := {| d_lock := Some (Writer 1%nat, 1, 30000); d_readers := None;
  d_counter := Some (1, 5400000); d_tombstones := []; d_metadata := Some (0, 0); d_quarantine := None; d_incarnation := 0 |}.

Theorem executable_nodes_can_grant : exists w,
  net_reachable (settings 3 2 10000 (60 * second) (2 * second) usual_clock right_clock (fun _ => false) True)
    (millisecond_nodes 10000 (60 * second) (2 * second) 3600000) millisecond w /\
  net_is_valid (settings 3 2 10000 (60 * second) (2 * second) usual_clock right_clock (fun _ => false) True) w 1%nat.
Proof.
  set (K := settings 3 2 10000 (60 * second) (2 * second) usual_clock right_clock (fun _ => false) True).
  set (P := millisecond_nodes 10000 (60 * second) (2 * second) 3600000).
  assert (R0 : net_reachable K P millisecond {| net_now := 0; net_nodes := fun _ => node_after_init; net_clients := no_clients |}) by
    (apply NetStart; split; [reflexivity|intros n; reflexivity]).
  eexists. split.
  - eapply NetMove. eapply NetMove. eapply NetMove. eapply NetMove. eapply NetMove. exact R0.
    + eapply NetClient. apply (BeginAttempt _ _ _ 1%nat (30 * second) None);
        [reflexivity|intros []|vm_compute; split; discriminate].
    + eapply (NetRequest _ _ _ _ 0%nat 0 _ (Granted 1) node_after_lock).
      * eapply (ExchangeLock _ _ _ _ 1%nat _ 30000 0); [reflexivity|reflexivity|vm_compute; discriminate].
      * reflexivity.
      * split; reflexivity.
      * intros _ _ f [].
      * reflexivity.
    + eapply (NetRequest _ _ _ _ 1%nat 0 _ (Granted 1) node_after_lock).
      * eapply (ExchangeLock _ _ _ _ 1%nat _ 30000 0); [reflexivity|reflexivity|vm_compute; discriminate].
      * reflexivity.
      * split; reflexivity.
      * intros _ _ f [<-|[]]. discriminate.
      * reflexivity.
    + eapply NetClient. apply (FixToken _ _ _ 1%nat 1); [discriminate|reflexivity].
    + eapply NetClient. eapply (Grant _ _ _ 1%nat _ 1 (20 * second) [0%nat; 1%nat]);
        [reflexivity|reflexivity|reflexivity|intros []| | |vm_compute; discriminate|vm_compute; discriminate|reflexivity].
      * split; [|split].
        { constructor; [intros [E|[]]; discriminate|]. constructor; [intros []|constructor]. }
        { intros n [<-|[<-|[]]]; auto. }
        { auto. }
      * intros n [<-|[<-|[]]]; split.
        { eexists. split; [right; left; reflexivity|split; reflexivity]. }
        { eexists. split; [right; left; reflexivity|repeat split]. }
        { eexists. split; [left; reflexivity|split; reflexivity]. }
        { eexists. split; [left; reflexivity|repeat split]. }
  - eexists. split; [reflexivity|]. split; [intros []|reflexivity].
Qed.
