(** P2 (docs/GUARANTEES.md, "P2: order"): tokens of leases that conflict are unique, and grow.

    The argument is about two confirmations of one node. No clock and no timing rule is needed. *)
From Coq Require Import ZArith List Lia.
From Redquorum Require Import Model.
Import ListNotations.
Open Scope Z_scope.

Section Tokens.
Variable C : configuration.

(** * Assumptions *)

(** A5 and A6: two quorums share a node. *)
Hypothesis quorums_meet : forall q1 q2, is_quorum C q1 -> is_quorum C q2 -> exists n, In n q1 /\ In n q2.

(** A8: a node that loses a counter, or may have lost one, continues above each token that it has confirmed. *)
Hypothesis A8 : counters_are_kept C.

(** * Invariants *)

(** The token of a granted lease. *)
Definition token_of (c : clients) (l : lease_id) : option Z := option_map token (leases c l).

(** No client can get the lease of the confirmation [f] with this token, because a conflicting lease in [g] has the same
    token. Such confirmations exist beside readers: the run of a reader may begin with a renewal, whose phase is the
    token of the reader, on a node that had given the same number to a writer without a quorum. *)
Definition is_superseded (c : clients) (g : list lease_id) (f : confirmation) : Prop :=
  exists r, In r g /\ conflict C r (confirmed_lease f) /\ token_of c r = Some (confirmed_token f).

(** Of two confirmations of one node for conflicting leases, the later one has the larger token, unless the earlier one
    was superseded before. The newest confirmation is the first. *)
Fixpoint is_rising (c : clients) (l : list confirmation) : Prop :=
  match l with
  | [] => True
  | y :: l' =>
      (forall x, In x l' -> confirming_node x = confirming_node y ->
         conflict C (confirmed_lease x) (confirmed_lease y) ->
         confirmed_token x < confirmed_token y \/
         confirmed_token x = confirmed_token y /\ is_superseded c (confirmed_after y) x) /\
      is_rising c l'
  end.

(** Each confirmation of a lease was given before the lease was granted. *)
Fixpoint is_history (c : clients) (g : list lease_id) : Prop :=
  match g with
  | [] => True
  | l :: g' =>
      (forall f, In f (confirmations c) -> confirmed_lease f = l -> incl (confirmed_after f) g') /\ is_history c g'
  end.

(** The node knows what it has confirmed, or was registered since. *)
Definition is_registered (x : node_state) : Prop := match restart_guard x with Forgot _ => False | _ => True end.

Definition confirmed_at (c : clients) (n : node) (f : confirmation) : Prop :=
  In f (confirmations c) /\ confirming_node f = n.

(** What is true of the data of a node. *)
Record node_invariant (c : clients) (n : node) (x : node_state) : Prop := mk_node_invariant {
  (** No confirmed token is above the counter, or above the minimum token. *)
  n_counter : is_registered x -> forall f, confirmed_at c n f ->
    confirmed_token f <= Z.max (counter x) (minimum_token x);
  (** While a writer without a lease has the key, all tokens of other leases are below. *)
  n_writer : is_registered x -> forall l, reads C l = false -> keys x l <> None -> leases c l = None ->
    forall f, confirmed_at c n f -> confirmed_lease f <> l ->
    confirmed_token f < Z.max (counter x) (minimum_token x);
  (** While readers have the key, all tokens of writers are below the phase, or superseded. *)
  n_readers : is_registered x -> forall l, reads C l = true -> keys x l <> None ->
    forall f, confirmed_at c n f -> reads C (confirmed_lease f) = false ->
    confirmed_token f < Z.max (phase x) (minimum_token x) \/
    confirmed_token f <= phase x /\ is_superseded c (granted c) f;
  n_one_key : is_one_key C (keys x) }.

Record order_invariant (s : state) : Prop := mk_order_invariant {
  o_nodes : forall n, node_invariant (all_clients s) n (nodes s n);
  o_rising : is_rising (all_clients s) (confirmations (all_clients s));
  o_growth : forall l a f f', attempts (all_clients s) l = Some a ->
    In f (confirmations (all_clients s)) -> In f' (confirmations (all_clients s)) ->
    In (confirmed_lease f) (granted_before a) -> confirmed_lease f' = l -> conflict C (confirmed_lease f) l ->
    confirming_node f = confirming_node f' ->
    confirmed_token f < confirmed_token f' \/
    confirmed_token f = confirmed_token f' /\ is_superseded (all_clients s) (granted (all_clients s)) f;
  o_granted : forall l, In l (granted (all_clients s)) <-> leases (all_clients s) l <> None;
  o_after : forall f, In f (confirmations (all_clients s)) -> incl (confirmed_after f) (granted (all_clients s));
  o_history : is_history (all_clients s) (granted (all_clients s));
  o_began : forall l a, attempts (all_clients s) l = Some a -> incl (granted_before a) (granted (all_clients s));
  o_leases : forall l T, token_of (all_clients s) l = Some T ->
    exists q, is_quorum C q /\ forall n, In n q -> has_confirmed (all_clients s) l T n;
  o_confirmations : forall f, In f (confirmations (all_clients s)) ->
    attempts (all_clients s) (confirmed_lease f) <> None;
  o_tokens : forall l, tokens (all_clients s) l <> None -> attempts (all_clients s) l <> None;
  o_renewals : forall r, In r (renewals (all_clients s)) -> leases (all_clients s) (round_lease r) <> None;
  o_unique : forall l1 l2 T, conflict C l1 l2 -> token_of (all_clients s) l1 = Some T ->
    token_of (all_clients s) l2 = Some T -> False }.

(** ** Lemmas about the invariants *)

Lemma superseded_mono c c' g g' f :
  incl g g' -> (forall r, In r g -> token_of c' r = token_of c r) ->
  is_superseded c g f -> is_superseded c' g' f.
