//! A web service that charges invoices under a lock. The database of the service refuses stale tokens.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use redquorum::{Error, FencingToken, LockOptions, Quorum, error::InvalidToken};
use tokio::net::TcpListener;

use super::http::request;

const CHARGE: LockOptions = LockOptions::new().ttl(Duration::from_secs(10));

/// The longest time for which a request waits for the lock.
const WAIT: Duration = Duration::from_secs(2);

async fn charge(
    State(service): State<Arc<Service>>,
    Path(invoice): Path<i64>,
) -> Result<StatusCode, ApiError> {
    let lock = service.quorum.red_lock(format!("invoice:{invoice}")).options(CHARGE);
    let Some(guard) = lock.try_lock_for(WAIT).await? else {
        return Ok(StatusCode::CONFLICT); // another request charges the invoice
    };
    service.database.mark_paid(invoice, guard.fencing_token()).await?;
    guard.unlock().await?; // if the caller disconnects, the drop of this future drops the guard, which unlocks
    Ok(StatusCode::NO_CONTENT)
}

/// The HTTP status of each error of a lock.
impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoQuorum(_) => Self(StatusCode::SERVICE_UNAVAILABLE),
            Error::LeaseLost(_) => Self(StatusCode::CONFLICT),
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

fn routes(service: Arc<Service>) -> Router {
    Router::new().route("/invoices/{id}/charge", post(charge)).with_state(service)
}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    run(super::in_memory()?).await
}

/// Runs the service with the first client, and locks the same invoice with the second.
pub(crate) async fn run([own, rival]: [Quorum; 2]) -> anyhow::Result<()> {
    let service = Arc::new(Service { quorum: own.clone(), database: Database::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, routes(Arc::clone(&service))).into_future());
    let charge = || request(address, "POST", "/invoices/7/charge");

    assert_eq!(charge().await?.0, 204);
    let first = service.database.fence(7).await?;

    let guard = rival.red_lock("invoice:7").options(CHARGE).lock().await?;
    assert!(guard.fencing_token() > first);
    assert_eq!(charge().await?.0, 409, "two requests charged at once");
    let written = service.database.mark_paid(7, guard.fencing_token()).await;
    assert!(written.is_ok(), "the database refused the latest token");
    guard.unlock().await?;

    let late = service.database.mark_paid(7, first).await;
    assert!(late.is_err_and(|error| error.0 == StatusCode::CONFLICT), "a stale token was accepted");

    assert!(own.shutdown().await.is_complete());
    assert_eq!(charge().await?.0, 500, "a charge after the shutdown of the client");
    rival.shutdown().await;
    server.abort();
    Ok(())
}

struct Service {
    quorum: Quorum,
    database: Database,
}

struct ApiError(StatusCode);

/// A stand-in for the table `invoices`: the column `fence` by `id`.
#[derive(Default)]
struct Database(Mutex<BTreeMap<i64, i64>>);

impl Database {
    async fn mark_paid(&self, id: i64, token: FencingToken) -> Result<(), ApiError> {
        let update = "UPDATE invoices SET paid = true, fence = $2 WHERE id = $1 AND fence <= $2";
        match self.execute(update, &[id, token.into()]).await {
            0 => Err(ApiError(StatusCode::CONFLICT)), // a later lease was granted, and wrote
            _ => Ok(()),
        }
    }

    /// Returns the token of the row. The column has the type `i64`.
    async fn fence(&self, id: i64) -> Result<FencingToken, InvalidToken> {
        let column = self.0.lock().unwrap().get(&id).copied().unwrap_or_default();
        column.try_into()
    }

    /// Executes the only statement of this program, and returns the number of changed rows.
    async fn execute(&self, _update: &str, binds: &[i64; 2]) -> u64 {
        let [id, token] = *binds;
        let mut rows = self.0.lock().unwrap();
        let fence = rows.entry(id).or_default();
        let is_current = *fence <= token;
        if is_current {
            *fence = token;
        }
        is_current.into()
    }
}
