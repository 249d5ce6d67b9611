//! A batch of transfers, each under the locks of both accounts and the shared lock of the rates.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use redquorum::{Error, Fence, FencingToken, Quorum, error::StaleToken};

struct Transfer {
    from: u64,
    to: u64,
    cents: i64,
}

impl Transfer {
    async fn execute(&self, quorum: &Quorum, ledger: &Ledger) -> Result<Result<(), StaleToken>, Error> {
        let accounts = [self.from, self.to].map(account);
        let locks = quorum.multi_lock(accounts).and_read(["rates"]);
        locks
            .run(async |guard| {
                let token = guard.fencing_token(); // both accounts have one token
                ledger.add(self.from, -self.cents, token).await?;
                ledger.add(self.to, self.cents, token).await
            })
            .await
    }
}

/// Executes the transfers in order, and returns those for which no quorum answered.
async fn execute_all<'a>(
    quorum: &Quorum,
    ledger: &Ledger,
    batch: &'a [Transfer],
) -> anyhow::Result<Vec<&'a Transfer>> {
    let mut postponed = Vec::new();
    for transfer in batch {
        match transfer.execute(quorum, ledger).await {
            Err(Error::NoQuorum(_)) => postponed.push(transfer),
            outcome => outcome??,
        }
    }
    Ok(postponed)
}

fn account(number: u64) -> String {
    format!("account:{number}")
}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    run(super::in_memory()?).await
}

/// Executes two batches at once. Their transfers name the same accounts in opposite orders.
pub(crate) async fn run([first, second]: [Quorum; 2]) -> anyhow::Result<()> {
    let ledger = Ledger::default();
    let there: Vec<_> = (0..5).map(|_| Transfer { from: 1, to: 2, cents: 100 }).collect();
    let back: Vec<_> = (0..5).map(|_| Transfer { from: 2, to: 1, cents: 30 }).collect();

    // Both batches read the rates while another lease also reads them.
    let rates = second.rw_lock("rates").read().await?;
    let (first_postponed, second_postponed) =
        tokio::try_join!(execute_all(&first, &ledger, &there), execute_all(&second, &ledger, &back))?;
    assert!(first_postponed.is_empty() && second_postponed.is_empty(), "no quorum answered");
    assert_eq!([ledger.balance(1), ledger.balance(2)], [-350, 350]);
    rates.unlock().await?;

    // A transfer excludes a writer of the rates, and excludes another transfer of either account.
    let locks = first.multi_lock([1, 3].map(account)).and_read(["rates"]);
    let guard = locks.lock().await?;
    assert_eq!(guard.resources().len(), 3);
    assert!(second.rw_lock("rates").try_write().await?.is_none());
    assert!(second.multi_lock([3, 4].map(account)).try_lock().await?.is_none());
    assert!(second.red_lock(account(4)).try_lock().await?.is_some(), "a refused group holds a resource");
    guard.unlock().await?;
    Ok(())
}

/// A stand-in for a table: the balance of each account, with a fence.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<u64, (Fence, i64)>>>);

impl Ledger {
    fn balance(&self, account: u64) -> i64 {
        self.0.lock().unwrap().get(&account).map_or(0, |(_, balance)| *balance)
    }

    /// Adds to a balance by a read and a write, between which another task may run.
    async fn add(&self, account: u64, cents: i64, token: FencingToken) -> Result<(), StaleToken> {
        let before = self.balance(account);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut rows = self.0.lock().unwrap();
        let (fence, balance) = rows.entry(account).or_default();
        fence.write(token)?;
        *balance = before + cents;
        Ok(())
    }
}
