//! Tests of the promise about registers: lost updates, accesses under old tokens, and accesses that keep
//! the promise.

use super::*;

/// Returns a history of accesses to one register, such as `"r1:33 w2"`. An access is `r` or `w`, or
/// `R` or `W` if it is refused, then the process, and after a colon the token.
fn register(accesses: &str) -> HistoryBuilder {
    let mut builder = HistoryBuilder::new();
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
        builder.note(process.parse().unwrap(), event);
    }
    builder
}

#[test]
fn ordered_accesses_lose_no_update() {
    for (accesses, why) in [
        ("r1:33 w1:33 r2:34 w2:34", "one lease after the other"),
        ("r1:33 r2:34 W1:33 w2:34", "a paused holder that is refused"),
        ("r1:33 w1:33 w1:33 r1:33 w1:33", "several accesses under one lease"),
        (
            "r1:33 w1:33 r2:34 w2:34 w1:35",
            "a lease without a read does not depend on the read of an older lease",
        ),
        ("w1 w2 w1", "writes without reads"),
        ("r1 w1 r2 w2 r1 w1", "accesses without tokens, in order by chance"),
        ("r1:33 w1 w1:33", "writes of one process, with and without a token"),
        ("r1:33 r2:34 R1:33 W1:33 w2:34", "two refused accesses"),
        ("r1:33 w2:33", "two processes under one lease"),
    ] {
        assert_eq!(register(accesses).violations(), [], "{why}");
    }
}

#[test]
fn a_stale_write_loses_an_update() {
    for (accesses, why) in [
        ("r1:33 r2:34 w2:34 w1:33", "a paused holder that is accepted"),
        ("r1 r2 w2 w1", "accesses without tokens"),
        ("r1:33 r2:34 w2:34 w1", "a read with a token, and a write without a token"),
        ("r1 r2:34 w2:34 w1:35", "a read without a token, and a write with a token"),
        ("r2:34 w1 w2:34", "a write of another process without a token"),
        ("r1:33 r2 w2 w2 w2 w1:33", "several writes after the read"),
        ("r1:35 w1:34 w1:35", "two leases of one process"),
        ("r1 w2 w1:35", "a write without a read is an update, too"),
        ("r1 w2 w3 w2 w1", "writes of several processes after the read"),
    ] {
        let violations = register(accesses).violations();
        let lost =
            violations.iter().filter(|violation| matches!(violation, Violation::LostUpdate { .. })).count();
        assert_eq!(lost, 1, "{why}: {violations:?}");
    }
}

#[test]
fn a_lost_update_is_described_by_its_read_the_lost_write_and_the_later_write() {
    let violation = register("r1:33 r2:34 w2:34 w1:33").assert_breaks_only(Promise::Register);
    assert_eq!(
        violation.to_string(),
        "an update of register \"balance\" was lost: read by process 1 under token 33 at 1.000 ms, \
         written by process 2 under token 34 at 3.000 ms, overwritten by process 1 under token 33 at 4.000 ms"
    );
}

#[test]
fn a_register_that_ignores_reads_is_detected_before_an_update_is_lost() {
    let violation = register("r1:33 r2:34 w1:33").assert_breaks_only(Promise::Register);
    assert_eq!(
        violation.to_string(),
        "register \"balance\" accepted an old token: after process 2 under token 34 at 2.000 ms, a \
         write of process 1 under token 33 at 3.000 ms"
    );
}

#[test]
fn a_read_after_a_write_of_a_later_lease_is_stale() {
    register("r1:33 w2:34 R1:33").assert_kept();
    register("r1:34 r2:33 r3").assert_kept();
    let violation = register("r1:33 w2:34 r3 r1:33").assert_breaks_only(Promise::Register);
    assert_eq!(
        violation.to_string(),
        "register \"balance\" accepted an old token: after process 2 under token 34 at 2.000 ms, a read of \
         process 1 under token 33 at 4.000 ms"
    );
}

#[test]
fn registers_are_independent() {
    let mut builder = register("r1 w1");
    let other = || resource("other");
    builder.note(2, Event::Written { register: other(), token: None, value: 0, is_accepted: true });
    builder
        .note(1, Event::Written { register: resource("balance"), token: None, value: 0, is_accepted: true });
    builder.assert_kept();
}
