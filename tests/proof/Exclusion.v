(** P1 (docs/GUARANTEES.md, "P1: exclusion"): two leases that conflict are never valid at the same instant.

    Only a grant can make a second lease valid, because a renewal counts only inside the validity of its lease. A grant
    needs the votes of a quorum, which shares a node with the quorum of any other valid lease. So the argument is about
    two answers of one node. *)
From Coq Require Import ZArith List Lia.
From Redquorum Require Import Model.
Import ListNotations.
Open Scope Z_scope.

Section Exclusion.
Variable C : configuration.

(** * Assumptions *)

(** A5 and A6: two quorums share a node. [Majority.majorities_meet] proves this for majorities of the same nodes. *)
Hypothesis quorums_meet : forall q1 q2, is_quorum C q1 -> is_quorum C q2 -> exists n, In n q1 /\ In n q2.

(** The rate of a clock is wrong by at most [error / unit], which is half of the setting [drift]. *)
Variables unit error : Z.
Hypothesis error_is_small : 0 <= error < unit.

(** A1 and A3: the clock of a client is not too slow, and continues while the client stands still. *)
Hypothesis client_clocks : forall l t1 t2, t1 <= t2 ->
  unit * (client_clock C l t2 - client_clock C l t1) >= (unit - error) * (t2 - t1).

(** A1 and A2: in any time that is not longer than [span], the clock of a node is not too fast, and all its steps
    forward come to at most [step]. The granularity of the clock is a part of [step]. *)
Variables step span : Z.
Hypothesis step_is_positive : 0 <= step.
Hypothesis node_clocks : forall n t1 t2, t1 <= t2 -> t2 - t1 <= span ->
  unit * (node_clock C n t2 - node_clock C n t1) <= (unit + error) * (t2 - t1) + unit * step.

(** [span] is at least the real time of a lease and of an attempt, by the slowest clock of a client. *)
Hypothesis span_of_lease : unit * max_ttl C <= (unit - error) * span.
Hypothesis span_of_attempt : unit * attempt_timeout C <= (unit - error) * span.

(** The rules of src/algorithm/validity.rs. [Majority] proves them for the formulas of that file. *)
Hypothesis validity_rule : forall ttl, 0 <= ttl ->
  unit * validity C ttl <= (unit - 2 * error) * ttl - unit * step.
Hypothesis quarantine_rule : max_ttl C <= quarantine_lasts C.
Hypothesis renewals_rule :
  (unit + error) * attempt_timeout C + (unit - error) * step <= (unit - error) * renewals_after C.

(** * The timing rule *)

Lemma client_clock_grows l t1 t2 : t1 <= t2 -> client_clock C l t1 <= client_clock C l t2.
Proof. intros H. pose proof (client_clocks l _ _ H). nia. Qed.

(** While the client counts the validity of a ttl, from before the key was written, no clock of a node counts more than
    the ttl (docs/GUARANTEES.md, "The timing rule"). *)
Lemma timing_rule l n start written t ttl :
  0 <= ttl <= max_ttl C -> start <= written -> written <= t ->
  client_clock C l t < client_clock C l start + validity C ttl ->
  node_clock C n t <= node_clock C n written + ttl.
Proof.
  intros [Httl Hmax] Hs Ht Hv.
  pose proof (client_clocks l start t ltac:(lia)) as K.
  pose proof (validity_rule ttl Httl) as W.
  assert (A : (unit - error) * (t - start) <= (unit - 2 * error) * ttl - unit * step) by nia.
  assert (S : t - written <= span).
  { assert (X : (unit - error) * (t - start) <= (unit - error) * span) by nia.
    apply Z.mul_le_mono_pos_l in X; lia. }
  pose proof (node_clocks n written t Ht S) as N.
  assert (E : (unit - error) * (unit * (node_clock C n t - node_clock C n written))
      <= (unit - error) * ((unit + error) * (t - start) + unit * step)).
  { apply Z.mul_le_mono_nonneg_l; [lia|]. nia. }
  assert (B : (unit + error) * ((unit - error) * (t - start))
      <= (unit + error) * ((unit - 2 * error) * ttl - unit * step)) by
    (apply Z.mul_le_mono_nonneg_l; lia).
  assert (F : (unit - error) * (unit * (node_clock C n t - node_clock C n written)) <= (unit - error) * (unit * ttl)).
  { assert (0 <= error * error * ttl) by (apply Z.mul_nonneg_nonneg; nia).
    assert (0 <= error * (unit * step)) by (apply Z.mul_nonneg_nonneg; nia). nia. }
  assert (G : unit * (node_clock C n t - node_clock C n written) <= unit * ttl) by
    (apply Z.mul_le_mono_pos_l with (p := unit - error); lia).
  assert (node_clock C n t - node_clock C n written <= ttl) by (apply Z.mul_le_mono_pos_l with (p := unit); lia).
  lia.
