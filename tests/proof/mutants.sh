#!/usr/bin/env bash
# Breaks one rule at a time. With a rule of the model or of the trace checker broken, the proof must fail. With a rule of
# the executable node broken, the comparison with the pure node must find steps that differ. Needs the steps of the pure
# node that `run.sh` writes, so `run.sh` has to run before, without `--without-rust`.
#
# A premise is replaced by `True` and not removed, so that a proof does not fail only because names shift.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

source compile.sh
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
steps=$target/proof/whole.steps
if [[ ! -s $steps ]]; then
    echo "$steps does not exist or is empty: run tests/proof/run.sh first, without --without-rust" >&2
    exit 1
fi
work=$target/proof-mutants
rm -rf "$work"
mkdir -p "$work"
survivors=0

# mutant FILE OLD NEW [TIMES]: prepares a copy of the proof in which OLD is replaced by NEW in FILE, at the first place,
# or at all TIMES places.
mutant() {
    local file=$1 old=$2 new=$3 times=${4:-1} text rest
    rm -rf "$work/copy"
    mkdir "$work/copy"
    cp ./*.v ./*.ml "$work/copy"
    text=$(<"$file.v")
    rest=${text//"$old"/}
    if (((${#text} - ${#rest}) / ${#old} < times)); then
        echo "$file.v does not contain $times times: $old" >&2
        exit 1
    fi
    if ((times == 1)); then text=${text/"$old"/"$new"}; else text=${text//"$old"/"$new"}; fi
    printf '%s\n' "$text" >"$work/copy/$file.v"
}

# model NAME FILE OLD NEW [TIMES]: the proof must fail, after the model has compiled.
model() {
    local name=$1 file
    mutant "${@:2}"
    compile "$work/copy" Model >"$work/log" 2>&1 || {
        cat "$work/log"
        echo "model: $name: the broken model does not compile" >&2
        exit 1
    }
    for file in Exclusion Tokens Tickets Majority; do
        if ! compile "$work/copy" "$file" >"$work/log" 2>&1; then
            echo "model: $name: the proof fails, $file.v, $(grep -m 1 -o 'line [0-9]*' "$work/log")"
            return
        fi
    done
    echo "model: $name: THE PROOF STILL PASSES"
    survivors=$((survivors + 1))
}

# executable NAME OLD NEW: steps must differ.
executable() {
    local name=$1 result
    mutant Node "${@:2}"
    compile "$work/copy" Model
    compile "$work/copy" Node
    build_compare "$work/copy" >"$work/log" 2>&1
    if result=$("$work/copy/compare" "$steps"); then
        echo "node: $name: NO STEP DIFFERS"
        survivors=$((survivors + 1))
    else
        echo "node: $name: $(tail -n 1 <<<"$result")"
    fi
}

# checker NAME OLD NEW: the checker must not be proved right.
checker() {
    local name=$1 file
    mutant Trace "${@:2}"
    for file in Model Exclusion Tokens Majority; do cp "$target/proof/$file.vo" "$work/copy"; done
    if compile "$work/copy" Trace >"$work/log" 2>&1; then
        echo "checker: $name: THE PROOF STILL PASSES"
        survivors=$((survivors + 1))
    else
        echo "checker: $name: the proof fails, Trace.v, $(grep -m 1 -o 'line [0-9]*' "$work/log")"
    fi
}

# Nodes that may have forgotten.
model "renewals count at once after a loss" Model 'quarantine_is_over n renewals_wait' 'quarantine_is_over n (-1)'
model "votes wait no longer than renewals" Model 'quarantine_is_over n (quarantine_lasts C)' 'quarantine_is_over n (Z.min (renewals_after C) (quarantine_lasts C))'
model "the quarantine is shorter than a ttl" Exclusion 'max_ttl C <= quarantine_lasts C' 'max_ttl C - 1 <= quarantine_lasts C'
model "a registration sets any minimum token" Model 'is_above_confirmed c n m ->' 'True ->'
model "a lost counter begins at any number" Model 'is_above_confirmed c n v ->' 'True ->'
# Clients.
model "a renewal counts after the end of the lease" Model 'client_clock C (round_lease r) t < valid_until le ->' 'True ->'
model "an attempt has no timeout" Model 'client_clock C l t - client_clock C l (attempt_start a) <= attempt_timeout C ->' 'True ->'
model "the validity begins with the grant" Model 'until <= client_clock C l (attempt_start a) + validity C (attempt_ttl a) ->' 'until <= client_clock C l t + validity C (attempt_ttl a) ->'
model "a grant needs no confirmations" Model '/\ has_confirmed c l T n) ->' '/\ True) ->'
model "a grant needs no votes" Model 'has_answered c (lock_round l a) n /\ has' 'True /\ has'
model "a lease id is used again" Model 'attempts c l = None -> ~ ended c l ->' 'True -> True ->'
model "unlocks are sent while the lease is held" Model 'ended c l -> keys x l <> None ->' 'leases c l <> None -> keys x l <> None ->'
model "the validity rule has half of the drift" Exclusion '(unit - 2 * error) * ttl - unit * step.' '(unit - error) * ttl - unit * step.'
model "half of the nodes are a quorum" Majority 'Hypothesis majority : (N < 2 * needed)%nat.' 'Hypothesis majority : (N <= 2 * needed)%nat.'
# Nodes.
model "an unlock deletes the key of any lease" Model 'ended c l -> keys x l <> None ->' 'True -> keys x l <> None ->'
model "a lock takes the key of another lease" Model 'is_free_for n t x l -> is_vote' 'True -> is_vote'
model "a renewal takes the key of another lease" Model 'is_free_for n t x (round_lease r) ->' 'True ->' 2
model "a request shortens a ttl" Model 'forall e0, keys x l = Some e0 -> is_live n t (keys x l) -> e0 <= e)' 'forall e0, keys x l = Some e0 -> is_live n t (keys x l) -> True)'
model "a new vote repeats the counter" Model 'v > counter x /\ v > minimum_token x' 'v >= counter x /\ v > minimum_token x'
model "a new vote ignores the minimum token" Model 'v > counter x /\ v > minimum_token x' 'v > counter x /\ True'
model "a vote below the minimum token is given again" Model 'v = counter x /\ minimum_token x <= v' 'v = counter x /\ True'
model "a write-back does not check the lease id" Model 'is_live n t (keys x l) -> bound_of_write_back x l <= T ->' 'True -> bound_of_write_back x l <= T ->'
model "a write-back does not check the counter" Model 'bound_of_write_back x l <= T ->' 'True ->'
model "a write-back does not check the minimum token" Model 'minimum_token x <= T ->' 'True ->'
model "a renewal lowers the counter" Model 'counter x <= v ->' 'True ->' 2
# Readers.
model "a reader conflicts with no lease" Model '(reads C a = false \/ reads C b = false)' '(reads C a = false /\ reads C b = false)'
model "a reader joins a run with any vote" Model 'phase x <= v /\ minimum_token x <= v' 'True /\ minimum_token x <= v'
model "a write-back of a reader does not check the phase" Model 'if reads C l then phase x else counter x' 'if reads C l then minimum_token x else counter x'
model "a renewal begins a run at a token that is not proven" Model 'p = token le /\ counter x <= p' 'p = token le /\ True'
model "a run that begins keeps the phase of the run before" Model '(reads C l = true -> has_readers n t x) \/
  p = v' 'True \/
  p = v'
# Tickets.
model "a redemption does not check the counter" Model 'counter x <= p /\ minimum_token x <= p /\ (counters' 'True /\ minimum_token x <= p /\ (counters'
model "a redemption votes at or below the proof" Model '(counters_are_kept C -> p < v)' 'True'

# The trace checker, and the executable node.
checker "an attempt with the lease id of an earlier attempt" '    | Some _ => None
    | None => if_' '    | _ => if_'
checker "a minority is a quorum" '(needed <=? length' '(needed - 1 <=? length'
checker "a node counts twice" 'filter f (seq 0 N)' 'filter f (seq 0 N ++ seq 0 N)'
checker "a lease needs no votes" 'answered_by c (lock_round l a) n && confirmed_by' 'true && confirmed_by'
checker "a lease needs no confirmations" '&& confirmed_by c l T n)' '&& true)'
checker "an attempt has no timeout" '(clock l t - clock l (attempt_start a) <=? timeout)' 'true'
checker "a validity may begin with the grant" '(until <=? clock l (attempt_start a) +' '(until <=? clock l t +'
checker "a lease is granted after its validity" '&& (clock l t <? until))' '&& true)'
checker "a lease is granted after its end" 'if_ (negb (over l) &&
          has_quorum' 'if_ (true &&
          has_quorum'
checker "a renewal begins after the end" 'if_ (negb (over l) && is_ttl ttl) (set_renewals' 'if_ (true && is_ttl ttl) (set_renewals'
checker "a renewal counts after the validity" '(clock l t <? valid_until le))' 'true)'
checker "a renewal counts the answers to the round before" 'find (allows c l until) (renewals c)' 'find (allows c l until) (map (fun r => {| round_lease := round_lease r; round_start := t; round_ttl := round_ttl r; is_attempt := false |}) (renewals c))'
checker "answers are of any round" 'is_round (answer_round a) r) (answers c)' 'true) (answers c)'
checker "a renewal is answered before it begins" 'if_ (existsb (is_answered l ttl) (renewals c)) (fold_right (fun r c => add_answer c r n t) c
      (filter (fun r => is_answered l ttl r && negb (answered_by c r n)) (renewals c)))' 'Some (add_answer c {| round_lease := l; round_start := t; round_ttl := ttl; is_attempt := false |} n t)'
checker "a key is deleted before the end of its lease" '| Unlocked l _ => if_ (over l) c' '| Unlocked l _ => if_ true c'
checker "time goes back" 'if t <? at_time s then None else' ''
executable "a key expires a millisecond early" 'e <? t.' 'e <=? t.'
executable "a renewal takes the key of another lease" 'if is_of_another shares t x l then (x, Held) else
    let is_proven' 'let is_proven'
executable "a write-back does not check the lease id" 'if is_ours shares t x l && (minimum' 'if true && (minimum'
executable "a write-back does not check the minimum token" '&& (minimum_token_of x <=? T) && (bound' '&& (bound'
executable "a missing counter begins at zero" '| None => value_or value (start_of t) end in' '| None => value_or value 0 end in'
executable "a renewal lowers the counter" '| Some v => Z.max v T' '| Some v => T'
executable "a lock shortens the ttl" 'Some (_, _, e) => Z.max e (t + ttl)' 'Some (_, _, e) => t + ttl'
executable "the minimum token is of this second" '(t / 1000 + 1) * 1000000' '(t / 1000) * 1000000'
executable "a vote below the minimum token is given again" 'Some v => if m <=? v then (v, true)' 'Some v => if true then (v, true)'
executable "the ttl of a counter is not prolonged" 'if p_counter_ttl p <=? e - t then e else fresh' 'e'
executable "a rest extends the ttl" 'Z.min e (t + r)' 't + r'
executable "a redemption does not check the counter" 'match value t x with Some v => v <=? T | None => false end.' 'true.'
executable "a transfer without a proof needs the key" 'negb (is_ours shares t x l) && negb (is_given && proves x t T)
                      | None => false' 'negb (is_ours shares t x l) && negb (is_given && proves x t T)
                      | None => negb is_given'
executable "a transfer ignores the tombstone of the earlier lease" '(negb (is_ours shares t x l) && has_tombstone t x from)' 'false'
executable "a sweep keeps expired keys" 'd_lock := held t x;' 'd_lock := d_lock x;'
executable "a reader takes the key of a writer" '&& negb (shares l && match readers with Some _ => true | None => false end)' '&& negb (shares l)'
executable "a reader that joins gets the phase" 'match readers with Some (_, epoch, _) => Some epoch' 'match readers with Some (phase, _, _) => Some phase'
executable "a run does not raise its epoch" '(phase, Z.max before epoch, (l, e)' '(phase, before, (l, e)'
executable "the key of readers ends with the reader that came last" '(l, e) :: others, latest e others)' '(l, e) :: others, e)'
executable "an expired reader stays in the run" 'let others := without l (live ends) in' 'let others := without l ends in'
executable "the unlock of a reader is for all readers" 'Some (Readers, 0, latest e others), Some' 'None, Some'
executable "the last reader keeps the key" '| Some _, [] => (true, None, None)' '| Some _, [] => (true, d_lock x, None)'
executable "a write-back of a reader is compared with the counter" 'match readers t x with Some (phase, _, _) => phase | None => start_of t end' 'counter'
executable "a write-back of a reader lowers the counter" '(if shares l then Z.max counter T else T)' 'T'
executable "a write-back does not raise the epoch" 'Some (phase, Z.max epoch T, ends)' 'Some (phase, epoch, ends)'
executable "a renewal of a reader is proven by the counter" 'if shares l then (minimum_token_of x <=? T) && (phase <=? T) else' ''
executable "a renewal begins a run at a token that is not proven" 'if begins && negb is_proven then Z.min' 'if false then Z.min'

if ((survivors)); then
    echo "$survivors broken rules were not found"
    exit 1
fi
echo "every broken rule was found"
