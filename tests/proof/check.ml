(* Reads the traces of simulated runs (src/sim/world/proof_trace.rs), and checks with the program that was extracted from
   Trace.v whether the clients of each run take steps of the model.

   usage: check FILE...       prints the first rejected events and the number of runs, and fails if a run is rejected *)
open Trace

(* The clients of one run with the same nodes. *)
type quorum = {
  nodes : int; needed : int; drift_ppm : int; longest_ttl : int; timeout : int;
  (* The clock of the client of a lease, at the times of the events. *)
  clocks : (int * int, int) Hashtbl.t;
  mutable state : checked }

let max_shown = 5
let runs = ref 0 and events = ref 0 and rejected = ref 0

let reject run line reason =
  incr rejected;
  if !rejected <= max_shown then Printf.printf "%s: %s: %s\n" run reason line

let event = function
  | "begin", [l; ttl; proof] -> Began (l, ttl, if proof = 0 then None else Some proof)
  | "vote", [l; n; ttl; vote] -> Voted (l, n, ttl, vote)
  | "write_back", [l; n; token] -> WroteBack (l, n, token)
  | "grant", [l; token; until] -> Won (l, token, until)
  | "renewal", [l; ttl] -> RenewalBegan (l, ttl)
  | "renewed", [l; n; ttl] -> Renewed (l, n, ttl)
  | "extend", [l; until] -> Extended (l, until)
  | "end", [l] -> Ended l
  | "unlock", [l; n] -> Unlocked (l, n)
  | name, _ -> failwith ("no event: " ^ name)

(* Checks one run, up to the first event that is rejected. *)
let check_run run lines =
  incr runs;
  let quorums = Hashtbl.create 1 in
  let check_line line =
    match String.split_on_char ' ' line with
    | "quorum" :: name :: settings ->
      (match List.map int_of_string settings with
       | [nodes; needed; longest_ttl; timeout; drift_ppm] ->
         (match Hashtbl.find_opt quorums name with
          | None ->
            let clocks = Hashtbl.create 64 in
            Hashtbl.add quorums name
              { nodes; needed; drift_ppm; longest_ttl; timeout; clocks; state = first_state 0 }
          | Some q ->
            if (q.nodes, q.needed, q.drift_ppm, q.longest_ttl, q.timeout)
               <> (nodes, needed, drift_ppm, longest_ttl, timeout) then
              failwith ("the clients have different settings: " ^ line));
         if nodes >= 2 * needed then (reject run line "no majority"; raise Exit)
       | _ -> failwith ("no settings: " ^ line))
    | time :: clock :: name :: _ :: kind :: arguments ->
      let time = int_of_string time and arguments = List.map int_of_string arguments in
      let quorum = Hashtbl.find quorums name in
      Hashtbl.replace quorum.clocks (List.hd arguments, time) (int_of_string clock);
      let clock l t = try Hashtbl.find quorum.clocks (l, t) with Not_found -> 0 in
      let { nodes; needed; drift_ppm; longest_ttl; timeout; _ } = quorum in
      incr events;
      (match check nodes needed drift_ppm longest_ttl timeout clock quorum.state time (event (kind, arguments)) with
       | Some state -> quorum.state <- state
       | None -> reject run line "no step of the model"; raise Exit)
    | _ -> failwith ("no event: " ^ line) in
  try List.iter check_line lines with Exit -> ()

let check_file name =
  let file = open_in name in
  let run = ref "" and lines = ref [] in
  let finish () = if !run <> "" then check_run !run (List.rev !lines) in
  (try
     while true do
       let line = input_line file in
       if String.length line > 4 && String.sub line 0 4 = "run " then begin
         finish ();
         run := line;
         lines := []
       end else lines := line :: !lines
     done
   with End_of_file -> finish ());
  close_in file

let () =
  List.iter check_file (List.tl (Array.to_list Sys.argv));
  Printf.printf "%d runs with %d events, %d rejected\n" !runs !events !rejected;
  exit (if !runs > 0 && !rejected = 0 then 0 else 1)