Qed.

(** When the clock of a node has counted [renewals_after], every attempt that had begun before is decided. *)
Lemma attempts_are_decided l n start e b :
  start <= e -> e <= b -> node_clock C n b > node_clock C n e + renewals_after C ->
  client_clock C l b - client_clock C l start > attempt_timeout C.
Proof.
  intros Hs He Hq.
  pose proof (client_clocks l start b ltac:(lia)) as K.
  destruct (Z_le_gt_dec (b - e) span) as [S|S].
  2:{ assert (X : (unit - error) * span < (unit - error) * (b - start)) by (apply Z.mul_lt_mono_pos_l; lia).
      assert (Y : unit * attempt_timeout C < unit * (client_clock C l b - client_clock C l start)) by lia.
      apply Z.mul_lt_mono_pos_l in Y; lia. }
  pose proof (node_clocks n e b He S) as N.
  assert (N' : unit * renewals_after C < (unit + error) * (b - start) + unit * step) by nia.
  assert (A : (unit - error) * (unit * renewals_after C)
      < (unit - error) * ((unit + error) * (b - start) + unit * step)) by
    (apply Z.mul_lt_mono_pos_l; lia).
  assert (B : (unit + error) * ((unit - error) * (b - start))
      <= (unit + error) * (unit * (client_clock C l b - client_clock C l start))) by
    (apply Z.mul_le_mono_nonneg_l; lia).
  assert (R : unit * ((unit + error) * attempt_timeout C + (unit - error) * step)
      <= unit * ((unit - error) * renewals_after C)) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (F : unit * ((unit + error) * attempt_timeout C)
      < unit * ((unit + error) * (client_clock C l b - client_clock C l start))) by nia.
  apply Z.mul_lt_mono_pos_l in F; [|lia]. apply Z.mul_lt_mono_pos_l in F; lia.
Qed.

(** * Invariants *)

(** The clock of the node has passed the end of a key that was written at [written] for [ttl]. *)
Definition has_expired (n : node) (written ttl t : Z) : Prop :=
  exists t', written <= t' <= t /\ node_clock C n t' > node_clock C n written + ttl.

(** The node may have forgotten what it answered at [written]. *)
Definition has_forgotten (g : guard) (written : Z) : Prop :=
  match g with Intact => False | Forgot e => written <= e | Registered e => written <= e end.

(** What is true of an answer from then on: the lease has ended, its key has expired, the node may have forgotten the
    key, or the node has the key. *)
Definition is_kept (s : state) (x : answer) : Prop :=
  let r := answer_round x in let n := answer_node x in
  ended (all_clients s) (round_lease r) \/
  has_expired n (answer_time x) (round_ttl r) (now s) \/
  has_forgotten (restart_guard (nodes s n)) (answer_time x) \/
  exists e, keys (nodes s n) (round_lease r) = Some e /\ node_clock C n (answer_time x) + round_ttl r <= e.

(** Why a node could give the answer [y] after the answer [x] of a conflicting lease: the lease of [x] has ended, its
    key has expired, or the node registered again in between, and a quarantine was over before the vote [y], or
    [renewals_wait] before the renewal [y]. *)
Definition is_before (s : state) (x y : answer) : Prop :=
  let n := answer_node x in let a := answer_time x in let b := answer_time y in
  a <= b /\
  (ended (all_clients s) (round_lease (answer_round x)) \/
   has_expired n a (round_ttl (answer_round x)) b \/
   exists e e', a <= e /\ e <= e' <= b /\
     node_clock C n e' > node_clock C n e +
       (if is_attempt (answer_round y) then quarantine_lasts C else renewals_wait C)).

(** Every two answers of one node to conflicting leases are in this relation. The newest answer is the first. *)
Fixpoint are_in_order (s : state) (l : list answer) : Prop :=
  match l with
  | [] => True
  | y :: l' =>
      (forall x, In x l' -> answer_node x = answer_node y ->
         conflict C (round_lease (answer_round x)) (round_lease (answer_round y)) -> is_before s x y) /\
      are_in_order s l'
  end.

(** A round that a client has begun. *)
Definition is_begun (s : state) (r : round) : Prop :=
  0 <= round_ttl r <= max_ttl C /\ round_start r <= now s.

Record invariant (s : state) : Prop := mk_invariant {
  i_attempts : forall l a, attempts (all_clients s) l = Some a -> is_begun s (lock_round l a);
  i_renewals : forall r, In r (renewals (all_clients s)) -> is_attempt r = false /\ is_begun s r;
  i_answers : forall x, In x (answers (all_clients s)) ->
    is_begun s (answer_round x) /\ round_start (answer_round x) <= answer_time x <= now s;
  i_kept : forall x, In x (answers (all_clients s)) -> is_kept s x;
  i_order : are_in_order s (answers (all_clients s));
  i_leases : forall l le, leases (all_clients s) l = Some le ->
    valid_until le <= client_clock C l (lease_start le) + validity C (lease_ttl le) /\
    0 <= lease_ttl le <= max_ttl C /\
    exists q b, is_quorum C q /\ forall n, In n q -> has_answered (all_clients s)
      {| round_lease := l; round_start := lease_start le; round_ttl := lease_ttl le; is_attempt := b |} n;
  i_guards : forall n, match restart_guard (nodes s n) with Intact => True | Forgot e | Registered e => e <= now s end;
  i_exclusion : forall l1 l2, conflict C l1 l2 -> is_valid C s l1 -> is_valid C s l2 -> False }.

(** ** Lemmas about the invariants *)

Lemma in_order_mono s s' l : (forall i, ended (all_clients s) i -> ended (all_clients s') i) ->
  are_in_order s l -> are_in_order s' l.
