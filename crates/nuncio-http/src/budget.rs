//! Limits the bytes of request bodies in memory. Unidentified callers share a quarter of the budget, and one address
//! has at most a quarter of that, so that incomplete bodies from one address cannot block other callers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory budget, in bytes, shared by all request bodies in the process.
#[derive(Debug)]
pub struct BodyBudget {
    total: usize,
    used: Mutex<UsedBodyBytes>,
}

#[derive(Debug, Default)]
struct UsedBodyBytes {
    all: usize,
    unidentified: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Account to which the bytes of a request body are charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyBudgetAccount {
    Identified,
    /// An unidentified caller, charged by client address if the address is known.
    Unidentified(Option<IpAddr>),
}

/// Bytes of one request body, charged to an account until dropped.
#[derive(Debug)]
pub(crate) struct ReservedBodyBytes {
    budget: Arc<BodyBudget>,
    account: BodyBudgetAccount,
    bytes: usize,
}

/// Error: the memory budget for request bodies is used up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodyBudgetExceededError;

impl BodyBudget {
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { total: bytes, used: Mutex::default() })
    }

    pub(crate) fn open(self: &Arc<Self>, account: BodyBudgetAccount) -> ReservedBodyBytes {
        ReservedBodyBytes { budget: Arc::clone(self), account, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, UsedBodyBytes> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedBodyBytes {
    /// Charges more bytes to the account; fails if that would exceed a limit.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), BodyBudgetExceededError> {
        let total = self.budget.total;
        let mut used = self.budget.lock();
        if used.all.saturating_add(bytes) > total {
            return Err(BodyBudgetExceededError);
        }
        if let BodyBudgetAccount::Unidentified(address) = self.account {
            if used.unidentified.saturating_add(bytes) > total / 4 {
                return Err(BodyBudgetExceededError);
            }
            if let Some(address) = address {
                let of_address = used.by_address.get(&address).copied().unwrap_or_default().saturating_add(bytes);
                if of_address > total / 16 {
                    return Err(BodyBudgetExceededError);
                }
                used.by_address.insert(address, of_address);
            }
            used.unidentified += bytes;
        }
        used.all += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for ReservedBodyBytes {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.budget.lock();
        used.all -= self.bytes;
        if let BodyBudgetAccount::Unidentified(address) = self.account {
            used.unidentified -= self.bytes;
            let left = address.and_then(|address| used.by_address.get_mut(&address)).map(|of_address| {
                *of_address -= self.bytes;
                *of_address
            });
            if let (Some(address), Some(0)) = (address, left) {
                used.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> BodyBudgetAccount {
        BodyBudgetAccount::Unidentified(Some(IpAddr::from([192, 0, 2, last])))
    }

    #[test]
    fn unidentified_callers_share_a_quarter_of_the_body_budget_and_an_address_a_sixteenth() {
        let budget = BodyBudget::new(1600);
        let mut held: Vec<_> = (0..5).map(|last| budget.open(address(last))).collect();
        for of_address in &mut held[..4] {
            assert_eq!(of_address.add(101), Err(BodyBudgetExceededError));
            assert_eq!(of_address.add(100), Ok(()));
            assert_eq!(of_address.add(1), Err(BodyBudgetExceededError));
        }
        assert_eq!(held[4].add(1), Err(BodyBudgetExceededError), "the quarter is used up");
        let mut known = budget.open(BodyBudgetAccount::Identified);
        assert_eq!(known.add(1200), Ok(()));
        assert_eq!(known.add(1), Err(BodyBudgetExceededError));
        drop(known);
        held.remove(0);
        assert_eq!(held[3].add(100), Ok(()));
    }

    #[test]
    fn dropped_request_body_returns_its_bytes_to_the_budget() {
        let budget = BodyBudget::new(1600);
        for account in [BodyBudgetAccount::Identified, BodyBudgetAccount::Unidentified(None), address(1)] {
            let mut held = budget.open(account);
            assert_eq!(held.add(50), Ok(()));
            assert_eq!(held.add(50), Ok(()));
            assert_eq!(held.add(2000), Err(BodyBudgetExceededError));
        }
        let used = budget.lock();
        assert_eq!((used.all, used.unidentified, used.by_address.len()), (0, 0, 0));
    }
}
