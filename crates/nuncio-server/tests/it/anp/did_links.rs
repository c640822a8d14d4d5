//! DIDs that are linked to people.

use nuncio_core::ids::PersonName;
use nuncio_testkit::Gateway;

use super::world;
use crate::agents::DESK;

#[tokio::test]
async fn did_link_to_a_person_survives_a_restart_and_ends_when_removed() {
    let world = world().await;
    let (engine, did) = (world.gateway.engine(), world.ada.did.as_str());
    let person = |name: &str| PersonName::parse(name).unwrap();
    assert_eq!(engine.access().caller_by_did(did).person, None);
    engine.access().link_did(did, person("eve")).await.unwrap();
    engine.access().link_did(did, person("ada")).await.unwrap();
    assert_eq!(engine.access().caller_by_did(did).person, Some(person("ada")), "the last link counts");
    assert_eq!(engine.access().caller_by_did("did:wba:example.com").person, None);

    let data = world.gateway.stop().await;
    let builder = Gateway::builder().agent(DESK, &super::agent()).clock(&world.clock).dev().data(data);
    let after = builder.start().await;
    assert_eq!(after.engine().access().caller_by_did(did).person, Some(person("ada")));
    after.engine().access().unlink_did(did).await.unwrap();
    assert_eq!(after.engine().access().caller_by_did(did).person, None);
    assert!(after.engine().access().unlink_did(did).await.is_err());
}
