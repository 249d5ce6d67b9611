(* Reads sequences of operations that src/node/state/tests/sequences.rs wrote with the answers and the data of the pure
   node, executes the operations on the node that was extracted from Node.v, and compares.

   usage: compare FILE        prints the first differences and the number of steps, and fails if a step differs *)
open Node

(* The quorum parameters of the tests of the pure node (src/node/operation/samples.rs). *)
let parameters = { p_max_ttl = 60000; p_counter_ttl = 3600000; p_lasts = 61000; p_renewals_after = 3000 }

let new_node =
  { d_lock = None; d_readers = None; d_counter = None; d_tombstones = []; d_metadata = None; d_quarantine = None; d_incarnation = 0 }

(* As in sequences.rs: the leases above [writers] only read. *)
let leases = [1; 2; 3; 4; 5; 6]
let writers = 3
let shares lease = lease > writers
let max_shown = 5
let or_none text = function None -> "-" | Some value -> text value
let pair = or_none (fun (a, b) -> Printf.sprintf "%d %d" a b)

let text_of = function
  | Granted vote -> Printf.sprintf "granted %d" vote
  | Held -> "held"
  | HasTombstone -> "tombstone"
  | Abstains -> "abstains"
  | WrittenBack -> "written_back"
  | NotWrittenBack counter -> Printf.sprintf "not_written_back %d" counter
  | Renewed proves -> Printf.sprintf "renewed %d" (if proves then 1 else 0)
  | RenewedInQuarantine -> "renewed_in_quarantine"
  | Unlocked deleted -> Printf.sprintf "unlocked %d" deleted
  | RegisteredNow -> "registered"
  | InvalidCounter -> "invalid_counter"
  | NoReply -> "none"

let operation line = function
  | "lock", [l; ttl; hint] -> LockOp (int_of_string l, int_of_string ttl, int_of_string hint)
  | "write_back", [l; token] -> WriteBackOp (int_of_string l, int_of_string token)
  | "renew", [l; holds; ttl; token] ->
    RenewOp (int_of_string l, int_of_string holds, int_of_string ttl, int_of_string token)
  | "unlock", [l; leaves; rest] ->
    let leaves = List.nth [Never; IfMissing; Always] (int_of_string leaves) in
    UnlockOp (int_of_string l, leaves, if rest = "-" then None else Some (int_of_string rest))
  | "transfer", [l; ttl; hint; from; proof] ->
    let proof = if proof = "-" then None else Some (int_of_string proof) in
    TransferOp (int_of_string l, int_of_string ttl, int_of_string hint, int_of_string from, proof)
  | "register", [] -> RegisterOp
  | "restart", [incarnation] -> RestartOp (int_of_string incarnation)
  | "flush", [] -> FlushOp
  | "sweep", [] -> SweepOp
  | _ -> failwith ("no operation: " ^ line)

let data now node =
  let tombstone lease =
    let is_its_own (l, e) = l = lease && not (is_past now e) in
    or_none (fun (_, e) -> string_of_int e) (List.find_opt is_its_own node.d_tombstones) in
  let holder = function Writer l -> string_of_int l | Readers -> "readers" in
  let held = or_none (fun ((w, holds), e) -> Printf.sprintf "%s %d %d" (holder w) holds e) (held now node) in
  let run ((phase, epoch), ends) =
    let reader lease = or_none string_of_int (end_of lease ends) in
    Printf.sprintf "%d %d %s" phase epoch (String.concat " " (List.map reader (List.filter shares leases))) in
  String.concat "|"
    [held; or_none run (readers now node); pair (found now node); pair node.d_metadata; pair (quarantine now node);
     String.concat " " (List.map tombstone leases)]

let () =
  let file = open_in Sys.argv.(1) in
  let node = ref new_node and steps = ref 0 and different = ref 0 in
  let compare_step line =
    let head = List.hd (String.split_on_char '|' line) in
    match String.split_on_char ' ' head with
    | now :: incarnation :: name :: arguments ->
      let now = int_of_string now in
      let after, answer = execute shares parameters !node now (int_of_string incarnation) (operation line (name, arguments)) in
      node := after;
      let ours = String.concat "|" [head; text_of answer; data now after] in
      incr steps;
      if ours <> line then begin
        incr different;
        if !different <= max_shown then Printf.printf "pure node   %s\nproof       %s\n" line ours
      end
    | _ -> failwith ("no step: " ^ line) in
  (try
     while true do
       match input_line file with "new" -> node := new_node | line -> compare_step line
     done
   with End_of_file -> ());
  Printf.printf "%d steps compared, %d differ\n" !steps !different;
  exit (if !steps > 0 && !different = 0 then 0 else 1)
