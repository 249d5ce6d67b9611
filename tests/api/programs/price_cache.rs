//! A price list that many instances read, and that one instance at a time refreshes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use redquorum::{Error, Fence, FencingToken, Quorum, RwLock, error::StaleToken};

/// The longest time for which a refresh waits for the lock.
const WAIT: Duration = Duration::from_secs(2);

struct Prices {
    lock: RwLock,
    table: Table,
}

impl Prices {
    /// Reads the list.
    async fn quote(&self) -> Result<u64, PricesError> {
        let list = self.lock.run_read(async |guard| self.table.read(guard.fencing_token()));
        Ok(list.await??)
    }

    /// Writes the next list and returns it, or `None` if the lock was not free in time.
    async fn refresh(&self) -> Result<Option<u64>, PricesError> {
        let Some(writer) = self.lock.try_write_for(WAIT).await? else {
            return Ok(None);
        };
        self.table.write_next(writer.fencing_token())?;
        let reader = writer.downgrade().await?; // other readers may read; no writer can lock in between
        let written = self.table.read(reader.fencing_token())?;
        reader.unlock().await?;
        Ok(Some(written))
    }
}

#[derive(Debug)]
enum PricesError {
    Lock(Error),
    Stale(StaleToken),
}

impl From<Error> for PricesError {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl From<StaleToken> for PricesError {
    fn from(error: StaleToken) -> Self {
        Self::Stale(error)
    }
}

impl std::fmt::Display for PricesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Stale(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PricesError {}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    run(super::in_memory()?).await
}

/// Reads and refreshes the list from two instances.
pub(crate) async fn run(clients: [Quorum; 2]) -> anyhow::Result<()> {
    let table = Table::default();
    let [first, second] =
        clients.map(|quorum| Prices { lock: quorum.rw_lock("prices"), table: table.clone() });

    assert_eq!(first.refresh().await?, Some(1));
    assert_eq!(second.refresh().await?, Some(2));

    // Readers share the lock. A refresh waits for the first reader until its time is over.
    let guard = first.lock.read().await?;
    assert_eq!(second.quote().await?, 2);
    assert_eq!(second.refresh().await?, None);
    let reader_token = guard.fencing_token();
    guard.unlock().await?;

    // A writer excludes readers, and its token makes earlier tokens stale.
    let guard = second.lock.write().await?;
    assert!(first.lock.try_read().await?.is_none());
    table.write_next(guard.fencing_token())?;
    guard.unlock().await?;
    let stale = table.read(reader_token).unwrap_err();
    assert_eq!(stale.given, reader_token);
    assert!(stale.latest > reader_token);

    let (one, other) = tokio::try_join!(first.quote(), second.quote())?;
    assert_eq!([one, other], [3, 3]);
    Ok(())
}

/// A stand-in for a table: one row with the list and the columns of a fence.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<(Fence, u64)>>);

impl Table {
    fn read(&self, token: FencingToken) -> Result<u64, StaleToken> {
        let (fence, list) = &mut *self.0.lock().unwrap();
        fence.read(token)?;
        Ok(*list)
    }

    fn write_next(&self, token: FencingToken) -> Result<(), StaleToken> {
        let (fence, list) = &mut *self.0.lock().unwrap();
        fence.write(token)?;
        *list += 1;
        Ok(())
    }
}