Proof.
  intros Hd. induction l as [|y l IH]; simpl; [auto|]. intros [H1 H2]. split; [|auto].
  intros x Hx Hn Ho. destruct (H1 x Hx Hn Ho) as [Hab H]. split; [assumption|].
  destruct H as [H|[H|H]]; auto.
Qed.

Lemma two_answers s l x y : are_in_order s l -> In x l -> In y l -> answer_node x = answer_node y ->
  conflict C (round_lease (answer_round x)) (round_lease (answer_round y)) -> is_before s x y \/ is_before s y x.
Proof.
  induction l as [|z l IH]; simpl; [tauto|]. intros [H1 H2] Hx Hy Hn Ho.
  destruct Hx as [->|Hx], Hy as [->|Hy].
  - destruct Ho. congruence.
  - right. apply H1; auto using conflict_sym.
  - left. apply H1; auto.
  - auto.
Qed.

Lemma expired_mono n a ttl t t' : t <= t' -> has_expired n a ttl t -> has_expired n a ttl t'.
Proof. intros H (u & A & B). exists u. split; lia. Qed.

(** While a lease is valid, no key of its last complete round has expired. *)
Lemma no_key_has_expired l n start written ttl t :
  0 <= ttl <= max_ttl C -> start <= written ->
  client_clock C l t < client_clock C l start + validity C ttl -> has_expired n written ttl t -> False.
