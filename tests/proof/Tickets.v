(** Tickets (docs/GUARANTEES.md, "Tickets"): what the proof of a redemption shows. No clock is needed.

    A ticket is a lease that ends when the ticket is issued, because no client relies on it. A transfer is two steps of
    the model at one instant: the node unlocks the earlier lease, which has ended, and locks for the later lease.
    Therefore P1 and P2 hold for leases, tickets and redeemed leases alike. A redemption is an attempt with a proof: the
    token of the ticket. *)
From Coq Require Import ZArith List Lia.
From Redquorum Require Import Model Tokens.
Import ListNotations.
Open Scope Z_scope.

Section Tickets.
Variable C : configuration.

(** * Assumptions: A5 and A6, and A8 *)
Hypothesis quorums_meet : forall q1 q2, is_quorum C q1 -> is_quorum C q2 -> exists n, In n q1 /\ In n q2.
Hypothesis A8 : counters_are_kept C.

(** * Invariants *)

(** The node has voted in the lock round of the attempt. *)
Definition has_voted (c : clients) (l : lease_id) (a : attempt) (n : node) : Prop := has_answered c (lock_round l a) n.

Record ticket_invariant (s : state) : Prop := mk_ticket_invariant {
  (** A key is of a lease for which the node has voted, or of a granted lease. *)
  k_keys : forall n l, keys (nodes s n) l <> None -> exists a, attempts (all_clients s) l = Some a /\
    (leases (all_clients s) l <> None \/ has_voted (all_clients s) l a n);
  (** A node that has voted with a proof has confirmed a token above the proof, *)
  k_above : forall l a p n, attempts (all_clients s) l = Some a -> attempt_proof a = Some p ->
    has_voted (all_clients s) l a n ->
    exists f, confirmed_at (all_clients s) n f /\ confirmed_lease f = l /\ p < confirmed_token f;
  (** and no larger token than the proof for the leases that were granted before. *)
  k_earlier : forall l a p n f, attempts (all_clients s) l = Some a -> attempt_proof a = Some p ->
    has_voted (all_clients s) l a n -> confirmed_at (all_clients s) n f ->
    In (confirmed_lease f) (granted_before a) -> confirmed_token f <= p;
  (** A node votes for one redemption with one proof. *)
  k_one : forall l1 l2 a1 a2 p n, attempts (all_clients s) l1 = Some a1 -> attempts (all_clients s) l2 = Some a2 ->
    attempt_proof a1 = Some p -> attempt_proof a2 = Some p ->
    has_voted (all_clients s) l1 a1 n -> has_voted (all_clients s) l2 a2 n -> l1 = l2;
  k_leases : forall l, leases (all_clients s) l <> None -> exists a q, attempts (all_clients s) l = Some a /\
    is_quorum C q /\ forall n, In n q -> has_voted (all_clients s) l a n;
  k_answers : forall x, In x (answers (all_clients s)) -> is_attempt (answer_round x) = true ->
    exists a, attempts (all_clients s) (round_lease (answer_round x)) = Some a;
  k_renewals : forall r, In r (renewals (all_clients s)) -> is_attempt r = false }.

(** ** Lemmas about the invariants *)

