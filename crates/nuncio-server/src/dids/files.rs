//! The DID keys that earlier versions stored in files.

use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;

use super::DidSubject;
use super::base::{BASE_ENTRY, RecordedDidBaseUrl};
use super::own::DidHistory;
use crate::data::PrivateFiles;
use crate::error::OperatorError;
use crate::keyring::KeyFile;

/// Reads the files of a data directory, all of which must be valid.
pub(crate) fn key_files(files: &PrivateFiles, now: Timestamp) -> Result<Vec<KeyFile>, OperatorError> {
    let mut found = Vec::new();
    let mut read = |file: &str, name: &str, check: &dyn Fn(&[u8]) -> Result<(), String>| {
        let Some(bytes) = files.read(file)? else { return Ok(()) };
        let broken = |why: &str| files.broken(file, &format!("it is damaged: {why}"));
        check(&bytes).map_err(|why| broken(&why))?;
        let content = String::from_utf8(bytes).map_err(|_| broken("it is not text"))?;
        found.push(KeyFile { file: file.to_owned(), name: name.to_owned(), content });
        Ok::<_, OperatorError>(())
    };
    read("keys/home.json", BASE_ENTRY, &|bytes| RecordedDidBaseUrl::parse(bytes).map(drop))?;
    let mut subjects = vec![("keys/service.json".to_owned(), DidSubject::Service)];
    for stem in files.stems("keys/agents", ".json")? {
        if let Ok(name) = AgentName::parse(&stem) {
            subjects.push((format!("keys/agents/{stem}.json"), DidSubject::Agent(name)));
        }
    }
    for (file, subject) in subjects {
        read(&file, &subject.entry(), &|bytes| DidHistory::parse(&subject, bytes, 0, now).map(drop))?;
    }
    Ok(found)
}
