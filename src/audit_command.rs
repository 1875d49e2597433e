//! `stockade audit [SALE] [--repair]`: sets the books right if it is told to, checks them, prints what it did and found,
//! and says in its exit code whether they balance.

use crate::domain::SaleId;
use crate::store::{Store, StoreError};
use std::process::ExitCode;

/// The books balance.
const CLEAN: u8 = 0;
/// Some counter is not what records and ledger say.
const DRIFT: u8 = 1;
/// There was nothing to audit, or it could not be read.
const NOT_AUDITED: u8 = 2;

/// Repairs, if told to, and audits one sale, or all, and prints what it did and found.
pub async fn run(store: &Store, sale: Option<&SaleId>, repair: bool) -> ExitCode {
    ExitCode::from(match audited(store, sale, repair).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stockade: audit: {error}");
            NOT_AUDITED
        }
    })
}

/// There is nothing that could be read, and why.
pub fn not_audited(error: &anyhow::Error) -> ExitCode {
    eprintln!("stockade: audit: {error:#}");
    ExitCode::from(NOT_AUDITED)
}

async fn audited(store: &Store, sale: Option<&SaleId>, repair: bool) -> Result<u8, StoreError> {
    if repair {
        for done in store.repair_all(sale).await? {
            print!("{done}");
        }
    }
    let report = store.audit(sale).await?;
    if let Some(sale) = sale.filter(|_| report.sales == 0) {
        eprintln!("stockade: audit: there is no sale {sale}");
        return Ok(NOT_AUDITED);
    }
    println!("{report}");
    Ok(if report.is_clean() { CLEAN } else { DRIFT })
}