(** The clients change in a way that does not concern votes, confirmations and grants. *)
Lemma ticket_clients s s' :
  ticket_invariant s -> order_invariant C s -> nodes s' = nodes s ->
  (forall l a, attempts (all_clients s) l = Some a -> attempts (all_clients s') l = Some a) ->
  (forall l a, attempts (all_clients s') l = Some a -> attempts (all_clients s) l = None ->
     incl (granted_before a) (granted (all_clients s))) ->
  answers (all_clients s') = answers (all_clients s) ->
  confirmations (all_clients s') = confirmations (all_clients s) ->
  (forall l, leases (all_clients s) l <> None -> leases (all_clients s') l <> None) ->
  (forall l, leases (all_clients s') l <> None -> leases (all_clients s) l <> None \/ exists a q,
     attempts (all_clients s) l = Some a /\ is_quorum C q /\ forall n, In n q -> has_voted (all_clients s) l a n) ->
  (forall r, In r (renewals (all_clients s')) -> is_attempt r = false) ->
  ticket_invariant s'.
Proof.
  intros I O Hn Hat Hnew Hans Hcf Hl Hl' Hr. destruct I.
  assert (V : forall l a n, attempts (all_clients s') l = Some a -> has_voted (all_clients s') l a n ->
    attempts (all_clients s) l = Some a /\ has_voted (all_clients s) l a n).
  { intros l a n Ha (x & X1 & X2 & X3). rewrite Hans in X1. split; [|exists x; auto].
    destruct (k_answers0 x X1) as (a' & Ha'); [rewrite X2; reflexivity|]. rewrite X2 in Ha'. cbn in Ha'.
    pose proof (Hat l a' Ha'). congruence. }
  assert (W : forall l a n, has_voted (all_clients s) l a n -> has_voted (all_clients s') l a n) by
    (intros l a n; unfold has_voted, has_answered; rewrite Hans; auto).
  assert (F : forall n f, confirmed_at (all_clients s') n f <-> confirmed_at (all_clients s) n f) by
    (intros n f; unfold confirmed_at; rewrite Hcf; tauto).
  constructor; auto.
  - intros n l. rewrite Hn. intros H. destruct (k_keys0 n l H) as (a & A & B). exists a. split; [auto|].
    destruct B; auto.
  - intros l a p n Ha Hp Hv. destruct (V l a n Ha Hv) as [A B]. destruct (k_above0 l a p n A Hp B) as (f & X & Y).
    exists f. rewrite F. auto.
  - intros l a p n f Ha Hp Hv Hf Hin. destruct (V l a n Ha Hv) as [A B]. apply F in Hf. eapply k_earlier0; eassumption.
  - intros l1 l2 a1 a2 p n H1 H2 P1 P2 V1 V2. destruct (V l1 a1 n H1 V1), (V l2 a2 n H2 V2).
    eapply k_one0; eassumption.
  - intros l H. destruct (Hl' l H) as [X|(a & q & A & B & D)].
    + destruct (k_leases0 l X) as (a & q & A & B & D). exists a, q. split; [auto|]. split; [auto|]. intros n Hq. auto.
    + exists a, q. split; [auto|]. split; [auto|]. intros n Hq. auto.
  - intros x Hx Hi. rewrite Hans in Hx. destruct (k_answers0 x Hx Hi) as (a & A). exists a. auto.
Qed.

(** A node changes its keys, or executes a renewal. *)
Lemma ticket_node s n x' c' :
  ticket_invariant s ->
  (c' = all_clients s \/ exists r, is_attempt r = false /\ c' = add_answer (all_clients s) r n (now s)) ->
  (forall l, keys x' l <> None -> exists a, attempts (all_clients s) l = Some a /\
    (leases (all_clients s) l <> None \/ has_voted (all_clients s) l a n)) ->
  ticket_invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := c' |}.
Proof.
  intros I Hc Hk. destruct I.
  assert (K : forall m l, keys (update (nodes s) n x' m) l <> None -> exists a, attempts (all_clients s) l = Some a /\
    (leases (all_clients s) l <> None \/ has_voted (all_clients s) l a m)).
  { intros m l. destruct (update_cases (nodes s) n m x') as [[<- ->]|[_ ->]]; auto. }
  destruct Hc as [->|(r & Hr & ->)]; [constructor; assumption|].
  assert (V : forall l a m, has_voted (add_answer (all_clients s) r n (now s)) l a m <-> has_voted (all_clients s) l a m).
  { intros l a m. split; intros (x & X1 & X2 & X3).
    - destruct X1 as [<-|X1]; [cbn in X2; rewrite X2 in Hr; discriminate|exists x; auto].
    - exists x. split; [right; exact X1|auto]. }
  constructor; cbn [now nodes all_clients]; auto.
  - intros m l H. destruct (K m l H) as (a & A & B). exists a. rewrite V. auto.
  - intros l a p m Ha Hp. rewrite V. apply k_above0; assumption.
  - intros l a p m f Ha Hp. rewrite V. apply k_earlier0; assumption.
  - intros l1 l2 a1 a2 p m H1 H2 P1 P2. rewrite !V. apply (k_one0 l1 l2 a1 a2 p m); assumption.
  - intros l H. destruct (k_leases0 l H) as (a & q & A & B & D). exists a, q. split; [exact A|]. split; [exact B|].
    intros m Hm. apply V. auto.
  - intros x [<-|Hx] Hi; [cbn in Hi; congruence|]. apply k_answers0; assumption.
Qed.

(** A new confirmation of a lease that is not granted. *)
Lemma ticket_confirmation s l T n :
  ticket_invariant s -> order_invariant C s -> leases (all_clients s) l = None ->
  ticket_invariant {| now := now s; nodes := nodes s; all_clients := add_confirmation (all_clients s) l T n |}.
Proof.
  intros I O Hl. destruct I. constructor; cbn [now nodes all_clients]; auto.
  - intros l' a p m Ha Hp Hv. destruct (k_above0 l' a p m Ha Hp Hv) as (f & [X1 X2] & Y).
    exists f. split; [split; [right; exact X1|exact X2]|exact Y].
  - intros l' a p m f Ha Hp Hv [[<-|Hf] Hm] Hin.
    + exfalso. cbn in Hin. apply (o_began C s O l' a Ha), (o_granted C s O) in Hin. tauto.
    + apply (k_earlier0 l' a p m f Ha Hp Hv (conj Hf Hm) Hin).
Qed.

(** The node votes for [l], and confirms the vote. *)
Lemma ticket_vote s n x' l a v :
  ticket_invariant s -> order_invariant C s -> attempts (all_clients s) l = Some a ->
  leases (all_clients s) l = None -> is_registered (nodes s n) ->
  meets_proof C n (now s) (nodes s n) l v (attempt_proof a) ->
  (forall l', keys x' l' <> None -> l' = l \/ keys (nodes s n) l' <> None) ->
  ticket_invariant {| now := now s; nodes := update (nodes s) n x';
    all_clients := add_confirmation (add_answer (all_clients s) (lock_round l a) n (now s)) l v n |}.
Proof.
  intros I O Ha Hl Hreg Hp Hk. pose proof (n_counter _ _ _ _ (o_nodes C s O n) Hreg) as Hmax. destruct I.
  set (c' := add_confirmation (add_answer (all_clients s) (lock_round l a) n (now s)) l v n).
  assert (V : forall l' a' m, attempts (all_clients s) l' = Some a' -> has_voted c' l' a' m ->
    has_voted (all_clients s) l' a' m \/ l' = l /\ a' = a /\ m = n).
  { intros l' a' m Ha' (x & X1 & X2 & X3). destruct X1 as [<-|X1]; [right|left; exists x; auto].
    cbn in X2, X3. assert (l' = l) by (injection X2; congruence). subst l'. repeat split; congruence. }
  assert (W : forall l' a' m, has_voted (all_clients s) l' a' m -> has_voted c' l' a' m) by
    (intros l' a' m (x & X1 & X2); exists x; split; [right; exact X1|exact X2]).
  assert (Z : has_voted c' l a n) by (eexists; split; [left; reflexivity|auto]).
  assert (F : forall m f, confirmed_at (all_clients s) m f -> confirmed_at c' m f) by
    (intros m f [X Y]; split; [right; exact X|exact Y]).
  (* either the node has voted for [l] before, or counter and minimum token do not exceed the proof *)
  assert (New : forall p, attempt_proof a = Some p -> has_voted (all_clients s) l a n \/
    p < v /\ forall f, confirmed_at (all_clients s) n f -> confirmed_token f <= p).
  { intros p E. rewrite E in Hp. destruct Hp as [Hp|(P1 & P2 & P3)]; [|specialize (P3 A8)].
    - left. destruct (k_keys0 n l) as (a' & A & [B|B]); [destruct (keys (nodes s n) l); [discriminate|destruct Hp]|tauto|].
      replace a with a' by congruence. exact B.
    - right. split; [exact P3|]. intros f Hf. specialize (Hmax f Hf). lia. }
  constructor; cbn [now nodes all_clients]; auto.
  - intros m l' H. destruct (update_cases (nodes s) n m x') as [[<- E]|[_ E]]; rewrite E in H.
    + destruct (Hk l' H) as [->|H']; [exists a; auto|].
      destruct (k_keys0 n l' H') as (a' & A & B). exists a'. split; [exact A|]. destruct B; auto.
    + destruct (k_keys0 m l' H) as (a' & A & B). exists a'. split; [exact A|]. destruct B; auto.
  - intros l' a' p m Ha' Hp' Hv. destruct (V l' a' m Ha' Hv) as [H|(-> & -> & ->)].
    + destruct (k_above0 l' a' p m Ha' Hp' H) as (f & X & Y). exists f. auto.
    + destruct (New p Hp') as [H|[H _]].
      * destruct (k_above0 l a p n Ha Hp' H) as (f & X & Y). exists f. auto.
      * exists {| confirmed_lease := l; confirmed_token := v; confirming_node := n;
          confirmed_after := granted (all_clients s) |}. split; [split; [left|]; reflexivity|]. cbn. auto.
  - intros l' a' p m f Ha' Hp' Hv [[<-|Hf] Hm] Hin.
    + exfalso. cbn in Hin. apply (o_began C s O l' a' Ha'), (o_granted C s O) in Hin. tauto.
    + destruct (V l' a' m Ha' Hv) as [H|(-> & -> & ->)].
      * apply (k_earlier0 l' a' p m f Ha' Hp' H (conj Hf Hm) Hin).
      * destruct (New p Hp') as [H|[_ H]]; [|apply H; split; assumption].
        apply (k_earlier0 l a p n f Ha Hp' H (conj Hf Hm) Hin).
  - intros l1 l2 a1 a2 p m H1 H2 P1 P2 V1 V2.
    destruct (V l1 a1 m H1 V1) as [X1|(E1 & E2 & E3)], (V l2 a2 m H2 V2) as [X2|(E4 & E5 & E6)]; subst.
    + apply (k_one0 l1 l2 a1 a2 p m); assumption.
    + destruct (New p P2) as [H|[_ H]]; [apply (k_one0 l1 l a1 a p n); assumption|].
      destruct (k_above0 l1 a1 p n H1 P1 X1) as (f & X & _ & Y). specialize (H f X). lia.
    + destruct (New p P1) as [H|[_ H]]; [apply (k_one0 l l2 a a2 p n); assumption|].
      destruct (k_above0 l2 a2 p n H2 P2 X2) as (f & X & _ & Y). specialize (H f X). lia.
    + reflexivity.
  - intros l' H. destruct (k_leases0 l' H) as (a' & q & A & B & D). exists a', q. auto.
  - intros x [<-|Hx] Hi; [exists a; exact Ha|]. apply k_answers0; assumption.
Qed.

(** ** The invariants hold at first, and after every step *)

Lemma initial_tickets s : is_initial s -> ticket_invariant s.
Proof.
  intros (Hc & Hn). constructor; rewrite ?Hc; cbn; try tauto; try discriminate.
  intros n l H. destruct (Hn n) as [_ K]. rewrite K in H. tauto.
Qed.

Theorem move_keeps_tickets s s' : order_invariant C s -> ticket_invariant s -> move C s s' -> ticket_invariant s'.
Proof.
  intros O I Hm. destruct Hm as [t Ht|c Hm|n x' c Hm].
  - (* Tick *) destruct I. constructor; assumption.
  - (* a step of a client *)
    apply (ticket_clients s); cbn [nodes all_clients]; auto; destruct Hm; cbn; auto; try apply I.
    + intros l' a E. rewrite update_other; congruence.
    + intros l' a. match goal with |- update _ _ ?v _ = _ -> _ =>
        destruct (update_cases (attempts (all_clients s)) l l' v) as [[_ ->]|[_ ->]] end; [|congruence].
      intros [= <-] _. apply incl_refl.
    + intros; congruence.
    + intros; congruence.
    + intros; congruence.
    + intros; congruence.
    + intros; congruence.
    + intros l'. match goal with |- _ -> update _ _ ?v _ <> _ =>
        destruct (update_cases (leases (all_clients s)) l l' v) as [[_ ->]|[_ ->]] end; [discriminate|auto].
    + intros l'. match goal with |- _ -> update _ _ ?v _ <> _ =>
        destruct (update_cases (leases (all_clients s)) (round_lease r) l' v) as [[_ ->]|[_ ->]] end; [discriminate|auto].
    + intros l'. match goal with |- update _ _ ?v _ <> _ -> _ =>
        destruct (update_cases (leases (all_clients s)) l l' v) as [[<- ->]|[_ ->]] end; [|auto].
      intros _. right. exists a, q. split; [assumption|]. split; [assumption|]. intros n Hn. apply H4. exact Hn.
    + intros l'. match goal with |- update _ _ ?v _ <> _ -> _ =>
        destruct (update_cases (leases (all_clients s)) (round_lease r) l' v) as [[<- ->]|[_ ->]] end; [|auto].
      intros _. left. congruence.
    + intros r [<-|Hr]; [reflexivity|]. apply (k_renewals s I). exact Hr.
  - (* a step of a node *)
    destruct Hm as [l a v ks p H H0 H1 H2 HP H3 H4|l T H H0 H1 H2 H3|r ks v p H H0 H1 H2 H3 H4|r ks v p H H0 H1 H2 H3
      |l k H H0|l H|v H|ks v m p H H0|m H].
    + (* Lock *)
      assert (K : forall l', ks l' <> None -> l' = l \/ keys (nodes s n) l' <> None).
      { intros l' Hk. destruct (Nat.eq_dec l' l) as [E|E]; [auto|right]. destruct H3 as (_ & D & Keep).
        destruct (conflict_dec C l l') as [X|X]; [elim Hk; auto|]. rewrite <- Keep; auto. }
      unfold unless_granted. destruct (leases (all_clients s) l) eqn:L.
      * apply ticket_node; [exact I|auto|]. cbn [keys]. intros l' Hk. destruct (K l' Hk) as [->|Hk'].
        -- exists a. split; [exact H|]. left. congruence.
        -- apply (k_keys s I n l' Hk').
      * apply (ticket_vote s n _ l a v); auto. eapply voter_is_registered. exact H0.
    + (* WriteBack *)
      assert (I1 : ticket_invariant {| now := now s; nodes := update (nodes s) n {| keys := keys (nodes s n);
          counter := Z.max (counter (nodes s n)) T; minimum_token := minimum_token (nodes s n);
          phase := phase (nodes s n); restart_guard := restart_guard (nodes s n) |}; all_clients := all_clients s |}) by
        (apply ticket_node; [exact I|auto|]; cbn [keys]; intros l'; apply (k_keys s I)).
      unfold unless_granted. destruct (leases (all_clients s) l) eqn:L; [exact I1|].
      apply (ticket_confirmation {| now := now s; nodes := _; all_clients := all_clients s |}); auto.
      apply (order_node C s n); auto. apply keys_subset; cbn; auto. left. lia.
    + (* Renew *)
      apply ticket_node; [exact I|right; exists r; split; [apply (k_renewals s I); exact H|reflexivity]|].
      cbn [keys]. intros l' Hk. destruct (Nat.eq_dec l' (round_lease r)) as [->|E].
      * destruct (k_leases s I _ (o_renewals C s O r H)) as (a & q & A & _). exists a.
        split; [exact A|]. left. apply (o_renewals C s O r H).
      * apply (k_keys s I). destruct H2 as (_ & D & Keep).
        destruct (conflict_dec C (round_lease r) l') as [X|X]; [elim Hk; auto|]. rewrite <- Keep; auto.
    + (* RenewInQuarantine *)
      apply ticket_node; [exact I|auto|].
      cbn [keys]. intros l' Hk. destruct (Nat.eq_dec l' (round_lease r)) as [->|E].
      * destruct (k_leases s I _ (o_renewals C s O r H)) as (a & q & A & _). exists a.
        split; [exact A|]. left. apply (o_renewals C s O r H).
      * apply (k_keys s I). destruct H1 as (_ & D & Keep).
        destruct (conflict_dec C (round_lease r) l') as [X|X]; [elim Hk; auto|]. rewrite <- Keep; auto.
    + (* Unlock *)
      apply ticket_node; [exact I|auto|]. cbn [keys]. intros l'.
      destruct (update_cases (keys (nodes s n)) l l' k) as [[<- ->]|[_ ->]]; intros; apply (k_keys s I); assumption.
    + (* Expire *)
      apply ticket_node; [exact I|auto|]. cbn [keys]. intros l'.
      destruct (update_cases (keys (nodes s n)) l l' None) as [[<- ->]|[_ ->]]; intros; [tauto|apply (k_keys s I); assumption].
    + (* LoseCounter *) apply ticket_node; [exact I|auto|]. cbn [keys]. intros l'. apply (k_keys s I).
    + (* Forget *) apply ticket_node; [exact I|auto|]. exact (H0 A8).
    + (* Register *) apply ticket_node; [exact I|auto|]. cbn [keys]. intros l'. apply (k_keys s I).
Qed.

Lemma reachable_tickets s : reachable C s -> order_invariant C s /\ ticket_invariant s.
Proof.
  induction 1 as [s H|s s' R [O T] M]; [split; [apply initial_order|apply initial_tickets]; assumption|].
  split; [eapply move_keeps_order|eapply move_keeps_tickets]; eassumption.
Qed.

(** * Theorems *)

(** When a redemption began that succeeds, no lease with a larger token than the ticket had been granted. *)
Theorem a_redemption_excludes_later_leases s l a p le l' le' :
  reachable C s -> attempts (all_clients s) l = Some a -> attempt_proof a = Some p ->
  leases (all_clients s) l = Some le -> In l' (granted_before a) -> leases (all_clients s) l' = Some le' ->
  token le' <= p.
Proof.
  intros R Ha Hp Hl Hin Hl'. destruct (reachable_tickets s R) as [O I].
  destruct (k_leases s I l) as (a' & q & A & Q & V); [congruence|]. replace a' with a in * by congruence.
  assert (T : token_of (all_clients s) l' = Some (token le')) by (unfold token_of; rewrite Hl'; reflexivity).
  destruct (o_leases C s O l' _ T) as (q' & Q' & F). destruct (quorums_meet q q' Q Q') as (n & N & N').
  destruct (F n N') as (f & F1 & F2 & F3 & F4). rewrite <- F3.
  apply (k_earlier s I l a p n f Ha Hp (V n N) (conj F1 F4)). rewrite F2. exact Hin.
Qed.

(** Of all redemptions with one proof, at most one succeeds. *)
Theorem a_ticket_is_redeemed_once s l1 l2 a1 a2 p :
  reachable C s -> attempts (all_clients s) l1 = Some a1 -> attempts (all_clients s) l2 = Some a2 ->
  attempt_proof a1 = Some p -> attempt_proof a2 = Some p ->
  leases (all_clients s) l1 <> None -> leases (all_clients s) l2 <> None -> l1 = l2.
Proof.
  intros R H1 H2 P1 P2 L1 L2. destruct (reachable_tickets s R) as [_ I].
  destruct (k_leases s I l1 L1) as (a & q & A & Q & V). destruct (k_leases s I l2 L2) as (a' & q' & A' & Q' & V').
  replace a with a1 in * by congruence. replace a' with a2 in * by congruence.
  destruct (quorums_meet q q' Q Q') as (n & N & N').
  apply (k_one s I l1 l2 a1 a2 p n); auto.
Qed.

End Tickets.
