//! Verification of signatures by people's devices.

use nuncio_core::ErrorCode;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_core::signature::SignatureChecker as _;
use nuncio_core::time::Timestamp;

use crate::access::{AuthenticationMethod, Caller};
use crate::consent_error::{ConsentError, ConsentErrorDetails};
use crate::ed25519::Ed25519Verifier;
use crate::people::PersonService;

impl PersonService {
    /// The calling person and the valid device they use.
    pub(crate) async fn on_device(&self, by: &Caller) -> Result<(PersonName, Device), ConsentError> {
        let (Principal::Person(person), AuthenticationMethod::Device(id)) = (&by.principal, &by.authentication) else {
            let message = "only a person may do this, on one of their devices: send the access token of the device";
            return Err(ConsentError::new(ErrorCode::Unauthorized, message));
        };
        let device = self.valid_device(id).await?.filter(|device| device.person == *person);
        let device = device.ok_or_else(|| refused(id))?;
        Ok((person.clone(), device))
    }

    /// Checks a signed ledger entry. `expected` returns the entry that must have been signed, given its time. If the
    /// signature is missing or too old, or the entry is another one, the error is [`ErrorCode::ConsentUnsigned`] with the
    /// entry to sign.
    pub(crate) fn signed(
        &self,
        signed: Option<&LedgerEntry>,
        device: &Device,
        not_before: Timestamp,
        expected: impl Fn(Timestamp) -> LedgerEntry,
    ) -> Result<LedgerEntry, ConsentError> {
        let now = self.context.now().max(not_before);
        let to_sign = |why: &str| {
            let message = format!(
                "{why}: check the entry in params.entry, sign it with this device and repeat the request with it"
            );
            Err(ConsentError::with(
                ErrorCode::ConsentUnsigned,
                message,
                ConsentErrorDetails::Sign(Box::new(expected(now))),
            ))
        };
        let Some((signed, signature)) = signed.and_then(|entry| Some((entry, entry.signature?))) else {
            return to_sign("a consent must be signed");
        };
        let waited = signed.at.until(now);
        if signed.at < not_before || signed.at > now || waited > self.context.limits.consent.signing_window {
            return to_sign("the signed entry is too old, or its time is not this server's");
        }
        let entry = LedgerEntry { signature: Some(signature), ..expected(signed.at) };
        if entry != *signed {
            return to_sign(
                "the signed entry differs from the requested one, or the consent has changed since the entry was drafted",
            );
        }
        if !Ed25519Verifier.holds(&device.key, &entry.message(), &signature) {
            let message = format!("the signature is not valid under the key of device {}", device.id);
            return Err(ConsentError::new(ErrorCode::ConsentForged, message));
        }
        Ok(entry)
    }
}

pub(super) fn refused(id: &DeviceId) -> ConsentError {
    ConsentError::new(ErrorCode::DeviceRefused, format!("device {id} is not an enrolled device of this person"))
}
