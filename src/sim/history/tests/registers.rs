//! Lost updates, and accesses that only resemble them.

use super::*;

/// Returns a history of accesses. Each is `r` or `w` (`R`, `W`: refused), the process, and after a
/// colon the token: `"r1:33 w2"`.
fn register(accesses: &str) -> Script {
    let mut script = Script::new();
    for access in accesses.split(' ') {
        let (kind, writer) = access.split_at(1);
        let (process, token) =
            writer.split_once(':').map_or((writer, None), |(process, token)| (process, Some(token)));
        let token = token.map(|token| super::token(token.parse().unwrap()));
        let register = resource("balance");
        let event = match kind {
            "r" => Event::Read { register, token, value: Some(0) },
            "R" => Event::Read { register, token, value: None },
            _ => Event::Written { register, token, value: 0, is_accepted: kind == "w" },
        };
        script.note(process.parse().unwrap(), event);
    }
    script
}

#[test]
fn accesses_of_one_writer_in_order_lose_no_update() {
    for (accesses, why) in [
        ("r1:33 w1:33 r2:34 w2:34", "one after the other"),
        ("r1:33 r2:34 W1:33 w2:34", "a paused holder that is refused"),
        ("r1:33 w1:33 w1:33 r1:33 w1:33", "one lease comes more than once"),
        (
            "r1:33 w1:33 r2:34 w2:34 w1:35",
            "a lease that reads nothing builds on nothing, whatever an older one read",
        ),
        ("w1 w2 w1", "nobody has read"),
        ("r1 w1 r2 w2 r1 w1", "careless, and lucky"),
        ("r1:33 w1 w1:33", "a process's own writes, with and without a token"),
        ("r1:33 r2:34 R1:33 W1:33 w2:34", "refused twice"),
        ("r1:33 w2:33", "a lease that is passed on"),
    ] {
        assert_eq!(register(accesses).broken(), [], "{why}");
    }
}

#[test]
fn a_stale_write_loses_an_update() {
    for (accesses, why) in [
        ("r1:33 r2:34 w2:34 w1:33", "a paused holder that is accepted"),
        ("r1 r2 w2 w1", "no tokens at all"),
        ("r1:33 r2:34 w2:34 w1", "a token is read with, and not written with"),
        ("r1 r2:34 w2:34 w1:35", "a token is written with, and not read with"),
        ("r2:34 w1 w2:34", "another writes without one"),
        ("r1:33 r2 w2 w2 w2 w1:33", "many times over"),
        ("r1:35 w1:34 w1:35", "two leases of one process"),
        ("r1 w2 w1:35", "a blind write is an update, too"),
        ("r1 w2 w3 w2 w1", "by several"),
    ] {
        let violations = register(accesses).broken();
        let lost =
            violations.iter().filter(|violation| matches!(violation, Violation::LostUpdate { .. })).count();
        assert_eq!(lost, 1, "{why}: {violations:?}");
    }
}

#[test]
fn the_evidence_names_the_read_the_lost_update_and_the_write() {
    let violation = register("r1:33 r2:34 w2:34 w1:33").breaks(Promise::Register);
    assert_eq!(
        violation.to_string(),
        "an update of register \"balance\" was lost: read by process 1 under token 33 at 1.000 ms, \
         written by process 2 under token 34 at 3.000 ms, overwritten by process 1 under token 33 at 4.000 ms"
    );
}

#[test]
fn a_register_without_claims_by_reads_is_caught_before_a_loss() {
    let violation = register("r1:33 r2:34 w1:33").breaks(Promise::Register);
    assert_eq!(
        violation.to_string(),
        "register \"balance\" accepted an old token: after process 2 under token 34 at 2.000 ms, a \
         write of process 1 under token 33 at 3.000 ms"
    );
}

#[test]
fn a_read_after_a_write_of_a_later_lease_is_stale() {
    register("r1:33 w2:34 R1:33").is_kept();
    register("r1:34 r2:33 r3").is_kept();
    let violation = register("r1:33 w2:34 r3 r1:33").breaks(Promise::Register);
    assert_eq!(
        violation.to_string(),
        "register \"balance\" accepted an old token: after process 2 under token 34 at 2.000 ms, a read of \
         process 1 under token 33 at 4.000 ms"
    );
}

#[test]
fn registers_are_independent() {
    let mut script = register("r1 w1");
    let other = || resource("other");
    script.note(2, Event::Written { register: other(), token: None, value: 0, is_accepted: true });
    script
        .note(1, Event::Written { register: resource("balance"), token: None, value: 0, is_accepted: true });
    script.is_kept();
}