Proof. intros Hg Ht (r & A & B & D). exists r. split; [auto|]. split; [auto|]. rewrite Ht; auto. Qed.

Lemma rising_mono c c' l :
  (forall f r, In f l -> In r (confirmed_after f) -> token_of c' r = token_of c r) ->
  is_rising c l -> is_rising c' l.
Proof.
  induction l as [|y l IH]; simpl; [auto|]. intros Ht [H1 H2]. split.
  - intros x Hx Hn Hc. destruct (H1 x Hx Hn Hc) as [H|[H H']]; [auto|]. right. split; [exact H|].
    eapply superseded_mono; [apply incl_refl| |exact H']. intros r Hr. apply (Ht y); auto.
  - apply IH; [|exact H2]. intros f r Hf. apply Ht. auto.
Qed.

Lemma two_confirmations c l x y : is_rising c l -> In x l -> In y l -> confirming_node x = confirming_node y ->
  conflict C (confirmed_lease x) (confirmed_lease y) -> confirmed_token x = confirmed_token y ->
  is_superseded c (confirmed_after y) x \/ is_superseded c (confirmed_after x) y.
Proof.
  induction l as [|z l IH]; simpl; [tauto|]. intros [H1 H2] Hx Hy Hn Hc Ht.
  destruct Hx as [->|Hx], Hy as [->|Hy].
  - destruct Hc. congruence.
  - right. destruct (H1 y Hy (eq_sym Hn) (conflict_sym _ _ _ Hc)) as [H|[_ H]]; [lia|exact H].
  - left. destruct (H1 x Hx Hn Hc) as [H|[_ H]]; [lia|exact H].
  - auto.
Qed.

Lemma history_mono c c' g : incl (confirmations c') (confirmations c) -> is_history c g -> is_history c' g.
Proof.
  intros H. induction g as [|l g IH]; simpl; [auto|]. intros [A B]. split; [|auto].
  intros f Hf. apply A. auto.
Qed.

(** A new confirmation of a lease that is not granted leaves the history of the granted leases. *)
Lemma history_confirm c l T n g : ~ In l g -> is_history c g -> is_history (add_confirmation c l T n) g.
Proof.
  intros Hl. induction g as [|l' g IH]; simpl in *; [auto|]. intros [A B]. split; [|apply IH; [tauto|exact B]].
  intros f [<-|Hf] E; [exfalso; apply Hl; left; cbn in E; congruence|auto].
Qed.

(** The node invariant does not depend on other changes of the clients. *)
Lemma node_invariant_clients c c' n x :
  confirmations c' = confirmations c -> incl (granted c) (granted c') ->
  (forall l, leases c' l = None -> leases c l = None) ->
  (forall r, In r (granted c) -> token_of c' r = token_of c r) ->
  node_invariant c n x -> node_invariant c' n x.
Proof.
  intros Hc Hg Hl Ht I. destruct I. constructor; unfold confirmed_at in *; rewrite ?Hc; auto.
  - intros K l A B D f. apply (n_writer0 K l); auto.
  - intros K l A B f Hf D. destruct (n_readers0 K l A B f Hf D) as [H|[H H']]; [auto|right].
    split; [exact H|]. eapply superseded_mono; eassumption.
Qed.

(** A step of a node that sends no confirmation. *)
Lemma order_node s n x' c' :
  order_invariant s -> (c' = all_clients s \/ exists r, c' = add_answer (all_clients s) r n (now s)) ->
  node_invariant (all_clients s) n x' ->
  order_invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := c' |}.
Proof.
  intros I Hc H. destruct I.
  assert (N : forall m, node_invariant (all_clients s) m (update (nodes s) n x' m)).
  { intros m. destruct (update_cases (nodes s) n m x') as [[<- ->]|[_ ->]]; auto. }
  destruct Hc as [->|(r & ->)].
  - constructor; assumption.
  - constructor; cbn [nodes all_clients]; try assumption.
    + intros m. eapply node_invariant_clients; [..|apply N]; auto. apply incl_refl.
    + eapply rising_mono; [|exact o_rising0]. auto.
    + eapply history_mono; [|exact o_history0]. apply incl_refl.
Qed.

(** A node that may vote is registered. *)
Lemma voter_is_registered n x t length : quarantine_is_over C n length (restart_guard x) t -> is_registered x.
Proof. unfold quarantine_is_over, is_registered. destruct (restart_guard x); tauto. Qed.

(** A confirmation by a registered node. The token is above the tokens of conflicting leases, unless they are
    superseded. *)
Lemma order_confirm s l T n :
  order_invariant s -> leases (all_clients s) l = None -> attempts (all_clients s) l <> None ->
  T <= Z.max (counter (nodes s n)) (minimum_token (nodes s n)) -> keys (nodes s n) l <> None ->
  (forall f, confirmed_at (all_clients s) n f -> conflict C (confirmed_lease f) l ->
     confirmed_token f < T \/ confirmed_token f = T /\ is_superseded (all_clients s) (granted (all_clients s)) f) ->
  order_invariant {| now := now s; nodes := nodes s; all_clients := add_confirmation (all_clients s) l T n |}.
Proof.
  intros I Hl Ha HT Hk Hb. destruct I.
  set (c := all_clients s) in *. set (c' := add_confirmation c l T n).
  assert (NG : ~ In l (granted c)) by (rewrite o_granted0; tauto).
  assert (TM : forall r, token_of c' r = token_of c r) by reflexivity.
  assert (S : forall g f, is_superseded c g f -> is_superseded c' g f) by
    (intros g f H; eapply superseded_mono; [apply incl_refl| |exact H]; auto).
  constructor; cbn [nodes all_clients]; auto.
  - intros m. destruct (o_nodes0 m) as [A B D E]. constructor; auto.
    + intros K f [[<-|Hf] Hm]; [|apply A; [exact K|split; assumption]]. cbn in Hm |- *. subst m. exact HT.
    + intros K l' Hr Hk' Hl' f [[<-|Hf] Hm] Hne; [|apply (B K l'); auto; split; assumption].
      cbn in Hm, Hne |- *. subst m. exfalso. apply (E l' l Hk' Hk). split; [congruence|auto].
    + intros K l' Hr Hk' f [[<-|Hf] Hm] Hw.
      * cbn in Hm, Hw |- *. subst m. exfalso. apply (E l' l Hk' Hk). split; [congruence|auto].
      * destruct (D K l' Hr Hk' f (conj Hf Hm) Hw) as [H|[H H']]; [auto|]. right. split; [exact H|auto].
  - split.
    + intros x Hx Hn Hc. cbn [confirmed_after confirmed_token confirmed_lease confirming_node] in *.
      destruct (Hb x (conj Hx Hn) Hc) as [H|[H H']]; [auto|right]. split; [exact H|apply S; exact H'].
    + eapply rising_mono; [|exact o_rising0]. auto.
  - intros l' a f f' Hat Hf Hf' Hin Hl' Hc Hn.
    assert (NF : In f (confirmations c)).
    { destruct Hf as [<-|Hf]; [|exact Hf]. exfalso. apply NG. cbn in Hin. exact (o_began0 l' a Hat _ Hin). }
    destruct Hf' as [<-|Hf'].
    + cbn in Hl', Hn |- *. subst l'. destruct (Hb f (conj NF Hn) Hc) as [H|[H H']]; [auto|right]. split; [exact H|].
      apply S. exact H'.
    + destruct (o_growth0 l' a f f' Hat NF Hf' Hin Hl' Hc Hn) as [H|[H H']]; [auto|right]. split; [exact H|auto].
  - intros f [<-|Hf]; [apply incl_refl|auto].
  - apply history_confirm; assumption.
  - intros l' T' Hl'. rewrite TM in Hl'. destruct (o_leases0 l' T' Hl') as (q & Hq & H).
    exists q. split; [exact Hq|]. intros m Hm. destruct (H m Hm) as (f & A & B). exists f. split; [right; exact A|exact B].
  - intros f [<-|Hf]; [exact Ha|]. apply o_confirmations0. exact Hf.
Qed.

(** A lease cannot be granted with the token of a conflicting lease in [g]. *)
Lemma no_repeated_token s l T q : order_invariant s -> is_quorum C q ->
  (forall n, In n q -> has_confirmed (all_clients s) l T n) ->
  forall g, incl g (granted (all_clients s)) -> is_history (all_clients s) g ->
  forall r, In r g -> conflict C r l -> token_of (all_clients s) r = Some T -> False.
Proof.
  intros I Hq Hc. induction g as [|r0 g IH]; [intros _ _ r []|]. intros Hg [Hh1 Hh2] r Hr Hcl Ht.
  assert (Hg' : incl g (granted (all_clients s))) by (intros x Hx; apply Hg; right; exact Hx).
  destruct Hr as [->|Hr]; [|exact (IH Hg' Hh2 r Hr Hcl Ht)].
  destruct (o_leases s I r T Ht) as (q' & Hq' & Hc').
  destruct (quorums_meet q q' Hq Hq') as (n & N1 & N2).
  destruct (Hc n N1) as (x & X1 & X2 & X3 & X4). destruct (Hc' n N2) as (y & Y1 & Y2 & Y3 & Y4).
  destruct (two_confirmations _ _ x y (o_rising s I) X1 Y1) as [(r2 & A & B & D)|(r2 & A & B & D)]; try congruence.
  - rewrite X2, Y2. apply conflict_sym. exact Hcl.
  - apply (IH Hg' Hh2 r2); [exact (Hh1 y Y1 Y2 r2 A)|congruence|congruence].
  - apply (o_unique s I r2 r T); [congruence|congruence|exact Ht].
Qed.

(** The tokens of conflicting leases at a node that executes a write for [l], and the node afterwards. *)
Lemma node_after_write s n l ttl x' :
  order_invariant s ->
  writes_key C n (now s) (nodes s n) l ttl (keys x') ->
  (is_registered x' -> is_registered (nodes s n)) -> minimum_token x' = minimum_token (nodes s n) ->
  counter (nodes s n) <= counter x' ->
  (is_registered x' -> reads C l = false -> leases (all_clients s) l = None ->
     forall f, confirmed_at (all_clients s) n f -> confirmed_lease f <> l ->
     confirmed_token f < Z.max (counter x') (minimum_token x')) ->
  (is_registered x' -> reads C l = true ->
     forall f, confirmed_at (all_clients s) n f -> reads C (confirmed_lease f) = false ->
     confirmed_token f < Z.max (phase x') (minimum_token x') \/
     confirmed_token f <= phase x' /\ is_superseded (all_clients s) (granted (all_clients s)) f) ->
  node_invariant (all_clients s) n x'.
Proof.
  intros I (_ & Hdrop & Hkeep) Hreg Hm Hc Hw Hr. destruct (o_nodes s I n) as [A B D E]. constructor.
  - intros K f Hf. rewrite Hm. specialize (A (Hreg K) f Hf). lia.
  - intros K l' Hr' Hk Hl. destruct (Nat.eq_dec l' l) as [->|Ne]; [apply Hw; assumption|].
    exfalso. apply Hk, Hdrop. split; auto.
  - intros K l' Hr' Hk. destruct (reads C l) eqn:R; [apply Hr; auto|].
    exfalso. apply Hk, Hdrop. split; [|auto]. congruence.
  - intros l1 l2 H1 H2 Hcf.
    assert (Z : forall k, keys x' k <> None -> k <> l -> ~ conflict C l k /\ keys (nodes s n) k <> None).
    { intros k Hk Ne. assert (~ conflict C l k) by (intros X; apply Hk, Hdrop; exact X).
      split; [assumption|]. rewrite <- (Hkeep k Ne); assumption. }
    destruct (Nat.eq_dec l1 l) as [->|N1]; [|destruct (Nat.eq_dec l2 l) as [->|N2]].
    + destruct (Nat.eq_dec l2 l) as [->|N2]; [destruct Hcf; congruence|]. destruct (Z l2 H2 N2). tauto.
    + destruct (Z l1 H1 N1) as [X _]. apply X. apply conflict_sym. exact Hcf.
    + apply (E l1 l2); [apply Z|apply Z|]; assumption.
Qed.

Lemma live_key n t k : is_live C n t k -> k <> None.
Proof. destruct k; [discriminate|intros []]. Qed.

(** What a vote exceeds. *)
Lemma vote_exceeds s n l v f :
  order_invariant s -> is_registered (nodes s n) -> leases (all_clients s) l = None ->
  is_vote C n (now s) (nodes s n) l v -> confirmed_at (all_clients s) n f -> conflict C (confirmed_lease f) l ->
  confirmed_token f < v \/ confirmed_token f = v /\ is_superseded (all_clients s) (granted (all_clients s)) f.
Proof.
  intros I K Hl Hv Hf Hc. destruct (o_nodes s I n) as [A B D E]. destruct Hv as [[V1 V2]|[(R & V1 & -> & V2)|(R & V1 & V2 & V3)]].
  - left. specialize (A K f Hf). lia.
  - left. specialize (B K l R (live_key _ _ _ V1) Hl f Hf). destruct Hc as [Hne _]. specialize (B Hne). lia.
  - destruct V1 as (l0 & R0 & L0). assert (W : reads C (confirmed_lease f) = false) by (destruct Hc as [_ [H|H]]; congruence).
    destruct (D K l0 R0 (live_key _ _ _ L0) f Hf W) as [H|[H H']]; [left; lia|].
    destruct (Z.eq_dec (confirmed_token f) v) as [Ev|Nv]; [right; auto|left; lia].
Qed.

(** The invariant of the readers after a write. *)
Lemma readers_after_lock s n l v p f :
  order_invariant s -> is_registered (nodes s n) -> is_vote C n (now s) (nodes s n) l v ->
  is_phase_of_lock C n (now s) (nodes s n) l v p -> reads C l = true ->
  confirmed_at (all_clients s) n f -> reads C (confirmed_lease f) = false ->
  confirmed_token f < Z.max p (minimum_token (nodes s n)) \/
  confirmed_token f <= p /\ is_superseded (all_clients s) (granted (all_clients s)) f.
Proof.
  intros I K Hv Hp R Hf W. destruct (o_nodes s I n) as [A B D E]. destruct Hp as [[-> P]|(-> & _ & P)].
  - destruct (P R) as (l0 & R0 & L0). apply (D K l0 R0 (live_key _ _ _ L0) f Hf W).
  - left. destruct Hv as [[V1 V2]|[(R' & _)|(_ & V1 & _)]]; [|congruence|tauto].
    specialize (A K f Hf). lia.
Qed.

Lemma readers_after_renewal s n l p f :
  order_invariant s -> is_registered (nodes s n) -> In l (granted (all_clients s)) ->
  is_phase_of_renewal C n (now s) (all_clients s) (nodes s n) l p -> reads C l = true ->
  confirmed_at (all_clients s) n f -> reads C (confirmed_lease f) = false ->
  confirmed_token f < Z.max p (minimum_token (nodes s n)) \/
  confirmed_token f <= p /\ is_superseded (all_clients s) (granted (all_clients s)) f.
Proof.
  intros I K G Hp R Hf W. destruct (o_nodes s I n) as [A B D E]. specialize (A K f Hf).
  destruct Hp as [[-> P]|[(le & Hle & -> & P1 & P2)|[P1 P2]]].
  - destruct (P R) as (l0 & R0 & L0). apply (D K l0 R0 (live_key _ _ _ L0) f Hf W).
  - destruct (Z_lt_le_dec (confirmed_token f) (token le)) as [H|H]; [left; lia|]. right. split; [lia|].
    exists l. split; [exact G|]. split; [split; [congruence|auto]|]. unfold token_of. rewrite Hle. cbn. f_equal. lia.
  - left. lia.
Qed.

(** ** The invariants hold at first, and after every step *)

Lemma initial_order s : is_initial s -> order_invariant s.
Proof.
  intros (Hc & Hn). constructor; rewrite ?Hc; cbn; try tauto; try discriminate.
  - intros n. destruct (Hn n) as [G K]. constructor; cbn.
    + intros _ f [[] _].
    + intros _ l _ H. rewrite K in H. tauto.
    + intros _ l _ H. rewrite K in H. tauto.
    + intros l l' H. rewrite K in H. tauto.
Qed.

Lemma keys_subset s n x' :
  order_invariant s -> (is_registered x' -> is_registered (nodes s n)) ->
  (forall l, keys x' l <> None -> keys (nodes s n) l <> None) ->
  phase x' = phase (nodes s n) ->
  (is_registered x' -> (counter x' >= counter (nodes s n) /\ minimum_token x' = minimum_token (nodes s n)) \/
     forall f, confirmed_at (all_clients s) n f -> confirmed_token f < counter x' /\ minimum_token x' = minimum_token (nodes s n)) ->
  node_invariant (all_clients s) n x'.
Proof.
  intros I Hr Hk Hp Hc. destruct (o_nodes s I n) as [A B D E]. constructor.
  - intros K f Hf. specialize (A (Hr K) f Hf). destruct (Hc K) as [[X Y]|X]; [lia|]. destruct (X f Hf). lia.
  - intros K l R Hl L f Hf Hne. specialize (B (Hr K) l R (Hk l Hl) L f Hf Hne).
    destruct (Hc K) as [[X Y]|X]; [lia|]. destruct (X f Hf). lia.
  - intros K l R Hl f Hf W. rewrite Hp. pose proof (D (Hr K) l R (Hk l Hl) f Hf W) as Z.
    destruct (Hc K) as [[X Y]|X]; [rewrite Y; exact Z|]. destruct (X f Hf) as [_ Y]. rewrite Y. exact Z.
  - intros l l' H1 H2. apply E; auto.
Qed.

Theorem move_keeps_order s s' : order_invariant s -> move C s s' -> order_invariant s'.
Proof.
  intros I Hm. destruct Hm as [t Ht|c Hm|n x' c Hm].
  - (* Tick *) destruct I. constructor; assumption.
  - (* a step of a client *)
    destruct Hm as [l ttl proof H H0 H1|l T H H0|l a T until q H H0 H1 H2 H3 H4 H5 H6 H7|l ttl H H0 H1
      |r le until q H H0 H1 H2 H3 H4 H5|l].
    + (* BeginAttempt *)
      set (v := Some {| attempt_start := now s; attempt_ttl := ttl; attempt_proof := proof;
        granted_before := granted (all_clients s) |}).
      assert (Ha : forall l', attempts (all_clients s) l' <> None -> update (attempts (all_clients s)) l v l' <> None).
      { intros l' E. destruct (update_cases (attempts (all_clients s)) l l' v) as [[_ ->]|[_ ->]]; [discriminate|exact E]. }
      destruct I. constructor; cbn [nodes all_clients set_attempts attempts]; auto.
      * intros n. eapply node_invariant_clients; [..|apply o_nodes0]; auto. apply incl_refl.
      * eapply rising_mono; [|exact o_rising0]. auto.
      * intros l' a f f'. destruct (update_cases (attempts (all_clients s)) l l' v) as [[<- ->]|[_ ->]].
        -- intros _ _ Hf' _ E. exfalso. apply (o_confirmations0 f' Hf'). congruence.
        -- intros Hat Hf Hf' Hin E Hc Hn. destruct (o_growth0 l' a f f' Hat Hf Hf' Hin E Hc Hn) as [X|[X X']]; [auto|].
           right. split; [exact X|]. eapply superseded_mono; [apply incl_refl| |exact X']. auto.
      * eapply history_mono; [|exact o_history0]. apply incl_refl.
      * intros l' a. destruct (update_cases (attempts (all_clients s)) l l' v) as [[_ ->]|[_ ->]]; [|apply o_began0].
        intros [= <-]. apply incl_refl.
    + (* FixToken *)
      destruct I. constructor; cbn [nodes all_clients set_tokens tokens]; auto.
      * intros n. eapply node_invariant_clients; [..|apply o_nodes0]; auto. apply incl_refl.
      * eapply rising_mono; [|exact o_rising0]. auto.
      * eapply history_mono; [|exact o_history0]. apply incl_refl.
      * intros l'. destruct (update_cases (tokens (all_clients s)) l l' (Some T)) as [[<- ->]|[_ ->]]; [intros _; exact H|exact (o_tokens0 l')].
    + (* Grant *)
      set (v := Some {| lease_start := attempt_start a; lease_ttl := attempt_ttl a; valid_until := until; token := T |}).
      set (c' := set_granted (set_leases (all_clients s) (update (leases (all_clients s)) l v)) (l :: granted (all_clients s))).
      assert (NG : ~ In l (granted (all_clients s))) by (rewrite (o_granted s I); tauto).
      assert (TM : forall r, r <> l -> token_of c' r = token_of (all_clients s) r).
      { intros r Hr. unfold token_of. cbn. rewrite update_other; congruence. }
      assert (TG : forall r, In r (granted (all_clients s)) -> token_of c' r = token_of (all_clients s) r).
      { intros r Hr. apply TM. intros ->. tauto. }
      assert (TL : token_of c' l = Some T) by (unfold token_of; cbn; rewrite update_same; reflexivity).
      assert (HQ : forall n, In n q -> has_confirmed (all_clients s) l T n) by (intros n Hn; apply H4; exact Hn).
      assert (U : forall r, token_of (all_clients s) r = Some T -> conflict C r l -> False).
      { intros r Hr Hc. eapply (no_repeated_token s l T q I H3 HQ); [apply incl_refl|apply I| |exact Hc|exact Hr].
        apply (o_granted s I). unfold token_of in Hr. destruct (leases (all_clients s) r); discriminate. }
      pose proof I as I0. destruct I.
      constructor; cbn [nodes all_clients]; auto.
      * intros n. eapply node_invariant_clients; [..|apply o_nodes0]; auto.
        -- intros x Hx. right. exact Hx.
        -- intros l'. cbn. destruct (update_cases (leases (all_clients s)) l l' v) as [[_ ->]|[_ ->]]; [discriminate|auto].
      * eapply rising_mono; [|exact o_rising0]. intros f r Hf Hr. apply TG. exact (o_after0 f Hf r Hr).
      * intros l' a' f f' Hat Hf Hf' Hin E Hc Hn.
        destruct (o_growth0 l' a' f f' Hat Hf Hf' Hin E Hc Hn) as [X|[X X']]; [auto|].
        right. split; [exact X|]. eapply superseded_mono; [|exact TG|exact X']. intros y Hy. right. exact Hy.
      * intros l'. cbn. destruct (update_cases (leases (all_clients s)) l l' v) as [[<- ->]|[N ->]].
        -- split; [discriminate|auto].
        -- rewrite <- o_granted0. split; [intros [X|X]; [congruence|exact X]|auto].
      * intros f Hf y Hy. right. exact (o_after0 f Hf y Hy).
      * split; [intros f Hf _; exact (o_after0 f Hf)|]. eapply history_mono; [|exact o_history0]. apply incl_refl.
      * intros l' a' Hat y Hy. right. exact (o_began0 l' a' Hat y Hy).
      * intros l' T' Hl'. destruct (Nat.eq_dec l' l) as [->|N].
        -- rewrite TL in Hl'. injection Hl' as <-. exists q. split; [exact H3|exact HQ].
        -- rewrite TM in Hl' by exact N. exact (o_leases0 l' T' Hl').
      * intros r Hr. cbn. destruct (update_cases (leases (all_clients s)) l (round_lease r) v) as [[_ ->]|[_ ->]];
          [discriminate|auto].
      * intros l1 l2 T' Hc E1 E2. destruct (Nat.eq_dec l1 l) as [->|N1]; [|destruct (Nat.eq_dec l2 l) as [->|N2]].
        -- destruct (Nat.eq_dec l2 l) as [->|N2]; [destruct Hc; congruence|]. rewrite TM in E2 by exact N2.
           rewrite TL in E1. injection E1 as <-. exact (U l2 E2 (conflict_sym _ _ _ Hc)).
        -- rewrite TM in E1 by exact N1. rewrite TL in E2. injection E2 as <-. exact (U l1 E1 Hc).
        -- rewrite TM in E1, E2 by assumption. exact (o_unique0 l1 l2 T' Hc E1 E2).
    + (* BeginRenewal *)
      destruct I. constructor; cbn [nodes all_clients set_renewals renewals]; auto.
      * intros n. eapply node_invariant_clients; [..|apply o_nodes0]; auto. apply incl_refl.
      * eapply rising_mono; [|exact o_rising0]. auto.
      * eapply history_mono; [|exact o_history0]. apply incl_refl.
      * intros r [<-|Hr]; [exact H|exact (o_renewals0 r Hr)].
    + (* CompleteRenewal *)
      set (v := Some {| lease_start := round_start r; lease_ttl := round_ttl r; valid_until := until; token := token le |}).
      assert (LN : forall l, update (leases (all_clients s)) (round_lease r) v l = None <-> leases (all_clients s) l = None).
      { intros l. destruct (update_cases (leases (all_clients s)) (round_lease r) l v) as [[<- ->]|[_ ->]]; [|tauto].
        rewrite H0. split; discriminate. }
      set (c' := set_leases (all_clients s) (update (leases (all_clients s)) (round_lease r) v)).
      assert (TM : forall l, token_of c' l = token_of (all_clients s) l).
      { intros l. unfold token_of. cbn. destruct (update_cases (leases (all_clients s)) (round_lease r) l v) as [[<- ->]|[_ ->]];
          [rewrite H0|]; reflexivity. }
      destruct I. constructor; cbn [nodes all_clients]; auto.
      * intros n. eapply node_invariant_clients; [..|apply o_nodes0]; auto; [apply incl_refl|]. intros l. apply LN.
      * eapply rising_mono; [|exact o_rising0]. auto.
      * intros l' a f f' Hat Hf Hf' Hin E Hc Hn. destruct (o_growth0 l' a f f' Hat Hf Hf' Hin E Hc Hn) as [X|[X X']]; [auto|].
        right. split; [exact X|]. eapply superseded_mono; [apply incl_refl| |exact X']. auto.
      * intros l. cbn. rewrite LN. apply o_granted0.
      * eapply history_mono; [|exact o_history0]. apply incl_refl.
      * intros l T. rewrite TM. apply o_leases0.
      * intros r' Hr. cbn. rewrite LN. apply o_renewals0. exact Hr.
      * intros l1 l2 T. rewrite !TM. apply o_unique0.
    + (* End_ *)
      destruct I. constructor; cbn [nodes all_clients]; auto.
      * intros n. eapply node_invariant_clients; [..|apply o_nodes0]; auto. apply incl_refl.
      * eapply rising_mono; [|exact o_rising0]. auto.
      * eapply history_mono; [|exact o_history0]. apply incl_refl.
  - (* a step of a node *)
    destruct Hm as [l a v ks p H H0 H1 H2 HP H3 H4|l T H H0 H1 H2 H3|r ks v p H H0 H1 H2 H3 H4|r ks v p H H0 H1 H2 H3
      |l k H H0|l H|v H|ks v m p H H0|m H].
    + (* Lock *)
      pose proof (voter_is_registered n (nodes s n) (now s) _ H0) as K.
      assert (W : forall c, (c = all_clients s \/ exists r, c = add_answer (all_clients s) r n (now s)) ->
        order_invariant {| now := now s; nodes := update (nodes s) n {| keys := ks; counter := Z.max (counter (nodes s n)) v;
          minimum_token := minimum_token (nodes s n); phase := p; restart_guard := restart_guard (nodes s n) |};
          all_clients := c |}).
      { intros c Hc. apply order_node; [exact I|exact Hc|].
        apply (node_after_write s n l (attempt_ttl a)); cbn [keys counter minimum_token phase]; auto; [lia| |].
        - intros _ R Hl f Hf Hne. destruct (vote_exceeds s n l v f I K Hl H2 Hf) as [X|[X _]].
          + split; auto.
          + lia.
          + destruct H2 as [[V1 V2]|[(_ & V1 & V2 & V3)|(V1 & _)]]; [|exfalso|congruence].
            * pose proof (n_counter _ _ _ (o_nodes s I n) K f Hf). lia.
            * pose proof (n_writer _ _ _ (o_nodes s I n) K l R (live_key _ _ _ V1) Hl f Hf Hne). lia.
        - intros _ R f Hf Wf. apply (readers_after_lock s n l v p f); auto. }
      unfold unless_granted. destruct (leases (all_clients s) l) eqn:L; [apply W; auto|].
      refine (order_confirm {| now := now s; nodes := _; all_clients := add_answer (all_clients s) _ n (now s) |}
        l v n (W _ (or_intror (ex_intro _ _ eq_refl))) L _ _ _ _); cbn [nodes all_clients]; rewrite ?update_same;
        cbn [counter minimum_token keys].
      * cbn. congruence.
      * lia.
      * destruct H3 as ((e & E & _) & _). congruence.
      * intros f Hf Hc. destruct (vote_exceeds s n l v f I K L H2 Hf Hc) as [X|[X X']]; [auto|right].
        split; [exact X|]. eapply superseded_mono; [apply incl_refl| |exact X']. auto.
    + (* WriteBack *)
      pose proof (voter_is_registered n (nodes s n) (now s) _ H0) as K.
      assert (W : order_invariant {| now := now s; nodes := update (nodes s) n {| keys := keys (nodes s n);
          counter := Z.max (counter (nodes s n)) T; minimum_token := minimum_token (nodes s n);
          phase := phase (nodes s n); restart_guard := restart_guard (nodes s n) |}; all_clients := all_clients s |}).
      { apply order_node; auto. apply keys_subset; cbn; auto. left. lia. }
      unfold unless_granted. destruct (leases (all_clients s) l) eqn:L; [exact W|].
      refine (order_confirm {| now := now s; nodes := _; all_clients := all_clients s |} l T n W L _ _ _ _);
        cbn [nodes all_clients]; rewrite ?update_same; cbn [counter minimum_token keys].
      * apply (o_tokens s I). congruence.
      * lia.
      * exact (live_key _ _ _ H1).
      * intros f Hf Hc. destruct (o_nodes s I n) as [_ B D _]. unfold bound_of_write_back in H2.
        destruct (reads C l) eqn:R.
        -- assert (Wf : reads C (confirmed_lease f) = false) by (destruct Hc as [_ [X|X]]; congruence).
           destruct (D K l R (live_key _ _ _ H1) f Hf Wf) as [X|[X X']]; [left; lia|].
           destruct (Z.eq_dec (confirmed_token f) T) as [E|E]; [right; auto|left; lia].
        -- destruct Hc as [Hne _]. specialize (B K l R (live_key _ _ _ H1) L f Hf Hne). left. lia.
    + (* Renew *)
      assert (G : In (round_lease r) (granted (all_clients s))) by (apply (o_granted s I), (o_renewals s I); exact H).
      apply order_node; [exact I|right; eauto|].
      apply (node_after_write s n (round_lease r) (round_ttl r)); cbn [keys counter minimum_token phase]; auto.
      * intros _ _ L. exfalso. exact (o_renewals s I r H L).
      * intros K R f Hf Wf. apply (readers_after_renewal s n (round_lease r) p f); auto.
    + (* RenewInQuarantine *)
      assert (G : In (round_lease r) (granted (all_clients s))) by (apply (o_granted s I), (o_renewals s I); exact H).
      apply order_node; [exact I|left; reflexivity|].
      apply (node_after_write s n (round_lease r) (round_ttl r)); cbn [keys counter minimum_token phase]; auto.
      * intros _ _ L. exfalso. exact (o_renewals s I r H L).
      * intros K R f Hf Wf. apply (readers_after_renewal s n (round_lease r) p f); auto.
    + (* Unlock *)
      apply order_node; auto. apply keys_subset; cbn; auto; [|left; lia].
      intros l'. destruct (update_cases (keys (nodes s n)) l l' k) as [[<- ->]|[_ ->]]; auto.
    + (* Expire *)
      apply order_node; auto. apply keys_subset; cbn; auto; [|left; lia].
      intros l'. destruct (update_cases (keys (nodes s n)) l l' None) as [[<- ->]|[_ ->]]; tauto.
    + (* LoseCounter *)
      apply order_node; auto. apply keys_subset; cbn; auto. right. intros f [Hf Hn]. split; [|reflexivity].
      exact (H A8 f Hf Hn).
    + (* Forget *)
      apply order_node; auto. constructor; cbn; try tauto.
    + (* Register *)
      apply order_node; auto. destruct (o_nodes s I n) as [A B D E].
      assert (X : forall f, confirmed_at (all_clients s) n f -> confirmed_token f < m) by
        (intros f [Hf Hn]; exact (H A8 f Hf Hn)).
      constructor; cbn.
      * intros _ f Hf. specialize (X f Hf). lia.
      * intros _ l _ _ _ f Hf _. specialize (X f Hf). lia.
      * intros _ l _ _ f Hf _. specialize (X f Hf). left. lia.
      * exact E.
Qed.

Lemma reachable_order s : reachable C s -> order_invariant s.
Proof. induction 1; [apply initial_order; assumption|eapply move_keeps_order; eassumption]. Qed.

(** * Theorems *)

(** P2. Leases that conflict have different tokens. *)
Theorem tokens_are_unique s l1 l2 le1 le2 :
  reachable C s -> conflict C l1 l2 ->
  leases (all_clients s) l1 = Some le1 -> leases (all_clients s) l2 = Some le2 -> token le1 <> token le2.
Proof.
  intros R Hc H1 H2 E. apply (o_unique s (reachable_order s R) l1 l2 (token le1) Hc); unfold token_of.
  - rewrite H1. reflexivity.
  - rewrite H2, E. reflexivity.
Qed.

(** P2. If a lease was granted before the attempt for a conflicting lease began, its token is smaller. *)
Theorem tokens_grow s l1 l2 le1 le2 a :
  reachable C s -> conflict C l1 l2 ->
  leases (all_clients s) l1 = Some le1 -> leases (all_clients s) l2 = Some le2 ->
  attempts (all_clients s) l2 = Some a -> In l1 (granted_before a) -> token le1 < token le2.
Proof.
  intros R Hc H1 H2 Ha Hin. pose proof (reachable_order s R) as I.
  assert (T1 : token_of (all_clients s) l1 = Some (token le1)) by (unfold token_of; rewrite H1; reflexivity).
  assert (T2 : token_of (all_clients s) l2 = Some (token le2)) by (unfold token_of; rewrite H2; reflexivity).
  destruct (o_leases s I l1 _ T1) as (q1 & Q1 & C1). destruct (o_leases s I l2 _ T2) as (q2 & Q2 & C2).
  destruct (quorums_meet q1 q2 Q1 Q2) as (n & N1 & N2).
  destruct (C1 n N1) as (x & X1 & X2 & X3 & X4). destruct (C2 n N2) as (y & Y1 & Y2 & Y3 & Y4).
  assert (G := o_growth s I l2 a x y Ha X1 Y1). rewrite X2, X4, Y4 in G.
  destruct (G Hin Y2 Hc eq_refl) as [H|[H (r & A & B & D)]]; [lia|exfalso].
  rewrite X2 in B. rewrite X3 in D. exact (o_unique s I r l1 (token le1) B D T1).
Qed.

End Tokens.