Proof.
  intros Httl Hs Hv (t' & A & B).
  assert (client_clock C l t' < client_clock C l start + validity C ttl) by
    (pose proof (client_clock_grows l t' t); lia).
  pose proof (timing_rule l n start written t' ttl Httl Hs). lia.
Qed.

(** A lock or renewal keeps what is true of all earlier answers. *)
Lemma kept_by_write s n l ttl x' x :
  is_free_for C n (now s) (nodes s n) l -> writes_key C n (now s) (nodes s n) l ttl (keys x') ->
  restart_guard x' = restart_guard (nodes s n) ->
  answer_time x <= now s -> is_kept s x ->
  is_kept {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |} x.
Proof.
  intros Hf ((e' & He' & He & Hl) & Hc & Hk) Hg Ht K. unfold is_kept in *. cbn [now nodes all_clients].
  destruct (update_cases (nodes s) n (answer_node x) x') as [[E ->]|[E ->]]; [|exact K].
  subst n. rewrite Hg. destruct K as [K|[K|[K|(e & K & K')]]]; [tauto|tauto|tauto|].
  set (m := round_lease (answer_round x)) in *.
  destruct (Z_lt_le_dec e (node_clock C (answer_node x) (now s))) as [L|L].
  { right. left. exists (now s). split; lia. }
  destruct (Nat.eq_dec m l) as [E|E].
  - right. right. right. exists e'. rewrite E in *. split; [exact He'|]. specialize (Hl e K).
    rewrite K in Hl. cbn in Hl. lia.
  - destruct (conflict_dec C l m) as [D|D].
    + exfalso. apply (Hf m D). rewrite K. exact L.
    + right. right. right. exists e. split; [|exact K']. rewrite (Hk m E D). exact K.
Qed.

(** Why a node can answer now. *)
Lemma before_now s n r x length :
  quarantine_is_over C n length (restart_guard (nodes s n)) (now s) ->
  length = (if is_attempt r then quarantine_lasts C else renewals_wait C) ->
  is_free_for C n (now s) (nodes s n) (round_lease r) ->
  answer_time x <= now s -> is_kept s x -> answer_node x = n ->
  conflict C (round_lease (answer_round x)) (round_lease r) ->
  is_before s x {| answer_round := r; answer_node := n; answer_time := now s |}.
Proof.
  intros Hq -> Hf Ht K <- Hc. unfold is_before, is_kept in *. cbn [answer_round answer_time answer_node].
  split; [assumption|]. destruct K as [K|[K|[K|(e & K & K')]]]; [tauto|tauto| |].
  - right. right. unfold quarantine_is_over, has_forgotten in *.
    destruct (restart_guard (nodes s (answer_node x))) as [|e|e]; [tauto|tauto|].
    destruct Hq as (t' & H1 & H2). exists e, t'. repeat split; lia.
  - right. left. exists (now s). split; [lia|].
    pose proof (Hf _ (conflict_sym C _ _ Hc)) as L. rewrite K in L. cbn in L. lia.
Qed.

Lemma answered_mono c c' r n : incl (answers c) (answers c') -> has_answered c r n -> has_answered c' r n.
Proof. intros H (a & A & B). exists a. auto. Qed.

(** A grant excludes every valid lease that conflicts. *)
Lemma grant_excludes s l a until q l' :
  invariant s -> attempts (all_clients s) l = Some a -> ~ ended (all_clients s) l -> is_quorum C q ->
  (forall n, In n q -> has_answered (all_clients s) (lock_round l a) n) ->
  client_clock C l (now s) - client_clock C l (attempt_start a) <= attempt_timeout C ->
  until <= client_clock C l (attempt_start a) + validity C (attempt_ttl a) ->
  client_clock C l (now s) < until ->
  is_valid C s l' -> conflict C l l' -> False.
Proof.
  intros I Hat Hd Hq Hans HAT Hu Hnow (le & Hl & Hd' & Hv') Hne.
  destruct (i_leases s I l' le Hl) as (Hl1 & Hl2 & q' & b & Hq' & Hans').
  destruct (quorums_meet q q' Hq Hq') as (n & Hn & Hn').
  destruct (Hans n Hn) as (x & Hx & Hxr & Hxn).
  destruct (Hans' n Hn') as (y & Hy & Hyr & Hyn).
  destruct (i_attempts s I l a Hat) as (Httl & Hst). cbn in Httl, Hst.
  destruct (i_answers s I x Hx) as (_ & Hxt). destruct (i_answers s I y Hy) as (_ & Hyt).
  rewrite Hxr in Hxt. rewrite Hyr in Hyt. cbn in Hxt, Hyt.
  destruct (two_answers s _ x y (i_order s I) Hx Hy) as [[Hab H]|[Hab H]];
    rewrite ?Hxn, ?Hyn, ?Hxr, ?Hyr in *; cbn in *; try congruence; try assumption.
  - (* the vote for [l] came first *)
    destruct H as [H|[H|(e & e' & He1 & He2 & H)]]; [tauto| |].
    + apply (no_key_has_expired l n (attempt_start a) (answer_time x) (attempt_ttl a) (now s)); try lia.
      eapply expired_mono; [|eassumption]. lia.
    + destruct b.
      * assert (B : client_clock C l e' < client_clock C l (attempt_start a) + validity C (attempt_ttl a)) by
          (pose proof (client_clock_grows l e' (now s)); lia).
        pose proof (timing_rule l n (attempt_start a) e e' (attempt_ttl a)). lia.
      * pose proof (client_clock_grows l e' (now s)).
        assert (W : renewals_wait C = renewals_after C \/ renewals_wait C = quarantine_lasts C) by
          (unfold renewals_wait; lia).
        destruct W as [W|W]; rewrite W in H.
        -- pose proof (attempts_are_decided l n (attempt_start a) e e'). lia.
        -- pose proof (timing_rule l n (attempt_start a) e e' (attempt_ttl a)). lia.
  - (* the answer for [l'] came first *)
    destruct H as [H|[H|(e & e' & He1 & He2 & H)]]; [tauto| |].
    + apply (no_key_has_expired l' n (lease_start le) (answer_time y) (lease_ttl le) (now s)); try lia.
      eapply expired_mono; [|eassumption]. lia.
    + assert (B : client_clock C l' e' < client_clock C l' (lease_start le) + validity C (lease_ttl le)) by
        (pose proof (client_clock_grows l' e' (now s)); lia).
      pose proof (timing_rule l' n (lease_start le) e e' (lease_ttl le)). lia.
Qed.

(** ** The invariants hold at first, and after every step *)

Lemma initial_invariant s : is_initial s -> invariant s.
Proof.
  intros (Hc & Hn). unfold is_valid. constructor; unfold is_valid; rewrite ?Hc; cbn; try tauto; try discriminate.
  - intros n. destruct (Hn n) as [-> _]. exact I.
  - intros l1 l2 _ (le & E & _). discriminate.
Qed.

(** A step of a node that sends no counted answer. *)
Lemma invariant_node s n x' :
  invariant s ->
  (forall x, In x (answers (all_clients s)) -> answer_node x = n ->
     is_kept {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |} x) ->
  match restart_guard x' with Intact => True | Forgot e | Registered e => e <= now s end ->
  invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |}.
Proof.
  intros I Hk Hg. constructor; cbn [now nodes all_clients].
  - apply I.
  - apply I.
  - apply I.
  - intros x Hx. destruct (Nat.eq_dec n (answer_node x)) as [E|E]; [auto|].
    pose proof (i_kept s I x Hx) as K. unfold is_kept in *. cbn [now nodes all_clients].
    rewrite update_other; assumption.
  - apply (in_order_mono s); [auto|apply I].
  - apply I.
  - intros m. destruct (update_cases (nodes s) n m x') as [[_ ->]|[_ ->]]; [exact Hg|apply I].
  - exact (i_exclusion s I).
Qed.

(** The node does not touch the guard, and changes only keys that have expired, or whose lease has ended. *)
Lemma invariant_keys s n x' :
  invariant s -> restart_guard x' = restart_guard (nodes s n) ->
  (forall l, keys x' l = keys (nodes s n) l \/ ended (all_clients s) l \/
     ~ is_live C n (now s) (keys (nodes s n) l)) ->
  invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |}.
Proof.
  intros I Hg Hk. apply invariant_node; [exact I| |rewrite Hg; apply I].
  intros x Hx Hn. pose proof (i_kept s I x Hx) as K. destruct (i_answers s I x Hx) as (_ & T).
  unfold is_kept in *. cbn [now nodes all_clients].
  subst n. rewrite update_same, Hg. destruct K as [K|[K|[K|(e & K & K')]]]; [tauto|tauto|tauto|].
  destruct (Hk (round_lease (answer_round x))) as [E|[E|E]]; [|tauto|].
  - right. right. right. exists e. rewrite E. auto.
  - right. left. exists (now s). rewrite K in E. cbn in E. split; lia.
Qed.

Lemma invariant_answer s r n length :
  invariant s -> is_begun s r ->
  quarantine_is_over C n length (restart_guard (nodes s n)) (now s) ->
  length = (if is_attempt r then quarantine_lasts C else renewals_wait C) ->
  (forall x, In x (answers (all_clients s)) -> answer_node x = n ->
     conflict C (round_lease (answer_round x)) (round_lease r) ->
     is_before s x {| answer_round := r; answer_node := n; answer_time := now s |}) ->
  (exists e, keys (nodes s n) (round_lease r) = Some e /\ node_clock C n (now s) + round_ttl r <= e) ->
  invariant {| now := now s; nodes := nodes s; all_clients := add_answer (all_clients s) r n (now s) |}.
Proof.
  intros I Hr Hm Hlen Hap Hkey. constructor; cbn [now nodes all_clients add_answer set_answers answers attempts renewals leases].
  - apply I.
  - apply I.
  - intros x [<-|Hx].
    + cbn. split; [exact Hr|]. destruct Hr. lia.
    + apply I in Hx. exact Hx.
  - intros x [<-|Hx].
    + right. right. right. cbn. exact Hkey.
    + exact (i_kept s I x Hx).
  - split; [exact Hap|]. apply (in_order_mono s); [auto|apply I].
  - intros l le Hl. destruct (i_leases s I l le Hl) as (A & B & q & b & Hq & H).
    split; [exact A|]. split; [exact B|]. exists q, b. split; [exact Hq|]. intros m Hmq.
    eapply answered_mono; [|apply H; exact Hmq]. intros x Hx. right. exact Hx.
  - apply I.
  - exact (i_exclusion s I).
Qed.

Lemma invariant_confirmation s l T n : invariant s ->
  invariant {| now := now s; nodes := nodes s; all_clients := add_confirmation (all_clients s) l T n |}.
Proof.
  intros I. constructor; cbn [now nodes all_clients]; try apply I.
  apply (in_order_mono s); [auto|apply I].
Qed.

(** A node executes a lock or renewal, and the client counts the answer. *)
Lemma invariant_write s n r x' length :
  invariant s -> is_begun s r ->
  quarantine_is_over C n length (restart_guard (nodes s n)) (now s) ->
  length = (if is_attempt r then quarantine_lasts C else renewals_wait C) ->
  is_free_for C n (now s) (nodes s n) (round_lease r) ->
  writes_key C n (now s) (nodes s n) (round_lease r) (round_ttl r) (keys x') ->
  restart_guard x' = restart_guard (nodes s n) ->
  invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |} /\
  invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := add_answer (all_clients s) r n (now s) |}.
Proof.
  intros I Hr Hm Hlen Hf Hk Hg.
  assert (I1 : invariant {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |}).
  { apply invariant_node; [exact I| |rewrite Hg; apply I].
    intros x Hx _. eapply kept_by_write; eauto; [apply I in Hx; lia|apply I; exact Hx]. }
  split; [exact I1|].
  apply (invariant_answer {| now := now s; nodes := update (nodes s) n x'; all_clients := all_clients s |} r n length);
    cbn [now nodes all_clients]; rewrite ?update_same, ?Hg; auto.
  - intros x Hx Hn Hc. apply (before_now s n r x length); auto; apply I; exact Hx.
  - destruct Hk as ((e & A & B & _) & _). exists e. auto.
Qed.

Theorem move_keeps_invariant s s' : invariant s -> move C s s' -> invariant s'.
Proof.
  intros I Hm. destruct Hm as [t Ht|c Hm|n x' c Hm].
  - (* Tick *)
    constructor; cbn [now nodes all_clients].
    + intros l a H. destruct (i_attempts s I l a H). split; cbn in *; lia.
    + intros r H. destruct (i_renewals s I r H) as (A & B & D). split; [exact A|]. split; cbn in *; lia.
    + intros x H. destruct (i_answers s I x H) as ((A & B) & D). split; [split|]; cbn in *; lia.
    + intros x H. pose proof (i_kept s I x H) as K. unfold is_kept in *. cbn [now nodes all_clients].
      destruct K as [K|[K|[K|K]]]; auto. right. left. eapply expired_mono; eauto.
    + apply (in_order_mono s); [auto|apply I].
    + apply I.
    + intros n. pose proof (i_guards s I n). destruct (restart_guard (nodes s n)); lia.
    + assert (V : forall l, is_valid C {| now := t; nodes := nodes s; all_clients := all_clients s |} l ->
        is_valid C s l).
      { intros l (le & A & B & D). exists le. cbn in A, B, D. pose proof (client_clock_grows l _ _ Ht).
        repeat split; auto. lia. }
      intros l1 l2 Hc V1 V2. exact (i_exclusion s I l1 l2 Hc (V _ V1) (V _ V2)).
  - (* a step of a client *)
    destruct Hm as [l ttl proof H H0 H1|l T H H0|l a T until q H H0 H1 H2 H3 H4 H5 H6 H7|l ttl H H0 H1
      |r le until q H H0 H1 H2 H3 H4 H5|l].
    + (* BeginAttempt *)
      constructor; cbn [now nodes all_clients set_attempts attempts renewals answers leases]; try apply I.
      * intros l' a. destruct (update_cases (attempts (all_clients s)) l l'
          (Some {| attempt_start := now s; attempt_ttl := ttl; attempt_proof := proof;
            granted_before := granted (all_clients s) |}))
          as [[_ ->]|[_ ->]]; [|apply I].
        intros [= <-]. split; cbn; lia.
      * apply (in_order_mono s); [auto|apply I].
    + (* FixToken *)
      constructor; cbn [now nodes all_clients]; try apply I.
      apply (in_order_mono s); [auto|apply I].
    + (* Grant *)
      assert (Hans : forall n, In n q -> has_answered (all_clients s) (lock_round l a) n) by
        (intros n Hn; apply H4; exact Hn).
      constructor; cbn [now nodes all_clients set_granted set_leases attempts renewals answers leases]; try apply I.
      * apply (in_order_mono s); [auto|apply I].
      * intros l' le. match goal with |- update _ _ ?v _ = _ -> _ =>
          destruct (update_cases (leases (all_clients s)) l l' v) as [[-> ->]|[_ ->]] end; [|apply I].
        intros [= <-]. cbn. split; [assumption|]. split; [apply (i_attempts s I l' a H)|].
        exists q, true. split; [assumption|]. exact Hans.
      * match goal with |- forall l1 l2, _ -> is_valid _ ?s' _ -> _ =>
          assert (V : forall l', l <> l' -> is_valid C s' l' -> is_valid C s l') end.
        { intros l' Hne (le & A & B & D). cbn in A, B, D. rewrite update_other in A by assumption.
          exists le. auto. }
        intros l1 l2 Hc V1 V2.
        destruct (Nat.eq_dec l l1) as [E1|E1], (Nat.eq_dec l l2) as [E2|E2].
        -- destruct Hc. congruence.
        -- subst l1. eapply (grant_excludes s l a until q l2); eauto.
        -- subst l2. apply (grant_excludes s l a until q l1); eauto using conflict_sym.
        -- apply (i_exclusion s I l1 l2); auto.
    + (* BeginRenewal *)
      constructor; cbn [now nodes all_clients set_renewals attempts renewals answers leases]; try apply I.
      * intros r [<-|Hr]; [|apply I in Hr; exact Hr]. split; [reflexivity|]. split; cbn; lia.
      * apply (in_order_mono s); [auto|apply I].
    + (* CompleteRenewal *)
      destruct (i_renewals s I r H) as [A B].
      constructor; cbn [now nodes all_clients set_leases attempts renewals answers leases]; try apply I.
      * apply (in_order_mono s); [auto|apply I].
      * intros l' le'. match goal with |- update _ _ ?v _ = _ -> _ =>
          destruct (update_cases (leases (all_clients s)) (round_lease r) l' v) as [[<- ->]|[_ ->]] end; [|apply I].
        intros [= <-]. cbn. split; [assumption|]. split; [apply B|].
        exists q, false. split; [assumption|]. intros n Hn. cbn.
        replace {| round_lease := round_lease r; round_start := round_start r; round_ttl := round_ttl r;
          is_attempt := false |} with r by (destruct r; cbn in *; congruence).
        apply H4. exact Hn.
      * match goal with |- forall l1 l2, _ -> is_valid _ ?s' _ -> _ =>
          assert (V : forall l', is_valid C s' l' -> is_valid C s l') end.
        { intros l' (le' & A' & B' & D'). cbn in A', B', D'.
          match type of A' with update _ _ ?v _ = _ =>
            destruct (update_cases (leases (all_clients s)) (round_lease r) l' v) as [[E E']|[E E']] end;
            rewrite E' in A'.
          - subst l'. exists le. auto.
          - exists le'. auto. }
        intros l1 l2 Hc V1 V2. apply (i_exclusion s I l1 l2 Hc); apply V; assumption.
    + (* End_ *)
      constructor; cbn [now nodes all_clients set_ended attempts renewals answers leases]; try apply I.
      * intros x Hx. pose proof (i_kept s I x Hx) as K. unfold is_kept in *. cbn. tauto.
      * eapply in_order_mono; [|apply I]. cbn. auto.
      * intros l1 l2 Hc (le1 & A1 & B1 & D1) (le2 & A2 & B2 & D2). cbn in *.
        apply (i_exclusion s I l1 l2 Hc); [exists le1|exists le2]; cbn; tauto.
  - (* a step of a node *)
    destruct Hm as [l a v ks p H H0 H1 H2 HP H3 H4|l T H H0 H1 H2 H3|r ks v p H H0 H1 H2 H3 H4|r ks v p H H0 H1 H2 H3
      |l k H H0|l H|v H|ks v m p H H0|m H].
    + (* Lock *)
      pose proof (invariant_write s n (lock_round l a) {| keys := ks; counter := Z.max (counter (nodes s n)) v;
        minimum_token := minimum_token (nodes s n); phase := p; restart_guard := restart_guard (nodes s n) |}
        (quarantine_lasts C)
        I (i_attempts s I l a H) H0 eq_refl H1 H3 eq_refl) as [I1 I2].
      unfold unless_granted. destruct (leases (all_clients s) l); [exact I1|].
      exact (invariant_confirmation _ l v n I2).
    + (* WriteBack *)
      assert (I1 : invariant {| now := now s; nodes := update (nodes s) n {| keys := keys (nodes s n); counter := Z.max (counter (nodes s n)) T;
        minimum_token := minimum_token (nodes s n); phase := phase (nodes s n); restart_guard := restart_guard (nodes s n) |};
        all_clients := all_clients s |}) by (apply invariant_keys; cbn; auto).
      unfold unless_granted. destruct (leases (all_clients s) l); [exact I1|].
      exact (invariant_confirmation _ l T n I1).
    + (* Renew *)
      destruct (i_renewals s I r H) as [A B].
      apply (invariant_write s n r {| keys := ks; counter := v;
        minimum_token := minimum_token (nodes s n); phase := p; restart_guard := restart_guard (nodes s n) |}
        (renewals_wait C)
        I B H0); auto. rewrite A. reflexivity.
    + (* RenewInQuarantine *)
      apply invariant_node; cbn; [exact I| |apply I].
      intros x Hx _. eapply kept_by_write; eauto; cbn; [apply I in Hx; lia|apply I; exact Hx].
    + (* Unlock *)
      apply invariant_keys; cbn; auto. intros l'.
      destruct (update_cases (keys (nodes s n)) l l' k) as [[<- ->]|[_ ->]]; auto.
    + (* Expire *)
      apply invariant_keys; cbn; auto. intros l'.
      destruct (update_cases (keys (nodes s n)) l l' None) as [[<- ->]|[_ ->]]; auto.
    + (* LoseCounter *)
      apply invariant_keys; cbn; auto.
    + (* Forget *)
      apply invariant_node; cbn; [exact I| |lia]. intros x Hx <-. right. right. left. cbn.
      rewrite update_same. cbn. apply I in Hx. lia.
    + (* Register *)
      apply invariant_node; cbn; [exact I| |lia]. intros x Hx <-. right. right. left. cbn.
      rewrite update_same. cbn. apply I in Hx. lia.
Qed.

Lemma reachable_invariant s : reachable C s -> invariant s.
Proof. induction 1; [apply initial_invariant; assumption|eapply move_keeps_invariant; eassumption]. Qed.

(** * Theorems *)

(** P1. Two leases that conflict are never valid at the same instant. *)
Theorem exclusion s l1 l2 : reachable C s -> conflict C l1 l2 -> is_valid C s l1 -> is_valid C s l2 -> False.
Proof. intros R. apply (i_exclusion s (reachable_invariant s R)). Qed.

End Exclusion.

(** A lease that is over never becomes valid again (docs/GUARANTEES.md, "Why leases do not overlap"). Assumed: the
    client's clock does not go back. *)
Theorem a_lease_that_is_over_stays_over C s s' l :
  (forall t1 t2, t1 <= t2 -> client_clock C l t1 <= client_clock C l t2) ->
  move C s s' -> leases (all_clients s) l <> None -> is_valid C s' l -> is_valid C s l.
Proof.
  intros Hclock Hm Hl (le & A & B & D). destruct Hm as [t Ht|c Hm|n x' c Hm]; cbn in A, B, D.
  - exists le. specialize (Hclock _ _ Ht). repeat split; auto. lia.
  - destruct Hm; cbn in A, B, D; try (exists le; auto; fail).
    + destruct (Nat.eq_dec l0 l) as [E|E]; [subst; tauto|].
      rewrite update_other in A by assumption. exists le. auto.
    + destruct (Nat.eq_dec (round_lease r) l) as [E|E].
      * subst l. exists le0. auto.
      * rewrite update_other in A by assumption. exists le. auto.
    + exists le. repeat split; tauto.
  - assert (E : leases c = leases (all_clients s) /\ ended c = ended (all_clients s)).
    { destruct Hm; unfold unless_granted;
        repeat match goal with |- context [match leases ?c ?l with _ => _ end] => destruct (leases c l) end;
        split; reflexivity. }
    destruct E as [E1 E2]. rewrite E1 in A. rewrite E2 in B. exists le. auto.
Qed.
